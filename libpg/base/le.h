/* le.h - little-endian numbers in bytes, at any address. */
#ifndef PG_BASE_LE_H
#define PG_BASE_LE_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t pg__le(const unsigned char *p, size_t n_bytes)
{
    uint64_t v = 0;
    for (size_t i = n_bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static inline uint16_t pg__le16(const unsigned char *p)
{
    return (uint16_t)pg__le(p, 2);
}

static inline uint32_t pg__le32(const unsigned char *p)
{
    return (uint32_t)pg__le(p, 4);
}

static inline uint64_t pg__le64(const unsigned char *p)
{
    return pg__le(p, 8);
}

static inline void pg__put_le(unsigned char *p, uint64_t v, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++, v >>= 8)
        p[i] = (unsigned char)v;
}

#endif
