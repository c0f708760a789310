/* blas.h - matrix products of row-major matrices: C = alpha op(A) op(B) + beta C [+ bias], batched.
 * cuBLASLt (blas_lt.c) or plain loops (host_blas.c). */
#ifndef PG_BACKEND_BLAS_H
#define PG_BACKEND_BLAS_H

#include "backend/cuda/cuda.h"

typedef enum pg__blas_epilogue {
    PG_BLAS_NONE,
    PG_BLAS_BIAS,     /* bias[j] is added to column j */
    PG_BLAS_BIAS_GRAD /* bias[j] becomes the sum of op(B)'s column j: for dW = x' dy */
} pg__blas_epilogue;

typedef struct pg__blas_shape {
    uint64_t m, n, k;                      /* C is m x n */
    int a_transposed, b_transposed;        /* in memory A is k x m, B is n x k */
    uint64_t lda, ldb, ldc;                /* elements from row to row; 0: as many as a row has */
    uint64_t batch;                        /* 0: one */
    uint64_t stride_a, stride_b, stride_c; /* elements from one of the batch to the next */
    float alpha, beta;
    pg__blas_epilogue epilogue;
    pgk_type a, b, c; /* the bias and its gradient are of c's */
    uint32_t align;   /* bytes that all addresses are a multiple of; 0: 16 */
} pg__blas_shape;

/* A product as a piece of work; its arrays are those of pg__blas_run(). */
pg__pick_case pg__blas_case(const pg__blas_shape *s);

typedef struct pg__blas_plan pg__blas_plan;

/* What a device needs of the library, in d->blas. */
pg_status pg__blas_open(pg__dev *d, pg_err *err);
void pg__blas_close(pg__dev *d);

/* needs->scratch_bytes is raised to what a run needs, so plans that run one after the other share
 * it; the caller's own data there comes after it (pg__cuda_reserve(), after the last plan).
 * PG_E_UNSUPPORTED: the library cannot do it; without an epilogue, and with a and b of the same
 * type, it always can. */
pg_status pg__blas_new(pg__blas_plan **out, pg__dev *d, const pg__blas_shape *s, pg__needs *needs,
                       pg_err *err);
void pg__blas_free(pg__blas_plan *p);
/* The failure is the device's. */
pg_status pg__blas_run(pg__dev *d, const pg__blas_plan *p, const void *a, const void *b, void *c,
                       void *bias, void *scratch);

#endif
