/* spectral.h - SpectralNormalization: normalises kernels before a step. */
#ifndef PG_TRAIN_STEP_SPECTRAL_H
#define PG_TRAIN_STEP_SPECTRAL_H

#include "train/step/trainer.h"

/* Once per update, even if a batch is run in several parts. If several GPUs have a copy of the
 * model, the whole model is copied to the others in every step.
 *
 * PG_E_UNSUPPORTED, with its name: a layer that is called more than once, since its kernel would
 * differ in each call.
 *
 * Before a step, divides kernels by their largest singular value, as the power method finds it;
 * leaves a kernel of zeros. On the first device, or the parameter's own; pg__devices_mirror()
 * updates the others. */
pg_status pg__spectral_check(const pg__trainer_net *net, pg_err *err);
pg_status pg__normalise_kernels(pg_trainer *t, pg_err *err);

#endif
