/* act_vec.h - activations and their slopes as in ops/act_real.h, without branches and calls.
 * Callers pass a constant `kind`, so that only one case remains. */
#ifndef PG_BACKEND_CPU_ACT_VEC_H
#define PG_BACKEND_CPU_ACT_VEC_H

#include "backend/cpu/vmath.h"
#include "ops/attrs.h"

#define PG_SELU_ALPHA 1.6732632423543772f
#define PG_SELU_SCALE 1.0507009873554805f
#define PG_SQRT_2_PI  0.7978845608028654f
#define PG_SQRT_HALF  0.7071067811865476f

/* Attributes as floats. */
typedef struct pg__act_consts {
    float a, b, c;
} pg__act_consts;

static inline pg__act_consts pg__act_consts_of(const pg__act_attrs *a)
{
    return (pg__act_consts){(float)a->a, (float)a->b, (float)a->c};
}

static inline float pg__vgelu_tanh_inner(float x)
{
    return PG_SQRT_2_PI * (x + 0.044715f * x * x * x);
}

/* tanh(softplus(x)) = n / (n + 2) with n = e (e + 2), e = exp(x) */
static inline float pg__vtanh_softplus(float x)
{
    const float e = pg__vexp(x > 20.0f ? 20.0f : x), n = e * (e + 2.0f);
    return n / (n + 2.0f);
}

static inline float pg__vrelu(float x, pg__act_consts k)
{
    const float on = x < k.a ? x : k.a;
    return x > k.c ? on : k.b * (x - k.c);
}

static inline float pg__vact(pg__act_kind kind, float x, pg__act_consts k)
{
    switch (kind) {
    case PG_ACT_RELU: return pg__vrelu(x, k);
    case PG_ACT_SIGMOID: return pg__vsigmoid(x);
    case PG_ACT_TANH: return pg__vtanh(x);
    case PG_ACT_HARD_SIGMOID: {
        const float y = k.a * x + k.b, low = y < 0 ? 0 : y;
        return low > 1.0f ? 1.0f : low;
    }
    case PG_ACT_ELU: return x > 0 ? x : k.a * pg__vexpm1(x);
    case PG_ACT_SELU: return PG_SELU_SCALE * (x > 0 ? x : PG_SELU_ALPHA * pg__vexpm1(x));
    case PG_ACT_SOFTPLUS: return pg__vsoftplus(x);
    case PG_ACT_SOFTSIGN: return x / (1.0f + fabsf(x));
    case PG_ACT_EXPONENTIAL: return pg__vexp(x);
    case PG_ACT_GELU: return 0.5f * x * (1.0f + pg__verf(x * PG_SQRT_HALF));
    case PG_ACT_GELU_TANH: return 0.5f * x * (1.0f + pg__vtanh(pg__vgelu_tanh_inner(x)));
    case PG_ACT_SWISH: return x * pg__vsigmoid(x);
    case PG_ACT_MISH: return x * pg__vtanh_softplus(x);
    case PG_ACT_RSQRT: return 1.0f / sqrtf(x);
    }
    return x;
}

static inline float pg__vrelu_slope(float v, pg__act_consts k)
{
    const float at_kink = k.c == 0 && k.a == INFINITY ? k.b : 0;
    const float on = v < k.a ? 1.0f : 0, off = v < k.c ? k.b : at_kink;
    return v > k.c ? on : off;
}

static inline float pg__vgelu_slope(float x)
{
    const float density = pg__vexp_down(-0.5f * x * x) * 0.3989422804014327f;
    return 0.5f * (1.0f + pg__verf(x * PG_SQRT_HALF)) + x * density;
}

