/* sha256.c - SHA-256 by FIPS 180-4, section 6.2. Processors with SHA instructions (SHA-NI) use
 * those: seven times faster. */
#include "base/sha256.h"

#include <string.h>

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t ror(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void blocks_plain(uint32_t h[8], const unsigned char *p, size_t n)
{
    for (; n; n--, p += 64) {
        uint32_t w[64], v[8];
        for (int i = 0; i < 16; i++)
            w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
                   (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
        for (int i = 16; i < 64; i++)
            w[i] = w[i - 16] + w[i - 7] +
                   (ror(w[i - 15], 7) ^ ror(w[i - 15], 18) ^ w[i - 15] >> 3) +
                   (ror(w[i - 2], 17) ^ ror(w[i - 2], 19) ^ w[i - 2] >> 10);
        memcpy(v, h, sizeof v);
        for (int i = 0; i < 64; i++) {
            const uint32_t s1 = ror(v[4], 6) ^ ror(v[4], 11) ^ ror(v[4], 25);
            const uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
            const uint32_t s0 = ror(v[0], 2) ^ ror(v[0], 13) ^ ror(v[0], 22);
            const uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
            memmove(v + 1, v, 7 * sizeof *v);
            v[4] += t1;
            v[0] = t1 + t2;
        }
        for (int i = 0; i < 8; i++)
            h[i] += v[i];
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* State in the order that the instructions require: {ABEF, CDGH}. Four rounds a step. */
__attribute__((target("sha,sse4.1"))) static void blocks_ni(uint32_t h[8], const unsigned char *p,
                                                            size_t n)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i a = _mm_set_epi32((int)h[0], (int)h[1], (int)h[4], (int)h[5]);
    __m128i c = _mm_set_epi32((int)h[2], (int)h[3], (int)h[6], (int)h[7]);
    for (; n; n--, p += 64) {
        const __m128i a0 = a, c0 = c;
        __m128i w[4];
        for (int i = 0; i < 4; i++) {
            memcpy(&w[i], p + 16 * i, 16);
            w[i] = _mm_shuffle_epi8(w[i], swap);
        }
        for (int i = 0; i < 16; i++) {
            __m128i kw, next;
            memcpy(&kw, k + 4 * i, sizeof kw);
            kw = _mm_add_epi32(w[i % 4], kw);
            c = _mm_sha256rnds2_epu32(c, a, kw);
            a = _mm_sha256rnds2_epu32(a, c, _mm_shuffle_epi32(kw, 0x0e));
            if (i >= 12)
                continue;
            next = _mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]);
            next = _mm_add_epi32(next, _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4));
            w[i % 4] = _mm_sha256msg2_epu32(next, w[(i + 3) % 4]);
        }
        a = _mm_add_epi32(a, a0);
        c = _mm_add_epi32(c, c0);
    }
    uint32_t va[4], vc[4];
    memcpy(va, &a, sizeof va);
    memcpy(vc, &c, sizeof vc);
    h[0] = va[3], h[1] = va[2], h[4] = va[1], h[5] = va[0];
    h[2] = vc[3], h[3] = vc[2], h[6] = vc[1], h[7] = vc[0];
}

static int has_ni(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
    return (b >> 29 & 1) && __builtin_cpu_supports("sse4.1");
}

static void blocks(uint32_t h[8], const unsigned char *p, size_t n)
{
    if (n && has_ni())
        blocks_ni(h, p, n);
    else
        blocks_plain(h, p, n);
}
#else
static void blocks(uint32_t h[8], const unsigned char *p, size_t n)
{
    blocks_plain(h, p, n);
}
#endif

void pg__sha256_init(pg__sha256 *s)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    *s = (pg__sha256){0};
    memcpy(s->h, start, sizeof start);
}

void pg__sha256_add(pg__sha256 *s, const void *data, size_t n)
{
    const unsigned char *p = data;
    const size_t held = (size_t)(s->n_bytes % 64);
    if (n == 0)
        return;
    s->n_bytes += n;
    if (held) {
        const size_t take = n < 64 - held ? n : 64 - held;
        memcpy(s->block + held, p, take);
        p += take;
        n -= take;
        if (held + take < 64)
            return;
        blocks(s->h, s->block, 1);
    }
    blocks(s->h, p, n / 64);
    memcpy(s->block, p + n / 64 * 64, n % 64);
}

void pg__sha256_hex(pg__sha256 *s, char out[65])
{
    static const char digits[] = "0123456789abcdef";
    static const unsigned char pad[64] = {0x80};
    unsigned char length[8];
    const uint64_t bits = s->n_bytes * 8;
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    pg__sha256_add(s, pad, 64 - (size_t)((s->n_bytes + 8) % 64));
    pg__sha256_add(s, length, 8);
    for (int i = 0; i < 64; i++)
        out[i] = digits[s->h[i / 8] >> (28 - 4 * (i % 8)) & 15];
    out[64] = 0;
}
