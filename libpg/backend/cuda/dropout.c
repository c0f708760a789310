/* dropout.c - dropout and normally distributed numbers, with those of ref_dropout.c and
 * ref_normal.c. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/walk.h"

PG_CUDA_PREPARE(prepare_dropout)
{
    const pg__dropout_attrs *attrs = i->attrs;
    const pg__dims *s = &i->shapes[2];
    const uint64_t n = pg__cuda_n(i, 2);
    pgk_dropout a = {.n = n,
                     .rate = (float)attrs->rate,
                     .scale = 1.0f / (1.0f - (float)attrs->rate),
                     .stream = attrs->stream,
                     .noise = pg__walk_along(s, &attrs->noise, NULL)};
    (void)needs;
    if (s->rank > 0 && !attrs->rows_share)
        a.row =
            (attrs->fold ? attrs->fold : 1) * (pg__dims_elems(&attrs->noise) / attrs->noise.d[0]);
    return pg__dims_equal(s, &attrs->noise) ? PG_ONE(dropout, &a, PGK_FOURS(n + 3))
                                            : PG_ONE(dropout_shared, &a, n);
}
const pg__cuda_op pg__cuda_dropout = PG_CUDA_ONE(prepare_dropout);

PG_CUDA_PREPARE(prepare_normal)
{
    const pg__normal_attrs *attrs = i->attrs;
    const pg__dims *s = &attrs->shape;
    const uint64_t n = pg__dims_elems(s);
    pgk_normal a = {.n = n, .stream = attrs->stream};
    (void)needs;
    if (s->rank > 0 && s->d[0] > 0)
        a.row = (attrs->fold ? attrs->fold : 1) * (n / s->d[0]);
    return PG_ONE(normal, &a, n / 2 + 1);
}
const pg__cuda_op pg__cuda_normal = PG_CUDA_ONE(prepare_normal);
