/* data_random.h - the state of a source of made-up rows, which its close() frees. */
#ifndef PG_TRAIN_DATA_DATA_RANDOM_H
#define PG_TRAIN_DATA_DATA_RANDOM_H

#include <stdint.h>

#include "pg/err.h"

pg_status pg__random_rows(void **state, uint64_t n_rows, uint64_t seed, pg_err *err);

#endif
