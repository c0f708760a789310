/* inplace.h - results that lie in the memory of an operand which nobody reads any more. */
#ifndef PG_TRAIN_EXEC_INPLACE_H
#define PG_TRAIN_EXEC_INPLACE_H

#include "ops/op.h"

/* Per value: the instructions at which it is first and last needed (first >= last: it has no
 * memory), and whether it lies in the arena. host[v] becomes v, or the value in whose memory v
 * lies; that one's last[] then includes v's. Reshapes are told by their roots. */
void pg__lie_in_place(const pg__tape *t, const unsigned char *in_arena, const uint32_t *first,
                      uint32_t *last, pg__val *host);

#endif
