/* blas_lt.c - blas.h over cuBLASLt, which is column-major: a row-major matrix is the transpose of a
 * column-major one, so we ask for C' = B' A', and our columns are its rows. The algorithm is chosen
 * once, when a plan is made (pick.h). */
#include "backend/cuda/blas.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "base/mem.h"
#include "base/try.h"

#define MAX_WORKSPACE ((size_t)32 << 20)
#define MAX_BATCH     65535u /* of one call; engines have no more blocks along z */

struct pg__blas_lib {
    cublasLtHandle_t h; /* may be used by several threads */
};

struct pg__blas_plan {
    cublasLtMatmulDescOpaque_t op;
    cublasLtMatrixLayoutOpaque_t a, b, c; /* of our matrices */
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
    float alpha, beta;
    int has_bias;
    /* a batch of more than MAX_BATCH: calls of as many, then of the rest */
    uint64_t n_calls;
    size_t step_a, step_b, step_c; /* bytes from call to call */
    pg__blas_plan *rest;           /* or NULL */
};

pg_status pg__blas_open(pg__dev *d, pg_err *err)
{
    struct pg__blas_lib *lib = pg__mem_array(1, sizeof *lib);
    cublasStatus_t s;
    if (!lib)
        return pg__nomem(err);
    (void)pg__rt_stream(d->rt); /* the device becomes the thread's */
    s = cublasLtCreate(&lib->h);
    if (s == CUBLAS_STATUS_SUCCESS) {
        d->blas = lib;
        return PG_OK;
    }
    pg__mem_free(lib);
    return pg_fail(err, s == CUBLAS_STATUS_ALLOC_FAILED ? PG_E_NOMEM : PG_E_UNSUPPORTED,
                   "cuda:%zu: cuBLASLt cannot be used: %s", pg__rt_ordinal(d->rt),
                   cublasLtGetStatusString(s));
}

void pg__blas_close(pg__dev *d)
{
    if (!d->blas)
        return;
    (void)cublasLtDestroy(d->blas->h);
    pg__mem_free(d->blas);
    d->blas = NULL;
}

/* ---- plans ---- */

#define LT(call)                          \
    do {                                  \
        const cublasStatus_t s_ = (call); \
        if (s_ != CUBLAS_STATUS_SUCCESS)  \
            return s_;                    \
    } while (0)

static cudaDataType_t type_of(pgk_type t)
{
    return t == PGK_F32 ? CUDA_R_32F : t == PGK_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

/* A matrix of rows x cols of ours: cols x rows of theirs. */
static cublasStatus_t layout(cublasLtMatrixLayout_t m, pgk_type type, uint64_t rows, uint64_t cols,
                             uint64_t ld, const pg__blas_shape *s, uint64_t stride)
{
    const int32_t batch = s->batch ? (int32_t)s->batch : 1;
    const int64_t offset = (int64_t)stride;
    LT(cublasLtMatrixLayoutInit(m, type_of(type), cols, rows, (int64_t)(ld ? ld : cols)));
    LT(cublasLtMatrixLayoutSetAttribute(m, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                        sizeof batch));
    return cublasLtMatrixLayoutSetAttribute(m, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset,
                                            sizeof offset);
}

static cublasStatus_t layouts(pg__blas_plan *p, const pg__blas_shape *s)
{
    const int at = s->a_transposed, bt = s->b_transposed;
    LT(layout(&p->a, s->a, at ? s->k : s->m, at ? s->m : s->k, s->lda, s, s->stride_a));
    LT(layout(&p->b, s->b, bt ? s->n : s->k, bt ? s->k : s->n, s->ldb, s, s->stride_b));
    return layout(&p->c, s->c, s->m, s->n, s->ldc, s, s->stride_c);
}

static cublasComputeType_t compute_type(const pg__dev *d, const pg__blas_shape *s)
{
    return s->a == PGK_F32 && d->opts.precision != PG_FLOAT32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                              : CUBLAS_COMPUTE_32F;
}

static cublasStatus_t operation(pg__blas_plan *p, const pg__dev *d, const pg__blas_shape *s)
{
    const int32_t op_a = s->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t op_b = s->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t epilogue = s->epilogue == PG_BLAS_BIAS        ? CUBLASLT_EPILOGUE_BIAS
                             : s->epilogue == PG_BLAS_BIAS_GRAD ? CUBLASLT_EPILOGUE_BGRADA
                                                                : CUBLASLT_EPILOGUE_DEFAULT;
    const int32_t bias_type = type_of(s->c);
    const uintptr_t bias_at = s->align ? s->align : 16; /* is only looked at for its alignment */
    cublasLtMatmulDesc_t op = &p->op;
    LT(cublasLtMatmulDescInit(op, compute_type(d, s), CUDA_R_32F));
    LT(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSA, &op_b, sizeof op_b));
    LT(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSB, &op_a, sizeof op_a));
    LT(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                      sizeof epilogue));
    if (!p->has_bias)
        return CUBLAS_STATUS_SUCCESS;
    LT(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias_at,
                                      sizeof bias_at));
    return cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type,
                                          sizeof bias_type);
}

