/* mixed.h - what layers compute with (ops/compact.h), and the scale of the loss where that is
 * float16: gradients smaller than 2^-24 would be lost in it, so the loss is multiplied, and the sum
 * of gradients divided. */
#ifndef PG_TRAIN_STEP_MIXED_H
#define PG_TRAIN_STEP_MIXED_H

#include "train/step/trainer.h"

/* The optimizer's config; of the one in a LossScaleOptimizer, whose own goes into *s. */
const pg__json *pg__loss_scale_of(pg__loss_scale *s, const pg__json *optimizer);

/* By the options, else by the policies in the model's description. PG_E_UNSUPPORTED: asked for on a
 * device that computes with float32. */
pg_status pg__mixed_open(pg_trainer *t, const pg_train_opts *o, pg_err *err);

/* What was asked for: "model", "tf32", "bfloat16", ... */
const char *pg__mixed_name(const pg__trainer_net *net);

/* What the loss of a training step is multiplied by; 1 where it is not. */
double pg__loss_scale_now(const pg__trainer_compiled *compiled);

/* A step whose gradients are not finite is skipped. */
int pg__loss_scale_skips(const pg_trainer *t);

/* Behind the state of a run that was begun where nothing is scaled: its scale is the first. */
void pg__loss_scale_resumed(pg__trainer_compiled *compiled);

/* Sums of gradients, which pg__all_reduce() has brought: divided by the scale; or, where a number
 * in them is none, *skips, and the scale is halved. Waits for the first device where it may skip.
 */
pg_status pg__loss_scale_settle(pg_trainer *t, int *skips, pg_err *err);

#endif
