/* dropout.c - dropout, with the numbers of ref_dropout.c. */
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
