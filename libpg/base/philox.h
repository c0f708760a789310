/* philox.h - Philox4x32-10: random numbers as a pure function of (key, counter), so that they
 * depend neither on which thread draws them nor on how work is divided. Compiles for host and
 * device. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
#ifndef PG_BASE_PHILOX_H
#define PG_BASE_PHILOX_H

#include <stdint.h>

#include "base/shared.h"

/* Streams below PG_STREAM_SHUFFLE are operations of a model. */
#define PG_STREAM_SHUFFLE ((uint32_t)1 << 30)
#define PG_STREAM_INIT    ((uint32_t)1 << 31)

typedef struct pg__random {
    uint32_t v[4];
} pg__random;

PG_SHARED pg__random pg__philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    pg__random r = {{c0, c1, c2, c3}};
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * r.v[0], b = (uint64_t)0xCD9E8D57u * r.v[2];
        const pg__random next = {{(uint32_t)(b >> 32) ^ r.v[1] ^ k0, (uint32_t)b,
                                  (uint32_t)(a >> 32) ^ r.v[3] ^ k1, (uint32_t)a}};
        r = next;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return r;
}

/* Number i of a stream in a step: uniform in [0, 1) with 24 bits. */
PG_SHARED pg__random pg__philox_at(uint64_t key, uint64_t i, uint32_t step, uint32_t stream)
{
    return pg__philox(key, (uint32_t)(i / 4), (uint32_t)(i / 4 >> 32), step, stream);
}
PG_SHARED float pg__uniform(uint64_t key, uint64_t i, uint32_t step, uint32_t stream)
{
    return (float)(pg__philox_at(key, i, step, stream).v[i % 4] >> 8) * 0x1p-24f;
}

#endif
