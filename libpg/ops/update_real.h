/* update_real.h - the update rules, one number at a time, for the plain C references and the GPU.
 * Keras computes in float32, and so does the float version: hyperparameters are rounded to the
 * type, before 1 is taken from them in the legacy rules, Nadam and Lion, afterwards (rest_...) in
 * the others. A rule is pg__step_<name>() of optimizers.def: number i of w by that of g; s: the
 * slots, NULL where the rule does not use one. */
#ifndef PG_OPS_UPDATE_REAL_H
#define PG_OPS_UPDATE_REAL_H

#include "ops/real.h"

typedef struct pg__rates {
    real lr, momentum, rho, beta_1, beta_2, epsilon, alpha, shrink;
    real rest_rho, rest_1, rest_2, rest_average; /* 1 - rho, beta_1, beta_2, average */
    real m_share, g_share, v_correction;
    real power, l1, l2, shrinkage, average;
    int nesterov, amsgrad, centered, to_average;
} pg__rates;

static inline real pg__rest_of(const pg__update *u, double share)
{
    return u->rounds_first ? 1 - (real)share : (real)(1 - share);
}

static inline pg__rates pg__rates_of(const pg__update *u)
{
    pg__rates r;
    r.lr = (real)u->lr;
    r.momentum = (real)u->momentum;
    r.rho = (real)u->rho;
    r.beta_1 = (real)u->beta_1;
    r.beta_2 = (real)u->beta_2;
    r.epsilon = (real)u->epsilon;
    r.alpha = (real)u->alpha;
    r.shrink = (real)u->weight_decay;
    r.rest_rho = pg__rest_of(u, u->rho);
    r.rest_1 = pg__rest_of(u, u->beta_1);
    r.rest_2 = pg__rest_of(u, u->beta_2);
    r.rest_average = pg__rest_of(u, u->average);
    r.m_share = (real)u->m_share;
    r.g_share = (real)u->g_share;
    r.v_correction = (real)u->v_correction;
    r.nesterov = u->nesterov;
    r.amsgrad = u->amsgrad;
    r.centered = u->centered;
    r.power = (real)u->power;
    r.l1 = (real)u->l1;
    r.l2 = (real)u->l2;
    r.shrinkage = (real)u->shrinkage;
    r.average = (real)u->average;
    r.to_average = u->to_average;
    return r;
}

#define PG_STEP(name)                                                                    \
    PG_SHARED void pg__step_##name(const pg__rates *u, size_t i, real *w, const real *g, \
                                   real *const *s)

PG_STEP(sgd)
{
    PG_UNUSED(s);
    w[i] -= u->lr * g[i];
}

PG_STEP(sgd_momentum)
{
    const real mu = u->momentum, step = u->lr * g[i];
    real *v = s[0];
    v[i] = mu * v[i] - step;
    w[i] += u->nesterov ? mu * v[i] - step : v[i];
}

/* slots: average of squares; momentum; average of gradients (centered). Epsilon is inside the root,
 * except in the legacy rule without momentum. */
PG_SHARED void pg__step_of_rmsprop(const pg__rates *u, size_t i, real *w, const real *g,
                                   real *const *s, int epsilon_outside)
{
    const real rho = u->rho, mu = u->momentum, eps = u->epsilon;
    real *a = s[0], *m = s[1], *mg = s[2];
    a[i] = rho * a[i] + u->rest_rho * g[i] * g[i];
    real variance = a[i];
    if (u->centered) {
        mg[i] = rho * mg[i] + u->rest_rho * g[i];
        variance -= mg[i] * mg[i];
    }
    const real root = epsilon_outside ? R(sqrt)(variance) + eps : R(sqrt)(variance + eps);
    real step = u->lr * g[i] / root;
    if (mu > 0)
        step = m[i] = mu * m[i] + step;
    w[i] -= step;
}
PG_STEP(rmsprop)
{
    pg__step_of_rmsprop(u, i, w, g, s, 0);
}
PG_STEP(rmsprop_legacy)
{
    pg__step_of_rmsprop(u, i, w, g, s, u->momentum == 0);
}

