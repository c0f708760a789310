/* binary.c - what is done to two operands element by element, and scale x + offset. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/walk.h"

PG_CUDA_PREPARE(prepare_add)
{
    const pgk_add a = {.n = pg__cuda_n(i, 2)};
    (void)needs;
    return PG_ONE(add, &a, PGK_FOURS(a.n));
}
const pg__cuda_op pg__cuda_add = PG_CUDA_ONE(prepare_add);

PG_CUDA_PREPARE(prepare_affine)
{
    const pg__affine_attrs *attrs = i->attrs;
    const pgk_affine a = {
        .n = pg__cuda_n(i, 1), .scale = (float)attrs->scale, .offset = (float)attrs->offset};
    (void)needs;
    return PG_ONE(affine, &a, PGK_FOURS(a.n));
}
const pg__cuda_op pg__cuda_affine = PG_CUDA_ONE(prepare_affine);

PG_CUDA_PREPARE(prepare_binary)
{
    const pg__binary_kind kind = ((const pg__binary_attrs *)i->attrs)->kind;
    const uint64_t n = pg__cuda_n(i, 2);
    (void)needs;
    if (pg__cuda_n(i, 0) == n && pg__cuda_n(i, 1) == n) {
        const pgk_binary_alike a = {.n = n, .kind = kind};
        return PG_ONE(binary_alike, &a, PGK_FOURS(n));
    }
    const pgk_binary a = {.from = pg__walk_along(&i->shapes[2], &i->shapes[0], &i->shapes[1]),
                          .kind = kind};
    return PG_ONE(binary, &a, n);
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
