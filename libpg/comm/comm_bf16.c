/* comm_bf16.c - numbers as bfloat16, the upper half of a float32, rounded to the nearest even. */
#include <math.h>
#include <string.h>

#include "comm/comm_impl.h"

static float float_of(uint16_t b)
{
    const uint32_t bits = (uint32_t)b << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t rounded(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* An overflow is not made up for: it would be infinite for ever. */
static float rest_of(float x, uint16_t b)
{
    const float rest = x - float_of(b);
    return isfinite(rest) ? rest : 0;
}

void pg__bf16_put(uint16_t *to, const float *from, float *lost, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = rounded(from[i]);
        lost[i] += rest_of(from[i], to[i]);
    }
}

void pg__bf16_round(float *x, float *lost, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint16_t b = rounded(x[i]);
        lost[i] += rest_of(x[i], b);
        x[i] = float_of(b);
    }
}

void pg__bf16_take(float *to, const uint16_t *from, size_t n, int adds)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (adds ? to[i] : 0) + float_of(from[i]);
}

void pg__bf16_repay(float *x, float *lost, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] += lost[i];
        lost[i] = 0;
    }
}
