/* softmax.c - softmax over the last axis. */
#include "backend/cuda/cuda.h"

PG_CUDA_PREPARE(prepare_softmax)
{
    const pgk_softmax a = {.n = pg__cuda_last(i, 0)};
    (void)needs;
    return PG_ONE(softmax, &a, pg__cuda_rows(i, 0));
}
const pg__cuda_op pg__cuda_softmax = PG_CUDA_ONE(prepare_softmax);

PG_CUDA_PREPARE(prepare_grad)
{
    const pgk_softmax_grad a = {.n = pg__cuda_last(i, 0)};
    (void)needs;
    return PG_ONE(softmax_grad, &a, pg__cuda_rows(i, 0));
}
const pg__cuda_op pg__cuda_softmax_grad = PG_CUDA_ONE(prepare_grad);
