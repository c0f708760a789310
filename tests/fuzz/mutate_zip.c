/* mutate_zip.c - damage for ZIP archives: one time in four a few changes in their headers, one time
 * in four some within a member, else libFuzzer's own. Then, three times in four, what an archive
 * says twice is put right again: CRCs and sizes of members in both headers, and the end record. */
#include <zlib.h>

#include "base/hash.h"
#include "mutate.h"

#define LOCAL    30
#define ENTRY    46
#define END      22
#define INFLATED 65536 /* at most, of a deflated member */

/* The signature "PK" a b at or behind `at`, with room for n_head bytes; n: there is none. */
static size_t find(const uint8_t *data, size_t n, size_t at, char a, char b, size_t n_head)
{
    for (; at + n_head <= n; at++)
        if (data[at] == 'P' && data[at + 1] == 'K' && data[at + 2] == a && data[at + 3] == b)
            return at;
    return n;
}

static size_t aim(dice *d, const uint8_t *data, size_t n)
{
    static const char signature[][2] = {{3, 4}, {1, 2}, {5, 6}, {6, 6}, {6, 7}};
    const char *s = signature[throw_dice(d, 8) % 5];
    const size_t at = find(data, n, throw_dice(d, n), s[0], s[1], 4);
    const size_t near = at + throw_dice(d, ENTRY + 24);
    return near < n ? near : n - 1;
}

/* CRC and size of what a deflated member holds, if it inflates to its end. */
static int measure(const uint8_t *p, size_t n, uint32_t *crc, uint32_t *size)
{
    static uint8_t out[INFLATED];
    z_stream z = {.next_in = (Bytef *)(uintptr_t)p,
                  .avail_in = (uInt)n,
                  .next_out = out,
                  .avail_out = INFLATED};
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return 0;
    const int whole = inflate(&z, Z_FINISH) == Z_STREAM_END;
    *size = (uint32_t)z.total_out;
    *crc = pg__crc32(0, out, z.total_out);
    inflateEnd(&z);
    return whole;
}

/* The member of a directory entry. */
static void repair_member(uint8_t *data, size_t n, uint8_t *entry)
{
    const uint64_t local = get_le(entry + 42, 4), stored = get_le(entry + 20, 4);
    if (local + LOCAL > n || memcmp(data + local, "PK\3\4", 4) != 0)
        return;
    uint8_t *head = data + local;
    const uint64_t off = local + LOCAL + get_le(head + 26, 2) + get_le(head + 28, 2);
    uint32_t crc = 0, size = (uint32_t)stored;
    if (off > n || stored > n - off)
        return;
    if (get_le(entry + 10, 2) == 0)
        crc = pg__crc32(0, data + off, stored);
    else if (!measure(data + off, stored, &crc, &size))
        return;
    set_le(entry + 16, crc, 4);
    set_le(entry + 24, size, 4);
    memcpy(head + 6, entry + 8, 4);    /* flags, method */
    memcpy(head + 14, entry + 16, 12); /* CRC, sizes */
}

static void repair(uint8_t *data, size_t n)
{
    const size_t first = find(data, n, 0, 1, 2, ENTRY);
    size_t count = 0, end;
    for (size_t at = first; at < n; at = find(data, n, at + 4, 1, 2, ENTRY), count++)
        repair_member(data, n, data + at);
    end = find(data, n, 0, 5, 6, END);
    if (end == n || first > end)
        return;
    set_le(data + end + 8, count, 2);
    set_le(data + end + 10, count, 2);
    set_le(data + end + 12, end - first, 4);
    set_le(data + end + 16, first, 4);
    set_le(data + end + 20, n - end - END, 2);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t cap, unsigned seed)
{
    dice d = dice_of(seed);
    const size_t how = n < END ? 3 : throw_dice(&d, 4);
    if (how > 1)
        n = LLVMFuzzerMutate(data, n, cap);
    else
        for (size_t k = 1 + throw_dice(&d, 3); k > 0; k--)
            change(&d, data, n, how ? aim(&d, data, n) : throw_dice(&d, n));
    if (throw_dice(&d, 4))
        repair(data, n);
    return n;
}
