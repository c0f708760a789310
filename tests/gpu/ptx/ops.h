/* ops.h - what PTX's instructions compute, over the bits of registers: ptx_mul_wide_u32() is
 * mul.wide.u32. An instruction without a function here does not compile. The PTX ISA's section of
 * each says what is done beyond C: shifts by more than there is, conversions of what does not fit,
 * the one NaN of float32. */
#ifndef PG_TESTS_PTX_OPS_H
#define PG_TESTS_PTX_OPS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- memory ---- */

#define PTX_WORD(bits)                                                       \
    static inline uint##bits##_t ptx_get_##bits(const void *p, unsigned k)   \
    {                                                                        \
        uint##bits##_t v;                                                    \
        memcpy(&v, (const char *)p + k * sizeof v, sizeof v);                \
        return v;                                                            \
    }                                                                        \
    static inline void ptx_put_##bits(void *p, unsigned k, uint##bits##_t v) \
    {                                                                        \
        memcpy((char *)p + k * sizeof v, &v, sizeof v);                      \
    }
PTX_WORD(8)
PTX_WORD(16)
PTX_WORD(32)
PTX_WORD(64)

/* ---- integers ---- */

#define PTX_DEF(name, U, parameters, expression) \
    static inline U ptx_##name parameters        \
    {                                            \
        return (U)(expression);                  \
    }

