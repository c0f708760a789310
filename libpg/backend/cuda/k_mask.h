/* k_mask.h - making masks and applying them; ids and numbers. */
#ifndef PG_BACKEND_K_MASK_H
#define PG_BACKEND_K_MASK_H

#include "backend/cuda/k_index.h"
#include "ops/attrs.h"
#include "ops/hash_text.h"

typedef struct pgk_mask_ids {
    pgk_real ids, mask;
} pgk_mask_ids;

PGK_FN void pgk_mask_ids_at(const pgk_mask_ids *a, uint64_t i)
{
    pgk_set(a->mask, i, pgk_int(a->ids, i) != 0 ? 1.0f : 0.0f);
}

typedef struct pgk_hash_ids {
    pgk_real ids, y;
    pg__hash_attrs attrs;
} pgk_hash_ids;

PGK_FN void pgk_hash_ids_at(const pgk_hash_ids *a, uint64_t i)
{
    pgk_set(a->y, i, (float)pg__hash_bucket(&a->attrs, pgk_int(a->ids, i)));
}

/* A step counts if any of its n features differs from `value`. */
typedef struct pgk_mask_steps {
    pgk_real x, mask;
    uint64_t n;
    float value;
} pgk_mask_steps;

PGK_FN void pgk_mask_steps_row(const pgk_mask_steps *a, uint64_t r)
{
    PGK_MAX(any, i, a->n, pgk_get(a->x, r * a->n + i) != a->value ? 1.0f : 0.0f);
    PGK_EACH(i, 1)
    pgk_set(a->mask, r + i, any);
}

/* y = x mask, each element of the mask for as many elements of x as belong to it; x absent: 1 */
typedef struct pgk_mask_rows {
    pgk_real x, mask, y;
    pgk_div each;
} pgk_mask_rows;

PGK_FN void pgk_mask_rows_at(const pgk_mask_rows *a, uint64_t i)
{
    const float mask = pgk_get(a->mask, pgk_quotient(a->each, i));
    if (mask == 0)
        pgk_set(a->y, i, 0);
    else
        pgk_set(a->y, i, a->x.p ? pgk_get(a->x, i) * mask : mask);
}

/* Numbers in another type: group i of four. */
typedef struct pgk_narrow {
    pgk_real from, to;
    uint64_t n;
} pgk_narrow;

PGK_FN void pgk_narrow_at(const pgk_narrow *a, uint64_t i)
{
    float x[4];
    pgk_get4(a->from, i, a->n, x);
    pgk_set4(a->to, i, a->n, x);
}

/* Ids and numbers. */
typedef struct pgk_cast {
    pgk_real from, to;
    pg__cast_attrs attrs;
} pgk_cast;

/* A value that cannot be an id becomes an id that no table has. */
PGK_FN int32_t pgk_id_of(float v)
{
    return v > -1e9f && v < 1e9f ? (int32_t)v : -1;
}

PGK_FN void pgk_cast_at(const pgk_cast *a, uint64_t i)
{
    if (a->attrs.to != PG_ELEM_INT)
        pgk_set(a->to, i,
                a->attrs.from == PG_ELEM_INT ? (float)pgk_int(a->from, i) : pgk_get(a->from, i));
    else if (a->attrs.from != PG_ELEM_INT)
        pgk_set_int(a->to, i, pgk_id_of(pgk_get(a->from, i)));
    else
        pgk_set_int(a->to, i, pgk_int(a->from, i));
}

#endif
