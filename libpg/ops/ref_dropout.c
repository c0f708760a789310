/* ref_dropout.c - dropout: the number that decides about an element is drawn by the element's index
 * in the noise of the whole batch. Key: seed; counter: (index / 4, step, stream). */
#include "base/philox.h"
#include "ops/real.h"
#include "ops/strides.h"

/* Four numbers are drawn at a time; the last four are kept. */
typedef struct source {
    uint64_t seed, block;
    uint32_t count, stream;
    int drawn;
    pg__random numbers;
} source;

/* The high half of the step goes into the stream's upper bits. */
static source source_of(const pg__dropout_attrs *a, const int32_t *step)
{
    const uint64_t count = pg__step_number(step, PG_STEP_COUNT);
    return (source){.seed = pg__step_number(step, PG_STEP_SEED),
                    .count = (uint32_t)count,
                    .stream = a->stream ^ (uint32_t)(count >> 32) << 24};
}

static int is_kept(source *s, uint64_t at, float rate)
{
    if (!s->drawn || s->block != at / 4) {
        s->block = at / 4;
        s->numbers = pg__philox_at(s->seed, at, s->count, s->stream);
        s->drawn = 1;
    }
    return (float)(s->numbers.v[at % 4] >> 8) * 0x1p-24f >= rate;
}

void PG_REF(dropout)(PG_REF_ARGS)
{
    const pg__dropout_attrs *a = attrs_;
    const pg__dims *s = out[0].shape;
    const size_t n = pg__last(s), last = s->rank ? s->rank - 1 : 0;
    const float rate = (float)a->rate;
    const real scale = (real)1 / ((real)1 - (real)a->rate), *x = pg__reals(&in[0]);
    real *y = pg__reals_out(&out[0]);
    source from = source_of(a, in[1].p);
    pg__rowwalk w = {.off = {0, 0}};
    uint64_t first = 0;
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    pg__strides(w.stride[0], s, &a->noise);
    if (s->rank > 0 && !a->rows_share)
        first = pg__step_number(in[1].p, PG_STEP_ROW) * (a->fold ? a->fold : 1) *
                (pg__dims_elems(&a->noise) / a->noise.d[0]);
    for (size_t r = pg__n_rows(s); r-- > 0; x += n, y += n, pg__rowwalk_next(&w, s))
        for (size_t i = 0; i < n; i++)
            y[i] =
                is_kept(&from, first + w.off[0] + i * w.stride[0][last], rate) ? x[i] * scale : 0;
}
