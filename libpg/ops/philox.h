/* philox.h - Philox4x32-10: random numbers as a function of a key and a counter, so that they do
 * not depend on who draws them or in which order (Salmon et al., "Parallel random numbers: as easy
 * as 1, 2, 3", 2011; Random123's constants). */
#ifndef PG_OPS_PHILOX_H
#define PG_OPS_PHILOX_H

#include <stdint.h>

typedef struct pg__philox {
    uint32_t x[4];
} pg__philox;

static inline pg__philox pg__philox_of(const uint32_t counter[4], const uint32_t key[2])
{
    pg__philox s = {{counter[0], counter[1], counter[2], counter[3]}};
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * s.x[0], b = (uint64_t)0xCD9E8D57u * s.x[2];
        s = (pg__philox){{(uint32_t)(b >> 32) ^ s.x[1] ^ k0, (uint32_t)b,
                          (uint32_t)(a >> 32) ^ s.x[3] ^ k1, (uint32_t)a}};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return s;
}

/* [0, 1), 24 bits: exact in float. */
static inline float pg__philox_unit(uint32_t x)
{
    return (float)(x >> 8) * 0x1p-24f;
}

#endif
