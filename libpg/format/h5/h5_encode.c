/* h5_encode.c - see h5_encode.h. All datatypes are of version 1, as libhdf5 writes them unless it
 * is told to use later ones. */
#include "format/h5/h5_encode.h"

#include <string.h>

#include "base/le.h"

enum { INTEGER = 0x10, FLOAT = 0x11, STRING = 0x13, OPAQUE = 0x15, ENUM = 0x18, VLEN = 0x19 };

#define HEAD      8u  /* class and version, three bytes of flags, the size of an element */
#define VLEN_SIZE 16u /* length, address of the heap, number in it */

static size_t head(unsigned char *out, unsigned class_version, unsigned flags, size_t size)
{
    out[0] = (unsigned char)class_version;
    pg__put_le(out + 1, flags, 3);
    pg__put_le(out + 4, size, 4);
    return HEAD;
}

static size_t integer(unsigned char *out, size_t size, int is_signed, int big)
{
    (void)head(out, INTEGER, (is_signed ? 8u : 0u) | (big ? 1u : 0u), size);
    pg__put_le(out + 10, 8 * size, 2); /* precision; the offset is 0 */
    return 12;
}

/* IEEE: the sign first, then the exponent, then the mantissa without its leading 1. */
static size_t real(unsigned char *out, size_t size, unsigned exponent, int big)
{
    const unsigned bits = 8 * (unsigned)size, mantissa = bits - 1 - exponent;
    (void)head(out, FLOAT, 0x20u | (big ? 1u : 0u) | (bits - 1) << 8, size);
    pg__put_le(out + 10, bits, 2);
    out[12] = (unsigned char)mantissa; /* where the exponent begins */
    out[13] = (unsigned char)exponent;
    out[15] = (unsigned char)mantissa; /* which begins at 0 */
    pg__put_le(out + 16, (1u << (exponent - 1)) - 1, 4);
    return 20;
}

static size_t boolean(unsigned char *out, int big)
{
    (void)head(out, ENUM, 2, 1);
    size_t n = HEAD + integer(out + HEAD, 1, 1, big);
    memcpy(out + n, "FALSE", 5);
    memcpy(out + n + 8, "TRUE", 4);
    n += 16;
    out[n + 1] = 1; /* the values, FALSE first */
    return n + 2;
}

static size_t string(unsigned char *out, const pg__h5_dtype *t)
{
    const unsigned set = t->utf8 ? 1 : 0;
    if (t->pad < 0 || t->pad > 2)
        return 0;
    if (t->cls == PG_H5_STR_FIXED)
        return t->size ? head(out, STRING, (unsigned)t->pad | set << 4, t->size) : 0;
    (void)head(out, VLEN, 1u | (unsigned)t->pad << 4 | set << 8, VLEN_SIZE);
    return HEAD + integer(out + HEAD, 1, 0, 0);
}

size_t pg__h5_encode_type(unsigned char out[PG_H5_TYPE_BYTES], const pg__h5_dtype *t)
{
    const size_t size = pg_dtype_bytes(t->dtype);
    if (t->cls == PG_H5_STR_FIXED || t->cls == PG_H5_STR_VLEN)
        return string(out, t);
    if (t->cls != PG_H5_NUMBER)
        return 0;
    switch (t->dtype) {
    case PG_F16: return real(out, size, 5, t->big_endian);
    case PG_F32: return real(out, size, 8, t->big_endian);
    case PG_F64: return real(out, size, 11, t->big_endian);
    case PG_BF16: return head(out, OPAQUE, 0, size);
    case PG_BOOL: return boolean(out, t->big_endian);
    case PG_I8:
    case PG_I16:
    case PG_I32:
    case PG_I64: return integer(out, size, 1, t->big_endian);
    case PG_U8:
    case PG_U16:
    case PG_U32:
    case PG_U64: return integer(out, size, 0, t->big_endian);
    case PG_F8_E4M3:
    case PG_F8_E5M2: break;
    }
    return 0;
}

size_t pg__h5_elem_bytes(const pg__h5_dtype *t)
{
    if (t->cls == PG_H5_NUMBER)
        return pg_dtype_bytes(t->dtype);
    return t->cls == PG_H5_STR_FIXED ? t->size : t->cls == PG_H5_STR_VLEN ? VLEN_SIZE : 0;
}

size_t pg__h5_encode_space(unsigned char out[PG_H5_SPACE_BYTES], uint32_t rank,
                           const uint64_t *dims)
{
    if (rank == PG_H5_NULL) { /* only version 2 has it */
        out[0] = out[3] = 2;
        return 4;
    }
    out[0] = 1;
    out[1] = (unsigned char)rank;
    out[2] = rank != 0; /* the largest dimensions are given, too: the same */
    for (uint32_t i = 0; i < rank; i++) {
        pg__put_le(out + 8 + 8 * i, dims[i], 8);
        pg__put_le(out + 8 + 8 * (rank + i), dims[i], 8);
    }
    return 8 + 16 * (size_t)rank;
}
