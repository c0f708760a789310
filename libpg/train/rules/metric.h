/* metric.h - what a run reports besides its loss: results of sums over its rows, in double. */
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

/* Keras' parameters of a metric; NAN or an empty list: not given. */
typedef struct pg__metric_args {
    double threshold, value, beta, k, num_thresholds, num_labels, top_k, class_id, num_classes;
    double ignore_class, num_regressors, axis, curve, summation_method, average, class_aggregation;
    double multi_label, from_logits, sparse_y_true, sparse_y_pred;
    pg__metric_list thresholds, label_weights, target_class_ids, normalizer;
} pg__metric_args;

/* A metric of Keras with its parameters. After pg__metric_of() it can be named and written, after
 * pg__metric_bind() computed. */
typedef struct pg__metric {
    char *text;  /* as given; owned */
    char *given; /* its name in the logs without that of the output: "accuracy"; owned */
    char *name;  /* its full name: "out_accuracy"; owned by the metric, set by others */
    size_t output;
    int weighted;                /* uses sample and class weights */
    const pg__metric_type *type; /* NULL: `accuracy` or `crossentropy`, before binding */
    int is_crossentropy;         /* then: which of the two */
    int is_object;               /* has parameters, or was given by class name */
    int is_named;                /* the user named it */
    int keras3;
    int old_names; /* uses the names of tf.keras that Keras 3 changed */
    int on_logits; /* compares the logits of the output: set by others */
    pg__loss_attrs loss;
    size_t n;    /* numbers of a row */
    int classes; /* the target is one class for each row */
    size_t n_state, n_results;
    size_t at; /* offset of its state among all metrics: set by others */
    pg__metric_args args;
} pg__metric;

void pg__metric_fini(pg__metric *m);

/* From "auc:curve=PR:num_thresholds=50", "mse", "MeanSquaredError". PG_E_ARG: unknown name, unknown
 * key. */
pg_status pg__metric_of(pg__metric *out, const char *text, size_t len, const pg__rules *rules,
                        pg_err *err);

/* Binds it to predictions of that shape, and targets that are classes or as many numbers. These
 * decide what "accuracy" means: binary for predictions of one number, sparse for targets of one
 * class per row, else categorical. PG_E_MISMATCH: it cannot compare these; PG_E_ARG: a parameter
 * does not fit them. */
pg_status pg__metric_bind(pg__metric *m, const pg__dims *prediction, int classes,
                          const pg__rules *rules, pg_err *err);

/* Adds the rows of one batch to n_state sums: p has n_rows rows of n numbers; y as many, or with
 * `classes` one number for each row. weights: of each row; NULL: 1. */
void pg__metric_add(const pg__metric *m, double *state, const double *y, const double *p,
                    const double *weights, size_t n_rows);

/* Computes its n_results numbers from the sums. */
void pg__metric_result(const pg__metric *m, const double *state, double *out);

/* Does Keras number unnamed objects of its class? */
int pg__metric_is_numbered(const pg__metric *m);

/* 1 << kind of the loss whose mean it is, or may become when bound; 0: none. */
uint32_t pg__metric_losses(const pg__metric *m);

/* Was it given as "accuracy"? */
int pg__metric_is_accuracy(const pg__metric *m);

/* As Keras serializes it under `name`: an object of its class or, without one, a MeanMetricWrapper
 * of a function. with_module: as from 2.12 on. */
pg_status pg__metric_put(pg__str *out, const pg__metric *m, const char *name, int with_module,
                         pg_err *err);

/* Appends to *out the text for pg__metric_of() of what Keras serialized as a class. output: a name
 * that Keras prefixes to the metric's, or NULL. PG_E_UNSUPPORTED: it cannot be expressed as text.
 */
pg_status pg__metric_read(pg__str *out, const char *class_name, const pg__json *config,
                          const char *output, pg_err *err);

/* Is it a class in the table? */
int pg__metric_has_class(const char *name);

#endif
