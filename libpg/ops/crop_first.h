/* crop_first.h - a pass over a forward tape. */
#ifndef PG_OPS_CROP_FIRST_H
#define PG_OPS_CROP_FIRST_H

#include "ops/op.h"

/* Where of a result only a part is ever read, as the first step of a sequence by whoever classifies
 * it, and what makes it treats every step alone, the operands are cut instead, as far up as that
 * goes: nothing is computed that nobody reads, in either direction. The numbers stay the same.
 * kept: per value, whether somebody beside the tape reads it. elems: what each of n_elems origins
 * computes with, or NULL; two that differ stay as they are. */
pg_status pg__tape_crop_first(pg__tape *t, const unsigned char *kept, const pg__elem *elems,
                              size_t n_elems, pg_err *err);

#endif
