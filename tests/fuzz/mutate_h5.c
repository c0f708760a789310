/* mutate_h5.c - libFuzzer's mutations with the checksums of HDF5 repaired three times in four, so
 * that a damaged superblock or object header is not stopped at its door. */
#include <stdint.h>
#include <string.h>

#include "base/hash.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t cap);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t cap, unsigned seed);

static void put_sum(uint8_t *data, size_t start, size_t end)
{
    const uint32_t sum = pg__lookup3(data + start, end - start);
    for (int i = 0; i < 4; i++)
        data[end + (size_t)i] = (uint8_t)(sum >> (8 * i));
}

/* A version 2 object header whose bytes start at `at`. */
static void repair_header(uint8_t *data, size_t n, size_t at)
{
    size_t p = at + 6, size = 0;
    if (n - at < 32 || data[at + 4] != 2)
        return;
    const unsigned flags = data[at + 5], width = 1u << (flags & 3);
    p += (flags & 0x20 ? 16u : 0) + (flags & 0x10 ? 4u : 0);
    for (unsigned i = 0; i < width && p + i < n; i++)
        size |= (size_t)data[p + i] << (8 * i);
    p += width;
    if (size < n && p + size + 4 <= n)
        put_sum(data, at, p + size);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t cap, unsigned seed)
{
    n = LLVMFuzzerMutate(data, n, cap);
    if (seed % 4 == 0)
        return n;
    if (n > 48 && !memcmp(data, "\x89HDF", 4) && (data[8] == 2 || data[8] == 3))
        put_sum(data, 0, 44);
    for (size_t i = 0; i + 4 <= n; i++)
        if (!memcmp(data + i, "OHDR", 4))
            repair_header(data, n, i);
    return n;
}
