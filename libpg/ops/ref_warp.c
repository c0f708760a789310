/* ref_warp.c - random numbers for each row, drawn like dropout's by the row's place in the whole
 * batch, and images whose cells they move. */
#include "base/philox.h"
#include "ops/real.h"
#include "ops/warp_geo.h"

void PG_REF(uniform)(PG_REF_ARGS)
{
    const pg__uniform_attrs *a = attrs_;
    const int32_t *step = in[0].p;
    const uint64_t count = pg__step_number(step, PG_STEP_COUNT), n = a->to.d[1];
    const uint64_t seed = pg__step_number(step, PG_STEP_SEED);
    const uint64_t first =
        a->rows_share ? 0 : pg__step_number(step, PG_STEP_ROW) * (a->fold ? a->fold : 1) * n;
    real *y = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t i = 0; i < out[0].n; i++) {
        const float u = pg__uniform(seed, first + i, (uint32_t)count,
                                    a->stream ^ (uint32_t)(count >> 32) << 24);
        const real low = (real)a->low[i % n], high = (real)a->high[i % n];
        y[i] = low + (real)u * (high - low);
    }
}

typedef struct picture {
    const real *x; /* of one row */
    uint32_t from[2];
    size_t channels;
    real value;
} picture;

static void one_cell(const picture *p, const pg__warp_cells *v, const pg__warp_cells *h, real *y)
{
    for (size_t k = 0; k < p->channels; k++)
        y[k] = 0;
    for (unsigned i = 0; i < 4; i++) {
        const real share = v->share[i / 2] * h->share[i % 2];
        const int64_t row = v->at[i / 2], column = h->at[i % 2];
        const int there = row >= 0 && column >= 0;
        const size_t at = there ? ((size_t)row * p->from[1] + (size_t)column) * p->channels : 0;
        for (size_t k = 0; share != 0 && k < p->channels; k++)
            y[k] += share * (there ? p->x[at + k] : p->value);
    }
}

void PG_REF(warp)(PG_REF_ARGS)
{
    const pg__warp_attrs *a = attrs_;
    const pg__dims *s = in[0].shape;
    picture p = {
        pg__reals(&in[0]), {(uint32_t)s->d[1], (uint32_t)s->d[2]}, (size_t)s->d[3], (real)a->value};
    const size_t n = (size_t)in[1].shape->d[1], shared = in[1].shape->d[0] == 1;
    const real *drawn = pg__reals(&in[1]);
    real *y = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t r = 0; r < s->d[0]; r++) {
        const pg__warp_matrix m = pg__warp_matrix_of(a, p.from, drawn[0], drawn[n - 1]);
        for (uint64_t i = 0; i < a->size[0]; i++)
            for (uint64_t j = 0; j < a->size[1]; j++, y += p.channels) {
                const real to_x = (real)j, to_y = (real)i;
                const pg__warp_cells h =
                    pg__warp_cells_at(a, m.m[0] * to_x + m.m[1] * to_y + m.m[2], p.from[1]);
                const pg__warp_cells v =
                    pg__warp_cells_at(a, m.m[3] * to_x + m.m[4] * to_y + m.m[5], p.from[0]);
                one_cell(&p, &v, &h, y);
            }
        p.x += (size_t)p.from[0] * p.from[1] * p.channels;
        drawn += shared ? 0 : n;
    }
}
