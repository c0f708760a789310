/* powersgd.h - sums of gradients whose matrices travel as factors of low rank: PowerSGD (Vogels,
 * Karimireddy, Jaggi: "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
 * Optimization", NeurIPS 2019, algorithms 1 and 2). Each rank keeps what its factors leave out and
 * adds it to its next gradients. */
#ifndef PG_TRAIN_STEP_POWERSGD_H
#define PG_TRAIN_STEP_POWERSGD_H

#include "train/step/trainer.h"

#define PG_MAX_FACTOR_RANK 64u

/* Bytes that it takes beside the gradients, for factors of so many columns. */
uint64_t pg__powersgd_bytes(const pg_trainer *t, size_t rank);

/* Replaces this rank's gradients, float32 in host memory, by their sum over ranks. Call it once
 * their backward passes are over; the pool's threads compute. *inout: NULL before the first call. */
typedef struct pg__powersgd pg__powersgd;
pg_status pg__powersgd_sum(pg__powersgd **inout, pg_trainer *t, size_t rank, float *gradients,
                           pg_err *err);
void pg__powersgd_free(pg__powersgd *p); /* NULL is allowed */

#endif
