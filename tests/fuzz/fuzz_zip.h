/* fuzz_zip.h - ZIP archives whose checksums are put right first: else no change inside of a member
 * would get past them. */
#ifndef PG_FUZZ_ZIP_H
#define PG_FUZZ_ZIP_H

#include <stdint.h>
#include <string.h>

#include "base/hash.h"

static inline uint32_t u16(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t u32(const uint8_t *p)
{
    return u16(p) | u16(p + 2) << 16;
}

static inline void set_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

/* Puts the CRCs of stored members right. */
static inline void mend_checksums(uint8_t *p, size_t n)
{
    for (size_t at = 0; n >= 46 && at <= n - 46; at++) {
        if (memcmp(p + at, "PK\1\2", 4) != 0 || u16(p + at + 10) != 0)
            continue;
        const uint64_t local = u32(p + at + 42), size = u32(p + at + 20);
        if (local + 30 > n)
            continue;
        const uint64_t off = local + 30 + u16(p + local + 26) + u16(p + local + 28);
        if (off > n || size > n - off)
            continue;
        const uint32_t crc = pg__crc32(0, p + off, size);
        set_u32(p + at + 16, crc);
        set_u32(p + local + 14, crc);
    }
}

#endif
