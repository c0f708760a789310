/* pointwise_bf16.c - the products of pointwise.h for operands whose numbers are those of bfloat16,
 * with sums in float32, by AVX512-BF16 (VDPBF16PS): a lane of 32 bits holds two numbers that follow
 * each other in the sum, a pair, and an instruction multiplies and adds 16 pairs. Denormal operands
 * and sums count as 0. Compiled for that instruction set alone; see pg__pointwise_bf16_of().
 *
 * Both operands are converted: w at every update, the other one in blocks that then stay in the
 * nearest caches. The inner block is 14 rows by up to two vectors, all in registers. */
#include <stdint.h>

#include "backend/cpu/pointwise.h"
#include "backend/cpu/vec.h"

#define MOST_ROWS  14
#define VECS       2
#define BLOCK_ROWS (2 * MOST_ROWS) /* converted together */
#define DEPTH      512             /* numbers of a row that are summed at a time; even */

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t pairs_of(size_t n)
{
    return (n + 1) / 2;
}

static inline size_t padded(size_t n)
{
    return (n + PG_VEC - 1) / PG_VEC * PG_VEC;
}

static inline __mmask16 mask_of(size_t n)
{
    return (__mmask16)(n < PG_VEC ? (1u << n) - 1 : 0xFFFF);
}

/* ---- the inner block ---- */

/* c[m x columns] over pairs. a: pairs, of rows that are a_row and steps that are a_step apart; b: a
 * panel. add: to the numbers in c; plus: numbers laid out as c, or NULL. */
typedef struct block {
    size_t n_pairs, columns;
    const uint32_t *a, *b;
    size_t a_row, a_step, ldc;
    const float *bias, *plus;
    float *c;
    int add;
    pg__range range;
} block;

PG_INLINE void finish(__m512 *s, size_t m, const block *q, size_t v)
{
    const __mmask16 mask = mask_of(q->columns - v * PG_VEC);
    const size_t at = v * PG_VEC;
    const __m512 bias = q->bias ? _mm512_maskz_loadu_ps(mask, q->bias + at) : _mm512_setzero_ps();
    PG_UNROLL for (size_t i = 0; i < m; i++)
    {
        float *const to = q->c + i * q->ldc + at;
        pg__vec x = (pg__vec)_mm512_add_ps(s[i], q->add ? _mm512_maskz_loadu_ps(mask, to) : bias);
        if (q->plus)
            x += (pg__vec)_mm512_maskz_loadu_ps(mask, q->plus + i * q->ldc + at);
        if (q->range.is_used)
            x = pg__within(x, &q->range);
        _mm512_mask_storeu_ps(to, mask, (__m512)x);
    }
}

PG_INLINE void product(size_t vecs, size_t m, const block *q)
{
    const uint32_t *a = q->a, *b = q->b;
    const size_t row = q->a_row, step = q->a_step;
    __m512 s[VECS][MOST_ROWS];
    PG_UNROLL for (size_t v = 0; v < vecs; v++)
    {
        PG_UNROLL for (size_t i = 0; i < m; i++) s[v][i] = _mm512_setzero_ps();
    }
    for (size_t p = 0; p < q->n_pairs; p++, a += step, b += vecs * PG_VEC) {
        __m512bh w[VECS];
        PG_UNROLL for (size_t v = 0; v < vecs; v++) w[v] =
            (__m512bh)_mm512_loadu_si512(b + v * PG_VEC);
        PG_UNROLL for (size_t i = 0; i < m; i++)
        {
            const __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[i * row]);
            PG_UNROLL for (size_t v = 0; v < vecs; v++) s[v][i] =
                _mm512_dpbf16_ps(s[v][i], x, w[v]);
        }
    }
    PG_UNROLL for (size_t v = 0; v < vecs; v++) finish(s[v], m, q, v);
}

typedef void (*block_fn)(const block *q);

/* clang-format off */
#define BLOCK(vecs, m) \
    static void block_##vecs##_##m(const block *q) { product(vecs, m, q); }
#define BLOCKS(vecs) BLOCK(vecs, 1) BLOCK(vecs, 2) BLOCK(vecs, 3) BLOCK(vecs, 4) BLOCK(vecs, 5) \
                     BLOCK(vecs, 6) BLOCK(vecs, 7) BLOCK(vecs, 8) BLOCK(vecs, 9) BLOCK(vecs, 10) \
                     BLOCK(vecs, 11) BLOCK(vecs, 12) BLOCK(vecs, 13) BLOCK(vecs, 14)
