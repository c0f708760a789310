/* recurrent.h - between layer_recurrent.c and layer_wrapper.c: one direction of a recurrence. */
#ifndef PG_MODEL_RECURRENT_H
#define PG_MODEL_RECURRENT_H

#include "model/lower.h"

typedef struct pg__rnn_call {
    pg__val x;
    const pg__val *states; /* initial ones; none: zeros, or what a stateful layer has kept */
    size_t n_states;
    int turned;      /* takes the steps in the opposite order of what its config says */
    int flip;        /* sequences come out the other way round */
    int zero_masked; /* ... and with zeros at masked steps */
} pg__rnn_call;

/* Appends the recurrent layer l: output, then its states if it returns them. */
pg_status pg__lower_recurrence(pg__lowering *lw, const pg__layer *l, const pg__rnn_call *call,
                               pg__results *out, pg_err *err);

#endif
