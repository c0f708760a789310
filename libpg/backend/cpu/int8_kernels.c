/* int8_kernels.c - compiled once for each instruction set, and once more for AVX-512 and AVX2 with
 * VNNI: the kernels of int8.h.
 *
 * The inner block is some rows by up to two vectors of columns, in registers: four bytes of a row
 * are broadcast, and multiplied with four bytes of each column. VPDPBUSD does so in one
 * instruction; without it, bytes 0 and 2 and bytes 1 and 3 become pairs of 16 bits, whose products
 * PMADDWD adds. */
#include "backend/cpu/int8.h"
#include "backend/cpu/int8_panels.h"
#include "backend/cpu/vec.h"
#include "ops/real.h"

#include <math.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#if PG_VEC == 16
#define MOST_ROWS 14
#elif defined __AVXVNNI__
#define MOST_ROWS 6
#else
#define MOST_ROWS 3
#endif
#define VECS 2
#define LINE 16 /* floats of a line of a cache */
/* Bytes of rows that meet one panel after the other: few, whose results follow each other in
 * memory, if all panels stay in a cache. */
#define FEW_BYTES  ((size_t)4 << 10)
#define MANY_BYTES ((size_t)128 << 10)
#define CACHE      ((size_t)256 << 10)

typedef int32_t ivec __attribute__((vector_size(PG_VEC * 4)));
typedef int32_t ivec_anywhere __attribute__((vector_size(PG_VEC * 4), aligned(1), may_alias));

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

PG_INLINE ivec load_bytes(const void *p)
{
    return *(const ivec_anywhere *)p;
}

PG_INLINE ivec splat(int32_t x)
{
    ivec v = {0};
    return v + x;
}

/* ---- sums of four products ---- */

#if defined __AVX512VNNI__ || defined __AVXVNNI__

typedef struct bytes {
    ivec all;
} bytes;

PG_INLINE bytes signed_bytes(ivec v)
{
    return (bytes){v};
}

PG_INLINE bytes unsigned_bytes(ivec v)
{
    return (bytes){v};
}

PG_INLINE ivec add_products(ivec sum, bytes a, bytes w)
{
#if defined __AVX512VNNI__
    return (ivec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a.all, (__m512i)w.all);
#else
    return (ivec)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)a.all, (__m256i)w.all);
#endif
}

#else

typedef struct bytes {
    ivec even, odd; /* as pairs of 16 bits */
} bytes;

typedef int16_t halves __attribute__((vector_size(PG_VEC * 4)));

PG_INLINE bytes signed_bytes(ivec v)
{
    const halves h = (halves)v;
    return (bytes){(ivec)((halves)((ivec)(h << 8)) >> 8), (ivec)(h >> 8)};
}

PG_INLINE bytes unsigned_bytes(ivec v)
{
    return (bytes){v & 0x00FF00FF, (v >> 8) & 0x00FF00FF};
}

PG_INLINE ivec add_pairs(ivec a, ivec w)
{
#if defined __AVX512F__
    return (ivec)_mm512_madd_epi16((__m512i)a, (__m512i)w);
#elif defined __AVX2__
    return (ivec)_mm256_madd_epi16((__m256i)a, (__m256i)w);
#elif defined __SSE2__
    return (ivec)_mm_madd_epi16((__m128i)a, (__m128i)w);
#else
    const ivec low = (a << 16 >> 16) * (w << 16 >> 16);
    return low + (a >> 16) * (w >> 16);
#endif
}

PG_INLINE ivec add_products(ivec sum, bytes a, bytes w)
{
    return sum + add_pairs(a.even, w.even) + add_pairs(a.odd, w.odd);
}

#endif

/* ---- the inner block ---- */

typedef struct block {
    const pg__int8_product *p;
    const uint8_t *a;
    const int8_t *b; /* a panel, or a part of it */
    size_t width;    /* of the panel */
    size_t columns;  /* that count */
    size_t row_bytes, scale_step;
    const float *steps;
    const int32_t *sums;
    const pg__int8_scale *scales;
    const float *bias, *plus;
    float *c;
    pg__range range;
} block;

PG_INLINE pg__vec load_n(const float *p, size_t n)
{
    return n == PG_VEC ? pg__load(p) : pg__load_some(p, n);
}

