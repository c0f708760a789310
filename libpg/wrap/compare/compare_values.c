/* compare_values.c - measures how much two tensors differ, in one pass and bounded memory.
 *
 * Pieces of 256 KiB are compared as bytes first. Only if a piece differs is a tensor compared
 * element by element, in double; its equal pieces count for the norms, so those before the first
 * difference are read again. Integers are subtracted exactly: doubles would make large ones equal
 * that are not. */
#include "wrap/compare/compare_values.h"

#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"
#include "base/try.h"
#include "base/watch.h"
#include "store/lanes.h"
#include "store/store_impl.h"
#include "store/values.h"

#define BLOCK 1024 /* elements summed at a time */

typedef struct sums {
    double dd, aa, bb, ab; /* of (a-b)^2, a^2, b^2, a*b over finite elements */
    double max;
    uint64_t n, changed, nan; /* n: elements in the sums */
} sums;

pg_status pg__operand_read(pg__operand t, uint64_t off, void *buf, size_t n, pg_err *err)
{
    const size_t weights = pg_store_n_weights(t.s);
    const pg_status st = t.tensor < weights
                             ? pg_store_read(t.s, t.tensor, off, buf, n, err)
                             : pg_store_read_state(t.s, t.tensor - weights, off, buf, n, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(t.path));
    return st;
}

/* Loops over integers of fixed length, which compilers vectorise. */
#define COUNT(type, magnitude, infinity)                        \
    do {                                                        \
        type v[BLOCK];                                          \
        for (; n >= BLOCK; n -= BLOCK, p += sizeof v) {         \
            type found = 0;                                     \
            memcpy(v, p, sizeof v);                             \
            for (size_t i = 0; i < BLOCK; i++)                  \
                found |= (type)((v[i] & magnitude) > infinity); \
            for (size_t i = 0; found && i < BLOCK; i++)         \
                count += (v[i] & magnitude) > infinity;         \
        }                                                       \
        for (; n; n--, p += sizeof *v) {                        \
            memcpy(v, p, sizeof *v);                            \
            count += (v[0] & magnitude) > infinity;             \
        }                                                       \
    } while (0)

uint64_t pg__count_nan(const unsigned char *p, size_t n, pg_dtype dtype)
{
    uint64_t count = 0;
    switch (dtype) {
    case PG_F16: COUNT(uint16_t, 0x7FFF, 0x7C00); break;
    case PG_BF16: COUNT(uint16_t, 0x7FFF, 0x7F80); break;
    case PG_F32: COUNT(uint32_t, 0x7FFFFFFFu, 0x7F800000u); break;
    case PG_F64: COUNT(uint64_t, 0x7FFFFFFFFFFFFFFFu, 0x7FF0000000000000u); break;
    case PG_F8_E4M3:
    case PG_F8_E5M2:
        for (size_t i = 0; i < n; i++)
            count += isnan(pg__value_at(p + i, dtype)) != 0;
        break;
    default: break;
    }
    return count;
}

/* Sums over n elements, a multiple of 4, of float32 (single) or double. A NaN or an infinity among
 * them makes aa or bb non-finite, so no separate test is needed. */
static PG_ALWAYS_INLINE void sum_up(sums *s, const unsigned char *a, const unsigned char *b,
                                    size_t n, int single, const pg_compare_opts *o)
{
    pg__lanes dd = {0}, aa = {0}, bb = {0}, ab = {0}, max = {0};
    pg__masks changed = {0};
    const pg__lanes abs_limit = {o->abs, o->abs, o->abs, o->abs};
    for (size_t i = 0; i < n; i += 4) {
        pg__lanes x, y;
        pg__lanes_load(&x, a, i, single);
        pg__lanes_load(&y, b, i, single);
        const pg__lanes d = x - y;
        const pg__lanes far = (pg__lanes)((pg__masks)d & INT64_MAX),
                        size = (pg__lanes)((pg__masks)x & INT64_MAX);
        const pg__lanes rel_limit = size * o->rel;
        changed -= (pg__masks)(far > abs_limit) & (pg__masks)(far > rel_limit);
        const pg__masks larger = far > max;
        max = (pg__lanes)(((pg__masks)far & larger) | ((pg__masks)max & ~larger));
        dd += d * d;
        aa += x * x;
        bb += y * y;
        ab += x * y;
    }
    *s = (sums){.n = n};
    for (int i = 0; i < 4; i++) {
        s->dd += dd[i], s->aa += aa[i], s->bb += bb[i], s->ab += ab[i];
        s->changed += (uint64_t)changed[i];
        s->max = max[i] > s->max ? max[i] : s->max;
    }
}

static void sum_plain(sums *s, const unsigned char *a, const unsigned char *b, size_t n, int single,
                      const pg_compare_opts *o)
{
    if (single)
        sum_up(s, a, b, n, 1, o);
    else
        sum_up(s, a, b, n, 0, o);
}

