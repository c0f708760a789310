/* loss_real.h - what losses do to one number, for the plain C references (ref_loss.c) and the GPU.
 * Sources: keras/losses.py and keras/backend.py of 2.15; where versions differ, pg__loss_attrs says
 * which applies. x is the prediction, y the target. */
#ifndef PG_OPS_LOSS_REAL_H
#define PG_OPS_LOSS_REAL_H

#include "ops/act_real.h"

#define LOSS_EPSILON ((real)1e-7)

PG_SHARED real pg__clip(real v, real low, real high)
{
    return v < low ? low : v > high ? high : v;
}
PG_SHARED real pg__clip_probability(real p)
{
    return pg__clip(p, LOSS_EPSILON, 1 - LOSS_EPSILON);
}
PG_SHARED int pg__is_clipped(real p)
{
    return p < LOSS_EPSILON || p > 1 - LOSS_EPSILON;
}
PG_SHARED real pg__sign(real v)
{
    return (real)((v > 0) - (v < 0));
}

/* Targets under label_smoothing; n: of a row. */
PG_SHARED real pg__smooth(const pg__loss_attrs *a, real y, size_t n)
{
    return y * (real)(1 - a->smoothing) + (real)a->smoothing / (real)n;
}
PG_SHARED real pg__smooth_binary(const pg__loss_attrs *a, real y)
{
    return y * (real)(1 - a->smoothing) + (real)(a->smoothing / 2);
}

/* tf.math.l2_normalize: the squared norm is at least 1e-12. */
PG_SHARED int pg__is_floored(real squares)
{
    return squares < (real)1e-12;
}
PG_SHARED real pg__inverse_norm(real squares)
{
    return 1 / R(sqrt)(pg__is_floored(squares) ? (real)1e-12 : squares);
}

/* ---- losses that are means over a row: value and slope of one number ---- */

PG_SHARED real pg__at_least_epsilon(real v)
{
    return v > LOSS_EPSILON ? v : LOSS_EPSILON;
}
PG_SHARED real pg__log_error(real x, real y)
{
    return R(log)(pg__at_least_epsilon(x) + 1) - R(log)(pg__at_least_epsilon(y) + 1);
}
PG_SHARED real pg__plus_minus(real y) /* hinge losses also accept 0 and 1 */
{
    return y == 0 ? -1 : y;
}
PG_SHARED real pg__margin(real x, real y)
{
    const real m = 1 - pg__plus_minus(y) * x;
    return m > 0 ? m : 0;
}
PG_SHARED real pg__log_cosh_of(real e)
{
    const real m = R(fabs)(e); /* |e| + log(1 + exp(-2 |e|)) - log 2 */
    return m + R(log1p)(R(exp)(-2 * m)) - (real)0.6931471805599453;
}
PG_SHARED real pg__huber_of(real e, real delta)
{
    const real m = R(fabs)(e);
    return m <= delta ? e * e / 2 : delta * m - delta * delta / 2;
}
PG_SHARED real pg__binary_of(const pg__loss_attrs *a, real x, real y)
{
    const real t = pg__smooth_binary(a, y), c = pg__clip_probability(x);
    const real add = a->bce == PG_BCE_ADD_EPSILON ? LOSS_EPSILON : 0;
    if (a->logits)
        return (x > 0 ? x : 0) - x * t + R(log1p)(R(exp)(-R(fabs)(x)));
    return -(t * R(log)(c + add) + (1 - t) * R(log)(1 - c + add));
}
PG_SHARED real pg__binary_slope_of(const pg__loss_attrs *a, real x, real y)
{
    const real t = pg__smooth_binary(a, y);
    const real add = a->bce == PG_BCE_ADD_EPSILON ? LOSS_EPSILON : 0;
    if (a->logits)
        return pg__sigmoid(x) - t;
    return pg__is_clipped(x) ? 0 : (1 - t) / (1 - x + add) - t / (x + add);
}

