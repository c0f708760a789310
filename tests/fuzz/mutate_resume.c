/* mutate_resume.c - libFuzzer's mutations, or a few changes in the table of parts; then, three
 * times in four, the file's length, the checksums of the parts and that of the head are put right.
 */
#include "base/hash.h"
#include "mutate.h"

#define HEAD  24
#define ENTRY 40

static void repair(uint8_t *data, size_t n)
{
    const uint64_t n_parts = get_le(data + 12, 4), n_head = HEAD + n_parts * ENTRY;
    memcpy(data, "PGRESUME", 8);
    set_le(data + 16, n, 8);
    if (n_head + 4 > n)
        return;
    for (size_t i = 0; i < n_parts; i++) {
        uint8_t *p = data + HEAD + i * ENTRY;
        const uint64_t off = get_le(p + 16, 8), size = get_le(p + 24, 8);
        if (off <= n && size <= n - off)
            set_le(p + 32, pg__crc32(0, data + off, (size_t)size), 4);
    }
    set_le(data + n_head, pg__crc32(0, data, (size_t)n_head), 4);
}

size_t mutate_resume(dice *d, uint8_t *data, size_t n, size_t cap)
{
    if (n < HEAD || throw_dice(d, 2))
        n = LLVMFuzzerMutate(data, n, cap);
    else
        for (size_t k = 1 + throw_dice(d, 3); k > 0; k--)
            change(d, data, n, throw_dice(d, n < 4 * ENTRY ? n : 4 * ENTRY));
    if (n >= HEAD && throw_dice(d, 4))
        repair(data, n);
    return n;
}
