/* average.h - the moving average of the parameters that Keras' optimizers keep with use_ema. */
#ifndef PG_TRAIN_STEP_AVERAGE_H
#define PG_TRAIN_STEP_AVERAGE_H

#include "train/step/trainer.h"

/* Starts the average from the current parameters; does nothing without use_ema. */
pg_status pg__average_begin(pg_trainer *t, pg_err *err);

/* Sets trained parameters to their averages, as Keras does after the last epoch. */
pg_status pg__average_finish(pg_trainer *t, pg_err *err);

/* Swaps trained parameters and their averages; a second call restores both to the bit. All ranks
 * must call it. */
pg_status pg__average_swap(pg_trainer *t, pg_err *err);

/* Copies n bytes of the average into the parameter; swaps: and those of the parameter into the
 * average. */
void pg__average_move(char *param, char *average, size_t n, int swaps);

#endif