/* The focal loss: a crossentropy times a power of one minus the true class's probability. */
PG_SHARED real pg__focal_missing(const pg__loss_attrs *a, real x, real t)
{
    const real p = a->logits ? pg__sigmoid(x) : x;
    return 1 - (t * p + (1 - t) * (1 - p));
}
PG_SHARED real pg__focal_share(const pg__loss_attrs *a, real t)
{
    const real alpha = (real)a->param;
    return a->balanced ? t * alpha + (1 - t) * (1 - alpha) : 1;
}
PG_SHARED real pg__binary_focal_of(const pg__loss_attrs *a, real x, real y)
{
    const real t = pg__smooth_binary(a, y);
    return pg__focal_share(a, t) * R(pow)(pg__focal_missing(a, x, t), (real)a->gamma) *
           pg__binary_of(a, x, y);
}
PG_SHARED real pg__binary_focal_slope_of(const pg__loss_attrs *a, real x, real y)
{
    const real t = pg__smooth_binary(a, y), gamma = (real)a->gamma;
    const real missing = pg__focal_missing(a, x, t), p = a->logits ? pg__sigmoid(x) : x;
    const real falls = (1 - 2 * t) * (a->logits ? p * (1 - p) : 1);
    const real bends =
        gamma == 0 ? 0 : gamma * R(pow)(missing, gamma - 1) * falls * pg__binary_of(a, x, y);
    return pg__focal_share(a, t) * (bends + R(pow)(missing, gamma) * pg__binary_slope_of(a, x, y));
}

/* For one class with the probability q: the factor of its target, and the slope of that factor. */
PG_SHARED real pg__focal_class(const pg__loss_attrs *a, real q)
{
    const real c = pg__clip_probability(q);
    return -(real)a->param * R(pow)(1 - c, (real)a->gamma) * R(log)(c);
}
PG_SHARED real pg__focal_class_slope(const pg__loss_attrs *a, real q)
{
    const real c = pg__clip_probability(q), gamma = (real)a->gamma;
    const real bends = gamma == 0 ? 0 : gamma * R(pow)(1 - c, gamma - 1) * R(log)(c);
    return pg__is_clipped(q) ? 0 : (real)a->param * (bends - R(pow)(1 - c, gamma) / c);
}

/* MEAN(name, value, slope) */
#define PG_MEAN_LOSSES(MEAN)                                                          \
    MEAN(binary_crossentropy, pg__binary_of(a, x, y), pg__binary_slope_of(a, x, y))   \
    MEAN(binary_focal_crossentropy, pg__binary_focal_of(a, x, y),                     \
         pg__binary_focal_slope_of(a, x, y))                                          \
    MEAN(hinge, pg__margin(x, y), pg__margin(x, y) > 0 ? -pg__plus_minus(y) : 0)      \
    MEAN(huber, pg__huber_of(x - y, (real)a->param),                                  \
         R(fabs)(x - y) <= (real)a->param ? x - y : (real)a->param * pg__sign(x - y)) \
    MEAN(log_cosh, pg__log_cosh_of(x - y), R(tanh)(x - y))                            \
    MEAN(mean_absolute_error, R(fabs)(x - y), pg__sign(x - y))                        \
    MEAN(mean_absolute_percentage_error,                                              \
         100 * R(fabs)((y - x) / pg__at_least_epsilon(R(fabs)(y))),                   \
         100 * pg__sign(x - y) / pg__at_least_epsilon(R(fabs)(y)))                    \
    MEAN(mean_squared_error, (x - y) * (x - y), 2 * (x - y))                          \
    MEAN(mean_squared_logarithmic_error, pg__log_error(x, y) * pg__log_error(x, y),   \
         x > LOSS_EPSILON ? 2 * pg__log_error(x, y) / (x + 1) : 0)                    \
    MEAN(poisson, x - y * R(log)(x + LOSS_EPSILON), 1 - y / (x + LOSS_EPSILON))       \
    MEAN(squared_hinge, pg__margin(x, y) * pg__margin(x, y),                          \
         -2 * pg__margin(x, y) * pg__plus_minus(y))

#define PG_MEAN_LOSS(name, value, slope)                                       \
    PG_SHARED real pg__##name##_value(const pg__loss_attrs *a, real x, real y) \
    {                                                                          \
        PG_UNUSED(a);                                                          \
        return (value);                                                        \
    }                                                                          \
    PG_SHARED real pg__##name##_slope(const pg__loss_attrs *a, real x, real y) \
    {                                                                          \
        PG_UNUSED(a);                                                          \
        return (slope);                                                        \
    }
PG_MEAN_LOSSES(PG_MEAN_LOSS)
#undef PG_MEAN_LOSS

#endif
