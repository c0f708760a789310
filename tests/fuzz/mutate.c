/* mutate.c - libFuzzer's entry to the mutator of a target, MUTATE. Half of the inputs that it gets
 * are libFuzzer's choice, which prefers those that are refused in a rare way; the other half are
 * whole files that the target kept, so that what comes behind the door is reached as well. */
#include <stdlib.h>

#include "keep.h"
#include "mutate.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t cap, unsigned seed);

#define KEPT 64
#define ONCE 32 /* of so many whole files one is kept, in the place of another */

static struct whole {
    uint8_t *p;
    size_t n;
} kept[KEPT];
static size_t n_kept;

void mutate_keep(const uint8_t *data, size_t n)
{
    static dice d = {1};
    if (n == 0 || (n_kept == KEPT && throw_dice(&d, ONCE)))
        return;
    struct whole *k = &kept[n_kept < KEPT ? n_kept : throw_dice(&d, KEPT)];
    uint8_t *p = realloc(k->p, n);
    if (!p)
        abort();
    memcpy(p, data, n);
    *k = (struct whole){p, n};
    n_kept += n_kept < KEPT;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t cap, unsigned seed)
{
    dice d = {.state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1};
    if (n_kept && throw_dice(&d, 2)) {
        const struct whole *k = &kept[throw_dice(&d, n_kept)];
        n = k->n < cap ? k->n : cap;
        memcpy(data, k->p, n);
    }
    return MUTATE(&d, data, n, cap);
}
