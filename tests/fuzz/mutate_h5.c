/* mutate_h5.c - damage for HDF5 files: three times in four a few changes within the metadata, found
 * by its signatures, else libFuzzer's own; then, three times in four, the checksums of superblock,
 * object headers and their continuations are put right, so that damage is not stopped at the door.
 */
#include "base/hash.h"
#include "mutate.h"

#define NEAR 160 /* bytes behind a signature that belong to it, more or less */

static void put_sum(uint8_t *data, size_t start, size_t end)
{
    set_le(data + end, pg__lookup3(data + start, end - start), 4);
}

/* ---- where the metadata is ---- */

/* Version 1 object headers have no signature: version, 0, few messages, one reference. */
static int is_old_header(const uint8_t *p)
{
    return p[0] == 1 && p[1] == 0 && p[2] > 0 && p[2] < 32 && p[3] == 0 && p[4] == 1 && p[5] == 0;
}

static int is_metadata(const uint8_t *p)
{
    static const char signatures[][5] = {"TREE", "SNOD", "HEAP", "GCOL", "OHDR", "OCHK"};
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        if (p[0] == signatures[i][0] && !memcmp(p, signatures[i], 4))
            return 1;
    return is_old_header(p);
}

/* A byte of the metadata: near the first structure behind a byte thrown, or in the superblock. */
static size_t aim(dice *d, const uint8_t *data, size_t n)
{
    size_t at = throw_dice(d, n);
    while (at + 8 <= n && !is_metadata(data + at))
        at++;
    at = at + 8 <= n ? at + throw_dice(d, NEAR) : throw_dice(d, 96);
    return at < n ? at : n - 1;
}

/* ---- checksums ---- */

/* The block that a continuation message leads to; 8-byte addresses only. */
static void repair_continuation(uint8_t *data, size_t n, const uint8_t *msg)
{
    const uint64_t at = get_le(msg, 8), size = get_le(msg + 8, 8);
    if (size >= 8 && size <= n && at <= n - size && !memcmp(data + at, "OCHK", 4))
        put_sum(data, (size_t)at, (size_t)(at + size) - 4);
}

/* A version 2 object header whose bytes start at `at`. */
static void repair_header(uint8_t *data, size_t n, size_t at)
{
    if (n - at < 32 || data[at + 4] != 2)
        return;
    const unsigned flags = data[at + 5], width = 1u << (flags & 3);
    const size_t first = at + 6 + (flags & 0x20 ? 16u : 0) + (flags & 0x10 ? 4u : 0);
    const size_t prefix = flags & 4 ? 6 : 4;
    if (first + width > n)
        return;
    const uint64_t size = get_le(data + first, width);
    if (size > n || first + width + size + 4 > n)
        return;
    const size_t end = first + width + (size_t)size;
    for (size_t p = first + width; p + prefix <= end;) {
        const size_t len = (size_t)get_le(data + p + 1, 2);
        if (data[p] == 0x10 && len >= 16 && p + prefix + 16 <= end)
            repair_continuation(data, n, data + p + prefix);
        p += prefix + len;
    }
    put_sum(data, at, end);
}

static void repair(uint8_t *data, size_t n)
{
    if (n > 48 && !memcmp(data, "\x89HDF", 4) && (data[8] == 2 || data[8] == 3))
        put_sum(data, 0, 44);
    for (uint8_t *p = data; (p = memmem(p, n - (size_t)(p - data), "OHDR", 4)); p++)
        repair_header(data, n, (size_t)(p - data));
}

size_t mutate_h5(dice *d, uint8_t *data, size_t n, size_t cap)
{
    if (n < 16 || throw_dice(d, 4) == 0)
        n = LLVMFuzzerMutate(data, n, cap);
    else
        for (size_t k = 1 + throw_dice(d, 4); k > 0; k--)
            change(d, data, n, aim(d, data, n));
    if (throw_dice(d, 4))
        repair(data, n);
    return n;
}
