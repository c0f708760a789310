/* k_loss.h - the value and the gradient of every loss, row by row; what they do to one number:
 * ops/loss_real.h, formulas of the rows: ops/ref_loss.c. */
#ifndef PG_BACKEND_K_LOSS_H
#define PG_BACKEND_K_LOSS_H

#include "backend/cuda/pgk.h"
#include "ops/loss_real.h"

typedef struct pgk_loss {
    pgk_real p, y, w, seed, out; /* prediction, target, weights of the rows; out: losses, or dp */
    uint64_t n;                  /* of a row */
    pg__loss_attrs attrs;
} pgk_loss;
typedef pgk_loss pgk_loss_grad;

/* One row of it. */
typedef struct pgk_loss_at {
    const pgk_loss *a;
    uint64_t r, at;
} pgk_loss_at;

PGK_FN float pgk_p(const pgk_loss_at *z, uint64_t k)
{
    return pgk_get(z->a->p, z->at + k);
}
PGK_FN float pgk_y(const pgk_loss_at *z, uint64_t k)
{
    return pgk_get(z->a->y, z->at + k);
}
PGK_FN float pgk_weight_of(const pgk_loss_at *z)
{
    return z->a->w.p ? pgk_get(z->a->w, z->r) : 1;
}

/* ---- crossentropies of classes ---- */

PGK_FN float pgk_log_sum_exp(const pgk_loss_at *z)
{
    PGK_MAX(top, k, z->a->n, pgk_p(z, k));
    PGK_SUM(sum, k, z->a->n, expf(pgk_p(z, k) - top));
    return top + logf(sum);
}

PGK_FN float pgk_categorical_total(const pgk_loss_at *z)
{
    if (z->a->attrs.logits)
        return pgk_log_sum_exp(z);
    PGK_SUM(sum, k, z->a->n, pgk_p(z, k));
    return sum;
}

PGK_FN float pgk_categorical_term(const pgk_loss_at *z, uint64_t k, float total)
{
    const float y = pg__smooth(&z->a->attrs, pgk_y(z, k), (size_t)z->a->n), p = pgk_p(z, k);
    return -y * (z->a->attrs.logits ? p - total : logf(pg__clip_probability(p / total)));
}

PGK_FN float pgk_categorical(const pgk_loss_at *z)
{
    const float total = pgk_categorical_total(z);
    PGK_SUM(loss, k, z->a->n, pgk_categorical_term(z, k, total));
    return loss;
}

PGK_FN void pgk_categorical_grad(const pgk_loss_at *z, float scale)
{
    const pg__loss_attrs *l = &z->a->attrs;
    const float total = pgk_categorical_total(z);
    PGK_SUM(mass, k, z->a->n,
            l->logits || !pg__is_clipped(pgk_p(z, k) / total)
                ? pg__smooth(l, pgk_y(z, k), (size_t)z->a->n)
                : 0);
    PGK_EACH(k, z->a->n)
    {
        const float y = pg__smooth(l, pgk_y(z, k), (size_t)z->a->n), p = pgk_p(z, k);
        const float slope = l->logits ? expf(p - total) * mass - y
                                      : mass / total - (pg__is_clipped(p / total) ? 0 : y / p);
        pgk_set(z->a->out, z->at + k, scale * slope);
    }
}

PGK_FN float pgk_probability(const pgk_loss_at *z, uint64_t k, float total)
{
    return z->a->attrs.logits ? expf(pgk_p(z, k) - total) : pgk_p(z, k) / total;
}

PGK_FN float pgk_focal_slope(const pgk_loss_at *z, uint64_t k, float total)
{
    return pg__smooth(&z->a->attrs, pgk_y(z, k), (size_t)z->a->n) *
           pg__focal_class_slope(&z->a->attrs, pgk_probability(z, k, total));
}

PGK_FN float pgk_categorical_focal(const pgk_loss_at *z)
{
    const float total = pgk_categorical_total(z);
    PGK_SUM(loss, k, z->a->n,
            pg__smooth(&z->a->attrs, pgk_y(z, k), (size_t)z->a->n) *
                pg__focal_class(&z->a->attrs, pgk_probability(z, k, total)));
    return loss;
}

PGK_FN void pgk_categorical_focal_grad(const pgk_loss_at *z, float scale)
{
    const float total = pgk_categorical_total(z);
    PGK_SUM(along, k, z->a->n, pgk_focal_slope(z, k, total) * pgk_probability(z, k, total));
    PGK_EACH(k, z->a->n)
    {
        const float by = z->a->attrs.logits ? pgk_probability(z, k, total) : 1 / total;
        pgk_set(z->a->out, z->at + k, scale * (pgk_focal_slope(z, k, total) - along) * by);
    }
}

PGK_FN int pgk_is_ignored(const pgk_loss_at *z)
{
    return z->a->attrs.ignores && pgk_int(z->a->y, z->r) == z->a->attrs.ignored;
}

