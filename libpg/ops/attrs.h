/* attrs.h - the attributes of operations: what a back end must know beside the shapes. */
#ifndef PG_OPS_ATTRS_H
#define PG_OPS_ATTRS_H

#include <stdint.h>

#include "ops/op.h"

typedef struct pg__no_attrs {
    char unused;
} pg__no_attrs;

/* Activations, one by one through all elements. Formulas: op_act.c. */
typedef enum pg__act_kind {
    PG__ACT_RELU, /* max_value, negative_slope, threshold as in Keras' ReLU */
    PG__ACT_SIGMOID,
    PG__ACT_TANH,
    PG__ACT_HARD_SIGMOID, /* clip(a x + b, 0, 1) */
    PG__ACT_ELU,          /* a: alpha */
    PG__ACT_SELU,
    PG__ACT_SOFTPLUS,
    PG__ACT_SOFTSIGN,
    PG__ACT_EXPONENTIAL,
    PG__ACT_GELU, /* exact, by erf */
    PG__ACT_GELU_TANH,
    PG__ACT_SWISH,
    PG__ACT_MISH
} pg__act_kind;

typedef struct pg__act_attrs {
    pg__act_kind kind;
    double a, b, c; /* RELU: max_value (infinity: none), negative_slope, threshold */
} pg__act_attrs;

typedef enum pg__loss_kind {
#define PG_LOSS(name, target) PG__LOSS_##name,
#include "ops/losses.def"
#undef PG_LOSS
    PG__N_LOSSES
} pg__loss_kind;

/* What binary_crossentropy does to a probability before its logarithm; the writers differ. */
typedef enum pg__bce_rule {
    PG__BCE_ADD_EPSILON, /* clip, then log(p + eps): standalone 2.3, tf.keras 2.x */
    PG__BCE_CLIP         /* clip, then log(p): Keras to 2.2 (by way of the logit), Keras 3 */
} pg__bce_rule;

/* A loss over the last axis: operands prediction, target, weight of each row (absent: 1), seed.
 * Result: weighted losses, one for each row of the last axis. */
typedef struct pg__loss_attrs {
    pg__loss_kind kind;
    int logits; /* the prediction is what a softmax (a sigmoid, for binary_crossentropy) is given */
    pg__bce_rule bce;
    double smoothing; /* label_smoothing of the crossentropies */
    double param;     /* delta of huber, smooth of jaccard_distance */
} pg__loss_attrs;

int pg__loss_takes_class(pg__loss_kind kind);

typedef struct pg__reshape_attrs {
    pg__dims to;
} pg__reshape_attrs;

#endif
