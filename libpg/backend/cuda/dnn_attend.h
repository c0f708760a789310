/* dnn_attend.h - attention by a library that computes all of it in one kernel: cuDNN
 * (attend_cudnn.c) or plain loops (host_attend.c). Scores and probabilities are not stored; the
 * gradient computes them again from the results and one statistic of each row of scores.
 *
 * Masks come as two arrays of numbers: a score counts as score * keep[row, t] + bias[row, t, s].
 * Neither has a gradient, and keep does not stop the gradient of the scores
 * (ops/ref_attention.c). */
#ifndef PG_BACKEND_DNN_ATTEND_H
#define PG_BACKEND_DNN_ATTEND_H

#include "backend/cuda/cuda.h"

typedef struct pg__dnn_attend {
    uint64_t rows, heads, t, s, a, b; /* a: features of a head's query, b: of its value */
    float scale;
    int causal;              /* a step does not see later ones */
    int masked, has_factors; /* factors: of the probabilities (rows, heads, t, s) */
    int trains;              /* the statistics are written, or this is the gradient */
    int gradient;
    pgk_type type, factor_type; /* type: of all that has no other one; 16 bits */
} pg__dnn_attend;

/* Addresses of a run; NULL where the shape has none. All are multiples of 16, and with masks or
 * factors s is one of 8. */
typedef struct pg__dnn_attend_io {
    const void *q, *k, *v, *factors; /* (rows, t or s, heads * a or b) */
    const void *bias;                /* (rows, t, s) */
    const float *keep;               /* (rows, t) */
    void *y;                         /* (rows, t, heads * b); the gradient reads it */
    float *stats;                    /* (rows, heads, t): log of the sum of a row's exponents */
    const void *dy;
    void *dq, *dk, *dv;
    void *work;
} pg__dnn_attend_io;

typedef struct pg__dnn_attend_plan pg__dnn_attend_plan;

/* *work: bytes that a run needs, at most `most`. Equal plans of a device are shared. PG_E_NO: the
 * library does not support it. */
pg_status pg__dnn_attend_new(pg__dnn_attend_plan **out, pg__dev *d, const pg__dnn_attend *a,
                             size_t most, size_t *work, pg_err *err);
void pg__dnn_attend_free(pg__dnn_attend_plan *p);
/* The failure is the device's. */
pg_status pg__dnn_attend_run(pg__dev *d, const pg__dnn_attend_plan *p, const pg__dnn_attend_io *io);

#endif
