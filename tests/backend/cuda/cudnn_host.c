/* cudnn_host.c - what the back end calls of cuDNN, on the GPU of plain C (host.h). It computes
 * nothing; it minds what the manual demands of each call (PRECONDITIONS.md), and answers with
 * cuDNN's errors. Every graph has one engine, whose plan needs memory to work in. */
#include "cudnn_host.h"

#include "host.h"
#include "host_alive.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/pgk.h"

#define WORKSPACE 896
#define ALIGNED   256 /* of memory to work in: what the runtime hands out */
#define MAX_ATTRS 24
#define MAX_UIDS  64

const char *cudnnGetErrorString(cudnnStatus_t s)
{
    switch (s) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_BAD_PARAM_NULL_POINTER: return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    case CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER:
        return "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER";
    case CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED: return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT:
        return "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT";
    case CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH: return "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH";
    case CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES:
        return "CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES";
    case CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE: return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE: return "CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    default: return "CUDNN_STATUS_EXECUTION_FAILED";
    }
}

size_t cudnnGetVersion(void)
{
    return 91900;
}

/* ---- what lives ---- */

void *host_cudnn_born(size_t size, host_cudnn_kind kind)
{
    return born(size, kind);
}

int host_cudnn_lives(const void *p, host_cudnn_kind kind)
{
    return lives(p, kind);
}

int host_cudnn_dies(const void *p, host_cudnn_kind kind)
{
    return dies(p, kind);
}

size_t host_cudnn_alive(void)
{
    size_t n = 0;
    pthread_mutex_lock(&alive.lock);
    for (size_t k = 0; k < sizeof alive.of / sizeof *alive.of; k++)
        n += alive.of[k].at != NULL;
    pthread_mutex_unlock(&alive.lock);
    return n;
}

/* ---- handles ---- */

