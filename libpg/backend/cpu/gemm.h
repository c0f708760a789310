/* gemm.h - matrix products of one thread. */
#ifndef PG_BACKEND_CPU_GEMM_H
#define PG_BACKEND_CPU_GEMM_H

#include <stddef.h>

/* A row-major matrix of which rows stand `ld` numbers apart. turned: its rows are the columns of
 * the factor that is meant. */
typedef struct pg__mat {
    const float *p;
    size_t ld;
    int turned;
} pg__mat;

/* c[m x n] = alpha a[m x k] b[k x n] + beta c; c is not read where beta is 0. */
void pg__gemm(size_t m, size_t n, size_t k, float alpha, pg__mat a, pg__mat b, float beta, float *c,
              size_t ldc);

#endif
