/* graph_impl.h - between the files of the graph: graph.c, graph_build.c, graph_connect.c. */
#ifndef PG_MODEL_GRAPH_GRAPH_IMPL_H
#define PG_MODEL_GRAPH_GRAPH_IMPL_H

#include "model/graph/graph.h"

/* Builds all models of g from the outermost entry; g->root stays NULL if that has no layers. An
 * outermost entry with layers is a model, whatever its class. */
pg_status pg__graph_build(pg__graph *g, pg__layer *root, pg_err *err);

/* Fills in the calls, inputs and outputs of m from its entries, and checks that every reference
 * leads to a tensor and that there are no cycles. Models inside m must be connected already. */
pg_status pg__graph_connect(pg__model *m, pg_err *err);

#endif
