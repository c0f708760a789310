/* loss.c - losses and their gradients: prediction, target, weights, seed -> losses of the rows, or
 * the prediction's gradient. */
#include "backend/cuda/cuda.h"

#define MAX_PLACES ((uint64_t)1 << 24) /* up to which a float counts exactly: k_loss.h */

static pg_status args_of(pgk_loss *a, const pg__cuda_inst *i, pg_err *err)
{
    a->n = pg__cuda_last(i, 0);
    a->attrs = *(const pg__loss_attrs *)i->attrs;
    if (a->attrs.kind == PG_LOSS_categorical_hinge && a->n >= MAX_PLACES)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "categorical_hinge of %llu classes is not supported on a GPU",
                       (unsigned long long)a->n);
    return PG_OK;
}

PG_CUDA_PREPARE(prepare_loss)
{
    pgk_loss a = {.n = 0};
    const pg_status st = args_of(&a, i, err);
    (void)needs;
    return st == PG_OK ? PG_ONE(loss, &a, pg__cuda_rows(i, 0)) : st;
}
const pg__cuda_op pg__cuda_loss = PG_CUDA_ONE(prepare_loss);

PG_CUDA_PREPARE(prepare_grad)
{
    pgk_loss_grad a = {.n = 0};
    const pg_status st = args_of(&a, i, err);
    (void)needs;
    return st == PG_OK ? PG_ONE(loss_grad, &a, pg__cuda_rows(i, 0)) : st;
}
const pg__cuda_op pg__cuda_loss_grad = PG_CUDA_ONE(prepare_grad);
