/* ref_act.c - activations and their slopes. */
#include "ops/real.h"

#define SELU_ALPHA 1.6732632423543772
#define SELU_SCALE 1.0507009873554805
#define SQRT_2_PI  0.7978845608028654 /* sqrt(2 / pi) */
#define GELU_CUBE  0.044715

static real sigmoid(real x)
{
    return 1 / (1 + R(exp)(-x));
}

static real softplus(real x)
{
    return x > 0 ? x + R(log1p)(R(exp)(-x)) : R(log1p)(R(exp)(x));
}

/* Keras' ReLU: f(x) = max_value for x >= max_value, x for threshold <= x, else slope (x -
 * threshold). Its gradient at the kink is 0, as TensorFlow's. */
static real relu(real x, const pg__act_attrs *a)
{
    const real top = (real)a->a, slope = (real)a->b, threshold = (real)a->c;
    if (x >= top)
        return top;
    if (threshold == 0 ? x > 0 : x >= threshold)
        return x;
    return slope * (x - threshold);
}

static real hard_sigmoid(real x, const pg__act_attrs *a)
{
    const real y = (real)a->a * x + (real)a->b;
    return y < 0 ? 0 : y > 1 ? 1 : y;
}

static real gelu_tanh_inner(real x)
{
    return (real)SQRT_2_PI * (x + (real)GELU_CUBE * x * x * x);
}

static real act(real x, const pg__act_attrs *a)
{
    switch (a->kind) {
    case PG__ACT_RELU: return relu(x, a);
    case PG__ACT_SIGMOID: return sigmoid(x);
    case PG__ACT_TANH: return R(tanh)(x);
    case PG__ACT_HARD_SIGMOID: return hard_sigmoid(x, a);
    case PG__ACT_ELU: return x > 0 ? x : (real)a->a * R(expm1)(x);
    case PG__ACT_SELU: return (real)SELU_SCALE * (x > 0 ? x : (real)SELU_ALPHA * R(expm1)(x));
    case PG__ACT_SOFTPLUS: return softplus(x);
    case PG__ACT_SOFTSIGN: return x / (1 + R(fabs)(x));
    case PG__ACT_EXPONENTIAL: return R(exp)(x);
    case PG__ACT_GELU: return (real)0.5 * x * (1 + R(erf)(x * (real)0.7071067811865476));
    case PG__ACT_GELU_TANH: return (real)0.5 * x * (1 + R(tanh)(gelu_tanh_inner(x)));
    case PG__ACT_SWISH: return x * sigmoid(x);
    case PG__ACT_MISH: return x * R(tanh)(softplus(x));
    }
    return x;
}

void PG_REF(act)(PG_REF_ARGS)
{
    const pg__act_attrs *a = attrs_;
    const real *x = pg__reals(&in[0]);
    real *y = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t k = 0; k < out[0].n; k++)
        y[k] = act(x[k], a);
}

static real relu_slope(real v, const pg__act_attrs *a)
{
    const real top = (real)a->a, slope = (real)a->b, threshold = (real)a->c;
    if (v >= top)
        return 0;
    return (threshold == 0 ? v > 0 : v >= threshold) ? 1 : slope;
}

static real gelu_slope(real x)
{
    const real density = R(exp)((real)-0.5 * x * x) * (real)0.3989422804014327;
    return (real)0.5 * (1 + R(erf)(x * (real)0.7071067811865476)) + x * density;
}

static real gelu_tanh_slope(real x)
{
    const real t = R(tanh)(gelu_tanh_inner(x));
    const real inner = (real)SQRT_2_PI * (1 + 3 * (real)GELU_CUBE * x * x);
    return (real)0.5 * (1 + t) + (real)0.5 * x * (1 - t * t) * inner;
}

static real mish_slope(real x)
{
    const real t = R(tanh)(softplus(x));
    return t + x * (1 - t * t) * sigmoid(x);
}

/* v is the result or the argument, whichever op_act.c chose. */
static real slope(real v, const pg__act_attrs *a)
{
    switch (a->kind) {
    case PG__ACT_RELU: return relu_slope(v, a);
    case PG__ACT_SIGMOID: return v * (1 - v);
    case PG__ACT_TANH: return 1 - v * v;
    case PG__ACT_HARD_SIGMOID: {
        const real y = (real)a->a * v + (real)a->b;
        return y > 0 && y < 1 ? (real)a->a : 0;
    }
    case PG__ACT_ELU:
        if (a->a <= 0)
            return v > 0 ? 1 : (real)a->a * R(exp)(v);
        return v > 0 ? 1 : v + (real)a->a;
    case PG__ACT_SELU: return v > 0 ? (real)SELU_SCALE : v + (real)(SELU_SCALE * SELU_ALPHA);
    case PG__ACT_SOFTPLUS: /* sigmoid(x) = 1 - exp(-y) */ return -R(expm1)(-v);
    case PG__ACT_SOFTSIGN: { /* 1 + |x| = 1 / (1 - |y|) */
        const real u = 1 - R(fabs)(v);
        return u * u;
    }
    case PG__ACT_EXPONENTIAL: return v;
    case PG__ACT_GELU: return gelu_slope(v);
    case PG__ACT_GELU_TANH: return gelu_tanh_slope(v);
    case PG__ACT_SWISH: {
        const real s = sigmoid(v);
        return s * (1 + v * (1 - s));
    }
    case PG__ACT_MISH: return mish_slope(v);
    }
    return 1;
}

void PG_REF(act_grad)(PG_REF_ARGS)
{
    const pg__act_attrs *a = attrs_;
    const real *v = pg__reals(&in[0]), *dy = pg__reals(&in[1]);
    real *dx = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t k = 0; k < out[0].n; k++)
        dx[k] = dy[k] * slope(v[k], a);
}
