/* stats.c - one tensor's values at a glance.
 *
 * Two passes over pieces of 256 KiB: the histogram needs the range first. Mean and variance block
 * by block around the block's own mean, joined by Chan's formula, or one by one by Welford's update
 * (B. P. Welford, Technometrics 4, 1962): a sum of squares would lose the digits of large weights
 * that lie close together. */
#include "pg/stats.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "store/lanes.h"
#include "store/store_impl.h"
#include "store/values.h"

#define PIECE_BYTES PG_COPY_BYTES
#define BLOCK       1024u /* elements looked at together */

typedef struct sums {
    pg_stats *out;
    uint64_t n_finite;
    double m2;       /* sum of squared distances from the mean so far */
    uint64_t n_plus; /* positive infinities */
} sums;

static void add_value(sums *s, double v)
{
    pg_stats *o = s->out;
    o->n++;
    o->n_zero += v == 0;
    if (isnan(v)) {
        o->n_nan++;
        return;
    }
    if (isinf(v)) {
        o->n_inf++;
        s->n_plus += v > 0;
        return;
    }
    if (s->n_finite++ == 0)
        o->min = o->max = v, o->mean = 0;
    o->min = v < o->min ? v : o->min;
    o->max = v > o->max ? v : o->max;
    const double delta = v - o->mean;
    o->mean += delta / (double)s->n_finite;
    s->m2 += delta * (v - o->mean);
}

/* Bounds of bins as numpy.histogram() makes them, so that counts agree to the last element. How
 * many values are not below each edge is counted, without branches; bins are what lies between. */
typedef struct bounds {
    uint64_t *above; /* [k]: not below edges[k], positive infinities among them */
    double *edges;   /* [k]: where bin k begins, from 1 on */
    size_t n;
} bounds;

static void set_bounds(bounds *b, const pg_stats *o)
{
    const double n = (double)b->n, width = o->max - o->min;
    const double half = o->max / 2 - o->min / 2; /* the whole width may overflow */
    for (size_t k = 1; k < b->n; k++)
        b->edges[k] = !(half > 0)    ? (double)INFINITY /* all in the first bin */
                      : isinf(width) ? 2 * (o->min / 2 + half / n * (double)k)
                                     : o->min + width / n * (double)k;
}

static void get_bins(uint64_t *bins, const bounds *b, const sums *s)
{
    uint64_t left = s->n_finite;
    for (size_t k = 0; k + 1 < b->n; k++) {
        const uint64_t above = b->above[k + 1] - s->n_plus;
        bins[k] = left - above;
        left = above;
    }
    bins[b->n - 1] = left;
}

/* A block of finite values by itself. */
typedef struct part {
    double min, max, mean, m2;
    uint64_t zeros;
} part;

/* n: a multiple of 4, at least that. A NaN or an infinity makes the mean one of both. */
static PG_ALWAYS_INLINE void look(part *out, const unsigned char *p, size_t n, int single)
{
    pg__lanes x, min, max, sum = {0}, m2 = {0};
    pg__masks zeros = {0};
    pg__lanes_load(&min, p, 0, single);
    max = min;
    for (size_t i = 0; i < n; i += PG_LANES) {
        pg__lanes_load(&x, p, i, single);
        const pg__masks below = (pg__masks)(x < min), above = (pg__masks)(x > max);
        pg__lanes_pick(&min, &below, &x, &min);
        pg__lanes_pick(&max, &above, &x, &max);
        zeros -= (pg__masks)(x == 0);
        sum += x;
    }
    const double mean = (sum[0] + sum[1] + sum[2] + sum[3]) / (double)n;
    for (size_t i = 0; i < n; i += PG_LANES) {
        pg__lanes_load(&x, p, i, single);
        x -= mean;
        m2 += x * x;
    }
    *out = (part){.min = min[0], .max = max[0], .mean = mean};
    for (unsigned i = 0; i < PG_LANES; i++) {
        out->min = min[i] < out->min ? min[i] : out->min;
        out->max = max[i] > out->max ? max[i] : out->max;
        out->m2 += m2[i];
        out->zeros += (uint64_t)zeros[i];
    }
}

/* Counts n values, a multiple of 4. */
static PG_ALWAYS_INLINE void rank(const bounds *b, const unsigned char *p, size_t n, int single)
{
    enum { TOGETHER = 8 }; /* edges that registers hold the counts of */
    for (size_t first = 1; first < b->n; first += TOGETHER) {
        const size_t n_edges = b->n - first < TOGETHER ? b->n - first : TOGETHER;
        pg__masks count[TOGETHER] = {{0}};
        double edge[TOGETHER] = {0};
        memcpy(edge, b->edges + first, n_edges * sizeof *edge);
        for (size_t i = 0; i < n; i += PG_LANES) {
            pg__lanes x;
            pg__lanes_load(&x, p, i, single);
            for (size_t k = 0; k < TOGETHER; k++)
                count[k] -= (pg__masks)(x >= edge[k]);
        }
        for (size_t k = 0; k < n_edges; k++)
            for (unsigned i = 0; i < PG_LANES; i++)
                b->above[first + k] += (uint64_t)count[k][i];
    }
}

/* Both for every processor, and for those with wider registers. */
static void look_plain(part *out, const unsigned char *p, size_t n, int single)
{
    if (single)
        look(out, p, n, 1);
    else
        look(out, p, n, 0);
}

PG_AVX2 static void look_avx2(part *out, const unsigned char *p, size_t n, int single)
{
    if (single)
        look(out, p, n, 1);
    else
        look(out, p, n, 0);
}

