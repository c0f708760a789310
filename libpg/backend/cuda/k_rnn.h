/* k_rnn.h - the steps of recurrent layers: an element is one unit of one row. Products with the
 * recurrent kernel run between these kernels (recur.h); ops/rnn_cell.h has what a unit does. */
#ifndef PG_BACKEND_K_RNN_H
#define PG_BACKEND_K_RNN_H

#include "backend/cuda/pgk.h"
#include "ops/rnn_cell.h"

/* What all kernels of a step know. */
typedef struct pgk_rnn_step {
    pgk_real mask;
    pgk_real shown;   /* by row (int32): from which step on outputs are shown; absent: all */
    pgk_real factors; /* of the state: (rows, n_factors, units) */
    uint64_t rows, steps, units, width, n_factors;
    uint64_t s, t, to; /* the step as it is taken, where its input lies, where its output goes */
    pg__rnn_attrs attrs;
} pgk_rnn_step;

/* One unit of one row. */
typedef struct pgk_rnn_unit {
    uint64_t r, k;
    uint64_t row;      /* r units + k: in arrays of one step */
    uint64_t at, wide; /* of the step as it is taken: in (rows, steps, units), its first gate */
    uint64_t input;    /* the first gate of the step's input */
} pgk_rnn_unit;

PGK_FN pgk_rnn_unit pgk_rnn_unit_of(const pgk_rnn_step *z, uint64_t i)
{
    pgk_rnn_unit u;
    u.r = i / z->units;
    u.k = i - u.r * z->units;
    u.row = i;
    u.at = (u.r * z->steps + z->s) * z->units + u.k;
    u.wide = (u.r * z->steps + z->s) * z->width + u.k;
    u.input = (u.r * z->steps + z->t) * z->width + u.k;
    return u;
}

PGK_FN int pgk_rnn_masked(const pgk_rnn_step *z, uint64_t r)
{
    return z->mask.p && pgk_get(z->mask, r * z->steps + z->t) == 0;
}
PGK_FN int pgk_rnn_shows(const pgk_rnn_step *z, uint64_t r)
{
    return !z->shown.p || ((int64_t)z->s >= pgk_int(z->shown, r) &&
                           !(z->attrs.zero_masked && pgk_rnn_masked(z, r)));
}

/* The state's factor for a gate. */
PGK_FN float pgk_rnn_factor(const pgk_rnn_step *z, uint64_t gate, const pgk_rnn_unit *u)
{
    if (z->n_factors == 0)
        return 1;
    return pgk_get(z->factors,
                   (u->r * z->n_factors + (z->n_factors > 1 ? gate : 0)) * z->units + u->k);
}

/* Of all steps, or of the state before the first. */
PGK_FN float pgk_rnn_before_of(const pgk_rnn_step *z, pgk_real all, pgk_real first,
                               const pgk_rnn_unit *u)
{
    if (z->s > 0)
        return pgk_get(all, u->at - z->units);
    return first.p ? pgk_get(first, u->row) : 0;
}

/* By row: the first step that is not masked. */
typedef struct pgk_rnn_shown {
    pgk_real mask, shown;
    uint64_t steps;
    int reverse;
} pgk_rnn_shown;

PGK_FN void pgk_rnn_shown_at(const pgk_rnn_shown *a, uint64_t r)
{
    uint64_t s = 0;
    while (s < a->steps &&
           pgk_get(a->mask, r * a->steps + (a->reverse ? a->steps - 1 - s : s)) == 0)
        s++;
    pgk_set_int(a->shown, r, (int32_t)s);
}

/* ---- forward ---- */

typedef struct pgk_rnn_outputs {
    pgk_real states, y, last, state;
} pgk_rnn_outputs;

