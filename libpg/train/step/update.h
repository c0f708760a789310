/* update.h - from the lanes' gradients to new weights. */
#ifndef PG_TRAIN_STEP_UPDATE_H
#define PG_TRAIN_STEP_UPDATE_H

#include "train/step/trainer.h"

/* Sums the gradients of all lanes, adds those of regularizers, clips, applies the optimizer and the
 * constraints. t->vars.grads is left where the gradients lie, as the optimizer saw them. */
pg_status pg__trainer_update(pg_trainer *t, pg_err *err);

/* What the regularizers add to the loss, in *penalty, which is 0 at first: a device of its own
 * memory only begins with it, and it is there when it has been read, where that does not hold up a
 * step. */
pg_status pg__trainer_penalty(pg_trainer *t, double *penalty, pg_err *err);
pg_status pg__trainer_penalty_read(pg_trainer *t, double *penalty, pg_err *err);

#endif
