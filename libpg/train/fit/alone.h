/* alone.h - what one device would do alone. */
#ifndef PG_TRAIN_FIT_ALONE_H
#define PG_TRAIN_FIT_ALONE_H

#include "train/model/model.h"

/* Rows per second of the first device alone: after a step to warm up, at most 10 forward and
 * backward passes, or a second of them, over the first rows of the data. Weights, optimizer, moving
 * averages and states stay as they are; the update, which is left out, counts with the time that
 * the devices took for it in the run before, times their number. */
pg_status pg__measure_alone(pg_trainer *t, const pg__feed *rows, size_t batch_size,
                            double *rows_per_second, pg_err *err);

/* Where the numbers that are none in this batch come from: one thread does the step again, which
 * changes nothing, and looks at every result. out: "the output of conv1", ...; "" if it is not
 * found. */
pg_status pg__find_nan(pg_trainer *t, const pg__batch *b, char out[256], pg_err *err);

#endif
