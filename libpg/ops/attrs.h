/* attrs.h - the attributes of operations: what a back end must know besides the shapes. */
#ifndef PG_OPS_ATTRS_H
#define PG_OPS_ATTRS_H

#include <stdint.h>

#include "base/shared.h"
#include "ops/op.h"

typedef struct pg__no_attrs {
    char unused;
} pg__no_attrs;

/* Activations, applied element by element. Formulas: op_act.c. */
typedef enum pg__act_kind {
    PG_ACT_RELU, /* max_value, negative_slope, threshold as in Keras' ReLU */
    PG_ACT_SIGMOID,
    PG_ACT_TANH,
    PG_ACT_HARD_SIGMOID, /* clip(a x + b, 0, 1) */
    PG_ACT_ELU,          /* a: alpha */
    PG_ACT_SELU,
    PG_ACT_SOFTPLUS,
    PG_ACT_SOFTSIGN,
    PG_ACT_EXPONENTIAL,
    PG_ACT_GELU, /* exact, by erf */
    PG_ACT_GELU_TANH,
    PG_ACT_SWISH,
    PG_ACT_MISH,
    PG_ACT_RSQRT /* 1 / sqrt(x) */
} pg__act_kind;

typedef struct pg__act_attrs {
    pg__act_kind kind;
    double a, b, c; /* RELU: max_value (infinity: none), negative_slope, threshold */
} pg__act_attrs;

/* Does the slope need the argument? Most are cheapest to compute from the result. */
PG_SHARED int pg__act_needs_x(const pg__act_attrs *a)
{
    switch (a->kind) {
    case PG_ACT_RELU: return a->b != 0 || a->c != 0;
    case PG_ACT_ELU: /* y > 0 exactly where x > 0, for alpha > 0 */ return a->a <= 0;
    case PG_ACT_SIGMOID:
    case PG_ACT_TANH:
    case PG_ACT_SELU:
    case PG_ACT_SOFTPLUS:
    case PG_ACT_SOFTSIGN:
    case PG_ACT_EXPONENTIAL:
    case PG_ACT_RSQRT: return 0;
    case PG_ACT_HARD_SIGMOID:
    case PG_ACT_GELU:
    case PG_ACT_GELU_TANH:
    case PG_ACT_SWISH:
    case PG_ACT_MISH: return 1;
    }
    return 1;
}

typedef enum pg__loss_kind {
#define PG_LOSS(name, target) PG_LOSS_##name,
#include "ops/losses.def"
#undef PG_LOSS
    PG_N_LOSSES
} pg__loss_kind;

/* What binary_crossentropy does to a probability before taking its logarithm; versions differ. */
typedef enum pg__bce_rule {
    PG_BCE_ADD_EPSILON, /* clip, then log(p + eps): standalone 2.3, tf.keras 2.x */
    PG_BCE_CLIP         /* clip, then log(p): Keras to 2.2 (via the logit), Keras 3 */
} pg__bce_rule;

/* A loss over the last axis. Operands: prediction, target, weight of each row (absent: 1), seed.
 * Result: weighted losses, one for each row of the last axis. */
typedef struct pg__loss_attrs {
    pg__loss_kind kind;
    int logits; /* the prediction is the input of a softmax (or of a sigmoid, for
                   binary_crossentropy) */
    pg__bce_rule bce;
    double smoothing; /* label_smoothing of the crossentropies */
    double param;     /* delta of huber, smooth of jaccard_distance, alpha of the focal ones */
    double gamma;     /* of the focal ones */
    int balanced;     /* apply_class_balancing of binary_focal_crossentropy */
    int ignores;      /* rows of the class `ignored` do not count; sparse losses only */
    int32_t ignored;
    int sums; /* the rows' losses are added, not averaged: for models that reduce them */
} pg__loss_attrs;

int pg__loss_takes_class(pg__loss_kind kind);

typedef struct pg__reshape_attrs {
    pg__dims to;
} pg__reshape_attrs;

/* Images: values are (rows, spatial dimensions, channels), 1 to 3 of them spatial. */
#define PG_MAX_SPATIAL 3

/* conv(x, kernel, bias or absent); kernel is (spatial, channels / groups, filters). conv_dx(dy,
 * kernel) gives the convolution's operand from its result, so it is also the transposed
 * convolution; conv_dw(x, dy) gives kernel and bias. */
typedef struct pg__conv_attrs {
    uint32_t rank; /* spatial dimensions */
    uint64_t groups;
    uint64_t kernel[PG_MAX_SPATIAL], stride[PG_MAX_SPATIAL], dilation[PG_MAX_SPATIAL];
    uint64_t before[PG_MAX_SPATIAL], after[PG_MAX_SPATIAL]; /* cells of zeros */
    uint64_t size[PG_MAX_SPATIAL]; /* of x: for conv_dx, which cannot know it */
    int same; /* before and after are those of Keras' "same": not known for an unknown size */
} pg__conv_attrs;

