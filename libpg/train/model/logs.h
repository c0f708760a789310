/* logs.h - the numbers that a run reports, under Keras' names. */
#ifndef PG_TRAIN_MODEL_LOGS_H
#define PG_TRAIN_MODEL_LOGS_H

#include "train/step/step.h"

/* Checks names of metrics, and the outputs' names before them, and sets metric_losses of each
 * output's objective, which programs are compiled by: call it before the first one. PG_E_ARG. */
pg_status pg__metrics_declare(pg_trainer *t, const char *text, pg_err *err);

/* The part of piece `s` of such a text that concerns output k, *n characters; NULL: it is for
 * another output. And does the text name an output at all? */
const char *pg__metric_text(const pg_trainer *t, const char *s, size_t len, size_t k, size_t *n);
int pg__metrics_name_outputs(const char *text);

/* Resolves the trainer's metrics, by a program that has the values they compare. */
pg_status pg__metrics_resolve(pg_trainer *t, const pg__program *p, pg_err *err);

/* Call it after pg__metrics_resolve(). */
pg_status pg__logs_open(pg__logs *out, const pg_trainer *t, int has_val, pg_err *err);

/* Keras' name for the learning rate in logs. */
const char *pg__rate_name(const pg_trainer *t);

/* The logs of an epoch, from `values` and the learning rate. Valid until the next call. */
pg_logs pg__logs_epoch(pg__logs *l, int with_val, double rate);

/* Sets the n values from the totals. */
void pg__logs_fill(const pg_trainer *t, double *values, const pg__totals *totals);

#endif
