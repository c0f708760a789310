/* fast.h - for the functions that stand in for plain answers (fast.def): as ops/real.h, and what
 * tells compilers that a loop may be turned into vector code.
 *
 * Operands and results are apart, or the same array where the operation says so; never do they
 * overlap otherwise. A sum has a fixed order: that of the code, whatever the vectors' width. */
#ifndef PG_BACKEND_CPU_FAST_H
#define PG_BACKEND_CPU_FAST_H

#include "backend/cpu/vmath.h"
#include "ops/real.h"

/* Before a loop whose turns do not depend on each other. */
#ifdef __clang__
#define PG_EACH _Pragma("clang loop vectorize(assume_safety)")
#else
#define PG_EACH _Pragma("GCC ivdep")
#endif

/* Sums and largest numbers of rows, in as many lanes as a vector has. */
static inline float pg__row_max(const float *x, size_t n)
{
    float top = x[0];
#pragma omp simd reduction(max : top)
    for (size_t i = 0; i < n; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}
static inline float pg__row_sum(const float *x, size_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}
/* sum of exp(x - from) */
static inline float pg__row_exp_sum(const float *x, float from, size_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += pg__vexp(x[i] - from);
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

#endif