PG_INLINE void finish(const ivec *s, size_t m, const block *q, size_t v, size_t n)
{
    const size_t at = v * PG_VEC, ld = q->p->n;
    const pg__vec bias = q->bias ? load_n(q->bias + at, n) : pg__splat(0);
    const pg__vec step = pg__load(q->steps + at);
    const ivec sum = load_bytes(q->sums + at);
    PG_UNROLL for (size_t i = 0; i < m; i++)
    {
        const pg__int8_scale by = q->scales[i * q->scale_step];
        const ivec all = by.zero ? s[i] - splat(by.zero) * sum : s[i];
        const pg__vec product = __builtin_convertvector(all, pg__vec);
        pg__vec x = pg__mul_add(product, pg__splat(by.step) * step, bias);
        if (q->plus)
            x += load_n(q->plus + i * ld + at, n);
        if (q->range.is_used)
            x = pg__within(x, &q->range);
        if (n == PG_VEC)
            pg__store(q->c + i * ld + at, x);
        else
            pg__store_some(q->c + i * ld + at, x, n);
    }
}

/* What finish() will touch, row by row: all at once would hold up the operands. */
PG_INLINE void ask_for_row(size_t vecs, size_t i, const block *q)
{
    const float *plus = q->plus ? q->plus : q->c;
    PG_UNROLL for (size_t at = 0; at < vecs * PG_VEC; at += LINE)
    {
        __builtin_prefetch(q->c + i * q->p->n + at, 1);
        __builtin_prefetch(plus + i * q->p->n + at);
    }
}

PG_INLINE void product(size_t vecs, size_t m, const block *q)
{
    size_t ahead = 0;
    const int8_t *b = q->b;
    const size_t row = q->row_bytes, groups = q->p->run_bytes / PG_INT8_GROUP;
    const size_t b_step = q->width * PG_INT8_GROUP;
    ivec s[VECS][MOST_ROWS];
    PG_UNROLL for (size_t v = 0; v < vecs; v++)
    {
        PG_UNROLL for (size_t i = 0; i < m; i++) s[v][i] = splat(0);
    }
    for (size_t r = 0; r < q->p->n_runs; r++) {
        const uint8_t *a = q->a + q->p->run_at[r];
        for (size_t g = 0; g < groups; g++, a += PG_INT8_GROUP, b += b_step) {
            if (ahead < m)
                ask_for_row(vecs, ahead++, q);
            bytes w[VECS];
            PG_UNROLL for (size_t v = 0; v < vecs; v++) w[v] =
                signed_bytes(load_bytes(b + v * sizeof(ivec)));
            PG_UNROLL for (size_t i = 0; i < m; i++)
            {
                int32_t four;
                memcpy(&four, a + i * row, sizeof four);
                const bytes x = unsigned_bytes(splat(four));
                PG_UNROLL for (size_t v = 0; v < vecs; v++) s[v][i] =
                    add_products(s[v][i], x, w[v]);
            }
        }
    }
    PG_UNROLL for (size_t v = 0; v < vecs; v++)
    {
        const size_t left = q->columns - v * PG_VEC;
        if (q->columns <= v * PG_VEC)
            return;
        if (left >= PG_VEC)
            finish(s[v], m, q, v, PG_VEC);
        else
            finish(s[v], m, q, v, left);
    }
}

typedef void (*block_fn)(const block *q);

/* clang-format off */
#define BLOCK(vecs, m) \
    static void block_##vecs##_##m(const block *q) { product(vecs, m, q); }
#if MOST_ROWS == 14
#define BLOCKS(vecs) BLOCK(vecs, 1) BLOCK(vecs, 2) BLOCK(vecs, 3) BLOCK(vecs, 4) BLOCK(vecs, 5) \
                     BLOCK(vecs, 6) BLOCK(vecs, 7) BLOCK(vecs, 8) BLOCK(vecs, 9) BLOCK(vecs, 10) \
                     BLOCK(vecs, 11) BLOCK(vecs, 12) BLOCK(vecs, 13) BLOCK(vecs, 14)
#define LIST(f) {NULL, f##_1, f##_2, f##_3, f##_4, f##_5, f##_6, f##_7, f##_8, f##_9, f##_10, \
                 f##_11, f##_12, f##_13, f##_14}
