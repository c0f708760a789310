/* rnn_cell.h - what a recurrent layer does to one unit in one step, forward and backward, for the
 * plain C references and the GPU. Gates are passed by name: before or after their functions are
 * applied. */
#ifndef PG_OPS_RNN_CELL_H
#define PG_OPS_RNN_CELL_H

#include "ops/act_real.h"

/* ---- LSTM: c' = f c + i g, h' = o act(c') ---- */

typedef struct pg__lstm_unit {
    real i, f, g, o;
} pg__lstm_unit;

/* z: the gates' arguments, and then the gates. */
PG_SHARED void pg__lstm_forward(const pg__rnn_attrs *a, pg__lstm_unit *z, real c, real *h_to,
                                real *c_to)
{
    z->i = pg__act_value(z->i, &a->gate);
    z->f = pg__act_value(z->f, &a->gate);
    z->g = pg__act_value(z->g, &a->act);
    z->o = pg__act_value(z->o, &a->gate);
    *c_to = z->f * c + z->i * z->g;
    *h_to = z->o * pg__act_value(*c_to, &a->act);
}

/* From the gradients of h' and c' to those of the gates' arguments; dc becomes that of c. */
PG_SHARED pg__lstm_unit pg__lstm_backward(const pg__rnn_attrs *a, const pg__lstm_unit *z, real c,
                                          real c_to, real dh, real *dc)
{
    const real shown = pg__act_value(c_to, &a->act);
    const real d = *dc + dh * z->o * pg__act_slope_of_result(shown, &a->act);
    pg__lstm_unit dz;
    dz.i = d * z->g * pg__act_slope_of_result(z->i, &a->gate);
    dz.f = d * c * pg__act_slope_of_result(z->f, &a->gate);
    dz.g = d * z->i * pg__act_slope_of_result(z->g, &a->act);
    dz.o = dh * shown * pg__act_slope_of_result(z->o, &a->gate);
    *dc = d * z->f;
    return dz;
}

/* ---- GRU: h' = z h + (1 - z) g; h: 0 in the first step without a state ---- */

typedef struct pg__gru_unit {
    real z, r, g;
} pg__gru_unit;

/* The candidate g from its argument, whose recurrent part is `part`, times the reset gate if that
 * acts after the product; keep: factor of the state that is carried over. */
PG_SHARED real pg__gru_forward(const pg__rnn_attrs *a, pg__gru_unit *u, real part, real h,
                               real keep)
{
    u->g = pg__act_value(u->g + (a->reset_after ? u->r : 1) * part, &a->act);
    return u->z * h * keep + (1 - u->z) * u->g;
}

/* The gradients of the gates' arguments; r: for a reset gate that acts after the product. dh
 * becomes the part of h's gradient that comes from carrying it over. */
PG_SHARED pg__gru_unit pg__gru_backward(const pg__rnn_attrs *a, const pg__gru_unit *u, real part,
                                        real h, real keep, real *dh)
{
    pg__gru_unit dz;
    dz.z = *dh * (h * keep - u->g) * pg__act_slope_of_result(u->z, &a->gate);
    dz.g = *dh * (1 - u->z) * pg__act_slope_of_result(u->g, &a->act);
    dz.r = dz.g * part * pg__act_slope_of_result(u->r, &a->gate);
    *dh *= u->z * keep;
    return dz;
}

/* A reset gate that acts before the product; its operand r h f has the gradient d: returns the
 * gradient of the gate's argument, and adds that of h to dh. */
PG_SHARED real pg__gru_reset_backward(const pg__rnn_attrs *a, real r, real h, real f, real d,
                                      real *dh)
{
    *dh += d * f * r;
    return d * f * h * pg__act_slope_of_result(r, &a->gate);
}

#endif
