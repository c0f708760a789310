/* proto.c - see proto.h. */
#include "base/proto.h"

#include <string.h>

#include "base/le.h"

int pg__varint(const unsigned char **p, const unsigned char *end, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; *p < end && shift < 64; shift += 7) {
        const unsigned char c = *(*p)++;
        if (shift == 63 && c > 1)
            return 0;
        v |= (uint64_t)(c & 0x7F) << shift;
        if (c < 0x80) {
            *out = v;
            return 1;
        }
    }
    return 0;
}

static int take(pg__proto *m, pg__field *f)
{
    const unsigned char *p = m->p, *end = m->p + m->n;
    uint64_t tag = 0, n = 0;
    if (!pg__varint(&p, end, &tag) || tag >> 3 == 0 || tag >> 3 >= 1u << 29)
        return 0;
    *f = (pg__field){.number = (uint32_t)(tag >> 3), .type = (int)(tag & 7)};
    switch (f->type) {
    case PG_PROTO_VARINT:
        if (!pg__varint(&p, end, &f->value))
            return 0;
        break;
    case PG_PROTO_BYTES:
        if (!pg__varint(&p, end, &n))
            return 0;
        f->bytes = p;
        break;
    case PG_PROTO_I64: n = 8; break;
    case PG_PROTO_I32: n = 4; break;
    default: return 0; /* groups have been gone since before TensorFlow */
    }
    if (n > (size_t)(end - p))
        return 0;
    if (f->type == PG_PROTO_BYTES)
        f->n = (size_t)n;
    else if (n)
        f->value = pg__le(p, (size_t)n);
    p += n;
    m->n = (size_t)(end - p);
    m->p = p;
    return 1;
}

int pg__proto_next(pg__proto *m, pg__field *f)
{
    if (m->n == 0 || m->bad)
        return 0;
    if (take(m, f))
        return 1;
    m->bad = 1;
    return 0;
}

/* ---- writing ---- */

static pg_status put_varint(pg__str *to, uint64_t v, pg_err *err)
{
    char bytes[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        bytes[n++] = (char)(v | 0x80);
    bytes[n++] = (char)v;
    return pg__str_add(to, bytes, n, err);
}

static pg_status put_tag(pg__str *to, uint32_t number, int type, pg_err *err)
{
    return put_varint(to, (uint64_t)number << 3 | (unsigned)type, err);
}

pg_status pg__proto_put_int(pg__str *to, uint32_t number, int64_t v, pg_err *err)
{
    const pg_status st = put_tag(to, number, PG_PROTO_VARINT, err);
    return st == PG_OK ? put_varint(to, (uint64_t)v, err) : st;
}

pg_status pg__proto_put_float(pg__str *to, uint32_t number, float v, pg_err *err)
{
    unsigned char bytes[4];
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    pg__put_le(bytes, bits, sizeof bytes);
    const pg_status st = put_tag(to, number, PG_PROTO_I32, err);
    return st == PG_OK ? pg__str_add(to, (const char *)bytes, sizeof bytes, err) : st;
}

pg_status pg__proto_put_head(pg__str *to, uint32_t number, uint64_t n, pg_err *err)
{
    const pg_status st = put_tag(to, number, PG_PROTO_BYTES, err);
    return st == PG_OK ? put_varint(to, n, err) : st;
}

pg_status pg__proto_put_bytes(pg__str *to, uint32_t number, const void *p, size_t n, pg_err *err)
{
    const pg_status st = pg__proto_put_head(to, number, n, err);
    return st == PG_OK ? pg__str_add(to, p, n, err) : st;
}

pg_status pg__proto_put_text(pg__str *to, uint32_t number, const char *text, pg_err *err)
{
    return pg__proto_put_bytes(to, number, text, strlen(text), err);
}
