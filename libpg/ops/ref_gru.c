/* ref_gru.c - GRU: gates z, r, h side by side; h' = z h + (1 - z) act(candidate). The candidate is
 * x W + r (h U + b) if the reset gate acts after the product, else x W + (r h) U. */
#include "ops/rnn_cell.h"
#include "ops/rnn_real.h"

enum { Y, LAST, STATE, STATES, GATES, PARTS };

typedef struct row {
    const pg__rnn_attrs *a;
    const rnn_sizes *z;
    const real *kernel, *bias, *factors;
} row;

/* The state's factor k for the gate g. */
static real factor(const row *w, size_t g, size_t k)
{
    return w->factors ? w->factors[(w->z->n_factors > 1 ? g * w->z->units : 0) + k] : 1;
}
/* The state that is carried over. */
static real carried(const row *w, size_t k)
{
    return w->a->drop_carried ? factor(w, 0, k) : 1;
}

static void add_products(const row *w, const real *h, size_t gates, real *sum)
{
    for (size_t b = 0; b < pg__n_blocks(w->z, gates); b++) {
        const rnn_block block = pg__block(w->z, w->kernel, w->factors, gates, b);
        pg__block_forward(&block, h, w->z->units, sum);
    }
}

/* part: (r h) U, the candidate's columns of the kernel */
static void reset_product(const row *w, const real *h, const real *r, real *part)
{
    const size_t n = w->z->units;
    memset(part, 0, n * sizeof *part);
    for (size_t k = 0; h && k < n; k++) {
        const real x = r[k] * h[k] * factor(w, 2, k);
        const real *u = w->kernel + k * w->z->width + 2 * n;
        for (size_t j = 0; j < n; j++)
            part[j] += x * u[j];
    }
}

/* gates: in, x W + b; out, the gates */
static void step(const row *w, const real *h, real *gates, real *part, real *to)
{
    const size_t n = w->z->units;
    real *z = gates, *r = gates + n, *g = gates + 2 * n;
    if (w->a->reset_after) { /* the product of the candidate goes to `part` */
        memcpy(part, g, n * sizeof *part);
        memset(g, 0, n * sizeof *g);
        for (size_t k = 0; w->bias && k < w->z->width; k++)
            gates[k] += w->bias[k];
        add_products(w, h, 3, gates);
        for (size_t k = 0; k < n; k++) {
            const real x = part[k];
            part[k] = g[k];
            g[k] = x;
        }
    } else {
        add_products(w, h, 2, gates);
    }
    for (size_t k = 0; k < 2 * n; k++)
        gates[k] = pg__act_value(gates[k], &w->a->gate);
    if (!w->a->reset_after)
        reset_product(w, h, r, part);
    for (size_t k = 0; k < n; k++) {
        pg__gru_unit u = {z[k], r[k], g[k]};
        to[k] = pg__gru_forward(w->a, &u, part[k], h ? h[k] : 0, carried(w, k));
        g[k] = u.g;
    }
}

static void row_forward(const row *w, const pg__arg *in, const pg__arg *out, size_t r)
{
    const pg__rnn_attrs *a = w->a;
    const rnn_sizes *z = w->z;
    const size_t n = z->units, all = z->steps * n;
    const real *zx = pg__row_of(&in[ZX], r, z->steps * z->width);
    const real *mask = pg__row_of(&in[MASK], r, z->steps), *h = pg__row_of(&in[H0], r, n);
    real *states = pg__row_out(&out[STATES], r, all), *parts = pg__row_out(&out[PARTS], r, all);
    real *gates = pg__row_out(&out[GATES], r, z->steps * z->width);
    for (size_t s = 0; s < z->steps; s++, gates += z->width) {
        const size_t t = pg__step_in(a, z, s);
        real *to = states + s * n;
        if (pg__is_masked(mask, t)) {
            pg__copy_or_zero(to, h, n);
        } else {
            memcpy(gates, zx + t * z->width, z->width * sizeof *gates);
            step(w, h, gates, parts + s * n, to);
        }
        h = to;
    }
    pg__rnn_show(a, z, mask, states, pg__row_out(&out[Y], r, all), pg__row_out(&out[LAST], r, n),
                 pg__row_out(&out[STATE], r, n));
}

static row row_at(const void *attrs, const rnn_sizes *z, const pg__arg *in, size_t r)
{
    return (row){.a = attrs,
                 .z = z,
                 .kernel = pg__reals(&in[KERNEL]),
                 .bias = pg__reals(&in[BIAS]),
                 .factors = pg__row_of(&in[FACTORS], r, z->n_factors * z->units)};
}

void PG_REF(gru)(PG_REF_ARGS)
{
    const rnn_sizes z = pg__rnn_sizes(in);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < z.rows; r++) {
        const row w = row_at(attrs_, &z, in, r);
        row_forward(&w, in, out, r);
    }
}

/* ---- gradient ---- */

enum { DY = N_IN, DLAST, DSTATE, G_STATES, G_GATES, G_PARTS };
enum { DKERNEL, DBIAS, DZX, DH0, WORK };

