/* xxh64.c - XXH64 by Yann Collet (doc/xxhash_spec.md of its repository): a checksum against
 * accidents of disks and programs, as fast as memory without special instructions. Four lanes take
 * eight bytes each, little-endian. */
#include <string.h>

#include "base/hash.h"
#include "base/le.h"

#define P1     0x9E3779B185EBCA87u
#define P2     0xC2B2AE3D27D4EB4Fu
#define P3     0x165667B19E3779F9u
#define P4     0x85EBCA77C2B2AE63u
#define P5     0x27D4EB2F165667C5u

#define STRIPE 32u

static uint64_t turn(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

/* pg__le64() in one instruction, whatever the compiler. */
static uint64_t load8(const unsigned char *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? x : __builtin_bswap64(x);
}

static uint64_t round_of(uint64_t lane, uint64_t x)
{
    return turn(lane + x * P2, 31) * P1;
}

void pg__xxh64_start(pg__xxh64 *h)
{
    *h = (pg__xxh64){.lane = {P1 + P2, P2, 0, 0 - P1}};
}

/* Whole stripes. */
static void add_stripes(pg__xxh64 *h, const unsigned char *p, size_t n)
{
    uint64_t a = h->lane[0], b = h->lane[1], c = h->lane[2], d = h->lane[3];
    for (; n; p += STRIPE, n -= STRIPE) {
        a = round_of(a, load8(p));
        b = round_of(b, load8(p + 8));
        c = round_of(c, load8(p + 16));
        d = round_of(d, load8(p + 24));
    }
    h->lane[0] = a, h->lane[1] = b, h->lane[2] = c, h->lane[3] = d;
}

void pg__xxh64_add(pg__xxh64 *h, const void *data, size_t n)
{
    const unsigned char *p = data;
    const size_t held = h->n % STRIPE;
    h->n += n;
    if (held) {
        const size_t room = STRIPE - held, some = n < room ? n : room;
        memcpy(h->rest + held, p, some);
        if (n < room)
            return;
        add_stripes(h, h->rest, STRIPE);
        p += some, n -= some;
    }
    add_stripes(h, p, n - n % STRIPE);
    if (n % STRIPE)
        memcpy(h->rest, p + (n - n % STRIPE), n % STRIPE);
}

uint64_t pg__xxh64_end(const pg__xxh64 *h)
{
    static const unsigned shifts[] = {1, 7, 12, 18};
    const unsigned char *p = h->rest;
    size_t n = h->n % STRIPE;
    uint64_t x = h->n < STRIPE ? P5 : 0;
    for (int i = 0; i < 4 && h->n >= STRIPE; i++)
        x += turn(h->lane[i], shifts[i]);
    for (int i = 0; i < 4 && h->n >= STRIPE; i++)
        x = (x ^ round_of(0, h->lane[i])) * P1 + P4;
    x += h->n;
    for (; n >= 8; p += 8, n -= 8)
        x = turn(x ^ round_of(0, load8(p)), 27) * P1 + P4;
    for (; n >= 4; p += 4, n -= 4)
        x = turn(x ^ pg__le32(p) * P1, 23) * P2 + P3;
    for (; n; p++, n--)
        x = turn(x ^ *p * P5, 11) * P1;
    x = (x ^ x >> 33) * P2;
    x = (x ^ x >> 29) * P3;
    return x ^ x >> 32;
}
