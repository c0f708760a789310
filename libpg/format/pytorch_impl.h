/* pytorch_impl.h - shared by the files that read PyTorch's pickles: pytorch_values.c and
 * pytorch_numpy.c (one tensor), pytorch_walk.c (containers), pytorch_parts.c (the parts of a
 * checkpoint), pytorch_tree.c (the requested part). */
#ifndef PG_FORMAT_PYTORCH_IMPL_H
#define PG_FORMAT_PYTORCH_IMPL_H

#include "format/pytorch.h"

/* The purpose of a global (pg__pk_global.use); the bits above are a pg_dtype. */
enum {
    PG_PT_OTHER = 1, /* harmless; its contents are ignored */
    PG_PT_TENSOR,
    PG_PT_TENSOR_V3,
    PG_PT_PARAMETER, /* around a tensor */
    PG_PT_FROM_TYPE, /* the function and arguments of a tensor, for a subclass */
    PG_PT_STORAGE,
    PG_PT_UNTYPED, /* a storage of bytes */
    PG_PT_DTYPE,
    PG_PT_ENCODE,   /* bytes as protocol 2 writes them: a text and the name of its encoding */
    PG_PT_NDARRAY,  /* its state says what it is */
    PG_PT_NDBUFFER, /* the same from protocol 5 on: its arguments do */
    PG_PT_NDTYPE,
    PG_PT_NDSCALAR,
    PG_PT_BYTES
};

/* 1 also for tensors that libpg does not read (sparse, meta, complex NumPy arrays): reading them
 * fails with their names. */
int pg__pt_is_tensor(const pg__pickle *p, const pg__pk_value *v);
pg_status pg__pt_read_tensor(pg__pt_tensor *t, const pg__pickle *p, const pg__pk_value *v,
                             pg_err *err);
/* 1 if it is a parameter, or its gradient was wanted. */
int pg__pt_is_trained(const pg__pickle *p, const pg__pk_value *v);
/* The use of a value that is, or calls, a global on the list; else 0. */
int pg__pt_use(const pg__pickle *p, const pg__pk_value *v);

/* pytorch_cut.c: a DTensor or a ShardedTensor, of which the file has the part of one process.
 * pg__pt_read_tensor() reads that part. */
typedef struct pg__pt_cut {
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK], start[PG_MAX_RANK], size[PG_MAX_RANK];
    int empty;           /* the process has no part of it */
    int knows_who;       /* `who` is the number of the process */
    uint64_t who, world; /* world: of how many, at least; 0: unknown */
} pg__pt_cut;

int pg__pt_is_cut(const pg__pickle *p, const pg__pk_value *v);
pg_status pg__pt_read_cut(pg__pt_cut *out, const pg__pickle *p, const pg__pk_value *v, pg_err *err);
/* Its part: a tensor, or NULL if it is empty; then *type is the global of its type. */
pg_status pg__pt_local_of(const pg__pk_value **out, const pg__pk_value **type, const pg__pickle *p,
                          const pg__pk_value *v, pg_err *err);
const pg__pk_foreign *pg__pt_cut_class(const pg__pickle *p, const pg__pk_value *v);

/* pytorch_numpy.c: an array of numbers, whose bytes are in the pickle. */
int pg__pt_is_array(const pg__pickle *p, const pg__pk_value *v);
pg_status pg__pt_read_array(pg__pt_tensor *t, const pg__pickle *p, const pg__pk_value *v,
                            pg_err *err);

/* The value of a NumPy scalar; 0 if v is not a scalar, or not a number. */
int pg__pt_scalar(double *out, const pg__pickle *p, const pg__pk_value *v);

/* ---- pytorch_walk.c ---- */

/* A walk over values. They may form cycles, and one container may be on very many paths: depth and
 * steps are limited. */
typedef struct pg__pt_walk {
    const pg__pickle *p;
    size_t steps;         /* left */
    uint32_t *seen, turn; /* of each value: the last count that met it */
    unsigned char *forms; /* of each value: pytorch_parts.c's answer, or 0 */
    pg_err *err;
} pg__pt_walk;

pg_status pg__pt_walk_begin(pg__pt_walk *w, const pg__pickle *p, pg_err *err);
void pg__pt_walk_end(pg__pt_walk *w);
/* One step; PG_E_LIMIT if there were too many. */
pg_status pg__pt_step(pg__pt_walk *w);

/* Members of a dictionary or list, one after the other; in a list, key is NULL and `index` the
 * place. Any other value has no members. */
typedef struct pg__pt_entries {
    const pg__pickle *p;
    const pg__pk_value *of, *key, *value;
    uint32_t next, step, index;
} pg__pt_entries;

pg__pt_entries pg__pt_entries_of(const pg__pickle *p, const pg__pk_value *v);
int pg__pt_next(pg__pt_entries *e);
/* The key as a component of a path, shown as it is. PG_E_UNSUPPORTED if it is neither text nor a
 * whole number. */
pg_status pg__pt_add_key(pg__str *out, const pg__pt_entries *e, pg_err *err);

/* Tensors below v, without repeats, also in objects of foreign classes; a bare storage counts as
 * one. */
pg_status pg__pt_count(pg__pt_walk *w, const pg__pk_value *v, uint64_t *n);

/* "models.yolo.Model", fit to be shown. */
typedef struct pg__pt_class {
    char s[160];
} pg__pt_class;
pg__pt_class pg__pt_class_of(const pg__pk_foreign *f);
/* 1 for a function or class of torch itself. */
int pg__pt_is_of_torch(const pg__pk_foreign *f);
/* Fails with the message that only Python can build such an object, and what to do. */
pg_status pg__pt_fail_foreign(const pg__pk_foreign *f, pg_err *err);

/* The value at a path ("model.encoder", "models.0", "." for p's root), and the containers on the
 * way, root first. Keys may contain dots, so one text may be several paths: `want`, unless it is
 * NULL, is the intended value; *several says that the path leads to others, too. *found is NULL if
 * it leads nowhere. PG_E_LIMIT. */
typedef struct pg__pt_way {
    const pg__pk_value *at[PG_PT_DEPTH];
    size_t n;
} pg__pt_way;
pg_status pg__pt_find(const pg__pk_value **found, int *several, pg__pt_walk *w, const char *path,
                      const pg__pk_value *want, pg__pt_way *way);

/* ---- pytorch_parts.c ---- */

/* 1 if the form of v shows that it belongs to training; *kind then says what it is. */
int pg__pt_is_training(pg__pt_kind *kind, pg__pt_walk *w, const pg__pk_value *v);

/* One element, whatever the rank. */
int pg__pt_is_number(const pg__pt_tensor *t);

/* Lists the parts of p. */
pg_status pg__pt_list_parts(pg__pt_parts *out, pg__pt_walk *w);

#endif
