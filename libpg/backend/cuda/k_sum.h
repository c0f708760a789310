/* k_sum.h - sums in a fixed order. Every result is the sum of n summands; they are added up in
 * `chunks` parts side by side, which then lie as (chunks, results). */
#ifndef PG_BACKEND_K_SUM_H
#define PG_BACKEND_K_SUM_H

#include "backend/cuda/k_index.h"

typedef struct pgk_sum {
    pgk_real x, y;
    pgk_walk results, summands; /* to the first summand of a result; from there to the others */
    pgk_div n_results;
    uint64_t n, chunks;
} pgk_sum;

#define PGK_SOME 32u /* summands of a thread that are added up before they join its sum */

/* Results lie side by side in x: a thread takes every chunks-th summand of one, so that
 * the threads together go through x from its begin to its end. */
typedef struct pgk_sum_columns {
    pgk_sum of;
} pgk_sum_columns;

PGK_FN void pgk_sum_columns_at(const pgk_sum_columns *a, uint64_t i)
{
    const pgk_sum *s = &a->of;
    uint64_t chunk = i;
    const uint64_t first = pgk_walk_at(&s->results, pgk_take(s->n_results, &chunk));
    float sum = 0;
    for (uint64_t j = chunk; j < s->n;) {
        float some = 0; /* apart, because a long sum forgets small summands */
        for (unsigned k = 0; k < PGK_SOME && j < s->n; k++, j += s->chunks)
            some += pgk_get(s->x, first + pgk_walk_at(&s->summands, j));
        sum += some;
    }
    pgk_set(s->y, i, sum);
}

/* Summands lie side by side, or are few: all threads of a row take a run of them. */
typedef struct pgk_sum_rows {
    pgk_sum of;
    uint64_t n; /* summands of a chunk */
} pgk_sum_rows;

PGK_FN void pgk_sum_rows_row(const pgk_sum_rows *a, uint64_t r)
{
    const pgk_sum *s = &a->of;
    uint64_t chunk = r;
    const uint64_t first = pgk_walk_at(&s->results, pgk_take(s->n_results, &chunk));
    const uint64_t begin = chunk * a->n;
    PGK_SUM(sum, j, pgk_chunk(begin, a->n, s->n),
            pgk_get(s->x, first + pgk_walk_at(&s->summands, begin + j)));
    PGK_EACH(k, 1)
    pgk_set(s->y, r + k, sum);
}

/* Chunks of l1 sum |x| + l2 sum x^2. */
typedef struct pgk_activity {
    pgk_real x, y;
    uint64_t n, each;
    float l1, l2;
} pgk_activity;

PGK_FN float pgk_penalty(const pgk_activity *a, uint64_t i)
{
    const float x = pgk_get(a->x, i);
    return a->l1 * fabsf(x) + a->l2 * x * x;
}

PGK_FN void pgk_activity_row(const pgk_activity *a, uint64_t r)
{
    const uint64_t begin = r * a->each;
    PGK_SUM(sum, j, pgk_chunk(begin, a->each, a->n), pgk_penalty(a, begin + j));
    PGK_EACH(k, 1)
    pgk_set(a->y, r + k, sum);
}

/* dx = seed (l1 sign(x) + 2 l2 x) */
typedef struct pgk_activity_grad {
    pgk_real x, seed, dx;
    float l1, l2;
} pgk_activity_grad;

PGK_FN void pgk_activity_grad_at(const pgk_activity_grad *a, uint64_t i)
{
    const float x = pgk_get(a->x, i), seed = pgk_get(a->seed, 0);
    const float sign = (float)((x > 0) - (x < 0));
    pgk_set(a->dx, i, a->l1 * seed * sign + 2 * a->l2 * seed * x);
}

#endif
