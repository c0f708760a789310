/* edit.h - a model description with a few of its words changed: layers that do not train, another
 * number of classes. All other bytes of the text stay what they were. */
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

/* "trainable" of layers by patterns, "conv*,!conv5*": the last one that matches a layer, or a model
 * that it stands in, counts; '!' says that it trains. Layers of models in models may be called
 * "outer/inner" too. PG_E_ARG: a pattern that matches none, with a name that may have been meant.
 */
pg_status pg__edit_freeze(pg__edits *out, const pg__graph *g, const char *patterns, pg_err *err);

/* The layer that decides how many numbers output `k` of the model has: a Dense layer or a
 * convolution, or a TimeDistributed one; activations, Dropout, global pooling and a Reshape that
 * ends with that number may follow it. PG_E_UNSUPPORTED says what stands there instead. */
typedef struct pg__head {
    const pg__layer *layer;
    const pg__layer *activation, *reshape; /* the last ones behind it, or NULL */
} pg__head;
pg_status pg__head_of(pg__head *out, const pg__graph *g, size_t k, pg_err *err);

/* That layer gets so many units (or filters), and, where `name` is not NULL, this activation. */
pg_status pg__edit_head(pg__edits *out, const pg__graph *g, size_t k, uint64_t units,
                        const char *name, pg_err *err);

/* *g is the graph of the edited text then; on failure it stays what it was. */
pg_status pg__edits_apply(pg__graph **g, pg__edits *e, pg_err *err);

#endif
