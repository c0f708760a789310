/* depthwise_tiles.h - for depthwise_kernels.c, compiled with it for each instruction set: processes
 * some cells along one or two lines of the result, some channels at a time. */
#ifndef PG_BACKEND_CPU_DEPTHWISE_TILES_H
#define PG_BACKEND_CPU_DEPTHWISE_TILES_H

#include "backend/cpu/range.h"
#include "backend/cpu/vec.h"

typedef pg__vec vec;

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Prefetches what is read next while something else is computed: processors do not foresee the
 * order in which cells are read. */
typedef struct ahead {
    const float *at, *end;
    size_t n; /* floats at a time, whole lines of a cache */
} ahead;

enum { CACHE_LINE = 64 / sizeof(float) };
enum { FORESEEN = 128 }; /* channels; with fewer they do where kernels' gradients are computed */

/* n floats that follow the first `skip`, or as many as there are, in `parts` parts. */
static ahead look_ahead(const float *at, size_t skip, size_t n, size_t parts, const float *end)
{
    const size_t left = (size_t)(end - at), first = min_size(skip, left);
    const size_t all = min_size(n, left - first);
    return (ahead){at + first, at + first + all, (all / parts / CACHE_LINE + 1) * CACHE_LINE};
}

PG_INLINE void fetch(ahead *a)
{
    const size_t n = min_size(a->n, (size_t)(a->end - a->at));
    for (size_t i = 0; i < n; i += CACHE_LINE)
        __builtin_prefetch(a->at + i, 0, 2);
    a->at += n;
}

/* ---- results, and gradients of operands ---- */

/* A line of the operand and the line of the kernel that it meets. */
typedef struct meeting {
    const float *from, *w;
} meeting;

/* Some cells of a line of the result that follow one another. */
typedef struct tile {
    const meeting *lines;
    size_t n_lines, channels;
    size_t begin, stop; /* channels of them all */
    ptrdiff_t w_step;   /* floats from one kernel cell to the next */
    const float *bias;  /* or NULL */
    const pg__range *range;
    float *to;         /* the first cell, even if that does not exist */
    size_t first, end; /* of its cells, those that exist */
    ptrdiff_t column;  /* that the first of `columns` is */
    size_t lo, hi;     /* of the columns, those that exist */
    ahead from;        /* advances with every vector of channels */
} tile;

enum { STEP_1, STEP_2, BACK_2 }; /* BACK_2: the gradient of a result made in steps of 2 */
enum { WIDE = 8, NARROW = 4 };   /* cells of a tile */

/* Columns of the operand that T cells reach with a kernel of K. */
#define COLUMNS(mode, K, T) \
    ((mode) == BACK_2 ? (T) / 2 + ((K)-1) / 2 : ((T)-1) * ((mode) == STEP_2 ? 2 : 1) + (K))

/* The cell of a tile where a column meets kernel cell k; not all are in the tile. */
PG_INLINE ptrdiff_t meets(int mode, ptrdiff_t K, ptrdiff_t column, ptrdiff_t k, ptrdiff_t T)
{
    if (mode == BACK_2)
        return 2 * (column - (K - 1) / 2) + k;
    if (mode == STEP_1)
        return column - k;
    return (column - k) % 2 == 0 ? (column - k) / 2 : T;
}

/* One column of the operand: sums of a vector of channels. */
PG_INLINE void add_column(const float *from, const vec *w, vec *sum, int mode, ptrdiff_t column,
                          ptrdiff_t K, ptrdiff_t T)
{
    const vec x = pg__load(from);
    PG_UNROLL for (ptrdiff_t k = 0; k < K; k++)
    {
        const ptrdiff_t at = meets(mode, K, column, k, T);
        if (at >= 0 && at < T)
            sum[at] = pg__mul_add(x, w[k], sum[at]);
    }
}

