/* inplace.h - puts results into the memory of operands that are not read any more. */
#ifndef PG_TRAIN_EXEC_INPLACE_H
#define PG_TRAIN_EXEC_INPLACE_H

#include "ops/op.h"

/* Per value: the instructions at which it is first and last needed (first >= last: it has no
 * memory), and whether it lies in the arena. Sets host[v] to v, or to the value whose memory v
 * shares; extends that one's last[] to v's. Reshapes are represented by their roots. */
void pg__lie_in_place(const pg__tape *t, const unsigned char *in_arena, const uint32_t *first,
                      uint32_t *last, pg__val *host);

#endif