PGK_FN void pgk_rnn_give(const pgk_rnn_step *z, const pgk_rnn_outputs *o, const pgk_rnn_unit *u,
                         float h)
{
    const float shown = pgk_rnn_shows(z, u->r) ? h : 0;
    pgk_set(o->states, u->at, h);
    if (o->y.p)
        pgk_set(o->y, (u->r * z->steps + z->to) * z->units + u->k, shown);
    if (z->s + 1 < z->steps)
        return;
    if (o->last.p)
        pgk_set(o->last, u->row, shown);
    if (o->state.p)
        pgk_set(o->state, u->row, h);
}

/* to[block][row][unit] = the state before the step times its factors; by block, row and unit. */
typedef struct pgk_rnn_scale {
    pgk_rnn_step z;
    pgk_real states, h0, to;
} pgk_rnn_scale;

PGK_FN void pgk_rnn_scale_at(const pgk_rnn_scale *a, uint64_t i)
{
    const uint64_t n = a->z.rows * a->z.units, block = i / n;
    const pgk_rnn_unit u = pgk_rnn_unit_of(&a->z, i - block * n);
    const float h = pgk_rnn_before_of(&a->z, a->states, a->h0, &u);
    pgk_set(a->to, i, h * pgk_rnn_factor(&a->z, block, &u));
}

/* h' = act(x W + b + h U); states hold h U, if there is a product. */
typedef struct pgk_rnn {
    pgk_rnn_step z;
    pgk_rnn_outputs o;
    pgk_real zx, h0;
    int product;
} pgk_rnn;

PGK_FN void pgk_rnn_at(const pgk_rnn *a, uint64_t i)
{
    const pgk_rnn_unit u = pgk_rnn_unit_of(&a->z, i);
    float h = pgk_rnn_before_of(&a->z, a->o.states, a->h0, &u);
    if (!pgk_rnn_masked(&a->z, u.r)) {
        const float part = a->product ? pgk_get(a->o.states, u.at) : 0;
        h = pg__act_value(pgk_get(a->zx, u.input) + part, &a->z.attrs.act);
    }
    pgk_rnn_give(&a->z, &a->o, &u, h);
}

/* gates hold h U, if there is a product. */
typedef struct pgk_lstm {
    pgk_rnn_step z;
    pgk_rnn_outputs o;
    pgk_real zx, h0, c0, gates, cells, cell;
    int product;
} pgk_lstm;

PGK_FN float pgk_lstm_sum(const pgk_lstm *a, const pgk_rnn_unit *u, uint64_t gate)
{
    const uint64_t at = gate * a->z.units;
    return pgk_get(a->zx, u->input + at) + (a->product ? pgk_get(a->gates, u->wide + at) : 0);
}

PGK_FN void pgk_lstm_at(const pgk_lstm *a, uint64_t i)
{
    const pgk_rnn_unit u = pgk_rnn_unit_of(&a->z, i);
    const uint64_t n = a->z.units;
    float h = pgk_rnn_before_of(&a->z, a->o.states, a->h0, &u);
    float c = pgk_rnn_before_of(&a->z, a->cells, a->c0, &u);
    if (!pgk_rnn_masked(&a->z, u.r)) {
        pg__lstm_unit z = {pgk_lstm_sum(a, &u, 0), pgk_lstm_sum(a, &u, 1), pgk_lstm_sum(a, &u, 2),
                           pgk_lstm_sum(a, &u, 3)};
        pg__lstm_forward(&a->z.attrs, &z, c, &h, &c);
        pgk_set(a->gates, u.wide, z.i);
        pgk_set(a->gates, u.wide + n, z.f);
        pgk_set(a->gates, u.wide + 2 * n, z.g);
        pgk_set(a->gates, u.wide + 3 * n, z.o);
    }
    pgk_set(a->cells, u.at, c);
    if (a->cell.p && a->z.s + 1 == a->z.steps)
        pgk_set(a->cell, u.row, c);
    pgk_rnn_give(&a->z, &a->o, &u, h);
}

/* gates hold the products of z and r, and where the reset gate acts after the product that of the
 * candidate; else `parts` holds that by then. */
