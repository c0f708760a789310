/* ref_loss.c - the value and the gradient of every loss for one row of n predictions. Sources:
 * keras/losses.py and keras/backend.py of 2.15; where writers differ, pg__loss_attrs says which. */
#include "ops/real.h"

#define EPSILON ((real)1e-7)

/* y: n numbers, or one int32_t class. grad adds nothing: it sets dp = scale * d loss / d p. */
typedef real (*value_fn)(const pg__loss_attrs *a, const void *y, const real *p, size_t n);
typedef void (*grad_fn)(const pg__loss_attrs *a, const void *y, const real *p, size_t n, real scale,
                        real *dp);

static real clip(real v, real low, real high)
{
    return v < low ? low : v > high ? high : v;
}
static real clip_probability(real p)
{
    return clip(p, EPSILON, 1 - EPSILON);
}
static int is_clipped(real p)
{
    return p < EPSILON || p > 1 - EPSILON;
}
static real sum_of(const real *v, size_t n)
{
    real sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += v[k];
    return sum;
}
static real log_sum_exp(const real *z, size_t n)
{
    real top = z[0], sum = 0;
    for (size_t k = 1; k < n; k++)
        top = z[k] > top ? z[k] : top;
    for (size_t k = 0; k < n; k++)
        sum += R(exp)(z[k] - top);
    return top + R(log)(sum);
}
static real sigmoid(real z)
{
    return 1 / (1 + R(exp)(-z));
}
static real sign(real v)
{
    return (real)((v > 0) - (v < 0));
}

/* categorical_crossentropy: probabilities are scaled to sum 1, then clipped. */
static real smooth(const pg__loss_attrs *a, real y, size_t n)
{
    return y * (real)(1 - a->smoothing) + (real)a->smoothing / (real)n;
}
static real categorical_crossentropy(const pg__loss_attrs *a, const void *target, const real *p,
                                     size_t n)
{
    const real *y = target;
    const real total = a->logits ? log_sum_exp(p, n) : sum_of(p, n);
    real loss = 0;
    for (size_t k = 0; k < n; k++)
        loss -= smooth(a, y[k], n) *
                (a->logits ? p[k] - total : R(log)(clip_probability(p[k] / total)));
    return loss;
}
static void categorical_crossentropy_grad(const pg__loss_attrs *a, const void *target,
                                          const real *p, size_t n, real scale, real *dp)
{
    const real *y = target;
    const real total = a->logits ? log_sum_exp(p, n) : sum_of(p, n);
    real mass = 0; /* of the target, where the logarithm has a slope */
    for (size_t k = 0; k < n; k++)
        mass += a->logits || !is_clipped(p[k] / total) ? smooth(a, y[k], n) : 0;
    for (size_t k = 0; k < n; k++) {
        const real yk = smooth(a, y[k], n);
        if (a->logits)
            dp[k] = scale * (R(exp)(p[k] - total) * mass - yk);
        else
            dp[k] = scale * (mass / total - (is_clipped(p[k] / total) ? 0 : yk / p[k]));
    }
}

/* sparse_categorical_crossentropy: clipped, then the crossentropy of their logarithms as logits. */
static real sparse_categorical_crossentropy(const pg__loss_attrs *a, const void *target,
                                            const real *p, size_t n)
{
    const int32_t c = *(const int32_t *)target;
    real total = 0;
    if (a->logits)
        return log_sum_exp(p, n) - p[c];
    for (size_t k = 0; k < n; k++)
        total += clip_probability(p[k]);
    return R(log)(total) - R(log)(clip_probability(p[c]));
}
static void sparse_categorical_crossentropy_grad(const pg__loss_attrs *a, const void *target,
                                                 const real *p, size_t n, real scale, real *dp)
{
    const size_t c = (size_t) * (const int32_t *)target;
    real total = a->logits ? log_sum_exp(p, n) : 0;
    for (size_t k = 0; !a->logits && k < n; k++)
        total += clip_probability(p[k]);
    for (size_t k = 0; k < n; k++) {
        const real hit = k == c ? 1 : 0;
        if (a->logits)
            dp[k] = scale * (R(exp)(p[k] - total) - hit);
        else
            dp[k] = is_clipped(p[k]) ? 0 : scale * (1 / total - hit / p[k]);
    }
}

/* binary_crossentropy: mean over the row. */
static real smooth_binary(const pg__loss_attrs *a, real y)
{
    return y * (real)(1 - a->smoothing) + (real)(a->smoothing / 2);
}
static real binary_crossentropy(const pg__loss_attrs *a, const void *target, const real *p,
                                size_t n)
{
    const real *y = target, add = a->bce == PG__BCE_ADD_EPSILON ? EPSILON : 0;
    real loss = 0;
    for (size_t k = 0; k < n; k++) {
        const real yk = smooth_binary(a, y[k]), c = clip_probability(p[k]);
        if (a->logits)
            loss += (p[k] > 0 ? p[k] : 0) - p[k] * yk + R(log1p)(R(exp)(-R(fabs)(p[k])));
        else
            loss -= yk * R(log)(c + add) + (1 - yk) * R(log)(1 - c + add);
    }
    return loss / (real)n;
}
static void binary_crossentropy_grad(const pg__loss_attrs *a, const void *target, const real *p,
                                     size_t n, real scale, real *dp)
{
    const real *y = target, add = a->bce == PG__BCE_ADD_EPSILON ? EPSILON : 0;
    const real each = scale / (real)n;
    for (size_t k = 0; k < n; k++) {
        const real yk = smooth_binary(a, y[k]);
        if (a->logits)
            dp[k] = each * (sigmoid(p[k]) - yk);
        else
            dp[k] = is_clipped(p[k]) ? 0 : each * ((1 - yk) / (1 - p[k] + add) - yk / (p[k] + add));
    }
}

