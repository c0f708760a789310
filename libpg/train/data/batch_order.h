/* batch_order.h - which rows come when: the batches of a whole run, epoch after epoch, training and
 * validation, in the order in which Keras' fit() takes them. A function of its options alone, so
 * that whoever reads ahead needs to ask nobody. */
#ifndef PG_TRAIN_DATA_BATCH_ORDER_H
#define PG_TRAIN_DATA_BATCH_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

typedef enum pg__shuffling {
    PG__SHUFFLE_ROWS,
    PG__SHUFFLE_BATCHES, /* blocks of the batch size, and the rows in each: near rows stay near */
    PG__SHUFFLE_NONE
} pg__shuffling;

typedef struct pg__batch_order_opts {
    uint64_t n_train, n_val; /* 0: no training, no validation */
    size_t batch_size, epochs, first_epoch;
    size_t steps; /* of an epoch; 0: one pass over the rows. The next epoch goes on behind them */
    size_t val_steps, val_every; /* 0: all rows, every epoch */
    pg__shuffling shuffling;
    uint64_t seed;
    int whole_only; /* no batch is smaller than the others: what is left of a pass is left out */
} pg__batch_order_opts;

typedef struct pg__turn {
    int validation;
    size_t epoch, batch; /* batch: of this pass */
    size_t n_rows;
    int is_last;    /* of this pass */
    int ends_epoch; /* nothing of this epoch comes behind it */
} pg__turn;

typedef struct pg__batch_order pg__batch_order;

/* PG_E_MISMATCH: less data than steps; no batch at all. */
pg_status pg__batch_order_new(pg__batch_order **out, const pg__batch_order_opts *opts, pg_err *err);
void pg__batch_order_free(pg__batch_order *c);

/* The next batch; rows has room for batch_size. Returns 0 when all is done. */
int pg__batch_order_next(pg__batch_order *c, pg__turn *turn, uint64_t *rows);

/* What the next turn will be. */
typedef struct pg__point {
    size_t epoch, batch;
    int in_validation;
} pg__point;
pg__point pg__point_after(const pg__turn *turn);
void pg__batch_order_seek(pg__batch_order *c, const pg__point *p); /* of a new course */

/* Batches of one epoch. */
size_t pg__batch_order_steps(const pg__batch_order *c);

#endif