static void rank_plain(const bounds *b, const unsigned char *p, size_t n, int single)
{
    if (single)
        rank(b, p, n, 1);
    else
        rank(b, p, n, 0);
}

PG_AVX2 static void rank_avx2(const bounds *b, const unsigned char *p, size_t n, int single)
{
    if (single)
        rank(b, p, n, 1);
    else
        rank(b, p, n, 0);
}

/* T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing
 * sample variances", 1979. */
static void add_part(sums *s, const part *b, size_t n)
{
    pg_stats *o = s->out;
    const double before = (double)s->n_finite, share = (double)n / (before + (double)n);
    const double delta = b->mean - o->mean;
    o->n += n;
    o->n_zero += b->zeros;
    if (s->n_finite == 0) {
        o->min = b->min, o->max = b->max, o->mean = b->mean, s->m2 = b->m2;
    } else {
        o->min = b->min < o->min ? b->min : o->min;
        o->max = b->max > o->max ? b->max : o->max;
        o->mean += delta * share;
        s->m2 += b->m2 + delta * delta * (before * share);
    }
    s->n_finite += n;
}

/* n values at p, at most BLOCK: whole lanes together, the rest one by one; so also what is not
 * finite. b: they are counted for the histogram. */
static void add_block(sums *s, const bounds *b, const unsigned char *p, size_t n, pg_dtype dtype)
{
    double x[BLOCK];
    part here;
    const size_t size = pg_dtype_bytes(dtype), whole = n - n % PG_LANES;
    const int single = dtype == PG_F32, avx2 = PG_HAS_AVX2();
    const unsigned char *from = single ? p : (const unsigned char *)x;
    size_t at = 0;
    if (!single)
        pg__values(x, p, n, dtype);
    if (b && whole) {
        (avx2 ? rank_avx2 : rank_plain)(b, from, whole, single);
        at = whole;
    } else if (whole) {
        (avx2 ? look_avx2 : look_plain)(&here, from, whole, single);
        if (isfinite(here.mean)) {
            add_part(s, &here, whole);
            at = whole;
        }
    }
    for (; at < n; at++) {
        const double v = pg__value_at(p + at * size, dtype);
        if (!b)
            add_value(s, v);
        for (size_t k = 1; b && k < b->n; k++)
            b->above[k] += v >= b->edges[k];
    }
}

/* The checksum is that of little-endian bytes on every machine. */
static uint32_t crc_piece(uint32_t crc, unsigned char *p, size_t n, size_t size)
{
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        for (size_t i = 0; i + size <= n; i += size)
            for (size_t a = 0; a < size / 2; a++) {
                const unsigned char c = p[i + a];
                p[i + a] = p[i + size - 1 - a];
                p[i + size - 1 - a] = c;
            }
    return pg__crc32(crc, p, n);
}

static pg_status two_passes(pg_stats *o, uint64_t *bins, bounds *b, pg_store *s, size_t i,
                            pg_err *err)
{
    pg_status st = PG_OK;
    const pg_weight *w = pg_store_weight(s, i);
    const size_t size = pg_dtype_bytes(w->dtype);
    sums sum = {.out = o};
    unsigned char *buf = pg__mem_array(PIECE_BYTES, 1);
    if (!buf)
        return pg__nomem(err);
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1)
            set_bounds(b, o);
        for (uint64_t off = 0; off < w->n_bytes;) {
            const uint64_t left = w->n_bytes - off;
            const size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
            PG_TRY(pg_store_read(s, i, off, buf, n, err));
            for (size_t k = 0; k < n; k += BLOCK * size)
                add_block(&sum, pass == 0 ? NULL : b, buf + k,
                          (n - k < BLOCK * size ? n - k : BLOCK * size) / size, w->dtype);
            if (pass == 0)
                o->crc32 = crc_piece(o->crc32, buf, n, size);
            off += n;
        }
    }
    if (sum.n_finite)
        o->std = sqrt(sum.m2 / (double)sum.n_finite);
    get_bins(bins, b, &sum);
done:
    pg__mem_free(buf);
    return st;
}

pg_status pg_store_histogram(pg_stats *out, uint64_t *bins, size_t n_bins, pg_store *s, size_t i,
                             pg_err *err)
{
    pg_status st = PG_OK;
    pg_stats o = {.min = (double)NAN, .max = (double)NAN, .mean = (double)NAN, .std = (double)NAN};
    if (!pg_store_weight(s, i))
        return pg_fail(err, PG_E_ARG, "there is no weight %zu", i);
    if (n_bins == 0 || n_bins == SIZE_MAX)
        return pg_fail(err, PG_E_ARG, "a histogram of %zu bins was asked for", n_bins);
    bounds b = {.n = n_bins};
    b.above = pg__mem_array(n_bins, sizeof *b.above);
    b.edges = pg__mem_array(n_bins, sizeof *b.edges);
    if (!b.above || !b.edges) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(two_passes(&o, bins, &b, s, i, err));
    *out = o;
done:
    pg__mem_free(b.above);
    pg__mem_free(b.edges);
    return st;
}

pg_status pg_store_stats(pg_stats *out, pg_store *s, size_t i, pg_err *err)
{
    pg_stats o;
    uint64_t bins[PG_STATS_BINS];
    const pg_status st = pg_store_histogram(&o, bins, PG_STATS_BINS, s, i, err);
    if (st != PG_OK)
        return st;
    memcpy(o.bins, bins, sizeof bins);
    *out = o;
    return PG_OK;
}
