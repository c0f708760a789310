/* stats_block.c - the inner loops of statistics. Written once with the compiler's vectors, which
 * become whatever each processor has; and once more for AVX-512, where masks halve the time.
 *
 * Sums are taken around the first value of a block. Its squared distance from the mean is at most n
 * times the variance, so of 53 bits no more than ten are lost, and one pass over the values is
 * enough. */
#include "store/stats_block.h"

#include <math.h>
#include <string.h>

#include "pg/stats.h"
#include "store/lanes.h"

enum { VECTORS = PG_STATS_LANES / PG_LANES };

/* The lanes at the end of a block, however they were filled. */
typedef struct lanes {
    double sum[PG_STATS_LANES], squares[PG_STATS_LANES], min[PG_STATS_LANES], max[PG_STATS_LANES];
    uint64_t zeros;
} lanes;

static void join(pg__part *out, const lanes *l, double first, size_t n)
{
    double sum = 0, squares = 0;
    *out = (pg__part){.min = l->min[0], .max = l->max[0], .zeros = l->zeros};
    for (unsigned i = 0; i < PG_STATS_LANES; i++) {
        out->min = l->min[i] < out->min ? l->min[i] : out->min;
        out->max = l->max[i] > out->max ? l->max[i] : out->max;
        sum += l->sum[i];
        squares += l->squares[i];
    }
    const double spread = isinf(squares) ? squares : squares - sum / (double)n * sum;
    out->mean = first + sum / (double)n;
    out->m2 = spread > 0 ? spread : 0;
}

static double first_of(const unsigned char *p, int single)
{
    float f;
    double d;
    if (single) {
        memcpy(&f, p, sizeof f);
        return (double)f;
    }
    memcpy(&d, p, sizeof d);
    return d;
}

static PG_ALWAYS_INLINE void look(pg__part *out, const unsigned char *p, size_t n, int single)
{
    const double first = first_of(p, single);
    pg__lanes x, d, min[VECTORS], max[VECTORS], sum[VECTORS] = {{0}}, squares[VECTORS] = {{0}};
    pg__masks zeros = {0};
    lanes l;
    for (unsigned v = 0; v < VECTORS; v++) {
        pg__lanes_load(&min[v], p, PG_LANES * v, single);
        max[v] = min[v];
    }
    for (size_t i = 0; i < n; i += PG_STATS_LANES)
        for (unsigned v = 0; v < VECTORS; v++) {
            pg__lanes_load(&x, p, i + PG_LANES * v, single);
            const pg__masks below = (pg__masks)(x < min[v]), above = (pg__masks)(x > max[v]);
            pg__lanes_pick(&min[v], &below, &x, &min[v]);
            pg__lanes_pick(&max[v], &above, &x, &max[v]);
            zeros -= (pg__masks)(x == 0);
            d = x - first;
            sum[v] += d;
            squares[v] += d * d;
        }
    memcpy(l.sum, sum, sizeof sum);
    memcpy(l.squares, squares, sizeof squares);
    memcpy(l.min, min, sizeof min);
    memcpy(l.max, max, sizeof max);
    l.zeros = (uint64_t)(zeros[0] + zeros[1] + zeros[2] + zeros[3]);
    join(out, &l, first, n);
}

enum { TOGETHER = 7, OCTET = 8 }; /* edges whose counts fit in registers; floats in a vector */

/* Edges from `first` on, eight floats at a time: for a float x, x >= e if and only if x >= the
 * least float that is not below e. */
static PG_ALWAYS_INLINE void rank_floats(uint64_t *above, const float *edge, size_t n_edges,
                                         const unsigned char *p, size_t n)
{
    typedef float floats __attribute__((vector_size(32)));
    typedef int32_t counts __attribute__((vector_size(32)));
    counts count[TOGETHER] = {{0}};
    floats x;
    for (size_t i = 0; i < n; i += OCTET) {
        memcpy(&x, p + 4 * i, sizeof x);
        for (size_t k = 0; k < TOGETHER; k++)
            count[k] -= (counts)(x >= edge[k]);
    }
    for (size_t k = 0; k < n_edges; k++)
        for (unsigned i = 0; i < OCTET; i++)
            above[k] += (uint64_t)count[k][i];
}

