/* ref_meet.c - a single lane has nothing to combine: copies the values. */
#include "ops/real.h"

void PG_REF(meet_stats)(PG_REF_ARGS)
{
    PG_UNUSED(attrs_), PG_UNUSED(n_in);
    for (size_t k = 0; k < n_out; k++)
        if (out[k].p)
            memcpy(out[k].p, in[k].p, (size_t)in[k].n * sizeof(real));
}

void PG_REF(meet_sums)(PG_REF_ARGS)
{
    PG_REF(meet_stats)(attrs_, in, n_in, out, n_out);
}
