/* feed.h - the arrays of a data file as a model's inputs, targets and weights, batch by batch. */
#ifndef PG_TRAIN_MODEL_FEED_H
#define PG_TRAIN_MODEL_FEED_H

#include "train/step/step.h"

/* One array of every batch. */
typedef struct pg__slot {
    const pg__array *array; /* NULL: no such array */
    const char *layer;      /* input or output, for messages */
    pg__cast cast;
    uint64_t row_elems;     /* elements of a row in the batch */
    uint64_t below;         /* integers are 0 .. below - 1; 0: any */
    const int32_t *ignored; /* a class that the loss ignores, even out of range; NULL: none */
    const char *limited_by; /* the Embedding that sets the limit; NULL: the output */
    int one_hot;            /* classes become rows of row_elems zeros and a one */
} pg__slot;

/* One set of rows in the order of the model's inputs and outputs. */
typedef struct pg__feed {
    const pg_trainer *t;
    pg_data *data;
    pg__slot *inputs, *targets, *weights;
    uint64_t first, n_rows; /* its rows of the arrays */
    double *class_weights;  /* by class, NAN if not given; NULL: none */
    size_t n_class_weights;
} pg__feed;

/* Finds the arrays of data bound to the model, and checks that they have the same number of rows.
 * For validation uses xval0, yval0, ... if there are any. PG_E_MISMATCH names what is missing. */
pg_status pg__feed_open(pg__feed *out, const pg_trainer *t, pg_data *data, pg__feed_use use,
                        pg_err *err);
void pg__feed_close(pg__feed *f);

/* Binds the data to the arrays that this model needs; once, before feeds are opened. */
pg_status pg__feed_bind(const pg_trainer *t, pg_data *data, pg__feed_use use, pg_err *err);

/* Resets the trainer's inputs to the shapes of the model, so that a run depends only on its own
 * data, and restores them after the run. The caller keeps *before. */
pg_status pg__shapes_begin(pg_trainer *t, pg__dims **before, pg_err *err);
void pg__shapes_end(pg_trainer *t, pg__dims **before);

/* Do the rows have the shapes of the model's inputs? A last axis of 1 may be missing or
 * superfluous, as in Keras. Sets the unknown dimensions of the trainer's inputs to those of the
 * data. */
pg_status pg__feed_fit_inputs(const pg__feed *f, pg_trainer *t, pg_err *err);

/* Rows of a batch: `asked` (0: 32), or the number that a stateful model fixes. PG_E_MISMATCH if
 * these differ. */
pg_status pg__feed_batch_size(const pg_trainer *t, size_t asked, size_t *out, pg_err *err);

/* Does the model take batches of one size only? Then no rows may be left over; option:
 * the one that could leave some out ("steps"). */
int pg__feed_is_fixed(const pg_trainer *t);
pg_status pg__feed_divides(const pg__feed *f, size_t batch_size, const char *option, pg_err *err);

/* The program of the first lane of such batches, whose values have the shapes of the batch. */
pg_status pg__feed_program(pg_trainer *t, size_t batch_size, pg__pass pass, const pg__program **out,
                           pg_err *err);

/* Determines what batches hold, by a program for any number of rows; refuses targets that do not
 * fit, and values out of range in small arrays of integers. */
pg_status pg__feed_fit(pg__feed *f, const pg__program *p, pg_err *err);

/* Notes inputs with values up to 255 that no layer scales. Fails only if reading fails. */
pg_status pg__feed_hint_scale(const pg__feed *f, pg_data *data, pg_err *err);

/* "0=1,1=5": weights for the rows of each class. */
pg_status pg__feed_weigh_classes(pg__feed *f, const char *text, pg_err *err);

/* Memory for batches of n_rows of this feed, and of others of the same model; weighted: rows (or
 * classes) have weights in any of them. */
pg_status pg__batch_alloc(pg__batch *b, const pg__feed *f, int weighted, uint64_t n_rows,
                          pg_err *err);
int pg__feed_is_weighted(const pg__feed *f);
void pg__batch_free(pg__batch *b, const pg_trainer *t);

/* Reads rows[0..n) of the arrays. PG_E_MISMATCH names a row that holds NaN or a value that the
 * model cannot take. stop: see pg__array_read(). */
pg_status pg__feed_read(const pg__feed *f, const uint64_t *rows, size_t n, pg__batch *out,
                        const int *stop, pg_err *err);

/* The first n rows as a batch (if there are fewer, repeated), which the caller frees, even if this
 * fails. */
pg_status pg__feed_read_first(const pg__feed *f, size_t n, pg__batch *out, pg_err *err);

/* A checksum of the first and last rows, to recognise the data. 0: they could not be read, which
 * training will report. */
uint32_t pg__feed_mark(const pg__feed *f);

/* Refuses integers out of the slot's range; rows: the row of each value. */
pg_status pg__slot_check(const pg__slot *s, const int32_t *v, const uint64_t *rows, size_t n,
                         pg_err *err);

#endif
