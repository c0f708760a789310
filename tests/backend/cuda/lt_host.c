/* lt_host.c - what blas_lt.c calls of cuBLASLt, as its manual has it: matrices by columns, on the
 * GPU of plain C (host.h). So it shows without a GPU whether rows and columns, transposes, leading
 * dimensions, batches and epilogues are what they should be. */
#include "host.h"

#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/pgk.h"

#define WORKSPACE 512
#define MAX_BATCH 65535 /* that it finds a way for */

typedef struct matrix {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld, offset;
    int32_t batch;
} matrix;

typedef struct operation {
    void *bias;
    int32_t trans_a, trans_b, epilogue, bias_type;
    int fast; /* TF32 */
} operation;

typedef struct choice {
    uint64_t workspace;
    uint32_t align;
} choice;

/* An algorithm. */
typedef struct way {
    uint32_t align, number;
} way;

/* Objects of this file as the library hides them. */
static void *hidden(void *object, size_t needs, size_t has)
{
    if (needs > has)
        abort();
    return object;
}
#define MATRIX(m)    ((matrix *)hidden((m)->data, sizeof(matrix), sizeof *(m)))
#define OPERATION(o) ((operation *)hidden((o)->data, sizeof(operation), sizeof *(o)))
#define CHOICE(c)    ((choice *)hidden((c)->data, sizeof(choice), sizeof *(c)))

static cublasStatus_t take(void *to, size_t expected, const void *from, size_t n)
{
    if (n != expected)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, from, n);
    return CUBLAS_STATUS_SUCCESS;
}
#define TAKE(to) take(&(to), sizeof(to), buf, n)

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    static int something;
    *h = (cublasLtHandle_t)(void *)&something;
    return pg__fake_fails("lt_create") ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    (void)h;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_SUCCESS ? "no error" : "failure that was ordered";
}

