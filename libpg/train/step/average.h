/* average.h - the moving average of the parameters, that Keras' optimizers keep with use_ema. */
#ifndef PG_TRAIN_STEP_AVERAGE_H
#define PG_TRAIN_STEP_AVERAGE_H

#include "train/step/trainer.h"

/* It begins with the parameters as they are; where there is none, nothing is done. */
pg_status pg__average_begin(pg_trainer *t, pg_err *err);

/* Trained parameters become their averages, as Keras has them behind the last epoch. */
pg_status pg__average_finish(pg_trainer *t, pg_err *err);

/* The two change places, of trained parameters; a second time they are as before, to the bit. All
 * ranks do it. */
pg_status pg__average_swap(pg_trainer *t, pg_err *err);

/* n bytes of a parameter become its average's; swaps: and the other way round. */
void pg__average_move(char *param, char *average, size_t n, int swaps);

#endif
