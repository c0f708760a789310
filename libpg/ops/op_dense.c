/* op_dense.c - dense: y = x w + b over the last axis of x. dense_dx gives x's gradient, dense_dw
 * those of w and b (summed over all rows). */
#include "base/try.h"
#include "ops/rules.h"

pg_status pg__shape_dense(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                          pg_err *err)
{
    const pg__dims *x = in[0], *w = in[1], *b = n_in > 2 ? in[2] : NULL;
    (void)attrs;
    if (x->rank < 1 || w->rank != 2 || x->d[x->rank - 1] != w->d[0])
        return pg_fail(err, PG_E_MISMATCH, "input %s does not fit the kernel %s", PG_SHAPE(x),
                       PG_SHAPE(w));
    if (b && (b->rank != 1 || b->d[0] != w->d[1]))
        return pg_fail(err, PG_E_MISMATCH, "bias %s does not fit the kernel %s", PG_SHAPE(b),
                       PG_SHAPE(w));
    *out = *x;
    out->d[x->rank - 1] = w->d[1];
    return PG_OK;
}

pg_status pg__shape_dense_dx(const void *attrs, const pg__dims *const *in, size_t n_in,
                             pg__dims *out, pg_err *err)
{
    const pg__dims *dy = in[0], *w = in[1];
    (void)attrs, (void)n_in, (void)err;
    *out = *dy;
    out->d[dy->rank - 1] = w->d[0];
    return PG_OK;
}

pg_status pg__shape_dense_dw(const void *attrs, const pg__dims *const *in, size_t n_in,
                             pg__dims *out, pg_err *err)
{
    const uint64_t n_x = in[0]->d[in[0]->rank - 1], n_y = in[1]->d[in[1]->rank - 1];
    (void)attrs, (void)n_in, (void)err;
    out[0] = pg__dims_of(2, (const uint64_t[]){n_x, n_y});
    out[1] = pg__dims_of(1, &n_y);
    return PG_OK;
}

pg_status pg__backward_dense(pg__tape *t, const pg__inst *i, pg_err *err)
{
    const pg__val dy = pg__grad_of(t, i, 0), x = pg__in(t, i, 0), w = pg__in(t, i, 1);
    pg__val dx, dw[2];
    pg_status st = PG_OK;
    if (pg__wants(t, i, 1) || pg__wants(t, i, 2))
        PG_TRY(pg__emit2(t, PG_OP_dense_dw, NULL, x, dy, dw, err));
    if (pg__wants(t, i, 1))
        PG_TRY(pg__give(t, i, 1, dw[0], err));
    if (pg__wants(t, i, 2))
        PG_TRY(pg__give(t, i, 2, dw[1], err));
    if (pg__wants(t, i, 0)) {
        PG_TRY(pg__emit2(t, PG_OP_dense_dx, NULL, dy, w, &dx, err));
        PG_TRY(pg__give(t, i, 0, dx, err));
    }
done:
    return st;
}
