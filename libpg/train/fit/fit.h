/* fit.h - a run of epochs: callbacks, checkpoints, resuming, memory estimates. Uses train/model and
 * the rooms below it. Begin reading at fit.c; a callback is a cb_NAME.c. */
#ifndef PG_TRAIN_FIT_FIT_H
#define PG_TRAIN_FIT_FIT_H

#include "train/fit/fit_impl.h"
#include "train/fit/memory_estimate.h"

#endif
