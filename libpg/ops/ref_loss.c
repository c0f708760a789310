/* ref_loss.c - the value and the gradient of every loss for one row of n predictions; loss_real.h
 * has what they do to one number. */
#include "ops/loss_real.h"

/* y: n numbers, or one int32_t class. grad adds nothing: it sets dp = scale * d loss / d p. */
typedef real (*value_fn)(const pg__loss_attrs *a, const void *y, const real *p, size_t n);
typedef void (*grad_fn)(const pg__loss_attrs *a, const void *y, const real *p, size_t n, real scale,
                        real *dp);

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
/* categorical_crossentropy: probabilities are scaled to sum 1, then clipped. */
static real categorical_crossentropy(const pg__loss_attrs *a, const void *target, const real *p,
                                     size_t n)
{
    const real *y = target;
    const real total = a->logits ? log_sum_exp(p, n) : sum_of(p, n);
    real loss = 0;
    for (size_t k = 0; k < n; k++)
        loss -= pg__smooth(a, y[k], n) *
                (a->logits ? p[k] - total : R(log)(pg__clip_probability(p[k] / total)));
    return loss;
}
static void categorical_crossentropy_grad(const pg__loss_attrs *a, const void *target,
                                          const real *p, size_t n, real scale, real *dp)
{
    const real *y = target;
    const real total = a->logits ? log_sum_exp(p, n) : sum_of(p, n);
    real mass = 0; /* of the target, where the logarithm has a slope */
    for (size_t k = 0; k < n; k++)
        mass += a->logits || !pg__is_clipped(p[k] / total) ? pg__smooth(a, y[k], n) : 0;
    for (size_t k = 0; k < n; k++) {
        const real yk = pg__smooth(a, y[k], n);
        if (a->logits)
            dp[k] = scale * (R(exp)(p[k] - total) * mass - yk);
        else
            dp[k] = scale * (mass / total - (pg__is_clipped(p[k] / total) ? 0 : yk / p[k]));
    }
}

/* categorical_focal_crossentropy: of probabilities that sum to 1. */
static real probability(const pg__loss_attrs *a, real p, real total)
{
    return a->logits ? R(exp)(p - total) : p / total;
}
static real categorical_focal_crossentropy(const pg__loss_attrs *a, const void *target,
                                           const real *p, size_t n)
{
    const real *y = target;
    const real total = a->logits ? log_sum_exp(p, n) : sum_of(p, n);
    real loss = 0;
    for (size_t k = 0; k < n; k++)
        loss += pg__smooth(a, y[k], n) * pg__focal_class(a, probability(a, p[k], total));
    return loss;
}
static void categorical_focal_crossentropy_grad(const pg__loss_attrs *a, const void *target,
                                                const real *p, size_t n, real scale, real *dp)
{
    const real *y = target;
    const real total = a->logits ? log_sum_exp(p, n) : sum_of(p, n);
    real along = 0;
    for (size_t k = 0; k < n; k++) {
        const real q = probability(a, p[k], total);
        dp[k] = pg__smooth(a, y[k], n) * pg__focal_class_slope(a, q);
        along += dp[k] * q;
    }
    for (size_t k = 0; k < n; k++)
        dp[k] = scale * (dp[k] - along) * (a->logits ? probability(a, p[k], total) : 1 / total);
}

/* sparse_categorical_crossentropy: clipped, then the crossentropy of their logarithms as logits. */
static real sparse_categorical_crossentropy(const pg__loss_attrs *a, const void *target,
                                            const real *p, size_t n)
{
    const int32_t c = *(const int32_t *)target;
    real total = 0;
    if (a->ignores && c == a->ignored)
        return 0;
    if (a->logits)
        return log_sum_exp(p, n) - p[c];
    for (size_t k = 0; k < n; k++)
        total += pg__clip_probability(p[k]);
    return R(log)(total) - R(log)(pg__clip_probability(p[c]));
}
static void sparse_categorical_crossentropy_grad(const pg__loss_attrs *a, const void *target,
                                                 const real *p, size_t n, real scale, real *dp)
{
    const size_t c = (size_t) * (const int32_t *)target;
    const int ignored = a->ignores && *(const int32_t *)target == a->ignored;
    real total = a->logits ? log_sum_exp(p, n) : 0;
    for (size_t k = 0; !a->logits && k < n; k++)
        total += pg__clip_probability(p[k]);
    for (size_t k = 0; k < n; k++) {
        const real hit = k == c ? 1 : 0;
        if (ignored)
            dp[k] = 0;
        else if (a->logits)
            dp[k] = scale * (R(exp)(p[k] - total) - hit);
        else
            dp[k] = pg__is_clipped(p[k]) ? 0 : scale * (1 / total - hit / p[k]);
    }
}

/* Means over the row of a function of prediction and target. */
#define MEAN_LOSS(name, value, slope)                                                             \
    static real name(const pg__loss_attrs *a, const void *target, const real *p, size_t n)        \
    {                                                                                             \
        const real *y = target;                                                                   \
        real loss = 0;                                                                            \
        for (size_t k = 0; k < n; k++)                                                            \
            loss += pg__##name##_value(a, p[k], y[k]);                                            \
        return loss / (real)n;                                                                    \
    }                                                                                             \
    static void name##_grad(const pg__loss_attrs *a, const void *target, const real *p, size_t n, \
                            real scale, real *dp)                                                 \
    {                                                                                             \
        const real *y = target;                                                                   \
        for (size_t k = 0; k < n; k++)                                                            \
            dp[k] = scale * pg__##name##_slope(a, p[k], y[k]) / (real)n;                          \
    }
PG_MEAN_LOSSES(MEAN_LOSS)
#undef MEAN_LOSS

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
        const real yk = pg__clip(y[k], LOSS_EPSILON, 1);
        loss += yk * R(log)(yk / pg__clip(p[k], LOSS_EPSILON, 1));
    }
    return loss;
}
static void kl_divergence_grad(const pg__loss_attrs *a, const void *target, const real *p, size_t n,
                               real scale, real *dp)
{
    const real *y = target;
    PG_UNUSED(a);
    for (size_t k = 0; k < n; k++)
        dp[k] =
            p[k] < LOSS_EPSILON || p[k] > 1 ? 0 : -scale * pg__clip(y[k], LOSS_EPSILON, 1) / p[k];
}

/* cosine_similarity: minus the sum of products of both, L2-normalised. */
static real squares_of(const real *v, size_t n)
{
    real squares = 0;
    for (size_t k = 0; k < n; k++)
        squares += v[k] * v[k];
    return squares;
}
static real cosine_similarity(const pg__loss_attrs *a, const void *target, const real *p, size_t n)
{
    const real *y = target;
    const real iy = pg__inverse_norm(squares_of(y, n)), ip = pg__inverse_norm(squares_of(p, n));
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
    const real cosine = -cosine_similarity(a, target, p, n), squares = squares_of(p, n);
    const real iy = pg__inverse_norm(squares_of(y, n)), ip = pg__inverse_norm(squares);
    const int floored = pg__is_floored(squares);
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
        const real d_both = R(fabs)(y[k]) * pg__sign(p[k]), d_total = pg__sign(p[k]);
        dp[k] = -scale * s * (d_both * below - (both + s) * (d_total - d_both)) / (below * below);
    }
}

static const struct {
    value_fn value;
    grad_fn grad;
} losses[PG_N_LOSSES] = {
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
