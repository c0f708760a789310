/* trainer.h - a model being trained: what trainer.c, weights.c, step.c and fit.c share. */
#ifndef PG_TRAIN_STEP_TRAINER_H
#define PG_TRAIN_STEP_TRAINER_H

#include "pg/predict.h"
#include "train/data/data.h"
#include "train/exec/exec.h"
#include "train/rules/rules.h"
#include "train/step/sum_plan.h"

/* What a batch is run for. */
typedef enum pg__pass { PG_TESTS, PG_TRAINS, PG_PREDICTS } pg__pass;

/* A program for one number of rows. */
typedef struct pg__built {
    uint64_t n_rows;
    pg__pass pass;
    int masks_only, in_int8;
    size_t device;
    pg__dims *inputs; /* those it was compiled for; owned */
    pg__program *program;
    uint64_t shared_at; /* version of the parameters that its kernels have prepared; 0: not yet */
    int was_begun;      /* a training step ran it before (buckets.c) */
} pg__built;

/* Contiguous device memory with one piece per parameter; all flats have the same offsets. */
typedef struct pg__flat {
    void *mem;
    void **at;     /* per parameter */
    size_t device; /* that it lies on */
    void **parts;  /* if divided (model_parallel.h): per device; mem is only the first */
} pg__flat;

/* The sum of the gradients of lanes [lo, lo + size); NULL: no rows. */
typedef struct pg__partial {
    size_t lo, size;
    int is_whole; /* no part is missing */
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
    pg__flat params, slots[PG_MAX_SLOTS]; /* copies; device 0 uses those of the trainer */
    pg__flat incoming;                    /* received from another device */
    pg__flat *sum;                        /* of the step's gradients (all_reduce.h) */
} pg__device;

/* The recorded run of a program on a device (graph_capture.h). */
typedef struct pg__graph_capture {
    const pg__program *program;
    const void *arena, *scratch; /* memory that it ran on */
    void *const *grads;
    unsigned char *weighted; /* per output: its rows had weights */
    size_t n_runs, n_pieces;
    pg__graph_run **graphs; /* per piece; NULL: not recorded yet, or not recordable */
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
    pg__memory arena;                /* for a further device that shares the work of a lane */
    pg__flat grads[PG_MAX_PARTIALS]; /* allocated when first needed */
    pg__flat *spare[PG_MAX_PARTIALS];
    size_t n_spare;
    pg__partial partials[PG_MAX_PARTIALS];
    size_t n_partials;
    struct pg__profile *profile; /* of its calls; NULL: not wanted */
    pg_status st;
    pg_err err;
} pg__worker;

/* Numbers under Keras' names (logs.h). */
typedef struct pg__logs {
    pg__strs names;           /* then the "val_" ones, then the learning rate's */
    const char **shown;       /* the same, as pg_logs wants them */
    double *values;           /* 2 n: of the batch or epoch so far, then of validation */
    const char **epoch_names; /* those of the last epoch */
    double *epoch_values;
    size_t n; /* without "val_" */
} pg__logs;
void pg__logs_close(pg__logs *l);

/* Loss scaling, if layers compute with float16: mixed.h. */
typedef struct pg__loss_scale {
    int is_used;
    double now;
    uint64_t growth_steps; /* 0: the scale is fixed */
    uint64_t n_good;       /* steps since it changed */
    uint64_t n_skipped;    /* skipped steps in all */
    int skipped;           /* was the last step skipped? */
} pg__loss_scale;

/* Seconds spent in training steps: report.h. */
typedef struct pg__spent {
    double step, input, reduce, update; /* reduce and update are parts of step */
    double exchange;                    /* of gradients with other processes; part of step */
    double waited;                      /* for other processes, until the first of these steps */
    uint64_t n_rows;
    size_t n_steps;
} pg__spent;

#define PG_MAX_STEPS 4

