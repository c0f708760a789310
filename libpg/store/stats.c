/* stats.c - one tensor's values at a glance.
 *
 * Two passes over pieces of 256 KiB, because the histogram needs the range first. Mean and variance
 * are computed block by block around the block's own mean and joined with Chan's formula, or one by
 * one with Welford's update (B. P. Welford, Technometrics 4, 1962): a plain sum of squares would
 * lose the digits of large weights that are close together. */
#include "pg/stats.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "base/watch.h"
#include "store/stats_block.h"
#include "store/store_impl.h"
#include "store/values.h"

#define PIECE_BYTES PG_COPY_BYTES

typedef struct sums {
    pg_stats *out;
    uint64_t n_finite;
    double m2;       /* sum of squared distances from the mean so far */
    uint64_t n_plus; /* positive infinities */
    pg__width width;
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

/* Bounds of bins as numpy.histogram() makes them, so that counts agree to the last element. Counts,
 * without branches, how many values are not below each edge; a bin is the difference of two
 * counts. */
typedef struct bounds {
    uint64_t *above; /* [k]: not below edges[k], including positive infinities */
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

/* T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing
 * sample variances", 1979. */
static void add_part(sums *s, const pg__part *b, size_t n)
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

/* Adds n values at p one by one: they are few, or not all finite. */
static void add_values(sums *s, const unsigned char *p, size_t n, pg_dtype dtype)
{
    const size_t size = pg_dtype_bytes(dtype);
    for (size_t i = 0; i < n; i++)
        add_value(s, pg__value_at(p + i * size, dtype));
}

static void add_piece(sums *s, const unsigned char *p, size_t n, pg_dtype dtype)
{
    double x[PG_STATS_BLOCK];
    pg__part here;
    const size_t size = pg_dtype_bytes(dtype);
    const int single = dtype == PG_F32;
    for (size_t at = 0, block; at < n; at += block) {
        block = n - at < PG_STATS_BLOCK ? n - at : PG_STATS_BLOCK;
        const size_t whole = block - block % PG_STATS_LANES;
        const unsigned char *from = p + at * size;
        size_t done = 0;
        if (whole && !single)
            pg__values(x, from, whole, dtype);
        if (whole) {
            pg__look(&here, single ? from : (const unsigned char *)x, whole, single, s->width);
            done = isfinite(here.mean) ? whole : 0;
        }
        if (done)
            add_part(s, &here, whole);
        add_values(s, from + done * size, block - done, dtype);
    }
}

/* The second pass, for the histogram. */
static void rank_piece(const bounds *b, const unsigned char *p, size_t n, pg_dtype dtype,
                       pg__width width)
{
    double x[PG_STATS_BLOCK];
    const size_t size = pg_dtype_bytes(dtype), whole = n - n % PG_STATS_LANES;
    if (dtype == PG_F32 && whole)
        pg__rank(b->above, b->edges, b->n, p, whole, 1, width);
    for (size_t at = 0, block; dtype != PG_F32 && at < whole; at += block) {
        block = whole - at < PG_STATS_BLOCK ? whole - at : PG_STATS_BLOCK;
        pg__values(x, p + at * size, block, dtype);
        pg__rank(b->above, b->edges, b->n, (const unsigned char *)x, block, 0, width);
    }
    for (size_t at = whole; at < n; at++) {
        const double v = pg__value_at(p + at * size, dtype);
        for (size_t k = 1; k < b->n; k++)
            b->above[k] += v >= b->edges[k];
    }
}

/* The checksum is that of little-endian bytes on every machine; big-endian ones swap them first. */
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

/* Shared by all tensors of a call. */
typedef struct reading {
    pg_store *store;
    const pg_stats_opts *o;
    unsigned char *buf; /* a piece */
    bounds b;
    pg__width width;
} reading;

static size_t piece_at(const pg_weight *w, uint64_t off)
{
    return w->n_bytes - off < PIECE_BYTES ? (size_t)(w->n_bytes - off) : PIECE_BYTES;
}

static pg_status next_piece(reading *r, size_t i, uint64_t off, size_t n, pg_err *err)
{
    if (pg__cancelled(r->o->cancel))
        return pg_fail(err, PG_E_CANCELLED, "interrupted");
    const pg_status st = pg_store_read(r->store, i, off, r->buf, n, err);
    if (st == PG_OK)
        pg__progress_add(r->o->progress, n);
    return st;
}

/* A tensor of one piece is read only once. */
static pg_status read_tensor(pg_stats *out, uint64_t *bins, reading *r, size_t i, pg_err *err)
{
    pg_stats o = {.min = (double)NAN, .max = (double)NAN, .mean = (double)NAN, .std = (double)NAN};
    const pg_weight *w = pg_store_weight(r->store, i);
    const size_t size = pg_dtype_bytes(w->dtype);
    const int again = w->n_bytes > PIECE_BYTES;
    sums sum = {.out = &o, .width = r->width};
    pg_status st = PG_OK;
    size_t n;
    for (uint64_t off = 0; off < w->n_bytes; off += n) {
        n = piece_at(w, off);
        PG_TRY(next_piece(r, i, off, n, err));
        add_piece(&sum, r->buf, n / size, w->dtype);
        if (again)
            o.crc32 = crc_piece(o.crc32, r->buf, n, size);
    }
    memset(r->b.above, 0, r->b.n * sizeof *r->b.above);
    set_bounds(&r->b, &o);
    for (uint64_t off = 0; off < w->n_bytes; off += n) {
        n = piece_at(w, off);
        if (again)
            PG_TRY(next_piece(r, i, off, n, err));
        rank_piece(&r->b, r->buf, n / size, w->dtype, r->width);
        if (!again)
            o.crc32 = crc_piece(o.crc32, r->buf, n, size);
    }
    if (sum.n_finite)
        o.std = sqrt(sum.m2 / (double)sum.n_finite);
    get_bins(bins, &r->b, &sum);
    *out = o;
done:
    return st;
}

static pg_status read_tensors(pg_stats *out, uint64_t *bins, reading *r, const size_t *which,
                              size_t n, pg_err *err)
{
    uint64_t n_bytes = 0;
    for (size_t k = 0; k < n; k++) {
        const pg_weight *w = pg_store_weight(r->store, which[k]);
        if (!w)
            return pg_fail(err, PG_E_ARG, "there is no weight %zu", which[k]);
        n_bytes += w->n_bytes > PIECE_BYTES ? 2 * w->n_bytes : w->n_bytes;
    }
    pg__progress_start(r->o->progress, n_bytes);
    pg_status st = PG_OK;
    for (size_t k = 0; k < n && st == PG_OK; k++) {
        uint64_t own[PG_STATS_BINS];
        st = read_tensor(&out[k], bins ? bins + k * r->b.n : own, r, which[k], err);
        if (st == PG_OK && !bins)
            memcpy(out[k].bins, own, sizeof own);
    }
    return st;
}

pg_status pg_store_stats_of(pg_stats *out, uint64_t *bins, size_t n_bins, pg_store *s,
                            const size_t *which, size_t n, const pg_stats_opts *opts, pg_err *err)
{
    const pg_stats_opts none = {0};
    reading r = {.store = s, .o = opts ? opts : &none, .width = pg__widest()};
    r.b.n = bins ? n_bins : PG_STATS_BINS;
    if (r.b.n == 0 || r.b.n == SIZE_MAX)
        return pg_fail(err, PG_E_ARG, "a histogram of %zu bins was asked for", n_bins);
    r.b.above = pg__mem_array(r.b.n, sizeof *r.b.above);
    r.b.edges = pg__mem_array(r.b.n, sizeof *r.b.edges);
    r.buf = pg__mem_array(PIECE_BYTES, 1);
    const pg_status st = r.b.above && r.b.edges && r.buf
                             ? read_tensors(out, bins, &r, which, n, err)
                             : pg__nomem(err);
    pg__mem_free(r.b.above);
    pg__mem_free(r.b.edges);
    pg__mem_free(r.buf);
    return st;
}

pg_status pg_store_histogram(pg_stats *out, uint64_t *bins, size_t n_bins, pg_store *s, size_t i,
                             pg_err *err)
{
    pg_stats o;
    const pg_status st = pg_store_stats_of(&o, bins, n_bins, s, &i, 1, NULL, err);
    if (st == PG_OK)
        *out = o;
    return st;
}

pg_status pg_store_stats(pg_stats *out, pg_store *s, size_t i, pg_err *err)
{
    pg_stats o;
    const pg_status st = pg_store_stats_of(&o, NULL, 0, s, &i, 1, NULL, err);
    if (st == PG_OK)
        *out = o;
    return st;
}
