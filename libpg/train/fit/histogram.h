/* histogram.h - the distribution of a parameter's values, as TensorBoard shows it. */
#ifndef PG_TRAIN_FIT_HISTOGRAM_H
#define PG_TRAIN_FIT_HISTOGRAM_H

#include "format/events.h"
#include "train/step/step.h"

/* Left edge, right edge and count of each bucket, as tf.summary.histogram() counts them, but
 * without non-finite values. */
pg_status pg__param_histogram(double out[PG_EVENT_BUCKETS][3], pg_trainer *t, size_t param);

/* A tag for each of pg_trainer_weight(), no two alike: "LAYER/WEIGHT_0/histogram". */
pg_status pg__histogram_tags(pg__strs *out, const pg_trainer *t, pg_err *err);

#endif
