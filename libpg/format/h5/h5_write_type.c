/* h5_write_type.c - datatypes as h5py writes them, so that h5py and Keras read them back as what
 * they were: half floats as a 2-byte IEEE float, bool as an enum of int8 with FALSE and TRUE,
 * bfloat16 as an opaque type of 2 bytes with an empty tag. */
#include "format/h5/h5_write_type.h"

#include <hdf5.h>

static hid_t number(pg_dtype dtype, int big)
{
    switch (dtype) {
    case PG_F32: return H5Tcopy(big ? H5T_IEEE_F32BE : H5T_IEEE_F32LE);
    case PG_F64: return H5Tcopy(big ? H5T_IEEE_F64BE : H5T_IEEE_F64LE);
    case PG_I8: return H5Tcopy(big ? H5T_STD_I8BE : H5T_STD_I8LE);
    case PG_I16: return H5Tcopy(big ? H5T_STD_I16BE : H5T_STD_I16LE);
    case PG_I32: return H5Tcopy(big ? H5T_STD_I32BE : H5T_STD_I32LE);
    case PG_I64: return H5Tcopy(big ? H5T_STD_I64BE : H5T_STD_I64LE);
    case PG_U8: return H5Tcopy(big ? H5T_STD_U8BE : H5T_STD_U8LE);
    case PG_U16: return H5Tcopy(big ? H5T_STD_U16BE : H5T_STD_U16LE);
    case PG_U32: return H5Tcopy(big ? H5T_STD_U32BE : H5T_STD_U32LE);
    case PG_U64: return H5Tcopy(big ? H5T_STD_U64BE : H5T_STD_U64LE);
    case PG_F16:
    case PG_BF16:
    case PG_BOOL:
    case PG_F8_E4M3:
    case PG_F8_E5M2: break;
    }
    return -1;
}

/* sign 1 bit at 15, exponent 5 bits at 10, mantissa 10 bits at 0. */
static hid_t half(int big)
{
    const hid_t t = number(PG_F32, big);
    if (t >= 0 && H5Tset_fields(t, 15, 10, 5, 0, 10) >= 0 && H5Tset_size(t, 2) >= 0 &&
        H5Tset_ebias(t, 15) >= 0)
        return t;
    (void)H5Tclose(t);
    return -1;
}

static hid_t boolean(int big)
{
    const signed char no = 0, yes = 1;
    const hid_t base = number(PG_I8, big);
    const hid_t t = base < 0 ? -1 : H5Tenum_create(base);
    const int ok =
        t >= 0 && H5Tenum_insert(t, "FALSE", &no) >= 0 && H5Tenum_insert(t, "TRUE", &yes) >= 0;
    if (base >= 0)
        (void)H5Tclose(base);
    if (t >= 0 && !ok)
        (void)H5Tclose(t);
    return ok ? t : -1;
}

static hid_t bfloat16(void)
{
    const hid_t t = H5Tcreate(H5T_OPAQUE, 2);
    if (t >= 0 && H5Tset_tag(t, "") >= 0)
        return t;
    (void)H5Tclose(t);
    return -1;
}

static hid_t string(const pg__h5_dtype *d)
{
    static const H5T_str_t pads[] = {H5T_STR_NULLTERM, H5T_STR_NULLPAD, H5T_STR_SPACEPAD};
    const size_t size = d->cls == PG_H5_STR_VLEN ? H5T_VARIABLE : d->size;
    const hid_t t = H5Tcopy(H5T_C_S1);
    if (t >= 0 && size > 0 && d->pad >= 0 && d->pad <= 2 && H5Tset_size(t, size) >= 0 &&
        H5Tset_strpad(t, pads[d->pad]) >= 0 &&
        H5Tset_cset(t, d->utf8 ? H5T_CSET_UTF8 : H5T_CSET_ASCII) >= 0)
        return t;
    (void)H5Tclose(t);
    return -1;
}

int64_t pg__h5_type_new(const pg__h5_dtype *t)
{
    if (t->cls != PG_H5_NUMBER)
        return string(t);
    switch (t->dtype) {
    case PG_F16: return half(t->big_endian);
    case PG_BF16: return bfloat16();
    case PG_BOOL: return boolean(t->big_endian);
    default: return number(t->dtype, t->big_endian);
    }
}