#define LIST(f) {NULL, f##_1, f##_2, f##_3, f##_4, f##_5, f##_6, f##_7, f##_8, f##_9, f##_10, \
                 f##_11, f##_12, f##_13, f##_14}
BLOCKS(1) BLOCKS(2)
static const block_fn blocks[VECS + 1][MOST_ROWS + 1] = {{NULL}, LIST(block_1), LIST(block_2)};
/* clang-format on */

/* Rows of the tile at `done` of `rows`, cut into equal parts. */
static inline size_t tile_at(size_t done, size_t rows)
{
    const size_t left = rows - done, tiles = (left + MOST_ROWS - 1) / MOST_ROWS;
    return (left + tiles - 1) / tiles;
}

/* One panel of c by tiles of `rows` rows; `q` has what they share. */
static void multiply_tiles(block q, size_t vecs, size_t rows)
{
    for (size_t i = 0, t; i < rows; i += t) {
        t = tile_at(i, rows);
        blocks[vecs][t](&q);
        q.a += t * q.a_row;
        q.c += t * q.ldc;
        q.plus += q.plus ? t * q.ldc : 0;
    }
}

/* ---- pairs ---- */

/* The numbers of a row, two and two. */
static void pair_row(size_t n, const float *from, uint32_t *to)
{
    for (size_t i = 0; i < n; i += 2 * PG_VEC, from += 2 * PG_VEC, to += PG_VEC) {
        const size_t left = n - i, low = min_size(left, PG_VEC), high = left - low;
        const __m512 a = _mm512_maskz_loadu_ps(mask_of(low), from);
        const __m512 b =
            high > 0 ? _mm512_maskz_loadu_ps(mask_of(high), from + PG_VEC) : _mm512_setzero_ps();
        _mm512_mask_storeu_epi32(to, mask_of(pairs_of(left)), (__m512i)_mm512_cvtne2ps_pbh(b, a));
    }
}

/* Numbers of two rows that are above each other; second: NULL if there is none. The upper halves of
 * floats are all of a bfloat16, and VCVTNEPS2BF16 would take twice as long. */
PG_INLINE __m512i pair_columns(const float *first, const float *second, __mmask16 mask)
{
    const __m512i a = _mm512_maskz_loadu_epi32(mask, first);
    const __m512i b = second ? _mm512_maskz_loadu_epi32(mask, second) : _mm512_setzero_si512();
    return _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(a, 16), b);
}

/* Columns [j, j + width) of m rows of ld numbers as a panel of pairs of rows. */
static void pair_panel(size_t m, size_t j, size_t n, size_t width, const float *from, size_t ld,
                       uint32_t *to)
{
    for (size_t r = 0; r < m; r += 2, to += width)
        for (size_t v = 0; v < width; v += PG_VEC) {
            const float *first = from + r * ld + j + v;
            _mm512_storeu_si512(
                to + v, pair_columns(first, r + 1 < m ? first + ld : NULL, mask_of(n - j - v)));
        }
}

/* Columns [j, j + width) of the transpose of w, whose rows are ld numbers apart. */
static void pair_turned_panel(size_t k, size_t j, size_t n, size_t width, const float *w, size_t ld,
                              uint32_t *to)
{
    const size_t columns = min_size(width, n - j);
    uint32_t line[VECS * PG_VEC][PG_VEC];
    memset(line, 0, sizeof line);
    for (size_t at = 0; at < k; at += 2 * PG_VEC) {
        const size_t some = min_size(k - at, 2 * PG_VEC);
        for (size_t q = 0; q < columns; q++)
            pair_row(some, w + (j + q) * ld + at, line[q]);
        for (size_t p = 0; p < pairs_of(some); p++, to += width)
            for (size_t q = 0; q < width; q++)
                to[q] = line[q][p];
    }
}

/* ---- panels of w ---- */

static inline size_t width_at(size_t j, size_t n)
{
    return min_size(padded(n - j), VECS * PG_VEC);
}

static size_t packed_floats(size_t k, size_t n)
{
    return pairs_of(k) * padded(n);
}

static void pack(size_t k, size_t n, const float *w, size_t ld, int turned, float *packed)
{
    uint32_t *to = (uint32_t *)(void *)packed;
    for (size_t j = 0; j < n; j += VECS * PG_VEC)
        (turned ? pair_turned_panel : pair_panel)(k, j, n, width_at(j, n), w, ld,
                                                  to + j * pairs_of(k));
}

