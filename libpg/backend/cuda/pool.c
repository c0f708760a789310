/* pool.c - maximum and average over windows. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/walk.h"

PG_CUDA_PREPARE(prepare_pool)
{
    const pg__pool_attrs *attrs = i->attrs;
    pgk_pool a = {.geo = pg__pool_geo_of(attrs, &i->shapes[0], &i->shapes[1])};
    (void)needs;
    a.image = pg__image_of(a.geo.y, a.geo.channels);
    return attrs->max ? PG_ONE(pool_max, &a, pg__cuda_n(i, 1))
                      : PG_ONE(pool_mean, &a, pg__cuda_n(i, 1));
}
const pg__cuda_op pg__cuda_pool = PG_CUDA_ONE(prepare_pool);

PG_CUDA_PREPARE(prepare_grad)
{
    const pg__pool_attrs *attrs = i->attrs;
    pgk_pool_grad a = {.geo = pg__pool_geo_of(attrs, &i->shapes[2], &i->shapes[1])};
    (void)needs;
    a.image = pg__image_of(a.geo.x, a.geo.channels);
    for (size_t k = 0; k < 3; k++)
        a.stride[k] = pg__div_of(a.geo.stride[k]);
    return attrs->max ? PG_ONE(pool_max_grad, &a, pg__cuda_n(i, 2))
                      : PG_ONE(pool_mean_grad, &a, pg__cuda_n(i, 2));
}
const pg__cuda_op pg__cuda_pool_grad = PG_CUDA_ONE(prepare_grad);
