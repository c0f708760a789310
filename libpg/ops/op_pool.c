/* op_pool.c - maximum and average over windows of one to three spatial dimensions, channels last.
 */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

/* Windows that fit along one axis. */
static uint64_t out_cells(const pg__pool_attrs *a, uint32_t i, uint64_t size)
{
    const uint64_t all = pg__dim_add(size, a->before[i] + a->after[i]);
    if (a->window[i] == 0)
        return 1;
    if (all == PG_DIM_ANY)
        return PG_DIM_ANY;
    return all < a->window[i] ? 0 : (all - a->window[i]) / a->stride[i] + 1;
}

pg_status pg__shape_pool(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                         pg_err *err)
{
    const pg__pool_attrs *a = attrs;
    (void)n_in;
    if (in[0]->rank != a->rank + 2)
        return pg_fail(err, PG_E_MISMATCH, "input %s does not have %u spatial dimensions",
                       PG_SHAPE(in[0]), a->rank);
    *out = *in[0];
    for (uint32_t i = 0; i < a->rank; i++) {
        out->d[i + 1] = out_cells(a, i, in[0]->d[i + 1]);
        if (out->d[i + 1] == 0 || in[0]->d[i + 1] == 0)
            return pg_fail(err, PG_E_MISMATCH, "input %s is smaller than the window",
                           PG_SHAPE(in[0]));
    }
    return PG_OK;
}

pg_status pg__shape_pool_grad(const void *attrs, const pg__dims *const *in, size_t n_in,
                              pg__dims *out, pg_err *err)
{
    const pg__pool_attrs *a = attrs;
    (void)n_in, (void)err;
    *out = *in[1];
    for (uint32_t i = 0; i < a->rank; i++)
        out->d[i + 1] = a->size[i];
    return PG_OK;
}

pg_status pg__backward_pool(pg__tape *t, const pg__inst *i, pg_err *err)
{
    pg__pool_attrs a = *(const pg__pool_attrs *)i->attrs;
    const pg__val x = pg__in(t, i, 0);
    pg__val dx;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, 0))
        return PG_OK;
    for (uint32_t k = 0; k < a.rank; k++)
        a.size[k] = t->values[x].shape.d[k + 1];
    PG_TRY(
        pg__emit2(t, PG_OP_pool_grad, &a, a.max ? x : PG_NO_VAL, pg__grad_of(t, i, 0), &dx, err));
    PG_TRY(pg__give(t, i, 0, dx, err));
done:
    return st;
}
