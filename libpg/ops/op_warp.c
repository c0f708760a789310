/* op_warp.c - augmentation: random numbers for each row, and images whose cells they move. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

/* step */
pg_status pg__shape_uniform(const void *attrs, const pg__dims *const *in, size_t n_in,
                            pg__dims *out, pg_err *err)
{
    const pg__uniform_attrs *a = attrs;
    (void)in, (void)n_in;
    if (a->to.rank != 2 || a->to.d[1] < 1 || a->to.d[1] > PG_MAX_DRAWN)
        return pg_fail(err, PG_E_MISMATCH, "cannot draw numbers %s", PG_SHAPE(&a->to));
    *out = a->to;
    return PG_OK;
}

/* x, drawn */
pg_status pg__shape_warp(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                         pg_err *err)
{
    const pg__warp_attrs *a = attrs;
    const pg__dims *x = in[0], *drawn = in[1];
    (void)n_in;
    if (x->rank != 4 || drawn->rank != 2 ||
        (drawn->d[0] != 1 && !pg__dim_fits(drawn->d[0], x->d[0])) || drawn->d[1] < 1 ||
        drawn->d[1] > PG_MAX_DRAWN)
        return pg_fail(err, PG_E_MISMATCH, "images %s do not go with the numbers %s", PG_SHAPE(x),
                       PG_SHAPE(drawn));
    *out = *x;
    out->d[1] = a->size[0];
    out->d[2] = a->size[1];
    return PG_OK;
}
