/* lanes.h - four doubles at a time, from float32 or double in memory: with a single lane each sum
 * would wait for the one before. Compiled for any processor and, as functions with a target, for
 * wider ones; without fused operations, so that results are the same. */
#ifndef PG_STORE_LANES_H
#define PG_STORE_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef double pg__lanes __attribute__((vector_size(32)));
typedef int64_t pg__masks __attribute__((vector_size(32)));
typedef float pg__floats __attribute__((vector_size(16)));

#define PG_LANES         4u
#define PG_ALWAYS_INLINE inline __attribute__((always_inline))

#ifdef __x86_64__
#define PG_AVX2       __attribute__((target("avx2")))
#define PG_HAS_AVX2() __builtin_cpu_supports("avx2")
#else
#define PG_AVX2
#define PG_HAS_AVX2() 0
#endif

/* Elements i to i + 3 at p, of float32 (single) or double. */
static PG_ALWAYS_INLINE void pg__lanes_load(pg__lanes *out, const unsigned char *p, size_t i,
                                            int single)
{
    pg__floats f;
    if (single) {
        memcpy(&f, p + 4 * i, sizeof f);
        *out = __builtin_convertvector(f, pg__lanes);
    } else {
        memcpy(out, p + 8 * i, sizeof *out);
    }
}

/* a where the mask is set, else b; passed by address, because vectors have no ABI without AVX. */
static PG_ALWAYS_INLINE void pg__lanes_pick(pg__lanes *out, const pg__masks *mask,
                                            const pg__lanes *a, const pg__lanes *b)
{
    *out = (pg__lanes)(((pg__masks)*a & *mask) | ((pg__masks)*b & ~*mask));
}

#endif
