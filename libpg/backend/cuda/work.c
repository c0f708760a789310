/* work.c - describes products and convolutions for which a library has several algorithms: what
 * distinguishes them, and how large their arrays are. */
#include "backend/cuda/blas.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/kernel_copy.h"

enum { PRODUCT, CONVOLUTION };

#define ADD(c, ...)                                  \
    pg__pick_add(c, (const uint64_t[]){__VA_ARGS__}, \
                 sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static uint64_t bits_of(float f)
{
    union {
        float f;
        uint32_t bits;
    } u = {.f = f};
    return u.bits;
}

/* A batch of rows x cols in memory. */
static size_t matrix_bytes(const pg__blas_shape *s, uint64_t rows, uint64_t cols, uint64_t ld,
                           uint64_t stride, pgk_type type)
{
    const uint64_t batch = s->batch ? s->batch : 1;
    return pgk_bytes(type, (batch - 1) * stride + (rows - 1) * (ld ? ld : cols) + cols);
}

pg__pick_case pg__blas_case(const pg__blas_shape *s)
{
    const int at = s->a_transposed, bt = s->b_transposed;
    pg__pick_case c = {.n_key = 0};
    ADD(&c, PRODUCT, s->m, s->n, s->k, (uint64_t)at, (uint64_t)bt, s->lda, s->ldb, s->ldc, s->batch,
        s->stride_a, s->stride_b, s->stride_c, bits_of(s->alpha), bits_of(s->beta), s->epilogue,
        s->a, s->b, s->c, s->align);
    c.bytes[0] = matrix_bytes(s, at ? s->k : s->m, at ? s->m : s->k, s->lda, s->stride_a, s->a);
    c.bytes[1] = matrix_bytes(s, bt ? s->n : s->k, bt ? s->k : s->n, s->ldb, s->stride_b, s->b);
    c.bytes[2] = matrix_bytes(s, s->m, s->n, s->ldc, s->stride_c, s->c);
    c.bytes[3] = pgk_bytes(PGK_F32, s->epilogue == PG_BLAS_NONE ? 0 : s->n);
    return c;
}

pg__pick_case pg__dnn_case(const pg__dnn_conv *v)
{
    const pg__conv_attrs *a = &v->conv;
    const uint64_t filters = v->y.d[a->rank + 1];
    uint64_t n_w = v->x.d[a->rank + 1] / a->groups * filters;
    pg__pick_case c = {.n_key = 0};
    ADD(&c, CONVOLUTION, v->kind, a->rank, a->groups, (uint64_t)v->bias, (uint64_t)v->relu, v->type,
        v->out_type);
    pg__pick_add(&c, v->x.d, a->rank + 2);
    pg__pick_add(&c, v->y.d, a->rank + 2);
    for (uint32_t k = 0; k < a->rank; k++) {
        ADD(&c, a->kernel[k], a->stride[k], a->dilation[k], a->before[k], a->after[k]);
        n_w *= a->kernel[k];
    }
    const size_t x =
        pgk_bytes(v->kind == PG_DNN_DATA ? v->out_type : v->type, pg__dims_elems(&v->x));
    const size_t y =
        pgk_bytes(v->kind == PG_DNN_FORWARD ? v->out_type : v->type, pg__dims_elems(&v->y));
    const size_t w = pgk_bytes(v->kind == PG_DNN_FILTER ? v->out_type : v->type, n_w);
    c.bytes[0] = v->kind == PG_DNN_DATA ? y : x;
    c.bytes[1] = v->kind == PG_DNN_FILTER ? y : w;
    c.bytes[2] = v->kind == PG_DNN_FORWARD ? y : v->kind == PG_DNN_DATA ? x : w;
    c.bytes[3] = pgk_bytes(PGK_F32, v->bias ? filters : 0);
    return c;
}
