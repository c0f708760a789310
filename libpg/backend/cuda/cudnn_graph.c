/* cudnn_graph.c - see cudnn_graph.h. */
#include "backend/cuda/cudnn_graph.h"

#include <stdbool.h>

#define MAX_WORKSPACE ((int64_t)1 << 30)
#define MAX_CHOICES   24 /* engines that a heuristic proposes */
#define MAX_DIMS      5

pg__desc pg__graph_make(pg__graph *g, cudnnBackendDescriptorType_t type)
{
    pg__desc d = NULL;
    if (g->status == CUDNN_STATUS_SUCCESS && g->n == PG__MAX_DESCRIPTORS)
        g->status = CUDNN_STATUS_INTERNAL_ERROR;
    if (g->status == CUDNN_STATUS_SUCCESS)
        g->status = cudnnBackendCreateDescriptor(type, &d);
    if (g->status == CUDNN_STATUS_SUCCESS)
        g->owned[g->n++] = d;
    return d;
}

void pg__graph_set(pg__graph *g, pg__desc d, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    if (g->status == CUDNN_STATUS_SUCCESS)
        g->status = cudnnBackendSetAttribute(d, name, type, n, values);
}

void pg__graph_link(pg__graph *g, pg__desc d, cudnnBackendAttributeName_t name, pg__desc to)
{
    pg__graph_set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &to);
}

void pg__graph_finish(pg__graph *g, pg__desc d)
{
    if (g->status == CUDNN_STATUS_SUCCESS)
        g->status = cudnnBackendFinalize(d);
}

void pg__graph_fini(pg__graph *g)
{
    while (g->n > 0)
        (void)cudnnBackendDestroyDescriptor(g->owned[--g->n]);
}

/* Frees what was made since there were n, of which none is to be kept. */
static void forget(pg__graph *g, size_t n)
{
    while (g->n > n)
        (void)cudnnBackendDestroyDescriptor(g->owned[--g->n]);
}

pg__desc pg__graph_tensor(pg__graph *g, int64_t uid, cudnnDataType_t type, int64_t rank,
                          const int64_t *dims)
{
    const int64_t align = 16, id = uid ? uid : (int64_t)(1000 + g->n);
    const bool is_virtual = uid == 0;
    int64_t stride[MAX_DIMS], step = dims[1];
    pg__desc t = pg__graph_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    stride[1] = 1;
    for (int64_t k = rank; k-- > 2; step *= dims[k])
        stride[k] = step;
    stride[0] = step;
    pg__graph_set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    pg__graph_set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, dims);
    pg__graph_set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, stride);
    pg__graph_set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    pg__graph_set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    if (is_virtual)
        pg__graph_set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    pg__graph_finish(g, t);
    return t;
}

/* ---- engines ---- */

/* Notes that an engine must not bear. */
static int is_barred(const cudnnBackendNumericalNote_t *notes, int64_t n, const pg__dev_opts *opts,
                     int is_float)
{
    const int exact = is_float && opts->precision == PG__FLOAT32;
    for (int64_t k = 0; k < n; k++)
        switch (notes[k]) {
        case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
            if (opts->deterministic)
                return 1;
            break;
        case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: /* of float32, the first 10 bits */
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
            if (exact)
                return 1;
            break;
        case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return 1;
        default: break;
        }
    return 0;
}

static int may_take(pg__graph *g, pg__desc config, const pg__dev_opts *opts, int is_float)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    const size_t before = g->n;
    int64_t n = 0;
    pg__desc engine = pg__graph_make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    const int knows =
        engine &&
        cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 1, &n, &engine) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n,
                                 notes) == CUDNN_STATUS_SUCCESS;
    forget(g, before);
    return knows && !is_barred(notes, n, opts, is_float);
}

/* What a graph, a heuristic or a plan is made for. */
static void set_device(pg__graph *g, pg__desc d, const struct pg__dnn_lib *lib,
                       cudnnBackendAttributeName_t handle, cudnnBackendAttributeName_t device)
{
    if (lib->device)
        pg__graph_link(g, d, device, lib->device);
    else
        pg__graph_set(g, d, handle, CUDNN_TYPE_HANDLE, 1, &lib->h);
}

/* Makes the plan of one choice, if it can be made and does not want too much. */
static int try_choice(pg__graph *g, const struct pg__dnn_lib *lib, pg__desc config)
{
    const size_t before = g->n;
    int64_t n = 0, workspace = 0;
    pg__desc plan = pg__graph_make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    pg__graph_link(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    set_device(g, plan, lib, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
               CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
    pg__graph_finish(g, plan);
    if (g->status == CUDNN_STATUS_SUCCESS)
        g->status = cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                             CUDNN_TYPE_INT64, 1, &n, &workspace);
    if (g->status == CUDNN_STATUS_SUCCESS && workspace >= 0 && workspace <= MAX_WORKSPACE) {
        g->plan = plan;
        g->workspace = (size_t)workspace;
        return 1;
    }
    g->status = CUDNN_STATUS_SUCCESS; /* another one may do it */
    forget(g, before);
    return 0;
}

static void plan_by(pg__graph *g, const struct pg__dnn_lib *lib, const pg__dev_opts *opts,
                    int is_float, pg__desc graph, cudnnBackendHeurMode_t mode)
{
    pg__desc configs[MAX_CHOICES];
    int64_t n = 0;
    pg__desc heuristic = pg__graph_make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    pg__graph_link(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    pg__graph_set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (lib->device)
        pg__graph_link(g, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, lib->device);
    pg__graph_finish(g, heuristic);
    for (int k = 0; k < MAX_CHOICES; k++)
        configs[k] = pg__graph_make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->status == CUDNN_STATUS_SUCCESS)
        g->status =
            cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_CHOICES, &n, configs);
    for (int64_t k = 0; g->status == CUDNN_STATUS_SUCCESS && k < n && k < MAX_CHOICES; k++)
        if (may_take(g, configs[k], opts, is_float) && try_choice(g, lib, configs[k]))
            return;
}

void pg__graph_plan(pg__graph *g, const struct pg__dnn_lib *lib, const pg__dev_opts *opts,
                    int is_float, pg__desc *ops, int64_t n_ops)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    pg__desc graph = pg__graph_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    pg__graph_set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n_ops,
                  ops);
    if (!lib->device)
        pg__graph_set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &lib->h);
    pg__graph_finish(g, graph);
    for (size_t k = 0; !g->plan && k < sizeof modes / sizeof *modes; k++) {
        const cudnnStatus_t before = g->status;
        const size_t n = g->n;
        plan_by(g, lib, opts, is_float, graph, modes[k]);
        if (g->plan)
            return;
        forget(g, n);
        if (before == CUDNN_STATUS_SUCCESS && k == 0)
            g->status = before; /* the heuristic may fail where the list does not */
    }
    if (g->status == CUDNN_STATUS_SUCCESS)
        g->status = CUDNN_STATUS_NOT_SUPPORTED;
}
