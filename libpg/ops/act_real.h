/* act_real.h - activations and their slopes, for the plain C references that apply them: to all
 * elements of a value, or inside a recurrent cell. */
#ifndef PG_OPS_ACT_REAL_H
#define PG_OPS_ACT_REAL_H

#include "ops/real.h"

#define SELU_ALPHA 1.6732632423543772
#define SELU_SCALE 1.0507009873554805
#define SQRT_2_PI  0.7978845608028654 /* sqrt(2 / pi) */
#define GELU_CUBE  0.044715

PG_SHARED real pg__sigmoid(real x)
{
    return 1 / (1 + R(exp)(-x));
}

PG_SHARED real pg__softplus(real x)
{
    return x > 0 ? x + R(log1p)(R(exp)(-x)) : R(log1p)(R(exp)(x));
}

/* Keras' ReLU: f(x) = x, at most max_value, for x > threshold, else slope (x - threshold). */
PG_SHARED real pg__relu(real x, const pg__act_attrs *a)
{
    const real top = (real)a->a, slope = (real)a->b, threshold = (real)a->c;
    if (x > threshold)
        return x < top ? x : top;
    return slope * (x - threshold);
}

PG_SHARED real pg__hard_sigmoid(real x, const pg__act_attrs *a)
{
    const real y = (real)a->a * x + (real)a->b;
    return y < 0 ? 0 : y > 1 ? 1 : y;
}

PG_SHARED real pg__gelu_tanh_inner(real x)
{
    return (real)SQRT_2_PI * (x + (real)GELU_CUBE * x * x * x);
}

PG_SHARED real pg__act_value(real x, const pg__act_attrs *a)
{
    switch (a->kind) {
    case PG_ACT_RELU: return pg__relu(x, a);
    case PG_ACT_SIGMOID: return pg__sigmoid(x);
    case PG_ACT_TANH: return R(tanh)(x);
    case PG_ACT_HARD_SIGMOID: return pg__hard_sigmoid(x, a);
    case PG_ACT_ELU: return x > 0 ? x : (real)a->a * R(expm1)(x);
    case PG_ACT_SELU: return (real)SELU_SCALE * (x > 0 ? x : (real)SELU_ALPHA * R(expm1)(x));
    case PG_ACT_SOFTPLUS: return pg__softplus(x);
    case PG_ACT_SOFTSIGN: return x / (1 + R(fabs)(x));
    case PG_ACT_EXPONENTIAL: return R(exp)(x);
    case PG_ACT_GELU: return (real)0.5 * x * (1 + R(erf)(x * (real)0.7071067811865476));
    case PG_ACT_GELU_TANH: return (real)0.5 * x * (1 + R(tanh)(pg__gelu_tanh_inner(x)));
    case PG_ACT_SWISH: return x * pg__sigmoid(x);
    case PG_ACT_MISH: return x * R(tanh)(pg__softplus(x));
    case PG_ACT_RSQRT: return 1 / R(sqrt)(x);
    }
    return x;
}

/* At the kink it is 0, as in Keras; but that of LeakyReLU, which is one operation there. */
PG_SHARED real pg__relu_slope(real v, const pg__act_attrs *a)
{
    const real top = (real)a->a, slope = (real)a->b, threshold = (real)a->c;
    if (v > threshold)
        return v < top ? 1 : 0;
    return v < threshold || (threshold == 0 && top == INFINITY) ? slope : 0;
}

PG_SHARED real pg__gelu_slope(real x)
{
    const real density = R(exp)((real)-0.5 * x * x) * (real)0.3989422804014327;
    return (real)0.5 * (1 + R(erf)(x * (real)0.7071067811865476)) + x * density;
}

PG_SHARED real pg__gelu_tanh_slope(real x)
{
    const real t = R(tanh)(pg__gelu_tanh_inner(x));
    const real inner = (real)SQRT_2_PI * (1 + 3 * (real)GELU_CUBE * x * x);
    return (real)0.5 * (1 + t) + (real)0.5 * x * (1 - t * t) * inner;
}

PG_SHARED real pg__mish_slope(real x)
{
    const real t = R(tanh)(pg__softplus(x));
    return t + x * (1 - t * t) * pg__sigmoid(x);
}

/* v is the result or the argument, whichever pg__act_needs_x() chose. */
PG_SHARED real pg__act_slope(real v, const pg__act_attrs *a)
{
    switch (a->kind) {
    case PG_ACT_RELU: return pg__relu_slope(v, a);
    case PG_ACT_SIGMOID: return v * (1 - v);
    case PG_ACT_TANH: return 1 - v * v;
    case PG_ACT_HARD_SIGMOID: {
        const real y = (real)a->a * v + (real)a->b;
        return y > 0 && y < 1 ? (real)a->a : 0;
    }
    case PG_ACT_ELU:
        if (a->a <= 0)
            return v > 0 ? 1 : (real)a->a * R(exp)(v);
        return v > 0 ? 1 : v + (real)a->a;
    case PG_ACT_SELU: return v > 0 ? (real)SELU_SCALE : v + (real)(SELU_SCALE * SELU_ALPHA);
    case PG_ACT_SOFTPLUS: /* pg__sigmoid(x) = 1 - exp(-y) */ return -R(expm1)(-v);
    case PG_ACT_SOFTSIGN: { /* 1 + |x| = 1 / (1 - |y|) */
        const real u = 1 - R(fabs)(v);
        return u * u;
    }
    case PG_ACT_EXPONENTIAL: return v;
    case PG_ACT_GELU: return pg__gelu_slope(v);
    case PG_ACT_GELU_TANH: return pg__gelu_tanh_slope(v);
    case PG_ACT_SWISH: {
        const real s = pg__sigmoid(v);
        return s * (1 + v * (1 - s));
    }
    case PG_ACT_MISH: return pg__mish_slope(v);
    case PG_ACT_RSQRT: return (real)-0.5 * v * v * v;
    }
    return 1;
}

/* The slope from the argument, for code that has not kept the result. */
PG_SHARED real pg__act_slope_of_argument(real x, const pg__act_attrs *a)
{
    return pg__act_slope(pg__act_needs_x(a) ? x : pg__act_value(x, a), a);
}

/* The slope from the result alone, as recurrent cells need it: op_rnn.c allows no others. */
PG_SHARED real pg__act_slope_of_result(real y, const pg__act_attrs *a)
{
    if (a->kind == PG_ACT_HARD_SIGMOID)
        return y > 0 && y < 1 ? (real)a->a : 0;
    return pg__act_slope(y, a);
}

#endif
