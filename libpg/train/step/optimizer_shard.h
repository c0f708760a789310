/* optimizer_shard.h - the optimizer's state divided over the processes of a job: ZeRO stage 1
 * (Rajbhandari et al. 2020). Each rank gets the sum of gradients for its own elements only, updates
 * those parameters, and all ranks exchange the results; so each keeps 1 / ranks of the slots. In
 * the deterministic mode a rank owns the elements that the tree of comm_tree.c leaves with it; else
 * it owns a piece of every bucket, so that all ranks work on each bucket.
 *
 * A slot has address space for all elements, as without sharding, so that element offsets stay the
 * same; but a rank touches only its own elements, and untouched pages take no memory. */
#ifndef PG_TRAIN_STEP_OPTIMIZER_SHARD_H
#define PG_TRAIN_STEP_OPTIMIZER_SHARD_H

#include "train/step/trainer.h"

/* Is the optimizer's state sharded? */
int pg__is_sharded(const struct pg__ranks *ranks);
/* Does every rank still need the whole sums of gradients, for norms of whole variables? */
int pg__opt_shard_whole_sums(const pg__trainer_compiled *compiled);

/* The elements of a flat are divided block by block; a rank has at most one piece of each. */
size_t pg__opt_shard_n_blocks(const pg__sums *sums);
void pg__opt_shard_piece(const pg_trainer *t, size_t block, size_t rank, uint64_t *from,
                         uint64_t *to);

/* Bytes of a slot that this rank keeps. */
uint64_t pg__opt_shard_bytes(const pg_trainer *t);

/* Is this a sharded slot of the trainer? */
int pg__opt_shard_is(const pg_trainer *t, const pg__flat *f);
/* Allocates its memory, filled with a value. */
pg_status pg__opt_shard_alloc(pg_trainer *t, pg__flat *f, double value, pg_err *err);
/* All ranks put the same n bytes, from byte `at` of the whole slot on; each keeps its own. */
void pg__opt_shard_put(pg_trainer *t, pg__flat *f, uint64_t at, const void *from, size_t n);
/* Checks that all ranks have put the same so far. */
pg_status pg__opt_shard_same(struct pg__ranks *ranks, pg_err *err);

/* Sends each rank's pieces of a flat to all ranks. */
pg_status pg__opt_shard_gather(pg_trainer *t, const pg__flat *f, const char *what, pg_err *err);

/* Sets trained parameters to a slot's values on all ranks; swaps: and the slot to the parameters'
 * old values. */
pg_status pg__opt_shard_take(pg_trainer *t, size_t slot, int swaps, pg_err *err);

/* Reads n bytes of a slot, from byte `at` of the whole slot on. Only rank 0 may, while the others
 * are in pg__opt_shard_serve(). */
pg_status pg__opt_shard_read(pg_trainer *t, size_t slot, uint64_t at, void *buf, size_t n,
                             pg_err *err);
/* On rank 0: it is done reading. On the others: serves rank 0's requests until then. Does nothing
 * without sharding. */
pg_status pg__opt_shard_serve(pg_trainer *t, pg_err *err);

#endif