/* slots: m, v, largest v (amsgrad). */
PG_STEP(adam)
{
    real *m = s[0], *v = s[1], *top = s[2];
    m[i] += (g[i] - m[i]) * u->rest_1;
    v[i] += (g[i] * g[i] - v[i]) * u->rest_2;
    real second = v[i];
    if (u->amsgrad)
        second = top[i] = top[i] > v[i] ? top[i] : v[i];
    w[i] -= u->alpha * m[i] / (R(sqrt)(second) + u->epsilon);
}

PG_STEP(adagrad)
{
    real *a = s[0];
    a[i] += g[i] * g[i];
    w[i] -= u->lr * g[i] / R(sqrt)(a[i] + u->epsilon);
}
PG_STEP(adagrad_legacy)
{
    real *a = s[0];
    a[i] += g[i] * g[i];
    w[i] -= u->lr * g[i] / (R(sqrt)(a[i]) + u->epsilon);
}

/* slots: average of squares, average of squared updates. */
PG_STEP(adadelta)
{
    const real rho = u->rho, eps = u->epsilon;
    real *a = s[0], *d = s[1];
    a[i] = rho * a[i] + u->rest_rho * g[i] * g[i];
    const real step = g[i] * R(sqrt)(d[i] + eps) / R(sqrt)(a[i] + eps);
    d[i] = rho * d[i] + u->rest_rho * step * step;
    w[i] -= u->lr * step;
}

/* slots: m, largest gradient. */
PG_STEP(adamax)
{
    const real size = R(fabs)(g[i]);
    real *m = s[0], *top = s[1];
    m[i] += (g[i] - m[i]) * u->rest_1;
    top[i] = u->beta_2 * top[i] > size ? u->beta_2 * top[i] : size;
    w[i] -= u->alpha * m[i] / (top[i] + u->epsilon);
}

/* Keras also rounds the betas of this rule and of Lion first. */
PG_STEP(nadam)
{
    real *m = s[0], *v = s[1];
    m[i] += (g[i] - m[i]) * (1 - u->beta_1);
    v[i] += (g[i] * g[i] - v[i]) * (1 - u->beta_2);
    w[i] -= u->lr * (u->m_share * m[i] + u->g_share * g[i]) /
            (R(sqrt)(v[i] / u->v_correction) + u->epsilon);
}

/* slot: m. */
PG_STEP(lion)
{
    real *m = s[0];
    const real along = m[i] * u->beta_1 + g[i] * (1 - u->beta_1);
    w[i] -= u->lr * (real)((along > 0) - (along < 0));
    m[i] = m[i] * u->beta_2 + g[i] * (1 - u->beta_2);
}

/* slots: sum of squares, linear. */
PG_STEP(ftrl)
{
    real *a = s[0], *linear = s[1];
    const real more = a[i] + g[i] * g[i];
    const real now = R(pow)(more, u->power), before = R(pow)(a[i], u->power);
    linear[i] += g[i] + 2 * u->shrinkage * w[i] - (now - before) / u->lr * w[i];
    const real z = linear[i], kept = z < -u->l1 ? -u->l1 : z > u->l1 ? u->l1 : z;
    w[i] = (kept - z) / (now / u->lr + 2 * u->l2);
    a[i] = more;
}

#undef PG_STEP

/* Wraps every rule: weights shrink before it (weight_decay), and their average follows after it. */
PG_SHARED void pg__step_before(const pg__rates *u, size_t i, real *w)
{
    w[i] -= w[i] * u->shrink * u->lr;
}
PG_SHARED void pg__step_after(const pg__rates *u, size_t i, real *w, real *average)
{
    average[i] = u->average * average[i] + u->rest_average * w[i];
    if (u->to_average)
        w[i] = average[i];
}

#endif
