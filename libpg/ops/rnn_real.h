/* rnn_real.h - code that the recurrent operations share: places of steps, masks, products with the
 * recurrent kernel. Rows are independent: each goes through the whole sequence before the next. */
#ifndef PG_OPS_RNN_REAL_H
#define PG_OPS_RNN_REAL_H

#include "ops/act_real.h"

enum { ZX, KERNEL, BIAS, H0, C0, MASK, FACTORS, N_IN };

typedef struct rnn_sizes {
    size_t rows, steps, units, width; /* width: gates * units */
    size_t n_factors;                 /* factors of the state per row: none, one, or one per gate */
} rnn_sizes;

static inline rnn_sizes pg__rnn_sizes(const pg__arg *in)
{
    const pg__dims *zx = in[ZX].shape;
    rnn_sizes s = {.rows = (size_t)zx->d[0],
                   .steps = (size_t)zx->d[1],
                   .units = (size_t)in[KERNEL].shape->d[0],
                   .width = (size_t)zx->d[2]};
    s.n_factors = in[FACTORS].p ? (size_t)in[FACTORS].shape->d[1] : 0;
    return s;
}

/* One row of an operand or result with `n` numbers per row; NULL if it is absent. */
static inline const real *pg__row_of(const pg__arg *a, size_t row, size_t n)
{
    return a->p ? pg__reals(a) + row * n : NULL;
}
static inline real *pg__row_out(const pg__arg *a, size_t row, size_t n)
{
    return a->p ? pg__reals_out(a) + row * n : NULL;
}

/* The input step that is processed as number s, and the place of its output. */
static inline size_t pg__step_in(const pg__rnn_attrs *a, const rnn_sizes *z, size_t s)
{
    return a->reverse ? z->steps - 1 - s : s;
}
static inline size_t pg__step_out(const pg__rnn_attrs *a, const rnn_sizes *z, size_t s)
{
    return a->flip ? z->steps - 1 - s : s;
}

static inline int pg__is_masked(const real *mask, size_t step)
{
    return mask && mask[step] == 0;
}

/* Which steps (in the order of processing) output their state: those from the first unmasked one
 * on, or with zero_masked the unmasked ones. */
typedef struct rnn_shown {
    const real *mask;
    size_t first;
} rnn_shown;
static inline rnn_shown pg__rnn_shown(const pg__rnn_attrs *a, const rnn_sizes *z, const real *mask)
{
    rnn_shown w = {mask, 0};
    while (w.first < z->steps && pg__is_masked(mask, pg__step_in(a, z, w.first)))
        w.first++;
    return w;
}
static inline int pg__is_shown(const pg__rnn_attrs *a, const rnn_sizes *z, const rnn_shown *w,
                               size_t s)
{
    return s >= w->first && !(a->zero_masked && pg__is_masked(w->mask, pg__step_in(a, z, s)));
}

static inline void pg__copy_or_zero(real *to, const real *from, size_t n)
{
    if (from)
        memcpy(to, from, n * sizeof *to);
    else
        memset(to, 0, n * sizeof *to);
}

/* Writes the outputs of one row once its states are known. */
static inline void pg__rnn_show(const pg__rnn_attrs *a, const rnn_sizes *z, const real *mask,
                                const real *states, real *y, real *last, real *final)
{
    const rnn_shown w = pg__rnn_shown(a, z, mask);
    const size_t n = z->units, end = z->steps - 1;
    for (size_t s = 0; y && s < z->steps; s++)
        pg__copy_or_zero(y + pg__step_out(a, z, s) * n,
                         pg__is_shown(a, z, &w, s) ? states + s * n : NULL, n);
    if (last)
        pg__copy_or_zero(last, pg__is_shown(a, z, &w, end) ? states + end * n : NULL, n);
    if (final)
        memcpy(final, states + end * n, n * sizeof *final);
}

/* dh += the gradient from the outputs of step s */
static inline void pg__rnn_add_shown(const pg__rnn_attrs *a, const rnn_sizes *z, const rnn_shown *w,
                                     size_t s, const real *dy, const real *dlast, real *dh)
{
    if (!pg__is_shown(a, z, w, s))
        return;
    for (size_t k = 0; dy && k < z->units; k++)
        dh[k] += dy[pg__step_out(a, z, s) * z->units + k];
    for (size_t k = 0; dlast && s + 1 == z->steps && k < z->units; k++)
        dh[k] += dlast[k];
}

/* The columns first .. first + n of the recurrent kernel, against the state times its factors. */
typedef struct rnn_block {
    const real *kernel;
    size_t width, first, n;
    const real *factors; /* NULL: 1 */
} rnn_block;

/* One block for all columns of the first `gates` gates or, with factors for each gate, one block
 * each. */
static inline size_t pg__n_blocks(const rnn_sizes *z, size_t gates)
{
    return z->n_factors > 1 ? gates : 1;
}
static inline rnn_block pg__block(const rnn_sizes *z, const real *kernel, const real *factors,
                                  size_t gates, size_t b)
{
    const int split = z->n_factors > 1;
    return (rnn_block){.kernel = kernel,
                       .width = z->width,
                       .first = split ? b * z->units : 0,
                       .n = split ? z->units : gates * z->units,
                       .factors = factors && split ? factors + b * z->units : factors};
}

/* sum += (h factors) kernel; h NULL: 0 */
static inline void pg__block_forward(const rnn_block *b, const real *h, size_t units, real *sum)
{
    for (size_t k = 0; h && k < units; k++) {
        const real x = b->factors ? h[k] * b->factors[k] : h[k];
        const real *w = b->kernel + k * b->width + b->first;
        for (size_t j = 0; j < b->n; j++)
            sum[b->first + j] += x * w[j];
    }
}

/* dh += (dz kernel') factors; dkernel += (h factors)' dz, if they are wanted */
static inline void pg__block_backward(const rnn_block *b, const real *h, size_t units,
                                      const real *dz, real *dh, real *dkernel)
{
    for (size_t k = 0; k < units; k++) {
        const real f = b->factors ? b->factors[k] : 1;
        const real *w = b->kernel + k * b->width + b->first;
        real dot = 0;
        for (size_t j = 0; j < b->n; j++)
            dot += dz[b->first + j] * w[j];
        dh[k] += dot * f;
        if (!dkernel || !h)
            continue;
        real *dw = dkernel + k * b->width + b->first;
        const real x = h[k] * f;
        for (size_t j = 0; j < b->n; j++)
            dw[j] += x * dz[b->first + j];
    }
}

#endif
