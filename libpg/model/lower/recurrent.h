/* recurrent.h - between layer_recurrent.c, layer_cells.c and layer_wrapper.c: one direction of a
 * recurrence. */
#ifndef PG_MODEL_LOWER_RECURRENT_H
#define PG_MODEL_LOWER_RECURRENT_H

#include "model/lower/lower.h"

typedef struct pg__rnn_call {
    pg__val x;
    const pg__val *states; /* initial ones; none: zeros, or what a stateful layer has kept */
    size_t n_states;
    int turned;              /* takes the steps in the opposite order of what its config says */
    int flip;                /* sequences come out the other way round */
    int zero_masked;         /* ... and with zeros at masked steps */
    int ignores_mask;        /* it only goes on to the output */
    const pg__layer *around; /* of a cell: the layer that says what is done with its steps */
    int within;              /* ... of which another cell takes the output */
    uint32_t first_state;    /* number of the first of those that are kept */
} pg__rnn_call;

/* Keras 3 gives a layer that is called with several tensors no mask of theirs, only one that is in
 * the call itself. n_in: tensors of the current call. */
int pg__call_ignores_mask(const pg__lowering *lw, size_t n_in);

/* How many variables a layer or a cell has. */
pg_status pg__count_vars(const pg__lowering *lw, const pg__layer *l, size_t *n, pg_err *err);

/* How many states a cell of this class has. */
size_t pg__cell_states(const char *class_name);

/* Is it a layer that takes steps one after the other? */
int pg__is_recurrent(const pg__layer *l);

/* Appends the recurrent layer l, whose variables are those of the leaf from first_var on: output,
 * then its states if it returns them. */
pg_status pg__lower_direction(pg__lowering *lw, const pg__layer *l, size_t first_var,
                              const pg__rnn_call *call, pg__results *out, pg_err *err);

/* The same for one cell, or a layer that is its own. */
pg_status pg__lower_recurrence(pg__lowering *lw, const pg__layer *l, const pg__rnn_call *call,
                               pg__results *out, pg_err *err);

#endif
