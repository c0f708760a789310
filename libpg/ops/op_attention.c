/* op_attention.c - attention of several heads between projected queries, keys and values. Operands
 * and results: pg__attention_attrs. The probabilities are kept for the gradient. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

enum { Q, K, V, Q_MASK, V_MASK, K_MASK, MASK, FACTORS, N_IN };

static int fits(const pg__dims *mask, const pg__dims *scores)
{
    const uint32_t skip = scores->rank - mask->rank; /* without heads, the mask has three */
    if (mask->rank < 3 || mask->rank > 4 ||
        (mask->d[0] != 1 && !pg__dim_fits(mask->d[0], scores->d[0])))
        return 0;
    for (uint32_t i = 1; i < mask->rank; i++)
        if (mask->d[i] != 1 && !pg__dim_fits(mask->d[i], scores->d[i + skip]))
            return 0;
    return 1;
}

static pg_status check_masks(const pg__dims *const *in, const pg__dims *scores, pg_err *err)
{
    const pg__dims steps[] = {pg__dims_of(2, in[Q]->d), pg__dims_of(2, in[V]->d),
                              pg__dims_of(2, in[K]->d)};
    for (size_t k = 0; k < 3; k++)
        if (in[Q_MASK + k] && !pg__dims_fit(in[Q_MASK + k], &steps[k]))
            return pg_fail(err, PG_E_MISMATCH, "the mask is %s, expected %s",
                           PG_SHAPE(in[Q_MASK + k]), PG_SHAPE(&steps[k]));
    if (in[MASK] && !fits(in[MASK], scores))
        return pg_fail(err, PG_E_MISMATCH, "attention mask %s does not fit scores %s",
                       PG_SHAPE(in[MASK]), PG_SHAPE(scores));
    return PG_OK;
}

pg_status pg__shape_attention(const void *attrs, const pg__dims *const *in, size_t n_in,
                              pg__dims *out, pg_err *err)
{
    const pg__attention_attrs *a = attrs;
    const pg__dims *q = in[Q], *k = in[K], *v = in[V];
    if (n_in != N_IN || q->rank != 3 || k->rank != 3 || v->rank != 3 ||
        !pg__dim_fits(k->d[0], q->d[0]) || !pg__dim_fits(v->d[0], q->d[0]) ||
        !pg__dim_fits(k->d[1], v->d[1]) || k->d[2] != q->d[2] || a->heads == 0 ||
        q->d[2] % a->heads || v->d[2] % a->heads)
        return pg_fail(err, PG_E_MISMATCH, "cannot attend from %s to keys %s and values %s",
                       PG_SHAPE(q), PG_SHAPE(k), PG_SHAPE(v));
    out[0] = pg__dims_of(3, (const uint64_t[]){q->d[0], q->d[1], v->d[2]});
    out[1] = pg__dims_of(4, (const uint64_t[]){q->d[0], a->heads, q->d[1], k->d[1]});
    return check_masks(in, &out[1], err);
}

/* q, k, v, factors, probabilities, gradients of y and of the probabilities -> dq, dk, dv; kept:
 * memory for one row of scores */
pg_status pg__shape_attention_grad(const void *attrs, const pg__dims *const *in, size_t n_in,
                                   pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    for (size_t k = 0; k < 3; k++)
        out[k] = *in[k];
    out[3] = pg__dims_of(1, &in[K]->d[1]);
    return PG_OK;
}

pg_status pg__backward_attention(pg__tape *t, const pg__inst *i, pg_err *err)
{
    const pg__val in[] = {pg__in(t, i, Q),       pg__in(t, i, K),  pg__in(t, i, V),
                          pg__in(t, i, FACTORS), pg__out(t, i, 1), pg__grad_of(t, i, 0),
                          pg__grad_of(t, i, 1)};
    pg__val grads[4];
    pg_status st = PG_OK;
    PG_TRY(pg__emit(t, PG_OP_attention_grad, i->attrs, in, 7, grads, err));
    for (size_t k = 0; k < 3; k++)
        if (pg__wants(t, i, k))
            PG_TRY(pg__give(t, i, k, grads[k], err));
done:
    return st;
}