/* pool(x); pool_grad(x or absent for the average, dy). The average is over existing cells; the
 * maximum's gradient goes to the first of equal cells. */
typedef struct pg__pool_attrs {
    uint32_t rank;
    int max;
    uint64_t window[PG_MAX_SPATIAL], stride[PG_MAX_SPATIAL]; /* window 0: everything */
    uint64_t before[PG_MAX_SPATIAL], after[PG_MAX_SPATIAL];
    uint64_t size[PG_MAX_SPATIAL]; /* of x: for pool_grad */
    int same;                      /* as pg__conv_attrs has it */
} pg__pool_attrs;

/* Batch normalisation over all axes but the last. bn_stats(x, mask or absent) gives mean, sum of
 * squared distances and count, which can be merged over slices of a batch; bn_var(distances, count)
 * gives the variance; bn_apply(x, mean, variance, gamma, beta, count, mask) the result. gamma and
 * beta may be absent; with count (and mask) the statistics are those of x, without them they are
 * constants. bn_sums(x, dy, mean, variance) gives dy and the sums of it and of dy times the
 * normalised x, which can be added over slices, and bn_dx(x, dy, mean, variance, gamma, sum, sum,
 * count, mask) the gradient.
 *
 * has_act: the normalised x goes through an activation, and dy is the gradient of the activation's
 * result; the formulas' dy is what comes back through the activation. For the slope, both
 * operations need the result of the normalisation: then bn_sums has the additional operands gamma
 * and beta, and bn_dx has beta. If the slope is expensive, bn_sums passes what came through on to a
 * bn_dx without activation; else that result is not read. */
typedef enum pg__bn_correction {
    PG_BN_NONE,   /* biased */
    PG_BN_SAMPLE, /* n / max(n - 1, 1): TensorFlow's fused kernel */
    PG_BN_LAYER,  /* n / (n - (1 + epsilon)): standalone Keras */
    PG_BN_TWICE   /* both */
} pg__bn_correction;

typedef struct pg__bn_attrs {
    double epsilon;
    pg__bn_correction correction; /* bn_var */
    int meets;                    /* the gradient's sums are those over all lanes */
    int has_act;                  /* an activation follows: see ops/norm_act.h */
    pg__act_attrs act;
} pg__bn_attrs;

/* conv_norm(x, kernel, bias, mean, variance, gamma, beta, plus): a convolution, normalised with
 * constant statistics, plus a value of the same shape, and then an activation; bias, gamma, beta
 * and plus may be absent. For predictions only: it has no gradient. See ops/fold_norm.h and
 * ops/fold_add.h. */
typedef struct pg__conv_norm_attrs {
    pg__conv_attrs conv; /* first: a back end may treat it as that of a convolution */
    double epsilon;
    int has_act;
    pg__act_attrs act;
} pg__conv_norm_attrs;

/* Two operands, aligned at the last axis, with axes of size 1 repeated. binary_pick(a, b, dy): the
 * gradients of maximum and minimum, where equal elements go to a; shaped as dy. */
typedef enum pg__binary_kind {
    PG_ADD,
    PG_SUBTRACT,
    PG_MULTIPLY,
    PG_DIVIDE,
    PG_MAXIMUM,
    PG_MINIMUM
} pg__binary_kind;

typedef struct pg__binary_attrs {
    pg__binary_kind kind;
} pg__binary_attrs;

/* scale x + offset */
typedef struct pg__affine_attrs {
    double scale, offset;
} pg__affine_attrs;

/* spread repeats axes of size 1; sum_to adds what spread repeats. Axes are aligned at the last. */
typedef struct pg__spread_attrs {
    pg__dims to;
} pg__spread_attrs;

/* Zeros before and after along each axis; negative numbers cut cells off. Of an axis whose size is
 * not known PG_PAD_REST cuts all but `most` cells. */
#define PG_PAD_REST (-INT64_MAX)
typedef struct pg__pad_attrs {
    int64_t before[PG_MAX_RANK], after[PG_MAX_RANK];
    int64_t most[PG_MAX_RANK]; /* where one of the others is PG_PAD_REST; else 0 */
} pg__pad_attrs;

typedef struct pg__concat_attrs {
    uint32_t axis;
} pg__concat_attrs;

/* Axis i of the result is axis perm[i] of the operand. */
typedef struct pg__transpose_attrs {
    uint32_t perm[PG_MAX_RANK];
} pg__transpose_attrs;

/* Images enlarged by whole factors: the nearest cell, or (two spatial dimensions) bilinear between
 * the centres of cells. */
typedef struct pg__resize_attrs {
    uint32_t rank;
    int bilinear;
    uint64_t factor[PG_MAX_SPATIAL];
} pg__resize_attrs;

/* dropout(x, step): x / (1 - rate) for elements that are kept, else 0. One number is drawn for each
 * element of `noise`, which is x's shape with 1 for axes that share numbers. */
typedef struct pg__dropout_attrs {
    double rate;
    uint32_t stream; /* stream of random numbers: one for each place in the model */
    int rows_share;  /* all rows of the batch have the same noise */
    pg__dims noise;
    uint64_t fold; /* rows of x that belong to one row of the batch: steps, if those are rows */
} pg__dropout_attrs;

