/* logs.h - the numbers that a run tells, under Keras' names. */
#ifndef PG_TRAIN_MODEL_LOGS_H
#define PG_TRAIN_MODEL_LOGS_H

#include "train/step/step.h"

/* Are those names of metrics, and of the model's outputs before them? PG_E_ARG. */
pg_status pg__metrics_check(pg_trainer *t, const char *text, pg_err *err);

/* What piece `s` of such a text says of output k, n characters; NULL: it is of another one. And is
 * there any of an output by its name? */
const char *pg__metric_text(const pg_trainer *t, const char *s, size_t len, size_t k, size_t *n);
int pg__metrics_name_outputs(const char *text);

/* Finds out what the trainer's metrics are, by a program that has what they compare. */
pg_status pg__metrics_resolve(pg_trainer *t, const pg__program *p, pg_err *err);

/* After that. */
pg_status pg__logs_open(pg__logs *out, const pg_trainer *t, int has_val, pg_err *err);

/* Keras' name for the learning rate in logs. */
const char *pg__rate_name(const pg_trainer *t);

/* The logs of an epoch: what `values` holds, with that learning rate. Valid until the next call. */
pg_logs pg__logs_epoch(pg__logs *l, int with_val, double rate);

/* The n numbers of these totals. */
void pg__logs_fill(const pg_trainer *t, double *values, const pg__totals *totals);

#endif