static PG_ALWAYS_INLINE void rank_doubles(uint64_t *above, const double *edge, size_t n_edges,
                                          const unsigned char *p, size_t n)
{
    pg__masks count[TOGETHER] = {{0}};
    pg__lanes x;
    for (size_t i = 0; i < n; i += PG_LANES) {
        pg__lanes_load(&x, p, i, 0);
        for (size_t k = 0; k < TOGETHER; k++)
            count[k] -= (pg__masks)(x >= edge[k]);
    }
    for (size_t k = 0; k < n_edges; k++)
        for (unsigned i = 0; i < PG_LANES; i++)
            above[k] += (uint64_t)count[k][i];
}

/* Both functions for every processor, and for those with wider registers. */
static void look_plain(pg__part *out, const unsigned char *p, size_t n, int single)
{
    if (single)
        look(out, p, n, 1);
    else
        look(out, p, n, 0);
}

PG_AVX2 static void look_avx2(pg__part *out, const unsigned char *p, size_t n, int single)
{
    if (single)
        look(out, p, n, 1);
    else
        look(out, p, n, 0);
}

static void rank_plain(uint64_t *above, const float *f, const double *d, size_t n_edges,
                       const unsigned char *p, size_t n, int single)
{
    if (single)
        rank_floats(above, f, n_edges, p, n);
    else
        rank_doubles(above, d, n_edges, p, n);
}

PG_AVX2 static void rank_avx2(uint64_t *above, const float *f, const double *d, size_t n_edges,
                              const unsigned char *p, size_t n, int single)
{
    if (single)
        rank_floats(above, f, n_edges, p, n);
    else
        rank_doubles(above, d, n_edges, p, n);
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define PG_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

PG_AVX512 static void look_avx512(pg__part *out, const unsigned char *p, size_t n)
{
    const double first = first_of(p, 1);
    const __m512d pivot = _mm512_set1_pd(first);
    __m512 min = _mm512_loadu_ps(p), max = min;
    __m512d sum[2], squares[2];
    lanes l = {.zeros = 0};
    sum[0] = sum[1] = squares[0] = squares[1] = _mm512_setzero_pd();
    for (size_t i = 0; i < n; i += PG_STATS_LANES) {
        const __m512 x = _mm512_loadu_ps(p + 4 * i);
        min = _mm512_min_ps(x, min);
        max = _mm512_max_ps(x, max);
        const unsigned zeros = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_EQ_OQ);
        l.zeros += (unsigned)__builtin_popcount(zeros);
        for (int v = 0; v < 2; v++) {
            const __m256 half = _mm256_loadu_ps((const float *)(const void *)(p + 4 * i) + 8 * v);
            const __m512d d = _mm512_sub_pd(_mm512_cvtps_pd(half), pivot);
            sum[v] = _mm512_add_pd(sum[v], d);
            squares[v] = _mm512_add_pd(squares[v], _mm512_mul_pd(d, d));
        }
    }
    memcpy(l.sum, sum, sizeof sum);
    memcpy(l.squares, squares, sizeof squares);
    float least[PG_STATS_LANES], most[PG_STATS_LANES];
    memcpy(least, &min, sizeof min);
    memcpy(most, &max, sizeof max);
    for (unsigned i = 0; i < PG_STATS_LANES; i++)
        l.min[i] = (double)least[i], l.max[i] = (double)most[i];
    join(out, &l, first, n);
}

/* Four times the number of each element's bin, out of eight bins: three comparisons, each of which
 * halves the choice. */
PG_AVX512 static inline __m512i bin_of(__m512 x, const float edge[TOGETHER])
{
    const __m512 odd = _mm512_castps256_ps512(
        _mm256_setr_ps(edge[0], edge[0], edge[2], edge[2], edge[4], edge[4], edge[6], edge[6]));
    const __mmask16 upper = _mm512_cmp_ps_mask(x, _mm512_set1_ps(edge[3]), _CMP_GE_OQ);
    const __m512 second =
        _mm512_mask_blend_ps(upper, _mm512_set1_ps(edge[1]), _mm512_set1_ps(edge[5]));
    const __mmask16 inner = _mm512_cmp_ps_mask(x, second, _CMP_GE_OQ);
    __m512i bin = _mm512_maskz_mov_epi32(upper, _mm512_set1_epi32(4));
    bin = _mm512_mask_add_epi32(bin, inner, bin, _mm512_set1_epi32(2));
    const __mmask16 last = _mm512_cmp_ps_mask(x, _mm512_permutexvar_ps(bin, odd), _CMP_GE_OQ);
    bin = _mm512_mask_add_epi32(bin, last, bin, _mm512_set1_epi32(1));
    return _mm512_slli_epi32(bin, 2);
}

