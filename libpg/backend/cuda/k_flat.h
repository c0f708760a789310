/* k_flat.h - operations on flat memory: sums of gradients, norms, updates. Parameters, their
 * gradients and the optimizer's state are floats, whatever a step computes in. */
#ifndef PG_BACKEND_K_FLAT_H
#define PG_BACKEND_K_FLAT_H

#include "backend/cuda/pgk.h"
#include "ops/clip_real.h"
#include "ops/update_real.h"

/* into += from */
typedef struct pgk_accumulate {
    pgk_real into, from;
} pgk_accumulate;

PGK_FN void pgk_accumulate_at(const pgk_accumulate *a, uint64_t i)
{
    pgk_set(a->into, i, pgk_get(a->into, i) + pgk_get(a->from, i));
}

/* into = keep into + take from; a number with share 0 may be NaN or infinite. */
typedef struct pgk_blend {
    pgk_real into, from;
    float keep, take;
} pgk_blend;

PGK_FN void pgk_blend_at(const pgk_blend *a, uint64_t i)
{
    const float kept = a->keep == 0 ? 0 : a->keep * pgk_get(a->into, i);
    const float taken = a->take == 0 ? 0 : a->take * pgk_get(a->from, i);
    pgk_set(a->into, i, kept + taken);
}

/* g *= scale, then limited to +-limit; 0: no limit. NaN stays NaN. */
typedef struct pgk_clip {
    pgk_real g;
    const void *found; /* a double: the scale; NULL: it is `scale` */
    float scale, limit;
} pgk_clip;

PGK_FN void pgk_clip_at(const pgk_clip *a, uint64_t i)
{
    const float scale = a->found ? (float)*(const double *)PGK_MEM(a->found) : a->scale;
    const float v = pgk_get(a->g, i) * scale, low = v < -a->limit ? -a->limit : v;
    pgk_set(a->g, i, a->limit > 0 ? (low > a->limit ? a->limit : low) : v);
}

/* ---- sums, of a chunk of numbers each ---- */

typedef struct pgk_squares {
    pgk_real g, parts;
    uint64_t n, chunk;
} pgk_squares;

PGK_FN void pgk_squares_row(const pgk_squares *a, uint64_t r)
{
    const uint64_t at = r * a->chunk, n = a->n - at < a->chunk ? a->n - at : a->chunk;
    PGK_SUM(sum, i, n, pgk_get(a->g, at + i) * pgk_get(a->g, at + i));
    PGK_EACH(i, 1)
    pgk_set(a->parts, r + i, sum);
}

/* g += l1 sign(w) + 2 l2 w, if g is given; parts: of l1 |w| + l2 w^2. */
typedef struct pgk_regularise {
    pgk_real g, w, parts;
    uint64_t n, chunk;
    float l1, l2;
} pgk_regularise;

PGK_FN void pgk_regularise_row(const pgk_regularise *a, uint64_t r)
{
    const uint64_t at = r * a->chunk, n = a->n - at < a->chunk ? a->n - at : a->chunk;
    PGK_SUM(sum, i, n,
            a->l1 * fabsf(pgk_get(a->w, at + i)) +
                a->l2 * pgk_get(a->w, at + i) * pgk_get(a->w, at + i));
    PGK_EACH(i, 1)
    pgk_set(a->parts, r + i, sum);
    PGK_EACH(i, a->g.p ? n : 0)
    {
        const float w = pgk_get(a->w, at + i);
        const float slope = a->l1 * (float)((w > 0) - (w < 0)) + 2 * a->l2 * w;
        pgk_set(a->g, at + i, pgk_get(a->g, at + i) + slope);
    }
}

/* The one row: sum (doubles, by `slot`) becomes that of the parts, or more by it, in their order.
 */
typedef struct pgk_add_parts {
    pgk_real parts;
    void *sum;
    uint64_t n, slot;
    int adds;
} pgk_add_parts;

PGK_FN void pgk_add_parts_row(const pgk_add_parts *a, uint64_t r)
{
    PGK_EACH(i, 1)
    {
        double *sum = (double *)PGK_MEM(a->sum) + a->slot + r + i;
        double s = a->adds ? *sum : 0;
        for (uint64_t k = 0; k < a->n; k++)
            s += (double)pgk_get(a->parts, k);
        *sum = s;
    }
}

/* The one row: scales from squares, doubles both. */
typedef struct pgk_clip_scales {
    const void *squares;
    void *scales;
    uint64_t n;
    pg__norm_limits limits;
} pgk_clip_scales;

PGK_FN void pgk_clip_scales_row(const pgk_clip_scales *a, uint64_t r)
{
    PGK_EACH(i, r == 0)
    pg__clip_scales(&a->limits, (const double *)PGK_MEM(a->squares) + i,
                    (double *)PGK_MEM(a->scales) + i, a->n);
}

/* ---- updates: a kernel for each rule of optimizers.def ---- */

typedef struct pgk_update {
    pg__rates rates;
    void *w, *s[PG_MAX_SLOTS];
    const void *g;
} pgk_update;

#define PGK_FLOATS(p) ((p) ? (float *)PGK_MEM(p) : NULL)
#define PG_OPTIMIZER(name, slots)                                                 \
    typedef pgk_update pgk_update_##name;                                         \
    PGK_FN void pgk_update_##name##_at(const pgk_update_##name *a, uint64_t i)    \
    {                                                                             \
        float *const s[PG_MAX_SLOTS] = {PGK_FLOATS(a->s[0]), PGK_FLOATS(a->s[1]), \
                                        PGK_FLOATS(a->s[2])};                     \
        if (a->rates.shrink != 0)                                                 \
            pg__step_before(&a->rates, (size_t)i, (float *)PGK_MEM(a->w));        \
        pg__step_##name(&a->rates, (size_t)i, (float *)PGK_MEM(a->w),             \
                        (const float *)PGK_MEM(a->g), s);                         \
        if (a->s[PG_SLOT_AVERAGE])                                                \
            pg__step_after(&a->rates, (size_t)i, (float *)PGK_MEM(a->w),          \
                           PGK_FLOATS(a->s[PG_SLOT_AVERAGE]));                    \
    }
#include "ops/optimizers.def"
#undef PG_OPTIMIZER

#endif