PGK_FN float pgk_sparse_total(const pgk_loss_at *z)
{
    if (z->a->attrs.logits)
        return pgk_log_sum_exp(z);
    PGK_SUM(sum, k, z->a->n, pg__clip_probability(pgk_p(z, k)));
    return sum;
}

/* A class beyond the predictions has no loss that is a number. */
PGK_FN float pgk_sparse(const pgk_loss_at *z)
{
    const float total = pgk_sparse_total(z);
    const int32_t c = pgk_int(z->a->y, z->r);
    if (pgk_is_ignored(z))
        return 0;
    if (c < 0 || (uint64_t)c >= z->a->n)
        return NAN;
    const float p = pgk_p(z, (uint64_t)c);
    return z->a->attrs.logits ? total - p : logf(total) - logf(pg__clip_probability(p));
}

PGK_FN void pgk_sparse_grad(const pgk_loss_at *z, float scale)
{
    const float total = pgk_sparse_total(z);
    const int32_t c = pgk_int(z->a->y, z->r);
    PGK_EACH(k, z->a->n)
    {
        const float hit = (int64_t)k == c ? 1 : 0, p = pgk_p(z, k);
        const float slope = pgk_is_ignored(z)    ? 0
                            : z->a->attrs.logits ? expf(p - total) - hit
                            : pg__is_clipped(p)  ? 0
                                                 : 1 / total - hit / p;
        pgk_set(z->a->out, z->at + k, scale * slope);
    }
}

/* ---- losses of a whole row ---- */

PGK_FN float pgk_wrong(const pgk_loss_at *z, uint64_t k)
{
    return (1 - pgk_y(z, k)) * pgk_p(z, k);
}

PGK_FN float pgk_hinge_of(const pgk_loss_at *z, float top)
{
    PGK_SUM(right, k, z->a->n, pgk_y(z, k) * pgk_p(z, k));
    return 1 + top - right > 0 ? 1 + top - right : 0;
}

PGK_FN float pgk_categorical_hinge(const pgk_loss_at *z)
{
    PGK_MAX(top, k, z->a->n, pgk_wrong(z, k));
    return pgk_hinge_of(z, top);
}

/* Of equals the first is the one; places are numbers below 2^24, see loss.c. */
PGK_FN void pgk_categorical_hinge_grad(const pgk_loss_at *z, float scale)
{
    PGK_MAX(top, k, z->a->n, pgk_wrong(z, k));
    PGK_MAX(place, k, z->a->n, pgk_wrong(z, k) == top ? -(float)k : -INFINITY);
    const float on = pgk_hinge_of(z, top) > 0 ? scale : 0;
    PGK_EACH(k, z->a->n)
    {
        const float y = pgk_y(z, k);
        pgk_set(z->a->out, z->at + k, on * ((-(float)k == place ? 1 - y : 0) - y));
    }
}

PGK_FN float pgk_kl(const pgk_loss_at *z)
{
    PGK_SUM(loss, k, z->a->n,
            pg__clip(pgk_y(z, k), LOSS_EPSILON, 1) * logf(pg__clip(pgk_y(z, k), LOSS_EPSILON, 1) /
                                                          pg__clip(pgk_p(z, k), LOSS_EPSILON, 1)));
    return loss;
}

PGK_FN void pgk_kl_grad(const pgk_loss_at *z, float scale)
{
    PGK_EACH(k, z->a->n)
    {
        const float p = pgk_p(z, k);
        const float slope =
            p < LOSS_EPSILON || p > 1 ? 0 : -pg__clip(pgk_y(z, k), LOSS_EPSILON, 1) / p;
        pgk_set(z->a->out, z->at + k, scale * slope);
    }
}

/* grad: writes dp; else gives the loss. */
PGK_FN float pgk_cosine(const pgk_loss_at *z, int grad, float scale)
{
    PGK_SUM(yy, k, z->a->n, pgk_y(z, k) * pgk_y(z, k));
    PGK_SUM(pp, k, z->a->n, pgk_p(z, k) * pgk_p(z, k));
    const float iy = pg__inverse_norm(yy), ip = pg__inverse_norm(pp);
    PGK_SUM(cosine, k, z->a->n, pgk_y(z, k) * iy * pgk_p(z, k) * ip);
    PGK_EACH(k, grad ? z->a->n : 0)
    {
        const float along = pg__is_floored(pp) ? 0 : cosine * pgk_p(z, k) * ip;
        pgk_set(z->a->out, z->at + k, -scale * ip * (pgk_y(z, k) * iy - along));
    }
    return -cosine;
}

