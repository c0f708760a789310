/* dpbusd.h - AVX-VNNI's instruction as its manual defines it, by others, so that the kernels made
 * for it run on any processor with AVX2. Included before everything else. */
#ifndef PG_TESTS_DPBUSD_H
#define PG_TESTS_DPBUSD_H

#include <immintrin.h>

#define __AVXVNNI__             1
#define _mm256_dpbusd_avx_epi32 dpbusd

/* To each of 8 sums: four bytes of a, unsigned, times four of b, signed. */
static inline __m256i dpbusd(__m256i sum, __m256i a, __m256i b)
{
    union {
        __m256i v;
        unsigned char u8[32];
        signed char s8[32];
        int s32[8];
    } s = {.v = sum}, x = {.v = a}, y = {.v = b};
    for (int i = 0; i < 32; i++)
        s.s32[i / 4] += x.u8[i] * y.s8[i];
    return s.v;
}

#endif
