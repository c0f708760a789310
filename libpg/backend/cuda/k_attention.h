/* k_attention.h - the operations between the products of attention: softmax of the scores under
 * masks, and its gradient. A row is what one step of one head attends to. Masks:
 * ops/ref_attention.c. */
#ifndef PG_BACKEND_K_ATTENTION_H
#define PG_BACKEND_K_ATTENTION_H

#include "backend/cuda/pgk.h"

#define PGK_MASKED (-1e9f)

typedef struct pgk_attend {
    pgk_real p;                            /* the scores, which become the probabilities */
    pgk_real used;                         /* those times the factors; absent: there are none */
    pgk_real q_mask, v_mask, k_mask, mask; /* (rows, t), (rows, s) twice, and one of scores */
    pgk_real factors;
    uint64_t heads, t, n; /* n: keys, of a row */
    uint64_t mask_by[4];  /* of `mask`, from row, head, step, key to the next; 0: shared */
    int causal;
} pgk_attend;

/* One row of it. */
typedef struct pgk_attend_at {
    uint64_t at, row, t, mask;
    int closed; /* to all keys */
} pgk_attend_at;

PGK_FN int pgk_is_masked(const pgk_attend *a, const pgk_attend_at *z, uint64_t s)
{
    const uint64_t key = z->row * a->n + s;
    return z->closed || (a->causal && s > z->t) || (a->v_mask.p && pgk_get(a->v_mask, key) == 0) ||
           (a->k_mask.p && pgk_get(a->k_mask, key) == 0) ||
           (a->mask.p && pgk_get(a->mask, z->mask + s * a->mask_by[3]) == 0);
}

PGK_FN float pgk_score(const pgk_attend *a, const pgk_attend_at *z, uint64_t s)
{
    return pgk_is_masked(a, z, s) ? PGK_MASKED : pgk_get(a->p, z->at + s);
}

PGK_FN pgk_attend_at pgk_attend_here(const pgk_attend *a, uint64_t r)
{
    const uint64_t group = r / a->t;
    pgk_attend_at z;
    z.at = r * a->n;
    z.row = group / a->heads;
    z.t = r - group * a->t;
    z.mask =
        z.row * a->mask_by[0] + (group - z.row * a->heads) * a->mask_by[1] + z.t * a->mask_by[2];
    z.closed = a->q_mask.p && pgk_get(a->q_mask, z.row * a->t + z.t) == 0;
    return z;
}

PGK_FN void pgk_attend_row(const pgk_attend *a, uint64_t r)
{
    const pgk_attend_at z = pgk_attend_here(a, r);
    PGK_MAX(top, s, a->n, pgk_score(a, &z, s));
    PGK_SUM(sum, s, a->n, expf(pgk_score(a, &z, s) - top));
    PGK_EACH(s, a->n)
    {
        const float p = expf(pgk_score(a, &z, s) - top) / sum;
        pgk_set(a->p, z.at + s, p);
        if (a->used.p)
            pgk_set(a->used, z.at + s, p * pgk_get(a->factors, z.at + s));
    }
}

/* All masks of a row as a library takes them (dnn_attend.h): what is masked weighs e^-30000, which
 * is 0 unless the scores themselves are as far apart; all of 16 bits have the number. A row that is
 * masked everywhere attends to all steps alike: none of its scores counts. */
#define PGK_FAR (-30000.0f)

typedef struct pgk_attend_masks {
    pgk_attend of; /* of one head */
    pgk_real bias, keep;
    uint64_t n; /* of a row */
} pgk_attend_masks;

PGK_FN void pgk_attend_masks_row(const pgk_attend_masks *a, uint64_t r)
{
    const pgk_attend_at z = pgk_attend_here(&a->of, r);
    PGK_MAX(keep, s, a->n, pgk_is_masked(&a->of, &z, s) ? 0.0f : 1.0f);
    PGK_EACH(s, a->n)
    pgk_set(a->bias, z.at + s, keep > 0 && pgk_is_masked(&a->of, &z, s) ? PGK_FAR : 0);
    PGK_EACH(i, 1)
    pgk_set(a->keep, r + i, keep);
}

/* used = p times the factors: what the values were multiplied by. */
typedef struct pgk_attend_used {
    pgk_real p, factors, used;
} pgk_attend_used;

PGK_FN void pgk_attend_used_at(const pgk_attend_used *a, uint64_t i)
{
    pgk_set(a->used, i, pgk_get(a->p, i) * pgk_get(a->factors, i));
}

/* ds = p (d - sum(d p)), with d = dy v' times the factors, plus dp; ds holds dy v' if there is dy.
 */
typedef struct pgk_attend_grad {
    pgk_real p, factors, dp, ds;
    uint64_t n; /* of a row */
    int has_dy;
} pgk_attend_grad;

PGK_FN float pgk_attend_d(const pgk_attend_grad *a, uint64_t i)
{
    const float d = a->has_dy ? pgk_get(a->ds, i) : 0;
    return d * (a->factors.p ? pgk_get(a->factors, i) : 1) + (a->dp.p ? pgk_get(a->dp, i) : 0);
}

PGK_FN void pgk_attend_grad_row(const pgk_attend_grad *a, uint64_t r)
{
    const uint64_t at = r * a->n;
    PGK_SUM(dot, s, a->n, pgk_attend_d(a, at + s) * pgk_get(a->p, at + s));
    PGK_EACH(s, a->n)
    pgk_set(a->ds, at + s, pgk_get(a->p, at + s) * (pgk_attend_d(a, at + s) - dot));
}

#endif
