/* op_meet.c - the points at which the lanes of a batch combine statistics: meet_stats(mean, sum of
 * squared distances, count) and meet_sums(sum, sum) give what bn_stats and bn_sums would give over
 * the rows of all of them. The trainer does the work (train/step/sync_bn.c); for a single lane both
 * are the identity. */
#include "ops/attrs.h"
#include "ops/rules.h"

pg_status pg__shape_meet_stats(const void *attrs, const pg__dims *const *in, size_t n_in,
                               pg__dims *out, pg_err *err)
{
    (void)attrs, (void)err;
    for (size_t k = 0; k < n_in; k++)
        out[k] = *in[k];
    return PG_OK;
}

pg_status pg__shape_meet_sums(const void *attrs, const pg__dims *const *in, size_t n_in,
                              pg__dims *out, pg_err *err)
{
    return pg__shape_meet_stats(attrs, in, n_in, out, err);
}
