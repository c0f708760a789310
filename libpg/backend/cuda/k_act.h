/* k_act.h - activations and their slopes, four elements to a thread. */
#ifndef PG_BACKEND_K_ACT_H
#define PG_BACKEND_K_ACT_H

#include "backend/cuda/pgk.h"

typedef struct pgk_act {
    pgk_real x, y;
    uint64_t n;
    pg__act_attrs attrs;
} pgk_act;

PGK_FN void pgk_act_at(const pgk_act *a, uint64_t i)
{
    float x[4];
    pgk_get4(a->x, i, a->n, x);
    PGK_EACH_OF_4(k)
    x[k] = pg__act_value(x[k], &a->attrs);
    pgk_set4(a->y, i, a->n, x);
}

/* dx = dy f'(v); v is the result or the argument, whichever op_act.c chose. */
typedef struct pgk_act_grad {
    pgk_real v, dy, dx;
    uint64_t n;
    pg__act_attrs attrs;
} pgk_act_grad;

PGK_FN void pgk_act_grad_at(const pgk_act_grad *a, uint64_t i)
{
    float v[4], dy[4];
    pgk_get4(a->v, i, a->n, v);
    pgk_get4(a->dy, i, a->n, dy);
    PGK_EACH_OF_4(k)
    dy[k] *= pg__act_slope(v[k], &a->attrs);
    pgk_set4(a->dx, i, a->n, dy);
}

#endif