static inline float pg__vgelu_tanh_slope(float x)
{
    const float t = pg__vtanh(pg__vgelu_tanh_inner(x));
    const float inner = PG_SQRT_2_PI * (1.0f + 3.0f * 0.044715f * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

/* v: the result or the argument, as pg__act_slope() of ops/act_real.h takes it. */
static inline float pg__vact_slope(pg__act_kind kind, float v, pg__act_consts k)
{
    switch (kind) {
    case PG_ACT_RELU: return pg__vrelu_slope(v, k);
    case PG_ACT_SIGMOID: return v * (1.0f - v);
    case PG_ACT_TANH: return 1.0f - v * v;
    case PG_ACT_HARD_SIGMOID: {
        const float y = k.a * v + k.b;
        return ((y > 0) & (y < 1.0f)) ? k.a : 0;
    }
    case PG_ACT_ELU: return v > 0 ? 1.0f : k.a <= 0 ? k.a * pg__vexp(v) : v + k.a;
    case PG_ACT_SELU: return v > 0 ? PG_SELU_SCALE : v + PG_SELU_SCALE * PG_SELU_ALPHA;
    case PG_ACT_SOFTPLUS: return -pg__vexpm1(-v);
    case PG_ACT_SOFTSIGN: return (1.0f - fabsf(v)) * (1.0f - fabsf(v));
    case PG_ACT_EXPONENTIAL: return v;
    case PG_ACT_GELU: return pg__vgelu_slope(v);
    case PG_ACT_GELU_TANH: return pg__vgelu_tanh_slope(v);
    case PG_ACT_SWISH: {
        const float s = pg__vsigmoid(v);
        return s * (1.0f + v * (1.0f - s));
    }
    case PG_ACT_MISH: {
        const float t = pg__vtanh_softplus(v);
        return t + v * (1.0f - t * t) * pg__vsigmoid(v);
    }
    case PG_ACT_RSQRT: return -0.5f * v * v * v;
    }
    return 1.0f;
}

/* The slope from the argument for every kind, as pg__act_slope_of_argument(). */
static inline float pg__vact_slope_of_argument(pg__act_kind kind, float x, pg__act_consts k)
{
    switch (kind) {
    case PG_ACT_SIGMOID:
    case PG_ACT_TANH:
    case PG_ACT_SELU:
    case PG_ACT_SOFTPLUS:
    case PG_ACT_SOFTSIGN:
    case PG_ACT_EXPONENTIAL:
    case PG_ACT_RSQRT: return pg__vact_slope(kind, pg__vact(kind, x, k), k);
    case PG_ACT_ELU: return x > 0 ? 1.0f : k.a * pg__vexp(x);
    case PG_ACT_RELU:
    case PG_ACT_HARD_SIGMOID:
    case PG_ACT_GELU:
    case PG_ACT_GELU_TANH:
    case PG_ACT_SWISH:
    case PG_ACT_MISH: break;
    }
    return pg__vact_slope(kind, x, k);
}

/* Runs DO(constant kind) for a->kind: one loop for each kind. */
#define PG_FOR_ACT(kind, DO)                                  \
    switch (kind) {                                           \
    case PG_ACT_RELU: DO(PG_ACT_RELU); break;                 \
    case PG_ACT_SIGMOID: DO(PG_ACT_SIGMOID); break;           \
    case PG_ACT_TANH: DO(PG_ACT_TANH); break;                 \
    case PG_ACT_HARD_SIGMOID: DO(PG_ACT_HARD_SIGMOID); break; \
    case PG_ACT_ELU: DO(PG_ACT_ELU); break;                   \
    case PG_ACT_SELU: DO(PG_ACT_SELU); break;                 \
    case PG_ACT_SOFTPLUS: DO(PG_ACT_SOFTPLUS); break;         \
    case PG_ACT_SOFTSIGN: DO(PG_ACT_SOFTSIGN); break;         \
    case PG_ACT_EXPONENTIAL: DO(PG_ACT_EXPONENTIAL); break;   \
    case PG_ACT_GELU: DO(PG_ACT_GELU); break;                 \
    case PG_ACT_GELU_TANH: DO(PG_ACT_GELU_TANH); break;       \
    case PG_ACT_SWISH: DO(PG_ACT_SWISH); break;               \
    case PG_ACT_MISH: DO(PG_ACT_MISH); break;                 \
    case PG_ACT_RSQRT: DO(PG_ACT_RSQRT); break;               \
    }

#endif
