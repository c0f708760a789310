/* overwrite.h - which operands an operation may write its result over: those whose element k is not
 * read any more once element k of the result is written. Plain answers and all back ends keep to
 * it. */
#ifndef PG_OPS_OVERWRITE_H
#define PG_OPS_OVERWRITE_H

#include "ops/op.h"

/* Operands of instruction i that its first result may lie in, the best one first: indices in
 * out[2]; how many. They have the result's shape. */
size_t pg__overwrites(const pg__tape *t, const pg__inst *i, uint32_t out[2]);

#endif
