/* trainer.h - a model being trained: what trainer.c, weights.c, step.c and fit.c share. */
#ifndef PG_TRAIN_STEP_TRAINER_H
#define PG_TRAIN_STEP_TRAINER_H

#include "pg/train.h"
#include "train/data/data.h"
#include "train/exec/exec.h"
#include "train/rules/rules.h"
#include "train/step/sum_plan.h"

/* What a batch is run for. */
typedef enum pg__pass { PG__TESTS, PG__TRAINS, PG__PREDICTS } pg__pass;

/* A program for one number of rows. */
typedef struct pg__built {
    uint64_t n_rows;
    pg__pass pass;
    int masks_only;
    size_t device;
    pg__dims *inputs; /* it was compiled for; owned */
    pg__program *program;
    uint64_t shared_at; /* version of the parameters that its kernels have prepared; 0: none */
    int was_begun;      /* a training step ran it before (buckets.c) */
} pg__built;

/* Flat memory on the device with one piece per parameter; all have the same offsets. */
typedef struct pg__flat {
    void *mem;
    void **at;     /* per parameter */
    size_t device; /* that it lies on */
    void **parts;  /* it is divided (model_parallel.h): per device; mem is the first, and no more */
} pg__flat;

/* The sum of the gradients of lanes [lo, lo + size); NULL: none of them has rows. */
typedef struct pg__partial {
    size_t lo, size;
    int is_whole; /* no part of them is to come */
    pg__flat *grads;
} pg__partial;

#define PG_MAX_PARTIALS 64

/* Memory that grows. */
typedef struct pg__memory {
    void *mem;
    uint64_t n_bytes;
    size_t device; /* that it lies on */
} pg__memory;

/* Where replicas run (devices.h). */
typedef struct pg__device {
    size_t ordinal;
    pg__dev *dev;
    size_t n_workers;
    pg__flat params, slots[PG_MAX_SLOTS]; /* copies; device 0 has those of the trainer */
    pg__flat incoming;                    /* what came from another device */
    pg__flat *sum;                        /* of the step's gradients (all_reduce.h) */
} pg__device;

/* Work of a program's run on a device, to be done again (graph_capture.h). */
typedef struct pg__graph_capture {
    const pg__program *program;
    const void *arena, *scratch; /* that it ran on */
    void *const *grads;
    size_t n_runs, n_pieces;
    pg__graph_run **graphs; /* per piece; NULL: not recorded yet, or never */
} pg__graph_capture;

/* One thread's own memory. */
typedef struct pg__worker {
    size_t device;
    pg__dev *dev; /* its queue there */
    void **args;  /* of a call */
    size_t n_args;
    pg__graph_capture *recordings;
    size_t n_recordings, cap_recordings;
    pg__memory scratch;
    pg__memory arena; /* of a device beyond the first that shares the work of a lane */
    pg__flat grads[PG_MAX_PARTIALS]; /* allocated when first needed */
    pg__flat *spare[PG_MAX_PARTIALS];
    size_t n_spare;
    pg__partial partials[PG_MAX_PARTIALS];
    size_t n_partials;
    struct pg__profile *profile; /* of its calls; NULL: nobody asked */
    pg_status st;
    pg_err err;
} pg__worker;

/* Numbers under Keras' names (logs.h). */
typedef struct pg__logs {
    pg__strs names;           /* "val_" ones behind, then the learning rate's */
    const char **shown;       /* the same, as pg_logs wants them */
    double *values;           /* twice n: of the batch or epoch, running or validation */
    const char **epoch_names; /* what the last epoch had of them */
    double *epoch_values;
    size_t n; /* without "val_" */
} pg__logs;
void pg__logs_close(pg__logs *l);

/* Of the loss, where layers compute with float16: mixed.h. */
typedef struct pg__loss_scale {
    int is_used;
    double now;
    uint64_t growth_steps; /* 0: it stays as it is */
    uint64_t n_good;       /* steps since it changed */
    uint64_t n_skipped;    /* steps that changed nothing, in all */
    int skipped;           /* was the one just made one of them? */
} pg__loss_scale;

