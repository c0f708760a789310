/* h5_type.c - dataspace and datatype messages (sections IV.A.2.b and IV.A.2.d).
 *
 * Types are an allow-list, each with one canonical encoding: types that libhdf5 would convert on
 * the fly (odd floats, padded integers) are not read, because we copy bytes and never convert. Such
 * values are skipped, because people keep pandas tables beside their weights; a weight of such a
 * type is refused. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "format/h5/h5_impl.h"

enum {
    INTEGER,
    FLOAT,
    TIME,
    STRING,
    BITS,
    OPAQUE,
    COMPOUND,
    REFERENCE,
    ENUM,
    VLEN,
    ARRAY,
    COMPLEX
};

pg_status pg__h5_space_read(const pg__h5 *h, pg__h5_cur *c, uint32_t *rank, uint64_t *dims,
                            uint64_t *n_elems, pg_err *err)
{
    pg_status st = PG_OK;
    const unsigned version = pg__h5_u32(c, 1), r = pg__h5_u32(c, 1), flags = pg__h5_u32(c, 1);
    const unsigned type = pg__h5_u32(c, 1);
    uint64_t n = 1;
    int empty = 0, huge = 0;
    if (version == 1)
        pg__h5_span(c, 4);
    PG_H5_NEED((version == 1 || version == 2) && flags <= 1,
               "dataspace: unknown version %u or flags 0x%x", version, flags);
    PG_H5_NEED(version == 1 || type == 2 || (type <= 1 && (type == 1) == (r > 0)),
               "dataspace of type %u cannot have %u dimensions", type, r);
    PG_H5_NEED(version == 1 || type != 2 || r == 0, "null dataspace cannot have %u dimensions", r);
    if (r > PG_MAX_RANK)
        PG_H5_FAIL(PG_E_LIMIT, "%u dimensions, at most %u are read", r, PG_MAX_RANK);
    for (uint32_t i = 0; i < r; i++) {
        dims[i] = pg__h5_len(h, c);
        empty |= dims[i] == 0;
        huge |= __builtin_mul_overflow(n, dims[i], &n);
    }
    for (uint32_t i = 0; i < r && flags; i++)
        PG_H5_NEED(pg__h5_len(h, c) >= dims[i] || c->cut, "dataspace larger than its maximum");
    PG_H5_NEED(!c->cut, "dataspace is cut short");
    if (huge && !empty)
        PG_H5_FAIL(PG_E_LIMIT, "shape overflows");
    *rank = version == 2 && type == 2 ? PG_H5_NULL : r;
    *n_elems = *rank == PG_H5_NULL || empty ? 0 : n;
done:
    return st;
}

static pg_status read_integer(const pg__h5 *h, pg__h5_cur *c, unsigned bits, pg__h5_dtype *t,
                              pg_err *err)
{
    static const pg_dtype types[2][9] = {
        {[1] = PG_U8, [2] = PG_U16, [4] = PG_U32, [8] = PG_U64},
        {[1] = PG_I8, [2] = PG_I16, [4] = PG_I32, [8] = PG_I64},
    };
    pg_status st = PG_OK;
    const unsigned off = pg__h5_u32(c, 2), precision = pg__h5_u32(c, 2);
    PG_H5_NEED(!c->cut, "datatype is cut short");
    if ((t->size != 1 && t->size != 2 && t->size != 4 && t->size != 8) || off ||
        precision != 8 * t->size || bits & ~0xFu)
        PG_H5_FAIL(PG_E_UNSUPPORTED, "integer type of %u bits in %u bytes is not supported",
                   precision, t->size);
    t->big_endian = bits & 1;
    t->dtype = types[bits >> 3 & 1][t->size];
done:
    return st;
}

static pg_status read_float(const pg__h5 *h, pg__h5_cur *c, unsigned bits, pg__h5_dtype *t,
                            pg_err *err)
{
    static const struct {
        pg_dtype dtype;
        uint8_t size, props[12]; /* bit offset, precision; exponent, mantissa: place, bits; bias */
    } known[] = {
        {PG_F16, 2, {0, 0, 16, 0, 10, 5, 0, 10, 15, 0, 0, 0}},
        {PG_BF16, 2, {0, 0, 16, 0, 7, 8, 0, 7, 127, 0, 0, 0}},
        {PG_F32, 4, {0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0}},
        {PG_F64, 8, {0, 0, 64, 0, 52, 11, 0, 52, 0xFF, 3, 0, 0}},
    };
    pg_status st = PG_OK;
    const uint8_t *props = pg__h5_span(c, sizeof known->props);
    PG_H5_NEED(props, "datatype is cut short");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        /* an implied leading bit, no padding, the sign in the last bit */
        if (known[i].size == t->size && !memcmp(known[i].props, props, sizeof known->props) &&
            (bits & ~1u) == (0x20u | (8 * t->size - 1) << 8)) {
            t->big_endian = bits & 1;
            t->dtype = known[i].dtype;
            goto done;
        }
    PG_H5_FAIL(PG_E_UNSUPPORTED, "float type of %u bytes is not IEEE", t->size);