/* The model that is trained. */
typedef struct pg__trainer_net {
    pg__graph *graph;
    pg__leaves leaves;
    const pg__rules *rules;
    pg__elem *elems;          /* per leaf, what it computes with; NULL: all PG_ELEM_REAL */
    int precision;            /* as pg_train_opts.precision */
    int quantizes;            /* predictions and evaluation are in int8 */
    char *keras_version;      /* of the Keras that wrote the model, or NULL */
    pg__lowered built_params; /* shapes and owners of the parameters; no rows */
    size_t n_inputs, n_outputs;
    const char **output_names; /* point into the graph */
    const char **input_names;
    pg__dims *input_dims; /* as the data have them; rows unknown */
    int couples_rows;     /* rows of a batch depend on each other */
    int steps_first;      /* the first axis of a batch is that of steps, so it stays whole */
    int bn_sync;          /* across all replicas */
    int conv;             /* as pg_train_opts.conv */
} pg__trainer_net;

/* Its variables: parameters, and the optimizer's slots. */
typedef struct pg__trainer_vars {
    size_t n_params;
    pg_weight *weights; /* what pg_trainer_weight() shows, in the order of get_weights() */
    size_t *order;      /* per entry of `weights`: the parameter */
    size_t *n_elems;    /* per parameter */
    unsigned char *trained;
    pg__penalty *penalties; /* per parameter */
    int has_regularizers, has_constraints;
    void *penalty; /* of the current step, a double on device 0; or NULL */
    pg__strs names;
    int drawn;         /* weights came from the initializers */
    char **file_names; /* per parameter: its name in the file it was read from, or NULL */
    uint64_t *offsets; /* per parameter, and the end: elements from the start of a flat */
    /* if devices share the variables (model_parallel.h) */
    size_t *part_of; /* per parameter: its device */
    uint64_t *part_at,
        *part_elems; /* per parameter: its offset there; per device: its number of elements */
    pg__flat params, slots[PG_MAX_SLOTS];
    _Atomic uint64_t version;             /* of the parameters: counts their changes */
    pg__flat *grads;                      /* their sum in the last step, or NULL */
    _Atomic(struct pg__snapshot *) spare; /* an unused one whose memory is kept, or NULL */
} pg__trainer_vars;

/* The devices: devices.h. */
typedef struct pg__trainer_devs {
    const pg__backend *backend;
    pg__dev *dev; /* that of device 0 */
    pg__device *devices;
    size_t n_devices;
    char *device_names;    /* of the replicas: "cpu:0,cpu:1" */
    size_t *device_of;     /* per replica */
    uint64_t mirrored;     /* version of the parameters on the other devices */
    int tunes;             /* GPUs: steps may be recorded (pg_train_opts.gpu_tune) */
    int is_split;          /* the devices share the variables of one replica: model_parallel.h */
    pg__frame_part *parts; /* per device: what a step runs on */
    pg__strs placed_on;    /* devices, by their numbers in `assigned` */
    pg__assigned assigned; /* n_devices 0: no placement */
} pg__trainer_devs;

/* The threads, how a batch is cut for them, and their memory: workers.c. */
typedef struct pg__trainer_pool {
    pg__cut cut;
    size_t n_threads; /* one per worker and device that shares its work */
    pg__thread_pool *threads;
    pg__worker *workers;          /* one per thread */
    pg__memory *arenas;           /* per lane if lanes advance together, else per worker */
    struct pg__landing *landings; /* per lane */
} pg__trainer_pool;

/* What it is trained for: losses, metrics, the optimizer. */
typedef struct pg__trainer_compiled {
    pg__loss_scale scale;
    pg__objective *objectives;
    double *loss_weights;
    pg__optimizer optimizer;
    pg__schedule *schedule;                   /* of the learning rate, or NULL */
    char *metric_text, *weighted_metric_text; /* resolved once the data are known */
    pg__metric *metrics;
    size_t n_metrics, n_metric_state; /* n_metric_state: sums of all of them */
    int from_probabilities;
} pg__trainer_compiled;

