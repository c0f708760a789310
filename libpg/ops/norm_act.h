/* norm_act.h - a pass over a forward tape. */
#ifndef PG_OPS_NORM_ACT_H
#define PG_OPS_NORM_ACT_H

#include "ops/op.h"

/* An activation that is the only reader of a batch normalisation's result becomes part of it
 * (pg__bn_attrs.act): one pass over memory instead of two. Backward, the slope is recomputed from
 * values that the sums and the gradient read anyway, so nothing between the two is ever stored.
 * kept: per value, whether anything outside the tape reads it. elems: the type with which each of
 * n_elems origins computes, or NULL; two that differ stay apart, and where numbers are rounded in
 * between, all but a ReLU that only products read. */
pg_status pg__tape_norm_act(pg__tape *t, const unsigned char *kept, const pg__elem *elems,
                            size_t n_elems, pg_err *err);

#endif
