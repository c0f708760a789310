/* calls.h - between lower.c and calls.c: keywords and masks of calls. */
#ifndef PG_MODEL_LOWER_CALLS_H
#define PG_MODEL_LOWER_CALLS_H

#include "model/lower/lower.h"

/* Per layer of m: 1 if its results are used for more than masks. */
pg_status pg__layers_needed(unsigned char **out, const pg__model *m, pg_err *err);

/* Does this keyword give a mask? */
int pg__is_mask_arg(const char *arg);

/* Removes the masks from the operands of a call and attaches them to their operands: *n operands
 * remain in `in`, with their keywords in `args`. PG_NO_VAL is a mask that was left out. *given: an
 * operand without a mask got one. */
pg_status pg__split_masks(pg__lowering *lw, const pg__call *call, pg__val *in, const char **args,
                          size_t *n, int *given, pg_err *err);

#endif