static void products_backward(const row *w, const real *h, size_t gates, const real *dz, real *dh,
                              real *dkernel)
{
    for (size_t b = 0; b < pg__n_blocks(w->z, gates); b++) {
        const rnn_block block = pg__block(w->z, w->kernel, w->factors, gates, b);
        pg__block_backward(&block, h, w->z->units, dz, dh, dkernel);
    }
}

/* Of part = (r h) U: dr and dh, given dpart; returns dr through dz of the reset gate. */
static void reset_backward(const row *w, const real *h, const real *r, const real *dpart,
                           real *dz_r, real *dh, real *dkernel)
{
    const size_t n = w->z->units;
    for (size_t k = 0; k < n; k++) {
        const size_t at = k * w->z->width + 2 * n;
        const real f = factor(w, 2, k), hk = h ? h[k] : 0;
        real dot = 0;
        for (size_t j = 0; j < n; j++)
            dot += dpart[j] * w->kernel[at + j];
        for (size_t j = 0; dkernel && j < n; j++)
            dkernel[at + j] += r[k] * hk * f * dpart[j];
        dz_r[k] = pg__gru_reset_backward(w->a, r[k], hk, f, dot, &dh[k]);
    }
}

/* The candidate's part of a step whose reset gate acts after the product: `work` gets its
 * argument's gradient, passed on times r. */
static void after_backward(const row *w, const real *h, const real *r, real *dz, real *work,
                           real *dh, real *dkernel, real *dbias)
{
    const size_t n = w->z->units;
    memcpy(work, dz + 2 * n, n * sizeof *work);
    for (size_t k = 0; k < n; k++)
        dz[2 * n + k] *= r[k];
    for (size_t k = 0; dbias && k < w->z->width; k++)
        dbias[k] += dz[k];
    products_backward(w, h, 3, dz, dh, dkernel);
    memcpy(dz + 2 * n, work, n * sizeof *work);
}

static void step_backward(const row *w, const real *h, const real *gates, const real *part,
                          real *dz, real *dh, real *work, const pg__arg *out)
{
    const size_t n = w->z->units;
    const real *z = gates, *r = gates + n, *g = gates + 2 * n;
    real *dkernel = pg__reals_out(&out[DKERNEL]), *dbias = pg__reals_out(&out[DBIAS]);
    for (size_t k = 0; k < n; k++) {
        const pg__gru_unit u = {z[k], r[k], g[k]};
        const pg__gru_unit d =
            pg__gru_backward(w->a, &u, part[k], h ? h[k] : 0, carried(w, k), &dh[k]);
        dz[k] = d.z;
        dz[n + k] = d.r;
        dz[2 * n + k] = d.g;
    }
    if (w->a->reset_after) {
        after_backward(w, h, r, dz, work, dh, dkernel, dbias);
        return;
    }
    reset_backward(w, h, r, dz + 2 * n, dz + n, dh, dkernel);
    products_backward(w, h, 2, dz, dh, dkernel);
}

static void row_backward(const row *w, const pg__arg *in, const pg__arg *out, size_t r)
{
    const pg__rnn_attrs *a = w->a;
    const rnn_sizes *z = w->z;
    const size_t n = z->units, all = z->steps * n;
    const real *mask = pg__row_of(&in[MASK], r, z->steps);
    const real *states = pg__row_of(&in[G_STATES], r, all);
    const real *parts = pg__row_of(&in[G_PARTS], r, all);
    const real *gates = pg__row_of(&in[G_GATES], r, z->steps * z->width);
    const rnn_shown shown = pg__rnn_shown(a, z, mask);
    real *dh = pg__row_out(&out[DH0], r, n);
    pg__copy_or_zero(dh, pg__row_of(&in[DSTATE], r, n), n);
    for (size_t s = z->steps; s-- > 0;) {
        const size_t t = pg__step_in(a, z, s);
        const real *h = s > 0 ? states + (s - 1) * n : pg__row_of(&in[H0], r, n);
        real *dz = pg__row_out(&out[DZX], r, z->steps * z->width) + t * z->width;
        pg__rnn_add_shown(a, z, &shown, s, pg__row_of(&in[DY], r, all),
                          pg__row_of(&in[DLAST], r, n), dh);
        if (pg__is_masked(mask, t))
            memset(dz, 0, z->width * sizeof *dz);
        else
            step_backward(w, h, gates + s * z->width, parts + s * n, dz, dh,
                          pg__reals_out(&out[WORK]), out);
    }
}

void PG_REF(gru_grad)(PG_REF_ARGS)
{
    const rnn_sizes z = pg__rnn_sizes(in);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    if (out[DKERNEL].p)
        memset(out[DKERNEL].p, 0, z.units * z.width * sizeof(real));
    if (out[DBIAS].p)
        memset(out[DBIAS].p, 0, z.width * sizeof(real));
    for (size_t r = 0; r < z.rows; r++) {
        const row w = row_at(attrs_, &z, in, r);
        row_backward(&w, in, out, r);
    }
}
