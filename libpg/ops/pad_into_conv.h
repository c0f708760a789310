/* pad_into_conv.h - a pass over a forward tape. */
#ifndef PG_OPS_PAD_INTO_CONV_H
#define PG_OPS_PAD_INTO_CONV_H

#include "ops/op.h"

/* Zeros around an image that only a convolution reads become the convolution's own padding: this
 * saves a larger copy of the image, and one of its gradient. kept: per value, whether anything
 * outside the tape reads it. elems: the type with which each of n_elems origins computes, or NULL;
 * two that differ stay apart. */
pg_status pg__tape_pad_into_conv(pg__tape *t, const unsigned char *kept, const pg__elem *elems,
                                 size_t n_elems, pg_err *err);

#endif
