/* store_impl.h - how formats and tests fill a pg_store, and what writers need from one. */
#ifndef PG_STORE_STORE_IMPL_H
#define PG_STORE_STORE_IMPL_H

#include "io/sink.h"
#include "pg/store.h"

/* Weights and state share one numbering here: tensor i < n_weights is weight i, the rest are
 * state. */
typedef struct pg__store_io {
    /* Raw bytes as in the file (its byte order), row-major. */
    pg_status (*read)(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err);
    void (*close)(void *ctx);
    /* Copies a whole tensor to byte off of sink and checks it on the way; NULL: copied by extents
     * or read(). */
    pg_status (*copy)(void *ctx, size_t tensor, pg__sink *sink, uint64_t off, pg_err *err);
    /* For tensors without an extent, since they are checked while they are read: the descriptor
     * and offset of their bytes, row-major and in the file's byte order, or -1; NULL: never. */
    int (*place)(void *ctx, size_t tensor, uint64_t *off_bytes);
    /* See pg__store_find_object(); of path NULL: any number but PG_NONE if there is a graph. NULL:
     * there never is. */
    size_t (*find_object)(const void *ctx, const char *path);
    const char *(*inner_object)(const void *ctx); /* see pg__store_inner_object() */
    /* See pg_store_pieces(); NULL: all tensors are whole. */
    pg_pieces (*pieces)(const void *ctx, size_t tensor);
} pg__store_io;

/* Where a tensor's raw bytes lie, for copying without reading; io == NULL: only through read(). */
typedef struct pg__extent {
    pg__io *io; /* borrowed from the store */
    uint64_t off;
} pg__extent;

/* pg_store_format() of a store that shows what a conversion will write
 * (wrap/convert/convert_outline.c). Its metadata is already that of the output. */
#define PG_CONVERTED "converted"

/* Empty store that owns ctx from now on (closed by pg_store_close); io may be NULL (no data).
 * format is a static string, see pg_store_format(). On failure the caller still owns ctx. */
pg_status pg__store_new(pg_store **out, const char *format, const pg__store_io *io, void *ctx,
                        pg_err *err);

/* Gives a store that was made without io its reader, and with it ctx: for formats in which nothing
 * can fail after that. Before it the caller owns ctx. */
void pg__store_own(pg_store *s, const pg__store_io *io, void *ctx);
void *pg__store_ctx(const pg_store *s); /* for the format that made it */

/* Appends a layer; following weights belong to it. The name is copied. */
pg_status pg__store_add_layer(pg_store *s, const char *name, pg_err *err);

/* Have both the same rank and dimensions? */
int pg__same_shape(const pg_weight *a, const pg_weight *b);

typedef struct pg__tensor_desc {
    const char *name;
    pg_dtype dtype;
    int big_endian;
    uint32_t rank;
    const uint64_t *dims;
    pg__extent extent;
} pg__tensor_desc;

/* Appends a weight to the last layer (without any layer: PG_NONE), or a state tensor. All weights
 * come before all state. Computes n_bytes with overflow checks. */
pg_status pg__store_add_weight(pg_store *s, const pg__tensor_desc *d, pg_err *err);
pg_status pg__store_add_state(pg_store *s, const pg__tensor_desc *d, pg_err *err);

/* Copies. n = strlen for text. */
pg_status pg__store_set_text(pg_store *s, pg_text which, const char *text, size_t n, pg_err *err);
pg_status pg__store_set_writer(pg_store *s, const char *writer, pg_err *err);
pg_status pg__store_set_ranks(pg_store *s, const char *who, pg_err *err);
pg_status pg__store_set_n_ranks(pg_store *s, uint64_t n, pg_err *err); /* "saved by 4 ranks" */
/* kind: a static string. See pg_rank_count; at most PG_MAX_RANK_COUNTS. */
#define PG_MAX_RANK_COUNTS 8u
void pg__store_add_rank_count(pg_store *s, const char *kind, uint64_t n);
pg_status pg__store_set_damage(pg_store *s, const char *what, pg_err *err);
pg_status pg__store_set_others(pg_store *s, const char *what, pg_err *err);
pg_status pg__store_set_beside(pg_store *s, const char *what, size_t n, pg_err *err);
pg_status pg__store_add_part(pg_store *s, const pg_part *part, pg_err *err); /* copies the path */
pg_status pg__store_set_path(pg_store *s, const char *path, pg_err *err);
const char *pg__store_path(const pg_store *s); /* as opened; "" if never set */
/* What the caller of pg_store_open() named, which may be the folder around that path. */
pg_status pg__store_set_asked(pg_store *s, const char *path, pg_err *err);
const char *pg__store_asked(const pg_store *s); /* "" if never set */

/* See pg_open_opts.n_threads; at least 1. */
void pg__store_set_threads(pg_store *s, size_t n);
size_t pg__store_threads(const pg_store *s);

/* 1 if the file has a graph of the objects that held its tensors, as TensorFlow writes; then the
 * tensor that a path from the model leads to ("layer-1/cell/kernel"), or PG_NONE. */
int pg__store_has_objects(const pg_store *s);
size_t pg__store_find_object(const pg_store *s, const char *path);
/* The path of the only layer of the model that holds variables, if it is a model itself, as in a
 * wrapper; else NULL. Borrowed. */
const char *pg__store_inner_object(const pg_store *s);

/* The file that the bytes come from, referenced; NULL if there is none, or more than one. */
void pg__store_set_source(pg_store *s, pg__io *io);
pg__io *pg__store_source(const pg_store *s);

/* For writers, tensor numbers as above. */
size_t pg__store_n_tensors(const pg_store *s);
const pg_weight *pg__store_tensor(const pg_store *s, size_t tensor);
int pg__store_big_endian(const pg_store *s, size_t tensor);
pg__extent pg__store_extent(const pg_store *s, size_t tensor);
int pg__store_place(const pg_store *s, size_t tensor, uint64_t *off_bytes);
pg_status pg__store_read_raw(pg_store *s, size_t tensor, uint64_t off, void *buf, size_t n,
                             pg_err *err);

/* Where reading is dear, who copies a tensor of at least PG_SUM_LEAST bytes keeps the XXH64 of its
 * raw bytes here, and the proof need not read it again: 1 if that is wanted; 1 if it is known. */
void pg__store_keep_sums(pg_store *s);
int pg__store_keeps_sum(const pg_store *s, size_t tensor);
void pg__store_set_sum(pg_store *s, size_t tensor, uint64_t sum);
int pg__store_sum(const pg_store *s, size_t tensor, uint64_t *sum);

/* 1 if the store copies tensors itself, with pg__store_copy(). */
int pg__store_copies(const pg_store *s);
pg_status pg__store_copy(pg_store *s, size_t tensor, pg__sink *sink, uint64_t off, pg_err *err);

#endif
