/* flat.c - updates, sums and norms of flat memory, by kernels over all of it. */
#include "backend/cuda/flat.h"

#include "base/mem.h"

pg_status pg__cuda_accumulate(pg__dev *d, void *into, const void *from, size_t n)
{
    const pgk_accumulate a = {.into = {into, PGK_F32}, .from = {pg__cuda_const(from), PGK_F32}};
    return PG_LAUNCH(d, accumulate, &a, n);
}
