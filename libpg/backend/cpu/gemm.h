/* gemm.h - matrix products on one thread. */
#ifndef PG_BACKEND_CPU_GEMM_H
#define PG_BACKEND_CPU_GEMM_H

#include <stddef.h>

/* A row-major matrix whose rows are `ld` numbers apart. turned: its transpose is the factor. */
typedef struct pg__mat {
    const float *p;
    size_t ld;
    int turned;
} pg__mat;

/* c[m x n] = alpha a[m x k] b[k x n] + beta c; c is not read if beta is 0. */
void pg__gemm(size_t m, size_t n, size_t k, float alpha, pg__mat a, pg__mat b, float beta, float *c,
              size_t ldc);

#endif
