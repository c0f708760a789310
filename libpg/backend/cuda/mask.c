/* mask.c - masks of steps and what they do to values; casts. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/walk.h"

PG_CUDA_PREPARE(prepare_ids)
{
    const pgk_mask_ids a = {.ids = {.p = NULL}};
    (void)needs;
    return PG_ONE(mask_ids, &a, pg__cuda_n(i, 0));
}
const pg__cuda_op pg__cuda_mask_ids = PG_CUDA_ONE(prepare_ids);

PG_CUDA_PREPARE(prepare_hash)
{
    const pgk_hash_ids a = {.attrs = *(const pg__hash_attrs *)i->attrs};
    (void)needs;
    return PG_ONE(hash_ids, &a, pg__cuda_n(i, 0));
}
const pg__cuda_op pg__cuda_hash_ids = PG_CUDA_ONE(prepare_hash);

PG_CUDA_PREPARE(prepare_steps)
{
    const pgk_mask_steps a = {.n = pg__cuda_last(i, 0),
                              .value = (float)((const pg__mask_attrs *)i->attrs)->value};
    (void)needs;
    return PG_ONE(mask_steps, &a, pg__cuda_n(i, 1));
}
const pg__cuda_op pg__cuda_mask_steps = PG_CUDA_ONE(prepare_steps);

/* Values by their mask; also the weights of a loss, which may be absent. */
PG_CUDA_PREPARE(prepare_rows)
{
    const uint64_t n = pg__cuda_n(i, 2), n_mask = pg__cuda_n(i, 1);
    const pgk_mask_rows a = {.each = pg__div_of(n > n_mask ? n / n_mask : 1)};
    (void)needs;
    return PG_ONE(mask_rows, &a, n);
}
const pg__cuda_op pg__cuda_mask_rows = PG_CUDA_ONE(prepare_rows);
const pg__cuda_op pg__cuda_mask_weights = PG_CUDA_ONE(prepare_rows);

PG_CUDA_PREPARE(prepare_cast)
{
    const pgk_cast a = {.attrs = *(const pg__cast_attrs *)i->attrs};
    const pgk_narrow narrow = {.n = pg__cuda_n(i, 0)};
    (void)needs;
    if (a.attrs.from != PG_ELEM_INT && a.attrs.to != PG_ELEM_INT)
        return PG_ONE(narrow, &narrow, PGK_FOURS(narrow.n));
    return PG_ONE(cast, &a, pg__cuda_n(i, 0));
}
const pg__cuda_op pg__cuda_cast = PG_CUDA_ONE(prepare_cast);
