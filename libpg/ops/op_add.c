/* op_add.c - the sum of two values of the same shape; also adds gradients of a value that is used
 * twice. */
#include "base/try.h"
#include "ops/rules.h"

pg_status pg__shape_add(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                        pg_err *err)
{
    (void)attrs, (void)n_in;
    if (!pg__dims_equal(in[0], in[1]))
        return pg_fail(err, PG_E_MISMATCH, "cannot add %s and %s", PG_SHAPE(in[0]),
                       PG_SHAPE(in[1]));
    return pg__shape_like(in, 0, out);
}

pg_status pg__backward_add(pg__tape *t, const pg__inst *i, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t k = 0; k < 2; k++)
        if (pg__wants(t, i, k))
            PG_TRY(pg__give(t, i, k, pg__grad_of(t, i, 0), err));
done:
    return st;
}
