/* metric.h - what is told of a run beside its loss: numbers of the sums over its rows, in double.
 */
#ifndef PG_TRAIN_RULES_METRIC_H
#define PG_TRAIN_RULES_METRIC_H

#include "base/json.h"
#include "base/str.h"
#include "model/graph/rules.h"
#include "ops/attrs.h"

typedef struct pg__metric_type pg__metric_type;

typedef struct pg__metric_list {
    double *v;
    size_t n;
} pg__metric_list;

/* Keras' parameters of a metric; NAN, or an empty list: none. */
typedef struct pg__metric_args {
    double threshold, value, beta, k, num_thresholds, num_labels, top_k, class_id, num_classes;
    double ignore_class, num_regressors, axis, curve, summation_method, average, class_aggregation;
    double multi_label, from_logits, sparse_y_true, sparse_y_pred;
    pg__metric_list thresholds, label_weights, target_class_ids, normalizer;
} pg__metric_args;

/* One metric of Keras' with its parameters. After pg__metric_of() it can be named and written,
 * after pg__metric_bind() counted. */
typedef struct pg__metric {
    char *text;  /* as it was asked for; owned */
    char *given; /* what the logs call it, but for the output's name: "accuracy"; owned */
    char *name;  /* the same with that: "out_accuracy"; owned by the metric, set by others */
    size_t output;
    int weighted;                /* rows count by their sample and class weights */
    const pg__metric_type *type; /* NULL: `accuracy` or `crossentropy`, before it is bound */
    int is_crossentropy;         /* which of them */
    int is_object;               /* with parameters, or a class by its name */
    int is_named;                /* by the user */
    int keras3;
    int old_names; /* tf.keras' of what Keras 3 calls otherwise */
    int on_logits; /* it compares what the output's activation squashed: set by others */
    pg__loss_attrs loss;
    size_t n;    /* numbers of a row */
    int classes; /* the target is one class for each row */
    size_t n_state, n_results;
    size_t at; /* of its state among all: set by others */
    pg__metric_args args;
} pg__metric;

void pg__metric_fini(pg__metric *m);

/* From "auc:curve=PR:num_thresholds=50", "mse", "MeanSquaredError". PG_E_ARG: unknown name, unknown
 * key. */
pg_status pg__metric_of(pg__metric *out, const char *text, size_t len, const pg__rules *rules,
                        pg_err *err);

/* For predictions of that shape, and targets that are classes or as many numbers. "accuracy" means
 * what they call for: predictions of one number are binary, targets of one class per row sparse,
 * the rest categorical. PG_E_MISMATCH: it does not compare such; PG_E_ARG: a parameter that does
 * not suit them. */
pg_status pg__metric_bind(pg__metric *m, const pg__dims *prediction, int classes,
                          const pg__rules *rules, pg_err *err);

/* Adds the rows of one batch to n_state sums: p has n_rows rows of n numbers; y as many, or with
 * `classes` one number for each row. weights: how much each row counts, NULL: 1. */
void pg__metric_add(const pg__metric *m, double *state, const double *y, const double *p,
                    const double *weights, size_t n_rows);

/* The n_results numbers of these sums. */
void pg__metric_result(const pg__metric *m, const double *state, double *out);

/* Unnamed ones of its class are told apart by a number. */
int pg__metric_is_numbered(const pg__metric *m);

/* 1 << kind of the loss that it is the mean of, or before it is bound may turn out to be; 0: none.
 */
uint32_t pg__metric_losses(const pg__metric *m);

/* Is it "accuracy", by name? */
int pg__metric_is_accuracy(const pg__metric *m);

/* As Keras serializes it, called `name`: the object of a class, or where it is none the function
 * that a MeanMetricWrapper has. with_module: as from 2.12 on. */
pg_status pg__metric_put(pg__str *out, const pg__metric *m, const char *name, int with_module,
                         pg_err *err);

/* The text of pg__metric_of() for what Keras serialized as a class, behind *out. output: a name
 * that Keras puts before the metric's, or NULL. PG_E_UNSUPPORTED: what a text cannot say. */
pg_status pg__metric_read(pg__str *out, const char *class_name, const pg__json *config,
                          const char *output, pg_err *err);

/* Is that a class of the table? */
int pg__metric_has_class(const char *name);

#endif