/* Means over the row of a function of prediction and target. */
#define MEAN_LOSS(name, value, slope)                                                             \
    static real name(const pg__loss_attrs *a, const void *target, const real *p, size_t n)        \
    {                                                                                             \
        const real *t = target;                                                                   \
        real loss = 0;                                                                            \
        PG_UNUSED(a);                                                                             \
        for (size_t k = 0; k < n; k++) {                                                          \
            const real y = t[k], x = p[k];                                                        \
            loss += (value);                                                                      \
        }                                                                                         \
        return loss / (real)n;                                                                    \
    }                                                                                             \
    static void name##_grad(const pg__loss_attrs *a, const void *target, const real *p, size_t n, \
                            real scale, real *dp)                                                 \
    {                                                                                             \
        const real *t = target;                                                                   \
        PG_UNUSED(a);                                                                             \
        for (size_t k = 0; k < n; k++) {                                                          \
            const real y = t[k], x = p[k];                                                        \
            dp[k] = scale * (slope) / (real)n;                                                    \
        }                                                                                         \
    }

static real at_least_epsilon(real v)
{
    return v > EPSILON ? v : EPSILON;
}
static real log_error(real x, real y)
{
    return R(log)(at_least_epsilon(x) + 1) - R(log)(at_least_epsilon(y) + 1);
}
static real plus_minus(real y) /* hinge losses take 0 and 1 too */
{
    return y == 0 ? -1 : y;
}
static real margin(real x, real y)
{
    const real m = 1 - plus_minus(y) * x;
    return m > 0 ? m : 0;
}
static real log_cosh_of(real e)
{
    const real m = R(fabs)(e); /* |e| + log(1 + exp(-2 |e|)) - log 2 */
    return m + R(log1p)(R(exp)(-2 * m)) - (real)0.6931471805599453;
}
static real huber_of(real e, real delta)
{
    const real m = R(fabs)(e);
    return m <= delta ? e * e / 2 : delta * m - delta * delta / 2;
}

MEAN_LOSS(mean_squared_error, (x - y) * (x - y), 2 * (x - y))
MEAN_LOSS(mean_absolute_error, R(fabs)(x - y), sign(x - y))
MEAN_LOSS(mean_absolute_percentage_error, 100 * R(fabs)((y - x) / at_least_epsilon(R(fabs)(y))),
          100 * sign(x - y) / at_least_epsilon(R(fabs)(y)))
MEAN_LOSS(mean_squared_logarithmic_error, log_error(x, y) * log_error(x, y),
          x > EPSILON ? 2 * log_error(x, y) / (x + 1) : 0)
MEAN_LOSS(hinge, margin(x, y), margin(x, y) > 0 ? -plus_minus(y) : 0)
MEAN_LOSS(squared_hinge, margin(x, y) * margin(x, y), -2 * margin(x, y) * plus_minus(y))
MEAN_LOSS(poisson, x - y * R(log)(x + EPSILON), 1 - y / (x + EPSILON))
MEAN_LOSS(log_cosh, log_cosh_of(x - y), R(tanh)(x - y))
MEAN_LOSS(huber, huber_of(x - y, (real)a->param),
          R(fabs)(x - y) <= (real)a->param ? x - y : (real)a->param * sign(x - y))

/* categorical_hinge: max(0, 1 + max((1-y) p) - sum(y p)). */
static size_t best_wrong(const real *y, const real *p, size_t n)
{
    size_t best = 0;
    for (size_t k = 1; k < n; k++)
        if ((1 - y[k]) * p[k] > (1 - y[best]) * p[best])
            best = k;
    return best;
}
static real categorical_hinge(const pg__loss_attrs *a, const void *target, const real *p, size_t n)
{
    const real *y = target;
    const size_t wrong = best_wrong(y, p, n);
    real right = 0;
    PG_UNUSED(a);
    for (size_t k = 0; k < n; k++)
        right += y[k] * p[k];
    const real loss = 1 + (1 - y[wrong]) * p[wrong] - right;
    return loss > 0 ? loss : 0;
}
static void categorical_hinge_grad(const pg__loss_attrs *a, const void *target, const real *p,
                                   size_t n, real scale, real *dp)
{
    const real *y = target;
    const size_t wrong = best_wrong(y, p, n);
    const real on = categorical_hinge(a, target, p, n) > 0 ? scale : 0;
    for (size_t k = 0; k < n; k++)
        dp[k] = on * ((k == wrong ? 1 - y[k] : 0) - y[k]);
}

