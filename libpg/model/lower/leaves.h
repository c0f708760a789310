/* leaves.h - the layers of a model that hold variables themselves, in the order of get_weights().
 */
#ifndef PG_MODEL_LOWER_LEAVES_H
#define PG_MODEL_LOWER_LEAVES_H

#include "model/lower/vars.h"

/* A layer that is not itself a model, depth first, `layers` order, InputLayers skipped; a layer
 * shared by several calls appears once. */
typedef struct pg__leaf {
    const pg__layer *layer;
    size_t top;         /* index of the top-level layer of the model that holds it */
    const char *parent; /* name of the nested model that holds it, "" for the root */
    int trainable;      /* the layer and all models around it are trainable */
    pg__vars vars;
} pg__leaf;

typedef struct pg__leaves {
    pg__leaf *v;
    size_t n, cap;
    size_t n_vars;
    int all_known;
} pg__leaves;

pg_status pg__leaves_of(pg__leaves *out, const pg__model *m, int dialect, pg_err *err);
void pg__leaves_fini(pg__leaves *l);

/* Fills in the dimensions that no layer's own config says but the description does, as far as the
 * shapes of its inputs lead (widths.c). pg__leaves_of() does it. */
pg_status pg__leaves_widths(pg__leaves *l, const pg__model *m, int dialect, pg_err *err);

/* The leaves below one top-level layer: a view into l, not to be released. */
pg__leaves pg__leaves_below(const pg__leaves *l, size_t top);

/* Order in which Keras stores a model called as one layer: all trainable variables of the leaves,
 * then the rest. Fills leaf[] and var[] of n_vars entries. */
void pg__expected_order(const pg__leaves *leaves, size_t *leaf, size_t *var);

#endif
