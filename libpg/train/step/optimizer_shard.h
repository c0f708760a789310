/* optimizer_shard.h - the optimizer's state divided over the processes of a job: ZeRO stage 1
 * (Rajbhandari et al. 2020). Each rank gets the sum of gradients for its own elements only, updates
 * those, and all get what the others made of theirs; so each keeps 1 / ranks of the slots. In the
 * deterministic mode its elements are those that the tree of comm_tree.c leaves with it; else it
 * has a piece of every bucket, so that all ranks are busy with each.
 *
 * A slot has its place in memory for all elements, as without division, so that everything that
 * counts in elements stays as it is; but only its own are ever touched, and memory that nobody
 * touches is not taken. */
#ifndef PG_TRAIN_STEP_OPTIMIZER_SHARD_H
#define PG_TRAIN_STEP_OPTIMIZER_SHARD_H

#include "train/step/trainer.h"

/* Is it divided? */
int pg__is_sharded(const struct pg__ranks *ranks);
/* Do sums of gradients come whole to every rank all the same, for norms of whole variables? */
int pg__opt_shard_whole_sums(const pg__trainer_compiled *compiled);

/* Elements of a flat are divided block by block; a rank has one piece of each, or none. */
size_t pg__opt_shard_n_blocks(const pg__sums *sums);
void pg__opt_shard_piece(const pg_trainer *t, size_t block, size_t rank, uint64_t *from,
                         uint64_t *to);

/* Bytes of a slot that this rank keeps. */
uint64_t pg__opt_shard_bytes(const pg_trainer *t);

/* Is this one of the trainer's slots, of which only pieces are there? */
int pg__opt_shard_is(const pg_trainer *t, const pg__flat *f);
/* Its memory, with a value everywhere. */
pg_status pg__opt_shard_alloc(pg_trainer *t, pg__flat *f, double value, pg_err *err);
/* What all ranks put there, n bytes from byte `at` of all on: each keeps what is its own. */
void pg__opt_shard_put(pg_trainer *t, pg__flat *f, uint64_t at, const void *from, size_t n);
/* Did all put the same so far? */
pg_status pg__opt_shard_same(struct pg__ranks *ranks, pg_err *err);

/* What each rank has of a flat, to all. */
pg_status pg__opt_shard_gather(pg_trainer *t, const pg__flat *f, const char *what, pg_err *err);

/* Trained parameters become what a slot has for them, everywhere; swaps: and the slot what they
 * were. */
pg_status pg__opt_shard_take(pg_trainer *t, size_t slot, int swaps, pg_err *err);

/* n bytes of a slot, from byte `at` of all on: rank 0 asks, piece by piece, while the others are in
 * pg__opt_shard_meet(). */
pg_status pg__opt_shard_read(pg_trainer *t, size_t slot, uint64_t at, void *buf, size_t n,
                             pg_err *err);
/* Rank 0 is done, the others give what it asks for until then. Nothing where there is nothing to
 * ask for. */
pg_status pg__opt_shard_meet(pg_trainer *t, pg_err *err);

#endif
