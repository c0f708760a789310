/* turn.h - arguments of the kernel that transposes planes. */
#ifndef PG_BACKEND_TURN_H
#define PG_BACKEND_TURN_H

#include "backend/cuda/cuda.h"

/* One plane: of `down`, the last axis of the result, and `across`, that of the operand. step_down:
 * elements from one index of `down` to the next in the operand, step_across of `across` in the
 * result. */
pgk_turn pg__turn_of(uint64_t n_down, uint64_t n_across, uint64_t step_down, uint64_t step_across);
/* What the kernel is launched for. */
uint64_t pg__turn_n(const pgk_turn *a);

/* to[c * rows + r] = from[r * cols + c] */
pg_status pg__turn(pg__dev *d, pgk_real from, pgk_real to, uint64_t rows, uint64_t cols);

#endif
