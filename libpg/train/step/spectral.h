/* spectral.h - SpectralNormalization: what it writes before a step. */
#ifndef PG_TRAIN_STEP_SPECTRAL_H
#define PG_TRAIN_STEP_SPECTRAL_H

#include "train/step/trainer.h"

/* Once an update, also where that is made of several parts of a batch. Where several GPUs have a
 * copy of the model, all of it is copied to the others in every step.
 *
 * PG_E_UNSUPPORTED, by name: a layer whose kernel would be another in each of its calls.
 *
 * Before a step kernels are divided by their largest singular value, as the power method finds it;
 * a kernel of zeros stays. On the first device, or the parameter's own; others are brought up to
 * date by pg__devices_mirror(). */
pg_status pg__spectral_check(const pg__trainer_net *net, pg_err *err);
pg_status pg__normalise_kernels(pg_trainer *t, pg_err *err);

#endif
