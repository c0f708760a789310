/* cudnn_graph.h - cuDNN's graphs of operations: a builder that owns every descriptor it makes, and
 * the choice of an engine. The first failure is kept, and later calls do nothing, so a graph is
 * described line by line and checked at its end. */
#ifndef PG_BACKEND_CUDNN_GRAPH_H
#define PG_BACKEND_CUDNN_GRAPH_H

#include <cudnn.h>
#include <pthread.h>

#include "backend/cuda/dnn_attend.h"

struct pg__dnn_lib {
    cudnnHandle_t h;                 /* of one stream */
    cudnnBackendDescriptor_t device; /* not NULL: plans are made for this description of one */
    pg__dnn_attend_plan *attends;    /* all that were made, in order */
};

void pg__dnn_attends_fini(struct pg__dnn_lib *lib);

#define PG_MAX_DESCRIPTORS 160
#define PG_MAX_CHOICES     48 /* engines that heuristics propose */

typedef struct pg__graph {
    cudnnBackendDescriptor_t owned[PG_MAX_DESCRIPTORS];
    size_t n;
    cudnnStatus_t status;
    cudnnStatus_t why;              /* why the last heuristic had nothing to propose */
    cudnnBackendDescriptor_t graph; /* one of them, as are the choices */
    cudnnBackendDescriptor_t choices[PG_MAX_CHOICES]; /* that keep what was promised of numbers */
    size_t n_choices, n_asked;                        /* n_asked: heuristics */
    cudnnBackendDescriptor_t plans[PG_MAX_CHOICES];   /* those that were made */
    size_t workspaces[PG_MAX_CHOICES];
    size_t taken;          /* of them */
    pthread_mutex_t *runs; /* one at a time; NULL: not joined yet */
} pg__graph;

typedef cudnnBackendDescriptor_t pg__desc;

pg__desc pg__graph_make(pg__graph *g, cudnnBackendDescriptorType_t type);
void pg__graph_set(pg__graph *g, pg__desc d, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t n, const void *values);
void pg__graph_link(pg__graph *g, pg__desc d, cudnnBackendAttributeName_t name, pg__desc to);
void pg__graph_finish(pg__graph *g, pg__desc d);

/* A tensor of up to 3 spatial dimensions whose channels lie next to each other. dims: rows,
 * channels, spatial. uid 0: it is never stored. */
pg__desc pg__graph_tensor(pg__graph *g, int64_t uid, cudnnDataType_t type, int64_t rank,
                          const int64_t *dims);

/* What the engines are asked for. */
typedef struct pg__graph_ask {
    const struct pg__dnn_lib *lib;
    const pg__dev_opts *opts;
    int is_float; /* float32 in memory */
} pg__graph_ask;

/* The operations together. */
void pg__graph_join(pg__graph *g, const struct pg__dnn_lib *lib, pg__desc *ops, int64_t n_ops);

/* Makes the plan of choice k, if it exists, an engine accepts it and it does not need too much
 * memory. The choices of the list that is always there are used if no better one has a plan. 0: it
 * failed; the status is unchanged. */
int pg__graph_make_plan(pg__graph *g, const pg__graph_ask *ask, size_t k);
void pg__graph_drop_plan(pg__graph *g, size_t k);

/* Queues the plan that was taken on the handle's stream; several threads may do so at once, each
 * with a handle of its own. */
cudnnStatus_t pg__graph_execute(const pg__graph *g, cudnnHandle_t h, pg__desc pack);

void pg__graph_fini(pg__graph *g);

#endif