/* Compiled programs, and the steps cut for them: cut.h. */
typedef struct pg__trainer_programs {
    pg__built *built;
    size_t n_built, cap_built;
    struct pg__step *steps[PG_MAX_STEPS]; /* most recently used first */
} pg__trainer_programs;

/* The state of training. */
typedef struct pg__trainer_loop {
    char *saved;          /* what the last save wrote, or NULL */
    char *state, *output; /* of the last run: the file of its state, the file to write; or NULL */
    uint64_t seed;        /* for what is random in a step */
    uint64_t n_moves;     /* steps that changed the moving averages */
    pg__logs evaluated;   /* the last result of pg_evaluate() */
    void **states;        /* of stateful layers, for batches of state_rows rows */
    uint64_t state_rows;
    uint64_t part_rows;          /* a batch runs in parts of so many rows; 0: at once */
    int stops_on_nan, nan_found; /* non-finite gradients are not applied */
    pg__watch *watch;            /* of the current step, or NULL */
    int in_int8;                 /* the current pass: net.quantizes, unless it is not to */
    int is_trial;                /* steps are only timed: nothing persistent may change */
} pg__trainer_loop;

/* What it reports: report.h. */
typedef struct pg__trainer_report {
    pg__strs notes; /* for pg_trainer_note() */
    pg__spent spent;
    pg__pass profiled_pass;        /* the kind of steps that workers profile */
    int is_profiling;              /* such steps are being profiled */
    pg_op_profile *profiled;       /* the last result of pg_trainer_profile() */
    struct pg__timeline *timeline; /* when buckets become complete (timeline.h); or NULL */
    pg__trace *trace;              /* of some steps of the run (traced.h); or NULL */
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
    struct pg__ranks *ranks; /* the other processes of the job (ranks.h); NULL: none */
};

/* Decides how a batch is cut over the workers: t->pool.cut. */
pg_status pg__workers_open(pg_trainer *t, const pg_train_opts *o, pg_err *err);
/* Starts the workers of t->pool.cut and allocates their memory. */
pg_status pg__workers_start(pg_trainer *t, pg_err *err);
void pg__workers_stop(pg_trainer *t);
/* Frees the kept steps (cut.h), because their programs, lanes or memory are about to go. */
void pg__steps_drop(pg__trainer_programs *programs);

/* The program for n rows, compiled at its first use; not from several threads. */
pg_status pg__trainer_program(pg_trainer *t, uint64_t n_rows, pg__pass pass,
                              const pg__program **out, pg_err *err);

/* Opens a checkpoint as a trainer reads it: by layers, a wrapper's as its template's. part: as
 * pg_open_opts.part. model_text: the description of the model that it must belong to, or NULL.
 * notes: gets what was done; or NULL. */
pg_status pg__weights_open(pg_store **out, pg__strs *notes, const char *path, const char *part,
                           const char *model_text, pg_err *err);

/* Visits every variable of the model with its tensor, i, in such a file, which must have exactly
 * these variables. Messages name the file. */
typedef pg_status (*pg__weight_visit)(void *ctx, size_t param, pg_store *file, size_t i,
                                      pg_err *err);
pg_status pg__weights_walk(const pg_trainer *t, pg_store *file, const char *path,
                           pg__weight_visit visit, void *ctx, pg_err *err);

/* Reads them all into the parameters. */
pg_status pg__trainer_load(pg_trainer *t, pg_store *file, const char *path, pg_err *err);

/* Fills the parameters by the initializers of the model's config. */
pg_status pg__trainer_initialise(pg_trainer *t, uint64_t seed, pg_err *err);

