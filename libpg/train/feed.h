/* feed.h - the arrays of a data file as a model's inputs, targets and weights, batch by batch. */
#ifndef PG_TRAIN_FEED_H
#define PG_TRAIN_FEED_H

#include "train/trainer.h"

/* One set of rows, for training or validation, in the order of the model's inputs and outputs. */
typedef struct pg__feed {
    const pg_trainer *t;
    const pg_data *data;
    const pg__array **inputs, **targets, **weights; /* weights: entries may be NULL */
    uint64_t first, n_rows;                         /* rows of the arrays that belong to it */
} pg__feed;

/* Finds the arrays and checks that they have one number of rows. validation: those called xval0,
 * yval0, ... where there are any. PG_E_MISMATCH names what is missing. */
pg_status pg__feed_open(pg__feed *out, const pg_trainer *t, const pg_data *data, int validation,
                        pg_err *err);
void pg__feed_close(pg__feed *f);

/* Sets the unknown dimensions of the trainer's inputs to those of the data. PG_E_MISMATCH where
 * known ones differ. */
pg_status pg__feed_fit_inputs(const pg__feed *f, pg_trainer *t, pg_err *err);

/* Room for batches of program p's number of rows. */
pg_status pg__batch_alloc(pg__batch *b, const pg__feed *f, const pg__program *p, pg_err *err);
void pg__batch_free(pg__batch *b, const pg_trainer *t);

/* Reads rows[0..n) of the arrays. PG_E_MISMATCH where targets do not fit. */
pg_status pg__feed_read(const pg__feed *f, const pg__program *p, const uint64_t *rows, size_t n,
                        pg__batch *out, pg_err *err);

#endif
