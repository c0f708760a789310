/* batch_order.h - the order of rows: the batches of a whole run, epoch after epoch, training and
 * validation, as Keras' fit() takes them. It depends only on its options, so batches can be read
 * ahead. */
#ifndef PG_TRAIN_DATA_BATCH_ORDER_H
#define PG_TRAIN_DATA_BATCH_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

typedef enum pg__shuffling {
    PG_SHUFFLE_ROWS,
    PG_SHUFFLE_BATCHES, /* shuffles blocks of the batch size, and the rows in each: neighbours stay
                            close */
    PG_SHUFFLE_NONE
} pg__shuffling;

typedef struct pg__batch_order_opts {
    uint64_t n_train, n_val; /* 0: no training, no validation */
    size_t batch_size, epochs, first_epoch;
    size_t steps; /* of an epoch; 0: one pass over the rows. The next epoch continues after them */
    size_t val_steps, val_every; /* 0: all rows, every epoch */
    pg__shuffling shuffling;
    uint64_t seed;
    int whole_only; /* all batches have the full size: a remainder of a pass is dropped */
} pg__batch_order_opts;

typedef struct pg__turn {
    int validation;
    size_t epoch, batch; /* batch: of this pass */
    size_t n_rows;
    int is_last;    /* of this pass */
    int ends_epoch; /* the last turn of its epoch */
} pg__turn;

typedef struct pg__batch_order pg__batch_order;

/* PG_E_MISMATCH: fewer batches than steps, or none at all. */
pg_status pg__batch_order_new(pg__batch_order **out, const pg__batch_order_opts *opts, pg_err *err);
void pg__batch_order_free(pg__batch_order *c);

/* The next batch; rows has room for batch_size. Returns 0 at the end of the run. */
int pg__batch_order_next(pg__batch_order *c, pg__turn *turn, uint64_t *rows);

/* The position of the next turn. */
typedef struct pg__point {
    size_t epoch, batch;
    int in_validation;
} pg__point;
pg__point pg__point_after(const pg__turn *turn);
void pg__batch_order_seek(pg__batch_order *c, const pg__point *p); /* of a new order */

/* Batches of one epoch. */
size_t pg__batch_order_steps(const pg__batch_order *c);

#endif
