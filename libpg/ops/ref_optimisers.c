/* ref_optimisers.c - the update rules, number by number. Keras computes in float32 and so does the
 * float version: hyperparameters are rounded to the type first. */
#include "ops/real.h"

void PG_UPDATE(sgd)(PG_UPDATE_ARGS)
{
    const real lr = (real)u->lr, *g = g_;
    real *w = w_;
    PG_UNUSED(slots);
    for (size_t i = 0; i < n; i++)
        w[i] -= lr * g[i];
}

void PG_UPDATE(sgd_momentum)(PG_UPDATE_ARGS)
{
    const real lr = (real)u->lr, mu = (real)u->momentum, *g = g_;
    real *w = w_, *v = slots[0];
    for (size_t i = 0; i < n; i++) {
        const real step = lr * g[i];
        v[i] = mu * v[i] - step;
        w[i] += u->nesterov ? mu * v[i] - step : v[i];
    }
}

/* slots: average of squares; momentum; average of gradients (centered). Epsilon stands inside the
 * root, but in the legacy rule without momentum. */
static void rmsprop(const pg__update *u, real *w, const real *g, void *const *slots, size_t n,
                    int epsilon_outside)
{
    const real lr = (real)u->lr, rho = (real)u->rho, mu = (real)u->momentum;
    const real eps = (real)u->epsilon;
    real *a = slots[0], *m = slots[1], *mg = slots[2];
    for (size_t i = 0; i < n; i++) {
        a[i] = rho * a[i] + (1 - rho) * g[i] * g[i];
        real variance = a[i];
        if (u->centered) {
            mg[i] = rho * mg[i] + (1 - rho) * g[i];
            variance -= mg[i] * mg[i];
        }
        const real root = epsilon_outside ? R(sqrt)(variance) + eps : R(sqrt)(variance + eps);
        real step = lr * g[i] / root;
        if (mu > 0)
            step = m[i] = mu * m[i] + step;
        w[i] -= step;
    }
}
void PG_UPDATE(rmsprop)(PG_UPDATE_ARGS)
{
    rmsprop(u, w_, g_, slots, n, 0);
}
void PG_UPDATE(rmsprop_legacy)(PG_UPDATE_ARGS)
{
    rmsprop(u, w_, g_, slots, n, u->momentum == 0);
}

/* slots: m, v, largest v (amsgrad). weight_decay: AdamW's, before the step. */
void PG_UPDATE(adam)(PG_UPDATE_ARGS)
{
    const real b1 = (real)u->beta_1, b2 = (real)u->beta_2, eps = (real)u->epsilon;
    const real alpha = (real)u->alpha, shrink = (real)(u->lr * u->weight_decay), *g = g_;
    real *w = w_, *m = slots[0], *v = slots[1], *top = slots[2];
    for (size_t i = 0; i < n; i++) {
        m[i] += (g[i] - m[i]) * (1 - b1);
        v[i] += (g[i] * g[i] - v[i]) * (1 - b2);
        real second = v[i];
        if (u->amsgrad)
            second = top[i] = top[i] > v[i] ? top[i] : v[i];
        w[i] -= shrink * w[i];
        w[i] -= alpha * m[i] / (R(sqrt)(second) + eps);
    }
}

void PG_UPDATE(adagrad)(PG_UPDATE_ARGS)
{
    const real lr = (real)u->lr, eps = (real)u->epsilon, *g = g_;
    real *w = w_, *a = slots[0];
    for (size_t i = 0; i < n; i++) {
        a[i] += g[i] * g[i];
        w[i] -= lr * g[i] / R(sqrt)(a[i] + eps);
    }
}
void PG_UPDATE(adagrad_legacy)(PG_UPDATE_ARGS)
{
    const real lr = (real)u->lr, eps = (real)u->epsilon, *g = g_;
    real *w = w_, *a = slots[0];
    for (size_t i = 0; i < n; i++) {
        a[i] += g[i] * g[i];
        w[i] -= lr * g[i] / (R(sqrt)(a[i]) + eps);
    }
}

/* slots: average of squares, average of squared updates. */
void PG_UPDATE(adadelta)(PG_UPDATE_ARGS)
{
    const real lr = (real)u->lr, rho = (real)u->rho, eps = (real)u->epsilon, *g = g_;
    real *w = w_, *a = slots[0], *d = slots[1];
    for (size_t i = 0; i < n; i++) {
        a[i] = rho * a[i] + (1 - rho) * g[i] * g[i];
        const real step = g[i] * R(sqrt)(d[i] + eps) / R(sqrt)(a[i] + eps);
        d[i] = rho * d[i] + (1 - rho) * step * step;
        w[i] -= lr * step;
    }
}

/* slots: m, largest gradient. */
void PG_UPDATE(adamax)(PG_UPDATE_ARGS)
{
    const real b1 = (real)u->beta_1, b2 = (real)u->beta_2, eps = (real)u->epsilon;
    const real alpha = (real)u->alpha, *g = g_;
    real *w = w_, *m = slots[0], *top = slots[1];
    for (size_t i = 0; i < n; i++) {
        const real size = R(fabs)(g[i]);
        m[i] += (g[i] - m[i]) * (1 - b1);
        top[i] = b2 * top[i] > size ? b2 * top[i] : size;
        w[i] -= alpha * m[i] / (top[i] + eps);
    }
}

void PG_UPDATE(nadam)(PG_UPDATE_ARGS)
{
    const real lr = (real)u->lr, b1 = (real)u->beta_1, b2 = (real)u->beta_2;
    const real eps = (real)u->epsilon, correction = (real)u->v_correction, *g = g_;
    const real m_share = (real)u->m_share, g_share = (real)u->g_share;
    real *w = w_, *m = slots[0], *v = slots[1];
    for (size_t i = 0; i < n; i++) {
        m[i] += (g[i] - m[i]) * (1 - b1);
        v[i] += (g[i] * g[i] - v[i]) * (1 - b2);
        w[i] -= lr * (m_share * m[i] + g_share * g[i]) / (R(sqrt)(v[i] / correction) + eps);
    }
}