/* Where the time of training steps went, in seconds: report.h. */
typedef struct pg__spent {
    double step, input, reduce, update; /* reduce and update are parts of step */
    double exchange;                    /* with other processes: of gradients; part of step */
    double waited;                      /* for other processes, before the first of these steps */
    uint64_t n_rows;
    size_t n_steps;
} pg__spent;

#define PG_MAX_STEPS 4

/* The model, as it is trained. */
typedef struct pg__trainer_net {
    pg__graph *graph;
    pg__leaves leaves;
    const pg__rules *rules;
    pg__elem *elems;          /* per leaf, what it computes with; NULL: all PG__REAL */
    int precision;            /* as pg_train_opts.precision */
    char *keras_version;      /* of the Keras that wrote the model, or NULL */
    pg__lowered built_params; /* shapes and owners of the parameters; no rows */
    size_t n_inputs, n_outputs;
    const char **output_names; /* point into the graph */
    const char **input_names;
    pg__dims *input_dims; /* as the data have them; rows unknown */
    int couples_rows;     /* rows of a batch depend on each other */
    int bn_sync;          /* through all replicas */
    int conv;             /* as pg_train_opts.conv */
} pg__trainer_net;

/* Its variables: parameters, and what optimizers keep of them. */
typedef struct pg__trainer_vars {
    size_t n_params;
    pg_weight *weights; /* what pg_trainer_weight() shows, in the order of get_weights() */
    size_t *order;      /* per entry of `weights`: the parameter */
    size_t *n_elems;    /* per parameter */
    unsigned char *trained;
    pg__penalty *penalties; /* per parameter */
    int has_regularizers, has_constraints;
    void *penalty; /* a double of device 0: of the step in hand; NULL: not there */
    pg__strs names;
    int drawn;         /* weights came from the initializers */
    char **file_names; /* per parameter: as in the file that it was read from, or NULL */
    uint64_t *offsets; /* per parameter, and the end: elements from the start of a flat */
    /* where devices share the variables (model_parallel.h) */
    size_t *part_of;                /* per parameter: its device */
    uint64_t *part_at, *part_elems; /* there; of each device */
    pg__flat params, slots[PG_MAX_SLOTS];
    _Atomic uint64_t version;             /* of the parameters: counts their changes */
    pg__flat *grads;                      /* sum of the step just made, or NULL */
    _Atomic(struct pg__snapshot *) spare; /* one that nobody uses any more, or NULL */
} pg__trainer_vars;

/* The devices: devices.h. */
typedef struct pg__trainer_devs {
    const pg__backend *backend;
    pg__dev *dev; /* that of device 0 */
    pg__device *devices;
    size_t n_devices;
    char *device_names; /* of the replicas: "cpu:0,cpu:1" */
    size_t *device_of;  /* per replica */
    uint64_t mirrored;  /* version of the parameters that the other devices have */
    int is_split; /* the devices are those of one replica, and share its variables: model_parallel.h
                   */
    pg__frame_part *parts; /* per device: what a step runs on */
    pg__strs placed_on;    /* devices, by their numbers in `assigned` */
    pg__assigned assigned; /* n_devices 0: no placement */
} pg__trainer_devs;

/* The threads, how a batch is cut for them, and their memory: workers.c. */
typedef struct pg__trainer_pool {
    pg__cut cut;
    size_t n_threads; /* one per worker and device that shares its work; the team's */
    pg__thread_pool *team;
    pg__worker *workers;          /* as many as the team has */
    pg__memory *arenas;           /* per lane where lanes advance together, else per worker */
    struct pg__landing *landings; /* per lane */
} pg__trainer_pool;

/* What it is trained for: losses, metrics, the optimizer. */
typedef struct pg__trainer_compiled {
    pg__loss_scale scale;
    pg__objective *objectives;
    double *loss_weights;
    pg__optimiser optimiser;
    pg__schedule *schedule;                   /* that it follows, or NULL */
    char *metric_text, *weighted_metric_text; /* resolved once the data are known */
    pg__metric *metrics;
    size_t n_metrics, n_metric_state; /* sums of all of them */
    int from_probabilities;
} pg__trainer_compiled;

