/* convert_round.c - converts between floating-point types, rounding to nearest, ties to even (IEEE
 * 754), and measures the error. Everything goes through double, which holds every value of the
 * smaller types, so that nothing is rounded twice. */
#include <math.h>
#include <string.h>

#include "wrap/convert/convert.h"

/* Fraction bits and the exponent of the smallest normal number; 1 and 8 bits of sign and exponent
 * follow from the size. */
typedef struct layout {
    int fraction, min_exponent;
} layout;

static layout layout_of(pg_dtype d)
{
    return d == PG_F16 ? (layout){10, -14} : d == PG_BF16 ? (layout){7, -126} : (layout){23, -126};
}

/* Bits of the number of the given layout that is nearest to x, without its sign. */
static uint32_t nearest(double x, layout l)
{
    const int bias = 1 - l.min_exponent;
    const uint32_t infinite = (uint32_t)(2 * bias + 1) << l.fraction;
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    const int exponent = (int)(bits >> 52 & 0x7FF) - 1023;
    const uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent == 1024) /* NaN stays one, and quiet */
        return fraction ? infinite | (uint32_t)(fraction >> (52 - l.fraction)) |
                              UINT32_C(1) << (l.fraction - 1)
                        : infinite;
    const int below = exponent < l.min_exponent ? l.min_exponent - exponent : 0;
    const int shift = 52 - l.fraction + below;
    if (exponent == -1023 || shift > 53)
        return 0;
    const uint64_t whole = UINT64_C(1) << 52 | fraction;
    const uint64_t rest = whole & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
    uint64_t kept = whole >> shift;
    kept += rest > half || (rest == half && (kept & 1));
    if (!below) /* the leading 1 of kept counts as one more in the exponent */
        kept += (uint64_t)(exponent - l.min_exponent) << l.fraction;
    return kept < infinite ? (uint32_t)kept : infinite;
}

/* The value of `bits` (without sign) in a layout. */
static double value_of(uint32_t bits, layout l)
{
    const int bias = 1 - l.min_exponent;
    const int exponent = (int)(bits >> l.fraction);
    const uint32_t fraction = bits & ((UINT32_C(1) << l.fraction) - 1);
    if (exponent == 2 * bias + 1)
        return fraction ? (double)NAN : (double)INFINITY;
    const double m = (double)(exponent ? fraction | UINT32_C(1) << l.fraction : fraction);
    return ldexp(m, (exponent ? exponent - bias : l.min_exponent) - l.fraction);
}

/* Stores x and returns what was stored. */
static double store(unsigned char *p, pg_dtype d, double x)
{
    if (d == PG_F64) {
        memcpy(p, &x, sizeof x);
        return x;
    }
    const layout l = layout_of(d);
    const uint32_t bits = nearest(x, l), sign = signbit(x) != 0;
    if (d == PG_F32) {
        const uint32_t w = bits | sign << 31;
        memcpy(p, &w, sizeof w);
    } else {
        const uint16_t h = (uint16_t)(bits | sign << 15);
        memcpy(p, &h, sizeof h);
    }
    const double y = value_of(bits, l);
    return sign ? -y : y;
}

static void count(pg__rounding *r, double x, double y)
{
    if (!isfinite(x) || x == y)
        return;
    if (!isfinite(y)) {
        r->n_overflow++;
    } else if (y == 0) {
        r->n_underflow++;
    } else {
        const double e = fabs((y - x) / x);
        r->max_rel_error = e > r->max_rel_error ? e : r->max_rel_error;
    }
}

void pg__round(void *to, pg_dtype to_type, const void *from, pg_dtype from_type, size_t n,
               pg__rounding *stats)
{
    const size_t n_to = pg_dtype_bytes(to_type), n_from = pg_dtype_bytes(from_type);
    unsigned char *q = to;
    const unsigned char *p = from;
    if (to_type == from_type) {
        if (q != p)
            memmove(q, p, n * n_to);
        return;
    }
    if (to_type == PG_F32 && from_type == PG_F64 && !stats) { /* compilers turn it into vectors */
        for (size_t i = 0; i < n; i++) {
            double x;
            memcpy(&x, p + i * sizeof x, sizeof x);
            const float f = (float)x;
            memcpy(q + i * sizeof f, &f, sizeof f);
        }
        return;
    }
    for (size_t i = 0; i < n; i++, p += n_from, q += n_to) {
        const double x = pg__value_at(p, from_type), y = store(q, to_type, x);
        if (stats)
            count(stats, x, y);
    }
}
