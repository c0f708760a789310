/* fold_norm.h - a pass over a tape that only predicts. */
#ifndef PG_OPS_FOLD_NORM_H
#define PG_OPS_FOLD_NORM_H

#include "ops/op.h"

/* A batch normalisation with constant statistics that is the only reader of a convolution's result
 * becomes part of it: conv_norm, which a back end may compute with a changed kernel and bias,
 * without another pass over memory. kept: per value, whether anything outside the tape reads it. */
pg_status pg__tape_fold_norm(pg__tape *t, const unsigned char *kept, pg_err *err);

#endif
