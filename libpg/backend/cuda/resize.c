/* resize.c - images made larger by whole factors. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/walk.h"

/* small, to: which of the shapes is the smaller one, and which the result's cells are those of. */
static pgk_resize resize_of(const pg__cuda_inst *i, size_t small)
{
    pgk_resize a = {.geo = pg__resize_geo_of(i->attrs, &i->shapes[small])};
    size_t cells[3];
    for (size_t k = 0; k < 3; k++) {
        cells[k] = a.geo.small[k] * (small == 0 ? a.geo.factor[k] : 1);
        a.factor[k] = pg__div_of(a.geo.factor[k]);
    }
    a.image = pg__image_of(cells, a.geo.channels);
    return a;
}

PG_CUDA_PREPARE(prepare_resize)
{
    const pgk_resize a = resize_of(i, 0);
    (void)needs;
    return a.geo.bilinear ? PG_ONE(resize_mix, &a, pg__cuda_n(i, 1))
                          : PG_ONE(resize_near, &a, pg__cuda_n(i, 1));
}
const pg__cuda_op pg__cuda_resize = PG_CUDA_ONE(prepare_resize);

PG_CUDA_PREPARE(prepare_grad)
{
    const pgk_resize a = resize_of(i, 1);
    (void)needs;
    return a.geo.bilinear ? PG_ONE(resize_mix_grad, &a, pg__cuda_n(i, 1))
                          : PG_ONE(resize_near_grad, &a, pg__cuda_n(i, 1));
}
const pg__cuda_op pg__cuda_resize_grad = PG_CUDA_ONE(prepare_grad);
