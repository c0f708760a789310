/* dnn_rnn.h - recurrent layers by a library: cuDNN (rnn_cudnn.c) or plain loops (host_rnn.c). One
 * layer in one direction, the rows first, all of one length. Its gates are in the library's order:
 * lstm input, forget, candidate, output; gru reset, update, candidate. */
#ifndef PG_BACKEND_DNN_RNN_H
#define PG_BACKEND_DNN_RNN_H

#include "backend/cuda/cuda.h"

typedef enum pg__dnn_cell {
    PG_DNN_TANH,
    PG_DNN_RELU, /* these two add the input to the product as it is */
    PG_DNN_LSTM,
    PG_DNN_GRU /* the reset gate acts on the product, which has a bias */
} pg__dnn_cell;

typedef struct pg__dnn_rnn {
    pg__dnn_cell cell;
    uint64_t rows, steps, units;
    uint64_t features; /* of the input; units where it is added */
    pgk_type type;
} pg__dnn_rnn;

#define PG_DNN_GATES 4

/* What a plan works with, in bytes; where in the weights the matrices begin, in elements. Those are
 * units x features and units x units, row by row: an output has a row. */
typedef struct pg__dnn_rnn_layout {
    size_t weights, work, reserve; /* reserve: from forward to backward */
    uint64_t of_input[PG_DNN_GATES], of_state[PG_DNN_GATES], bias[PG_DNN_GATES];
} pg__dnn_rnn_layout;

/* Addresses of a run; NULL where a state is 0, or a result is not wanted. */
typedef struct pg__dnn_rnn_io {
    const void *weights, *x, *h0, *c0;
    void *y, *c;                     /* forward: results; backward: y is read */
    void *work, *reserve;            /* reserve NULL: there is no backward */
    const void *dy, *dh, *dc;        /* of y, of the last states */
    void *dx, *dh0, *dc0, *dweights; /* dweights: added to, NULL where not wanted */
} pg__dnn_rnn_io;

typedef struct pg__dnn_rnn_plan pg__dnn_rnn_plan;

static inline uint32_t pg__dnn_gates(pg__dnn_cell cell)
{
    return cell == PG_DNN_LSTM ? 4 : cell == PG_DNN_GRU ? 3 : 1;
}

/* trains: a reserve is kept. PG_E_NO: the library does not support it. */
pg_status pg__dnn_rnn_new(pg__dnn_rnn_plan **out, pg__dev *d, const pg__dnn_rnn *r, int trains,
                          pg__dnn_rnn_layout *layout, pg_err *err);
void pg__dnn_rnn_free(pg__dnn_rnn_plan *p);
/* The failure is the device's. */
pg_status pg__dnn_rnn_forward(pg__dev *d, const pg__dnn_rnn_plan *p, const pg__dnn_rnn_io *io);
pg_status pg__dnn_rnn_backward(pg__dev *d, const pg__dnn_rnn_plan *p, const pg__dnn_rnn_io *io);

#endif
