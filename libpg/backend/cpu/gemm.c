/* gemm.c - matrix products by oneDNN (dnnl_sgemm: row-major, the same call in 2.x and 3.x). It
 * reaches at least 90% of a core's peak even for 16 x 256 x 64, as long as operands are in a cache;
 * see product.h for layers. Setting the number of threads costs 4 ns per call and affects only the
 * calling thread. */
#include "backend/cpu/gemm.h"

#include <string.h>

#include "backend/cpu/dnnl_compat.h"

static void clear(size_t m, size_t n, float *c, size_t ldc)
{
    for (size_t i = 0; i < m; i++)
        memset(c + i * ldc, 0, n * sizeof *c);
}

void pg__gemm(size_t m, size_t n, size_t k, float alpha, pg__mat a, pg__mat b, float beta, float *c,
              size_t ldc)
{
    if (k == 0 && beta == 0)
        clear(m, n, c, ldc);
    if (m == 0 || n == 0 || k == 0)
        return;
    const int was = pg__dnnl_alone();
    /* It could fail only for a wrong argument. */
    (void)dnnl_sgemm(a.turned ? 'T' : 'N', b.turned ? 'T' : 'N', (dnnl_dim_t)m, (dnnl_dim_t)n,
                     (dnnl_dim_t)k, alpha, a.p, (dnnl_dim_t)a.ld, b.p, (dnnl_dim_t)b.ld, beta, c,
                     (dnnl_dim_t)ldc);
    pg__dnnl_threads(was);
}
