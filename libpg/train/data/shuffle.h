/* shuffle.h - the order of the rows, a function of seed and epoch alone. */
#ifndef PG_TRAIN_DATA_SHUFFLE_H
#define PG_TRAIN_DATA_SHUFFLE_H

#include <stddef.h>
#include <stdint.h>

/* Fills order[0 .. n) with a permutation of 0 .. n - 1. */
void pg__shuffle(uint64_t *order, uint64_t n, uint64_t seed, size_t epoch);

#endif
