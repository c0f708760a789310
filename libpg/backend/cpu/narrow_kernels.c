/* narrow_kernels.c - compiled once for each instruction set: convolutions of few channels, see
 * narrow_kernels.h. Two vectors of filters at a time: a number of the image is broadcast and
 * multiplied with them, and sums stay in registers. Results are large and in memory, so the next
 * ones are prefetched. */
#include "backend/cpu/narrow_kernels.h"

#include <stdint.h>

#include "backend/cpu/vec.h"

typedef pg__vec vec;

#define PAIR  ((size_t)2 * PG_VEC)
#define LINE  16   /* floats of a cache's line */
#define AHEAD 2048 /* bytes from what is read to what is prefetched */
#define ROW   6    /* cells whose sums are made at once */
#if PG_VEC == 16
#define MOST_TAPS 9 /* whose gradients are summed at once: what fits into the registers */
#else
#define MOST_TAPS 5
#endif

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

PG_INLINE vec load_n(const float *p, size_t n)
{
    return n == PG_VEC ? pg__load(p) : pg__load_some(p, n);
}

PG_INLINE void store_n(float *p, vec v, size_t n)
{
    if (n == PG_VEC)
        pg__store(p, v);
    else
        pg__store_some(p, v, n);
}

/* Filters [o, o + n[0]) and, from a vector on, n[1] more. */
typedef struct pair {
    size_t o, n[2];
} pair;

static inline pair pair_at(size_t o, size_t out)
{
    const size_t left = out - o, first = min_size(left, PG_VEC);
    return (pair){o, {first, min_size(left - first, PG_VEC)}};
}

PG_INLINE void load_pair(const float *p, const pair *q, vec to[2])
{
    to[0] = load_n(p, q->n[0]);
    to[1] = q->n[1] > 0 ? load_n(p + PG_VEC, q->n[1]) : pg__splat(0);
}

PG_INLINE void store_pair(float *p, const pair *q, const vec from[2])
{
    store_n(p, from[0], q->n[0]);
    if (q->n[1] > 0)
        store_n(p + PG_VEC, from[1], q->n[1]);
}

static inline void ask(const float *p, size_t n)
{
    for (size_t i = 0; i < n; i += LINE)
        __builtin_prefetch(p + i, 0, 2);
}

/* ---- the result ---- */

/* m cells. */
PG_INLINE void convolve_cells(const pg__narrow *d, size_t m, const float *x, const float *w,
                              const float *bias, float *y, pair q)
{
    vec s[ROW][2], b[2] = {pg__splat(0), pg__splat(0)};
    if (bias)
        load_pair(bias + q.o, &q, b);
    PG_UNROLL for (size_t i = 0; i < m; i++)
    {
        s[i][0] = b[0];
        s[i][1] = b[1];
    }
    for (size_t t = 0; t < d->n_taps; t++) {
        const float *at = x + d->taps[t];
        vec k[2];
        load_pair(w + t * d->out + q.o, &q, k);
        PG_UNROLL for (size_t i = 0; i < m; i++)
        {
            const vec v = pg__splat(at[i * d->step[1]]);
            s[i][0] = pg__mul_add(v, k[0], s[i][0]);
            s[i][1] = pg__mul_add(v, k[1], s[i][1]);
        }
    }
    if (d->range.is_used) {
        PG_UNROLL for (size_t i = 0; i < m; i++)
        {
            s[i][0] = pg__within(s[i][0], &d->range);
            s[i][1] = pg__within(s[i][1], &d->range);
        }
    }
    PG_UNROLL for (size_t i = 0; i < m; i++) store_pair(y + i * d->out + q.o, &q, s[i]);
}

static void convolve_line(const pg__narrow *d, const float *x, const float *w, const float *bias,
                          float *y, pair q)
{
    const pair whole = {q.o, {PG_VEC, PG_VEC}};
    const int is_whole = q.n[0] + q.n[1] == PAIR;
    size_t c = 0;
    for (; is_whole && c + ROW <= d->cells[1]; c += ROW)
        convolve_cells(d, ROW, x + c * d->step[1], w, bias, y + c * d->out, whole);
    if (c > 0 && c < d->cells[1]) { /* some cells twice: faster than the last ones one by one */
        c = d->cells[1] - ROW;
        convolve_cells(d, ROW, x + c * d->step[1], w, bias, y + c * d->out, whole);
        c = d->cells[1];
    }
    for (; is_whole && c < d->cells[1]; c++)
        convolve_cells(d, 1, x + c * d->step[1], w, bias, y + c * d->out, whole);
    for (; c < d->cells[1]; c++)
        convolve_cells(d, 1, x + c * d->step[1], w, bias, y + c * d->out, q);
}

