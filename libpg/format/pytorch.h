/* pytorch.h - what PyTorch's pickles mean: which values are tensors and which of them are the
 * model's. fmt_pytorch.c reads the container around the pickle. */
#ifndef PG_FORMAT_PYTORCH_H
#define PG_FORMAT_PYTORCH_H

#include "base/limits.h"
#include "base/pickle.h"
#include "base/str.h"
#include "store/strided.h"

#define PG_PT_DEPTH (PG_LIMIT_PICKLE_DEPTH + 2u) /* containers in containers, and the root */

/* Functions and classes that appear in state_dicts and checkpoints. */
extern const pg__pk_global pg__pt_globals[];

/* A storage: an array of which tensors are views, kept beside the pickle or (NumPy's arrays) in
 * it. */
typedef struct pg__pt_storage {
    const char *key; /* name of its data, n_key bytes in the pickle; if it is in the pickle: the
                        data itself */
    uint32_t n_key;
    size_t size; /* of an element; 1 for bytes without a type */
    uint64_t n;  /* elements */
    int pairs;   /* of complex numbers: two elements are one */
    int inside;  /* the data is in the pickle */
    int latin1;  /* ... each byte as the character with that number, in UTF-8 */
} pg__pt_storage;

typedef struct pg__pt_tensor {
    size_t name; /* where it begins in the tree's names */
    pg_dtype dtype;
    int pairs; /* complex numbers; the last dimension is the real and the imaginary part */
    int big_endian;
    pg__strided view;
    pg__pt_storage storage;
    uint32_t cut; /* the value that says of what it is a part, pg__pt_read_cut(); 0: a whole one */
} pg__pt_tensor;

typedef enum pg__pt_kind {
    PG_PT_MODEL,   /* tensors under names */
    PG_PT_SCALARS, /* the same, but each is a single number: metrics, or a very small model */
    PG_PT_LOOSE,   /* a tensor beside models */
    PG_PT_NUMBER,  /* the same, a single number: a loss, a step */
    PG_PT_OBJECT,  /* an object of a foreign class that holds tensors, or a bare storage */
    PG_PT_OPTIMIZER,
    PG_PT_SCHEDULER,
    PG_PT_SCALER,
    PG_PT_RANDOM
} pg__pt_kind;

typedef struct pg__pt_part {
    pg__pt_kind kind;
    size_t path; /* where it begins in the texts */
    uint32_t value;
    uint64_t n_tensors, n_params;
    int by_name; /* its key is one that models usually have */
    int whole;   /* all others together, ".": -1 likelier than each of them, 1 less likely */
} pg__pt_part;

typedef struct pg__pt_parts {
    pg__str texts;
    pg__pt_part *v;
    size_t n, cap;
} pg__pt_parts;

/* In the message of a PG_E_UNSUPPORTED: no tensor of the file could be a model's. pg_find() leaves
 * such files out by it. */
#define PG_PT_NO_MODEL "not a model"

/* A number beside the model, and where in `others` its value is inserted. */
typedef struct pg__pt_aside {
    size_t at;
    pg__pt_tensor t;
} pg__pt_aside;

typedef struct pg__pt_tree {
    pg__str names; /* each with its NUL */
    pg__pt_tensor *list;
    size_t n, cap;
    pg__str others;        /* what else the file holds: "optimizer (14 tensors), epoch 3" */
    pg__pt_aside *numbers; /* in the order of their places */
    size_t n_numbers, cap_numbers;
    pg__pt_parts parts;
} pg__pt_tree;

/* Finds the tensors of a part ("model", "nets.0", "." for all, "" for none), or, if that is NULL,
 * those of the only part that can be the model. PG_E_AMBIGUOUS if there are several, or tensors
 * beside it that belong to no optimizer, scheduler, scaler or random state and are more than single
 * numbers. Views are checked against their storages. Messages name the tensor. */
pg_status pg__pt_tree_read(pg__pt_tree *out, const pg__pickle *p, const char *part, pg_err *err);
void pg__pt_tree_fini(pg__pt_tree *t);

/* "model", "optimizer" ...: static. */
const char *pg__pt_kind_name(pg__pt_kind k);

/* The storage that value v is, if it is one; PG_E_FORMAT, PG_E_UNSUPPORTED. dtype may be NULL; for
 * bytes without a type it is unchanged. */
pg_status pg__pt_storage_of(pg__pt_storage *out, pg_dtype *dtype, const pg__pickle *p,
                            const pg__pk_value *v, pg_err *err);

/* The number in the bytes of an element, little-endian; 0 for types that C lacks. */
int pg__pt_number(double *out, pg_dtype dtype, const unsigned char *bytes);

/* The bytes of a storage that is in the pickle; out has room for n * size of them. PG_E_FORMAT if
 * there are not that many. */
pg_status pg__pt_copy_inside(unsigned char *out, const pg__pt_storage *s, pg_err *err);

#endif
