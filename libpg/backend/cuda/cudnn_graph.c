/* cudnn_graph.c - see cudnn_graph.h. */
#include "backend/cuda/cudnn_graph.h"

#include <stdbool.h>

#include "base/mem.h"

#define MAX_WORKSPACE ((int64_t)1 << 30)
#define MAX_PROPOSALS 24 /* engines of one heuristic */
#define MAX_DIMS      5

pg__desc pg__graph_make(pg__graph *g, cudnnBackendDescriptorType_t type)
{
    pg__desc d = NULL;
    if (g->status == CUDNN_STATUS_SUCCESS && g->n == PG_MAX_DESCRIPTORS)
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
    for (size_t k = 0; k < PG_MAX_CHOICES; k++)
        pg__graph_drop_plan(g, k);
    while (g->n > 0)
        (void)cudnnBackendDestroyDescriptor(g->owned[--g->n]);
    if (g->runs)
        (void)pthread_mutex_destroy(g->runs);
    pg__mem_free(g->runs);
    g->runs = NULL;
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
    const int exact = is_float && opts->precision == PG_FLOAT32;
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

static int may_take(pg__graph *g, pg__desc config, const pg__graph_ask *ask)
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
    return knows && !is_barred(notes, n, ask->opts, ask->is_float);
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

/* Adds what a heuristic proposes. It may fail where the list that is always there does not. */
static void ask_heuristic(pg__graph *g, const pg__graph_ask *ask, cudnnBackendHeurMode_t mode)
{
    const size_t room = PG_MAX_CHOICES - g->n_choices;
    pg__desc configs[MAX_PROPOSALS];
    int64_t n = 0;
    pg__desc heuristic = pg__graph_make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    pg__graph_link(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->graph);
    pg__graph_set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (ask->lib->device)
        pg__graph_link(g, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, ask->lib->device);
    pg__graph_finish(g, heuristic);
    for (int k = 0; k < MAX_PROPOSALS; k++)
        configs[k] = pg__graph_make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->status == CUDNN_STATUS_SUCCESS)
        g->status =
            cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_PROPOSALS, &n, configs);
    for (int64_t k = 0, taken = 0; g->status == CUDNN_STATUS_SUCCESS && k < n && k < MAX_PROPOSALS;
         k++)
        if ((size_t)taken < room && may_take(g, configs[k], ask)) {
            g->choices[g->n_choices++] = configs[k];
            taken++;
        }
}

/* Choice k, NULL where there is none. */
static pg__desc choice(pg__graph *g, const pg__graph_ask *ask, size_t k)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    int has_plan = 0;
    for (size_t i = 0; i < g->n_choices; i++)
        has_plan |= g->plans[i] != NULL;
    while (k >= g->n_choices && !has_plan && g->n_asked < sizeof modes / sizeof *modes) {
        const cudnnStatus_t before = g->status;
        ask_heuristic(g, ask, modes[g->n_asked++]);
        g->why = g->status;
        g->status = before;
    }
    return k < g->n_choices ? g->choices[k] : NULL;
}

int pg__graph_make_plan(pg__graph *g, const pg__graph_ask *ask, size_t k)
{
    pg__desc config = g->status == CUDNN_STATUS_SUCCESS ? choice(g, ask, k) : NULL, plan = NULL;
    int64_t n = 0, workspace = 0;
    if (!config || g->plans[k])
        return config != NULL;
    g->status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);
    pg__graph_link(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    set_device(g, plan, ask->lib, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
               CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
    pg__graph_finish(g, plan);
    if (g->status == CUDNN_STATUS_SUCCESS)
        g->status = cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                             CUDNN_TYPE_INT64, 1, &n, &workspace);
    const int fits =
        g->status == CUDNN_STATUS_SUCCESS && workspace >= 0 && workspace <= MAX_WORKSPACE;
    g->status = CUDNN_STATUS_SUCCESS; /* another one may do it */
    g->plans[k] = plan;
    g->workspaces[k] = fits ? (size_t)workspace : 0;
    if (!fits)
        pg__graph_drop_plan(g, k);
    return fits;
}

void pg__graph_drop_plan(pg__graph *g, size_t k)
{
    if (g->plans[k])
        (void)cudnnBackendDestroyDescriptor(g->plans[k]);
    g->plans[k] = NULL;
}

static cudnnStatus_t make_lock(pthread_mutex_t **out)
{
    *out = pg__mem_array(1, sizeof **out);
    if (*out && pthread_mutex_init(*out, NULL) == 0)
        return CUDNN_STATUS_SUCCESS;
    pg__mem_free(*out);
    *out = NULL;
    return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

void pg__graph_join(pg__graph *g, const struct pg__dnn_lib *lib, pg__desc *ops, int64_t n_ops)
{
    g->graph = pg__graph_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    pg__graph_set(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n_ops,
                  ops);
    if (!lib->device)
        pg__graph_set(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &lib->h);
    pg__graph_finish(g, g->graph);
    if (g->status == CUDNN_STATUS_SUCCESS)
        g->status = make_lock(&g->runs);
}

/* A handle for each thread is not enough: with some engines a plan that two of them run at once
 * hangs or fails. */
cudnnStatus_t pg__graph_execute(const pg__graph *g, cudnnHandle_t h, pg__desc pack)
{
    (void)pthread_mutex_lock(g->runs);
    const cudnnStatus_t s = cudnnBackendExecute(h, g->plans[g->taken], pack);
    (void)pthread_mutex_unlock(g->runs);
    return s;
}
