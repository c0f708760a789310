/* mutate_npy.c - libFuzzer's mutations; then, three times in four, magic and version are put back
 * and the header's length is made what it is: up to its first end of line. */
#include "mutate.h"

static void repair(uint8_t *data, size_t n)
{
    const size_t wide = data[6] > 1 ? 4 : 2;
    const uint8_t *end = n > 8 + wide ? memchr(data + 8 + wide, '\n', n - 8 - wide) : NULL;
    memcpy(data, "\x93NUMPY", 6);
    data[6] = (uint8_t)(data[6] > 3 ? 1 : data[6]);
    data[7] = 0;
    if (end)
        set_le(data + 8, (size_t)(end + 1 - data) - 8 - wide, wide);
}

size_t mutate_npy(dice *d, uint8_t *data, size_t n, size_t cap)
{
    n = LLVMFuzzerMutate(data, n, cap);
    if (n > 10 && throw_dice(d, 4))
        repair(data, n);
    return n;
}
