/* update.h - from the lanes' gradients to new weights. */
#ifndef PG_TRAIN_STEP_UPDATE_H
#define PG_TRAIN_STEP_UPDATE_H

#include "train/step/trainer.h"

/* Sums the gradients of all lanes, adds those of regularizers, clips, applies the optimizer and the
 * constraints. Leaves t->vars.grads pointing to the gradients as the optimizer saw them. */
pg_status pg__trainer_update(pg_trainer *t, pg_err *err);

/* What the regularizers add to the loss, in *penalty, which must be 0 at first. On a device with
 * its own memory the first function only queues the computation; the second fetches the result at a
 * point where that does not delay the step. */
pg_status pg__trainer_penalty(pg_trainer *t, double *penalty, pg_err *err);
pg_status pg__trainer_penalty_read(pg_trainer *t, double *penalty, pg_err *err);

#endif
