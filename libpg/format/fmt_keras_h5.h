/* fmt_keras_h5.h - the legacy layout (weights-only and full .h5 of Keras 1.x to 2.15, full .h5 of
 * Keras 3): what the reader (fmt_keras_h5.c) keeps for the writer (keras_h5_write.c). */
#ifndef PG_FORMAT_FMT_KERAS_H5_H
#define PG_FORMAT_FMT_KERAS_H5_H

#include "base/str.h"
#include "format/fmt_h5.h"

/* A list of names as attributes hold it: `key`, or `key`0, `key`1 ... */
typedef struct pg__keras_names {
    const char **v; /* owned; the strings belong to the file */
    size_t n;
    int present;      /* 0: there is no such attribute */
    int chunked;      /* 1: numbered parts, which are fixed strings in every version */
    pg__h5_class cls; /* of the strings; PG_H5_STR_FIXED for an empty list */
} pg__keras_names;

/* Reads and checks a list: one dimension, strings or empty, not both plain and numbered, no gap in
 * the numbers, no two names of one place, every name a relative path without "." and "..".
 * PG_E_FORMAT names object, attribute and entry. Release with pg__keras_names_fini(), also after a
 * failure. */
pg_status pg__keras_names_read(pg__keras_names *out, const pg__h5 *h5, uint32_t obj,
                               const char *key, pg_err *err);
void pg__keras_names_fini(pg__keras_names *n);

/* 1 if attr is `key` or one of its numbered parts. */
int pg__keras_is_part(const char *attr, const char *key);

/* What belongs to an open legacy file besides the store's own lists. Objects are numbers in h5. */
typedef struct pg__keras_h5 {
    pg__h5 *h5;
    pg__io *io;
    int full;           /* 1: group W is /model_weights */
    uint32_t w;         /* group W */
    uint32_t top;       /* its group top_level_model_weights, or PG_H5_NONE */
    uint32_t optimizer; /* /optimizer_weights, or PG_H5_NONE */
    uint32_t *layers;   /* group of each layer of the store */
    size_t n_layers, cap_layers;
    uint32_t *tensors; /* dataset of each tensor of the store */
    size_t n_tensors, cap_tensors;
    pg__h5_class names; /* how this file's writer stores lists that it does not cut */
} pg__keras_h5;

/* The file behind a store of this format, NULL for any other store. */
const pg__keras_h5 *pg__keras_h5_of(const pg_store *s);

/* Writing, and the check of what was written (keras_h5_write.c, keras_h5_keep.c). */
pg_status pg__keras_h5_write(pg__sink *sink, const pg__plan *plan, pg_err *err);
pg_status pg__keras_h5_verify(pg_store *out, const pg__plan *plan, pg_err *err);

#endif
