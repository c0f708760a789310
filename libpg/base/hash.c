/* hash.c - checksums: zlib's CRC-32, and the two that HDF5 protects its own structures with (format
 * specification, sections III.A and "Checksum"), which no library offers by themselves. */
#include "base/hash.h"

#include <string.h>
#include <zlib.h>

uint32_t pg__crc32(uint32_t crc, const void *p, size_t n)
{
    return (uint32_t)crc32_z(crc, p, n);
}

static uint32_t rot(uint32_t x, int k)
{
    return x << k | x >> (32 - k);
}

static uint32_t word(const unsigned char *p, size_t n)
{
    uint32_t w = 0;
    for (size_t i = 0; i < n && i < 4; i++)
        w |= (uint32_t)p[i] << (8 * i);
    return w;
}

/* Source: "lookup3.c", Bob Jenkins, May 2006, public domain; initial value 0. */
uint32_t pg__lookup3(const void *data, size_t n)
{
    static const int mix[] = {4, 6, 8, 16, 19, 4};
    const unsigned char *p = data;
    uint32_t v[3]; /* a, b, c */
    v[0] = v[1] = v[2] = 0xDEADBEEFu + (uint32_t)n;
    for (; n > 12; p += 12, n -= 12) {
        for (int i = 0; i < 3; i++)
            v[i] += word(p + 4 * i, 4);
        for (int i = 0; i < 6; i++) {
            const int x = i % 3, y = (i + 1) % 3, z = (i + 2) % 3;
            v[x] -= v[z];
            v[x] ^= rot(v[z], mix[i]);
            v[z] += v[y];
        }
    }
    if (n == 0)
        return v[2];
    for (size_t i = 0; i < 3; i++)
        v[i] += n > 4 * i ? word(p + 4 * i, n - 4 * i) : 0;
    static const int fin[] = {14, 11, 25, 16, 4, 14, 24};
    for (int i = 0; i < 7; i++) {
        const int x = (i + 2) % 3, y = (i + 1) % 3; /* c^=b, a^=c, b^=a, ... */
        v[x] ^= v[y];
        v[x] -= rot(v[y], fin[i]);
    }
    return v[2];
}

/* Source: H5checksum.c of HDF5 1.10 describes the result: two 16-bit sums modulo 65535 over
 * big-endian words, an odd last byte counting as the high half. */
uint32_t pg__fletcher32(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint32_t s1 = 0, s2 = 0;
    for (size_t words = n / 2; words;) {
        size_t block = words < 360 ? words : 360; /* sums cannot overflow within a block */
        words -= block;
        for (; block; block--, p += 2) {
            s1 += (uint32_t)p[0] << 8 | p[1];
            s2 += s1;
        }
        s1 = (s1 & 0xFFFF) + (s1 >> 16);
        s2 = (s2 & 0xFFFF) + (s2 >> 16);
    }
    if (n & 1) {
        s1 += (uint32_t)*p << 8;
        s2 += s1;
        s1 = (s1 & 0xFFFF) + (s1 >> 16);
        s2 = (s2 & 0xFFFF) + (s2 >> 16);
    }
    s1 = (s1 & 0xFFFF) + (s1 >> 16);
    s2 = (s2 & 0xFFFF) + (s2 >> 16);
    return s2 << 16 | s1;
}
