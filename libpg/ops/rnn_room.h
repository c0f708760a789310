/* rnn_room.h - recurrent layers that GPU libraries support, and the memory that these keep from the
 * forward pass for the gradient. It is in a result that the operation keeps anyway, whose last axis
 * is then longer than what the operation itself writes. */
#ifndef PG_OPS_RNN_ROOM_H
#define PG_OPS_RNN_ROOM_H

#include <math.h>

#include "ops/attrs.h"
#include "ops/op.h"

#define PG_RNN_ROOM_MORE 256u /* numbers that are not per step */

/* The result that has the space, in numbers per unit of a step: where the library's part begins (it
 * may overlap the operation's own) and where it ends. */
typedef struct pg__rnn_room {
    uint32_t result, from, to;
} pg__rnn_room;

static inline pg__rnn_room pg__rnn_room_of(uint32_t kind)
{
    const pg__rnn_room lstm = {5, 0, 5}, gru = {4, 0, 6}, rnn = {3, 1, 2};
    return kind == PG_OP_lstm ? lstm : kind == PG_OP_gru ? gru : rnn;
}

/* Keras' own rule for its fast implementation: tanh, sigmoid gates, no factors of the state; a
 * library's simple cell may also use relu. Masked steps are not supported: the host would have to
 * know their number. */
static inline int pg__rnn_is_usual(uint32_t kind, const pg__rnn_attrs *a, int has_mask,
                                   int has_factors)
{
    const int is_relu =
        a->act.kind == PG_ACT_RELU && isinf(a->act.a) && a->act.b == 0 && a->act.c == 0;
    if (has_mask || has_factors)
        return 0;
    if (kind == PG_OP_rnn)
        return a->act.kind == PG_ACT_TANH || is_relu;
    return a->act.kind == PG_ACT_TANH && a->gate.kind == PG_ACT_SIGMOID &&
           (kind == PG_OP_lstm || a->reset_after);
}

/* On a tape that has gradients, makes room in recurrent layers for what a library keeps. */
void pg__rnn_make_room(pg__tape *t);

#endif