typedef struct pgk_gru {
    pgk_rnn_step z;
    pgk_rnn_outputs o;
    pgk_real zx, bias, h0, gates, parts, reset; /* reset: the state times r, by row and unit */
    int product;
} pgk_gru;

PGK_FN float pgk_gru_product(const pgk_gru *a, const pgk_rnn_unit *u, uint64_t gate)
{
    const uint64_t at = gate * a->z.units;
    const float bias = a->z.attrs.reset_after && a->bias.p ? pgk_get(a->bias, at + u->k) : 0;
    return bias + (a->product ? pgk_get(a->gates, u->wide + at) : 0);
}
PGK_FN float pgk_gru_gate(const pgk_gru *a, const pgk_rnn_unit *u, uint64_t gate)
{
    const float x = pgk_get(a->zx, u->input + gate * a->z.units);
    return pg__act_value(x + pgk_gru_product(a, u, gate), &a->z.attrs.gate);
}

/* Before the candidate's product: z, r, and what is multiplied. */
typedef pgk_gru pgk_gru_reset;
PGK_FN void pgk_gru_reset_at(const pgk_gru_reset *a, uint64_t i)
{
    const pgk_rnn_unit u = pgk_rnn_unit_of(&a->z, i);
    const float h = pgk_rnn_before_of(&a->z, a->o.states, a->h0, &u);
    float r = 0;
    if (!pgk_rnn_masked(&a->z, u.r)) {
        pgk_set(a->gates, u.wide, pgk_gru_gate(a, &u, 0));
        r = pgk_gru_gate(a, &u, 1);
        pgk_set(a->gates, u.wide + a->z.units, r);
    }
    pgk_set(a->reset, i, r * h * pgk_rnn_factor(&a->z, 2, &u));
}

PGK_FN void pgk_gru_at(const pgk_gru *a, uint64_t i)
{
    const pgk_rnn_unit u = pgk_rnn_unit_of(&a->z, i);
    const uint64_t n = a->z.units;
    const int after = a->z.attrs.reset_after;
    const float keep = a->z.attrs.drop_carried ? pgk_rnn_factor(&a->z, 0, &u) : 1;
    float h = pgk_rnn_before_of(&a->z, a->o.states, a->h0, &u);
    if (!pgk_rnn_masked(&a->z, u.r)) {
        const float part = after        ? pgk_gru_product(a, &u, 2)
                           : a->product ? pgk_get(a->parts, u.at)
                                        : 0;
        pg__gru_unit g = {after ? pgk_gru_gate(a, &u, 0) : pgk_get(a->gates, u.wide),
                          after ? pgk_gru_gate(a, &u, 1) : pgk_get(a->gates, u.wide + n),
                          pgk_get(a->zx, u.input + 2 * n)};
        h = pg__gru_forward(&a->z.attrs, &g, part, h, keep);
        pgk_set(a->gates, u.wide, g.z);
        pgk_set(a->gates, u.wide + n, g.r);
        pgk_set(a->gates, u.wide + 2 * n, g.g);
        pgk_set(a->parts, u.at, part);
    }
    pgk_rnn_give(&a->z, &a->o, &u, h);
}

/* ---- backward ---- */

/* The gradient that arrives at a step's state: dh from the steps after it (if there are factors,
 * the product of the last of those is still to be added), and the gradients of the outputs. */
typedef struct pgk_rnn_incoming {
    pgk_real dy, dlast, dstate, dh;
    pgk_real product; /* [block][row][unit]; absent: it is part of dh */
    uint64_t n_blocks;
} pgk_rnn_incoming;

PGK_FN float pgk_rnn_dh(const pgk_rnn_step *z, const pgk_rnn_incoming *in, const pgk_rnn_unit *u)
{
    float dh = pgk_get(in->dh, u->row);
    for (uint64_t b = 0; in->product.p && b < in->n_blocks; b++)
        dh += pgk_rnn_factor(z, b, u) * pgk_get(in->product, b * z->rows * z->units + u->row);
    return dh;
}

