/* ref_lstm.c - LSTM: gates i, f, c, o side by side; c' = f c + i act(c~), h' = o act(c'). */
#include "ops/rnn_cell.h"
#include "ops/rnn_real.h"

enum { Y, LAST, STATE, CELL, STATES, GATES, CELLS };

/* Calls, because if the compiler sees everything it makes a loop for every combination of five
 * functions. */
#define CALLED __attribute__((noinline)) static
CALLED void forward(const pg__rnn_attrs *a, pg__lstm_unit *z, real c, real *h_to, real *c_to)
{
    pg__lstm_forward(a, z, c, h_to, c_to);
}
CALLED pg__lstm_unit backward(const pg__rnn_attrs *a, const pg__lstm_unit *z, real c, real c_to,
                              real dh, real *dc)
{
    return pg__lstm_backward(a, z, c, c_to, dh, dc);
}

/* One step from the state h and the cells c (NULL: zeros) to the next. */
static void step(const pg__rnn_attrs *a, size_t n, const real *c, real *gates, real *h_to,
                 real *c_to)
{
    real *i = gates, *f = gates + n, *g = gates + 2 * n, *o = gates + 3 * n;
    for (size_t k = 0; k < n; k++) {
        pg__lstm_unit z = {i[k], f[k], g[k], o[k]};
        forward(a, &z, c ? c[k] : 0, &h_to[k], &c_to[k]);
        i[k] = z.i;
        f[k] = z.f;
        g[k] = z.g;
        o[k] = z.o;
    }
}

static void row_forward(const pg__rnn_attrs *a, const rnn_sizes *z, const pg__arg *in,
                        const pg__arg *out, size_t r)
{
    const size_t n = z->units, all = z->steps * n;
    const real *zx = pg__row_of(&in[ZX], r, z->steps * z->width);
    const real *mask = pg__row_of(&in[MASK], r, z->steps);
    const real *factors = pg__row_of(&in[FACTORS], r, z->n_factors * n);
    const real *h = pg__row_of(&in[H0], r, n), *c = pg__row_of(&in[C0], r, n);
    real *states = pg__row_out(&out[STATES], r, all), *cells = pg__row_out(&out[CELLS], r, all);
    real *gates = pg__row_out(&out[GATES], r, z->steps * z->width);
    for (size_t s = 0; s < z->steps; s++, gates += z->width) {
        const size_t t = pg__step_in(a, z, s);
        real *h_to = states + s * n, *c_to = cells + s * n;
        if (pg__is_masked(mask, t)) {
            pg__copy_or_zero(h_to, h, n);
            pg__copy_or_zero(c_to, c, n);
        } else {
            memcpy(gates, zx + t * z->width, z->width * sizeof *gates);
            for (size_t b = 0; b < pg__n_blocks(z, 4); b++) {
                const rnn_block block = pg__block(z, pg__reals(&in[KERNEL]), factors, 4, b);
                pg__block_forward(&block, h, n, gates);
            }
            step(a, n, c, gates, h_to, c_to);
        }
        h = h_to;
        c = c_to;
    }
    pg__rnn_show(a, z, mask, states, pg__row_out(&out[Y], r, all), pg__row_out(&out[LAST], r, n),
                 pg__row_out(&out[STATE], r, n));
    if (out[CELL].p)
        memcpy(pg__row_out(&out[CELL], r, n), c, n * sizeof *c);
}

void PG_REF(lstm)(PG_REF_ARGS)
{
    const rnn_sizes z = pg__rnn_sizes(in);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < z.rows; r++)
        row_forward(attrs_, &z, in, out, r);
}

/* ---- gradient ---- */

enum { DY = N_IN, DLAST, DSTATE, DCELL, G_STATES, G_GATES, G_CELLS };
enum { DKERNEL, DZX, DH0, DC0 };

/* From the gradients of h' and c' to those of the gates' arguments and of c. */
static void step_backward(const pg__rnn_attrs *a, size_t n, const real *gates, const real *c,
                          const real *c_to, const real *dh, real *dc, real *dz)
{
    const real *i = gates, *f = gates + n, *g = gates + 2 * n, *o = gates + 3 * n;
    for (size_t k = 0; k < n; k++) {
        const pg__lstm_unit z = {i[k], f[k], g[k], o[k]};
        const pg__lstm_unit d = backward(a, &z, c ? c[k] : 0, c_to[k], dh[k], &dc[k]);
        dz[k] = d.i;
        dz[n + k] = d.f;
        dz[2 * n + k] = d.g;
        dz[3 * n + k] = d.o;
    }
}

static void row_backward(const pg__rnn_attrs *a, const rnn_sizes *z, const pg__arg *in,
                         const pg__arg *out, size_t r)
{
    const size_t n = z->units, all = z->steps * n;
    const real *mask = pg__row_of(&in[MASK], r, z->steps);
    const real *factors = pg__row_of(&in[FACTORS], r, z->n_factors * n);
    const real *states = pg__row_of(&in[G_STATES], r, all);
    const real *cells = pg__row_of(&in[G_CELLS], r, all);
    const real *gates = pg__row_of(&in[G_GATES], r, z->steps * z->width);
    const rnn_shown shown = pg__rnn_shown(a, z, mask);
    real *dh = pg__row_out(&out[DH0], r, n), *dc = pg__row_out(&out[DC0], r, n);
    pg__copy_or_zero(dh, pg__row_of(&in[DSTATE], r, n), n);
    pg__copy_or_zero(dc, pg__row_of(&in[DCELL], r, n), n);
    for (size_t s = z->steps; s-- > 0;) {
        const size_t t = pg__step_in(a, z, s);
        const real *h = s > 0 ? states + (s - 1) * n : pg__row_of(&in[H0], r, n);
        const real *c = s > 0 ? cells + (s - 1) * n : pg__row_of(&in[C0], r, n);
        real *dz = pg__row_out(&out[DZX], r, z->steps * z->width) + t * z->width;
        pg__rnn_add_shown(a, z, &shown, s, pg__row_of(&in[DY], r, all),
                          pg__row_of(&in[DLAST], r, n), dh);
        if (pg__is_masked(mask, t)) {
            memset(dz, 0, z->width * sizeof *dz);
            continue;
        }
        step_backward(a, n, gates + s * z->width, c, cells + s * n, dh, dc, dz);
        memset(dh, 0, n * sizeof *dh);
        for (size_t b = 0; b < pg__n_blocks(z, 4); b++) {
            const rnn_block block = pg__block(z, pg__reals(&in[KERNEL]), factors, 4, b);
            pg__block_backward(&block, h, n, dz, dh, pg__reals_out(&out[DKERNEL]));
        }
    }
}

void PG_REF(lstm_grad)(PG_REF_ARGS)
{
    const rnn_sizes z = pg__rnn_sizes(in);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    if (out[DKERNEL].p)
        memset(out[DKERNEL].p, 0, z.units * z.width * sizeof(real));
    for (size_t r = 0; r < z.rows; r++)
        row_backward(attrs_, &z, in, out, r);
}
