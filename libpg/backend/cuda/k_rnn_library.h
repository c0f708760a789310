/* k_rnn_library.h - converts recurrent layers to a library's order (dnn_rnn.h) and back: kernels,
 * gradients of kernels, reversed sequences. */
#ifndef PG_BACKEND_K_RNN_LIBRARY_H
#define PG_BACKEND_K_RNN_LIBRARY_H

#include "backend/cuda/pgk.h"

/* Where the library has what of its gate k, in elements of its weights, and which one that is of
 * ours. */
typedef struct pgk_rnn_layout {
    uint64_t units, width, features; /* features: of the input; 0: it has no matrix */
    uint64_t of_input[4], of_state[4], bias[4];
    uint64_t gate[4];
    int has_bias;
} pgk_rnn_layout;

/* An output j of gate g, and its weight number c: of the input, of the state, the bias. */
typedef struct pgk_rnn_weight {
    uint64_t g, j, c, ours; /* ours: the column */
} pgk_rnn_weight;

PGK_FN pgk_rnn_weight pgk_rnn_weight_of(const pgk_rnn_layout *l, uint64_t i, uint64_t per_output)
{
    pgk_rnn_weight w;
    const uint64_t line = i / per_output;
    w.c = i - line * per_output;
    w.g = line / l->units;
    w.j = line - w.g * l->units;
    w.ours = l->gate[w.g] * l->units + w.j;
    return w;
}

/* The library's weights: the input is what was multiplied already, so it goes to its gate as it is;
 * per output features + units + 1. */
typedef struct pgk_rnn_pack {
    pgk_real kernel, bias, to;
    pgk_rnn_layout l;
} pgk_rnn_pack;

PGK_FN void pgk_rnn_pack_at(const pgk_rnn_pack *a, uint64_t i)
{
    const pgk_rnn_layout *l = &a->l;
    const pgk_rnn_weight w = pgk_rnn_weight_of(l, i, l->features + l->units + 1);
    const uint64_t r = w.c - l->features;
    if (w.c < l->features)
        pgk_set(a->to, l->of_input[w.g] + w.j * l->features + w.c, w.c == w.ours ? 1.0f : 0.0f);
    else if (r < l->units)
        pgk_set(a->to, l->of_state[w.g] + w.j * l->units + r,
                pgk_get(a->kernel, r * l->width + w.ours));
    else if (l->has_bias)
        pgk_set(a->to, l->bias[w.g] + w.j, a->bias.p ? pgk_get(a->bias, w.ours) : 0.0f);
}

/* Gradients from the library's order; per output units + 1. */
typedef struct pgk_rnn_unpack {
    pgk_real from, kernel, bias;
    pgk_rnn_layout l;
} pgk_rnn_unpack;

PGK_FN void pgk_rnn_unpack_at(const pgk_rnn_unpack *a, uint64_t i)
{
    const pgk_rnn_layout *l = &a->l;
    const pgk_rnn_weight w = pgk_rnn_weight_of(l, i, l->units + 1);
    if (w.c < l->units && a->kernel.p)
        pgk_set(a->kernel, w.c * l->width + w.ours,
                pgk_get(a->from, l->of_state[w.g] + w.j * l->units + w.c));
    else if (w.c == l->units && a->bias.p)
        pgk_set(a->bias, w.ours, pgk_get(a->from, l->bias[w.g] + w.j));
}

/* to = from with its steps in the opposite order; by row, step and number of a step. */
typedef struct pgk_rnn_turn {
    pgk_real from, to;
    uint64_t steps, n;
} pgk_rnn_turn;

PGK_FN void pgk_rnn_turn_at(const pgk_rnn_turn *a, uint64_t i)
{
    const uint64_t line = i / a->n, r = line / a->steps, s = line - r * a->steps;
    pgk_set(a->to, (r * a->steps + a->steps - 1 - s) * a->n + i - line * a->n, pgk_get(a->from, i));
}

/* What is made of the states of all steps; by row, step and unit. */
typedef struct pgk_rnn_show {
    pgk_real states, y, last, state;
    uint64_t steps, units;
    int flip;
} pgk_rnn_show;

PGK_FN void pgk_rnn_show_at(const pgk_rnn_show *a, uint64_t i)
{
    const uint64_t line = i / a->units, r = line / a->steps, s = line - r * a->steps;
    const uint64_t k = i - line * a->units, to = a->flip ? a->steps - 1 - s : s;
    const float h = pgk_get(a->states, i);
    if (a->y.p)
        pgk_set(a->y, (r * a->steps + to) * a->units + k, h);
    if (s + 1 < a->steps)
        return;
    if (a->last.p)
        pgk_set(a->last, r * a->units + k, h);
    if (a->state.p)
        pgk_set(a->state, r * a->units + k, h);
}

/* Its gradients: of the states of all steps, and of the last one beside. */
typedef struct pgk_rnn_gather {
    pgk_real dy, dlast, dstate, all, last;
    uint64_t steps, units;
    int flip;
} pgk_rnn_gather;

PGK_FN void pgk_rnn_gather_at(const pgk_rnn_gather *a, uint64_t i)
{
    const uint64_t line = i / a->units, r = line / a->steps, s = line - r * a->steps;
    const uint64_t k = i - line * a->units, from = a->flip ? a->steps - 1 - s : s;
    const uint64_t row = r * a->units + k;
    pgk_set(a->all, i, a->dy.p ? pgk_get(a->dy, (r * a->steps + from) * a->units + k) : 0.0f);
    if (s + 1 < a->steps)
        return;
    pgk_set(a->last, row,
            (a->dlast.p ? pgk_get(a->dlast, row) : 0.0f) +
                (a->dstate.p ? pgk_get(a->dstate, row) : 0.0f));
}

#endif
