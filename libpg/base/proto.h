/* proto.h - protocol buffers, field by field (protobuf.dev, "Encoding"). In reading, nothing is
 * copied: a message is a range of bytes, and so are the messages in it.
 *
 *     pg__proto m = {bytes, n};
 *     pg__field f;
 *     while (pg__proto_next(&m, &f))
 *         if (f.number == 1 && f.type == PG_PROTO_BYTES)
 *             use(f.bytes, f.n);
 *     if (m.bad)
 *         the message is damaged
 */
#ifndef PG_BASE_PROTO_H
#define PG_BASE_PROTO_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef struct pg__proto {
    const unsigned char *p;
    size_t n; /* bytes left */
    int bad;
} pg__proto;

enum { PG_PROTO_VARINT = 0, PG_PROTO_I64 = 1, PG_PROTO_BYTES = 2, PG_PROTO_I32 = 5 };

typedef struct pg__field {
    uint32_t number; /* 1 ... 2^29 - 1 */
    int type;
    uint64_t value; /* of all but PG_PROTO_BYTES */
    const unsigned char *bytes;
    size_t n;
} pg__field;

/* The next field: 1, or 0 at the end or at the first byte that makes no sense (m->bad). */
int pg__proto_next(pg__proto *m, pg__field *f);

/* A varint at *p, which moves behind it; 0 if it does not end before `end` or exceeds 64 bits. */
int pg__varint(const unsigned char **p, const unsigned char *end, uint64_t *out);

/* Fields appended to a message. bytes is also a text, and a message that is complete; its head
 * alone announces n bytes that the caller adds. */
pg_status pg__proto_put_int(pg__str *to, uint32_t number, int64_t v, pg_err *err);
pg_status pg__proto_put_float(pg__str *to, uint32_t number, float v, pg_err *err);
pg_status pg__proto_put_bytes(pg__str *to, uint32_t number, const void *p, size_t n, pg_err *err);
pg_status pg__proto_put_text(pg__str *to, uint32_t number, const char *text, pg_err *err);
pg_status pg__proto_put_head(pg__str *to, uint32_t number, uint64_t n, pg_err *err);

#endif
