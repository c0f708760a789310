/* rounded.c - instructions that round in another direction, and those that are not exact. Of the
 * latter a GPU gives any number within the bound that NVIDIA documents ("Floating Point
 * Instructions" of the PTX ISA): here the nearest one, or with a seed one as far off as may be. */
#include <fenv.h>

#include "engine.h"
#include "ops.h"

/* ---- directed rounding: nothing here may be computed by the compiler ---- */

#define ROUNDED(mode, direction)                                      \
    uint32_t ptx_add_##mode##_f32(uint32_t a, uint32_t v)             \
    {                                                                 \
        return under(direction, F(a), F(v), '+', 0);                  \
    }                                                                 \
    uint32_t ptx_sub_##mode##_f32(uint32_t a, uint32_t v)             \
    {                                                                 \
        return under(direction, F(a), -F(v), '+', 0);                 \
    }                                                                 \
    uint32_t ptx_mul_##mode##_f32(uint32_t a, uint32_t v)             \
    {                                                                 \
        return under(direction, F(a), F(v), '*', 0);                  \
    }                                                                 \
    uint32_t ptx_div_##mode##_f32(uint32_t a, uint32_t v)             \
    {                                                                 \
        return under(direction, F(a), F(v), '/', 0);                  \
    }                                                                 \
    uint32_t ptx_fma_##mode##_f32(uint32_t a, uint32_t v, uint32_t w) \
    {                                                                 \
        return under(direction, F(a), F(v), 'f', F(w));               \
    }                                                                 \
    uint32_t ptx_cvt_##mode##_f32_f64(uint64_t a)                     \
    {                                                                 \
        return narrowed(direction, D(a));                             \
    }

static uint32_t under(int direction, float of, float by, char what, float and)
{
    volatile float a = of, v = by, w = and, r;
    const int was = fegetround();
    (void)fesetround(direction);
    if (what == '+')
        r = a + v;
    else if (what == '*')
        r = a * v;
    else if (what == '/')
        r = a / v;
    else
        r = fmaf(a, v, w);
    (void)fesetround(was);
    return ptx_bits_32(r);
}

static uint32_t narrowed(int direction, double of)
{
    volatile double a = of;
    const int was = fegetround();
    (void)fesetround(direction);
    volatile float r = (float)a;
    (void)fesetround(was);
    return ptx_bits_32(r);
}

ROUNDED(rz, FE_TOWARDZERO)
ROUNDED(rm, FE_DOWNWARD)
ROUNDED(rp, FE_UPWARD)

/* ---- what is not exact ---- */

/* -1 to 1, the same for the same operand. */
static double whim(uint32_t operand)
{
    uint64_t state = (uint64_t)ptx_seed << 32 | operand;
    if (ptx_seed <= 2)
        return ptx_seed == 0 ? 0 : ptx_seed == 1 ? 1 : -1;
    return (double)(ptx_random(&state) >> 11) / 4503599627370496.0 - 1;
}

static uint32_t about(double exact, double bound, uint32_t operand)
{
    if (isnan(exact) || isinf(exact) || exact == 0)
        return ptx_bits_32((float)exact);
    float r = (float)(exact + whim(operand) * bound);
    if (fabs((double)r - exact) > bound)
        r = nextafterf(r, (float)exact);
    return ptx_bits_32(r);
}

/* Of relative error 2^-bits. */
static uint32_t near(double exact, double bits, uint32_t operand)
{
    return about(exact, fabs(exact) * exp2(-bits), operand);
}

static double ulp(double x)
{
    return fmax(exp2(floor(log2(fabs(x))) - 23), 0x1p-149);
}

/* Numbers below 2^-126 become 0. */
static uint32_t flushed(uint32_t a)
{
    return (a & 0x7f800000u) == 0 ? a & 0x80000000u : a;
}

#define FLUSHED(name)                                 \
    uint32_t ptx_##name##_ftz_f32(uint32_t a)         \
    {                                                 \
        return flushed(ptx_##name##_f32(flushed(a))); \
    }

uint32_t ptx_ex2_approx_f32(uint32_t a)
{
    return F(a) == 0 ? ptx_keep_32(1) : about(exp2((double)F(a)), 2 * ulp(exp2((double)F(a))), a);
}
FLUSHED(ex2_approx)

/* Between 1/2 and 2 the error is absolute. */
uint32_t ptx_lg2_approx_f32(uint32_t a)
{
    const double x = (double)F(a), exact = log2(x);
    return x > 0.5 && x < 2 ? about(exact, 0x1p-22, a) : near(exact, 22, a);
}
FLUSHED(lg2_approx)

uint32_t ptx_rcp_approx_f32(uint32_t a)
{
    const double exact = 1 / (double)F(a);
    return isinf(exact) || exact == 0 ? ptx_bits_32((float)exact) : about(exact, ulp(exact), a);
}
FLUSHED(rcp_approx)

uint32_t ptx_sqrt_approx_f32(uint32_t a)
{
    return near(sqrt((double)F(a)), 23, a);
}
FLUSHED(sqrt_approx)

uint32_t ptx_rsqrt_approx_f32(uint32_t a)
{
    return near(1 / sqrt((double)F(a)), 22.9, a);
}
FLUSHED(rsqrt_approx)

uint32_t ptx_tanh_approx_f32(uint32_t a)
{
    return near(tanh((double)F(a)), 11, a);
}

uint32_t ptx_sin_approx_f32(uint32_t a)
{
    return about(sin((double)F(a)), 0x1p-20, a);
}

uint32_t ptx_cos_approx_f32(uint32_t a)
{
    return about(cos((double)F(a)), 0x1p-20, a);
}

uint32_t ptx_div_full_f32(uint32_t a, uint32_t v)
{
    const double exact = (double)F(a) / (double)F(v);
    return isinf(exact) || exact == 0 ? ptx_bits_32((float)exact)
                                      : about(exact, 2 * ulp(exact), a ^ v);
}

uint32_t ptx_div_approx_f32(uint32_t a, uint32_t v)
{
    return ptx_div_full_f32(a, v);
}