#define PTX_ARITHMETIC(S, U, s, u, b, wide)                                     \
    PTX_DEF(add_##s, U, (U a, U v), a + v)                                      \
    PTX_DEF(add_##u, U, (U a, U v), a + v)                                      \
    PTX_DEF(sub_##s, U, (U a, U v), a - v)                                      \
    PTX_DEF(sub_##u, U, (U a, U v), a - v)                                      \
    PTX_DEF(mul_lo_##s, U, (U a, U v), (uint64_t)a *v)                          \
    PTX_DEF(mul_lo_##u, U, (U a, U v), (uint64_t)a *v)                          \
    PTX_DEF(mad_lo_##s, U, (U a, U v, U w), (uint64_t)a *v + w)                 \
    PTX_DEF(mad_lo_##u, U, (U a, U v, U w), (uint64_t)a *v + w)                 \
    PTX_DEF(div_##s, U, (U a, U v), v == (U)-1 ? (U)(0 - a) : (U)((S)a / (S)v)) \
    PTX_DEF(div_##u, U, (U a, U v), a / v)                                      \
    PTX_DEF(rem_##s, U, (U a, U v), v == (U)-1 ? 0 : (U)((S)a % (S)v))          \
    PTX_DEF(rem_##u, U, (U a, U v), a % v)                                      \
    PTX_DEF(min_##s, U, (U a, U v), (S)a < (S)v ? a : v)                        \
    PTX_DEF(min_##u, U, (U a, U v), a < v ? a : v)                              \
    PTX_DEF(max_##s, U, (U a, U v), (S)a > (S)v ? a : v)                        \
    PTX_DEF(max_##u, U, (U a, U v), a > v ? a : v)                              \
    PTX_DEF(neg_##s, U, (U a), 0 - a)                                           \
    PTX_DEF(abs_##s, U, (U a), (S)a < 0 ? (U)(0 - a) : a)                       \
    PTX_DEF(and_##b, U, (U a, U v), a &v)                                       \
    PTX_DEF(or_##b, U, (U a, U v), a | v)                                       \
    PTX_DEF(xor_##b, U, (U a, U v), a ^ v)                                      \
    PTX_DEF(not_##b, U, (U a), ~a)                                              \
    PTX_DEF(exch_##b, U, (U a, U v), ((void)a, v))                              \
    PTX_DEF(cas_##b, U, (U a, U v, U w), a == v ? w : a)                        \
    PTX_DEF(shl_##b, U, (U a, uint32_t n), n < 8 * sizeof a ? (U)(a << n) : 0)  \
    PTX_DEF(shr_##b, U, (U a, uint32_t n), n < 8 * sizeof a ? (U)(a >> n) : 0)  \
    PTX_DEF(shr_##u, U, (U a, uint32_t n), n < 8 * sizeof a ? (U)(a >> n) : 0)  \
    PTX_DEF(shr_##s, U, (U a, uint32_t n), (S)a >> (n < 8 * sizeof a ? n : 8 * sizeof a - 1))
PTX_ARITHMETIC(int16_t, uint16_t, s16, u16, b16, 32)
PTX_ARITHMETIC(int32_t, uint32_t, s32, u32, b32, 64)
PTX_ARITHMETIC(int64_t, uint64_t, s64, u64, b64, 64)

PTX_DEF(mul_wide_u16, uint32_t, (uint16_t a, uint16_t v), (uint32_t)a *v)
PTX_DEF(mul_wide_s16, uint32_t, (uint16_t a, uint16_t v), (int16_t)a *(int16_t)v)
PTX_DEF(mul_wide_u32, uint64_t, (uint32_t a, uint32_t v), (uint64_t)a *v)
PTX_DEF(mul_wide_s32, uint64_t, (uint32_t a, uint32_t v), (int64_t)(int32_t)a *(int32_t)v)
PTX_DEF(mad_wide_u32, uint64_t, (uint32_t a, uint32_t v, uint64_t w), (uint64_t)a *v + w)
PTX_DEF(mad_wide_s32, uint64_t, (uint32_t a, uint32_t v, uint64_t w),
        (uint64_t)((int64_t)(int32_t)a *(int32_t)v) + w)
PTX_DEF(mul_hi_u32, uint32_t, (uint32_t a, uint32_t v), (uint64_t)a *v >> 32)
PTX_DEF(mul_hi_s32, uint32_t, (uint32_t a, uint32_t v), (int64_t)(int32_t)a *(int32_t)v >> 32)
PTX_DEF(mul_hi_u64, uint64_t, (uint64_t a, uint64_t v), (unsigned __int128)a *v >> 64)
PTX_DEF(mul_hi_s64, uint64_t, (uint64_t a, uint64_t v), (__int128)(int64_t)a *(int64_t)v >> 64)
PTX_DEF(shf_l_wrap_b32, uint32_t, (uint32_t low, uint32_t high, uint32_t n),
        ((uint64_t)high << 32 | low) << (n & 31) >> 32)
PTX_DEF(shf_r_wrap_b32, uint32_t, (uint32_t low, uint32_t high, uint32_t n),
        ((uint64_t)high << 32 | low) >> (n & 31))

/* `n` bits of a over those of v from `at` on. */
#define PTX_INSERT(U, b)                                                               \
    static inline U ptx_bfi_##b(U a, U v, uint32_t at, uint32_t n)                     \
    {                                                                                  \
        const U ones = n >= 8 * sizeof a ? (U)-1 : (U)(((U)1 << n) - 1);               \
        return at >= 8 * sizeof a ? v : (U)((v & ~(ones << at)) | ((a & ones) << at)); \
    }
PTX_INSERT(uint32_t, b32)
PTX_INSERT(uint64_t, b64)
PTX_DEF(and_pred, int, (int a, int v), a &&v)
PTX_DEF(or_pred, int, (int a, int v), a || v)
PTX_DEF(xor_pred, int, (int a, int v), !a != !v)
PTX_DEF(not_pred, int, (int a), !a)

/* ---- real numbers ---- */

#define PTX_REAL(bits, real)                             \
    static inline real ptx_real_##bits(uint##bits##_t u) \
    {                                                    \
        real f;                                          \
        memcpy(&f, &u, sizeof f);                        \
        return f;                                        \
    }                                                    \
    static inline uint##bits##_t ptx_keep_##bits(real f) \
    {                                                    \
        uint##bits##_t u;                                \
        memcpy(&u, &f, sizeof u);                        \
        return u;                                        \
    }
PTX_REAL(32, float)
PTX_REAL(64, double)

/* What arithmetic gives: of NaN there is one. */
static inline uint32_t ptx_bits_32(float f)
{
    return f != f ? 0x7fffffffu : ptx_keep_32(f);
}
static inline uint64_t ptx_bits_64(double f)
{
    return ptx_keep_64(f);
}

#define PTX_F32(name, parameters, expression) \
    PTX_DEF(name, uint32_t, parameters, ptx_bits_32(expression))
#define PTX_F64(name, parameters, expression) \
    PTX_DEF(name, uint64_t, parameters, ptx_bits_64(expression))
#define F(u) ptx_real_32(u)
#define D(u) ptx_real_64(u)
#define PTX_TWO(name, expression_32, expression_64)                 \
    PTX_F32(name##_f32, (uint32_t a, uint32_t v), expression_32)    \
    PTX_F32(name##_rn_f32, (uint32_t a, uint32_t v), expression_32) \
    PTX_F64(name##_f64, (uint64_t a, uint64_t v), expression_64)    \
    PTX_F64(name##_rn_f64, (uint64_t a, uint64_t v), expression_64)
PTX_TWO(add, F(a) + F(v), D(a) + D(v))
PTX_TWO(sub, F(a) - F(v), D(a) - D(v))
PTX_TWO(mul, F(a) * F(v), D(a) * D(v))
PTX_TWO(div, F(a) / F(v), D(a) / D(v))
PTX_F32(fma_rn_f32, (uint32_t a, uint32_t v, uint32_t w), fmaf(F(a), F(v), F(w)))
PTX_F64(fma_rn_f64, (uint64_t a, uint64_t v, uint64_t w), fma(D(a), D(v), D(w)))
PTX_F32(rcp_rn_f32, (uint32_t a), 1.0f / F(a))
PTX_F64(rcp_rn_f64, (uint64_t a), 1.0 / D(a))
PTX_F32(sqrt_rn_f32, (uint32_t a), sqrtf(F(a)))
PTX_F64(sqrt_rn_f64, (uint64_t a), sqrt(D(a)))
PTX_DEF(neg_f32, uint32_t, (uint32_t a), a ^ 0x80000000u)
PTX_DEF(abs_f32, uint32_t, (uint32_t a), a & 0x7fffffffu)
PTX_DEF(neg_f64, uint64_t, (uint64_t a), a ^ (uint64_t)1 << 63)
PTX_DEF(abs_f64, uint64_t, (uint64_t a), a & ~((uint64_t)1 << 63))
PTX_DEF(copysign_f32, uint32_t, (uint32_t a, uint32_t v), (a & 0x80000000u) | (v & 0x7fffffffu))
PTX_DEF(copysign_f64, uint64_t, (uint64_t a, uint64_t v),
        (a & (uint64_t)1 << 63) | (v & ~((uint64_t)1 << 63)))

/* The other one if one is none; -0 is less than 0. */
static inline float ptx_least(float a, float v)
{
    return a != a ? v : v != v ? a : a < v || (a == v && signbit(a)) ? a : v;
}
PTX_F32(min_f32, (uint32_t a, uint32_t v), ptx_least(F(a), F(v)))
PTX_F32(max_f32, (uint32_t a, uint32_t v), -ptx_least(-F(a), -F(v)))
PTX_F64(min_f64, (uint64_t a, uint64_t v), fmin(D(a), D(v)))
PTX_F64(max_f64, (uint64_t a, uint64_t v), fmax(D(a), D(v)))

/* ---- conversions ---- */

#define PTX_FROM(type, U, S)                       \
    PTX_F32(cvt_rn_f32_##type, (U a), (float)(S)a) \
    PTX_F64(cvt_rn_f64_##type, (U a), (double)(S)a)
PTX_FROM(u16, uint16_t, uint16_t)
PTX_FROM(s16, uint16_t, int16_t)
PTX_FROM(u32, uint32_t, uint32_t)
PTX_FROM(s32, uint32_t, int32_t)
PTX_FROM(u64, uint64_t, uint64_t)
PTX_FROM(s64, uint64_t, int64_t)
PTX_F32(cvt_rn_f32_f64, (uint64_t a), (float)D(a))
PTX_F64(cvt_f64_f32, (uint32_t a), (double)F(a))
PTX_F32(cvt_sat_f32_f32, (uint32_t a), F(a) > 0 ? (F(a) < 1 ? F(a) : 1.0f) : 0.0f)

/* What does not fit becomes the number that is next to it; what is none, 0, or of 64 bits, the
 * highest bit alone. */
#define PTX_INTO(type, U, S, low, high, none)                                                \
    static inline U ptx_into_##type(double x)                                                \
    {                                                                                        \
        return x != x                ? (U)(none)                                             \
               : x <= (double)(low)  ? (U)(low)                                              \
               : x >= (double)(high) ? (U)(high)                                             \
                                     : (U)(S)x;                                              \
    }                                                                                        \
    PTX_DEF(cvt_rni_##type##_f32, U, (uint32_t a), ptx_into_##type(nearbyint((double)F(a)))) \
    PTX_DEF(cvt_rzi_##type##_f32, U, (uint32_t a), ptx_into_##type(trunc((double)F(a))))     \
    PTX_DEF(cvt_rmi_##type##_f32, U, (uint32_t a), ptx_into_##type(floor((double)F(a))))     \
    PTX_DEF(cvt_rpi_##type##_f32, U, (uint32_t a), ptx_into_##type(ceil((double)F(a))))      \
    PTX_DEF(cvt_rni_##type##_f64, U, (uint64_t a), ptx_into_##type(nearbyint(D(a))))         \
    PTX_DEF(cvt_rzi_##type##_f64, U, (uint64_t a), ptx_into_##type(trunc(D(a))))
PTX_INTO(s32, uint32_t, int32_t, INT32_MIN, INT32_MAX, 0)
PTX_INTO(u32, uint32_t, uint32_t, 0, UINT32_MAX, 0)
PTX_INTO(s64, uint64_t, int64_t, INT64_MIN, INT64_MAX, INT64_MIN)
PTX_INTO(u64, uint64_t, uint64_t, 0, UINT64_MAX, (uint64_t)1 << 63)
PTX_F32(cvt_rni_f32_f32, (uint32_t a), nearbyintf(F(a)))
PTX_F32(cvt_rzi_f32_f32, (uint32_t a), truncf(F(a)))
PTX_F32(cvt_rmi_f32_f32, (uint32_t a), floorf(F(a)))
PTX_F32(cvt_rpi_f32_f32, (uint32_t a), ceilf(F(a)))

/* ---- rounded.c ---- */

#define PTX_DIRECTED(mode)                                             \
    uint32_t ptx_add_##mode##_f32(uint32_t a, uint32_t v);             \
    uint32_t ptx_sub_##mode##_f32(uint32_t a, uint32_t v);             \
    uint32_t ptx_mul_##mode##_f32(uint32_t a, uint32_t v);             \
    uint32_t ptx_div_##mode##_f32(uint32_t a, uint32_t v);             \
    uint32_t ptx_fma_##mode##_f32(uint32_t a, uint32_t v, uint32_t w); \
    uint32_t ptx_cvt_##mode##_f32_f64(uint64_t a);
PTX_DIRECTED(rz)
PTX_DIRECTED(rm)
PTX_DIRECTED(rp)

uint32_t ptx_ex2_approx_f32(uint32_t a);
uint32_t ptx_ex2_approx_ftz_f32(uint32_t a);
uint32_t ptx_lg2_approx_f32(uint32_t a);
uint32_t ptx_lg2_approx_ftz_f32(uint32_t a);
uint32_t ptx_rcp_approx_f32(uint32_t a);
uint32_t ptx_rcp_approx_ftz_f32(uint32_t a);
uint32_t ptx_sqrt_approx_f32(uint32_t a);
uint32_t ptx_sqrt_approx_ftz_f32(uint32_t a);
uint32_t ptx_rsqrt_approx_f32(uint32_t a);
uint32_t ptx_rsqrt_approx_ftz_f32(uint32_t a);
uint32_t ptx_tanh_approx_f32(uint32_t a);
uint32_t ptx_sin_approx_f32(uint32_t a);
uint32_t ptx_cos_approx_f32(uint32_t a);
uint32_t ptx_div_approx_f32(uint32_t a, uint32_t v);
uint32_t ptx_div_full_f32(uint32_t a, uint32_t v);

#endif
