/* k_layer_norm.h - normalisation row by row, in two passes over each, relative to its first number:
 * a large mean costs no precision. */
#ifndef PG_BACKEND_K_LAYER_NORM_H
#define PG_BACKEND_K_LAYER_NORM_H

#include "backend/cuda/pgk.h"

typedef struct pgk_layer_norm {
    pgk_real x, gamma, beta, y, mean, scale;
    uint64_t n; /* of a row */
    float epsilon;
} pgk_layer_norm;

PGK_FN void pgk_layer_norm_row(const pgk_layer_norm *a, uint64_t r)
{
    const uint64_t at = r * a->n;
    const float about = pgk_get(a->x, at);
    PGK_SUM(sum, i, a->n, pgk_get(a->x, at + i) - about);
    const float mean = sum / (float)a->n;
    PGK_SUM(squares, i, a->n,
            (pgk_get(a->x, at + i) - about - mean) * (pgk_get(a->x, at + i) - about - mean));
    const float scale = 1 / sqrtf(squares / (float)a->n + a->epsilon);
    PGK_EACH(i, a->y.p ? a->n : 0)
    {
        const float h = (pgk_get(a->x, at + i) - about - mean) * scale;
        const float gamma = a->gamma.p ? pgk_get(a->gamma, i) : 1;
        pgk_set(a->y, at + i, h * gamma + (a->beta.p ? pgk_get(a->beta, i) : 0));
    }
    PGK_EACH(i, 1)
    {
        pgk_set(a->mean, r + i, about + mean);
        pgk_set(a->scale, r + i, scale);
    }
}

/* With h = (x - mean) scale and g = gamma dy: dx = scale (g - mean(g) - h mean(g h)). */
typedef struct pgk_layer_norm_dx {
    pgk_real x, dy, gamma, mean, scale, dx;
    uint64_t n;
} pgk_layer_norm_dx;

PGK_FN float pgk_layer_norm_g(const pgk_layer_norm_dx *a, uint64_t at, uint64_t i)
{
    return pgk_get(a->dy, at + i) * (a->gamma.p ? pgk_get(a->gamma, i) : 1);
}

PGK_FN void pgk_layer_norm_dx_row(const pgk_layer_norm_dx *a, uint64_t r)
{
    const uint64_t at = r * a->n;
    const float mean = pgk_get(a->mean, r), scale = pgk_get(a->scale, r);
    PGK_SUM(sum, i, a->n, pgk_layer_norm_g(a, at, i));
    PGK_SUM(dot, i, a->n, pgk_layer_norm_g(a, at, i) * (pgk_get(a->x, at + i) - mean) * scale);
    const float middle = sum / (float)a->n, slope = dot / (float)a->n;
    PGK_EACH(i, a->n)
    {
        const float h = (pgk_get(a->x, at + i) - mean) * scale;
        const float g = pgk_layer_norm_g(a, at, i);
        pgk_set(a->dx, at + i, a->n == 1 ? 0 * g : scale * (g - middle - h * slope));
    }
}

/* By part of the rows and column: sums of dy h and of dy, as k_bn.h does it. */
typedef struct pgk_layer_norm_part {
    pgk_real x, dy, mean, scale, dgamma, dbeta;
    uint64_t rows, n, parts;
} pgk_layer_norm_part;

PGK_FN void pgk_layer_norm_part_at(const pgk_layer_norm_part *a, uint64_t i)
{
    const uint64_t first = i / a->n, c = i - first * a->n;
    float dgamma = 0, dbeta = 0;
    for (uint64_t r = first; r < a->rows; r += a->parts) {
        const float dy = pgk_get(a->dy, r * a->n + c);
        const float x = pgk_get(a->x, r * a->n + c) - pgk_get(a->mean, r);
        dgamma += dy * (x * pgk_get(a->scale, r));
        dbeta += dy;
    }
    pgk_set(a->dgamma, i, dgamma);
    pgk_set(a->dbeta, i, dbeta);
}

#endif