cudnnStatus_t cudnnCreate(cudnnHandle_t *h)
{
    if (!h)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    *h = host_cudnn_born(sizeof **h, HOST_CUDNN_HANDLE);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
    if (!host_cudnn_dies(h, HOST_CUDNN_HANDLE))
        return CUDNN_STATUS_BAD_PARAM;
    free(h);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream)
{
    if (!host_cudnn_lives(h, HOST_CUDNN_HANDLE))
        return CUDNN_STATUS_BAD_PARAM;
    h->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

static void work(const void *args, uint64_t n)
{
    memset(pgk_host_memory(*(void *const *)args), 0xa5, n);
}

cudnnStatus_t host_cudnn_run(cudnnHandle_t h, const char *name, void *workspace, size_t n)
{
    return pg__fake_queue(h->stream, name, work, &workspace, sizeof workspace, n) == 0
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_EXECUTION_FAILED;
}

int host_cudnn_on_device(const void *p)
{
    return p && (uintptr_t)p >> 63;
}

/* ---- descriptors of graphs ---- */

typedef struct attr {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t n;
    void *values;
} attr;

/* A tensor that has memory. */
typedef struct place {
    int64_t uid, align;
    int is_by_value;
} place;

typedef struct descriptor {
    cudnnBackendDescriptorType_t type;
    int is_final;
    attr attrs[MAX_ATTRS];
    size_t n_attrs;
    place places[MAX_UIDS]; /* of a graph, and of what is made for it */
    size_t n_places;
} descriptor;

static descriptor *of(cudnnBackendDescriptor_t d)
{
    return host_cudnn_lives(d, HOST_CUDNN_DESCRIPTOR) ? (descriptor *)d : NULL;
}

static const attr *attr_of(const descriptor *d, cudnnBackendAttributeName_t name)
{
    for (size_t k = 0; k < d->n_attrs; k++)
        if (d->attrs[k].name == name)
            return &d->attrs[k];
    return NULL;
}

static int64_t number(const descriptor *d, cudnnBackendAttributeName_t name)
{
    const attr *a = attr_of(d, name);
    return a ? *(const int64_t *)a->values : 0;
}

static int is_true(const descriptor *d, cudnnBackendAttributeName_t name)
{
    const attr *a = attr_of(d, name);
    return a && *(const bool *)a->values;
}

/* Which attributes are of which type; what must be there when a descriptor is finished. */
typedef struct rule {
    cudnnBackendDescriptorType_t of;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int is_needed;
} rule;

#define CONVOLUTION(op, attrs, x, w, y)                        \
    {op, attrs##_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1}, \
        {op, attrs##_##x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},   \
        {op, attrs##_##w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},   \
        {op, attrs##_##y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1},   \
        {op, attrs##_ALPHA, CUDNN_TYPE_DOUBLE, 1},             \
    {                                                          \
        op, attrs##_BETA, CUDNN_TYPE_DOUBLE, 1                 \
    }
#define D(name) CUDNN_BACKEND_##name##_DESCRIPTOR
#define A(name) CUDNN_ATTR_##name
#define T(name) CUDNN_TYPE_##name

static const rule rules[] = {
    {D(TENSOR), A(TENSOR_DATA_TYPE), T(DATA_TYPE), 1},
    {D(TENSOR), A(TENSOR_DIMENSIONS), T(INT64), 1},
    {D(TENSOR), A(TENSOR_STRIDES), T(INT64), 1},
    {D(TENSOR), A(TENSOR_UNIQUE_ID), T(INT64), 1},
    {D(TENSOR), A(TENSOR_BYTE_ALIGNMENT), T(INT64), 1},
    {D(TENSOR), A(TENSOR_IS_VIRTUAL), T(BOOLEAN), 0},
    {D(TENSOR), A(TENSOR_IS_BY_VALUE), T(BOOLEAN), 0},
    {D(CONVOLUTION), A(CONVOLUTION_SPATIAL_DIMS), T(INT64), 1},
    {D(CONVOLUTION), A(CONVOLUTION_COMP_TYPE), T(DATA_TYPE), 1},
    {D(CONVOLUTION), A(CONVOLUTION_CONV_MODE), T(CONVOLUTION_MODE), 1},
    {D(CONVOLUTION), A(CONVOLUTION_PRE_PADDINGS), T(INT64), 1},
    {D(CONVOLUTION), A(CONVOLUTION_POST_PADDINGS), T(INT64), 1},
    {D(CONVOLUTION), A(CONVOLUTION_DILATIONS), T(INT64), 1},
    {D(CONVOLUTION), A(CONVOLUTION_FILTER_STRIDES), T(INT64), 1},
    CONVOLUTION(D(OPERATION_CONVOLUTION_FORWARD), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD, X, W,
                Y),
    CONVOLUTION(D(OPERATION_CONVOLUTION_BACKWARD_DATA), CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA,
                DX, W, DY),
    CONVOLUTION(D(OPERATION_CONVOLUTION_BACKWARD_FILTER),
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER, X, DW, DY),
    {D(POINTWISE), A(POINTWISE_MODE), T(POINTWISE_MODE), 1},
    {D(POINTWISE), A(POINTWISE_MATH_PREC), T(DATA_TYPE), 1},
    {D(POINTWISE), A(POINTWISE_AXIS), T(INT64), 0},
    {D(OPERATION_POINTWISE), A(OPERATION_POINTWISE_PW_DESCRIPTOR), T(BACKEND_DESCRIPTOR), 1},
    {D(OPERATION_POINTWISE), A(OPERATION_POINTWISE_XDESC), T(BACKEND_DESCRIPTOR), 1},
    {D(OPERATION_POINTWISE), A(OPERATION_POINTWISE_BDESC), T(BACKEND_DESCRIPTOR), 0},
    {D(OPERATION_POINTWISE), A(OPERATION_POINTWISE_TDESC), T(BACKEND_DESCRIPTOR), 0},
    {D(OPERATION_POINTWISE), A(OPERATION_POINTWISE_YDESC), T(BACKEND_DESCRIPTOR), 1},
    {D(MATMUL), A(MATMUL_COMP_TYPE), T(DATA_TYPE), 1},
    {D(OPERATION_MATMUL), A(OPERATION_MATMUL_ADESC), T(BACKEND_DESCRIPTOR), 1},
    {D(OPERATION_MATMUL), A(OPERATION_MATMUL_BDESC), T(BACKEND_DESCRIPTOR), 1},
    {D(OPERATION_MATMUL), A(OPERATION_MATMUL_CDESC), T(BACKEND_DESCRIPTOR), 1},
    {D(OPERATION_MATMUL), A(OPERATION_MATMUL_DESC), T(BACKEND_DESCRIPTOR), 1},
    {D(REDUCTION), A(REDUCTION_COMP_TYPE), T(DATA_TYPE), 1},
    {D(REDUCTION), A(REDUCTION_OPERATOR), T(REDUCTION_OPERATOR_TYPE), 1},
    {D(OPERATION_REDUCTION), A(OPERATION_REDUCTION_XDESC), T(BACKEND_DESCRIPTOR), 1},
    {D(OPERATION_REDUCTION), A(OPERATION_REDUCTION_YDESC), T(BACKEND_DESCRIPTOR), 1},
    {D(OPERATION_REDUCTION), A(OPERATION_REDUCTION_DESC), T(BACKEND_DESCRIPTOR), 1},
    {D(OPERATION_RESHAPE), A(OPERATION_RESHAPE_XDESC), T(BACKEND_DESCRIPTOR), 1},
    {D(OPERATION_RESHAPE), A(OPERATION_RESHAPE_YDESC), T(BACKEND_DESCRIPTOR), 1},
    {D(OPERATIONGRAPH), A(OPERATIONGRAPH_OPS), T(BACKEND_DESCRIPTOR), 1},
    {D(OPERATIONGRAPH), A(OPERATIONGRAPH_HANDLE), T(HANDLE), 1},
    {D(ENGINEHEUR), A(ENGINEHEUR_OPERATION_GRAPH), T(BACKEND_DESCRIPTOR), 1},
    {D(ENGINEHEUR), A(ENGINEHEUR_MODE), T(HEUR_MODE), 1},
    {D(EXECUTION_PLAN), A(EXECUTION_PLAN_ENGINE_CONFIG), T(BACKEND_DESCRIPTOR), 1},
    {D(EXECUTION_PLAN), A(EXECUTION_PLAN_HANDLE), T(HANDLE), 1},
    {D(VARIANT_PACK), A(VARIANT_PACK_UNIQUE_IDS), T(INT64), 1},
    {D(VARIANT_PACK), A(VARIANT_PACK_DATA_POINTERS), T(VOID_PTR), 1},
    {D(VARIANT_PACK), A(VARIANT_PACK_WORKSPACE), T(VOID_PTR), 1},
};
#define N_RULES (sizeof rules / sizeof *rules)

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *d)
{
    if (!d)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    descriptor *made = host_cudnn_born(sizeof *made, HOST_CUDNN_DESCRIPTOR);
    made->type = type;
    *d = made;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    descriptor *gone = d;
    if (!host_cudnn_dies(d, HOST_CUDNN_DESCRIPTOR))
        return CUDNN_STATUS_BAD_PARAM;
    for (size_t k = 0; k < gone->n_attrs; k++)
        free(gone->attrs[k].values);
    free(gone);
    return CUDNN_STATUS_SUCCESS;
}

static size_t size_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_VOID_PTR: return 8;
    default: return sizeof(int);
    }
}

static const rule *rule_of(const descriptor *d, cudnnBackendAttributeName_t name)
{
    for (size_t k = 0; k < N_RULES; k++)
        if (rules[k].of == d->type && rules[k].name == name)
            return &rules[k];
    return NULL;
}

/* Other descriptors, and handles, must be there and finished. */
static cudnnStatus_t are_usable(cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    void *const *all = values;
    for (int64_t k = 0; k < n && type == CUDNN_TYPE_BACKEND_DESCRIPTOR; k++) {
        const descriptor *d = of(all[k]);
        if (!d)
            return CUDNN_STATUS_BAD_PARAM;
        if (!d->is_final)
            return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    }
    return type == CUDNN_TYPE_HANDLE && !host_cudnn_lives(all[0], HOST_CUDNN_HANDLE)
               ? CUDNN_STATUS_BAD_PARAM
               : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t desc,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n,
                                       const void *values)
{
    descriptor *d = of(desc);
    const rule *r = d ? rule_of(d, name) : NULL;
    if (!r || d->is_final || n < 1)
        return CUDNN_STATUS_BAD_PARAM;
    if (!values)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (r->type != type)
        return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    const cudnnStatus_t s = are_usable(type, n, values);
    if (s != CUDNN_STATUS_SUCCESS)
        return s;
    size_t k = 0;
    while (k < d->n_attrs && d->attrs[k].name != name)
        k++;
    if (k == MAX_ATTRS)
        abort();
    if (k < d->n_attrs)
        free(d->attrs[k].values);
    else
        d->n_attrs++;
    d->attrs[k] = (attr){name, type, n, malloc((size_t)n * size_of(type))};
    if (!d->attrs[k].values)
        abort();
    memcpy(d->attrs[k].values, values, (size_t)n * size_of(type));
    return CUDNN_STATUS_SUCCESS;
}

/* ---- finishing ---- */

static int64_t element_size(cudnnDataType_t type)
{
    return type == CUDNN_DATA_BOOLEAN                               ? 1
           : type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16 ? 2
                                                                    : 4;
}

static cudnnStatus_t check_tensor(const descriptor *d)
{
    const attr *dims = attr_of(d, CUDNN_ATTR_TENSOR_DIMENSIONS);
    const attr *strides = attr_of(d, CUDNN_ATTR_TENSOR_STRIDES);
    const int64_t align = number(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    const int64_t size =
        element_size(*(const cudnnDataType_t *)attr_of(d, CUDNN_ATTR_TENSOR_DATA_TYPE)->values);
    if (dims->n != strides->n || dims->n > CUDNN_DIM_MAX || align < size || align % size)
        return CUDNN_STATUS_BAD_PARAM;
    for (int64_t k = 0; k < dims->n; k++)
        if (((const int64_t *)dims->values)[k] < 1 || ((const int64_t *)strides->values)[k] < 1)
            return CUDNN_STATUS_BAD_PARAM;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_convolution(const descriptor *d)
{
    static const cudnnBackendAttributeName_t lists[] = {
        CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
        CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        if (attr_of(d, lists[k])->n != number(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS))
            return CUDNN_STATUS_BAD_PARAM;
    return CUDNN_STATUS_SUCCESS;
}

/* A tensor of a graph; one id is one tensor. */
static cudnnStatus_t add_place(descriptor *g, const descriptor *t, const descriptor *tensors[],
                               size_t *n)
{
    const int64_t uid = number(t, CUDNN_ATTR_TENSOR_UNIQUE_ID);
    for (size_t k = 0; k < *n; k++)
        if (tensors[k] == t)
            return CUDNN_STATUS_SUCCESS;
        else if (number(tensors[k], CUDNN_ATTR_TENSOR_UNIQUE_ID) == uid)
            return CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES;
    tensors[(*n)++] = t;
    if (is_true(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL))
        return CUDNN_STATUS_SUCCESS;
    g->places[g->n_places++] = (place){uid, number(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
                                       is_true(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE)};
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_graph(descriptor *g)
{
    const attr *ops = attr_of(g, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    const descriptor *tensors[1024];
    size_t n = 0;
    cudnnStatus_t s = CUDNN_STATUS_SUCCESS;
    g->n_places = 0;
    for (int64_t k = 0; k < ops->n; k++) {
        const descriptor *op = ((descriptor *const *)ops->values)[k];
        for (size_t i = 0; i < op->n_attrs && s == CUDNN_STATUS_SUCCESS; i++) {
            const attr *a = &op->attrs[i];
            const descriptor *t =
                a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? *(descriptor *const *)a->values : NULL;
            if (t && t->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
                s = add_place(g, t, tensors, &n);
        }
    }
    return s;
}

/* Who works for a graph knows its tensors. */
static cudnnStatus_t inherit(descriptor *d, cudnnBackendAttributeName_t name,
                             cudnnBackendDescriptorType_t type)
{
    const descriptor *from = *(descriptor *const *)attr_of(d, name)->values;
    if (from->type != type)
        return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
    memcpy(d->places, from->places, sizeof d->places);
    d->n_places = from->n_places;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_pack(const descriptor *d)
{
    const attr *ids = attr_of(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const attr *at = attr_of(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    return ids->n == at->n ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

static cudnnStatus_t check(descriptor *d)
{
    switch (d->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return check_tensor(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return check_convolution(d);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return check_graph(d);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return inherit(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                       CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return inherit(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                       CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return check_pack(d);
    default: return CUDNN_STATUS_SUCCESS;
    }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t desc)
{
    descriptor *d = of(desc);
    if (!d || d->is_final)
        return CUDNN_STATUS_BAD_PARAM;
    for (size_t k = 0; k < N_RULES; k++)
        if (rules[k].of == d->type && rules[k].is_needed && !attr_of(d, rules[k].name))
            return CUDNN_STATUS_BAD_PARAM;
    const cudnnStatus_t s = check(d);
    d->is_final = s == CUDNN_STATUS_SUCCESS;
    return s;
}

/* ---- asking ---- */

/* One configuration, in the descriptor that the caller has for it. */
static cudnnStatus_t propose(const descriptor *heuristic, int64_t most, int64_t *n, void *values)
{
    descriptor *config = most > 0 ? of(*(cudnnBackendDescriptor_t *)values) : NULL;
    if (!config || config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        return CUDNN_STATUS_BAD_PARAM;
    memcpy(config->places, heuristic->places, sizeof config->places);
    config->n_places = heuristic->n_places;
    config->is_final = 1;
    *n = 1;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t desc,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most, int64_t *n,
                                       void *values)
{
    const descriptor *d = of(desc);
    if (!d || (most > 0 && !values))
        return d ? CUDNN_STATUS_BAD_PARAM_NULL_POINTER : CUDNN_STATUS_BAD_PARAM;
    if (!d->is_final)
        return CUDNN_STATUS_NOT_INITIALIZED;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: return propose(d, most, n, values);
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        if (!of(*(cudnnBackendDescriptor_t *)values))
            return CUDNN_STATUS_BAD_PARAM;
        of(*(cudnnBackendDescriptor_t *)values)->is_final = 1;
        *n = 1;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: *n = 0; return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        if (type != CUDNN_TYPE_INT64)
            return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
        *(int64_t *)values = WORKSPACE;
        *n = 1;
        return CUDNN_STATUS_SUCCESS;
    default: return CUDNN_STATUS_NOT_SUPPORTED;
    }
}

/* ---- runs ---- */

/* Is every tensor that has memory there, once, and where it was said to be? */
static cudnnStatus_t check_pointers(const descriptor *plan, const descriptor *pack)
{
    const attr *ids = attr_of(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const attr *at = attr_of(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (size_t k = 0; k < plan->n_places; k++) {
        const place *p = &plan->places[k];
        int64_t found = -1;
        for (int64_t i = 0; i < ids->n; i++)
            if (((const int64_t *)ids->values)[i] == p->uid) {
                if (found >= 0)
                    return CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES;
                found = i;
            }
        const void *v = found >= 0 ? ((void *const *)at->values)[found] : NULL;
        if (!v)
            return found < 0 ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
        if (host_cudnn_on_device(v) == p->is_by_value)
            return CUDNN_STATUS_BAD_PARAM;
        if (!p->is_by_value && (uintptr_t)v % (uintptr_t)p->align)
            return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    const descriptor *p = of(plan), *v = of(pack);
    if (!host_cudnn_lives(h, HOST_CUDNN_HANDLE) || !h->stream || !p || !v ||
        p->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
        v->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        return CUDNN_STATUS_BAD_PARAM;
    if (!p->is_final || !v->is_final)
        return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    const cudnnStatus_t s = check_pointers(p, v);
    if (s != CUDNN_STATUS_SUCCESS)
        return s;
    void *workspace = *(void *const *)attr_of(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)->values;
    if (!host_cudnn_on_device(workspace))
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if ((uintptr_t)workspace % ALIGNED)
        return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    return host_cudnn_run(h, "graph", workspace, WORKSPACE);
}
