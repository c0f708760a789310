/* fold_add.h - a pass over a tape that only predicts. */
#ifndef PG_OPS_FOLD_ADD_H
#define PG_OPS_FOLD_ADD_H

#include "ops/op.h"

/* After fold_norm.h: the sum of what a normalised convolution gives, which nothing else reads, and
 * of another value (the end of a residual block) becomes part of the convolution, and so does an
 * activation that alone reads the sum: two ways through memory less. Of two convolutions the later
 * one takes the sum. kept: per value, whether somebody beside the tape reads it. elems: what each
 * of n_elems origins computes with, or NULL; two that differ stay apart. */
pg_status pg__tape_fold_add(pg__tape *t, const unsigned char *kept, const pg__elem *elems,
                            size_t n_elems, pg_err *err);

#endif
