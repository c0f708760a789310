/* pool_first.h - a pass over a forward tape. */
#ifndef PG_OPS_POOL_FIRST_H
#define PG_OPS_POOL_FIRST_H

#include "ops/op.h"

/* The maximum of a window is the same before and after ReLU, and so is the cell that gets the
 * gradient wherever that is not 0. So pooling comes first and ReLU has only its results to process,
 * in both directions. kept: per value, whether anything outside the tape reads it. */
pg_status pg__tape_pool_first(pg__tape *t, const unsigned char *kept, pg_err *err);

#endif
