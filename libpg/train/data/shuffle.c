/* shuffle.c - Fisher and Yates' shuffle; draw i of epoch e is a function of (seed, i, e), so that a
 * resumed run needs no state. Bounded draws without bias: Lemire, "Fast random integer generation
 * in an interval", 2019. */
#include "train/data/shuffle.h"

#include "base/philox.h"

/* A number below `bound`; `i` counts positions of the shuffle; rejected draws are retried. */
static uint64_t draw(uint64_t seed, uint64_t i, size_t epoch, uint64_t bound)
{
    for (uint32_t tries = 0;; tries++) {
        const pg__random r = pg__philox(seed, (uint32_t)i, (uint32_t)(i >> 32), (uint32_t)epoch,
                                        PG_STREAM_SHUFFLE + tries);
        const uint64_t x = (uint64_t)r.v[0] << 32 | r.v[1];
        const unsigned __int128 wide = (unsigned __int128)x * bound;
        if ((uint64_t)wide >= -bound % bound)
            return (uint64_t)(wide >> 64);
    }
}

void pg__shuffle(uint64_t *order, uint64_t n, uint64_t seed, size_t epoch)
{
    for (uint64_t i = 0; i < n; i++)
        order[i] = i;
    for (uint64_t i = n; i > 1; i--) {
        const uint64_t k = draw(seed, i - 1, epoch, i);
        const uint64_t held = order[i - 1];
        order[i - 1] = order[k];
        order[k] = held;
    }
}
