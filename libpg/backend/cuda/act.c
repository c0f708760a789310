/* act.c - activations and their slopes. */
#include "backend/cuda/cuda.h"

PG_CUDA_PREPARE(prepare_act)
{
    const pgk_act a = {.attrs = *(const pg__act_attrs *)i->attrs};
    (void)needs;
    return PG_ONE(act, &a, pg__cuda_n(i, 1));
}
const pg__cuda_op pg__cuda_act = PG_CUDA_ONE(prepare_act);

PG_CUDA_PREPARE(prepare_grad)
{
    const pgk_act_grad a = {.attrs = *(const pg__act_attrs *)i->attrs};
    (void)needs;
    return PG_ONE(act_grad, &a, pg__cuda_n(i, 2));
}
const pg__cuda_op pg__cuda_act_grad = PG_CUDA_ONE(prepare_grad);