PGK_FN float pgk_rnn_come(const pgk_rnn_step *z, const pgk_rnn_incoming *in, const pgk_rnn_unit *u)
{
    const int end = z->s + 1 == z->steps;
    float dh = !end ? pgk_rnn_dh(z, in, u) : in->dstate.p ? pgk_get(in->dstate, u->row) : 0;
    if (!pgk_rnn_shows(z, u->r))
        return dh;
    if (in->dy.p)
        dh += pgk_get(in->dy, (u->r * z->steps + z->to) * z->units + u->k);
    return end && in->dlast.p ? dh + pgk_get(in->dlast, u->row) : dh;
}

/* dh of the state before the first step, where its product has factors. */
typedef struct pgk_rnn_finish {
    pgk_rnn_step z;
    pgk_rnn_incoming in;
} pgk_rnn_finish;

PGK_FN void pgk_rnn_finish_at(const pgk_rnn_finish *a, uint64_t i)
{
    const pgk_rnn_unit u = pgk_rnn_unit_of(&a->z, i);
    pgk_set(a->in.dh, i, pgk_rnn_dh(&a->z, &a->in, &u));
}

typedef struct pgk_rnn_grad {
    pgk_rnn_step z;
    pgk_rnn_incoming in;
    pgk_real states, dzx;
} pgk_rnn_grad;

PGK_FN void pgk_rnn_grad_at(const pgk_rnn_grad *a, uint64_t i)
{
    const pgk_rnn_unit u = pgk_rnn_unit_of(&a->z, i);
    const float dh = pgk_rnn_come(&a->z, &a->in, &u);
    const int masked = pgk_rnn_masked(&a->z, u.r);
    const float slope =
        masked ? 0 : pg__act_slope_of_result(pgk_get(a->states, u.at), &a->z.attrs.act);
    pgk_set(a->dzx, u.input, masked ? 0 : dh * slope);
    pgk_set(a->in.dh, i, masked ? dh : 0);
}

typedef struct pgk_lstm_grad {
    pgk_rnn_step z;
    pgk_rnn_incoming in;
    pgk_real gates, cells, c0, dcell, dc, dzx;
} pgk_lstm_grad;

PGK_FN void pgk_lstm_grad_at(const pgk_lstm_grad *a, uint64_t i)
{
    const pgk_rnn_unit u = pgk_rnn_unit_of(&a->z, i);
    const uint64_t n = a->z.units;
    const int masked = pgk_rnn_masked(&a->z, u.r);
    float dh = pgk_rnn_come(&a->z, &a->in, &u), dc;
    pg__lstm_unit dz = {0, 0, 0, 0};
    if (a->z.s + 1 == a->z.steps)
        dc = a->dcell.p ? pgk_get(a->dcell, i) : 0;
    else
        dc = pgk_get(a->dc, i);
    if (!masked) {
        const pg__lstm_unit z = {pgk_get(a->gates, u.wide), pgk_get(a->gates, u.wide + n),
                                 pgk_get(a->gates, u.wide + 2 * n),
                                 pgk_get(a->gates, u.wide + 3 * n)};
        const float c = pgk_rnn_before_of(&a->z, a->cells, a->c0, &u);
        dz = pg__lstm_backward(&a->z.attrs, &z, c, pgk_get(a->cells, u.at), dh, &dc);
        dh = 0;
    }
    pgk_set(a->dzx, u.input, dz.i);
    pgk_set(a->dzx, u.input + n, dz.f);
    pgk_set(a->dzx, u.input + 2 * n, dz.g);
    pgk_set(a->dzx, u.input + 3 * n, dz.o);
    pgk_set(a->in.dh, i, dh);
    pgk_set(a->dc, i, dc);
}

