/* rows_at_once.h - how many independent rows a worker takes at a time. */
#ifndef PG_TRAIN_MODEL_ROWS_AT_ONCE_H
#define PG_TRAIN_MODEL_ROWS_AT_ONCE_H

#include "train/step/step.h"

/* A power of two; 0: all. */
size_t pg__rows_at_once(const pg_trainer *t);

#endif
