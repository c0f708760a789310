/* conv_product.c - convolutions that are one matrix product in memory: kernels of one cell, and
 * kernels as large as the image. They need no reordering, and the bias is part of the product. */
#include "backend/cuda/conv.h"

/* Each cell of x is a row of the product. */
static int is_pointwise(const pg__conv *c)
{
    const pg__conv_attrs *a = c->attrs;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->kernel[i] != 1 || a->stride[i] != 1 || a->before[i] > 0 || a->after[i] > 0)
            return 0;
    return 1;
}

/* All cells of x are. */
static int covers_all(const pg__conv *c)
{
    const pg__conv_attrs *a = c->attrs;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->kernel[i] != c->x.d[i + 1] || (a->dilation[i] != 1 && a->kernel[i] > 1) ||
            a->before[i] > 0 || a->after[i] > 0)
            return 0;
    return 1;
}

static pg_status prepare(void **state, const pg__cuda_inst *i, const pg__conv *c, pg__needs *needs,
                         pg_err *err)
{
    if (c->attrs->groups != 1 || (!is_pointwise(c) && !covers_all(c)))
        return PG_OK;
    const pg__product_size size = {c->pass, c->rows * c->y_cells, c->n_w / c->out, c->out};
    return pg__product_new(state, i, &size, needs, err);
}

const pg__conv_way pg__conv_by_product = {prepare, pg__product_release, pg__product_share,
                                          pg__product_run};