/* Programs that were compiled, and steps that were cut for them: cut.h. */
typedef struct pg__trainer_programs {
    pg__built *built;
    size_t n_built, cap_built;
    struct pg__step *steps[PG_MAX_STEPS]; /* that were cut last, the latest first (cut.h) */
} pg__trainer_programs;

/* The state of training. */
typedef struct pg__trainer_loop {
    char *saved;          /* what the last save wrote, or NULL */
    char *state, *output; /* of the last run: where its state is, what is to be written; or NULL */
    uint64_t seed;        /* of what is random in a step */
    uint64_t n_moves;     /* steps that moved the averages */
    pg__logs evaluated;   /* what pg_evaluate() gave last */
    void **states;        /* of stateful layers, for batches of state_rows rows */
    uint64_t state_rows;
    uint64_t part_rows; /* a batch is worked through in parts of so many rows; 0: at once */
    int stops_on_nan, nan_found; /* gradients that are no numbers are not applied */
    pg__watch *watch;            /* of the step in hand, or NULL */
    int is_trial;                /* steps are only timed: nothing that lasts may change */
} pg__trainer_loop;

/* What it tells: report.h. */
typedef struct pg__trainer_report {
    pg__strs notes; /* what pg_trainer_note() tells */
    pg__spent spent;
    pg__pass profiled_pass;        /* steps that workers' profiles are of */
    int is_profiling;              /* such a step is counted */
    pg_op_profile *profiled;       /* what pg_trainer_profile() gave */
    struct pg__timeline *timeline; /* when they leave what behind (timeline.h); or NULL */
} pg__trainer_report;

struct pg_trainer {
    pg__trainer_net net;
    pg__trainer_vars vars;
    pg__trainer_devs devs;
    pg__trainer_pool pool;
    pg__trainer_compiled compiled;
    pg__trainer_programs programs;
    pg__trainer_loop loop;
    pg__trainer_report report;
    pg__sums sums;
    struct pg__ranks *ranks; /* the other processes of the job (ranks.h); NULL: there are none */
};

/* How a batch is cut, and who works on it: t->pool.cut. */
pg_status pg__workers_open(pg_trainer *t, const pg_train_opts *o, pg_err *err);
/* The workers of t->pool.cut, and their memory. */
pg_status pg__workers_start(pg_trainer *t, pg_err *err);
void pg__workers_stop(pg_trainer *t);
/* Steps that were kept (cut.h), whose programs, lanes or memory will not be there any more. */
void pg__steps_drop(pg__trainer_programs *programs);

/* The program for n rows, compiled at its first use; not from several threads. */
pg_status pg__trainer_program(pg_trainer *t, uint64_t n_rows, pg__pass pass,
                              const pg__program **out, pg_err *err);

/* Opens a checkpoint as a trainer reads it: by layers, a wrapper's as its template's. part: as
 * pg_open_opts.part. model_text: description of the model that it must be of, or NULL. notes: what
 * was done is added; or NULL. */
pg_status pg__weights_open(pg_store **out, pg__strs *notes, const char *path, const char *part,
                           const char *model_text, pg_err *err);

/* Visits every variable of the model with its tensor, i, in such a file; every variable must be
 * there, and no other. Messages name the file. */
typedef pg_status (*pg__weight_visit)(void *ctx, size_t param, pg_store *file, size_t i,
                                      pg_err *err);
pg_status pg__weights_walk(const pg_trainer *t, pg_store *file, const char *path,
                           pg__weight_visit visit, void *ctx, pg_err *err);

/* The same, reading them into the parameters. */
pg_status pg__trainer_load(pg_trainer *t, pg_store *file, const char *path, pg_err *err);

/* Fills the parameters by the initializers of the model's config. */
pg_status pg__trainer_initialise(pg_trainer *t, uint64_t seed, pg_err *err);

/* Memory for one number per element of every parameter, all zero. */
pg_status pg__flat_alloc(pg_trainer *t, pg__flat *f, pg_err *err); /* on device 0 */
pg_status pg__flat_alloc_on(pg_trainer *t, pg__flat *f, size_t device, pg_err *err);
pg_status pg__flat_fill(pg_trainer *t, pg__flat *f, double v);
void pg__flat_free(pg__trainer_devs *devs, pg__flat *f);