#elif MOST_ROWS == 6
#define BLOCKS(vecs) BLOCK(vecs, 1) BLOCK(vecs, 2) BLOCK(vecs, 3) BLOCK(vecs, 4) BLOCK(vecs, 5) \
                     BLOCK(vecs, 6)
#define LIST(f) {NULL, f##_1, f##_2, f##_3, f##_4, f##_5, f##_6}
#else
#define BLOCKS(vecs) BLOCK(vecs, 1) BLOCK(vecs, 2) BLOCK(vecs, 3)
#define LIST(f) {NULL, f##_1, f##_2, f##_3}
#endif
BLOCKS(1) BLOCKS(2)
static const block_fn blocks[VECS + 1][MOST_ROWS + 1] = {{NULL}, LIST(block_1), LIST(block_2)};
/* clang-format on */

/* ---- c ---- */

/* Rows of the tile at `done` of `rows`, cut into equal parts. */
static inline size_t tile_at(size_t done, size_t rows)
{
    const size_t left = rows - done, tiles = (left + MOST_ROWS - 1) / MOST_ROWS;
    return (left + tiles - 1) / tiles;
}

/* Some columns of `rows` rows; `q` has what they share. */
static void multiply_tiles(block q, size_t rows)
{
    const size_t vecs = q.columns > PG_VEC ? VECS : 1;
    for (size_t i = 0, t; i < rows; i += t) {
        t = tile_at(i, rows);
        blocks[vecs][t](&q);
        q.a += t * q.row_bytes;
        q.c += t * q.p->n;
        q.plus += q.plus ? t * q.p->n : 0;
        q.scales += t * q.scale_step;
    }
}

/* One panel of lines [from, to), of each rows [first, first + rows). */
static void multiply_panel(const block *of, const pg__int8_rows *r, size_t from, size_t to,
                           size_t first, size_t rows, size_t j)
{
    const size_t n = of->p->n;
    for (size_t line = from; line < to; line++) {
        const size_t at = line * r->m + first;
        for (size_t v = 0; v < of->width && j + v < n; v += VECS * PG_VEC) {
            block q = *of;
            q.a = r->a + line * r->line_bytes + first * r->row_bytes;
            q.b += v * PG_INT8_GROUP;
            q.columns = min_size(VECS * PG_VEC, n - j - v);
            q.columns = min_size(q.columns, q.width - v);
            q.steps += v;
            q.sums += v;
            q.bias += q.bias ? v : 0;
            q.plus = r->plus ? r->plus + at * n + j + v : NULL;
            q.c = r->c + at * n + j + v;
            q.scales = r->scales + first * r->scale_step;
            multiply_tiles(q, rows);
        }
    }
}

static void multiply(const pg__int8_product *p, const void *packed, const pg__int8_rows *r)
{
    const size_t k = p->n_runs * p->run_bytes, n = p->n;
    const int8_t *b = packed;
    const float *steps = (const float *)(const void *)(b + pg__int8_padded(n) * k);
    const int32_t *sums = (const int32_t *)(const void *)(steps + pg__int8_padded(n));
    const size_t few = (k * n <= CACHE ? FEW_BYTES : MANY_BYTES) /
                           (r->n_lines > 1 ? r->line_bytes : r->row_bytes) +
                       1;
    const size_t lines = r->n_lines > 1 ? few : 1;
    const size_t rows = r->n_lines > 1 ? r->m : (few + MOST_ROWS - 1) / MOST_ROWS * MOST_ROWS;
    for (size_t line = 0; line < r->n_lines; line += lines)
        for (size_t i = 0; i < r->m; i += rows)
            for (size_t j = 0; j < n; j += PG_INT8_PANEL) {
                const block q = {.p = p,
                                 .b = b + j * k,
                                 .width = pg__int8_width(j, n),
                                 .row_bytes = r->row_bytes,
                                 .scale_step = r->scale_step,
                                 .steps = steps + j,
                                 .sums = sums + j,
                                 .bias = r->bias ? r->bias + j : NULL,
                                 .range = r->range};
                multiply_panel(&q, r, line, min_size(line + lines, r->n_lines), i,
                               min_size(rows, r->m - i), j);
            }
}

/* ---- bytes ---- */