static void multiply(size_t m, size_t n, size_t k, const float *a, const float *packed,
                     const float *bias, const float *plus, pg__range range, float *c)
{
    const uint32_t *w = (const uint32_t *)(const void *)packed;
    uint32_t rows_of_a[BLOCK_ROWS * DEPTH / 2];
    for (size_t r = 0, rows; r < m; r += rows) {
        rows = min_size(BLOCK_ROWS, m - r);
        size_t at = 0;
        do { /* also of no numbers: the bias alone */
            const size_t depth = min_size(DEPTH, k - at), n_pairs = pairs_of(depth);
            const int is_last = at + depth == k;
            for (size_t i = 0; i < rows; i++)
                pair_row(depth, a + (r + i) * k + at, rows_of_a + i * n_pairs);
            for (size_t j = 0; j < n; j += VECS * PG_VEC) {
                const size_t width = width_at(j, n), cell = r * n + j;
                const block q = {.n_pairs = n_pairs,
                                 .columns = min_size(width, n - j),
                                 .a = rows_of_a,
                                 .a_row = n_pairs,
                                 .a_step = 1,
                                 .b = w + j * pairs_of(k) + at / 2 * width,
                                 .bias = bias ? bias + j : NULL,
                                 .plus = is_last && plus ? plus + cell : NULL,
                                 .c = c + cell,
                                 .ldc = n,
                                 .add = at > 0,
                                 .range = is_last ? range : (pg__range){0}};
                multiply_tiles(q, width / PG_VEC, rows);
            }
            at += depth;
        } while (at < k);
    }
}

/* ---- columns by columns, over rows ---- */

#define MOST_SUMMED  256 /* rows that are summed at a time, even, */
#define LEAST_SUMMED 64
#define SLAB         ((size_t)256 << 10) /* ... so that both operands' stay in a cache: numbers */

static size_t summed(size_t n, size_t k)
{
    const size_t fit = SLAB / (padded(n) + k) / 2 * 2;
    return fit < LEAST_SUMMED ? LEAST_SUMMED : min_size(fit, MOST_SUMMED);
}

static size_t scratch_floats(size_t m, size_t n, size_t k)
{
    return pairs_of(min_size(m, summed(n, k))) * (VECS * PG_VEC + k);
}

/* Pairs of rows of a, in the order of its columns. */
static void pair_rows(size_t m, size_t k, const float *a, uint32_t *to)
{
    for (size_t r = 0; r < m; r += 2, to += k)
        for (size_t i = 0; i < k; i += PG_VEC) {
            const float *first = a + r * k + i;
            const __mmask16 mask = mask_of(k - i);
            _mm512_mask_storeu_epi32(to + i, mask,
                                     pair_columns(first, r + 1 < m ? first + k : NULL, mask));
        }
}

static void gradient(size_t m, size_t n, size_t k, const float *a, const float *b, float *c,
                     float *sums, float *scratch)
{
    const size_t most = summed(n, k);
    uint32_t *pairs_a = (uint32_t *)(void *)scratch;
    uint32_t *pairs_b = pairs_a + pairs_of(min_size(m, most)) * k;
    size_t r = 0;
    do { /* also over no rows: zeros */
        const size_t rows = min_size(most, m - r), n_pairs = pairs_of(rows);
        pair_rows(rows, k, a + r * k, pairs_a);
        for (size_t i = 0; sums && i < rows; i++)
            for (size_t j = 0; j < n; j++)
                sums[j] += b[(r + i) * n + j];
        for (size_t j = 0; j < n; j += VECS * PG_VEC) {
            const size_t width = width_at(j, n);
            pair_panel(rows, j, n, width, b + r * n, n, pairs_b);
            const block q = {.n_pairs = n_pairs,
                             .columns = min_size(width, n - j),
                             .a = pairs_a,
                             .a_row = 1,
                             .a_step = k,
                             .b = pairs_b,
                             .c = c + j,
                             .ldc = n,
                             .add = r > 0};
            multiply_tiles(q, width / PG_VEC, k);
        }
        r += rows;
    } while (r < m);
}

extern const pg__pointwise pg__pointwise_bf16;
const pg__pointwise pg__pointwise_bf16 = {
    .packed_floats = packed_floats,
    .pack = pack,
    .multiply = multiply,
    .scratch_floats = scratch_floats,
    .gradient = gradient,
};