PG_AVX2 static void sum_avx2(sums *s, const unsigned char *a, const unsigned char *b, size_t n,
                             int single, const pg_compare_opts *o)
{
    if (single)
        sum_up(s, a, b, n, 1, o);
    else
        sum_up(s, a, b, n, 0, o);
}

static void sum_block(sums *s, const unsigned char *a, const unsigned char *b, size_t n, int single,
                      const pg_compare_opts *o)
{
    if (PG_HAS_AVX2())
        sum_avx2(s, a, b, n, single, o);
    else
        sum_plain(s, a, b, n, single, o);
}

/* One pair with a NaN or infinity in its block. same: their bytes are equal. */
static void add_pair(sums *s, double a, double b, int same, const pg_compare_opts *o)
{
    const double far = fabs(a - b);
    if (isnan(a) || isnan(b)) {
        s->nan++;
        s->changed += !same;
        return;
    }
    if (same || a == b) {
        if (isinf(a))
            return;
    } else if (isinf(a) || isinf(b)) {
        s->changed++;
        s->max = (double)INFINITY;
        return;
    }
    s->changed += far > o->abs && far > o->rel * fabs(a);
    s->max = far > s->max ? far : s->max;
    s->dd += far * far, s->aa += a * a, s->bb += b * b, s->ab += a * b;
    s->n++;
}

typedef struct piece {
    const unsigned char *p;
    pg_dtype dtype;
} piece;

/* One by one, for a block with elements that are not finite. */
static void add_slowly(sums *s, piece a, piece b, size_t n, const pg_compare_opts *o)
{
    const size_t size_a = pg_dtype_bytes(a.dtype), size_b = pg_dtype_bytes(b.dtype);
    for (size_t i = 0; i < n; i++) {
        const unsigned char *pa = a.p + i * size_a, *pb = b.p + i * size_b;
        const double x = pg__value_at(pa, a.dtype), y = pg__value_at(pb, b.dtype);
        const int same = a.dtype == b.dtype ? memcmp(pa, pb, size_a) == 0 : isnan(x) && isnan(y);
        add_pair(s, x, y, same, o);
    }
}

static void add_floats(sums *s, piece a, piece b, size_t n, const pg_compare_opts *o)
{
    double x[BLOCK], y[BLOCK];
    const size_t size_a = pg_dtype_bytes(a.dtype), size_b = pg_dtype_bytes(b.dtype);
    for (size_t at = 0; at < n; at += BLOCK) {
        const piece pa = {a.p + at * size_a, a.dtype}, pb = {b.p + at * size_b, b.dtype};
        const size_t k = n - at < BLOCK ? n - at : BLOCK, padded = (k + 3) / 4 * 4;
        const int single = a.dtype == PG_F32 && b.dtype == PG_F32 && k == padded;
        sums t;
        if (!single) {
            pg__values(x, pa.p, k, a.dtype);
            pg__values(y, pb.p, k, b.dtype);
            for (size_t i = k; i < padded; i++)
                x[i] = y[i] = 0;
        }
        sum_block(&t, single ? pa.p : (const unsigned char *)x,
                  single ? pb.p : (const unsigned char *)y, padded, single, o);
        if (!isfinite(t.aa) || !isfinite(t.bb)) {
            add_slowly(s, pa, pb, k, o);
            continue;
        }
        s->dd += t.dd, s->aa += t.aa, s->bb += t.bb, s->ab += t.ab;
        s->max = t.max > s->max ? t.max : s->max;
        s->changed += t.changed;
        s->n += k;
    }
}

/* A whole number as sign and size. */
typedef struct whole {
    uint64_t size;
    int negative;
} whole;

static whole whole_at(const unsigned char *p, pg_dtype dtype)
{
    int64_t v = 0;
    uint64_t u = 0;
    switch (dtype) {
    case PG_U64: memcpy(&u, p, sizeof u); return (whole){u, 0};
    case PG_I64: memcpy(&v, p, sizeof v); break;
    default: v = (int64_t)pg__value_at(p, dtype); break; /* exact up to 32 bits */
    }
    return (whole){v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0};
}

static void add_integers(sums *s, piece a, piece b, size_t n, const pg_compare_opts *o)
{
    const size_t size_a = pg_dtype_bytes(a.dtype), size_b = pg_dtype_bytes(b.dtype);
    for (size_t i = 0; i < n; i++) {
        const whole u = whole_at(a.p + i * size_a, a.dtype),
                    v = whole_at(b.p + i * size_b, b.dtype);
        const double x = u.negative ? -(double)u.size : (double)u.size;
        const double y = v.negative ? -(double)v.size : (double)v.size;
        const double far = u.negative != v.negative ? (double)u.size + (double)v.size
                           : u.size > v.size        ? (double)(u.size - v.size)
                                                    : (double)(v.size - u.size);
        s->changed += far > o->abs && far > o->rel * fabs(x);
        s->max = far > s->max ? far : s->max;
        s->dd += far * far, s->aa += x * x, s->bb += y * y, s->ab += x * y;
        s->n++;
    }
}

