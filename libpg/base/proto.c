/* proto.c - see proto.h. */
#include "base/proto.h"

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
