/* ref_matmul.c - a matrix product for each row of the batch. */
#include "ops/real.h"

/* A matrix of a batch: distances between neighbouring numbers of a row and of a column. */
typedef struct steps {
    size_t row, column;
} steps;

static steps steps_of(const pg__dims *d, int turned)
{
    const size_t width = (size_t)d->d[2];
    return turned ? (steps){1, width} : (steps){width, 1};
}

void PG_REF(matmul)(PG_REF_ARGS)
{
    const pg__matmul_attrs *t = attrs_;
    const pg__dims *s = out[0].shape;
    const steps by_a = steps_of(in[0].shape, t->a_turned),
                by_b = steps_of(in[1].shape, t->b_turned);
    const size_t batch = (size_t)s->d[0], m = (size_t)s->d[1], n = (size_t)s->d[2];
    const size_t k = (size_t)in[0].shape->d[t->a_turned ? 1 : 2];
    const real *a = pg__reals(&in[0]), *b = pg__reals(&in[1]);
    real *y = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < batch; r++, a += m * k, b += k * n)
        for (size_t i = 0; i < m; i++, y += n) {
            memset(y, 0, n * sizeof *y);
            for (size_t p = 0; p < k; p++)
                for (size_t j = 0; j < n; j++)
                    y[j] += a[i * by_a.row + p * by_a.column] * b[p * by_b.row + j * by_b.column];
        }
}
