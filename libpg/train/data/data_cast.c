/* data_cast.c - converts elements of any type to those that a model takes: plain loops, one for
 * each pair of types, which compilers vectorise. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "store/values.h"
#include "train/data/data.h"

size_t pg__cast_bytes(pg__cast cast)
{
    return cast == PG_AS_F64 ? sizeof(double) : sizeof(float);
}

#define LOOP(type, to, dst)                            \
    do {                                               \
        for (size_t i = 0; i < n; i++) {               \
            type v;                                    \
            memcpy(&v, from + i * sizeof v, sizeof v); \
            (dst)[i] = (to)v;                          \
        }                                              \
    } while (0)

/* float16 and bfloat16 have no C type here. */
static size_t cast_slowly(void *dst, pg__cast cast, const unsigned char *from, pg_dtype dtype,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double v = pg__value_at(from + i * pg_dtype_bytes(dtype), dtype);
        if (cast == PG_AS_F32)
            ((float *)dst)[i] = (float)v;
        else if (cast == PG_AS_F64)
            ((double *)dst)[i] = v;
        else if (v != floor(v) || fabs(v) > INT32_MAX)
            return i;
        else
            ((int32_t *)dst)[i] = (int32_t)v;
    }
    return n;
}

static size_t to_floats(float *dst, const unsigned char *from, pg_dtype dtype, size_t n)
{
    switch (dtype) {
    case PG_F32: LOOP(float, float, dst); break;
    case PG_F64: LOOP(double, float, dst); break;
    case PG_I8: LOOP(int8_t, float, dst); break;
    case PG_I16: LOOP(int16_t, float, dst); break;
    case PG_I32: LOOP(int32_t, float, dst); break;
    case PG_I64: LOOP(int64_t, float, dst); break;
    case PG_BOOL:
    case PG_U8: LOOP(uint8_t, float, dst); break;
    case PG_U16: LOOP(uint16_t, float, dst); break;
    case PG_U32: LOOP(uint32_t, float, dst); break;
    case PG_U64: LOOP(uint64_t, float, dst); break;
    case PG_F16:
    case PG_BF16:
    case PG_F8_E4M3:
    case PG_F8_E5M2: return cast_slowly(dst, PG_AS_F32, from, dtype, n);
    }
    return n;
}

static size_t to_doubles(double *dst, const unsigned char *from, pg_dtype dtype, size_t n)
{
    pg__values(dst, from, n, dtype);
    return n;
}

/* Does not go through double, which would round 64-bit integers. */
static size_t to_ints(int32_t *dst, const unsigned char *from, pg_dtype dtype, size_t n)
{
    switch (dtype) {
    case PG_I8: LOOP(int8_t, int32_t, dst); return n;
    case PG_I16: LOOP(int16_t, int32_t, dst); return n;
    case PG_I32: LOOP(int32_t, int32_t, dst); return n;
    case PG_BOOL:
    case PG_U8: LOOP(uint8_t, int32_t, dst); return n;
    case PG_U16: LOOP(uint16_t, int32_t, dst); return n;
    case PG_I64:
        for (size_t i = 0; i < n; i++) {
            int64_t v;
            memcpy(&v, from + i * sizeof v, sizeof v);
            if (v < INT32_MIN || v > INT32_MAX)
                return i;
            dst[i] = (int32_t)v;
        }
        return n;
    case PG_F16:
    case PG_BF16:
    case PG_F8_E4M3:
    case PG_F8_E5M2:
    case PG_F32:
    case PG_F64:
    case PG_U32:
    case PG_U64: break;
    }
    return cast_slowly(dst, PG_AS_I32, from, dtype, n);
}

size_t pg__cast_values(void *dst, pg__cast cast, const void *from, pg_dtype dtype, size_t n)
{
    switch (cast) {
    case PG_AS_F32: return to_floats(dst, from, dtype, n);
    case PG_AS_F64: return to_doubles(dst, from, dtype, n);
    case PG_AS_I32: break;
    }
    return to_ints(dst, from, dtype, n);
}
