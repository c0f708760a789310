/* norm_act.h - a pass over a forward tape. */
#ifndef PG_OPS_NORM_ACT_H
#define PG_OPS_NORM_ACT_H

#include "ops/op.h"

/* An activation that alone reads what a batch normalisation gives becomes part of it
 * (pg__bn_attrs.act): one way through memory, not two, and backward the slope is found anew from
 * what the sums and the gradient read anyway, so that nothing between the two is ever stored. kept:
 * per value, whether somebody beside the tape reads it. elems: what each of n_elems
 * origins computes with, or NULL; two that differ stay apart. */
pg_status pg__tape_norm_act(pg__tape *t, const unsigned char *kept, const pg__elem *elems,
                            size_t n_elems, pg_err *err);

#endif
