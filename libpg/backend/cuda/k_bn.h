/* k_bn.h - batch normalisation of rows x channels. A thread has one channel and every `parts`-th
 * row, so that neighbours read neighbours however few channels there are; what it finds out about
 * its rows is joined part by part, in their order. */
#ifndef PG_BACKEND_K_BN_H
#define PG_BACKEND_K_BN_H

#include "backend/cuda/pgk.h"
#include "ops/bn_real.h"

#define PGK_BN_SOME 8u /* rows that are read at once; all that pgk_bn_apply and pgk_bn_dx take */

typedef struct pgk_bn_size {
    uint64_t rows, width, parts;
    uint64_t inner; /* rows that share one number of the mask */
} pgk_bn_size;

/* A row's number of the mask; 1 without one. */
PGK_FN float pgk_bn_weight(pgk_real mask, const pgk_bn_size *z, uint64_t row)
{
    return mask.p ? pgk_get(mask, z->inner > 1 ? row / z->inner : row) : 1;
}

/* A number of a row, if there is one: all that a thread reads it asks for at once. */
PGK_FN float pgk_bn_get(pgk_real x, const pgk_bn_size *z, uint64_t row, uint64_t c)
{
    return row < z->rows ? pgk_get(x, row * z->width + c) : 0;
}
PGK_FN void pgk_bn_set(pgk_real x, const pgk_bn_size *z, uint64_t row, uint64_t c, float v)
{
    if (row < z->rows)
        pgk_set(x, row * z->width + c, v);
}

/* ---- statistics ---- */

/* Count, mean and squared distances of a part; everything is taken relative to the channel's first
 * number, so that a large mean costs no precision. */
typedef struct pgk_bn_part {
    pgk_real x, mask, mean, m2,
        count; /* the last three: by part, the first two of those and channel */
    pgk_bn_size z;
} pgk_bn_part;

PGK_FN void pgk_bn_part_at(const pgk_bn_part *a, uint64_t i)
{
    const uint64_t first = i / a->z.width, c = i - first * a->z.width;
    const float about = pgk_get(a->x, c);
    float n = 0, mean = 0, m2 = 0;
    for (uint64_t r = first; r < a->z.rows; r += PGK_BN_SOME * a->z.parts) {
        float v[PGK_BN_SOME], w[PGK_BN_SOME], some = 0, middle = 0, squares = 0;
        for (unsigned k = 0; k < PGK_BN_SOME; k++) {
            const uint64_t row = r + k * a->z.parts;
            w[k] = row < a->z.rows ? pgk_bn_weight(a->mask, &a->z, row) : 0;
            v[k] = row < a->z.rows ? pgk_bn_get(a->x, &a->z, row, c) - about : 0;
            some += w[k];
            middle += w[k] * v[k];
        }
        middle = some > 0 ? middle / some : middle;
        for (unsigned k = 0; k < PGK_BN_SOME; k++)
            squares += w[k] * (v[k] - middle) * (v[k] - middle);
        const float all = n + some, share = all > 0 ? some / all : 0, d = middle - mean;
        mean += d * share;
        m2 += squares + d * d * n * share;
        n = all;
    }
    pgk_set(a->mean, i, mean);
    pgk_set(a->m2, i, m2);
    if (c == 0)
        pgk_set(a->count, first, n);
}

/* Row c: the channel's statistics from those of its parts. */
typedef struct pgk_bn_stats {
    pgk_real x, part_mean, part_m2, part_count, mean, m2, count;
    uint64_t n, width; /* parts, channels */
} pgk_bn_stats;

PGK_FN void pgk_bn_stats_row(const pgk_bn_stats *a, uint64_t c)
{
    PGK_SUM(count, p, a->n, pgk_get(a->part_count, p));
    PGK_SUM(sum, p, a->n, pgk_get(a->part_count, p) * pgk_get(a->part_mean, p * a->width + c));
    const float mean = sum / count;
    PGK_SUM(m2, p, a->n,
            pgk_get(a->part_m2, p * a->width + c) +
                pgk_get(a->part_count, p) * (pgk_get(a->part_mean, p * a->width + c) - mean) *
                    (pgk_get(a->part_mean, p * a->width + c) - mean));
    PGK_EACH(i, 1)
    {
        if (a->mean.p)
            pgk_set(a->mean, c + i, pgk_get(a->x, c) + mean);
        if (a->m2.p)
            pgk_set(a->m2, c + i, m2);
        if (a->count.p && c == 0)
            pgk_set(a->count, i, count);
    }
}

typedef struct pgk_bn_var {
    pgk_real m2, count, variance;
    pg__bn_attrs attrs;
} pgk_bn_var;

PGK_FN void pgk_bn_var_at(const pgk_bn_var *a, uint64_t c)
{
    const double by = pg__bn_divisor(&a->attrs, (double)pgk_get(a->count, 0));
    pgk_set(a->variance, c, (float)((double)pgk_get(a->m2, c) / by));
}