/* Each lane counts its bins in eight fields of 4 bits, for up to 15 values; 17 times those are
 * added to bytes. edge: 7 of them. */
PG_AVX512 static void rank_avx512(uint64_t *above, const float edge[TOGETHER],
                                  const unsigned char *p, size_t n)
{
    enum { NIBBLES = 15, BYTES = 17, WIDE = 64 };
    const __m512i one = _mm512_set1_epi32(1), low = _mm512_set1_epi8(15);
    uint64_t bins[TOGETHER + 1] = {0}, sum = 0;
    for (size_t i = 0; i < n;) {
        __m512i even = _mm512_setzero_si512(), odd = even;
        for (int b = 0; b < BYTES && i < n; b++) {
            __m512i count = _mm512_setzero_si512();
            for (int k = 0; k < NIBBLES && i < n; k++, i += PG_STATS_LANES)
                count = _mm512_add_epi32(
                    count, _mm512_sllv_epi32(one, bin_of(_mm512_loadu_ps(p + 4 * i), edge)));
            even = _mm512_add_epi8(even, _mm512_and_si512(count, low));
            odd = _mm512_add_epi8(odd, _mm512_and_si512(_mm512_srli_epi32(count, 4), low));
        }
        unsigned char byte[2][WIDE];
        memcpy(byte[0], &even, sizeof even);
        memcpy(byte[1], &odd, sizeof odd);
        for (unsigned k = 0; k < WIDE; k++)
            for (unsigned o = 0; o < 2; o++)
                bins[k % 4 * 2 + o] += byte[o][k];
    }
    for (unsigned k = TOGETHER; k > 0; k--)
        above[k - 1] += sum += bins[k];
}

pg__width pg__widest(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return PG_WIDTH_AVX512;
    return PG_HAS_AVX2() ? PG_WIDTH_AVX2 : PG_WIDTH_PLAIN;
}
#else
static void look_avx512(pg__part *out, const unsigned char *p, size_t n)
{
    look_plain(out, p, n, 1);
}

static void rank_avx512(uint64_t *above, const float edge[TOGETHER], const unsigned char *p,
                        size_t n)
{
    rank_floats(above, edge, TOGETHER, p, n);
}

pg__width pg__widest(void)
{
    return PG_WIDTH_PLAIN;
}
#endif

void pg__look(pg__part *out, const unsigned char *p, size_t n, int single, pg__width width)
{
    if (width == PG_WIDTH_AVX512 && single)
        look_avx512(out, p, n);
    else
        (width == PG_WIDTH_PLAIN ? look_plain : look_avx2)(out, p, n, single);
}

/* The least float that is not below e. */
static float float_from(double e)
{
    const float f = (float)e;
    return (double)f < e ? nextafterf(f, INFINITY) : f;
}

void pg__rank(uint64_t *above, const double *edges, size_t n_bins, const unsigned char *p, size_t n,
              int single, pg__width width)
{
    for (size_t k = 1; k < n_bins; k += TOGETHER) {
        const size_t n_edges = n_bins - k < TOGETHER ? n_bins - k : TOGETHER;
        double d[TOGETHER] = {0};
        float f[TOGETHER] = {0};
        for (size_t i = 0; i < n_edges; i++)
            d[i] = edges[k + i], f[i] = float_from(d[i]);
        if (width == PG_WIDTH_AVX512 && single && n_edges == TOGETHER)
            rank_avx512(above + k, f, p, n);
        else
            (width == PG_WIDTH_PLAIN ? rank_plain : rank_avx2)(above + k, f, d, n_edges, p, n,
                                                               single);
    }
}