PGK_FN float pgk_jaccard(const pgk_loss_at *z, int grad, float scale)
{
    const float s = (float)z->a->attrs.param;
    PGK_SUM(both, k, z->a->n, fabsf(pgk_y(z, k) * pgk_p(z, k)));
    PGK_SUM(total, k, z->a->n, fabsf(pgk_y(z, k)) + fabsf(pgk_p(z, k)));
    const float below = total - both + s;
    PGK_EACH(k, grad ? z->a->n : 0)
    {
        const float d_total = pg__sign(pgk_p(z, k)), d_both = fabsf(pgk_y(z, k)) * d_total;
        const float slope = d_both * below - (both + s) * (d_total - d_both);
        pgk_set(z->a->out, z->at + k, -scale * s * slope / (below * below));
    }
    return (1 - (both + s) / below) * s;
}

/* ---- losses that are means ---- */

PGK_FN float pgk_mean_term(const pgk_loss_at *z, uint64_t k, int slope)
{
    const pg__loss_attrs *a = &z->a->attrs;
    const float x = pgk_p(z, k), y = pgk_y(z, k);
    switch (a->kind) {
#define PGK_MEAN_LOSS(name, value_of, slope_of) \
    case PG_LOSS_##name: return slope ? pg__##name##_slope(a, x, y) : pg__##name##_value(a, x, y);
        PG_MEAN_LOSSES(PGK_MEAN_LOSS)
#undef PGK_MEAN_LOSS
    default: return NAN;
    }
}

PGK_FN float pgk_mean(const pgk_loss_at *z)
{
    PGK_SUM(loss, k, z->a->n, pgk_mean_term(z, k, 0));
    return loss / (float)z->a->n;
}

PGK_FN void pgk_mean_grad(const pgk_loss_at *z, float scale)
{
    PGK_EACH(k, z->a->n)
    pgk_set(z->a->out, z->at + k, scale * pgk_mean_term(z, k, 1) / (float)z->a->n);
}

/* ---- all of them ---- */

/* X(name, value, gradient): losses of a whole row. A line of ops/losses.def that stands neither
 * here nor among the PG_MEAN_LOSSES has no PGK_KNOWS_ of its name, and this file does not compile.
 */
#define PGK_ROW_LOSSES(X)                                                                \
    X(categorical_crossentropy, pgk_categorical(z), pgk_categorical_grad(z, scale))      \
    X(categorical_focal_crossentropy, pgk_categorical_focal(z),                          \
      pgk_categorical_focal_grad(z, scale))                                              \
    X(categorical_hinge, pgk_categorical_hinge(z), pgk_categorical_hinge_grad(z, scale)) \
    X(cosine_similarity, pgk_cosine(z, 0, 0), (void)pgk_cosine(z, 1, scale))             \
    X(jaccard_distance, pgk_jaccard(z, 0, 0), (void)pgk_jaccard(z, 1, scale))            \
    X(kl_divergence, pgk_kl(z), pgk_kl_grad(z, scale))                                   \
    X(sparse_categorical_crossentropy, pgk_sparse(z), pgk_sparse_grad(z, scale))

enum {
#define PGK_KNOWS(name, value, grad) PGK_KNOWS_##name = 1,
    PGK_ROW_LOSSES(PGK_KNOWS) PG_MEAN_LOSSES(PGK_KNOWS)
#undef PGK_KNOWS
#define PG_LOSS(name, target) +PGK_KNOWS_##name
        PGK_N_LOSSES = 0
#include "ops/losses.def"
#undef PG_LOSS
};

#define PGK_MEAN_CASE(name, value, grad) case PG_LOSS_##name:

PGK_FN float pgk_loss_of(const pgk_loss_at *z)
{
    switch (z->a->attrs.kind) {
#define PGK_CASE(name, value, grad) \
    case PG_LOSS_##name: return value;
        PGK_ROW_LOSSES(PGK_CASE)
#undef PGK_CASE
        PG_MEAN_LOSSES(PGK_MEAN_CASE) return pgk_mean(z);
    case PG_N_LOSSES: break;
    }
    return NAN;
}

PGK_FN void pgk_loss_grad_of(const pgk_loss_at *z, float scale)
{
    switch (z->a->attrs.kind) {
#define PGK_CASE(name, value, grad) \
    case PG_LOSS_##name: grad; break;
        PGK_ROW_LOSSES(PGK_CASE)
#undef PGK_CASE
        PG_MEAN_LOSSES(PGK_MEAN_CASE) pgk_mean_grad(z, scale);
        break;
    case PG_N_LOSSES: break;
    }
}
#undef PGK_MEAN_CASE

PGK_FN void pgk_loss_row(const pgk_loss *a, uint64_t r)
{
    const pgk_loss_at z = {a, r, r * a->n};
    const float loss = pgk_weight_of(&z) * pgk_loss_of(&z);
    PGK_EACH(i, 1)
    pgk_set(a->out, r + i, loss);
}

PGK_FN void pgk_loss_grad_row(const pgk_loss_grad *a, uint64_t r)
{
    const pgk_loss_at z = {a, r, r * a->n};
    const float scale = pgk_get(a->seed, 0) * pgk_weight_of(&z);
    pgk_loss_grad_of(&z, scale);
}

#endif
