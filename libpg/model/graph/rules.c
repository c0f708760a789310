/* rules.c - the switches of every generation: standalone Keras 2.0.9, 2.2.4 and 2.3.1, tf.keras up
 * to 2.10 and from 2.11 (2.15), Keras 3 (3.6). Keras 1 computes as 2.0 does. */
#include "model/graph/rules.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const pg__rules keras_2_0 = {.name = "2.0",
                                    .epsilon = 1e-8,
                                    .clip_all_together = 1,
                                    .loss_norm_nonzero = 1,
                                    .bn_moving = PG_BN_BIASED,
                                    .bn_frozen = PG_BN_FROZEN_MOVES,
                                    .recurrent_hard = 1,
                                    .metrics_see_mask = 1,
                                    .acc_short = 1};
static const pg__rules keras_2_2 = {.name = "2.2",
                                    .epsilon = 1e-7,
                                    .clip_all_together = 1,
                                    .loss_norm_nonzero = 1,
                                    .bn_moving = PG_BN_DEBIASED,
                                    .bn_frozen = PG_BN_FROZEN_STANDS,
                                    .recurrent_hard = 1,
                                    .metrics_see_mask = 1,
                                    .acc_short = 1};
static const pg__rules keras_2_3 = {.name = "2.3",
                                    .epsilon = 1e-7,
                                    .clip_all_together = 1,
                                    .bce_adds_epsilon = 1,
                                    .logit_shortcut = 1,
                                    .bn_moving = PG_BN_CORRECTED_2X,
                                    .bn_frozen = PG_BN_FROZEN_STANDS,
                                    .metrics_see_mask = 1};
static const pg__rules tf_keras_2_10 = {.name = "2.10",
                                        .rows_apart = 1,
                                        .epsilon = 1e-7,
                                        .bidirectional_zeros = 1,
                                        .bce_adds_epsilon = 1,
                                        .logit_shortcut = 1,
                                        .logits_cached = 1,
                                        .bn_moving = PG_BN_FUSED,
                                        .bn_frozen = PG_BN_FROZEN_INFERS,
                                        .activity_per_row = 1,
                                        .metrics_see_mask = 1};
static const pg__rules tf_keras_2_15 = {.name = "2.15",
                                        .new_optimizers = 1,
                                        .rows_apart = 1,
                                        .epsilon = 1e-7,
                                        .bidirectional_zeros = 1,
                                        .mask_rescaled = 1,
                                        .bce_adds_epsilon = 1,
                                        .logit_shortcut = 1,
                                        .logits_cached = 1,
                                        .bn_moving = PG_BN_FUSED,
                                        .bn_frozen = PG_BN_FROZEN_INFERS,
                                        .activity_per_row = 1,
                                        .metrics_see_mask = 1};
static const pg__rules keras_3 = {.name = "3",
                                  .keras3 = 1,
                                  .new_optimizers = 1,
                                  .epsilon = 1e-7,
                                  .bidirectional_zeros = 1,
                                  .mask_rescaled = 1,
                                  .logit_shortcut = 1,
                                  .logits_cached = 1,
                                  .bn_moving = PG_BN_BIASED,
                                  .bn_frozen = PG_BN_FROZEN_INFERS,
                                  .hard_sigmoid_six = 1,
                                  .masks_or = 1,
                                  .sorted_logs = 1,
                                  .clip_one_only = 1};

static const pg__rules *rules_of_2(int minor, int is_tf)
{
    if (minor >= 11)
        return &tf_keras_2_15;
    if (minor >= 4 || is_tf)
        return &tf_keras_2_10;
    return minor == 0 ? &keras_2_0 : minor < 3 ? &keras_2_2 : &keras_2_3;
}

pg_status pg__rules_of(const pg__rules **out, const char *version, pg_err *err)
{
    int major = 2, minor = 0;
    const int given = version && *version;
    if (given && sscanf(version, "%d.%d", &major, &minor) < 1)
        return pg_fail(err, PG_E_ARG, "\"%s\" is not a version of Keras", PG_SHOW(version));
    if (major < 1 || major > 3)
        return pg_fail(err, PG_E_ARG, "no rules for Keras %s: they are known for 1.x, 2.x and 3.x",
                       PG_SHOW(version));
    if (!given)
        *out = &tf_keras_2_15;
    else if (major == 2)
        *out = rules_of_2(minor, strstr(version, "-tf") != NULL);
    else
        *out = major == 1 ? &keras_2_0 : &keras_3;
    return PG_OK;
}
