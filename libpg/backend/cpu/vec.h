/* vec.h - vectors of floats, as wide as the instruction set for which a file is compiled. */
#ifndef PG_BACKEND_CPU_VEC_H
#define PG_BACKEND_CPU_VEC_H

#include <stddef.h>
#include <string.h>

#include "backend/cpu/range.h"

#if defined __AVX512F__
#include <immintrin.h>
#define PG_VEC 16 /* floats in a vector */
#elif defined __AVX2__
#include <immintrin.h>
#define PG_VEC 8
#else
#define PG_VEC 4
#endif

#define PG_INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define PG_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PG_UNROLL _Pragma("GCC unroll 36")
#endif

/* Names of functions that are built once for each instruction set. */
#define PG_ISA_NAME__(name, isa) pg__##name##_##isa
#define PG_ISA_NAME_(name, isa)  PG_ISA_NAME__(name, isa)
#define PG_ISA_NAME(name)        PG_ISA_NAME_(name, PG_ISA)

typedef float pg__vec __attribute__((vector_size(PG_VEC * 4)));
typedef float pg__vec_anywhere __attribute__((vector_size(PG_VEC * 4), aligned(4), may_alias));

PG_INLINE pg__vec pg__load(const float *p)
{
    return *(const pg__vec_anywhere *)(const void *)p;
}

PG_INLINE void pg__store(float *p, pg__vec v)
{
    *(pg__vec_anywhere *)(void *)p = v;
}

/* Not 0 + x, which differs for x = -0, and so would be an addition. */
PG_INLINE pg__vec pg__splat(float x)
{
#if defined __AVX512F__
    return (pg__vec)_mm512_set1_ps(x);
#elif defined __AVX2__
    return (pg__vec)_mm256_set1_ps(x);
#else
    return (pg__vec){x, x, x, x};
#endif
}

/* sum + x * y, rounded once if there is an instruction for it. A compiler that may choose could
 * choose differently for tiles of another shape, and a row's result must not depend on its
 * neighbours. */
PG_INLINE pg__vec pg__mul_add(pg__vec x, pg__vec y, pg__vec sum)
{
#if defined __AVX512F__
    return (pg__vec)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)sum);
#elif defined __AVX2__
    return (pg__vec)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)sum);
#else
    return sum + x * y;
#endif
}

/* Lane by lane; v if either is NaN. */
PG_INLINE pg__vec pg__min(pg__vec than, pg__vec v)
{
#if defined __AVX512F__
    return (pg__vec)_mm512_min_ps((__m512)than, (__m512)v);
#elif defined __AVX2__
    return (pg__vec)_mm256_min_ps((__m256)than, (__m256)v);
#else
    for (size_t i = 0; i < PG_VEC; i++)
        v[i] = than[i] < v[i] ? than[i] : v[i];
    return v;
#endif
}

PG_INLINE pg__vec pg__max(pg__vec than, pg__vec v)
{
#if defined __AVX512F__
    return (pg__vec)_mm512_max_ps((__m512)than, (__m512)v);
#elif defined __AVX2__
    return (pg__vec)_mm256_max_ps((__m256)than, (__m256)v);
#else
    for (size_t i = 0; i < PG_VEC; i++)
        v[i] = than[i] > v[i] ? than[i] : v[i];
    return v;
#endif
}

PG_INLINE pg__vec pg__within(pg__vec v, const pg__range *r)
{
    return pg__min(pg__splat(r->high), pg__max(pg__splat(r->low), v));
}

/* The first n < PG_VEC floats; those after them are not touched, and read as 0. */
PG_INLINE pg__vec pg__load_some(const float *p, size_t n)
{
#if defined __AVX512F__
    return (pg__vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    pg__vec v = {0};
    memcpy(&v, p, n * sizeof *p);
    return v;
#endif
}

PG_INLINE void pg__store_some(float *p, pg__vec v, size_t n)
{
#if defined __AVX512F__
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    memcpy(p, &v, n * sizeof *p);
#endif
}

#endif
