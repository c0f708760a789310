/* dense.c - dense layers as matrix products. */
#include "backend/cpu/dense.h"

#include <string.h>

#include "backend/cpu/dnnl_compat.h"

static uint64_t last(const pg__arg *a)
{
    return a->shape->d[a->shape->rank - 1];
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
    pg__dnnl_product('N', 'N', m, n, k, in[0].p, k, in[1].p, n, b ? 1.0f : 0.0f, y, n);
}

/* dx[m x k] = dy[m x n] w' */
void pg__cpu_dense_dx(const void *attrs, const pg__arg *in, size_t n_in, const pg__arg *out,
                      size_t n_out)
{
    const uint64_t n = last(&in[0]), k = in[1].shape->d[0], m = n ? in[0].n / n : 0;
    (void)attrs, (void)n_in, (void)n_out;
    if (m > 0 && k > 0)
        pg__dnnl_product('N', 'T', m, k, n, in[0].p, n, in[1].p, n, 0.0f, out[0].p, k);
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
        pg__dnnl_product('T', 'N', k, n, m, in[0].p, k, dy, n, 0.0f, out[0].p, n);
    if (!db)
        return;
    memset(db, 0, n * sizeof *db);
    for (uint64_t r = 0; r < m; r++)
        for (uint64_t j = 0; j < n; j++)
            db[j] += dy[r * n + j];
}
