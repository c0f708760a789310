/* rules.h - how versions of Keras differ in what they compute: one struct of switches, chosen by
 * the version that wrote the model or by the user. Sources: the releases named in rules.c. */
#ifndef PG_MODEL_GRAPH_RULES_H
#define PG_MODEL_GRAPH_RULES_H

#include "pg/err.h"

typedef enum pg__bn_moving {
    PG_BN_BIASED,       /* m v + (1-m) x with the batch's biased variance: 2.0, Keras 3 */
    PG_BN_DEBIASED,     /* zero-debiased average, the variance as in 2.3: 2.1, 2.2 */
    PG_BN_CORRECTED_2X, /* n/(n-(1+eps)), after the fused kernel's n/(n-1): 2.3 */
    PG_BN_FUSED         /* n/(n-1) if TensorFlow's fused kernel runs, otherwise biased: tf.keras */
} pg__bn_moving;

typedef enum pg__bn_frozen {
    PG_BN_FROZEN_INFERS, /* moving statistics, no update: tf.keras 2, Keras 3 */
    PG_BN_FROZEN_MOVES,  /* normalises with the batch, statistics keep moving: 2.0 */
    PG_BN_FROZEN_STANDS  /* normalises with the batch, statistics do not move: 2.1 to 2.3 */
} pg__bn_frozen;

typedef struct pg__rules {
    const char *name; /* "2.15" */
    int keras3;
    int new_optimizers;    /* 2.11 and later; `decay` selects the older ones */
    int rows_apart;        /* most older optimizers change only the rows of an Embedding whose ids
                              a batch has: tf.keras */
    double epsilon;        /* of Adam, RMSprop, ... */
    int clip_all_together; /* clipnorm is the norm of all gradients */
    int loss_norm_nonzero; /* the loss is divided by mean(w != 0), masks by their mean */
    int mask_rescaled;     /* a masked loss is divided by the share of unmasked steps */
    int bce_adds_epsilon;
    int logit_shortcut; /* losses on logits if a softmax or sigmoid made the output */
    int logits_cached;  /* the same for either of them, whichever of the two the loss is for */
    pg__bn_moving bn_moving;
    pg__bn_frozen bn_frozen;
    int activity_per_row;    /* activity_regularizer is divided by the batch size */
    int hard_sigmoid_six;    /* relu6(x + 3) / 6 instead of 0.2 x + 0.5 */
    int recurrent_hard;      /* recurrent_activation absent: hard_sigmoid */
    int bidirectional_zeros; /* Bidirectional gives zeros at masked steps of sequences */
    int masks_or;            /* masks of merged inputs: or, instead of and */
    int metrics_see_mask;    /* unweighted metrics ignore masked steps */
    int acc_short;           /* the metric accuracy is named acc */
    int sorted_logs;         /* sorted keys, learning_rate instead of lr */
    int clip_one_only;       /* only one way of clipping may be given */
} pg__rules;

/* The rules of a version as Keras writes it ("2.2.4", "2.1.6-tf", "3.6.0"); NULL or "": those of
 * 2.15. PG_E_ARG: not a version. A "-tf" after 2.1 to 2.4 means tf.keras instead of the standalone
 * package. */
pg_status pg__rules_of(const pg__rules **out, const char *version, pg_err *err);

#endif
