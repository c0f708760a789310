/* metric_impl.h - between metric.c, metric_keys.c and the functions that metrics.def names. */
#ifndef PG_TRAIN_RULES_METRIC_IMPL_H
#define PG_TRAIN_RULES_METRIC_IMPL_H

#include "train/rules/metric.h"
#include "train/rules/settings.h"

enum { PG_METRIC_VALUES, PG_METRIC_CLASS, PG_METRIC_EITHER };

struct pg__metric_type {
    const char *class_name, *usual;
    int takes;
    double (*value)(const pg__metric *m, const double *y, const double *p); /* for a mean */
    pg_status (*shape)(pg__metric *m, const pg__dims *prediction, pg_err *err);
    void (*sums)(const pg__metric *m, double *state, const double *y, const double *p, double w);
    void (*result)(const pg__metric *m, const double *state, double *out);
    int numbered;
    const char *keys;
};

double pg__value_loss(const pg__metric *m, const double *y, const double *p);

#define PG_METRIC_LOSS(class, name)
#define PG_METRIC_MEAN(class, name, takes, keys) \
    double pg__value_##class(const pg__metric *m, const double *y, const double *p);
#define PG_METRIC_SUMS(class, name, takes, family, made, numbered, keys)                         \
    pg_status pg__shape_##family(pg__metric *m, const pg__dims *prediction, pg_err *err);        \
    void pg__sums_##family(const pg__metric *m, double *state, const double *y, const double *p, \
                           double w);                                                            \
    void pg__result_##made(const pg__metric *m, const double *state, double *out);
#include "train/rules/metrics.def"
#undef PG_METRIC_LOSS
#undef PG_METRIC_MEAN
#undef PG_METRIC_SUMS

/* a / b, or 0 if b is 0. */
double pg__ratio(double a, double b);

/* Reads the type's keys from the settings, and refuses others. */
pg_status pg__metric_keys(pg__metric *m, pg__settings *from, pg_err *err);

/* `, "key": value` for each of them, as Keras writes it. */
pg_status pg__metric_put_keys(pg__str *out, pg__metric *m, pg_err *err);

#endif
