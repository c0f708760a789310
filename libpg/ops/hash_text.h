/* hash_text.h - the bucket of a whole number, the same that TensorFlow's to_hash_bucket_fast()
 * finds for the number's text: FarmHash's 64-bit fingerprint of up to 16 bytes (Geoff Pike, 2014).
 * Compiles for host and device. */
#ifndef PG_OPS_HASH_TEXT_H
#define PG_OPS_HASH_TEXT_H

#include "ops/real.h"

#define PG_HASH_0 UINT64_C(0xc3a5c85c97cb3127)
#define PG_HASH_2 UINT64_C(0x9ae16a3b2f90404f)

PG_SHARED uint64_t pg__hash_turn(uint64_t v, unsigned by)
{
    return v >> by | v << (64 - by);
}

/* n bytes from `at` on, the first one lowest. */
PG_SHARED uint64_t pg__hash_bytes(const unsigned char *text, unsigned at, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)text[at + i] << 8 * i;
    return v;
}

PG_SHARED uint64_t pg__hash_pair(uint64_t u, uint64_t v, uint64_t by)
{
    uint64_t a = (u ^ v) * by;
    a ^= a >> 47;
    a = (v ^ a) * by;
    a ^= a >> 47;
    return a * by;
}

/* n: 1 to 16 */
PG_SHARED uint64_t pg__hash_text(const unsigned char *text, unsigned n)
{
    const uint64_t by = PG_HASH_2 + 2 * (uint64_t)n;
    if (n >= 8) {
        const uint64_t a = pg__hash_bytes(text, 0, 8) + PG_HASH_2;
        const uint64_t b = pg__hash_bytes(text, n - 8, 8);
        return pg__hash_pair(pg__hash_turn(b, 37) * by + a, (pg__hash_turn(a, 25) + b) * by, by);
    }
    if (n >= 4)
        return pg__hash_pair(n + (pg__hash_bytes(text, 0, 4) << 3), pg__hash_bytes(text, n - 4, 4),
                             by);
    const uint64_t y = text[0] + ((uint64_t)text[n / 2] << 8);
    const uint64_t z = n + ((uint64_t)text[n - 1] << 2);
    uint64_t v = (y * PG_HASH_2) ^ (z * PG_HASH_0);
    v ^= v >> 47;
    return v * PG_HASH_2;
}

PG_SHARED uint64_t pg__hash_bucket(const pg__hash_attrs *a, int32_t id)
{
    unsigned char text[12];
    unsigned at = sizeof text;
    uint32_t rest = id < 0 ? 0u - (uint32_t)id : (uint32_t)id;
    if (a->has_mask && id == a->mask)
        return 0;
    do
        text[--at] = (unsigned char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (id < 0)
        text[--at] = '-';
    return pg__hash_text(text + at, (unsigned)sizeof text - at) % a->buckets +
           (a->has_mask ? 1u : 0u);
}

#endif
