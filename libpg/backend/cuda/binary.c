/* binary.c - what is done to two operands element by element, and scale x + offset. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/walk.h"

PG_CUDA_PREPARE(prepare_add)
{
    const pgk_add a = {.a = {.p = NULL}};
    (void)needs;
    return PG_ONE(add, &a, pg__cuda_n(i, 2));
}
const pg__cuda_op pg__cuda_add = PG_CUDA_ONE(prepare_add);

PG_CUDA_PREPARE(prepare_affine)
{
    const pg__affine_attrs *attrs = i->attrs;
    const pgk_affine a = {.scale = (float)attrs->scale, .offset = (float)attrs->offset};
    (void)needs;
    return PG_ONE(affine, &a, pg__cuda_n(i, 1));
}
const pg__cuda_op pg__cuda_affine = PG_CUDA_ONE(prepare_affine);

PG_CUDA_PREPARE(prepare_binary)
{
    const pgk_binary a = {.from = pg__walk_along(&i->shapes[2], &i->shapes[0], &i->shapes[1]),
                          .kind = ((const pg__binary_attrs *)i->attrs)->kind};
    (void)needs;
    return PG_ONE(binary, &a, pg__cuda_n(i, 2));
}
const pg__cuda_op pg__cuda_binary = PG_CUDA_ONE(prepare_binary);

PG_CUDA_PREPARE(prepare_pick)
{
    const pgk_binary_pick a = {.from = pg__walk_along(&i->shapes[2], &i->shapes[0], &i->shapes[1]),
                               .kind = ((const pg__binary_attrs *)i->attrs)->kind};
    (void)needs;
    return PG_ONE(binary_pick, &a, pg__cuda_n(i, 2));
}
const pg__cuda_op pg__cuda_binary_pick = PG_CUDA_ONE(prepare_pick);
