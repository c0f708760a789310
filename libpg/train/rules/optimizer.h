/* optimizer.h - an optimizer's rule, its numbers, and its step. */
#ifndef PG_TRAIN_RULES_OPTIMIZER_H
#define PG_TRAIN_RULES_OPTIMIZER_H

#include "base/json.h"
#include "model/graph/rules.h"
#include "ops/optimizer.h"
#include "train/rules/schedule.h"

/* An optimizer as Keras configures it. For numbers that are float32 variables in Keras, 0.3 is
 * stored, and shown, as 0.30000001192092896. */
typedef struct pg__optimizer {
    const char *name;             /* "Adam": Keras' class name (static) */
    int legacy;                   /* rules of Keras to 2.10 */
    double lr, decay;             /* lr: as set by the user or by a callback */
    const pg__schedule *schedule; /* sets the rate instead of lr; NULL: none. Not owned */
    double momentum, rho, beta_1, beta_2, epsilon, weight_decay, initial_accumulator;
    double clipnorm, global_clipnorm, clipvalue; /* 0: none */
    int nesterov, amsgrad, centered;
    double lr_power, l1, l2, l2_shrinkage, beta; /* Ftrl */
    int use_ema;
    double ema_momentum, ema_frequency; /* frequency: in steps, 0: only at the end of fit() */
    int first_is_average;               /* Keras 3: it begins with the first step's weights */
    double nadam_decay;                 /* default 0.004 */
    uint64_t iterations;
    double nadam_product; /* of the momenta so far */
} pg__optimizer;

/* From "adam", "SGD:learning_rate=0.01,momentum=0.9". legacy: 1, 0, or -1: by the rules. PG_E_ARG
 * lists the known names or keys. */
pg_status pg__optimizer_parse(pg__optimizer *out, const char *text, const pg__rules *rules,
                              int legacy, pg_err *err);

/* From a Keras config: {"class_name": "Adam", "config": {...}}; ignores unknown keys. PG_E_ARG: a
 * key of the optimizer has a value of another type. */
pg_status pg__optimizer_of_json(pg__optimizer *out, const pg__json *j, const pg__rules *rules,
                                int legacy, pg_err *err);

pg__optimizer_kind pg__optimizer_kind_of(const pg__optimizer *o);

/* Does the rule use the slot? Adam without amsgrad uses two of three. */
int pg__optimizer_uses_slot(const pg__optimizer *o, size_t slot);
double pg__optimizer_slot_start(const pg__optimizer *o, size_t slot);

/* Lets a schedule set the learning rate (NULL: none). PG_E_UNSUPPORTED: Keras' rule takes no
 * schedule. */
pg_status pg__optimizer_follow(pg__optimizer *o, const pg__schedule *s, pg_err *err);

/* Are parameters set to their averages at the end of training? */
int pg__optimizer_finalizes(const pg__optimizer *o);

/* The current learning rate: Keras' optimizer.learning_rate, before `decay`. */
double pg__optimizer_rate(const pg__optimizer *o);

/* Updates what depends on the number of steps, after it was set from a file. */
void pg__optimizer_recount(pg__optimizer *o);

/* The numbers for the next step; counts the step. */
pg__update pg__optimizer_step(pg__optimizer *o);

#endif
