/* histogram.h - how a parameter's values are spread, as TensorBoard shows it. */
#ifndef PG_TRAIN_HISTOGRAM_H
#define PG_TRAIN_HISTOGRAM_H

#include "format/events.h"
#include "train/trainer.h"

/* Left edge, right edge and count of each bucket, as tf.summary.histogram() counts them; but what
 * is no finite number is left out. */
pg_status pg__param_histogram(double out[PG_EVENT_BUCKETS][3], pg_trainer *t, size_t param);

#endif
