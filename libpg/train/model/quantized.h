/* quantized.h - predictions in int8 (pg_train_opts.quantize). */
#ifndef PG_TRAIN_MODEL_QUANTIZED_H
#define PG_TRAIN_MODEL_QUANTIZED_H

#include "train/step/step.h"

pg_status pg__quantized_open(pg_trainer *t, const pg_train_opts *o, pg_err *err);

#endif