static void convolve(const pg__narrow *d, const float *x, const float *w, const float *bias,
                     float *y)
{
    const size_t line = d->cells[1] * d->out;
    for (size_t r = 0; r < d->cells[0]; r++, x += d->step[0], y += line) {
        if (r + 1 < d->cells[0])
            ask(y + line, line);
        for (size_t o = 0; o < d->out; o += PAIR)
            convolve_line(d, x, w, bias, y, pair_at(o, d->out));
    }
}

/* ---- the gradient of the kernel ---- */

/* Taps [first, first + m) of all cells; db: NULL, or where what comes in is summed too. */
PG_INLINE void tally(const pg__narrow *d, size_t m, size_t first, const float *x, const float *dy,
                     float *dw, float *db, const pair *q)
{
    const size_t *taps = d->taps + first, step = d->step[1], out = d->out;
    vec s[MOST_TAPS][2], all[2] = {pg__splat(0), pg__splat(0)};
    PG_UNROLL for (size_t t = 0; t < m; t++) s[t][0] = s[t][1] = pg__splat(0);
    for (size_t r = 0; r < d->cells[0]; r++, x += d->step[0])
        for (size_t c = 0; c < d->cells[1]; c++, dy += out) {
            const float *at = x + c * step;
            vec g[2];
            ask((const float *)((uintptr_t)dy + AHEAD), PAIR);
            load_pair(dy, q, g);
            all[0] += g[0];
            all[1] += g[1];
            PG_UNROLL for (size_t t = 0; t < m; t++)
            {
                const vec v = pg__splat(at[taps[t]]);
                s[t][0] = pg__mul_add(v, g[0], s[t][0]);
                s[t][1] = pg__mul_add(v, g[1], s[t][1]);
            }
        }
    PG_UNROLL for (size_t t = 0; t < m; t++)
    {
        float *to = dw + (first + t) * out + q->o;
        vec sum[2];
        load_pair(to, q, sum);
        sum[0] += s[t][0];
        sum[1] += s[t][1];
        store_pair(to, q, sum);
    }
    if (db) {
        vec sum[2];
        load_pair(db + q->o, q, sum);
        sum[0] += all[0];
        sum[1] += all[1];
        store_pair(db + q->o, q, sum);
    }
}

typedef void (*tally_fn)(const pg__narrow *d, size_t first, const float *x, const float *dy,
                         float *dw, float *db, pair q);

#define TALLY(m)                                                                              \
    static void tally_##m(const pg__narrow *d, size_t first, const float *x, const float *dy, \
                          float *dw, float *db, pair q)                                       \
    {                                                                                         \
        const pair whole = {q.o, {PG_VEC, PG_VEC}};                                           \
        if (q.n[0] + q.n[1] == PAIR)                                                          \
            tally(d, m, first, x, dy, dw, db, &whole);                                        \
        else                                                                                  \
            tally(d, m, first, x, dy, dw, db, &q);                                            \
    }
TALLY(0)
TALLY(1)
TALLY(2)
TALLY(3)
TALLY(4)
TALLY(5)
#if MOST_TAPS > 5
TALLY(6)
TALLY(7)
TALLY(8)
TALLY(9)
#endif

static const tally_fn tallies[MOST_TAPS + 1] = {
    tally_0, tally_1, tally_2, tally_3, tally_4, tally_5,
#if MOST_TAPS > 5
    tally_6, tally_7, tally_8, tally_9,
#endif
};

static void gradient(const pg__narrow *d, const float *x, const float *dy, float *dw, float *db)
{
    const size_t n = dw ? d->n_taps : 0;
    for (size_t o = 0; o < d->out; o += PAIR) {
        size_t first = 0;
        do {
            const size_t m = min_size(n - first, MOST_TAPS);
            tallies[m](d, first, x, dy + o, dw, first == 0 ? db : NULL, pair_at(o, d->out));
            first += m;
        } while (first < n);
    }
}

extern const pg__narrow_kernels PG_ISA_NAME(narrow_kernels);
const pg__narrow_kernels PG_ISA_NAME(narrow_kernels) = {.convolve = convolve, .gradient = gradient};
