/* mixed.h - the type that layers compute with (ops/compact.h), and loss scaling for float16:
 * gradients below 2^-24 would be lost, so the loss is multiplied by a scale, and the sum of
 * gradients divided by it. */
#ifndef PG_TRAIN_STEP_MIXED_H
#define PG_TRAIN_STEP_MIXED_H

#include "train/step/trainer.h"

/* The optimizer's config; for a LossScaleOptimizer that of its inner optimizer, with its own scale
 * in *s. */
const pg__json *pg__loss_scale_of(pg__loss_scale *s, const pg__json *optimizer);

/* Chooses by the options, else by the policies in the model's description. PG_E_UNSUPPORTED: the
 * device only computes with float32. */
pg_status pg__mixed_open(pg_trainer *t, const pg_train_opts *o, pg_err *err);

/* What the options asked for: "model", "tf32", "bfloat16", ... */
const char *pg__mixed_name(const pg__trainer_net *net);

/* The backend's kind() of a device, and whether products of bfloat16 are its own: what the last
 * bits of results depend on. */
const char *pg__mixed_kind(const pg_trainer *t);

/* The factor on the loss of a training step; 1 without scaling. */
double pg__loss_scale_now(const pg__trainer_compiled *compiled);

/* Are steps with non-finite gradients skipped? */
int pg__loss_scale_skips(const pg_trainer *t);

/* After reading the state of a run that began without loss scaling: sets the first scale. */
void pg__loss_scale_resumed(pg__trainer_compiled *compiled);

/* Divides the sums of gradients, which pg__all_reduce() has brought, by the scale; if they are not
 * finite, sets *skips and halves the scale instead. Waits for the first device if it may skip. */
pg_status pg__loss_scale_settle(pg_trainer *t, int *skips, pg_err *err);

#endif
