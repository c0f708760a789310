/* resize.c - enlarges images by whole factors. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/walk.h"
#include "base/try.h"

/* small, large: which of the shapes; the result is the other one than shape 0. */
static pg_status resize_of(pgk_resize *a, const pg__cuda_inst *i, size_t small, pg_err *err)
{
    const pg__resize_geo g = pg__resize_geo_of(i->attrs, &i->shapes[small]);
    pgk_image images[2];
    pg_status st = PG_OK;
    *a = (pgk_resize){.wide = g.channels % 4 == 0, .geo = g};
    a->channels = pg__size_of(a->wide ? g.channels / 4 : g.channels);
    for (size_t k = 0; k < 3; k++) {
        a->small[k] = pg__size_of(g.small[k]);
        a->large[k] = pg__size_of(g.small[k] * g.factor[k]);
        a->factor[k] = pg__div_of(g.factor[k]);
    }
    PG_TRY(pg__image_of(&images[small], a->small, a->channels, a->wide, err));
    PG_TRY(pg__image_of(&images[1 - small], a->large, a->channels, a->wide, err));
    a->image = images[1];
done:
    return st;
}

PG_CUDA_PREPARE(prepare_resize)
{
    pgk_resize a;
    pg_status st = PG_OK;
    (void)needs;
    PG_TRY(resize_of(&a, i, 0, err));
    const uint64_t n = pg__cuda_n(i, 1) / (a.wide ? 4 : 1);
    st = a.geo.bilinear ? PG_ONE(resize_mix, &a, n) : PG_ONE(resize_near, &a, n);
done:
    return st;
}
const pg__cuda_op pg__cuda_resize = PG_CUDA_ONE(prepare_resize);

PG_CUDA_PREPARE(prepare_grad)
{
    pgk_resize a;
    pg_status st = PG_OK;
    (void)needs;
    PG_TRY(resize_of(&a, i, 1, err));
    const uint64_t n = pg__cuda_n(i, 1) / (a.wide ? 4 : 1);
    st = a.geo.bilinear ? PG_ONE(resize_mix_grad, &a, n) : PG_ONE(resize_near_grad, &a, n);
done:
    return st;
}
const pg__cuda_op pg__cuda_resize_grad = PG_CUDA_ONE(prepare_grad);
