/* lt_host.c - what blas_lt.c calls of cuBLASLt, as its manual has it: matrices by columns, on the
 * GPU of plain C (host.h). So it shows without a GPU whether rows and columns, transposes, leading
 * dimensions, batches and epilogues are what they should be; what the manual demands is demanded
 * (PRECONDITIONS.md). */
#include "host.h"

#include <cublasLt.h>
#include <math.h>
#include <pthread.h>
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
    int32_t is_set; /* like the others: by Init, from what was on the stack */
} matrix;

#define SET 0x5e7

typedef struct operation {
    void *bias;
    int64_t bias_offset; /* from one of the batch to the next */
    int32_t trans_a, trans_b, epilogue, bias_type;
    int32_t fast; /* TF32 */
    int32_t is_set;
} operation;

typedef struct choice {
    uint64_t workspace;
    uint32_t align_a, align_b, align_c, align_d;
    int32_t is_set;
} choice;

/* An algorithm, and what it was chosen for. */
typedef struct way {
    uint32_t align_a, align_b, align_c, align_bias, number;
    uint64_t problem;
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

/* Handles that were made and not destroyed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *handles[256];

/* Is it one? It is to be `to` from now on. */
static int find(const void *h, void *to)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (size_t k = 0; !found && k < sizeof handles / sizeof *handles; k++)
        if (handles[k] == h) {
            handles[k] = to;
            found = 1;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

static int is_handle(cublasLtHandle_t h)
{
    return h && find(h, h);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    *h = NULL;
    if (pg__fake_fails("lt_create"))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    void *made = malloc(1);
    if (!made || !find(NULL, made))
        abort();
    *h = made;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    if (!h || !find(h, NULL))
        return CUBLAS_STATUS_INVALID_VALUE;
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t s)
{
    switch (s) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality requested is not supported";
    default: return "failure that was ordered";
    }
}

/* ---- descriptions ---- */

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t m, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t cols,
                                                 int64_t ld)
{
    *MATRIX(m) =
        (matrix){.type = type, .rows = rows, .cols = cols, .ld = ld, .batch = 1, .is_set = SET};
    return size == sizeof *m && rows > 0 && cols > 0 && ld >= (int64_t)rows
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t m,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void *buf, size_t n)
{
    switch (name) {
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return TAKE(MATRIX(m)->rows);
    case CUBLASLT_MATRIX_LAYOUT_LD: return TAKE(MATRIX(m)->ld);
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
                                .bias_type = -1,
                                .fast = compute == CUBLAS_COMPUTE_32F_FAST_TF32,
                                .is_set = SET};
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
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE: return TAKE(OPERATION(d)->bias_offset);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t p, size_t size)
{
    *CHOICE(p) =
        (choice){.align_a = 256, .align_b = 256, .align_c = 256, .align_d = 256, .is_set = SET};
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
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return TAKE(CHOICE(p)->align_a);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return TAKE(CHOICE(p)->align_b);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return TAKE(CHOICE(p)->align_c);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return TAKE(CHOICE(p)->align_d);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

/* ---- products ---- */

static size_t size_of(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

/* Of a product in which sums are float32: both factors of one type, and results of theirs or
 * float32. */
static int are_types(const operation *o, const matrix *a, const matrix *b, const matrix *c)
{
    const int is_known = a->type == CUDA_R_32F || a->type == CUDA_R_16BF || a->type == CUDA_R_16F;
    return is_known && a->type == b->type && (c->type == a->type || c->type == CUDA_R_32F) &&
           (o->epilogue == CUBLASLT_EPILOGUE_DEFAULT || o->bias_type == (int32_t)c->type);
}

static int are_same(const matrix *a, const matrix *b)
{
    return a->type == b->type && a->rows == b->rows && a->cols == b->cols && a->ld == b->ld &&
           a->offset == b->offset && a->batch == b->batch;
}

/* Do the sizes fit, as the library would refuse them? Results must not lie upon each other. */
static int fits(const operation *o, const matrix *a, const matrix *b, const matrix *c)
{
    const uint64_t m = o->trans_a == CUBLAS_OP_T ? a->cols : a->rows;
    const uint64_t k = o->trans_a == CUBLAS_OP_T ? a->rows : a->cols;
    const uint64_t n = o->trans_b == CUBLAS_OP_T ? b->rows : b->cols;
    const uint64_t other_k = o->trans_b == CUBLAS_OP_T ? b->cols : b->rows;
    const int apart = c->batch == 1 || c->offset >= (int64_t)c->rows;
    return m == c->rows && n == c->cols && k == other_k && a->batch == c->batch &&
           b->batch == c->batch && c->batch > 0 && a->offset >= 0 && b->offset >= 0 && apart;
}

/* Has an epilogue its vector, one for each of a batch? */
static int has_bias(const operation *o, const matrix *c)
{
    if (o->epilogue == CUBLASLT_EPILOGUE_DEFAULT)
        return 1;
    const size_t size = size_of(c->type);
    const int is_written = o->epilogue == CUBLASLT_EPILOGUE_BGRADA;
    return o->bias && (uintptr_t)o->bias % size == 0 &&
           (c->batch == 1 || o->bias_offset >= (is_written ? (int64_t)c->rows : 0));
}

static uint64_t mixed(uint64_t h, uint64_t x)
{
    return (h ^ x) * 0x100000001b3u;
}

static uint64_t with(uint64_t h, const matrix *m)
{
    h = mixed(mixed(mixed(h, (uint64_t)m->type), m->rows), m->cols);
    return mixed(mixed(mixed(h, (uint64_t)m->ld), (uint64_t)m->offset), (uint64_t)m->batch);
}

/* Of a bias, as far as an algorithm may count on it. */
static uint32_t alignment(const operation *o)
{
    const uintptr_t at = (uintptr_t)o->bias | 256u;
    return o->epilogue == CUBLASLT_EPILOGUE_DEFAULT ? 1 : (uint32_t)(at & -at);
}

/* What an algorithm is chosen for; the address of a bias does not count. */
static uint64_t problem(const operation *o, const matrix *a, const matrix *b, const matrix *c)
{
    uint64_t h = mixed(14695981039346656037u, (uint64_t)o->trans_a);
    h = mixed(mixed(h, (uint64_t)o->trans_b), (uint64_t)o->epilogue);
    h = mixed(mixed(h, (uint64_t)o->bias_type), (uint64_t)o->fast);
    return with(with(with(h, a), b), c);
}

static cublasStatus_t refusal(const operation *o, const matrix *a, const matrix *b, const matrix *c,
                              const matrix *d)
{
    if (o->is_set != SET || a->is_set != SET || b->is_set != SET || c->is_set != SET ||
        d->is_set != SET || !fits(o, a, b, d) || !are_same(c, d) || !has_bias(o, d))
        return CUBLAS_STATUS_INVALID_VALUE;
    return are_types(o, a, b, d) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t to,
                                              cublasLtMatmulPreference_t p, int n_asked,
                                              cublasLtMatmulHeuristicResult_t *results, int *n)
{
    const operation *o = OPERATION(d);
    const choice *f = CHOICE(p);
    *n = 0;
    if (!is_handle(h))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    const cublasStatus_t s = refusal(o, MATRIX(a), MATRIX(b), MATRIX(c), MATRIX(to));
    if (s != CUBLAS_STATUS_SUCCESS || f->is_set != SET || n_asked < 1)
        return s != CUBLAS_STATUS_SUCCESS ? s : CUBLAS_STATUS_INVALID_VALUE;
    if (o->epilogue != CUBLASLT_EPILOGUE_DEFAULT && pg__fake_refuses("epilogue"))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (f->workspace < WORKSPACE || MATRIX(to)->batch > MAX_BATCH)
        return CUBLAS_STATUS_SUCCESS;
    for (; *n < n_asked && (size_t)*n < pg__fake_n_plans(); ++*n) {
        const way w = {
            f->align_a,   f->align_b,   f->align_c > f->align_d ? f->align_c : f->align_d,
            alignment(o), (uint32_t)*n, problem(o, MATRIX(a), MATRIX(b), MATRIX(to))};
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
    if (!is_handle(h))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    const cublasStatus_t s = refusal(OPERATION(d), MATRIX(da), MATRIX(db), MATRIX(dc), MATRIX(dto));
    if (s != CUBLAS_STATUS_SUCCESS)
        return s;
    product p = {.o = *OPERATION(d),
                 .a = *MATRIX(da),
                 .b = *MATRIX(db),
                 .c = *MATRIX(dto),
                 .workspace = workspace};
    way w;
    memcpy(&w, algo, sizeof w);
    if (w.problem != problem(&p.o, &p.a, &p.b, &p.c) || !alpha || !beta || !a || !b || !to ||
        c != to || n_workspace < WORKSPACE || !workspace || (uintptr_t)workspace % 256 ||
        (uintptr_t)a % w.align_a || (uintptr_t)b % w.align_b || (uintptr_t)to % w.align_c ||
        alignment(&p.o) % w.align_bias || p.c.batch > MAX_BATCH)
        return CUBLAS_STATUS_INVALID_VALUE;
    p.at_a = typed(a, p.a.type);
    p.at_b = typed(b, p.b.type);
    p.at_c = typed(to, p.c.type);
    p.alpha = *(const float *)alpha;
    p.beta = *(const float *)beta;
    return pg__fake_queue_plan(stream, "matmul", w.number, multiply, &p, sizeof p,
                               (uint64_t)p.c.batch) == 0
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}
