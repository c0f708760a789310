/* fold_add.h - a pass over a tape that only predicts. */
#ifndef PG_OPS_FOLD_ADD_H
#define PG_OPS_FOLD_ADD_H

#include "ops/op.h"

/* Runs after fold_norm.h. The sum of a normalised convolution's result, if nothing else reads that,
 * and another value (the end of a residual block) becomes part of the convolution; so does an
 * activation, if nothing else reads the sum: this saves two passes over memory. Of two
 * convolutions, the later one takes the sum. kept: per value, whether anything outside the tape
 * reads it. elems: the type with which each of n_elems origins computes, or NULL; two that differ
 * stay apart. */
pg_status pg__tape_fold_add(pg__tape *t, const unsigned char *kept, const pg__elem *elems,
                            size_t n_elems, pg_err *err);

#endif
