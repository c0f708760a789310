/* act.c - activations and their slopes. */
#include "backend/cuda/cuda.h"

PG_CUDA_PREPARE(prepare_act)
{
    const pgk_act a = {.n = pg__cuda_n(i, 1), .attrs = *(const pg__act_attrs *)i->attrs};
    (void)needs;
    return PG_ONE(act, &a, PGK_FOURS(a.n));
}
const pg__cuda_op pg__cuda_act = PG_CUDA_ONE(prepare_act);

PG_CUDA_PREPARE(prepare_grad)
{
    const pgk_act_grad a = {.n = pg__cuda_n(i, 2), .attrs = *(const pg__act_attrs *)i->attrs};
    (void)needs;
    return PG_ONE(act_grad, &a, PGK_FOURS(a.n));
}
const pg__cuda_op pg__cuda_act_grad = PG_CUDA_ONE(prepare_grad);
