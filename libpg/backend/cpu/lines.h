/* lines.h - loops over one row of numbers, built for each instruction set: the parts of recurrent
 * cells, attention and dense layers between their matrix products. */
#ifndef PG_BACKEND_CPU_LINES_H
#define PG_BACKEND_CPU_LINES_H

#include "ops/attrs.h"

#define PG_MASKED (-1e9f) /* score of masked steps in attention, see ref_attention.c */

/* n: units. zx: x W + b of a step; zh: the products of the state with the recurrent kernel, NULL if
 * the state is zero; gates, part: kept for the gradient. Absent states are NULL. */
typedef struct pg__lines {
    void (*add)(float *to, const float *x, size_t n);                     /* to += x */
    void (*times)(float *to, const float *x, size_t n);                   /* to *= x */
    void (*product)(float *to, const float *a, const float *b, size_t n); /* to = a b */

    void (*softmax)(float *p, size_t n); /* in place */
    /* d: gradient of the probabilities p, becomes that of their scores */
    void (*softmax_grad)(float *d, const float *p, size_t n);
    void (*hide)(float *scores, const float *open, size_t n); /* those that are masked */

    void (*lstm)(const pg__rnn_attrs *a, size_t n, const float *zx, const float *zh, const float *c,
                 float *gates, float *h_to, float *c_to);
    /* dh: of h', becomes 0; dc: of c', becomes that of c; dz: of zx */
    void (*lstm_grad)(const pg__rnn_attrs *a, size_t n, const float *gates, const float *c,
                      const float *c_to, float *dh, float *dc, float *dz);

    void (*rnn)(const pg__rnn_attrs *a, size_t n, const float *zx, const float *zh, float *h_to);
    void (*rnn_grad)(const pg__rnn_attrs *a, size_t n, const float *h_to, float *dh, float *dz);

    /* Update and reset gates; if the reset gate acts after the product, `part` too. */
    void (*gru_gates)(const pg__rnn_attrs *a, size_t n, const float *zx, const float *zh,
                      const float *bias, float *gates, float *part);
    /* The candidate and h', from `part`; carried: factors of h, or NULL */
    void (*gru_state)(const pg__rnn_attrs *a, size_t n, const float *zx, const float *part,
                      const float *h, const float *carried, float *gates, float *h_to);
    /* dh: of h', becomes the part of h's gradient without the products; dz: of zx, the reset gate's
     * only if it acts after the product */
    void (*gru_grad)(const pg__rnn_attrs *a, size_t n, const float *gates, const float *part,
                     const float *h, const float *carried, float *dh, float *dz);
    /* The reset gate that acts before the product, from the gradient `dot` of (r h factors);
     * factors: or NULL */
    void (*gru_reset_grad)(const pg__rnn_attrs *a, size_t n, const float *gates, const float *h,
                           const float *factors, const float *dot, float *dh, float *dz);
} pg__lines;

#endif