/* Infinity and NaN, times 0, are NaN. */
static pg__int8_scale scale(const float *x, size_t n)
{
    pg__vec lows = pg__splat(0), highs = lows, none = lows;
    float low = 0, high = 0, bad = 0;
    for (size_t i = 0; i < n; i += PG_VEC) {
        const pg__vec v = n - i < PG_VEC ? pg__load_some(x + i, n - i) : pg__load(x + i);
        lows = pg__min(v, lows);
        highs = pg__max(v, highs);
        none = pg__mul_add(v, pg__splat(0), none);
    }
    for (size_t i = 0; i < PG_VEC; i++) {
        low = lows[i] < low ? lows[i] : low;
        high = highs[i] > high ? highs[i] : high;
        bad += none[i];
    }
    const float step = high / 255 - low / 255;
    if (bad != 0)
        return (pg__int8_scale){NAN, 0};
    if (!isfinite(1 / step)) /* nothing but zeros, or next to that */
        return (pg__int8_scale){1, 0};
    return (pg__int8_scale){step, (int32_t)rintf(-low / step)};
}

/* Rounds to the nearest, ties to even. */
#define ROUND 12582912.0f

static void quantise(const float *x, size_t n, pg__int8_scale by, uint8_t *to)
{
    const float per = by.step > 0 ? 1 / by.step : 0;
    const float least = (float)-by.zero, most = (float)(255 - by.zero);
    const int32_t zero = by.zero;
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float v = x[i] * per;
        v = v > least ? v : least; /* NaN, too */
        v = v < most ? v : most;
        to[i] = (uint8_t)((int32_t)(v + ROUND - ROUND) + zero);
    }
}

/* ---- parameters ---- */

/* The magnitudes of floats are in the order of their bits, with infinity and NaN above all others.
 */
static void find_steps(const pg__int8_w *w, size_t rows, size_t n, float *steps)
{
    memset(steps, 0, pg__int8_padded(n) * sizeof *steps);
    for (size_t r = 0; r < rows; r++) {
        const float *row = w->w + r * n;
#pragma omp simd
        for (size_t j = 0; j < n; j++) {
            int32_t most, bits;
            memcpy(&most, &steps[j], sizeof most);
            memcpy(&bits, &row[j], sizeof bits);
            bits &= INT32_MAX;
            most = bits > most ? bits : most;
            memcpy(&steps[j], &most, sizeof most);
        }
    }
    for (size_t j = 0; j < n; j++) {
        const float step = steps[j] / 127;
        steps[j] = !isfinite(step) ? NAN : step > 0 ? step : 1;
    }
}

/* One row of a panel. */
static void pack_row(const float *w, size_t columns, const float *steps, int32_t *sums, int8_t *to)
{
    for (size_t j = 0; j < columns; j++) {
        float v = w[j] / steps[j];
        v = v > -127 ? v : -127;
        v = v < 127 ? v : 127;
        const int32_t q = (int32_t)(v + ROUND - ROUND);
        to[j * PG_INT8_GROUP] = (int8_t)q;
        sums[j] += q;
    }
}

static void pack(const pg__int8_product *p, const pg__int8_w *w, void *packed)
{
    const size_t n = p->n, k = p->n_runs * p->run_bytes, cells = p->n_runs * w->cells;
    const size_t cell_bytes = p->run_bytes / w->cells;
    int8_t *b = packed;
    const pg__int8_columns of = pg__int8_columns_of(packed, n, k);
    memset(b, 0, pg__int8_padded(n) * k);
    memset(of.sums, 0, pg__int8_padded(n) * sizeof *of.sums);
    find_steps(w, cells * w->channels, n, of.steps);
    for (size_t j = 0; j < n; j += PG_INT8_PANEL) {
        const size_t width = pg__int8_width(j, n);
        for (size_t cell = 0; cell < cells; cell++)
            for (size_t c = 0; c < w->channels; c++) {
                const size_t at = cell * cell_bytes + c;
                pack_row(w->w + (cell * w->channels + c) * n + j, min_size(width, n - j),
                         of.steps + j, of.sums + j,
                         b + j * k + at / PG_INT8_GROUP * PG_INT8_GROUP * width +
                             at % PG_INT8_GROUP);
            }
    }
}

extern const pg__int8_kernels PG_ISA_NAME(int8_kernels);
const pg__int8_kernels PG_ISA_NAME(int8_kernels) = {scale, quantise, pack, multiply};
