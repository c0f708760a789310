/* rows_at_once.h - how many rows a worker takes at a time where rows do not see each other. */
#ifndef PG_TRAIN_MODEL_ROWS_AT_ONCE_H
#define PG_TRAIN_MODEL_ROWS_AT_ONCE_H

#include "train/step/step.h"

/* A power of two; 0: as many as there are. */
size_t pg__rows_at_once(const pg_trainer *t);

#endif
