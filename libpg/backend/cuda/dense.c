/* dense.c - dense layers: one matrix product over all rows. */
#include "backend/cuda/product.h"

/* The widths of a row of x and of y. */
static pg_status prepare(void **state, const pg__cuda_inst *i, pg__pass pass, uint64_t k,
                         uint64_t n, pg__needs *needs, pg_err *err)
{
    const pg__product_size size = {pass, pg__cuda_rows(i, 0), k, n};
    return pg__product_new(state, i, &size, needs, err);
}

PG_CUDA_PREPARE(prepare_y)
{
    return prepare(state, i, PG_PASS_Y, i->shapes[1].d[0], i->shapes[1].d[1], needs, err);
}

PG_CUDA_PREPARE(prepare_x)
{
    return prepare(state, i, PG_PASS_X, i->shapes[1].d[0], i->shapes[1].d[1], needs, err);
}

PG_CUDA_PREPARE(prepare_w)
{
    return prepare(state, i, PG_PASS_W, pg__cuda_last(i, 0), pg__cuda_last(i, 1), needs, err);
}

#define PRODUCT(fn)                                                                \
    {                                                                              \
        .prepare = fn, .release = pg__product_release, .share = pg__product_share, \
        .run = pg__product_run                                                     \
    }
const pg__cuda_op pg__cuda_dense = PRODUCT(prepare_y);
const pg__cuda_op pg__cuda_dense_dx = PRODUCT(prepare_x);
const pg__cuda_op pg__cuda_dense_dw = PRODUCT(prepare_w);
