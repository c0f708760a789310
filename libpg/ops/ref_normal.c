/* ref_normal.c - normally distributed numbers by Box and Muller's transformation: base/philox.h
 * draws four uniform numbers at once, and each two of them make two. Key and counter are
 * dropout's. */
#include "base/philox.h"
#include "ops/real.h"

static void four(const pg__random *r, real *out)
{
    for (size_t k = 0; k < 4; k += 2) {
        const real u = (real)((r->v[k] >> 8) + 1) * (real)0x1p-24; /* never 0 */
        const real angle = (real)(r->v[k + 1] >> 8) * (real)(0x1p-24 * 6.283185307179586);
        const real length = R(sqrt)(-2 * R(log)(u));
        out[k] = length * R(cos)(angle);
        out[k + 1] = length * R(sin)(angle);
    }
}

void PG_REF(normal)(PG_REF_ARGS)
{
    const pg__normal_attrs *a = attrs_;
    const pg__dims *s = &a->shape;
    const int32_t *step = in[0].p;
    const uint64_t count = pg__step_number(step, PG_STEP_COUNT), n = out[0].n;
    real *y = pg__reals_out(&out[0]), numbers[4];
    uint64_t first = 0;
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    if (s->rank > 0 && s->d[0] > 0)
        first = pg__step_number(step, PG_STEP_ROW) * (a->fold ? a->fold : 1) * (n / s->d[0]);
    for (uint64_t i = 0; i < n; i++) {
        if (i == 0 || (first + i) % 4 == 0) {
            const pg__random r =
                pg__philox_at(pg__step_number(step, PG_STEP_SEED), first + i, (uint32_t)count,
                              a->stream ^ (uint32_t)(count >> 32) << 24);
            four(&r, numbers);
        }
        y[i] = numbers[(first + i) % 4];
    }
}
