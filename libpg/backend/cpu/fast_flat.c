/* fast_flat.c - operations on flat parameters and gradients besides the update rules. */
#include "backend/cpu/fast.h"
#include "backend/cpu/isa.h"

void PG_FAST_FN(accumulate)(float *into, const float *from, size_t n)
{
    PG_EACH
    for (size_t i = 0; i < n; i++)
        into[i] += from[i];
}

/* A number with share 0 may be NaN or infinite. */
void PG_FAST_FN(blend)(float *into, float keep, const float *from, float take, size_t n)
{
    if (keep == 0 || take == 0) {
        const float *of = keep == 0 ? from : into;
        const float by = keep == 0 ? take : keep;
        for (size_t i = 0; i < n; i++)
            into[i] = by == 0 ? 0 : by * of[i];
        return;
    }
    PG_EACH
    for (size_t i = 0; i < n; i++)
        into[i] = keep * into[i] + take * from[i];
}

/* limit 0: none. */
void PG_FAST_FN(clip)(float *g, float scale, float limit, size_t n)
{
    if (limit > 0)
        PG_EACH
    for (size_t i = 0; i < n; i++) {
        const float v = g[i] * scale, low = v < -limit ? -limit : v;
        g[i] = low > limit ? limit : low;
    }
    else PG_EACH for (size_t i = 0; i < n; i++) g[i] *= scale;
}

/* The order of the sum is the same for every instruction set. */
double PG_FAST_FN(squares)(const float *g, size_t n)
{
    enum { LANES = 32 };
    double part[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            part[k] += (double)g[i + k] * (double)g[i + k];
    for (; i < n; i++)
        sum += (double)g[i] * (double)g[i];
    for (size_t k = 0; k < LANES; k++)
        sum += part[k];
    return sum;
}

/* Rounding may carry into infinity, as it should; NaN keeps a bit that makes it NaN. */
void PG_FAST_FN(to_bf16)(float *v, size_t n)
{
    PG_EACH
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)pg__bits_of(v[i]);
        const uint32_t nearest = bits + 0x7fffu + (bits >> 16 & 1);
        const uint32_t kept = (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : nearest;
        v[i] = pg__of_bits((int32_t)(kept & 0xffff0000u));
    }
}