/* Memory for one number per element of every parameter, all zero. */
pg_status pg__flat_alloc(pg_trainer *t, pg__flat *f, pg_err *err); /* on device 0 */
pg_status pg__flat_alloc_on(pg_trainer *t, pg__flat *f, size_t device, pg_err *err);
pg_status pg__flat_fill(pg_trainer *t, pg__flat *f, double v);
void pg__flat_free(pg__trainer_devs *devs, pg__flat *f);

/* Reads tensor i of a file, a weight or with `state` one of the optimizer's state, into f's piece
 * for a parameter of that shape. */
pg_status pg__param_read(pg_trainer *t, pg__flat *f, size_t param, pg_store *file, size_t i,
                         int state, pg_err *err);

/* All values of parameter i. */
pg_status pg__param_get(pg_trainer *t, size_t i, double *out);
pg_status pg__param_put(pg_trainer *t, size_t i, const double *values);

/* One batch in host memory, elements as the device takes them. */
typedef struct pg__batch {
    uint64_t n_rows;                     /* of all processes */
    uint64_t n_here;                     /* rows present in it, part after part: pg__rows_here() */
    void **inputs, **targets, **weights; /* weights: entries may be NULL */
    void **weight_mem;                   /* memory of the weights, in batches that have some */
} pg__batch;

/* Sums over the rows of batches. */
typedef struct pg__totals {
    double *loss_sums, *loss_counts; /* per output */
    double *batch_losses;            /* per output: weighted losses, summed over batches */
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
 * sum of n_lanes neighbours, a complete subtree; end merges it with others if possible. grads NULL:
 * the part has no rows. */
void pg__partials_reset(pg__worker *w);
pg_status pg__partials_begin(pg_trainer *t, pg__worker *w, pg__flat **out, pg_err *err);
pg_status pg__partials_end(pg_trainer *t, pg__worker *w, size_t lane, size_t n_lanes, int is_last,
                           pg__flat *grads, pg_err *err);

/* Sums the partials of all workers over elements [from, to) of the flats in the order of the tree;
 * *out is where the sum lies. Each worker calls it for a range of its own. */
pg_status pg__partials_sum(pg_trainer *t, uint64_t from, uint64_t to, pg__flat **out);
int pg__partials_any(const pg__trainer_pool *pool); /* does any lane have rows? */
/* Of the lanes that ran on one device; *out NULL: no rows. */
pg_status pg__partials_sum_on(pg_trainer *t, size_t device, pg__flat **out);

/* Applies one replica's statistics to the model's moving averages; called for the replicas in
 * order, `replica` of n_replicas. found: per entry of the model's list, on device `from`; from
 * NULL: in host memory. */
pg_status pg__move_averages(pg_trainer *t, pg__dev *from, const void *const *found, size_t replica,
                            size_t n_replicas);

/* The same if gradients are summed over devices in buckets: bring writes a replica's statistics
 * into the flat gradient `into` before bucket b is summed; take applies the sums to device d's
 * averages afterwards. */
pg_status pg__averages_bring(pg_trainer *t, const pg__program *p, const pg__frame *f,
                             const pg__bucket *b, size_t replica, const pg__flat *into);
pg_status pg__averages_take(pg_trainer *t, size_t d);

/* Runs the forward pass, and in training the backward pass and an update; adds to *totals.
 * predictions: per output, memory for those of the whole batch in the device's element type; NULL:
 * not wanted. */
pg_status pg__trainer_step(pg_trainer *t, const pg__batch *b, pg__pass pass,
                           void *const *predictions, pg__totals *totals, pg_err *err);

/* Call it when the totals hold one whole batch. */
void pg__totals_end_batch(const pg_trainer *t, pg__totals *totals);

/* The loss from the totals: the outputs' means, weighted and summed; and the loss of output k, as
 * the trainer's Keras logs it. */
double pg__total_loss(const pg_trainer *t, const pg__totals *totals);
double pg__output_loss(const pg__trainer_net *net, const pg__totals *totals, size_t k);

#endif