done:
    return st;
}

/* h5py's bool: an enum over a byte, FALSE = 0 and TRUE = 1. Before version 3, names are padded. */
static pg_status read_enum(const pg__h5 *h, pg__h5_cur *c, unsigned version, unsigned bits,
                           pg__h5_dtype *t, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_dtype base;
    unsigned value[3] = {9, 9, 9}; /* of FALSE, of TRUE, of any other name */
    unsigned which[2] = {0, 0};
    const unsigned head = pg__h5_u32(c, 4), size = pg__h5_u32(c, 4);
    base = (pg__h5_dtype){.size = size};
    /* second check of the base's size: libhdf5 makes an enum as large as its base */
    if ((head & 0xF) != INTEGER || size != 1 || t->size != 1 || (bits & 0xFFFF) != 2)
        PG_H5_FAIL(PG_E_UNSUPPORTED, "enum type is not supported");
    PG_TRY(read_integer(h, c, head >> 8, &base, err));
    for (int k = 0; k < 2; k++) {
        const uint8_t *nul = memchr(c->p, 0, pg__h5_left(c));
        PG_H5_NEED(nul, "enum type with a name that does not end");
        const size_t n = (size_t)(nul - c->p) + 1;
        const char *name = (const char *)c->p;
        which[k] = !strcmp(name, "FALSE") ? 0 : !strcmp(name, "TRUE") ? 1 : 2;
        pg__h5_span(c, version < 3 ? (n + 7) / 8 * 8 : n);
    }
    for (int k = 0; k < 2; k++)
        value[which[k]] = pg__h5_u32(c, 1);
    PG_H5_NEED(!c->cut, "enum type is cut short");
    if (value[0] != 0 || value[1] != 1)
        PG_H5_FAIL(PG_E_UNSUPPORTED, "enum type is not supported");
    t->dtype = PG_BOOL;
done:
    return st;
}

/* Keras' bfloat16: opaque, two bytes, an empty tag. */
static pg_status read_opaque(const pg__h5 *h, pg__h5_cur *c, unsigned bits, pg__h5_dtype *t,
                             pg_err *err)
{
    pg_status st = PG_OK;
    const size_t n_tag = ((bits & 0xFF) + 7) / 8 * 8;
    const uint8_t *tag = pg__h5_span(c, n_tag);
    PG_H5_NEED(tag || n_tag == 0, "datatype is cut short");
    if (t->size != 2 || (n_tag && tag[0]))
        PG_H5_FAIL(PG_E_UNSUPPORTED, "opaque type of %u bytes is not supported", t->size);
    t->dtype = PG_BF16;
done:
    return st;
}

