/* values.c - elements of any type as doubles, which represent all of them exactly except large
 * 64-bit integers. Statistics and comparisons use these functions, so 16 and 8 bits are decoded
 * in one place. */
#include "store/values.h"

#include <math.h>
#include <string.h>

/* IEEE binary16: 1 sign, 5 exponent, 10 mantissa bits. */
static double from_half(uint16_t h)
{
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const double sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24));
}

static double from_bfloat16(uint16_t b)
{
    const uint32_t bits = (uint32_t)b << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* Sign, four bits of exponent, three of fraction; all ones are NaN, there is no infinity. */
static double from_e4m3(unsigned char bits)
{
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    const double sign = bits & 0x80 ? -1 : 1;
    if (exponent == 15 && fraction == 7)
        return (double)NAN;
    return sign * (exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9));
}

#define LOAD(type)               \
    do {                         \
        type v;                  \
        memcpy(&v, p, sizeof v); \
        return (double)v;        \
    } while (0)

double pg__value_at(const unsigned char *p, pg_dtype dtype)
{
    uint16_t bits;
    switch (dtype) {
    case PG_F16: memcpy(&bits, p, sizeof bits); return from_half(bits);
    case PG_BF16: memcpy(&bits, p, sizeof bits); return from_bfloat16(bits);
    case PG_F32: LOAD(float);
    case PG_F64: LOAD(double);
    case PG_I8: LOAD(int8_t);
    case PG_I16: LOAD(int16_t);
    case PG_I32: LOAD(int32_t);
    case PG_I64: LOAD(int64_t);
    case PG_U16: LOAD(uint16_t);
    case PG_U32: LOAD(uint32_t);
    case PG_U64: LOAD(uint64_t);
    case PG_U8:
    case PG_BOOL: return *p;
    case PG_F8_E4M3: return from_e4m3(*p);
    case PG_F8_E5M2: return from_half((uint16_t)(*p << 8));
    }
    return 0;
}

void pg__values(double *out, const unsigned char *p, size_t n, pg_dtype dtype)
{
    const size_t size = pg_dtype_bytes(dtype);
    if (dtype == PG_F32) { /* nearly all weights: one loop that compilers turn into vectors */
        for (size_t i = 0; i < n; i++) {
            float f;
            memcpy(&f, p + 4 * i, sizeof f);
            out[i] = (double)f;
        }
        return;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = pg__value_at(p + i * size, dtype);
}

int pg__dtype_is_float(pg_dtype dtype)
{
    return dtype == PG_F16 || dtype == PG_BF16 || dtype == PG_F32 || dtype == PG_F64 ||
           pg__dtype_is_float8(dtype);
}

int pg__dtype_is_float8(pg_dtype dtype)
{
    return dtype == PG_F8_E4M3 || dtype == PG_F8_E5M2;
}
