/* overwrite.h - which operands an operation may overwrite with its result: those whose element k is
 * no longer read once element k of the result is written. The plain C references and all back ends
 * guarantee this. */
#ifndef PG_OPS_OVERWRITE_H
#define PG_OPS_OVERWRITE_H

#include "ops/op.h"

/* Operands of instruction i whose memory its first result may use, the best one first: indices in
 * out[2]; returns how many. They have the result's shape. */
size_t pg__overwrites(const pg__tape *t, const pg__inst *i, uint32_t out[2]);

#endif
