/* predict.h - using a trained model: loss and metrics over data, and predictions. A trainer, opened
 * with pg_train_opts.for_prediction where nothing is to be trained, does both.
 *
 *     pg_err err;
 *     pg_data *data = NULL;
 *     pg_trainer *t = NULL;
 *     pg_train_opts opts = {.model = "mlp.json", .weights = "before.h5", .for_prediction = 1,
 *                           .quantize = "int8"};
 *     if (pg_data_open(&data, "digits.npz", &err) != PG_OK ||
 *         pg_trainer_open(&t, &opts, &err) != PG_OK ||
 *         pg_predict_file(t, data, "classes.npy", NULL, &err) != PG_OK)
 *         fprintf(stderr, "%s\n", err.msg);
 *     pg_trainer_close(t);
 *     pg_data_close(data);
 */
#ifndef PG_PREDICT_H
#define PG_PREDICT_H

#include <stddef.h>
#include <stdint.h>

#include "pg/data.h"
#include "pg/err.h"
#include "pg/train.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pg_predict_opts {
    size_t batch_size; /* of all devices together; 0: 32. If rows do not affect each other,
                          predictions of all rows are computed in batches that suit the cores and
                          their caches: at most this many rows, but at least one for each core */
    size_t steps;      /* batches, from the first row on; 0: all rows */
    int unquantized;   /* as if pg_train_opts.quantize were NULL; must be equal in all processes of
                          a job */
    int force;         /* pg_predict_file(): replace an existing file */
    int profile;       /* measure where the time goes, for pg_trainer_profile(). An only batch, or a
                          last one of fewer rows, runs twice, the first time without measuring.
                          Results stay the same; must be equal in all processes of a job */
    const volatile int
        *cancel; /* PG_E_CANCELLED before the next batch once *cancel != 0; or NULL */
} pg_predict_opts;

/* Loss and metrics over all rows in inference mode, as Keras' evaluate(). *out is valid until the
 * next call or until the trainer is closed. opts may be NULL. Errors as pg_fit()'s. */
PG_API PG_MUST_USE pg_status pg_evaluate(pg_trainer *t, pg_data *data, const pg_predict_opts *opts,
                                         pg_logs *out, pg_err *err);

/* Receives predictions; a status other than PG_OK ends the call and is returned. */
typedef struct pg_predictions {
    void *user;
    /* Called once: the shapes of the complete arrays, in the order of the model's outputs; may be
     * NULL. */
    pg_status (*begin)(void *user, const pg_weight *outputs, size_t n_outputs, pg_err *err);
    /* n_rows rows of an output from row `first` on, elements of its dtype, row-major. */
    pg_status (*rows)(void *user, size_t output, uint64_t first, size_t n_rows, const void *values,
                      pg_err *err);
} pg_predictions;

/* The outputs of every row of the inputs, in order. Targets are not needed. opts may be NULL. */
PG_API PG_MUST_USE pg_status pg_predict(pg_trainer *t, pg_data *data, const pg_predict_opts *opts,
                                        const pg_predictions *to, pg_err *err);

/* The same into a file that appears whole or not at all: .npy for one output, .npz with y0, y1, ...
 * for any number. PG_E_ARG: another suffix, .npy for several outputs, or an existing file. */
PG_API PG_MUST_USE pg_status pg_predict_file(pg_trainer *t, pg_data *data, const char *path,
                                             const pg_predict_opts *opts, pg_err *err);

/* Could pg_predict_file() write there? Meant to be asked before hours of training; nothing is
 * created. opts may be NULL. Errors: those of pg_predict_file() that concern the file. */
PG_API PG_MUST_USE pg_status pg_predict_check_file(const pg_trainer *t, const char *path,
                                                   const pg_predict_opts *opts, pg_err *err);

/* Zeros for the states of stateful layers, as Keras' reset_states(). */
PG_API PG_MUST_USE pg_status pg_trainer_reset_states(pg_trainer *t, pg_err *err);

/* What pg_train_opts.quantize does to predictions. */
typedef struct pg_quantized {
    size_t n_products;          /* in int8: calls of a layer, or of one of its products */
    uint64_t n_rows;            /* that were predicted both ways; 0 but on rank 0 of a job */
    const char *output;         /* the one that changes most, by rel_change; NULL: none of floats.
                                   Valid until the trainer is closed */
    double max_change;          /* of one of its numbers; like the next two NaN if there are numbers
                                   that are not finite */
    double max_given;           /* the largest magnitude of them, without it */
    double rel_change;          /* root of the sum of squared changes, by that of the numbers */
    uint64_t n_choices, n_same; /* rows of outputs that are classes (rank 2, more than one); those
                                   whose largest number is of the same class */
} pg_quantized;

/* Products of the last pass in int8; 0: none was large enough, or there was no such pass. */
PG_API size_t pg_trainer_n_quantized(const pg_trainer *t);

/* Predicts rows in int8 and without it, and compares. opts may be NULL; with `steps` 0 it keeps the
 * predictions of all rows. Both begin with the states that stateful layers have, which stay.
 * PG_E_ARG: the trainer was opened without `quantize`. */
PG_API PG_MUST_USE pg_status pg_predict_quantized(pg_trainer *t, pg_data *data,
                                                  const pg_predict_opts *opts, pg_quantized *out,
                                                  pg_err *err);

#ifdef __cplusplus
}
#endif

#endif
