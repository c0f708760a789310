/* op_hash.c - maps numbers to buckets. */
#include "ops/attrs.h"
#include "ops/rules.h"

pg_status pg__shape_hash_ids(const void *attrs, const pg__dims *const *in, size_t n_in,
                             pg__dims *out, pg_err *err)
{
    (void)attrs, (void)n_in, (void)err;
    return pg__shape_like(in, 0, out);
}
