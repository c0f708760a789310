/* k_act.h - activations and their slopes. */
#ifndef PG_BACKEND_K_ACT_H
#define PG_BACKEND_K_ACT_H

#include "backend/cuda/pgk.h"

typedef struct pgk_act {
    pgk_real x, y;
    pg__act_attrs attrs;
} pgk_act;

PGK_FN void pgk_act_at(const pgk_act *a, uint64_t i)
{
    pgk_set(a->y, i, pg__act_value(pgk_get(a->x, i), &a->attrs));
}

/* dx = dy f'(v); v is the result or the argument, whichever op_act.c chose. */
typedef struct pgk_act_grad {
    pgk_real v, dy, dx;
    pg__act_attrs attrs;
} pgk_act_grad;

PGK_FN void pgk_act_grad_at(const pgk_act_grad *a, uint64_t i)
{
    pgk_set(a->dx, i, pgk_get(a->dy, i) * pg__act_slope(pgk_get(a->v, i), &a->attrs));
}

#endif