/* products: dz where the reset gate acts after the product, the candidate's times r. */
typedef struct pgk_gru_grad {
    pgk_rnn_step z;
    pgk_rnn_incoming in;
    pgk_real states, h0, gates, parts, dzx, products, reset; /* reset: gradient of r h f */
} pgk_gru_grad;

PGK_FN void pgk_gru_grad_at(const pgk_gru_grad *a, uint64_t i)
{
    const pgk_rnn_unit u = pgk_rnn_unit_of(&a->z, i);
    const uint64_t n = a->z.units;
    const int after = a->z.attrs.reset_after;
    float dh = pgk_rnn_come(&a->z, &a->in, &u), r = 0;
    pg__gru_unit dz = {0, 0, 0};
    if (!pgk_rnn_masked(&a->z, u.r)) {
        const pg__gru_unit g = {pgk_get(a->gates, u.wide), pgk_get(a->gates, u.wide + n),
                                pgk_get(a->gates, u.wide + 2 * n)};
        const float keep = a->z.attrs.drop_carried ? pgk_rnn_factor(&a->z, 0, &u) : 1;
        const float h = pgk_rnn_before_of(&a->z, a->states, a->h0, &u);
        dz = pg__gru_backward(&a->z.attrs, &g, pgk_get(a->parts, u.at), h, keep, &dh);
        r = g.r;
    }
    pgk_set(a->dzx, u.input, dz.z);
    pgk_set(a->dzx, u.input + n, after ? dz.r : 0);
    pgk_set(a->dzx, u.input + 2 * n, dz.g);
    pgk_set(a->in.dh, i, dh);
    if (!after)
        return;
    pgk_set(a->products, u.input, dz.z);
    pgk_set(a->products, u.input + n, dz.r);
    pgk_set(a->products, u.input + 2 * n, dz.g * r);
}

/* Where it acts before: dz of r, by the gradient of what was multiplied. */
typedef pgk_gru_grad pgk_gru_reset_grad;
PGK_FN void pgk_gru_reset_grad_at(const pgk_gru_reset_grad *a, uint64_t i)
{
    const pgk_rnn_unit u = pgk_rnn_unit_of(&a->z, i);
    if (pgk_rnn_masked(&a->z, u.r))
        return;
    const float h = pgk_rnn_before_of(&a->z, a->states, a->h0, &u);
    const float r = pgk_get(a->gates, u.wide + a->z.units);
    float dh = pgk_get(a->in.dh, i);
    const float dz = pg__gru_reset_backward(&a->z.attrs, r, h, pgk_rnn_factor(&a->z, 2, &u),
                                            pgk_get(a->reset, i), &dh);
    pgk_set(a->dzx, u.input + a->z.units, dz);
    pgk_set(a->in.dh, i, dh);
}

/* to = the states before all steps in the order of their inputs, times the factors of a block and,
 * where the gates are there, the reset gate: what the gradient of the kernel multiplies. Masked
 * steps give 0. By row, step and unit. */
typedef struct pgk_rnn_befores {
    pgk_rnn_step z;
    pgk_real states, h0, gates, to;
    uint64_t block;
} pgk_rnn_befores;

PGK_FN void pgk_rnn_befores_at(const pgk_rnn_befores *a, uint64_t i)
{
    const uint64_t line = i / a->z.units, r = line / a->z.steps;
    pgk_rnn_step z = a->z;
    z.t = line - r * z.steps;
    z.s = z.attrs.reverse ? z.steps - 1 - z.t : z.t;
    const pgk_rnn_unit u = pgk_rnn_unit_of(&z, r * z.units + i - line * z.units);
    float h = 0;
    if (!pgk_rnn_masked(&z, r)) {
        h = pgk_rnn_before_of(&z, a->states, a->h0, &u) * pgk_rnn_factor(&z, a->block, &u);
        h = a->gates.p ? h * pgk_get(a->gates, u.wide + z.units) : h;
    }
    pgk_set(a->to, i, h);
}

#endif
