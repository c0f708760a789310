/* pgk.h - how kernels are written: once, as a function of what one element or one row needs. nvcc
 * makes the GPU's kernels of them (kernels.cu); the C compiler makes loops (kernels_host.c), which
 * the tests check, and which replace a GPU on machines without one. Both do the same arithmetic in
 * the same order.
 *
 *   PGK_MAP(name):  pgk_name_at(a, i) computes element i; neighbours should touch neighbours.
 *   PGK_ROWS(name): pgk_name_row(a, r) computes row r by PGK_T threads together. What stands
 *                   between the constructs below is done by all of them alike, so it must not write
 *                   to memory; sums and maxima are the same on every thread.
 *   PGK_LINES(name): the same by a team of as many threads as suit a row of a->n numbers: 1, a warp
 *                   or PGK_T.
 *                     PGK_EACH(i, n) { ... }             every i below n once, in no order
 *                     PGK_SUM(s, i, n, expression);      declares float s: in a fixed order
 *                     PGK_MAX(m, i, n, expression);      declares float m; a number that is none
 *                                                        wins
 *
 * kernels.def lists the kernels; their arguments are a struct pgk_name, passed by value. In that of
 * an operation's only kernel the first members are the operands and the results, a pgk_real each.
 * Numbers are float inside a kernel; in memory they have the type that their pgk_real names. */
#ifndef PG_BACKEND_PGK_H
#define PG_BACKEND_PGK_H

#include <stddef.h>
#include <stdint.h>

#include "ops/act_real.h"

#define PGK_T 256u /* threads of a block */

/* How many threads share a row of n numbers: a function of n alone, as the order of sums is. */
static inline unsigned pgk_team_for(uint64_t n)
{
    return n <= 8 ? 1u : n <= 512 ? 32u : PGK_T;
}

#ifdef __CUDACC__
#define PGK_FN     static __device__ __forceinline__
#define PGK_UNROLL _Pragma("unroll") /* a loop whose arrays are to lie in registers */
#else
#define PGK_FN static inline
#define PGK_UNROLL
#endif

/* What memory holds. */
typedef enum pgk_type { PGK_F32, PGK_BF16, PGK_F16 } pgk_type;

typedef struct pgk_real {
    void *p; /* NULL: the operand is absent, or the result is not wanted */
    pgk_type type;
} pgk_real;

/* ---- numbers in memory ---- */

PGK_FN float pgk_of_bits(uint32_t bits)
{
    union {
        uint32_t u;
        float f;
    } v;
    v.u = bits;
    return v.f;
}

PGK_FN uint32_t pgk_bits(float f)
{
    union {
        float f;
        uint32_t u;
    } v;
    v.f = f;
    return v.u;
}

/* To the nearest, ties to even; no number stays none. */
PGK_FN uint16_t pgk_to_bf16(float f)
{
    const uint32_t u = pgk_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

PGK_FN float pgk_of_bf16(uint16_t h)
{
    return pgk_of_bits((uint32_t)h << 16);
}

PGK_FN float pgk_of_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u) /* infinite, or none */
        return pgk_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest < 0x400u) /* 2^-24 each */
        return pgk_of_bits(sign | pgk_bits((float)rest * 5.9604644775390625e-08f));
    return pgk_of_bits(sign | ((rest << 13) + (112u << 23)));
}