static pg_status read_vlen(const pg__h5 *h, pg__h5_cur *c, unsigned bits, pg__h5_dtype *t,
                           pg_err *err)
{
    pg_status st = PG_OK;
    if ((bits & 0xF) == 0)
        PG_H5_FAIL(PG_E_UNSUPPORTED, "variable-length sequence type is not supported");
    const unsigned head = pg__h5_u32(c, 4), size = pg__h5_u32(c, 4);
    pg__h5_span(c, (head & 0xF) == INTEGER ? 4 : 0);
    PG_H5_NEED(!c->cut, "datatype is cut short");
    PG_H5_NEED((bits & 0xF) == 1 && (bits >> 4 & 0xF) <= 2 && (bits >> 8 & 0xF) <= 1 &&
                   bits >> 12 == 0 && t->size == 8 + h->off_size && size == 1 &&
                   ((head & 0xF) == INTEGER || (head & 0xF) == STRING),
               "invalid variable-length string type");
    t->cls = PG_H5_STR_VLEN;
    t->pad = bits >> 4 & 0xF;
    t->utf8 = bits >> 8 & 0xF;
done:
    return st;
}

pg_status pg__h5_type_read(const pg__h5 *h, pg__h5_cur *c, pg__h5_dtype *t, pg_err *err)
{
    static const char *const names[] = {
        [TIME] = "time",           [BITS] = "bit field", [COMPOUND] = "compound",
        [REFERENCE] = "reference", [ARRAY] = "array",    [COMPLEX] = "complex"};
    pg_status st = PG_OK;
    const unsigned head = pg__h5_u32(c, 4), cls = head & 0xF, version = head >> 4 & 0xF;
    const unsigned bits = head >> 8;
    *t = (pg__h5_dtype){.cls = PG_H5_NUMBER, .size = pg__h5_u32(c, 4)};
    PG_H5_NEED(version >= 1 && version <= 5 && cls <= (version < 5 ? ARRAY : COMPLEX) && t->size,
               "unknown datatype of class %u, version %u, %u bytes", cls, version, t->size);
    if (cls < sizeof names / sizeof *names && names[cls])
        PG_H5_FAIL(PG_E_UNSUPPORTED, "%s type is not supported", names[cls]);
    switch (cls) {
    case INTEGER: st = read_integer(h, c, bits, t, err); break;
    case FLOAT: st = read_float(h, c, bits, t, err); break;
    case OPAQUE: st = read_opaque(h, c, bits, t, err); break;
    case ENUM: st = read_enum(h, c, version, bits, t, err); break;
    case VLEN: st = read_vlen(h, c, bits, t, err); break;
    default:
        PG_H5_NEED((bits & 0xF) <= 2 && (bits >> 4 & 0xF) <= 1 && bits >> 8 == 0,
                   "string type with unknown bits 0x%x", bits);
        t->cls = PG_H5_STR_FIXED;
        t->pad = bits & 0xF;
        t->utf8 = bits >> 4 & 0xF;
    }
done:
    return st;
}

void pg__h5_pass_over(pg__h5 *h)
{
    char path[100];
    const pg__h5_walk *w = h->walk;
    const size_t n = h->n_unread++;
    if (n >= PG_H5_UNREAD)
        return;
    (void)pg__h5_path(h, w->obj, path, sizeof path);
    (void)snprintf(h->unread[n], sizeof h->unread[n], "%s%s%s", path, w->attr ? "@" : "",
                   w->attr ? PG_SHOW(w->attr) : "");
}

pg_status pg__h5_data_type(pg__h5 *h, pg_status read, const pg_err *why, pg__h5_dtype *t,
                           pg_err *err)
{
    pg_err strings = {0};
    if (read == PG_OK && t->cls != PG_H5_NUMBER) {
        read =
            pg__h5_bad(h, &strings, PG_E_UNSUPPORTED, "dataset of %sstring type is not supported",
                       t->cls == PG_H5_STR_VLEN ? "variable-length " : "");
        why = &strings;
    }
    if (read != PG_E_UNSUPPORTED) {
        if (err) /* of a success, *why is empty */
            *err = *why;
        return read;
    }
    t->cls = PG_H5_OTHER;
    t->unread = pg__h5_text(h, why->msg, strlen(why->msg));
    pg__h5_pass_over(h);
    return t->unread ? PG_OK : pg__nomem(err);
}
