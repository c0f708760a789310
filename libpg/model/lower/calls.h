/* calls.h - between lower.c and calls.c: keywords and masks of calls. */
#ifndef PG_MODEL_LOWER_CALLS_H
#define PG_MODEL_LOWER_CALLS_H

#include "model/lower/lower.h"

/* Per layer of m: 1 if its results are used for something else than masks. */
pg_status pg__layers_needed(unsigned char **out, const pg__model *m, pg_err *err);

/* Is this keyword one that gives a mask? */
int pg__is_mask_arg(const char *arg);

/* Takes the masks out of a call's operands and gives them to those that they are for: *n operands
 * are left in `in`, with their keywords in `args`. PG__NO_VAL is a mask that was left out. *given:
 * a mask was given to an operand that had none. */
pg_status pg__split_masks(pg__lowering *lw, const pg__call *call, pg__val *in, const char **args,
                          size_t *n, int *given, pg_err *err);

#endif
