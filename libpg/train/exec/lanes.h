/* lanes.h - how a batch is cut into lanes, and the tree in which their results are summed.
 *
 * A lane is a range of rows that one worker runs from input to gradients. Bit-identical results for
 * every number of workers and replicas require the same lanes and the same order of sums: in
 * deterministic mode the number of lanes is fixed, and the sum is ((0+1)+(2+3))+((4+5)+(6+7));
 * lanes without rows are absent, not zero. Otherwise each replica takes its slice as
 * multi_gpu_model cuts it, and each of its workers a part of that. */
#ifndef PG_TRAIN_EXEC_LANES_H
#define PG_TRAIN_EXEC_LANES_H

#include <stddef.h>
#include <stdint.h>

typedef struct pg__lane {
    uint64_t first, n; /* rows of the batch */
    size_t replica, worker;
} pg__lane;

typedef struct pg__cut {
    size_t n_replicas; /* of all processes */
    size_t n_workers;  /* of this one: a multiple of its replicas; workers of a replica are
                          contiguous */
    size_t n_lanes;    /* deterministic: a power of two; 0: one per worker */
    int by_replica;    /* lanes are parts of a replica's slice: the result depends on the number of
                          replicas */
    size_t first_here, n_here; /* this process' replicas; n_here 0: all of them */
} pg__cut;

#define PG_NO_WORKER SIZE_MAX /* the lane belongs to another process */

size_t pg__replicas_here(const pg__cut *cut);
/* Deterministic: of all processes; else of this one. */
size_t pg__lane_count(const pg__cut *cut);

/* Lane k of a batch of n rows. */
pg__lane pg__lane_of(const pg__cut *cut, uint64_t n_rows, size_t k);

/* The rows that this process computes, which are contiguous. */
void pg__rows_here(const pg__cut *cut, uint64_t n_rows, uint64_t *first, uint64_t *end);

/* Can n neighbouring lanes including k be run at once? They must be a complete subtree (below) of
 * one worker, with equal rows. lanes: all of a batch; n: a power of two. */
int pg__lanes_alike(const pg__lane *lanes, size_t n_lanes, size_t k, size_t n);

/* The size of the largest such subtree that every worker has, if rows are equal; at most `most`. */
size_t pg__lanes_at_once(const pg__cut *cut, size_t most);

/* The tree over lanes, by which all sums go bottom-up. Complete subtrees are [lo, lo + size) with
 * size a power of two and lo a multiple of it; `top` is the size of the whole. */
size_t pg__tree_top(size_t n_lanes);

#endif
