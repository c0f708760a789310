/* fast_dropout.c - dropout whose noise has the value's own shape: numbers of PIECE counters at a
 * time, in vectors. The numbers are those of ref_dropout.c. */
#include "backend/cpu/fast.h"
#include "base/philox.h"

#define PIECE 64 /* counters: four numbers each */

typedef struct source {
    uint64_t seed;
    uint32_t count, stream;
    int32_t least; /* of the upper 24 bits of a number whose element is kept */
    float scale;
} source;

/* See ref_dropout.c. */
static source source_of(const pg__dropout_attrs *a, const int32_t *step)
{
    const uint64_t count = pg__step_number(step, PG_STEP_COUNT);
    return (source){.seed = pg__step_number(step, PG_STEP_SEED),
                    .count = (uint32_t)count,
                    .stream = a->stream ^ (uint32_t)(count >> 32) << 24,
                    .least = (int32_t)ceil((double)(float)a->rate * 0x1p24),
                    .scale = 1.0f / (1.0f - (float)a->rate)};
}

#define ROUND                                                                          \
    do {                                                                               \
        const uint64_t a = (uint64_t)0xD2511F53u * v0, b = (uint64_t)0xCD9E8D57u * v2; \
        v0 = (uint32_t)(b >> 32) ^ v1 ^ k0;                                            \
        v2 = (uint32_t)(a >> 32) ^ v3 ^ k1;                                            \
        v1 = (uint32_t)b;                                                              \
        v3 = (uint32_t)a;                                                              \
        k0 += 0x9E3779B9u;                                                             \
        k1 += 0xBB67AE85u;                                                             \
    } while (0)

/* Philox4x32-10 as base/philox.h, of PIECE counters from `first` on that have one high half. */
static void draw(const source *s, uint64_t first, int32_t numbers[4][PIECE])
{
    const uint32_t low = (uint32_t)first, high = (uint32_t)(first >> 32);
    PG_EACH
    for (uint32_t i = 0; i < PIECE; i++) {
        uint32_t k0 = (uint32_t)s->seed, k1 = (uint32_t)(s->seed >> 32);
        uint32_t v0 = low + i, v1 = high, v2 = s->count, v3 = s->stream;
        ROUND;
        ROUND;
        ROUND;
        ROUND;
        ROUND;
        ROUND;
        ROUND;
        ROUND;
        ROUND;
        ROUND;
        numbers[0][i] = (int32_t)(v0 >> 8);
        numbers[1][i] = (int32_t)(v1 >> 8);
        numbers[2][i] = (int32_t)(v2 >> 8);
        numbers[3][i] = (int32_t)(v3 >> 8);
    }
}

/* Elements at .. at + n of the noise, one by one. */
static void some(const source *s, uint64_t at, const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const pg__random r = pg__philox_at(s->seed, at + i, s->count, s->stream);
        y[i] = (int32_t)(r.v[(at + i) % 4] >> 8) >= s->least ? x[i] * s->scale : 0;
    }
}

static void many(const source *s, uint64_t at, const float *x, float *y)
{
    int32_t numbers[4][PIECE];
    const float scale = s->scale;
    const int32_t least = s->least;
    draw(s, at / 4, numbers);
    PG_EACH
    for (size_t i = 0; i < PIECE; i++) {
        const float a = x[4 * i], b = x[4 * i + 1], c = x[4 * i + 2], d = x[4 * i + 3];
        y[4 * i] = numbers[0][i] >= least ? a * scale : 0;
        y[4 * i + 1] = numbers[1][i] >= least ? b * scale : 0;
        y[4 * i + 2] = numbers[2][i] >= least ? c * scale : 0;
        y[4 * i + 3] = numbers[3][i] >= least ? d * scale : 0;
    }
}

void PG_FAST_FN(dropout)(PG_REF_ARGS)
{
    const pg__dropout_attrs *a = attrs_;
    const source s = source_of(a, in[1].p);
    const size_t n = (size_t)out[0].n;
    const float *x = in[0].p;
    float *y = out[0].p;
    uint64_t at = 0;
    size_t i = 0;
    if (!pg__dims_equal(&a->noise, out[0].shape) || a->noise.rank == 0) {
        PG_REF(dropout)(attrs_, in, n_in, out, n_out);
        return;
    }
    if (!a->rows_share)
        at = pg__step_number(in[1].p, PG_STEP_ROW) * (a->fold ? a->fold : 1) * (n / a->noise.d[0]);
    while (i < n) {
        const uint64_t from = at + i;
        const int whole = from % 4 == 0 && n - i >= 4 * PIECE &&
                          (uint32_t)(from / 4) <= UINT32_MAX - PIECE; /* one high half */
        const size_t k = whole ? 4 * PIECE : n - i < 4 - from % 4 ? n - i : 4 - (size_t)(from % 4);
        if (whole)
            many(&s, from, x + i, y + i);
        else
            some(&s, from, x + i, y + i, k);
        i += k;
    }
}
