/* feed.h - the arrays of a data file as a model's inputs, targets and weights, batch by batch. */
#ifndef PG_TRAIN_MODEL_FEED_H
#define PG_TRAIN_MODEL_FEED_H

#include "train/step/step.h"

/* One array of every batch. */
typedef struct pg__slot {
    const pg__array *array; /* NULL: none */
    const char *layer;      /* input or output, for messages */
    pg__cast cast;
    uint64_t row_elems;     /* in the batch */
    uint64_t below;         /* integers are 0 .. below - 1; 0: any */
    const int32_t *ignored; /* a class that the loss leaves out, whatever it is; NULL: none */
    const char *limited_by; /* the Embedding that says so, or NULL: the output */
    int one_hot;            /* classes become rows of row_elems zeros and a one */
} pg__slot;

/* One set of rows in the order of the model's inputs and outputs. */
typedef struct pg__feed {
    const pg_trainer *t;
    pg_data *data;
    pg__slot *inputs, *targets, *weights;
    uint64_t first, n_rows; /* rows of the arrays that belong to it */
    double *class_weights;  /* by class, NAN where none was given; NULL: none */
    size_t n_class_weights;
} pg__feed;

/* Finds the arrays of data that was bound to the model, and checks that they have one number of
 * rows. For validation: those called xval0, yval0, ... where there are any. PG_E_MISMATCH names
 * what is missing. */
pg_status pg__feed_open(pg__feed *out, const pg_trainer *t, pg_data *data, pg__feed_use use,
                        pg_err *err);
void pg__feed_close(pg__feed *f);

/* Gives the data the arrays that this model needs; once, before feeds of them are opened. */
pg_status pg__feed_bind(const pg_trainer *t, pg_data *data, pg__feed_use use, pg_err *err);

/* A run sees the shapes of its own data alone: the trainer's inputs become what the model says, and
 * after the run what they were before. *before is the caller's to hold. */
pg_status pg__shapes_begin(pg_trainer *t, pg__dims **before, pg_err *err);
void pg__shapes_end(pg_trainer *t, pg__dims **before);

/* Do the rows have the shapes of the model's inputs? A last axis of 1 may be missing or too much,
 * as in Keras. Sets the unknown dimensions of the trainer's inputs to those of the data. */
pg_status pg__feed_fit_inputs(const pg__feed *f, pg_trainer *t, pg_err *err);

/* Rows of a batch: what was asked for (0: 32), or what a stateful model fixes. PG_E_MISMATCH where
 * that is another number. */
pg_status pg__feed_batch_size(const pg_trainer *t, size_t asked, size_t *out, pg_err *err);

/* Does the model take batches of one size only? Then no row may be left; option: what would leave
 * some out ("--steps-per-epoch"). */
int pg__feed_is_fixed(const pg_trainer *t);
pg_status pg__feed_divides(const pg__feed *f, size_t batch_size, const char *option, pg_err *err);

/* A program that has what batches of this size hold, and that their first lane needs anyway. */
pg_status pg__feed_program(pg_trainer *t, size_t batch_size, pg__pass pass, const pg__program **out,
                           pg_err *err);

/* What batches hold, by a program for any number of rows; targets that do not fit are refused, and
 * small arrays of integers are looked through for values that the model does not know. */
pg_status pg__feed_fit(pg__feed *f, const pg__program *p, pg_err *err);

/* Notes inputs that go to 255, which nothing in the model scales. Errors of reading. */
pg_status pg__feed_hint_scale(const pg__feed *f, pg_data *data, pg_err *err);

/* "0=1,1=5": rows of a class count so much. */
pg_status pg__feed_weigh_classes(pg__feed *f, const char *text, pg_err *err);

/* Room for batches of n_rows of this feed, and of others of the same model; weighted: rows (or
 * classes) have weights in one of them. */
pg_status pg__batch_alloc(pg__batch *b, const pg__feed *f, int weighted, uint64_t n_rows,
                          pg_err *err);
int pg__feed_is_weighted(const pg__feed *f);
void pg__batch_free(pg__batch *b, const pg_trainer *t);

/* Reads rows[0..n) of the arrays. PG_E_MISMATCH names the row that holds what the model cannot
 * take, or NaN. stop: see pg__array_read(). */
pg_status pg__feed_read(const pg__feed *f, const uint64_t *rows, size_t n, pg__batch *out,
                        const int *stop, pg_err *err);

/* The first n rows as a batch (where there are fewer, all of them again and again), which the
 * caller frees, also where this fails. */
pg_status pg__feed_read_first(const pg__feed *f, size_t n, pg__batch *out, pg_err *err);

/* A number that other data of the same shapes hardly have: of the first and last rows. 0: they
 * could not be read, which is the training's to tell. */
uint32_t pg__feed_mark(const pg__feed *f);

/* Refuses integers that the slot does not know; rows: of those values. */
pg_status pg__slot_check(const pg__slot *s, const int32_t *v, const uint64_t *rows, size_t n,
                         pg_err *err);

#endif
