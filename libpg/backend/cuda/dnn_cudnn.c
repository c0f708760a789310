/* dnn_cudnn.c - dnn.h over cuDNN 9. Convolutions over one dimension are those of images of one
 * line. */
#include "backend/cuda/dnn.h"

#include "backend/cuda/cudnn_graph.h"
#include "base/mem.h"
#include "base/try.h"

enum { X = 1, W, BIAS, Y };

struct pg__dnn_plan {
    pg__graph g;
    pg__dnn_kind kind;
    int bias;
};

static pg_status open_failed(const pg__dev *d, cudnnStatus_t s, pg_err *err)
{
    const size_t v = cudnnGetVersion();
    if (s == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
        return pg_fail(err, PG_E_NOMEM, "cuda:%zu: no room for cuDNN", pg__rt_ordinal(d->rt));
    return pg_fail(err, PG_E_UNSUPPORTED,
                   "cuda:%zu: cuDNN %zu.%zu.%zu cannot be used: %s; install libcudnn9-cuda-%d, or "
                   "nvidia-cudnn-cu%d for Python, whole and of one version",
                   pg__rt_ordinal(d->rt), v / 10000, v / 100 % 100, v % 100, cudnnGetErrorString(s),
                   CUDART_VERSION / 1000, CUDART_VERSION / 1000);
}

pg_status pg__dnn_open(pg__dev *d, pg_err *err)
{
    struct pg__dnn_lib *lib = pg__mem_array(1, sizeof *lib);
    cudaStream_t stream = pg__rt_stream(d->rt); /* the device becomes the thread's */
    cudnnStatus_t s;
    if (!lib)
        return pg__nomem(err);
    s = cudnnCreate(&lib->h);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnSetStream(lib->h, stream);
    if (s == CUDNN_STATUS_SUCCESS) {
        d->dnn = lib;
        return PG_OK;
    }
    if (lib->h)
        (void)cudnnDestroy(lib->h);
    pg__mem_free(lib);
    return open_failed(d, s, err);
}

void pg__dnn_close(pg__dev *d)
{
    if (!d->dnn)
        return;
    (void)pg__rt_stream(d->rt);
    pg__dnn_attends_fini(d->dnn);
    (void)cudnnDestroy(d->dnn->h);
    pg__mem_free(d->dnn);
    d->dnn = NULL;
}

/* ---- plans ---- */

/* Sizes as cuDNN orders them: rows (or filters), channels, two or three spatial dimensions. */
typedef struct sizes {
    int64_t n_spatial;
    int64_t x[5], w[5], y[5], bias[5];
    int64_t before[3], after[3], stride[3], dilation[3];
} sizes;

static sizes sizes_of(const pg__dnn_conv *c)
{
    const pg__conv_attrs *a = &c->conv;
    const uint32_t n = a->rank < 2 ? 2 : a->rank, unused = n - a->rank;
    sizes s = {.n_spatial = n};
    s.x[0] = s.y[0] = (int64_t)c->x.d[0];
    s.x[1] = (int64_t)c->x.d[a->rank + 1];
    s.y[1] = s.w[0] = s.bias[1] = (int64_t)c->y.d[a->rank + 1];
    s.w[1] = s.x[1] / (int64_t)a->groups;
    s.bias[0] = 1;
    for (uint32_t k = 0; k < n; k++) {
        const int used = k >= unused;
        const uint32_t from = used ? k - unused : 0;
        s.x[k + 2] = used ? (int64_t)c->x.d[from + 1] : 1;
        s.y[k + 2] = used ? (int64_t)c->y.d[from + 1] : 1;
        s.w[k + 2] = used ? (int64_t)a->kernel[from] : 1;
        s.bias[k + 2] = 1;
        s.before[k] = used ? (int64_t)a->before[from] : 0;
        s.after[k] = used ? (int64_t)a->after[from] : 0;
        s.stride[k] = used ? (int64_t)a->stride[from] : 1;
        s.dilation[k] = used ? (int64_t)a->dilation[from] : 1;
    }
    return s;
}

static pg__desc convolution(pg__graph *g, const sizes *s)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t n = s->n_spatial;
    pg__desc c = pg__graph_make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    pg__graph_set(g, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n);
    pg__graph_set(g, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    pg__graph_set(g, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    pg__graph_set(g, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, n, s->before);
    pg__graph_set(g, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, n, s->after);
    pg__graph_set(g, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, n, s->dilation);
    pg__graph_set(g, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, n, s->stride);
    pg__graph_finish(g, c);
    return c;
}

/* Names of what the three kinds call alike. */
typedef struct names {
    cudnnBackendDescriptorType_t op;
    cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
} names;

static const names names_of[] = {
    [PG_DNN_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [PG_DNN_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [PG_DNN_FILTER] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static cudnnDataType_t data_type(pgk_type t)
{
    return t == PGK_F32 ? CUDNN_DATA_FLOAT : t == PGK_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

/* One operation of one or two operands; b may be NULL. */
static pg__desc pointwise(pg__graph *g, cudnnPointwiseMode_t mode, pg__desc x, pg__desc b,
                          pg__desc y)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    pg__desc how = pg__graph_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR), op;
    pg__graph_set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    pg__graph_set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    pg__graph_finish(g, how);
    op = pg__graph_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    pg__graph_link(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    pg__graph_link(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        pg__graph_link(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    pg__graph_link(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    pg__graph_finish(g, op);
    return op;
}

/* The convolution, then the bias, then the ramp; what stands between them is not stored. */
static int64_t operations(pg__graph *g, const pg__dnn_conv *c, const sizes *s, pg__desc ops[3])
{
    const names *name = &names_of[c->kind];
    const cudnnDataType_t in = data_type(c->type), out = data_type(c->out_type);
    const int64_t rank = s->n_spatial + 2;
    const double one = 1, zero = 0;
    const int more = c->bias || c->relu;
    int64_t n = 0;
    pg__desc x = pg__graph_tensor(g, X, c->kind == PG_DNN_DATA ? out : in, rank, s->x);
    pg__desc w = pg__graph_tensor(g, W, c->kind == PG_DNN_FILTER ? out : in, rank, s->w);
    pg__desc y = pg__graph_tensor(g, more ? 0 : Y,
                                  more                        ? CUDNN_DATA_FLOAT
                                  : c->kind == PG_DNN_FORWARD ? out
                                                              : in,
                                  rank, s->y);
    pg__desc conv = convolution(g, s), next;
    ops[n] = pg__graph_make(g, name->op);
    pg__graph_link(g, ops[n], name->conv, conv);
    pg__graph_link(g, ops[n], name->x, x);
    pg__graph_link(g, ops[n], name->w, w);
    pg__graph_link(g, ops[n], name->y, y);
    pg__graph_set(g, ops[n], name->alpha, CUDNN_TYPE_DOUBLE, 1, &one);
    pg__graph_set(g, ops[n], name->beta, CUDNN_TYPE_DOUBLE, 1, &zero);
    pg__graph_finish(g, ops[n++]);
    if (c->bias) {
        pg__desc bias = pg__graph_tensor(g, BIAS, CUDNN_DATA_FLOAT, rank, s->bias);
        next = pg__graph_tensor(g, c->relu ? 0 : Y, c->relu ? CUDNN_DATA_FLOAT : out, rank, s->y);
        ops[n++] = pointwise(g, CUDNN_POINTWISE_ADD, y, bias, next);
        y = next;
    }
    if (c->relu) {
        next = pg__graph_tensor(g, Y, out, rank, s->y);
        ops[n++] = pointwise(g, CUDNN_POINTWISE_RELU_FWD, y, NULL, next);
    }
    return n;
}

/* No way for this shape, or something is missing that others have? */
static pg_status why_not(cudnnStatus_t s)
{
    switch (s) {
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED: return PG_E_NOMEM;
    case CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED:
    case CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH:
    case CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE: return PG_E_UNSUPPORTED;
    default: return PG_E_NO;
    }
}

/* A plan whose engine is chosen. */
typedef struct choice {
    pg__dev *d;
    pg__dnn_plan *p;
    pg__graph_ask ask;
} choice;

static pg_status make(void *of, size_t k, size_t *scratch_bytes, pg_err *err)
{
    choice *c = of;
    if (!pg__graph_make_plan(&c->p->g, &c->ask, k))
        return pg_fail(err, why_not(c->p->g.why), "%s",
                       c->p->g.why == CUDNN_STATUS_SUCCESS ? "no engine takes it"
                                                           : cudnnGetErrorString(c->p->g.why));
    *scratch_bytes = c->p->g.workspaces[k];
    return PG_OK;
}

static pg_status try_one(void *of, size_t k, void *const *arrays, void *scratch)
{
    choice *c = of;
    c->p->g.taken = k;
    return pg__dnn_run(c->d, c->p, arrays[0], arrays[1], arrays[2], arrays[3], scratch);
}

static void drop(void *of, size_t k)
{
    pg__graph_drop_plan(&((choice *)of)->p->g, k);
}

pg_status pg__dnn_new(pg__dnn_plan **out, pg__dev *d, const pg__dnn_conv *c, pg__needs *needs,
                      pg_err *err)
{
    const sizes s = sizes_of(c);
    const pg__pick_case work = pg__dnn_case(c);
    pg__dnn_plan *p = pg__mem_array(1, sizeof *p);
    pg__desc ops[3];
    size_t taken = 0;
    pg_err why = {0};
    pg_status st = PG_OK;
    if (!p)
        return pg__nomem(err);
    choice of = {d, p, {d->dnn, &d->opts, c->type == PGK_F32}};
    const pg__ways ways = {&of, PG_MAX_CHOICES, make, try_one, drop};
    p->kind = c->kind;
    p->bias = c->bias;
    if (!d->dnn->device)
        (void)pg__rt_stream(d->rt);
    const int64_t n_ops = operations(&p->g, c, &s, ops);
    pg__graph_join(&p->g, d->dnn, ops, n_ops);
    if (p->g.status != CUDNN_STATUS_SUCCESS)
        PG_FAIL(why_not(p->g.status), "cuDNN has no algorithm for a convolution of %s: %s",
                PG_SHAPE(&c->x), cudnnGetErrorString(p->g.status));
    st = pg__pick(&taken, d, &work, &ways, &why);
    if (st == PG_E_UNSUPPORTED && d->rt) /* a part of it is not there */
        PG_TRY(open_failed(d, p->g.why, err));
    if (st != PG_OK)
        PG_FAIL(st, "cuDNN has no algorithm for a convolution of %s: %s", PG_SHAPE(&c->x), why.msg);
    p->g.taken = taken;
    if (needs->scratch_bytes < p->g.workspaces[taken])
        needs->scratch_bytes = p->g.workspaces[taken];
    *out = p;
    p = NULL;
done:
    pg__dnn_free(p);
    return st;
}

void pg__dnn_free(pg__dnn_plan *p)
{
    if (!p)
        return;
    pg__graph_fini(&p->g);
    pg__mem_free(p);
}

/* ---- runs ---- */

/* Operands by the kind: which of x, kernel and y is what. */
static void places(const pg__dnn_plan *p, const void *a, const void *b, void *c, void *at[3])
{
    void *in = pg__cuda_const(a), *other = pg__cuda_const(b);
    at[0] = p->kind == PG_DNN_DATA ? c : in;
    at[1] = p->kind == PG_DNN_FILTER ? c : other;
    at[2] = p->kind == PG_DNN_FORWARD ? c : p->kind == PG_DNN_DATA ? in : other;
}

pg_status pg__dnn_run(pg__dev *d, const pg__dnn_plan *p, const void *a, const void *b, void *c,
                      const void *bias, void *scratch)
{
    const int64_t ids[] = {X, W, Y, BIAS};
    void *at[4];
    pg__graph run = {.status = CUDNN_STATUS_SUCCESS};
    pg__desc pack = pg__graph_make(&run, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    const int64_t n = p->bias ? 4 : 3;
    places(p, a, b, c, at);
    at[3] = pg__cuda_const(bias);
    (void)pg__rt_stream(d->rt);
    pg__graph_set(&run, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids);
    pg__graph_set(&run, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, at);
    pg__graph_set(&run, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
    pg__graph_finish(&run, pack);
    if (run.status == CUDNN_STATUS_SUCCESS)
        run.status = pg__graph_execute(&p->g, d->dnn->h, pack);
    pg__graph_fini(&run);
    if (run.status != CUDNN_STATUS_SUCCESS)
        return pg_fail(&d->failure, PG_E_DEVICE, "cuda:%zu: convolution: %s", pg__rt_ordinal(d->rt),
                       cudnnGetErrorString(run.status));
    return PG_OK;
}