PG_INLINE void add_line(tile *t, const float *from, const float *w_at, vec *sum, int mode,
                        ptrdiff_t K, ptrdiff_t T, int clipped)
{
    const ptrdiff_t columns = COLUMNS(mode, K, T);
    vec w[7];
    PG_UNROLL for (ptrdiff_t k = 0; k < K; k++) w[k] = pg__load(w_at + k * t->w_step);
    PG_UNROLL for (ptrdiff_t i = 0; i < columns; i++)
    {
        if (!clipped || ((size_t)i >= t->lo && (size_t)i < t->hi))
            add_column(from + (t->column + i) * (ptrdiff_t)t->channels, w, sum, mode, i, K, T);
    }
}

PG_INLINE void compute(tile *t, int mode, ptrdiff_t K, ptrdiff_t T, int clipped)
{
    const size_t all = t->channels;
    const meeting *const end = t->lines + t->n_lines;
    for (size_t next = t->begin; next < t->stop; next += PG_VEC) {
        const size_t c = min_size(next, all - PG_VEC);
        fetch(&t->from);
        const vec begin = t->bias ? pg__load(t->bias + c) : pg__splat(0);
        vec sum[WIDE];
        PG_UNROLL for (ptrdiff_t i = 0; i < T; i++) sum[i] = begin;
        for (const meeting *m = t->lines; m < end; m++)
            add_line(t, m->from + c, m->w + c, sum, mode, K, T, clipped);
        if (t->range->is_used) {
            PG_UNROLL for (ptrdiff_t i = 0; i < T; i++) sum[i] = pg__within(sum[i], t->range);
        }
        PG_UNROLL for (ptrdiff_t i = 0; i < T; i++)
        {
            if (!clipped || ((size_t)i >= t->first && (size_t)i < t->end))
                pg__store(t->to + i * (ptrdiff_t)all + c, sum[i]);
        }
    }
}

typedef void (*tile_fn)(tile *t);

#define TILES(mode, K)                     \
    static void mode##_whole_##K(tile *t)  \
    {                                      \
        compute(t, mode, K, WIDE, 0);      \
    }                                      \
    static void mode##_wide_##K(tile *t)   \
    {                                      \
        compute(t, mode, K, WIDE, 1);      \
    }                                      \
    static void mode##_narrow_##K(tile *t) \
    {                                      \
        compute(t, mode, K, NARROW, 1);    \
    }

/* ---- two lines of the result at once ---- */

/* A line of the operand, and the lines of the kernel by which each of the two meets it, or NULL. */
typedef struct encounter {
    const float *from, *w[2];
} encounter;

/* Reads data that both lines need only once: for steps of 1, a kernel of 3 cells, and enough
 * registers. */
#if PG_VEC == 16
enum { HAS_PAIRS = 1 };

PG_INLINE void add_to_pair(const tile *t, const encounter *e, size_t c, vec sum[2][WIDE],
                           ptrdiff_t T, int clipped, int first, int second)
{
    const float *from = e->from + t->column * (ptrdiff_t)t->channels + c;
    vec w[2][3];
    PG_UNROLL for (ptrdiff_t k = 0; k < 3; k++)
    {
        if (first)
            w[0][k] = pg__load(e->w[0] + k * t->w_step + c);
        if (second)
            w[1][k] = pg__load(e->w[1] + k * t->w_step + c);
    }
    PG_UNROLL for (ptrdiff_t i = 0; i < T + 2; i++)
    {
        if (clipped && ((size_t)i < t->lo || (size_t)i >= t->hi))
            continue;
        vec x = pg__load(from + i * (ptrdiff_t)t->channels);
        __asm__("" : "+v"(x)); /* or compilers read it again for each product */
        PG_UNROLL for (ptrdiff_t k = 0; k < 3; k++)
        {
            if (i - k < 0 || i - k >= T)
                continue;
            if (first)
                sum[0][i - k] = pg__mul_add(x, w[0][k], sum[0][i - k]);
            if (second)
                sum[1][i - k] = pg__mul_add(x, w[1][k], sum[1][i - k]);
        }
    }
}

