/* stats.c - one tensor's values at a glance.
 *
 * Two passes over pieces of 256 KiB: the histogram needs the range first. Mean and variance by
 * Welford's update (B. P. Welford, Technometrics 4, 1962): a sum of squares would lose the digits
 * of large weights that lie close together. */
#include "pg/stats.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "store/store_impl.h"
#include "store/values.h"

#define PIECE_BYTES PG_COPY_BYTES

typedef struct sums {
    pg_stats *out;
    uint64_t n_finite;
    double m2; /* sum of squared distances from the mean so far */
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

/* Bounds of bins as numpy.histogram() makes them, so that counts agree to the last element: the
 * quotient only guesses a bin, the bounds decide. */
typedef struct bounds {
    uint64_t *bins;
    double *edges; /* n + 1 */
    size_t n;
    double min, max;
} bounds;

static void set_bounds(bounds *b, const pg_stats *o)
{
    const double n = (double)b->n, width = o->max - o->min;
    b->min = o->min;
    b->max = o->max;
    const double half = (o->max / 2 - o->min / 2) / n; /* the whole width may overflow */
    for (size_t k = 0; k < b->n; k++)
        b->edges[k] =
            isinf(width) ? 2 * (o->min / 2 + half * (double)k) : o->min + width / n * (double)k;
    b->edges[b->n] = o->max;
}

static void add_bin(bounds *b, double v)
{
    if (!isfinite(v))
        return;
    const double half = b->max / 2 - b->min / 2; /* the whole width may overflow */
    const double at = half > 0 ? (v / 2 - b->min / 2) / half * (double)b->n : 0;
    size_t k = at > 0 ? (size_t)at : 0;
    k = k < b->n ? k : b->n - 1;
    if (half > 0 && k > 0 && v < b->edges[k])
        k--;
    else if (half > 0 && k + 1 < b->n && v >= b->edges[k + 1])
        k++;
    b->bins[k]++;
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

/* Counts one piece: its values in the first pass, bins in the second. */
static void add_piece(sums *sum, bounds *b, const unsigned char *p, size_t n, pg_dtype dtype)
{
    const size_t size = pg_dtype_bytes(dtype);
    for (size_t k = 0; k < n; k += size) {
        const double v = pg__value_at(p + k, dtype);
        if (sum)
            add_value(sum, v);
        else
            add_bin(b, v);
    }
}

static pg_status two_passes(pg_stats *o, bounds *b, pg_store *s, size_t i, pg_err *err)
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
            add_piece(pass == 0 ? &sum : NULL, b, buf, n, w->dtype);
            if (pass == 0)
                o->crc32 = crc_piece(o->crc32, buf, n, size);
            off += n;
        }
    }
    if (sum.n_finite)
        o->std = sqrt(sum.m2 / (double)sum.n_finite);
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
    b.bins = pg__mem_array(n_bins, sizeof *b.bins);
    b.edges = pg__mem_array(n_bins + 1, sizeof *b.edges);
    if (!b.bins || !b.edges) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(two_passes(&o, &b, s, i, err));
    memcpy(bins, b.bins, n_bins * sizeof *bins);
    *out = o;
done:
    pg__mem_free(b.bins);
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