PGK_FN uint16_t pgk_to_f16(float f)
{
    const uint32_t u = pgk_bits(f), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (a >= 0x477ff000u) /* rounds to 2^16 or beyond */
        return (uint16_t)(sign | 0x7c00u);
    if (a < 0x38800000u) { /* below 2^-14: adding 1/2 rounds at 2^-24 */
        const float shifted = pgk_of_bits(a) + 0.5f;
        return (uint16_t)(sign | (pgk_bits(shifted) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((a - (112u << 23) + 0xfffu + (a >> 13 & 1u)) >> 13));
}

/* Where an address of the GPU's memory is for the code that runs the kernel. The host's stand-in
 * uses addresses that nobody can read or write by mistake. */
#ifdef __CUDACC__
#define PGK_MEM(p) (p)
#else
#define PGK_MEM(p) pgk_host_memory(p)
void *pgk_host_memory(const void *p);
#endif

/* Of a type of 16 bits. */
PGK_FN float pgk_of_16(pgk_type type, uint16_t bits)
{
    return type == PGK_BF16 ? pgk_of_bf16(bits) : pgk_of_f16(bits);
}
PGK_FN uint16_t pgk_to_16(pgk_type type, float x)
{
    return type == PGK_BF16 ? pgk_to_bf16(x) : pgk_to_f16(x);
}

PGK_FN float pgk_get(pgk_real v, uint64_t i)
{
    if (v.type == PGK_F32)
        return ((const float *)PGK_MEM(v.p))[i];
    return pgk_of_16(v.type, ((const uint16_t *)PGK_MEM(v.p))[i]);
}

PGK_FN void pgk_set(pgk_real v, uint64_t i, float x)
{
    if (v.type == PGK_F32)
        ((float *)PGK_MEM(v.p))[i] = x;
    else
        ((uint16_t *)PGK_MEM(v.p))[i] = pgk_to_16(v.type, x);
}

#define PGK_EACH_OF_4(k) PGK_UNROLL for (unsigned k = 0; k < 4; k++)

/* Group i of four, of n numbers; what is beyond them reads as 0 and is not written. Where all four
 * are there the GPU moves them at once. */
#define PGK_FOURS(n) (((n) + 3) / 4)

PGK_FN void pgk_get4(pgk_real v, uint64_t i, uint64_t n, float x[4])
{
#ifdef __CUDACC__
    if (4 * i + 4 <= n && (uintptr_t)v.p % 16 == 0) {
        if (v.type == PGK_F32) {
            const float4 four = ((const float4 *)v.p)[i];
            x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
        } else {
            const ushort4 four = ((const ushort4 *)v.p)[i];
            x[0] = pgk_of_16(v.type, four.x), x[1] = pgk_of_16(v.type, four.y);
            x[2] = pgk_of_16(v.type, four.z), x[3] = pgk_of_16(v.type, four.w);
        }
        return;
    }
#endif
    PGK_EACH_OF_4(k)
    x[k] = 4 * i + k < n ? pgk_get(v, 4 * i + k) : 0;
}

PGK_FN void pgk_set4(pgk_real v, uint64_t i, uint64_t n, const float x[4])
{
#ifdef __CUDACC__
    if (4 * i + 4 <= n && (uintptr_t)v.p % 16 == 0) {
        if (v.type == PGK_F32)
            ((float4 *)v.p)[i] = make_float4(x[0], x[1], x[2], x[3]);
        else
            ((ushort4 *)v.p)[i] = make_ushort4(pgk_to_16(v.type, x[0]), pgk_to_16(v.type, x[1]),
                                               pgk_to_16(v.type, x[2]), pgk_to_16(v.type, x[3]));
        return;
    }
#endif
    for (unsigned k = 0; k < 4 && 4 * i + k < n; k++)
        pgk_set(v, 4 * i + k, x[k]);
}

/* Unit i: a number, or (wide) a group of four. Of a number x[0] alone counts. */
PGK_FN void pgk_read(pgk_real v, uint64_t i, int wide, float x[4])
{
    if (wide) {
        pgk_get4(v, i, 4 * i + 4, x);
        return;
    }
    x[0] = pgk_get(v, i);
    x[1] = x[2] = x[3] = 0;
}

PGK_FN void pgk_write(pgk_real v, uint64_t i, int wide, const float x[4])
{
    if (wide)
        pgk_set4(v, i, 4 * i + 4, x);
    else
        pgk_set(v, i, x[0]);
}

/* Ids and classes. */
PGK_FN int32_t pgk_int(pgk_real v, uint64_t i)
{
    return ((const int32_t *)PGK_MEM(v.p))[i];
}
PGK_FN void pgk_set_int(pgk_real v, uint64_t i, int32_t x)
{
    ((int32_t *)PGK_MEM(v.p))[i] = x;
}

/* The larger number; NaN wins. */
PGK_FN float pgk_larger(float a, float b)
{
    return a > b || a != a ? a : b;
}

/* ---- what the threads of a row do together ---- */

#ifdef __CUDACC__

/* blockDim.x threads share a row: all of a block, or some of a warp. */
#define PGK_EACH(i, n) for (uint64_t i = threadIdx.x; i < (uint64_t)(n); i += blockDim.x)

#define PGK_FOLD(name, i, n, expression, start, join)      \
    float name = start;                                    \
    PGK_EACH(i, n) name = join(name, (float)(expression)); \
    name = pgk_meet_##join(name)

/* Halves of a block meet in its memory until a warp is left; both halves of a warp compute the same
 * number. The order is that of a tree whose halves are PGK_T / 2 apart, then half of that. */
#define PGK_MEETING(join)                                                          \
    static __device__ __forceinline__ float pgk_meet_##join(float mine)            \
    {                                                                              \
        const unsigned lane = (threadIdx.y * blockDim.x + threadIdx.x) % 32u;      \
        const unsigned width = blockDim.x < 32u ? blockDim.x : 32u;                \
        const unsigned team = (width < 32u ? (1u << width) - 1u : 0xffffffffu)     \
                              << lane / width * width;                             \
        if (blockDim.x == PGK_T) {                                                 \
            __shared__ float of[PGK_T];                                            \
            float part[PGK_T / 32u];                                               \
            __syncthreads();                                                       \
            of[threadIdx.x] = mine;                                                \
            __syncthreads();                                                       \
            for (unsigned k = 0; k < PGK_T / 32u; k++)                             \
                part[k] = of[lane + 32u * k];                                      \
            for (unsigned half = PGK_T / 64u; half > 0; half /= 2)                 \
                for (unsigned k = 0; k < half; k++)                                \
                    part[k] = join(part[k], part[k + half]);                       \
            mine = part[0];                                                        \
        }                                                                          \
        for (unsigned half = width / 2; half > 0; half /= 2)                       \
            mine = join(mine, __shfl_xor_sync(team, mine, (int)half, (int)width)); \
        return mine;                                                               \
    }

#else

/* In no particular order, so the host's stand-in chooses one. */
#define PGK_EACH(i, n)                                                                \
    for (uint64_t i##_turn = 0, i; i##_turn < (uint64_t)(n) &&                        \
                                   (i = pgk_host_place(i##_turn, (uint64_t)(n)), 1); \
         i##_turn++)
uint64_t pgk_host_place(uint64_t i, uint64_t n);

/* Of the row that is computed now. */
unsigned pgk_host_team(void);

#define PGK_FOLD(name, i, n, expression, start, join)                           \
    float pgk_parts_of_##name[PGK_T];                                           \
    const unsigned pgk_team_of_##name = pgk_host_team();                        \
    for (unsigned t = 0; t < PGK_T; t++)                                        \
        pgk_parts_of_##name[t] = start;                                         \
    for (uint64_t i = 0; i < (uint64_t)(n); i++)                                \
    pgk_parts_of_##name[i % pgk_team_of_##name] =                               \
        join(pgk_parts_of_##name[i % pgk_team_of_##name], (float)(expression)); \
    const float name = pgk_meet_##join(pgk_parts_of_##name, pgk_team_of_##name)

#define PGK_MEETING(join)                                         \
    static inline float pgk_meet_##join(float *of, unsigned team) \
    {                                                             \
        for (unsigned half = team / 2; half > 0; half /= 2)       \
            for (unsigned t = 0; t < half; t++)                   \
                of[t] = join(of[t], of[t + half]);                \
        return of[0];                                             \
    }

#endif

PGK_FN float pgk_plus(float a, float b)
{
    return a + b;
}
PGK_MEETING(pgk_plus)
PGK_MEETING(pgk_larger)

#define PGK_SUM(name, i, n, expression) PGK_FOLD(name, i, n, expression, 0.0f, pgk_plus)
#define PGK_MAX(name, i, n, expression) PGK_FOLD(name, i, n, expression, -INFINITY, pgk_larger)

#endif