PG_INLINE void compute_pair(tile *shared, const encounter *begin, const encounter *end, size_t line,
                            ptrdiff_t T, int clipped)
{
    tile t = *shared; /* no result is part of it: what is read of it stays in registers */
    const pg__range range = *t.range;
    for (size_t next = t.begin; next < t.stop; next += PG_VEC) {
        const size_t c = min_size(next, t.channels - PG_VEC);
        const vec bias = t.bias ? pg__load(t.bias + c) : pg__splat(0);
        vec sum[2][WIDE];
        fetch(&t.from);
        PG_UNROLL for (ptrdiff_t i = 0; i < T; i++) sum[0][i] = sum[1][i] = bias;
        for (const encounter *e = begin; e < end; e++)
            if (e->w[0] && e->w[1])
                add_to_pair(&t, e, c, sum, T, clipped, 1, 1);
            else if (e->w[0])
                add_to_pair(&t, e, c, sum, T, clipped, 1, 0);
            else
                add_to_pair(&t, e, c, sum, T, clipped, 0, 1);
        if (range.is_used) {
            PG_UNROLL for (ptrdiff_t i = 0; i < 2 * T; i++) sum[i / T][i % T] =
                pg__within(sum[i / T][i % T], &range);
        }
        PG_UNROLL for (ptrdiff_t i = 0; i < T; i++)
        {
            float *to = t.to + (size_t)i * t.channels + c;
            if (clipped && (size_t)i >= t.end)
                continue;
            pg__store(to, sum[0][i]);
            pg__store(to + line, sum[1][i]);
        }
    }
    shared->from = t.from;
}
#else
enum { HAS_PAIRS = 0 };

PG_INLINE void compute_pair(tile *t, const encounter *begin, const encounter *end, size_t line,
                            ptrdiff_t T, int clipped)
{
    (void)t, (void)begin, (void)end, (void)line, (void)T, (void)clipped;
}
#endif

typedef void (*pair_fn)(tile *t, const encounter *begin, const encounter *end, size_t line);

#define PAIR(name, T, clipped)                                                           \
    static void name(tile *t, const encounter *begin, const encounter *end, size_t line) \
    {                                                                                    \
        compute_pair(t, begin, end, line, T, clipped);                                   \
    }
PAIR(pair_whole, WIDE, 0)
PAIR(pair_wide, WIDE, 1)
PAIR(pair_odd, WIDE - 1, 1)

/* Both lines' meetings, each in its order. back: the operand's lines are met from the last on. */
static encounter *find_encounters(const meeting *a, size_t n_a, const meeting *b, size_t n_b,
                                  int back, encounter *to)
{
    const meeting *const end_a = a + n_a, *const end_b = b + n_b;
    while (a < end_a || b < end_b) {
        const int none = a == end_a || b == end_b;
        const int first = none ? a < end_a : a->from == b->from || (a->from > b->from) == back;
        const int second = none ? b < end_b : a->from == b->from || !first;
        *to++ = (encounter){first ? a->from : b->from, {first ? a->w : NULL, second ? b->w : NULL}};
        a += first;
        b += second;
    }
    return to;
}

/* All cells of it exist and so do all columns; others; others of at most NARROW cells. */
typedef struct tile_fns {
    tile_fn whole, wide, narrow;
} tile_fns;

/* clang-format off */
TILES(STEP_1, 3) TILES(STEP_1, 5) TILES(STEP_1, 7)
TILES(STEP_2, 3) TILES(STEP_2, 5) TILES(STEP_2, 7)
TILES(BACK_2, 3) TILES(BACK_2, 5) TILES(BACK_2, 7)

#define FNS(mode, K) {mode##_whole_##K, mode##_wide_##K, mode##_narrow_##K}
#define MODES(K)     {FNS(STEP_1, K), FNS(STEP_2, K), FNS(BACK_2, K)}
static const tile_fns tiles[3][3] = {MODES(3), MODES(5), MODES(7)};
/* clang-format on */

#endif
