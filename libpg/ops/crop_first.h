/* crop_first.h - a pass over a forward tape. */
#ifndef PG_OPS_CROP_FIRST_H
#define PG_OPS_CROP_FIRST_H

#include "ops/op.h"

/* If only a part of a result is ever read, such as the first step of a sequence by a classifier,
 * and the operation treats every step independently, its operands are cut instead, as far up as
 * possible: so nothing is computed that nobody reads, in either direction. The numbers stay the
 * same. kept: per value, whether anything outside the tape reads it. elems: the type with which
 * each of n_elems origins computes, or NULL; two that differ stay as they are. */
pg_status pg__tape_crop_first(pg__tape *t, const unsigned char *kept, const pg__elem *elems,
                              size_t n_elems, pg_err *err);

#endif
