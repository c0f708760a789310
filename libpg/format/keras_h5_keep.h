/* keras_h5_keep.h - what a legacy output holds besides the plan's layers, tensors and texts:
 * versions, attributes of the user, top_level_model_weights. The writer and the proof use the same
 * list. */
#ifndef PG_FORMAT_KERAS_H5_KEEP_H
#define PG_FORMAT_KERAS_H5_KEEP_H

#include "format/fmt_keras_h5.h"

typedef struct pg__keep_attr {
    char *path;       /* of the object in the output; owned */
    pg__h5_attr attr; /* its values belong to the source file or are static */
    int of_data;      /* 1: of a dataset; it comes along if the dataset is linked */
} pg__keep_attr;

typedef struct pg__keep_data {
    char *path;   /* of the dataset in the output; owned */
    uint32_t obj; /* of the source file */
} pg__keep_data;

typedef struct pg__keep {
    int full;      /* 1: the output is a full model */
    const char *w; /* path of group W in the output: "" or "model_weights"; static */
    pg__keep_attr *attrs;
    size_t n_attrs, cap_attrs;
    pg__keep_data *data; /* datasets of top_level_model_weights */
    size_t n_data, cap_data;
    pg__keras_names top; /* weight_names of top_level_model_weights */
    int has_top;
    char backend_text[40], version_text[40]; /* for sources of other formats, and ... */
    const char *backend[1], *version[1];     /* ... what attrs point to */
} pg__keep;

/* Fills *out, which starts as {0}; release with pg__keep_fini(), also after a failure. It must not
 * outlive the plan's source. */
pg_status pg__keep_of(pg__keep *out, const pg__plan *plan, pg_err *err);
void pg__keep_fini(pg__keep *k);

/* Writes "base/name" (or name if base is "") into out (emptied before). */
pg_status pg__keep_path(pg__str *out, const char *base, const char *name, pg_err *err);

#endif
