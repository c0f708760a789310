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

static void add_bin(pg_stats *o, double v)
{
    if (!isfinite(v))
        return;
    /* Halves first: max - min may overflow. */
    const double width = o->max / 2 - o->min / 2;
    const double at = width > 0 ? (v / 2 - o->min / 2) / width * PG_STATS_BINS : 0;
    const size_t bin = at > 0 ? (size_t)at : 0;
    o->bins[bin < PG_STATS_BINS ? bin : PG_STATS_BINS - 1]++;
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

pg_status pg_store_stats(pg_stats *out, pg_store *s, size_t i, pg_err *err)
{
    pg_status st = PG_OK;
    unsigned char *buf = NULL;
    const pg_weight *w = pg_store_weight(s, i);
    if (!w)
        return pg_fail(err, PG_E_ARG, "there is no weight %zu", i);
    const size_t size = pg_dtype_bytes(w->dtype);
    pg_stats o = {.min = (double)NAN, .max = (double)NAN, .mean = (double)NAN, .std = (double)NAN};
    sums sum = {.out = &o};
    buf = pg__mem_array(PIECE_BYTES, 1);
    if (!buf)
        return pg__nomem(err);
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t off = 0; off < w->n_bytes;) {
            const uint64_t left = w->n_bytes - off;
            const size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
            PG_TRY(pg_store_read(s, i, off, buf, n, err));
            for (size_t k = 0; k < n; k += size)
                pass == 0 ? add_value(&sum, pg__value_at(buf + k, w->dtype))
                          : add_bin(&o, pg__value_at(buf + k, w->dtype));
            if (pass == 0)
                o.crc32 = crc_piece(o.crc32, buf, n, size);
            off += n;
        }
    if (sum.n_finite)
        o.std = sqrt(sum.m2 / (double)sum.n_finite);
    *out = o;
done:
    pg__mem_free(buf);
    return st;
}
