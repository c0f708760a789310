/* op_pad.c - adds zeros around an array, or cuts cells off it; each undoes the other. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

pg_status pg__shape_pad(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                        pg_err *err)
{
    const pg__pad_attrs *a = attrs;
    (void)n_in;
    *out = *in[0];
    for (uint32_t i = 0; i < out->rank; i++) {
        int64_t n;
        if (out->d[i] == PG_DIM_ANY) {
            out->d[i] = a->most[i] == 1 ? 1 : PG_DIM_ANY; /* there may be fewer of several */
            continue;
        }
        if (__builtin_add_overflow((int64_t)out->d[i], a->before[i], &n) ||
            __builtin_add_overflow(n, a->after[i], &n) || n <= 0)
            return pg_fail(err, PG_E_MISMATCH, "nothing is left of axis %u of %s", i,
                           PG_SHAPE(in[0]));
        out->d[i] = (uint64_t)n;
    }
    return PG_OK;
}

pg_status pg__backward_pad(pg__tape *t, const pg__inst *i, pg_err *err)
{
    const pg__pad_attrs *a = i->attrs;
    pg__pad_attrs back = {.most = {0}};
    pg__val dx;
    pg_status st = PG_OK;
    if (!pg__wants(t, i, 0))
        return PG_OK;
    for (size_t k = 0; k < PG_MAX_RANK; k++) {
        back.before[k] = -a->before[k];
        back.after[k] = -a->after[k];
    }
    PG_TRY(pg__emit1(t, PG_OP_pad, &back, pg__grad_of(t, i, 0), &dx, err));
    PG_TRY(pg__give(t, i, 0, dx, err));
done:
    return st;
}
