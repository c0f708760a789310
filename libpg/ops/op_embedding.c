/* op_embedding.c - rows of a table by their ids. The gradient is dense: optimizers with state
 * change every row in every step, whether or not it was looked up. */
#include "base/try.h"
#include "ops/rules.h"

/* ids, table (ids, columns) */
pg_status pg__shape_embedding(const void *attrs, const pg__dims *const *in, size_t n_in,
                              pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in;
    if (in[0]->rank >= PG_MAX_RANK)
        return pg_fail(err, PG_E_LIMIT, "ids of %u dimensions are not supported", in[0]->rank);
    *out = *in[0];
    out->d[out->rank++] = in[1]->d[1];
    return PG_OK;
}

/* ids, gradient, table */
pg_status pg__shape_embedding_dw(const void *attrs, const pg__dims *const *in, size_t n_in,
                                 pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    return pg__shape_like(in, 2, out);
}

pg_status pg__backward_embedding(pg__tape *t, const pg__inst *i, pg_err *err)
{
    pg__val dw;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, 1))
        return PG_OK;
    PG_TRY(pg__emit3(t, PG_OP_embedding_dw, NULL, pg__in(t, i, 0), pg__grad_of(t, i, 0),
                     pg__in(t, i, 1), &dw, err));
    PG_TRY(pg__give(t, i, 1, dw, err));
done:
    return st;
}
