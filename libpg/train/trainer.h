/* trainer.h - a model being trained: what trainer.c, weights.c, step.c and fit.c share. */
#ifndef PG_TRAIN_TRAINER_H
#define PG_TRAIN_TRAINER_H

#include "pg/train.h"
#include "train/data.h"
#include "train/metric.h"
#include "train/optimiser.h"
#include "train/program.h"

/* A program for one number of rows. */
typedef struct pg__built {
    uint64_t n_rows;
    int training;
    pg__program *program;
} pg__built;

/* Flat memory on the device with one piece per parameter. */
typedef struct pg__flat {
    void *mem;
    void **at; /* per parameter */
} pg__flat;

struct pg_trainer {
    pg__graph *graph;
    pg__leaves leaves;
    const pg__rules *rules;
    const pg__backend *backend;
    pg__dev *dev;

    size_t n_params;
    pg_weight *weights; /* what pg_trainer_weight() shows, in the order of get_weights() */
    size_t *order;      /* per entry of `weights`: the parameter */
    size_t *n_elems;    /* per parameter */
    unsigned char *trained;
    pg__strs names;
    pg__flat params, grads, slots[PG_MAX_SLOTS];

    size_t n_inputs, n_outputs;
    const char **output_names; /* point into the graph */
    const char **input_names;
    pg__dims *input_dims; /* as the data have them; rows unknown */
    pg__objective *objectives;
    double *loss_weights;
    pg__optimiser optimiser;
    char *metric_text; /* resolved once the data are known */
    pg__metric *metrics;
    size_t n_metrics;
    int from_probabilities;

    pg__built *built;
    size_t n_built, cap_built;
    void *arena, *scratch; /* for the largest program */
    uint64_t arena_bytes;
    size_t scratch_bytes;
    int has_gradients; /* of a step that was made */
};

/* The program for n rows, compiled at its first use. */
pg_status pg__trainer_program(pg_trainer *t, uint64_t n_rows, int training, const pg__program **out,
                              pg_err *err);

/* Reads the weights of a checkpoint into the parameters; every variable must be there, and no
 * other. Messages name the file. */
pg_status pg__trainer_load(pg_trainer *t, const char *path, pg_err *err);

/* Memory for one number per element of every parameter; `start` fills it. */
pg_status pg__flat_alloc(pg_trainer *t, pg__flat *f, double start, pg_err *err);
void pg__flat_free(pg_trainer *t, pg__flat *f);

/* One batch in host memory, elements as the device takes them. */
typedef struct pg__batch {
    uint64_t n_rows;
    void **inputs, **targets, **weights; /* weights: entries may be NULL */
} pg__batch;

/* Sums over the rows of one batch. */
typedef struct pg__totals {
    double *loss_sums, *loss_counts; /* per output */
    pg__mean *metrics;
} pg__totals;

/* Forward pass, and with `training` gradients and an update; adds to *totals. */
pg_status pg__trainer_step(pg_trainer *t, const pg__batch *b, int training, pg__totals *totals,
                           pg_err *err);

/* Loss of the totals: sum of the outputs' means by their weights. */
double pg__total_loss(const pg_trainer *t, const pg__totals *totals);

#endif
