/* metric.h - what is told of a run beside its loss: means over rows, in double. */
#ifndef PG_TRAIN_METRIC_H
#define PG_TRAIN_METRIC_H

#include "model/rules.h"
#include "ops/attrs.h"
#include "pg/train.h"

typedef enum pg__metric_kind {
    PG__METRIC_BINARY_ACCURACY,      /* p > 0.5, mean over the last axis */
    PG__METRIC_CATEGORICAL_ACCURACY, /* the largest at the same place; the first of equals wins */
    PG__METRIC_SPARSE_ACCURACY,      /* the largest at the class */
    PG__METRIC_LOSS                  /* a loss, by its own name */
} pg__metric_kind;

typedef struct pg__metric {
    char *name; /* as in the logs: "accuracy", "out_mae"; owned */
    size_t output;
    int weighted; /* rows count by their sample and class weights */
    pg__metric_kind kind;
    pg__loss_attrs loss;
} pg__metric;

/* A mean in the making. */
typedef struct pg__mean {
    double sum, count;
} pg__mean;

/* Adds the rows of one batch: p has n_rows rows of n numbers; y as many, or with `classes` one
 * number for each row. weights: how much each row counts, NULL: 1. */
void pg__metric_add(const pg__metric *m, pg__mean *into, const double *y, int classes,
                    const double *p, const double *weights, size_t n_rows, size_t n);

/* Does it compare with such targets: one class for each row, or as many numbers as are predicted?
 */
int pg__metric_fits(const pg__metric *m, int classes);

/* "accuracy" and "acc" mean what target and prediction call for: predictions of one number are
 * binary, targets of one class per row sparse, the rest categorical. PG_E_ARG: unknown name. */
pg_status pg__metric_of(pg__metric *out, const char *name, size_t len, int classes, size_t n,
                        const pg__rules *rules, pg_err *err);

#endif
