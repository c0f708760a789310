/* op_bn.c - batch normalisation over all axes but the last, in steps between which slices of a
 * batch can be combined: bn_stats -> (merge) -> bn_var -> bn_apply, and backward bn_sums -> (add)
 * -> bn_dx. bn_apply's gradient is that of the whole operation: it includes the statistics, which
 * have none of their own. Formulas: x' = (x - mean) / sqrt(variance + epsilon), y = gamma x' +
 * beta, dx = gamma / sqrt(variance + epsilon) (dy - mask (sum(dy) + x' sum(dy x')) / count). */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

enum { X, MEAN, VARIANCE, GAMMA, BETA, COUNT, MASK, N_APPLY };

/* A mask has one number per row, or per row and step: the first dimensions of x. */
static int mask_fits(const pg__dims *x, const pg__dims *mask)
{
    if (mask->rank >= x->rank)
        return 0;
    for (uint32_t i = 0; i < mask->rank; i++)
        if (!pg__dim_fits(mask->d[i], x->d[i]))
            return 0;
    return 1;
}

pg_status pg__shape_bn_stats(const void *attrs, const pg__dims *const *in, size_t n_in,
                             pg__dims *out, pg_err *err)
{
    const pg__dims *x = in[0], *mask = n_in > 1 ? in[1] : NULL;
    (void)attrs;
    if (x->rank < 2 || (mask && !mask_fits(x, mask)))
        return pg_fail(err, PG_E_MISMATCH, "input %s cannot be normalised under the mask %s",
                       PG_SHAPE(x), mask ? PG_SHAPE(mask) : "None");
    out[0] = out[1] = pg__dims_of(1, &x->d[x->rank - 1]);
    out[2] = (pg__dims){.rank = 0};
    return PG_OK;
}

pg_status pg__shape_bn_var(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                           pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    return pg__shape_like(in, 0, out);
}

pg_status pg__shape_bn_apply(const void *attrs, const pg__dims *const *in, size_t n_in,
                             pg__dims *out, pg_err *err)
{
    const pg__dims *x = in[X];
    (void)attrs;
    for (size_t k = MEAN; k < n_in && k <= BETA; k++)
        if (in[k] && (in[k]->rank != 1 || in[k]->d[0] != x->d[x->rank - 1]))
            return pg_fail(err, PG_E_MISMATCH, "input %s does not fit statistics %s", PG_SHAPE(x),
                           PG_SHAPE(in[k]));
    return pg__shape_like(in, X, out);
}

pg_status pg__shape_bn_sums(const void *attrs, const pg__dims *const *in, size_t n_in,
                            pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    out[0] = *in[1];
    out[1] = out[2] = *in[2];
    return PG_OK;
}

pg_status pg__shape_bn_dx(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                          pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    return pg__shape_like(in, 0, out);
}

/* Is the slope as fast to compute as to read? */
static int is_cheap(const pg__act_attrs *a)
{
    return a->kind == PG_ACT_RELU || a->kind == PG_ACT_HARD_SIGMOID;
}

/* What comes back through the activation, and its sum, and the sum of it times the normalised x. */
static pg_status emit_sums(pg__tape *t, const pg__inst *i, pg__val out[3], pg_err *err)
{
    const pg__bn_attrs *a = i->attrs;
    const pg__val operands[] = {pg__in(t, i, X),        pg__grad_of(t, i, 0), pg__in(t, i, MEAN),
                                pg__in(t, i, VARIANCE), pg__in(t, i, GAMMA),  pg__in(t, i, BETA)};
    return pg__emit(t, PG_OP_bn_sums, a, operands, a->has_act ? 6 : 4, out, err);
}

pg_status pg__backward_bn_apply(pg__tape *t, const pg__inst *i, pg_err *err)
{
    const pg__val count = pg__in(t, i, COUNT);
    pg__bn_attrs a = *(const pg__bn_attrs *)i->attrs;
    const int through = count != PG_NO_VAL && pg__wants(t, i, X);
    pg__val of[3] = {pg__grad_of(t, i, 0), PG_NO_VAL, PG_NO_VAL}, dx; /* dy and its sums */
    pg_status st = PG_OK;
    if (through || pg__wants(t, i, GAMMA) || pg__wants(t, i, BETA)) {
        PG_TRY(emit_sums(t, i, of, err));
        if (!a.has_act || is_cheap(&a.act))
            of[0] = pg__grad_of(t, i, 0);
        else
            a.has_act = 0;
    }
    if (pg__wants(t, i, GAMMA))
        PG_TRY(pg__give(t, i, GAMMA, of[2], err));
    if (pg__wants(t, i, BETA))
        PG_TRY(pg__give(t, i, BETA, of[1], err));
    if (!pg__wants(t, i, X))
        goto done;
    if (through && a.meets) /* those of gamma and beta stay the lane's own */
        PG_TRY(pg__emit(t, PG_OP_meet_sums, NULL, &of[1], 2, &of[1], err));
    const pg__val operands[] = {pg__in(t, i, X),
                                of[0],
                                pg__in(t, i, MEAN),
                                pg__in(t, i, VARIANCE),
                                pg__in(t, i, GAMMA),
                                through ? of[1] : PG_NO_VAL,
                                through ? of[2] : PG_NO_VAL,
                                count,
                                pg__in(t, i, MASK),
                                pg__in(t, i, BETA)};
    PG_TRY(pg__emit(t, PG_OP_bn_dx, &a, operands, a.has_act ? 10 : 9, &dx, err));
    PG_TRY(pg__give(t, i, X, dx, err));
done:
    return st;
}