/* uniform(step): numbers for each row; each column has its own bounds. */
#define PG_MAX_DRAWN 2
typedef struct pg__uniform_attrs {
    pg__dims to;     /* (rows, or 1 where rows_share, columns) */
    uint32_t stream; /* these three as in pg__dropout_attrs */
    int rows_share;
    uint64_t fold;
    double low[PG_MAX_DRAWN], high[PG_MAX_DRAWN];
} pg__uniform_attrs;

/* warp(x, drawn): images (rows, height, width, channels) each of whose cells is taken from another
 * place. drawn: (rows or 1, 1 or 2), the numbers that determine the place along the width and along
 * the height; a single number is for both. It has no gradient: it is for inputs of a model. */
typedef enum pg__warp_kind {
    PG_WARP_SHIFT, /* by these shares of width and height */
    PG_WARP_TURN,  /* by this angle around the middle */
    PG_WARP_ZOOM,  /* scaled to these multiples of its size, around the middle */
    PG_WARP_FLIP,  /* mirrored where less than 1/2 */
    PG_WARP_CROP   /* starts at the whole part of these cells */
} pg__warp_kind;

/* What to use beyond the edges. */
typedef enum pg__warp_fill {
    PG_FILL_CONSTANT,
    PG_FILL_NEAREST,
    PG_FILL_REFLECT,
    PG_FILL_WRAP
} pg__warp_fill;

typedef struct pg__warp_attrs {
    pg__warp_kind kind;
    pg__warp_fill fill;
    int nearest; /* the nearest cell, else interpolated between four */
    double value;
    uint64_t size[2]; /* of the result: height, width */
} pg__warp_attrs;

/* normal(step): normally distributed numbers of mean 0 and variance 1. */
typedef struct pg__normal_attrs {
    uint32_t stream; /* as pg__dropout_attrs has it, like fold */
    pg__dims shape;
    uint64_t fold;
} pg__normal_attrs;

/* Constants; `values` belongs to the tape. */
typedef struct pg__constant_attrs {
    pg__dims shape;
    const double *values;
} pg__constant_attrs;

/* matmul(a, b): for each row of the batch the matrix product of a (rows, m, k) and b (rows, k, n);
 * turned: the last two axes of that operand are swapped. */
typedef struct pg__matmul_attrs {
    int a_turned, b_turned;
} pg__matmul_attrs;

/* Recurrent layers, the whole sequence at once. Operands: x W + b for every step (rows, steps,
 * gates * units), recurrent kernel, recurrent bias (gru only), initial state, initial cell state
 * (lstm only), mask of the steps, factors of the state given to each gate (rows, 1 or gates,
 * units). All from the initial state on may be absent. Results: outputs of all steps, output of the
 * last step, final state, final cell state (lstm only); the others are kept for the gradient. */
typedef struct pg__rnn_attrs {
    pg__act_attrs act, gate; /* of the candidate and of the gates */
    int reverse;             /* processes the steps from the last to the first */
    int flip;                /* returns the outputs in the opposite order */
    int zero_masked;         /* a masked step's output is 0, not that of the step before */
    int reset_after;         /* gru: the reset gate acts on the product with the kernel */
    int drop_carried;        /* gru: the factors also apply to the state that is carried over */
} pg__rnn_attrs;

/* softmax(scale q k') v. Operands: q (rows, T, heads * a), k (rows, S, heads * a), v (rows, S,
 * heads
 * * b); masks of q, of v and of k (rows, T or S); a mask (rows or 1, [heads or 1,] T or 1, S or 1);
 * factors of the probabilities (rows, heads, T, S). All from the masks on may be absent. Results: y
 * (rows, T, heads * b), the probabilities. */
typedef struct pg__attention_attrs {
    uint64_t heads;
    double scale;
    int causal; /* a step does not see later ones */
} pg__attention_attrs;

typedef struct pg__layer_norm_attrs {
    uint32_t n_axes; /* this number of last axes is normalised together */
    double epsilon;
} pg__layer_norm_attrs;

/* activity(x, seed): l1 sum |x| + l2 sum x^2, a part of the loss; seed: its factor in the loss, for
 * the gradient. */
typedef struct pg__activity_attrs {
    double l1, l2;
} pg__activity_attrs;

/* Numbers to ids and back: fractions are cut off. Between types of numbers, the back end rounds. */
typedef struct pg__cast_attrs {
    pg__elem from, to;
} pg__cast_attrs;

/* hash_ids(ids): the bucket of each number's text. If `mask` is given, its bucket is 0 and all
 * others begin at 1. */
typedef struct pg__hash_attrs {
    uint64_t buckets; /* without that of the mask */
    int has_mask;
    int32_t mask;
} pg__hash_attrs;

/* A step counts if any of its features differs from `value`. */
typedef struct pg__mask_attrs {
    double value;
} pg__mask_attrs;

#endif