/* ---- normalising ---- */

typedef struct pgk_bn_apply {
    pgk_real x, mean, variance, gamma, beta, y;
    pgk_bn_size z;
    float epsilon;
} pgk_bn_apply;

PGK_FN void pgk_bn_apply_at(const pgk_bn_apply *a, uint64_t i)
{
    const uint64_t first = i / a->z.width, c = i - first * a->z.width;
    const float mean = pgk_get(a->mean, c), shift = a->beta.p ? pgk_get(a->beta, c) : 0;
    const float scale =
        (a->gamma.p ? pgk_get(a->gamma, c) : 1) / sqrtf(pgk_get(a->variance, c) + a->epsilon);
    float v[PGK_BN_SOME];
    for (unsigned k = 0; k < PGK_BN_SOME; k++)
        v[k] = pgk_bn_get(a->x, &a->z, first + k * a->z.parts, c);
    for (unsigned k = 0; k < PGK_BN_SOME; k++)
        pgk_bn_set(a->y, &a->z, first + k * a->z.parts, c, (v[k] - mean) * scale + shift);
}

/* ---- gradient ---- */

/* By part and channel: sums of dy, of dy (x - mean). */
typedef struct pgk_bn_sums_part {
    pgk_real x, dy, mean, sum, sum_x;
    pgk_bn_size z;
} pgk_bn_sums_part;

PGK_FN void pgk_bn_sums_part_at(const pgk_bn_sums_part *a, uint64_t i)
{
    const uint64_t first = i / a->z.width, c = i - first * a->z.width;
    const float mean = pgk_get(a->mean, c);
    float sum = 0, sum_x = 0;
    for (uint64_t r = first; r < a->z.rows; r += PGK_BN_SOME * a->z.parts) {
        float some = 0, some_x = 0;
        for (unsigned k = 0; k < PGK_BN_SOME; k++) {
            const uint64_t row = r + k * a->z.parts;
            const float dy = pgk_bn_get(a->dy, &a->z, row, c);
            some += dy;
            some_x += dy * (pgk_bn_get(a->x, &a->z, row, c) - mean);
        }
        sum += some;
        sum_x += some_x;
    }
    pgk_set(a->sum, i, sum);
    pgk_set(a->sum_x, i, sum_x);
}

/* Row c: sums over the parts. */
typedef struct pgk_bn_sums {
    pgk_real part, part_x, variance, sum, sum_x;
    uint64_t n, width; /* parts, channels */
    float epsilon;
} pgk_bn_sums;

PGK_FN void pgk_bn_sums_row(const pgk_bn_sums *a, uint64_t c)
{
    PGK_SUM(sum, p, a->n, pgk_get(a->part, p * a->width + c));
    PGK_SUM(sum_x, p, a->n, pgk_get(a->part_x, p * a->width + c));
    PGK_EACH(i, 1)
    {
        if (a->sum.p)
            pgk_set(a->sum, c + i, sum);
        if (a->sum_x.p)
            pgk_set(a->sum_x, c + i, sum_x / sqrtf(pgk_get(a->variance, c) + a->epsilon));
    }
}

typedef struct pgk_bn_dx {
    pgk_real x, dy, mean, variance, gamma, sum, sum_x, count, mask, dx;
    pgk_bn_size z;
    float epsilon;
} pgk_bn_dx;

PGK_FN void pgk_bn_dx_at(const pgk_bn_dx *a, uint64_t i)
{
    const uint64_t first = i / a->z.width, c = i - first * a->z.width;
    const float mean = pgk_get(a->mean, c);
    const float rstd = 1 / sqrtf(pgk_get(a->variance, c) + a->epsilon);
    const float scale = (a->gamma.p ? pgk_get(a->gamma, c) : 1) * rstd;
    float all = 0, slope = 0;
    if (a->sum.p) {
        const float n = pgk_get(a->count, 0);
        all = pgk_get(a->sum, c) / n;
        slope = rstd * pgk_get(a->sum_x, c) / n;
    }
    float v[PGK_BN_SOME], dy[PGK_BN_SOME];
    for (unsigned k = 0; k < PGK_BN_SOME; k++) {
        v[k] = pgk_bn_get(a->x, &a->z, first + k * a->z.parts, c);
        dy[k] = pgk_bn_get(a->dy, &a->z, first + k * a->z.parts, c);
    }
    for (unsigned k = 0; k < PGK_BN_SOME; k++) {
        const uint64_t row = first + k * a->z.parts;
        const float w = row < a->z.rows ? pgk_bn_weight(a->mask, &a->z, row) : 0;
        const float through = w * (all + (v[k] - mean) * slope);
        pgk_bn_set(a->dx, &a->z, row, c, scale * (dy[k] - through));
    }
}

#endif
