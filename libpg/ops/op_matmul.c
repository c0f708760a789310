/* op_matmul.c - matmul: a matrix product for each row of the batch, of operands that both have
 * gradients. Either may be stored transposed, so the gradients are the same operation. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

pg_status pg__shape_matmul(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                           pg_err *err)
{
    const pg__matmul_attrs *t = attrs;
    const pg__dims *a = in[0], *b = in[1];
    (void)n_in;
    if (a->rank != 3 || b->rank != 3 || !pg__dim_fits(a->d[0], b->d[0]) ||
        !pg__dim_fits(a->d[t->a_turned ? 1 : 2], b->d[t->b_turned ? 2 : 1]))
        return pg_fail(err, PG_E_MISMATCH, "cannot multiply %s%s by %s%s", PG_SHAPE(a),
                       t->a_turned ? ", transposed," : "", PG_SHAPE(b),
                       t->b_turned ? ", transposed" : "");
    *out = *a;
    out->d[1] = a->d[t->a_turned ? 2 : 1];
    out->d[2] = b->d[t->b_turned ? 1 : 2];
    return PG_OK;
}

static pg_status give_product(pg__tape *t, const pg__inst *i, size_t k, pg__matmul_attrs turned,
                              pg__val a, pg__val b, pg_err *err)
{
    pg__val grad;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, k))
        return PG_OK;
    PG_TRY(pg__emit2(t, PG_OP_matmul, &turned, a, b, &grad, err));
    PG_TRY(pg__give(t, i, k, grad, err));
done:
    return st;
}

pg_status pg__backward_matmul(pg__tape *t, const pg__inst *i, pg_err *err)
{
    const pg__matmul_attrs *at = i->attrs;
    const int a_turned = at->a_turned, b_turned = at->b_turned;
    const pg__val a = pg__in(t, i, 0), b = pg__in(t, i, 1), dy = pg__grad_of(t, i, 0);
    pg_status st = PG_OK;
    PG_TRY(a_turned ? give_product(t, i, 0, (pg__matmul_attrs){b_turned, 1}, b, dy, err)
                    : give_product(t, i, 0, (pg__matmul_attrs){0, !b_turned}, dy, b, err));
    PG_TRY(b_turned ? give_product(t, i, 1, (pg__matmul_attrs){1, a_turned}, dy, a, err)
                    : give_product(t, i, 1, (pg__matmul_attrs){!a_turned, 0}, a, dy, err));
done:
    return st;
}
