/* op_mask.c - masks: where they come from (ids that are not 0, steps that differ from a value) and
 * what they do to values and to the weights of a loss. A mask holds 1 and 0, and has no gradient.
 * Also casts between ids and numbers, for values that are both. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

pg_status pg__shape_mask_ids(const void *attrs, const pg__dims *const *in, size_t n_in,
                             pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    return pg__shape_like(in, 0, out);
}

pg_status pg__shape_cast(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                         pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    return pg__shape_like(in, 0, out);
}

pg_status pg__shape_mask_steps(const void *attrs, const pg__dims *const *in, size_t n_in,
                               pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in;
    if (in[0]->rank < 2)
        return pg_fail(err, PG_E_MISMATCH, "masking needs two dimensions or more, has %s",
                       PG_SHAPE(in[0]));
    *out = *in[0];
    out->rank--;
    return PG_OK;
}

/* Are the mask's dimensions the first ones of these? */
static int is_prefix(const pg__dims *mask, const pg__dims *of)
{
    for (uint32_t i = 0; i < mask->rank && i < of->rank; i++)
        if (!pg__dim_fits(mask->d[i], of->d[i]))
            return 0;
    return mask->rank <= of->rank;
}

/* x, mask: x times the mask of its leading dimensions */
pg_status pg__shape_mask_rows(const void *attrs, const pg__dims *const *in, size_t n_in,
                              pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in;
    if (!is_prefix(in[1], in[0]))
        return pg_fail(err, PG_E_MISMATCH, "mask %s does not fit %s", PG_SHAPE(in[1]),
                       PG_SHAPE(in[0]));
    return pg__shape_like(in, 0, out);
}

pg_status pg__backward_mask_rows(pg__tape *t, const pg__inst *i, pg_err *err)
{
    pg__val dx;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, 0))
        return PG_OK;
    PG_TRY(pg__emit2(t, PG_OP_mask_rows, NULL, pg__grad_of(t, i, 0), pg__in(t, i, 1), &dx, err));
    PG_TRY(pg__give(t, i, 0, dx, err));
done:
    return st;
}

/* weights of a loss (may be missing when it is run: 1), mask */
pg_status pg__shape_mask_weights(const void *attrs, const pg__dims *const *in, size_t n_in,
                                 pg__dims *out, pg_err *err)
{
    return pg__shape_mask_rows(attrs, in, n_in, out, err);
}
