/* vmath.h - exp, log, tanh, ... of floats, written so that compilers can vectorise loops over them:
 * no branches, no tables, no calls. For files that are compiled once for each instruction set
 * (isa.h).
 *
 * Errors over all floats, in units of the last place (tests/backend/cpu/test_vmath.c): tanh and
 * sigmoid 3, all others 2. NaN gives NaN, results too large for a float infinity, denormals are
 * kept. */
#ifndef PG_BACKEND_CPU_VMATH_H
#define PG_BACKEND_CPU_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline int32_t pg__bits_of(float x)
{
    int32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}
static inline float pg__of_bits(int32_t b)
{
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}

#define PG_VM_LOG2E  1.44269504088896341f
#define PG_VM_LN2_HI 0.693359375f /* 9 bits: its product with a small integer is exact */
#define PG_VM_LN2_LO (-2.12194440e-4f)
#define PG_VM_LN2    0.693147180559945309f
#define PG_VM_ROUND  12582912.0f /* 1.5 x 2^23: added, it rounds to an integer in the last bits */

/* x = n ln 2 + r; returns exp(r) - 1, |r| <= 0.35. */
static inline float pg__vm_reduce(float x, int32_t *n)
{
    const float t = x * PG_VM_LOG2E + PG_VM_ROUND, whole = t - PG_VM_ROUND;
    const float r = (x - whole * PG_VM_LN2_HI) - whole * PG_VM_LN2_LO;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    *n = (int32_t)((uint32_t)pg__bits_of(t) - 0x4b400000u);
    return p * (r * r) + r;
}

/* 2^n, -126 <= n <= 127 */
static inline float pg__vm_power(int32_t n)
{
    return pg__of_bits((int32_t)((uint32_t)(n + 127) << 23));
}

static inline float pg__vexp(float x)
{
    int32_t n;
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    const float p = pg__vm_reduce(x, &n) + 1.0f;
    const int32_t half = n >> 1; /* in two steps: 2^n itself may not fit into a float */
    return p * pg__vm_power(half) * pg__vm_power(n - half);
}

/* pg__vexp() for x <= 0, with fewer steps to the same bits */
static inline float pg__vexp_down(float x)
{
    int32_t n;
    x = x < -104.0f ? -104.0f : x;
    const float p = pg__vm_reduce(x, &n) + 1.0f;
    return p * pg__vm_power(n + 64) * 5.42101086e-20f; /* 2^-64: the result may be a denormal */
}

/* exp(x) - 1 for x <= 0 */
static inline float pg__vm_expm1_down(float x)
{
    int32_t n;
    x = x < -40.0f ? -40.0f : x;
    const float p = pg__vm_reduce(x, &n), s = pg__vm_power(n);
    return p * s + (s - 1.0f);
}

/* exp(x) - 1 */
static inline float pg__vexpm1(float x)
{
    int32_t n;
    x = x > 89.0f ? 89.0f : x;
    x = x < -40.0f ? -40.0f : x;
    const float p = pg__vm_reduce(x, &n);
    const int32_t half = n >> 1;
    const float s = pg__vm_power(half), rest = pg__vm_power(n - half);
    return n > 30 ? (p + 1.0f) * s * rest : p * (s * rest) + (s * rest - 1.0f);
}

static inline float pg__vtanh(float x)
{
    const float e = pg__vm_expm1_down(-2.0f * fabsf(x));
    return copysignf(e / (e + 2.0f), x);
}

static inline float pg__vsigmoid(float x)
{
    const float e = pg__vexp_down(-fabsf(x));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

/* log(1 + m), -1/3 <= m <= 1/3, plus n ln 2 */
static inline float pg__vm_log(float m, float n)
{
    const float s = m * m;
    float r = -0.130310059f, t = 0.140869141f;
    r = r * s - 0.121483512f;
    t = t * s + 0.139814854f;
    r = r * s - 0.166846126f;
    t = t * s + 0.200120345f;
    r = r * s - 0.249996200f;
    r = t * m + r;
    r = r * m + 0.333331972f;
    r = r * m - 0.5f;
    r = r * s + m;
    return n * PG_VM_LN2 + r;
}

static inline float pg__vlog(float x)
{
    const int tiny = x < 1.17549435e-38f;
    const float a = tiny ? x * 8388608.0f : x;
    const int32_t e = (int32_t)(((uint32_t)pg__bits_of(a) - 0x3f2aaaabu) & 0xff800000u);
    const float m = pg__of_bits((int32_t)((uint32_t)pg__bits_of(a) - (uint32_t)e)) - 1.0f;
    const float n = (float)e * 1.19209290e-7f + (tiny ? -23.0f : 0.0f);
    const float y = pg__vm_log(m, n);
    const float odd = x == 0 ? -INFINITY : x < 0 ? NAN : x + x; /* infinity, NaN */
    return x > 0 && x < INFINITY ? y : odd;
}

/* log(1 + exp(-|x|)) */
static inline float pg__vlog1pexp_down(float x)
{
    const float z = pg__vexp_down(-fabsf(x));
    const int large = z > 0.33333333f;
    return pg__vm_log(large ? (z - 1.0f) * 0.5f : z, large ? 1.0f : 0.0f);
}

/* log(1 + exp(x)) */
static inline float pg__vsoftplus(float x)
{
    return (x > 0 ? x : 0.0f) + pg__vlog1pexp_down(x);
}

static inline float pg__verf(float x)
{
    const float t = fabsf(x), s = x * x;
    float far = -1.72853470e-5f * t + 3.83197126e-4f; /* log(1 - erf(t)) */
    far = far * s + (-3.88396438e-3f * t + 2.42546219e-2f);
    far = far * t - 1.06777877e-1f;
    far = far * t - 6.34846687e-1f;
    far = far * t - 1.28717512e-1f;
    far = far * t - t;
    float near = -5.96761703e-4f;
    near = near * s + 4.99119423e-3f;
    near = near * s - 2.67681349e-2f;
    near = near * s + 1.12819925e-1f;
    near = near * s - 3.76125336e-1f;
    near = near * s + 1.28379166e-1f;
    near = near * x + x;
    /* from 4 on erf is 1 */
    far = copysignf(1.0f - pg__vexp_down(t > 4.0f ? -20.0f : far), x);
    return t > 0.927734375f ? far : near;
}

#endif
