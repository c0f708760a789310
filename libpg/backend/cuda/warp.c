/* warp.c - random numbers for each row, and images whose cells they move. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/walk.h"
#include "base/try.h"

PG_CUDA_PREPARE(prepare_uniform)
{
    const pg__uniform_attrs *attrs = i->attrs;
    const uint64_t columns = attrs->to.d[1];
    pgk_uniform a = {.columns = pg__size_of(columns), .stream = attrs->stream};
    (void)needs;
    for (size_t k = 0; k < PG_MAX_DRAWN; k++) {
        a.low[k] = (float)attrs->low[k];
        a.high[k] = (float)attrs->high[k];
    }
    a.row = attrs->rows_share ? 0 : (attrs->fold ? attrs->fold : 1) * columns;
    return PG_ONE(uniform, &a, pg__cuda_n(i, 1));
}
const pg__cuda_op pg__cuda_uniform = PG_CUDA_ONE(prepare_uniform);

PG_CUDA_PREPARE(prepare_warp)
{
    const pg__dims *x = &i->shapes[0], *drawn = &i->shapes[1];
    pgk_warp a = {.attrs = *(const pg__warp_attrs *)i->attrs,
                  .columns = pg__size_of(drawn->d[1]),
                  .shared = drawn->d[0] == 1,
                  .channels = pg__size_of(x->d[3]),
                  .from = {pg__size_of(x->d[1]), pg__size_of(x->d[2])}};
    const uint32_t cells[3] = {1, pg__size_of(a.attrs.size[0]), pg__size_of(a.attrs.size[1])};
    pg_status st = PG_OK;
    (void)needs;
    PG_TRY(pg__image_of(&a.image, cells, a.channels, 0, err));
    st = PG_ONE(warp, &a, pg__cuda_n(i, 2));
done:
    return st;
}
const pg__cuda_op pg__cuda_warp = PG_CUDA_ONE(prepare_warp);
