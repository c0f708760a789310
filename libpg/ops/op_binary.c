/* op_binary.c - sums, products and the like of two operands that repeat along axes of size 1. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

/* Size of axis i, counted from the last; 1 if there is none. */
static uint64_t from_last(const pg__dims *s, uint32_t i)
{
    return i < s->rank ? s->d[s->rank - 1 - i] : 1;
}

pg_status pg__shape_binary(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                           pg_err *err)
{
    const pg__dims *a = in[0], *b = in[1];
    (void)attrs, (void)n_in;
    out->rank = a->rank > b->rank ? a->rank : b->rank;
    for (uint32_t i = 0; i < out->rank; i++) {
        const uint64_t m = from_last(a, i), n = from_last(b, i);
        if (m != 1 && n != 1 && !pg__dim_fits(m, n))
            return pg_fail(err, PG_E_MISMATCH, "cannot combine %s and %s", PG_SHAPE(a),
                           PG_SHAPE(b));
        out->d[out->rank - 1 - i] = m == 1 || (m == PG_DIM_ANY && n != 1) ? n : m;
    }
    return PG_OK;
}

pg_status pg__shape_binary_pick(const void *attrs, const pg__dims *const *in, size_t n_in,
                                pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    out[0] = out[1] = *in[2];
    return PG_OK;
}

/* Adds g, which has the result's shape, to the gradient of operand k. */
static pg_status give_summed(pg__tape *t, const pg__inst *i, size_t k, pg__val g, pg_err *err)
{
    const pg__spread_attrs a = {.to = t->values[pg__in(t, i, k)].shape};
    pg_status st = PG_OK;
    if (!pg__dims_equal(&a.to, &t->values[g].shape))
        PG_TRY(pg__emit1(t, PG_OP_sum_to, &a, g, &g, err));
    PG_TRY(pg__give(t, i, k, g, err));
done:
    return st;
}

/* The gradient of the second operand of a difference or a quotient. */
static pg_status second(pg__tape *t, const pg__inst *i, pg__binary_kind kind, pg__val dy,
                        pg__val *out, pg_err *err)
{
    const pg__binary_attrs times = {PG_MULTIPLY}, by = {PG_DIVIDE};
    pg__val g = dy;
    pg_status st = PG_OK;
    if (kind == PG_DIVIDE) { /* -dy y / b */
        PG_TRY(pg__emit2(t, PG_OP_binary, &times, dy, pg__out(t, i, 0), &g, err));
        PG_TRY(pg__emit2(t, PG_OP_binary, &by, g, pg__in(t, i, 1), &g, err));
    }
    PG_TRY(pg__emit1(t, PG_OP_affine, &(pg__affine_attrs){-1, 0}, g, out, err));
done:
    return st;
}

pg_status pg__backward_binary(pg__tape *t, const pg__inst *i, pg_err *err)
{
    const pg__binary_kind kind = ((const pg__binary_attrs *)i->attrs)->kind;
    const pg__val dy = pg__grad_of(t, i, 0), a = pg__in(t, i, 0), b = pg__in(t, i, 1);
    const int a_wants = pg__wants(t, i, 0), b_wants = pg__wants(t, i, 1);
    pg__val g[2] = {dy, dy};
    pg_status st = PG_OK;
    if (kind == PG_MAXIMUM || kind == PG_MINIMUM)
        PG_TRY(pg__emit3(t, PG_OP_binary_pick, i->attrs, a, b, dy, g, err));
    if ((kind == PG_MULTIPLY || kind == PG_DIVIDE) && a_wants)
        PG_TRY(pg__emit2(t, PG_OP_binary, i->attrs, dy, b, &g[0], err));
    if (kind == PG_MULTIPLY && b_wants)
        PG_TRY(pg__emit2(t, PG_OP_binary, i->attrs, dy, a, &g[1], err));
    if ((kind == PG_SUBTRACT || kind == PG_DIVIDE) && b_wants)
        PG_TRY(second(t, i, kind, dy, &g[1], err));
    if (a_wants)
        PG_TRY(give_summed(t, i, 0, g[0], err));
    if (b_wants)
        PG_TRY(give_summed(t, i, 1, g[1], err));
done:
    return st;
}
