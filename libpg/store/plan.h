/* plan.h - what to write: a list of output layers, each weight taken from one source weight.
 *
 * Recognisers and repairs only make plans; formats carry them out. A plan holds no tensor data and
 * borrows nothing but the source store, which must outlive it. */
#ifndef PG_STORE_PLAN_H
#define PG_STORE_PLAN_H

#include "store/store_impl.h"

typedef struct pg__plan_layer {
    char *name;      /* owned */
    size_t src;      /* layer of the source whose attributes it keeps, or PG_NONE */
    char *label;     /* path layout: name of the layer itself if src is PG_NONE; owned; or NULL */
    size_t first, n; /* its items */
} pg__plan_layer;

typedef struct pg__plan_item {
    size_t src; /* tensor number in the source store (weights and state, see store_impl.h) */
    char *name; /* name in the output; owned */
} pg__plan_item;

typedef struct pg__plan {
    pg_store *src;          /* borrowed */
    pg__plan_layer *layers; /* in output order */
    size_t n_layers, cap_layers;
    pg__plan_item *items; /* in output order, grouped by layer; without layers: a flat list */
    size_t n_items, cap_items;
    /* Texts of the output, owned; NULL: none. A format that cannot store one ignores it. */
    char *model_config, *training_config;
    size_t n_model_config, n_training_config;
    int keep_state; /* copy the source's state tensors, with their names, verbatim */
    /* Path layout: group of the source that becomes the root of the output, owned; NULL = its root.
     * Then state that the source stores among the layers (a template's own optimizer) is left
     * out. */
    char *root;
    /* Write everything but the tensors' bytes, which stay holes: to find out the layout of the
     * output. */
    int layout_only;
    /* For formats that can: larger tensors go into this file, which will be called so and lie
     * beside the output. Borrowed; NULL: all are in the output itself. */
    struct pg__sink *beside;
    const char *beside_name;
} pg__plan;

/* Whether state tensor i of the source (as pg_store_state() counts) goes into the output. */
int pg__plan_keeps_state(const pg__plan *p, size_t i);
size_t pg__plan_n_state(const pg__plan *p); /* how many do */

/* A plan starts as {.src = store} and is released with pg__plan_fini(); names are copied. */
pg_status pg__plan_add_layer(pg__plan *p, const char *name, size_t len, size_t src, pg_err *err);
pg_status pg__plan_add(pg__plan *p, size_t src, const char *name, pg_err *err);
pg_status pg__plan_set_text(pg__plan *p, pg_text which, const char *text, size_t n, pg_err *err);
void pg__plan_fini(pg__plan *p);

/* The identity: every layer and weight of src, its texts and state. */
pg_status pg__plan_copy_of(pg__plan *out, pg_store *src, pg_err *err);

#endif
