/* exchange.h - the sum of all lanes' gradients, brought to every device. */
#ifndef PG_TRAIN_EXCHANGE_H
#define PG_TRAIN_EXCHANGE_H

#include "train/trainer.h"

/* sums[d]: where device d has it, in memory of its own. By the devices' own means where they have
 * some and nobody asks for the order of the tree; else by copies, in that order. */
pg_status pg__exchange(pg_trainer *t, pg__flat **sums, pg_err *err);

#endif
