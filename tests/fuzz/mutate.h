/* mutate.h - what the mutators share: a stream of random numbers from libFuzzer's seed, and changes
 * that damaged files are made of: borders of integers, steps by one, copies, runs of one byte. */
#ifndef PG_FUZZ_MUTATE_H
#define PG_FUZZ_MUTATE_H

#include <stdint.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t cap);

typedef struct dice {
    uint64_t state;
} dice;

/* Each changes the n bytes of data, which has room for cap, and returns how many they are then. */
size_t mutate_h5(dice *d, uint8_t *data, size_t n, size_t cap);
size_t mutate_npy(dice *d, uint8_t *data, size_t n, size_t cap);
size_t mutate_resume(dice *d, uint8_t *data, size_t n, size_t cap);
size_t mutate_safetensors(dice *d, uint8_t *data, size_t n, size_t cap);
size_t mutate_zip(dice *d, uint8_t *data, size_t n, size_t cap);

/* 0 .. n - 1; n > 0. xorshift64* */
static inline size_t throw_dice(dice *d, size_t n)
{
    d->state ^= d->state >> 12;
    d->state ^= d->state << 25;
    d->state ^= d->state >> 27;
    return (size_t)((d->state * UINT64_C(0x2545F4914F6CDD1D)) >> 33) % n;
}

static inline uint64_t get_le(const uint8_t *p, size_t width)
{
    uint64_t v = 0;
    for (size_t i = 0; i < width; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static inline void set_le(uint8_t *p, uint64_t v, size_t width)
{
    for (size_t i = 0; i < width; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

/* A number of that many bytes on which checks turn: around 0, the borders of signed and unsigned,
 * the file's length. */
static inline uint64_t border(dice *d, size_t width, size_t n_file)
{
    const uint64_t top = width == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * width)) - 1;
    switch (throw_dice(d, 8)) {
    case 0: return 0;
    case 1: return 1 + throw_dice(d, 16);
    case 2: return top / 2;
    case 3: return top / 2 + 1;
    case 4: return top;
    case 5: return top - throw_dice(d, 16);
    case 6: return n_file - throw_dice(d, 9);
    default: return (uint64_t)1 << throw_dice(d, 8 * width);
    }
}

/* One change at byte `at` < n. */
static inline void change(dice *d, uint8_t *data, size_t n, size_t at)
{
    size_t width = (size_t)1 << throw_dice(d, 4), run = 1 + throw_dice(d, 40);
    if (throw_dice(d, 3))
        at -= at % width;
    width = width < n - at ? width : n - at;
    run = run < n - at ? run : n - at;
    switch (throw_dice(d, 8)) {
    case 0: data[at] ^= (uint8_t)(1u << throw_dice(d, 8)); break;
    case 1: data[at] = (uint8_t)throw_dice(d, 256); break;
    case 2:
    case 3: set_le(data + at, border(d, width, n), width); break;
    case 4: set_le(data + at, get_le(data + at, width) + throw_dice(d, 33) - 16, width); break;
    case 5: memmove(data + at, data + throw_dice(d, n - run + 1), run); break;
    case 6: memset(data + at, throw_dice(d, 3) ? 0 : 255, run); break;
    default: set_le(data + at, throw_dice(d, n) & ~(size_t)7, width); break;
    }
}

#endif