static void add(sums *s, piece a, piece b, size_t n, const pg_compare_opts *o)
{
    if (pg__dtype_is_float(a.dtype))
        add_floats(s, a, b, n, o);
    else
        add_integers(s, a, b, n, o);
}

static int comparable(pg_dtype a, pg_dtype b)
{
    return pg__dtype_is_float(a) == pg__dtype_is_float(b) && (a == PG_BOOL) == (b == PG_BOOL);
}

/* Adds the pieces before the first difference, which are the same on both sides. */
static pg_status add_equal(sums *s, pg__operand a, pg_dtype dtype, uint64_t n_bytes,
                           unsigned char *buf, const pg_compare_opts *o, pg_err *err)
{
    const size_t size = pg_dtype_bytes(dtype);
    for (uint64_t off = 0; off < n_bytes;) {
        const uint64_t left = n_bytes - off;
        const size_t n = left < PG_COPY_BYTES ? (size_t)left : PG_COPY_BYTES;
        const pg_status st = pg__operand_read(a, off, buf, n, err);
        if (st != PG_OK)
            return st;
        add(s, (piece){buf, dtype}, (piece){buf, dtype}, n / size, o);
        off += n;
    }
    return PG_OK;
}

static void finish(pg_compare_row *row, const sums *s, int differs)
{
    row->kind = s->changed ? PG_ROW_DIFFERS : PG_ROW_EQUAL;
    row->n_changed = s->changed;
    row->n_nan = s->nan;
    row->max_abs = s->max;
    row->rms = row->rel_l2 = 0;
    row->cosine = 1;
    if (!differs)
        return;
    row->rms = s->n ? sqrt(s->dd / (double)s->n) : (double)NAN;
    row->rel_l2 = s->aa > 0 ? sqrt(s->dd / s->aa) : (double)NAN;
    row->cosine = s->aa > 0 && s->bb > 0 ? s->ab / sqrt(s->aa) / sqrt(s->bb) : (double)NAN;
    row->cosine = row->cosine > 1 ? 1 : row->cosine < -1 ? -1 : row->cosine;
}

pg_status pg__compare_values(pg_compare_row *row, pg__operand a, pg__operand b,
                             const pg_compare_opts *o, unsigned char *buf, pg_err *err)
{
    pg_status st = PG_OK;
    const pg_weight *wa = pg__store_tensor(a.s, a.tensor), *wb = pg__store_tensor(b.s, b.tensor);
    const size_t size_a = pg_dtype_bytes(wa->dtype), size_b = pg_dtype_bytes(wb->dtype);
    const size_t step = PG_COPY_BYTES / (size_a > size_b ? size_a : size_b);
    const piece pa = {buf, wa->dtype}, pb = {buf + PG_COPY_BYTES, wb->dtype};
    const int same_type = wa->dtype == wb->dtype;
    sums s = {0};
    int differs = !same_type;
    row->n = wa->n_bytes / size_a;
    if (!comparable(wa->dtype, wb->dtype)) {
        row->kind = PG_ROW_DTYPE;
        row->n_changed = row->n;
        row->max_abs = row->rms = row->rel_l2 = row->cosine = (double)NAN;
        return PG_OK;
    }
    for (uint64_t at = 0; at < row->n;) {
        const size_t n = row->n - at < step ? (size_t)(row->n - at) : step;
        if (pg__cancelled(o->cancel))
            PG_FAIL(PG_E_CANCELLED, "interrupted");
        PG_TRY(pg__operand_read(a, at * size_a, buf, n * size_a, err));
        PG_TRY(pg__operand_read(b, at * size_b, buf + PG_COPY_BYTES, n * size_b, err));
        const int equal = same_type && memcmp(pa.p, pb.p, n * size_a) == 0;
        if (equal && !differs) {
            s.nan += pg__count_nan(pa.p, n, pa.dtype);
        } else {
            if (!differs && at) {
                s.nan = 0;
                PG_TRY(add_equal(&s, a, pa.dtype, at * size_a, buf, o, err));
                PG_TRY(pg__operand_read(a, at * size_a, buf, n * size_a, err));
            }
            differs = 1;
            add(&s, pa, equal ? pa : pb, n, o);
        }
        at += n;
        pg__progress_add(o->progress, n * size_a);
        if (o->quick && s.changed)
            break;
    }
    finish(row, &s, differs);
done:
    return st;
}
