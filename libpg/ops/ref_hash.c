/* ref_hash.c - maps numbers to buckets. */
#include "ops/hash_text.h"

void PG_REF(hash_ids)(PG_REF_ARGS)
{
    const int32_t *ids = in[0].p;
    real *y = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t i = 0; i < out[0].n; i++)
        y[i] = (real)pg__hash_bucket(attrs_, ids[i]);
}