/* ---- descriptions ---- */

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t m, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t cols,
                                                 int64_t ld)
{
    *MATRIX(m) = (matrix){.type = type, .rows = rows, .cols = cols, .ld = ld, .batch = 1};
    return size == sizeof *m && ld >= (int64_t)rows ? CUBLAS_STATUS_SUCCESS
                                                    : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t m,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void *buf, size_t n)
{
    switch (name) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return TAKE(MATRIX(m)->batch);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return TAKE(MATRIX(m)->offset);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t d, size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale)
{
    *OPERATION(d) = (operation){.trans_a = CUBLAS_OP_N,
                                .trans_b = CUBLAS_OP_N,
                                .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                                .fast = compute == CUBLAS_COMPUTE_32F_FAST_TF32};
    return size == sizeof *d && scale == CUDA_R_32F &&
                   (compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32)
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t name, const void *buf,
                                              size_t n)
{
    switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return TAKE(OPERATION(d)->trans_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return TAKE(OPERATION(d)->trans_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return TAKE(OPERATION(d)->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return TAKE(OPERATION(d)->bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return TAKE(OPERATION(d)->bias_type);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t p, size_t size)
{
    *CHOICE(p) = (choice){.align = 256};
    return size == sizeof *p ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void *buf, size_t n)
{
    uint32_t mask;
    switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return TAKE(CHOICE(p)->workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return TAKE(mask);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return TAKE(CHOICE(p)->align);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

/* ---- products ---- */

/* Do the sizes fit, as the library would refuse them? */
static int fits(const operation *o, const matrix *a, const matrix *b, const matrix *c)
{
    const uint64_t m = o->trans_a == CUBLAS_OP_T ? a->cols : a->rows;
    const uint64_t k = o->trans_a == CUBLAS_OP_T ? a->rows : a->cols;
    const uint64_t n = o->trans_b == CUBLAS_OP_T ? b->rows : b->cols;
    const uint64_t other_k = o->trans_b == CUBLAS_OP_T ? b->cols : b->rows;
    return m == c->rows && n == c->cols && k == other_k && a->batch == c->batch &&
           b->batch == c->batch;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t to,
                                              cublasLtMatmulPreference_t p, int n_asked,
                                              cublasLtMatmulHeuristicResult_t *results, int *n)
{
    const operation *o = OPERATION(d);
    (void)h, (void)to;
    *n = 0;
    if (!fits(o, MATRIX(a), MATRIX(b), MATRIX(c)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (o->epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
        (pg__fake_refuses("epilogue") || o->bias_type != (int32_t)MATRIX(c)->type))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (CHOICE(p)->workspace < WORKSPACE || MATRIX(c)->batch > MAX_BATCH)
        return CUBLAS_STATUS_SUCCESS;
    for (; *n < n_asked && (size_t)*n < pg__fake_n_plans(); ++*n) {
        const way w = {CHOICE(p)->align, (uint32_t)*n};
        results[*n] = (cublasLtMatmulHeuristicResult_t){.workspaceSize = WORKSPACE,
                                                        .state = pg__fake_has_plan((size_t)*n)
                                                                     ? CUBLAS_STATUS_SUCCESS
                                                                     : CUBLAS_STATUS_NOT_SUPPORTED};
        memcpy(&results[*n].algo, &w, sizeof w);
    }
    return CUBLAS_STATUS_SUCCESS;
}

typedef struct product {
    operation o;
    matrix a, b, c;
    pgk_real at_a, at_b, at_c;
    float alpha, beta;
    void *workspace;
} product;

/* Of float32 the first 10 bits behind the point are left. */
static float element(const matrix *m, pgk_real at, int transposed, int fast, uint64_t item,
                     uint64_t r, uint64_t c)
{
    const uint64_t ld = (uint64_t)m->ld;
    const float v =
        pgk_get(at, item * (uint64_t)m->offset + (transposed ? r * ld + c : c * ld + r));
    return fast && isfinite(v) ? pgk_of_bits((pgk_bits(v) + 0x1000u) & ~0x1fffu) : v;
}

static void multiply_one(const product *p, uint64_t item)
{
    const int ta = p->o.trans_a == CUBLAS_OP_T, tb = p->o.trans_b == CUBLAS_OP_T;
    const uint64_t n_k = ta ? p->a.rows : p->a.cols;
    const pgk_real bias = {p->o.bias, p->at_c.type};
    for (uint64_t c = 0; c < p->c.cols; c++)
        for (uint64_t r = 0; r < p->c.rows; r++) {
            const uint64_t at = item * (uint64_t)p->c.offset + c * (uint64_t)p->c.ld + r;
            float sum = 0;
            for (uint64_t k = 0; k < n_k; k++)
                sum += element(&p->a, p->at_a, ta, p->o.fast, item, r, k) *
                       element(&p->b, p->at_b, tb, p->o.fast, item, k, c);
            sum *= p->alpha;
            if (p->beta != 0)
                sum += p->beta * pgk_get(p->at_c, at);
            if (p->o.epilogue == CUBLASLT_EPILOGUE_BIAS)
                sum += pgk_get(bias, r);
            pgk_set(p->at_c, at, sum);
        }
    for (uint64_t r = 0; p->o.epilogue == CUBLASLT_EPILOGUE_BGRADA && r < p->c.rows; r++) {
        float sum = 0;
        for (uint64_t k = 0; k < n_k; k++)
            sum += element(&p->a, p->at_a, ta, 0, item, r, k);
        pgk_set(bias, r, sum);
    }
}

static void multiply(const void *args, uint64_t n)
{
    const product *p = args;
    memset(pgk_host_memory(p->workspace), 0xa5, WORKSPACE);
    for (uint64_t item = 0; item < n; item++)
        multiply_one(p, item);
}

static pgk_real typed(const void *at, cudaDataType type)
{
    union {
        const void *in;
        void *out;
    } u = {.in = at};
    return (pgk_real){u.out, type == CUDA_R_32F    ? PGK_F32
                             : type == CUDA_R_16BF ? PGK_BF16
                                                   : PGK_F16};
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t da, const void *b,
                              cublasLtMatrixLayout_t db, const void *beta, const void *c,
                              cublasLtMatrixLayout_t dc, void *to, cublasLtMatrixLayout_t dto,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t n_workspace,
                              cudaStream_t stream)
{
    product p = {.o = *OPERATION(d),
                 .a = *MATRIX(da),
                 .b = *MATRIX(db),
                 .c = *MATRIX(dto),
                 .workspace = workspace};
    way w;
    (void)h, (void)dc;
    memcpy(&w, algo, sizeof w);
    p.at_a = typed(a, p.a.type);
    p.at_b = typed(b, p.b.type);
    p.at_c = typed(to, p.c.type);
    p.alpha = *(const float *)alpha;
    p.beta = *(const float *)beta;
    if (c != to || n_workspace != WORKSPACE || (uintptr_t)a % w.align || (uintptr_t)b % w.align ||
        (uintptr_t)to % w.align || p.c.batch > MAX_BATCH)
        return CUBLAS_STATUS_INVALID_VALUE;
    return pg__fake_queue_plan(stream, "matmul", w.number, multiply, &p, sizeof p,
                               (uint64_t)p.c.batch) == 0
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}
