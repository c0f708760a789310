/* dense.c - dense layers as matrix products of oneDNN (dnnl_sgemm: row-major, the same call in 2.x and
 * 3.x). oneDNN would start threads of its own; the work is divided already, so it gets one. */
#include "backend/cpu/dense.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

static uint64_t last(const pg__arg *a)
{
    return a->shape->d[a->shape->rank - 1];
}

/* c[m x n] = a b + beta c; the only failure would be a wrong argument. */
static void product(char transpose_a, char transpose_b, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k,
                    const float *a, const float *b, float beta, float *c)
{
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    (void)dnnl_sgemm(transpose_a, transpose_b, m, n, k, 1.0f, a, transpose_a == 'N' ? k : m, b,
                     transpose_b == 'N' ? n : k, beta, c, n);
    omp_set_num_threads(threads);
}

void pg__cpu_dense(const void *attrs, const pg__arg *in, size_t n_in, const pg__arg *out,
                   size_t n_out)
{
    const uint64_t k = last(&in[0]), n = last(&in[1]), m = k ? in[0].n / k : 0;
    const float *b = n_in > 2 ? in[2].p : NULL;
    float *y = out[0].p;
    (void)attrs, (void)n_out;
    if (m == 0 || n == 0)
        return;
    for (uint64_t r = 0; b && r < m; r++)
        memcpy(y + r * n, b, n * sizeof *y);
    product('N', 'N', (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, in[0].p, in[1].p,
            b ? 1.0f : 0.0f, y);
}

/* dx[m x k] = dy[m x n] w' */
void pg__cpu_dense_dx(const void *attrs, const pg__arg *in, size_t n_in, const pg__arg *out,
                      size_t n_out)
{
    const uint64_t n = last(&in[0]), k = in[1].shape->d[0], m = n ? in[0].n / n : 0;
    (void)attrs, (void)n_in, (void)n_out;
    if (m > 0 && k > 0)
        product('N', 'T', (dnnl_dim_t)m, (dnnl_dim_t)k, (dnnl_dim_t)n, in[0].p, in[1].p, 0.0f,
                out[0].p);
}

/* dw[k x n] = x' dy, db[n] = column sums of dy */
void pg__cpu_dense_dw(const void *attrs, const pg__arg *in, size_t n_in, const pg__arg *out,
                      size_t n_out)
{
    const uint64_t k = last(&in[0]), n = last(&in[1]), m = n ? in[1].n / n : 0;
    const float *dy = in[1].p;
    float *db = out[1].p;
    (void)attrs, (void)n_in, (void)n_out;
    if (m == 0 || k == 0)
        return;
    if (out[0].p)
        product('T', 'N', (dnnl_dim_t)k, (dnnl_dim_t)n, (dnnl_dim_t)m, in[0].p, dy, 0.0f, out[0].p);
    if (!db)
        return;
    memset(db, 0, n * sizeof *db);
    for (uint64_t r = 0; r < m; r++)
        for (uint64_t j = 0; j < n; j++)
            db[j] += dy[r * n + j];
}