/* Tensor i of a file, a weight or with `state` one of the state, into what f has for a parameter of
 * that shape. */
pg_status pg__param_read(pg_trainer *t, pg__flat *f, size_t param, pg_store *file, size_t i,
                         int state, pg_err *err);

/* All values of parameter i. */
pg_status pg__param_get(pg_trainer *t, size_t i, double *out);
pg_status pg__param_put(pg_trainer *t, size_t i, const double *values);

/* One batch in host memory, elements as the device takes them. */
typedef struct pg__batch {
    uint64_t n_rows; /* of all processes */
    uint64_t n_here; /* rows that are in it, of the parts one after the other: pg__rows_here() */
    void **inputs, **targets, **weights; /* weights: entries may be NULL */
    void **weight_mem;                   /* where weights are, in batches that have some */
} pg__batch;

/* Sums over the rows of batches. */
typedef struct pg__totals {
    double *loss_sums, *loss_counts; /* per output */
    double *batch_losses;            /* per output: of each batch, weighted, summed over batches */
    uint64_t n_batches;
    double *metrics;    /* n_metric_state sums */
    double penalty_sum; /* of regularizers, times rows */
    uint64_t n_rows;
} pg__totals;

void pg__totals_clear(const pg_trainer *t, pg__totals *totals);
pg_status pg__totals_alloc(const pg_trainer *t, pg__totals *totals, pg_err *err);
void pg__totals_free(pg__totals *totals);
void pg__totals_add(const pg_trainer *t, pg__totals *into, const pg__totals *from);

/* Gradients of a worker's lanes (reduce.c): begin gives the buffer for a lane's part, or for the
 * sum of n_lanes neighbours, a complete subtree; end sums what can be summed. NULL: the part has no
 * rows. */
void pg__partials_reset(pg__worker *w);
pg_status pg__partials_begin(pg_trainer *t, pg__worker *w, pg__flat **out, pg_err *err);
pg_status pg__partials_end(pg_trainer *t, pg__worker *w, size_t lane, size_t n_lanes, int is_last,
                           pg__flat *grads, pg_err *err);

/* Sums the partials of all workers over elements [from, to) of the flats in the order of the tree;
 * *out is where the sum lies. Each worker does it for a range of its own. */
pg_status pg__partials_sum(pg_trainer *t, uint64_t from, uint64_t to, pg__flat **out);
int pg__partials_any(const pg__trainer_pool *pool); /* has any lane rows? */
/* Of the lanes that ran on one device; NULL: none of them has rows. */
pg_status pg__partials_sum_on(pg_trainer *t, size_t device, pg__flat **out);

/* What one replica's pass found goes into the model's moving averages; the replicas come one after
 * the other, `replica` of n_replicas. found: per entry of the model's list, on the device `from`,
 * or with NULL in the host's memory. */
pg_status pg__move_averages(pg_trainer *t, pg__dev *from, const void *const *found, size_t replica,
                            size_t n_replicas);

/* The same where gradients are summed over devices in buckets: what a replica found goes into the
 * flat gradient `into` before bucket b is summed, and once all are, into device d's averages. */
pg_status pg__averages_bring(pg_trainer *t, const pg__program *p, const pg__frame *f,
                             const pg__bucket *b, size_t replica, const pg__flat *into);
pg_status pg__averages_take(pg_trainer *t, size_t d);

/* Forward pass, and in training gradients and an update; adds to *totals. predictions: per output
 * memory for those of the whole batch, elements as the device has them; NULL: not wanted. */
pg_status pg__trainer_step(pg_trainer *t, const pg__batch *b, pg__pass pass,
                           void *const *predictions, pg__totals *totals, pg_err *err);

/* The totals are those of one whole batch. */
void pg__totals_end_batch(const pg_trainer *t, pg__totals *totals);

/* Loss of the totals: sum of the outputs' means by their weights; and that of output k, as the
 * trainer's Keras logs it. */
double pg__total_loss(const pg_trainer *t, const pg__totals *totals);
double pg__output_loss(const pg__trainer_net *net, const pg__totals *totals, size_t k);

#endif
