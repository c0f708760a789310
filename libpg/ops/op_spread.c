/* op_spread.c - repeating along axes of size 1, and its transpose, the sum over what was repeated.
 */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

/* Can `part` be repeated to make `whole`? Axes are aligned at the last. */
static int fits(const pg__dims *part, const pg__dims *whole)
{
    if (part->rank > whole->rank)
        return 0;
    for (uint32_t i = 0; i < part->rank; i++) {
        const uint64_t d = part->d[part->rank - 1 - i];
        if (d != 1 && !pg__dim_fits(d, whole->d[whole->rank - 1 - i]))
            return 0;
    }
    return 1;
}

pg_status pg__shape_spread(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                           pg_err *err)
{
    const pg__spread_attrs *a = attrs;
    (void)n_in;
    if (!fits(in[0], &a->to))
        return pg_fail(err, PG_E_MISMATCH, "cannot repeat %s to %s", PG_SHAPE(in[0]),
                       PG_SHAPE(&a->to));
    *out = a->to;
    return PG_OK;
}

pg_status pg__shape_sum_to(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                           pg_err *err)
{
    const pg__spread_attrs *a = attrs;
    (void)n_in;
    if (!fits(&a->to, in[0]))
        return pg_fail(err, PG_E_MISMATCH, "cannot sum %s to %s", PG_SHAPE(in[0]),
                       PG_SHAPE(&a->to));
    *out = a->to;
    return PG_OK;
}

static pg_status transposed(pg__tape *t, const pg__inst *i, pg__op_kind kind, pg_err *err)
{
    const pg__spread_attrs back = {.to = t->values[pg__in(t, i, 0)].shape};
    pg__val dx;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, 0))
        return PG_OK;
    PG_TRY(pg__emit1(t, kind, &back, pg__grad_of(t, i, 0), &dx, err));
    PG_TRY(pg__give(t, i, 0, dx, err));
done:
    return st;
}

pg_status pg__backward_spread(pg__tape *t, const pg__inst *i, pg_err *err)
{
    return transposed(t, i, PG_OP_sum_to, err);
}

pg_status pg__backward_sum_to(pg__tape *t, const pg__inst *i, pg_err *err)
{
    return transposed(t, i, PG_OP_spread, err);
}
