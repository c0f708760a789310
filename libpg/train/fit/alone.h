/* alone.h - the speed of one device alone, and a step done again alone. */
#ifndef PG_TRAIN_FIT_ALONE_H
#define PG_TRAIN_FIT_ALONE_H

#include "train/model/model.h"

/* Rows per second of the first device alone: after a warm-up step, at most 10 forward and backward
 * passes, or one second, over the first rows of the data. Changes no weights, optimizer, moving
 * averages or states: the update is left out, and its time taken from the run before, multiplied by
 * the number of devices. */
pg_status pg__measure_alone(pg_trainer *t, const pg__feed *rows, size_t batch_size,
                            double *rows_per_second, pg_err *err);

/* Finds where the first NaN in this batch arises: one thread repeats the step, changing nothing,
 * and checks every result. out: "the output of conv1", ...; "" if not found. */
pg_status pg__find_nan(pg_trainer *t, const pg__batch *b, char out[256], pg_err *err);

#endif
