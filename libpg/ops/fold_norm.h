/* fold_norm.h - a pass over a tape that only predicts. */
#ifndef PG_OPS_FOLD_NORM_H
#define PG_OPS_FOLD_NORM_H

#include "ops/op.h"

/* A batch normalisation by constants that alone reads what a convolution gives becomes part of it:
 * conv_norm, which a back end may do by another kernel and bias, without another way through
 * memory. kept: per value, whether somebody beside the tape reads it. */
pg_status pg__tape_fold_norm(pg__tape *t, const unsigned char *kept, pg_err *err);

#endif
