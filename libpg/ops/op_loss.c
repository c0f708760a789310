/* op_loss.c - losses: one weighted number per row of the last axis. The caller takes the mean over
 * the batch: it supplies the gradient's seed, 1/N of the whole batch, so that slices can be
 * summed. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

int pg__loss_takes_class(pg__loss_kind kind)
{
    enum { VALUES = 0, CLASS = 1 };
    static const unsigned char target[PG_N_LOSSES] = {
#define PG_LOSS(name, target) target,
#include "ops/losses.def"
#undef PG_LOSS
    };
    return target[kind];
}

/* One class per row, with or without a last axis of 1. */
static int fits(const pg__dims *p, const pg__dims *y, int takes_class)
{
    pg__dims rows = *p;
    if (!takes_class)
        return pg__dims_equal(p, y);
    rows.rank--;
    if (pg__dims_equal(&rows, y))
        return 1;
    rows.d[rows.rank++] = 1;
    return pg__dims_equal(&rows, y);
}

pg_status pg__shape_loss(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                         pg_err *err)
{
    const pg__loss_attrs *a = attrs;
    (void)n_in;
    if (in[0]->rank < 2 || !fits(in[0], in[1], pg__loss_takes_class(a->kind)))
        return pg_fail(err, PG_E_MISMATCH, "target %s does not fit the prediction %s",
                       PG_SHAPE(in[1]), PG_SHAPE(in[0]));
    *out = *in[0];
    out->rank--;
    return PG_OK;
}

pg_status pg__shape_loss_grad(const void *attrs, const pg__dims *const *in, size_t n_in,
                              pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    return pg__shape_like(in, 0, out);
}

pg_status pg__backward_loss(pg__tape *t, const pg__inst *i, pg_err *err)
{
    const pg__val in[] = {pg__in(t, i, 0), pg__in(t, i, 1), pg__in(t, i, 2), pg__in(t, i, 3)};
    pg__val dp;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, 0))
        return PG_OK;
    PG_TRY(pg__emit(t, PG_OP_loss_grad, i->attrs, in, 4, &dp, err));
    PG_TRY(pg__give(t, i, 0, dp, err));
done:
    return st;
}
