/* edit.h - edits a model description: freezes layers, changes the number of classes. All other
 * bytes of the text stay the same. */
#ifndef PG_MODEL_GRAPH_EDIT_H
#define PG_MODEL_GRAPH_EDIT_H

#include "model/graph/graph.h"

/* Bytes [off, off + n) of the graph's text become `text`. */
typedef struct pg__edit {
    size_t off, n;
    char *text;
} pg__edit;

typedef struct pg__edits {
    pg__edit *v;
    size_t n, cap;
} pg__edits;
void pg__edits_fini(pg__edits *e);

/* Sets "trainable" of layers by patterns, "conv*,!conv5*". The last pattern that matches a layer,
 * or a model around it, counts; '!' means that it trains. Layers of nested models also match as
 * "outer/inner". PG_E_ARG: a pattern matches no layer; the message suggests a name. */
pg_status pg__edit_freeze(pg__edits *out, const pg__graph *g, const char *patterns, pg_err *err);

/* Finds the layer that decides how many numbers output `k` of the model has: a Dense layer or a
 * convolution, or a TimeDistributed one. Activations, Dropout, global pooling and a Reshape that
 * ends with that number may follow it. PG_E_UNSUPPORTED names the layer that is there instead. */
typedef struct pg__head {
    const pg__layer *layer;
    const pg__layer *activation, *reshape; /* layers after it, or NULL */
} pg__head;
pg_status pg__head_of(pg__head *out, const pg__graph *g, size_t k, pg_err *err);

/* Gives that layer so many units (or filters) and, if `name` is not NULL, this activation. */
pg_status pg__edit_head(pg__edits *out, const pg__graph *g, size_t k, uint64_t units,
                        const char *name, pg_err *err);

/* Then *g is the graph of the edited text; on failure it is unchanged. */
pg_status pg__edits_apply(pg__graph **g, pg__edits *e, pg_err *err);

#endif
