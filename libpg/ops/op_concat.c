/* op_concat.c - joins operands along an axis; the gradients are cut out again. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

pg_status pg__shape_concat(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                           pg_err *err)
{
    const uint32_t axis = ((const pg__concat_attrs *)attrs)->axis;
    *out = *in[0];
    for (size_t k = 0; k < n_in; k++) {
        int fits = in[k]->rank == out->rank && axis < out->rank;
        for (uint32_t i = 0; fits && i < out->rank; i++)
            fits = i == axis || pg__dim_fits(in[k]->d[i], out->d[i]);
        if (!fits)
            return pg_fail(err, PG_E_MISMATCH, "cannot join %s and %s along axis %u",
                           PG_SHAPE(in[0]), PG_SHAPE(in[k]), axis);
        for (uint32_t i = 0; i < out->rank; i++)
            out->d[i] = out->d[i] == PG_DIM_ANY && i != axis ? in[k]->d[i] : out->d[i];
        if (k > 0)
            out->d[axis] = pg__dim_add(out->d[axis], in[k]->d[axis]);
    }
    return PG_OK;
}

pg_status pg__backward_concat(pg__tape *t, const pg__inst *i, pg_err *err)
{
    const uint32_t axis = ((const pg__concat_attrs *)i->attrs)->axis;
    const pg__val dy = pg__grad_of(t, i, 0);
    int64_t before = 0, after = (int64_t)t->values[dy].shape.d[axis];
    pg_status st = PG_OK;
    for (uint32_t k = 0; k < i->n_in; k++) {
        const int64_t n = (int64_t)t->values[pg__in(t, i, k)].shape.d[axis];
        pg__pad_attrs cut = {.before = {0}};
        pg__val dx;
        after -= n;
        cut.before[axis] = -before;
        cut.after[axis] = -after;
        before += n;
        if (!pg__wants(t, i, k))
            continue;
        PG_TRY(pg__emit1(t, PG_OP_pad, &cut, dy, &dx, err));
        PG_TRY(pg__give(t, i, k, dx, err));
    }
done:
    return st;
}
