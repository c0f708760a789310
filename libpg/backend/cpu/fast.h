/* fast.h - for the functions that replace plain C references (fast.def): includes ops/real.h, and
 * tells compilers which loops may become vector code.
 *
 * Operands and results are separate, or the same array if the operation says so; they never overlap
 * otherwise. The order of a sum depends on nothing but the instruction set. */
#ifndef PG_BACKEND_CPU_FAST_H
#define PG_BACKEND_CPU_FAST_H

#include "backend/cpu/vmath.h"
#include "ops/real.h"

/* Put before a loop whose iterations do not depend on each other. */
#ifdef __clang__
#define PG_EACH _Pragma("clang loop vectorize(assume_safety)")
#else
#define PG_EACH _Pragma("GCC ivdep")
#endif

/* Bits of a float as an integer that compares like the float, and back. */
static inline int32_t pg__ordered(int32_t bits)
{
    return bits ^ ((bits >> 31) & INT32_MAX);
}

/* Sums and largest numbers of rows, in as many lanes as a vector has. */
static inline float pg__row_max(const float *x, size_t n)
{
    int32_t top = INT32_MIN; /* as integers with the same order, because NaN prevents it for
                                floats */
    for (size_t i = 0; i < n; i++) {
        const int32_t v = pg__ordered(pg__bits_of(x[i]));
        top = v > top ? v : top;
    }
    return pg__of_bits(pg__ordered(top));
}
static inline float pg__row_sum(const float *x, size_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}
/* sum of exp(x - from), none of them above `from` */
static inline float pg__row_exp_sum(const float *x, float from, size_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += pg__vexp_down(x[i] - from);
    return sum;
}

#define PG_FAST_FN(name) PG_JOIN(pg__fast_##name##_, PG_ISA)

#define PG_FAST(name)    void PG_FAST_FN(name)(PG_REF_ARGS);
#include "backend/cpu/fast.def"
#undef PG_FAST

void PG_FAST_FN(accumulate)(float *into, const float *from, size_t n);
void PG_FAST_FN(blend)(float *into, float keep, const float *from, float take, size_t n);
void PG_FAST_FN(clip)(float *g, float scale, float limit, size_t n);
double PG_FAST_FN(squares)(const float *g, size_t n);
void PG_FAST_FN(to_bf16)(float *v, size_t n);

#endif
