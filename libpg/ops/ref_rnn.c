/* ref_rnn.c - the simple recurrent cell: h' = act(x W + b + h U). */
#include "ops/rnn_real.h"

enum { Y, LAST, STATE, STATES };

static void row_forward(const pg__rnn_attrs *a, const rnn_sizes *z, const pg__arg *in,
                        const pg__arg *out, size_t r)
{
    const size_t n = z->units, all = z->steps * n;
    const real *zx = pg__row_of(&in[ZX], r, all);
    const real *mask = pg__row_of(&in[MASK], r, z->steps);
    const real *h = pg__row_of(&in[H0], r, n);
    const rnn_block block =
        pg__block(z, pg__reals(&in[KERNEL]), pg__row_of(&in[FACTORS], r, z->n_factors * n), 1, 0);
    real *states = pg__row_out(&out[STATES], r, all);
    for (size_t s = 0; s < z->steps; s++) {
        const size_t t = pg__step_in(a, z, s);
        real *to = states + s * n;
        if (pg__is_masked(mask, t)) {
            pg__copy_or_zero(to, h, n);
        } else {
            memcpy(to, zx + t * n, n * sizeof *to);
            pg__block_forward(&block, h, n, to);
            for (size_t k = 0; k < n; k++)
                to[k] = pg__act_value(to[k], &a->act);
        }
        h = to;
    }
    pg__rnn_show(a, z, mask, states, pg__row_out(&out[Y], r, all), pg__row_out(&out[LAST], r, n),
                 pg__row_out(&out[STATE], r, n));
}

void PG_REF(rnn)(PG_REF_ARGS)
{
    const rnn_sizes z = pg__rnn_sizes(in);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < z.rows; r++)
        row_forward(attrs_, &z, in, out, r);
}

/* ---- gradient ---- */

enum { DY = N_IN, DLAST, DSTATE, G_STATES };
enum { DKERNEL, DZX, DH0 };

static void row_backward(const pg__rnn_attrs *a, const rnn_sizes *z, const pg__arg *in,
                         const pg__arg *out, size_t r)
{
    const size_t n = z->units, all = z->steps * n;
    const real *mask = pg__row_of(&in[MASK], r, z->steps);
    const real *states = pg__row_of(&in[G_STATES], r, all);
    const rnn_block block =
        pg__block(z, pg__reals(&in[KERNEL]), pg__row_of(&in[FACTORS], r, z->n_factors * n), 1, 0);
    const rnn_shown shown = pg__rnn_shown(a, z, mask);
    real *dh = pg__row_out(&out[DH0], r, n);
    pg__copy_or_zero(dh, pg__row_of(&in[DSTATE], r, n), n);
    for (size_t s = z->steps; s-- > 0;) {
        const size_t t = pg__step_in(a, z, s);
        const real *h = s > 0 ? states + (s - 1) * n : pg__row_of(&in[H0], r, n);
        real *dz = pg__row_out(&out[DZX], r, all) + t * n;
        pg__rnn_add_shown(a, z, &shown, s, pg__row_of(&in[DY], r, all),
                          pg__row_of(&in[DLAST], r, n), dh);
        if (pg__is_masked(mask, t)) {
            memset(dz, 0, n * sizeof *dz);
            continue;
        }
        for (size_t k = 0; k < n; k++) {
            dz[k] = dh[k] * pg__act_slope_of_result(states[s * n + k], &a->act);
            dh[k] = 0;
        }
        pg__block_backward(&block, h, n, dz, dh, pg__reals_out(&out[DKERNEL]));
    }
}

void PG_REF(rnn_grad)(PG_REF_ARGS)
{
    const rnn_sizes z = pg__rnn_sizes(in);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    if (out[DKERNEL].p)
        memset(out[DKERNEL].p, 0, z.units * z.width * sizeof(real));
    for (size_t r = 0; r < z.rows; r++)
        row_backward(attrs_, &z, in, out, r);
}