/* Parts of sums that were taken apart are added in float32. */
static cublasStatus_t preference(cublasLtMatmulPreference_t pref, const pg__blas_shape *s)
{
    static const cublasLtMatmulPreferenceAttributes_t addresses[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const size_t most = MAX_WORKSPACE;
    const uint32_t align = s->align ? s->align : 16;
    const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                          (s->c == PGK_F32 ? CUBLASLT_REDUCTION_SCHEME_INPLACE : 0);
    LT(cublasLtMatmulPreferenceInit(pref));
    LT(cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                            sizeof most));
    LT(cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums,
                                            sizeof sums));
    for (size_t k = 0; k < sizeof addresses / sizeof *addresses; k++)
        LT(cublasLtMatmulPreferenceSetAttribute(pref, addresses[k], &align, sizeof align));
    return CUBLAS_STATUS_SUCCESS;
}

/* What cuBLASLt proposes for a plan. */
typedef struct proposals {
    pg__dev *d;
    pg__blas_plan *p;
    cublasLtMatmulHeuristicResult_t of[PG_PICK_WAYS];
    int n;
} proposals;

static cublasStatus_t propose(proposals *o, const pg__blas_shape *s)
{
    cublasLtMatmulPreferenceOpaque_t pref;
    pg__blas_plan *p = o->p;
    LT(layouts(p, s));
    LT(operation(p, o->d, s));
    LT(preference(&pref, s));
    LT(cublasLtMatmulAlgoGetHeuristic(o->d->blas->h, &p->op, &p->b, &p->a, &p->c, &p->c, &pref,
                                      PG_PICK_WAYS, o->of, &o->n));
    return o->n > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static pg_status take(void *of, size_t k, size_t *scratch_bytes, pg_err *err)
{
    proposals *o = of;
    if (o->of[k].state != CUBLAS_STATUS_SUCCESS)
        return pg_fail(err, PG_E_NO, "%s", cublasLtGetStatusString(o->of[k].state));
    o->p->algo = o->of[k].algo;
    o->p->workspace = *scratch_bytes = o->of[k].workspaceSize;
    return PG_OK;
}

static pg_status try_one(void *of, size_t k, void *const *arrays, void *scratch)
{
    proposals *o = of;
    (void)k; /* it was taken */
    return pg__blas_run(o->d, o->p, arrays[0], arrays[1], arrays[2], arrays[3], scratch);
}

static pg_status choose(pg__blas_plan *p, pg__dev *d, const pg__blas_shape *s, pg_err *err)
{
    proposals o = {.d = d, .p = p};
    const pg__pick_case c = pg__blas_case(s);
    size_t chosen = 0, unused;
    pg_status st = PG_OK;
    const cublasStatus_t status = propose(&o, s);
    if (status != CUBLAS_STATUS_SUCCESS)
        PG_FAIL(status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE
                    ? PG_E_NO
                    : PG_E_DEVICE,
                "%s", cublasLtGetStatusString(status));
    const pg__ways ways = {.of = &o, .n = (size_t)o.n, .make = take, .run = try_one};
    PG_TRY(pg__pick(&chosen, d, &c, &ways, err));
    PG_TRY(take(&o, chosen, &unused, err)); /* others were tried after it */
done:
    return st;
}

static size_t bytes_of(pgk_type t, uint64_t n)
{
    return (size_t)n * (t == PGK_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* For a shape of at most MAX_BATCH. */
static pg_status new_plan(pg__blas_plan **out, pg__dev *d, const pg__blas_shape *s,
                          pg__needs *needs, pg_err *err)
{
    pg__blas_plan *p = pg__mem_array(1, sizeof *p);
    pg_err why = {0};
    pg_status st = PG_OK;
    if (!p)
        return pg__nomem(err);
    p->alpha = s->alpha;
    p->beta = s->beta;
    p->has_bias = s->epilogue != PG_BLAS_NONE;
    p->n_calls = 1;
    (void)pg__rt_stream(d->rt);
    st = choose(p, d, s, &why);
    if (st != PG_OK)
        PG_FAIL(st == PG_E_NO ? PG_E_UNSUPPORTED : st,
                "cuda:%zu: cuBLASLt has no product of %llu x %llu by %llu x %llu: %s",
                pg__rt_ordinal(d->rt), (unsigned long long)s->m, (unsigned long long)s->k,
                (unsigned long long)s->k, (unsigned long long)s->n, why.msg);
    if (needs->scratch_bytes < p->workspace)
        needs->scratch_bytes = p->workspace;
    *out = p;
    p = NULL;
done:
    pg__mem_free(p);
    return st;
}

pg_status pg__blas_new(pg__blas_plan **out, pg__dev *d, const pg__blas_shape *s, pg__needs *needs,
                       pg_err *err)
{
    const uint64_t rest = s->batch > MAX_BATCH ? s->batch % MAX_BATCH : 0;
    pg__blas_shape part = *s;
    pg__blas_plan *p = NULL;
    pg_status st = PG_OK;
    if (s->batch > MAX_BATCH)
        part.batch = MAX_BATCH;
    PG_TRY(new_plan(&p, d, &part, needs, err));
    if (s->batch > MAX_BATCH) {
        p->n_calls = s->batch / MAX_BATCH;
        p->step_a = bytes_of(s->a, MAX_BATCH * s->stride_a);
        p->step_b = bytes_of(s->b, MAX_BATCH * s->stride_b);
        p->step_c = bytes_of(s->c, MAX_BATCH * s->stride_c);
    }
    part.batch = rest;
    if (rest > 0)
        PG_TRY(new_plan(&p->rest, d, &part, needs, err));
    *out = p;
    p = NULL;
done:
    pg__blas_free(p);
    return st;
}

void pg__blas_free(pg__blas_plan *p)
{
    if (p)
        pg__mem_free(p->rest);
    pg__mem_free(p);
}

/* ---- runs ---- */

/* The plan may be run by several threads, so what is set for a run is set in a copy. */
static pg_status call(pg__dev *d, const pg__blas_plan *p, const void *a, const void *b, void *c,
                      void *bias, void *scratch)
{
    cublasLtMatmulDescOpaque_t op = p->op;
    cublasLtMatrixLayoutOpaque_t la = p->a, lb = p->b, lc = p->c;
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    cudaStream_t stream = pg__rt_stream(d->rt);
    if (p->has_bias)
        s = cublasLtMatmulDescSetAttribute(&op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                           sizeof bias);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmul(d->blas->h, &op, &p->alpha, b, &lb, a, &la, &p->beta, c, &lc, c, &lc,
                           &p->algo, scratch, p->workspace, stream);
    if (s != CUBLAS_STATUS_SUCCESS)
        return pg_fail(&d->failure, PG_E_DEVICE, "cuda:%zu: matrix product: %s",
                       pg__rt_ordinal(d->rt), cublasLtGetStatusString(s));
    return PG_OK;
}

pg_status pg__blas_run(pg__dev *d, const pg__blas_plan *p, const void *a, const void *b, void *c,
                       void *bias, void *scratch)
{
    const char *next_a = a, *next_b = b;
    char *next_c = c;
    pg_status st = PG_OK;
    for (uint64_t k = 0; k < p->n_calls && st == PG_OK; k++) {
        st = call(d, p, next_a, next_b, next_c, bias, scratch);
        next_a += p->step_a;
        next_b += p->step_b;
        next_c += p->step_c;
    }
    return st == PG_OK && p->rest ? call(d, p->rest, next_a, next_b, next_c, bias, scratch) : st;
}