/* kl_divergence: both clipped to [eps, 1]; sum y log(y / p). */
static real kl_divergence(const pg__loss_attrs *a, const void *target, const real *p, size_t n)
{
    const real *y = target;
    real loss = 0;
    PG_UNUSED(a);
    for (size_t k = 0; k < n; k++) {
        const real yk = clip(y[k], EPSILON, 1);
        loss += yk * R(log)(yk / clip(p[k], EPSILON, 1));
    }
    return loss;
}
static void kl_divergence_grad(const pg__loss_attrs *a, const void *target, const real *p, size_t n,
                               real scale, real *dp)
{
    const real *y = target;
    PG_UNUSED(a);
    for (size_t k = 0; k < n; k++)
        dp[k] = p[k] < EPSILON || p[k] > 1 ? 0 : -scale * clip(y[k], EPSILON, 1) / p[k];
}

/* cosine_similarity: minus the sum of products of both, L2-normalised (tf.math.l2_normalize: the
 * squared norm is at least 1e-12). */
static real inverse_norm(const real *v, size_t n, int *floored)
{
    real squares = 0;
    for (size_t k = 0; k < n; k++)
        squares += v[k] * v[k];
    *floored = squares < (real)1e-12;
    return 1 / R(sqrt)(*floored ? (real)1e-12 : squares);
}
static real cosine_similarity(const pg__loss_attrs *a, const void *target, const real *p, size_t n)
{
    const real *y = target;
    int floored;
    const real iy = inverse_norm(y, n, &floored), ip = inverse_norm(p, n, &floored);
    real loss = 0;
    PG_UNUSED(a);
    for (size_t k = 0; k < n; k++)
        loss -= y[k] * iy * p[k] * ip;
    return loss;
}
static void cosine_similarity_grad(const pg__loss_attrs *a, const void *target, const real *p,
                                   size_t n, real scale, real *dp)
{
    const real *y = target;
    int floored;
    const real cosine = -cosine_similarity(a, target, p, n);
    const real iy = inverse_norm(y, n, &floored), ip = inverse_norm(p, n, &floored);
    for (size_t k = 0; k < n; k++)
        dp[k] = -scale * ip * (y[k] * iy - (floored ? 0 : cosine * p[k] * ip));
}

/* jaccard_distance, as users of segmentation define it: (1 - (I + s) / (T - I + s)) s with
 * I = sum |y p| and T = sum (|y| + |p|). */
static void jaccard_sums(const real *y, const real *p, size_t n, real *both, real *total)
{
    *both = *total = 0;
    for (size_t k = 0; k < n; k++) {
        *both += R(fabs)(y[k] * p[k]);
        *total += R(fabs)(y[k]) + R(fabs)(p[k]);
    }
}
static real jaccard_distance(const pg__loss_attrs *a, const void *target, const real *p, size_t n)
{
    const real s = (real)a->param;
    real both, total;
    jaccard_sums(target, p, n, &both, &total);
    return (1 - (both + s) / (total - both + s)) * s;
}
static void jaccard_distance_grad(const pg__loss_attrs *a, const void *target, const real *p,
                                  size_t n, real scale, real *dp)
{
    const real *y = target, s = (real)a->param;
    real both, total;
    jaccard_sums(y, p, n, &both, &total);
    const real below = total - both + s;
    for (size_t k = 0; k < n; k++) {
        const real d_both = R(fabs)(y[k]) * sign(p[k]), d_total = sign(p[k]);
        dp[k] = -scale * s * (d_both * below - (both + s) * (d_total - d_both)) / (below * below);
    }
}

static const struct {
    value_fn value;
    grad_fn grad;
} losses[PG__N_LOSSES] = {
#define PG_LOSS(name, target) {name, name##_grad},
#include "ops/losses.def"
#undef PG_LOSS
};

/* The target of row r: n numbers, or a class. */
static const void *target_of(const pg__loss_attrs *a, const pg__arg *y, size_t r, size_t n)
{
    if (pg__loss_takes_class(a->kind))
        return (const int32_t *)y->p + r;
    return pg__reals(y) + r * n;
}

void PG_REF(loss)(PG_REF_ARGS)
{
    const pg__loss_attrs *a = attrs_;
    const size_t rows = pg__rows(&in[0]), n = pg__last(in[0].shape);
    const real *p = pg__reals(&in[0]), *w = pg__reals(&in[2]);
    real *loss = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < rows; r++)
        loss[r] =
            (w ? w[r] : 1) * losses[a->kind].value(a, target_of(a, &in[1], r, n), p + r * n, n);
}

void PG_REF(loss_grad)(PG_REF_ARGS)
{
    const pg__loss_attrs *a = attrs_;
    const size_t rows = pg__rows(&in[0]), n = pg__last(in[0].shape);
    const real *p = pg__reals(&in[0]), *w = pg__reals(&in[2]), seed = *pg__reals(&in[3]);
    real *dp = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < rows; r++)
        losses[a->kind].grad(a, target_of(a, &in[1], r, n), p + r * n, n, seed * (w ? w[r] : 1),
                             dp + r * n);
}
