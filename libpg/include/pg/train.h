/* train.h - training a model that Keras describes.
 *
 * A trainer is a model, its weights and optimizer, on one or more devices. What it computes is what
 * Keras computes: losses, metrics, optimizers and layers follow the version that wrote the model,
 * or the version asked for (`rules`).
 *
 *   names    everything that has a name in Keras is given by that name, as text
 *   errors   on failure the out arguments are untouched and *err (if not NULL) is filled
 *   threads  a trainer and its data may be used by one thread at a time
 *
 *     pg_err err;
 *     pg_data *data = NULL;
 *     pg_trainer *t = NULL;
 *     pg_train_opts opts = {.model = "mlp.json", .weights = "before.h5", .optimizer = "adam",
 *                           .loss = "categorical_crossentropy", .metrics = "accuracy"};
 *     if (pg_data_open(&data, "digits.npz", &err) != PG_OK ||
 *         pg_trainer_open(&t, &opts, &err) != PG_OK ||
 *         pg_fit(t, data, &(pg_fit_opts){.epochs = 2}, NULL, &err) != PG_OK)
 *         fprintf(stderr, "%s\n", err.msg);
 *     pg_trainer_close(t);
 *     pg_data_close(data);
 */
#ifndef PG_TRAIN_H
#define PG_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#include "pg/data.h"
#include "pg/err.h"
#include "pg/inspect.h"
#include "pg/job.h"
#include "pg/resume.h"
#include "pg/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- models ---- */

/* The i-th layer class of Keras 1 to 3 that libpg knows, sorted by name, NULL behind the last;
 * *trained: 1 if a trainer computes it, 0 if files with it can only be handled. */
PG_API const char *pg_layer_class(size_t i, int *trained);

/* What is known of a layer class, from the operations that it becomes. */
typedef struct pg_layer_support {
    int cpu, cuda, ref; /* 1: this kind of device has all of them */
    const char *why;    /* it is not trained, in a few words; NULL if it is */
} pg_layer_support;

/* Of the i-th class; a back end need not be there. PG_E_ARG: there is no such class. */
PG_API PG_MUST_USE pg_status pg_layer_support_of(pg_layer_support *out, size_t i, pg_err *err);

/* ---- trainers ---- */

typedef struct pg_trainer pg_trainer;

typedef struct pg_train_opts {
    const char *model;   /* model JSON, full .h5 or .keras */
    const char *model_text; /* the JSON itself; `model` then only names it ("-": standard input) */
    const char *weights; /* file with initial weights; NULL: those in `model`, if it has any */
    const char *freeze;  /* "conv*,!conv5*": layers whose variables stay as they are: the last
                            pattern that matches a layer, or a model that it stands in, counts; '!'
                            says that it trains. Files that are saved say so too. NULL: as `model`
                            says */
    const char
        *replace_head;     /* "10", "1:sigmoid", or "OUT=10,OUT=3": the Dense layer or convolution
                              that makes an output gets so many classes, initial weights and,
                              where named, this activation; all others keep theirs. NULL: none */
    const char *init_from; /* a file: layers that it has under the same names and in the same
                              shapes start with its weights, whatever models they stand in. What
                              was taken, what not, and what the file lacks become notes; nothing
                              at all is PG_E_MISMATCH. NULL: none */
    uint64_t seed;         /* of initial weights that no file gives */
    const char *optimizer; /* "adam", "SGD:learning_rate=0.05,momentum=0.9,nesterov"; NULL: that of
                              a full model, with its state, else RMSprop */
    const char *optimizer_json; /* instead: {"class_name", "config"} as Keras writes it */
    const char *schedule; /* learning rate, counted in steps: "exponential_decay:decay_steps=100,
                             decay_rate=0.9": Keras' schedules in snake case, or as it writes them
                             into files; lists as "0.1/0.01". The optimizer's own rate is the
                             initial one where none is given. NULL: as the optimizer says */
    int optimizer_rules;  /* 0: as the version says; 1: to 2.10 ("legacy"); 2: from 2.11 ("new") */
    const char *loss;     /* "mse", or "OUT=NAME,OUT=NAME", with parameters as
                             "huber:delta=0.5:reduction=sum"; NULL: that of a full model, with its
                             metrics; without one, for predictions only */
    const char *loss_weights;     /* "1,0.3", or "OUT=1,OUT=0.3"; NULL: 1 each */
    const char *metrics;          /* "accuracy,auc:curve=PR:num_thresholds=50", or
                                     "OUT=accuracy,OUT=mae"; NULL: none. Lists as 0.1/0.5. Where Keras
                                     logs an array each number has a name: "f1_score[0]" */
    const char *weighted_metrics; /* the same, rows count by their sample and class weights */
    const char *rules;            /* a version of Keras; NULL: the one that wrote the model */
    const char *devices;          /* "cpu:0,cpu:1", "cuda:0": replicas, a name may repeat; "cuda:*":
                                     every GPU; "auto": the same, or cpu:0 where there is none;
                                     where several processes of the job share a machine, both are
                                     the one GPU of this process' place there; NULL: cpu:0 */
    int cpu_merge; /* several GPUs: gradients are summed by copies, on the first of them, and not by
                      NCCL; on CPUs it changes nothing */
    int precision; /* what layers compute with on GPUs. 0: as their dtype policies say
                      ("mixed_bfloat16"), without one float32; 1: TF32: float32, but products of
                      what the first 10 bits after the point are; 2: bfloat16, 3: float16, where a
                      policy beside others does not say float32; 4: float32. Variables, sums,
                      statistics and losses are float32 in any case, and with float16 the loss is
                      scaled as by Keras' LossScaleOptimizer. CPUs compute with float32: 2 and 3 are
                      PG_E_UNSUPPORTED there */
    const char *place; /* device parallelism: "LAYER=DEVICE,LAYER#CALL=DEVICE": where calls run (the
                          last that matches counts, patterns are allowed, calls count from 0); all
                          others on the first of `devices`, of which there is one then. Weights are
                          kept once: a GPU has those of its layers, and what it computes; "cuda:0.1"
                          is a second device of GPU 0. NULL: nowhere */
    size_t threads;    /* cores to use, dealt over the devices; 0: all */
    int deterministic; /* equal bits on every run and for every number of devices and threads (of
                          devices not where batch_norm is 1: then their slices are the result) */
    size_t lanes;      /* deterministic: parts a batch is cut into, a power of two; 0: 8 */
    int batch_norm;    /* statistics of 1: each replica's slice, as behind multi_gpu_model; 2: the
                          whole batch; 0: the whole batch where `deterministic`, else each replica's */
    int conv; /* convolutions: 0: as fast as can be, 1: direct, 2: by Winograd's arithmetic where
                 possible; errors are some times larger */
    const char *compile_from; /* a full model: what is open of optimizer, loss and its weights, and
                                 metrics is as its training configuration says, not as `model`'s;
                                 the optimizer starts anew. NULL: none */
    int loss_from_probabilities; /* never on logits, as behind multi_gpu_model's Concatenate */
    int for_prediction;  /* weights only: what `model` says of its training is not looked at */
    int joins_job;       /* train with the other processes that mpirun, srun or, for GPUs, torchrun
                            started with this one:
                            the devices of all, in the order of their ranks, are the replicas. Every
                            process makes the same calls; pg_fit() and pg_predict() give each its
                            part of the rows, and rank 0 alone writes files. Alone: no difference */
    int shard_optimizer; /* divide the optimizer's state over the processes of the job (ZeRO stage
                            1): the same numbers, and each keeps 1 / processes of it. On CPUs;
                            alone: no difference. pg_trainer_save() then has to be called by all,
                            and pg_trainer_read_grad() knows gradients only where they are clipped
                            by norm */
    double comm_timeout; /* seconds that a process waits for the others, then PG_E_PEER; 0: 300 */
    const volatile int *cancel; /* set by a signal handler while others are waited for, or NULL */
} pg_train_opts;

/* Reads model and weights and checks that everything can be trained. PG_E_UNSUPPORTED names all
 * layers that cannot, PG_E_MISMATCH weights that do not fit, PG_E_ARG an unknown name with the
 * known ones in err->detail. Where several processes train together, what one of them cannot do
 * none does; then the message is rank 0's, and empty elsewhere. PG_E_PEER: one did not come, or is
 * gone; this and what happens to one process alone is told by each with its own words, but for one
 * that is told to leave (opts->cancel) since another is gone: its message is empty. */
PG_API PG_MUST_USE pg_status pg_trainer_open(pg_trainer **out, const pg_train_opts *opts,
                                             pg_err *err);
PG_API void pg_trainer_close(pg_trainer *t); /* NULL is allowed */

/* The model of opts as model.summary() of Keras 2.15 prints it, whatever Keras wrote it: layers,
 * shapes, parameters, what they are connected to; with opts' freeze and replace_head, as it would
 * be trained. *out is UTF-8, lines end with '\n'; release it with pg_text_free(). Errors as
 * pg_trainer_open()'s for models. */
PG_API PG_MUST_USE pg_status pg_model_summary(char **out, const pg_train_opts *opts, pg_err *err);

/* What should be known of the files that were read, one line each: a wrapper whose template is
 * trained, optimizer state that was taken or not. NULL: there is no such note. */
PG_API size_t pg_trainer_n_notes(const pg_trainer *t);
PG_API const char *pg_trainer_note(const pg_trainer *t, size_t i);

/* ---- weights ---- */

/* 1: no file gave the weights, and nothing was trained yet: they are drawn by the initializers. */
PG_API int pg_trainer_is_untrained(const pg_trainer *t);

/* Variables in the order of Keras' get_weights(); names are "layer/variable". */
PG_API size_t pg_trainer_n_weights(const pg_trainer *t);
PG_API const pg_weight *pg_trainer_weight(const pg_trainer *t, size_t i);

/* Copies variable i, or (pg_trainer_read_grad) its gradient in the step just made, into n_elems
 * doubles. PG_E_ARG: no such variable, another size, or no gradient, as behind a step that was
 * skipped because its gradients were beyond float16. */
PG_API PG_MUST_USE pg_status pg_trainer_read(pg_trainer *t, size_t i, double *out, size_t n_elems,
                                             pg_err *err);
PG_API PG_MUST_USE pg_status pg_trainer_read_grad(pg_trainer *t, size_t i, double *out,
                                                  size_t n_elems, pg_err *err);

typedef struct pg_save_opts {
    int force;      /* replace an existing file */
    int full_model; /* .h5: description, training configuration and optimizer state too */
    int beside;     /* where a file of that name has appeared, the next free one of NAME-1.h5,
                       NAME-2.h5, ... is written: pg_trainer_saved() tells which */
} pg_save_opts;

/* Could pg_trainer_save() write there? To be asked before hours of training; t NULL: before the
 * model was read, which may refuse the format later. PG_E_ARG: it exists, or its suffix says no
 * format; PG_E_UNSUPPORTED: the format cannot hold this model. */
PG_API PG_MUST_USE pg_status pg_trainer_check_output(pg_trainer *t, const char *path,
                                                     const pg_save_opts *opts, pg_err *err);

/* Writes a file that the model loads on one device, in the format that the suffix says:
 *
 *   .h5, .hdf5    the weights, legacy layout; with full_model as model.save() writes it
 *   .weights.h5   the weights, as save_weights() of the model's Keras writes them under that name
 *   .keras        the full model
 *   .safetensors  the weights
 *
 * A full model goes on where training stopped: load_model(), then fit(). It appears whole or not at
 * all, and was read back. What could not be said in that format becomes a note. What no HDF5 file
 * can hold becomes a folder of shards, `path`.shards, as pg_split_file() writes it. opts may be
 * NULL. */
PG_API PG_MUST_USE pg_status pg_trainer_save(pg_trainer *t, const char *path,
                                             const pg_save_opts *opts, pg_err *err);

/* File or folder of the last save, or NULL. */
PG_API const char *pg_trainer_saved(const pg_trainer *t);

/* ---- training ---- */

/* Named numbers, as a callback in Keras is given: "loss", "accuracy", "val_loss", ... */
typedef struct pg_logs {
    const char *const *names;
    const double *values;
    size_t n;
} pg_logs;

typedef struct pg_shape {
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK]; /* PG_DIM_UNKNOWN: not fixed */
} pg_shape;
#define PG_DIM_UNKNOWN UINT64_MAX

/* What is about to run. */
typedef struct pg_run {
    size_t n_devices, n_cores; /* replicas, of all processes; threads of this one */
    const char *devices;       /* names of this process': "cpu:0,cpu:1" */
    size_t rank, n_ranks;      /* this process among those that train together: 0 of 1 */
    const char *mpi;           /* by which they do: "Open MPI v4.1.4"; NULL: alone */
    const char *kind;          /* of the first GPU: "NVIDIA H100 80GB HBM3, sm_90"; NULL: CPUs */
    size_t batch_size;         /* of all devices */
    size_t n_batches, n_epochs;
    uint64_t n_train, n_val; /* rows */
    pg_shape input, output;  /* of one row: the first of the model's */
    size_t n_inputs, n_outputs, n_layers;
    uint64_t n_params, n_param_bytes;
    const char *optimizer; /* Keras' class name */
    double learning_rate;
} pg_run;

/* A GPU that a trainer works on, as its driver counts (NVML, opened when this is asked). */
typedef struct pg_gpu {
    const char *kind;    /* "NVIDIA H100 80GB HBM3, sm_90" */
    size_t ordinal;      /* 1 of cuda:1 */
    uint64_t used_bytes; /* of its memory, by all programs */
    uint64_t total_bytes;
    int busy; /* percent of about the last second in which it worked; -1: not known */
} pg_gpu;

/* The k-th of them, each once, for any thread but those that call at the same time. 0: there are
 * not so many, or libnvidia-ml.so.1 is not there or does not know it. */
PG_API int pg_trainer_gpu(pg_trainer *t, size_t k, pg_gpu *out);

/* Where the time of one process of a job went: shares of its steps and the reading before them. The
 * one that waits least is the one that the others wait for. */
typedef struct pg_rank_share {
    char host[64];
    double compute, exchange, waiting; /* exchange: sums of gradients that were not over when the
                                          backward pass was; waiting: for all else of others */
    double input;
} pg_rank_share;

/* How it went. */
typedef struct pg_fit_report {
    size_t n_epochs; /* that were finished */
    double seconds;
    double rows_per_second; /* training rows by the time their steps took, the first step and
                               validation left out; 0: there was one step only */
    double reduce, input;   /* shares of that time: summing gradients, waiting for data */
    double alone; /* rows per second of the first device alone, 0: not measured. By up to 10 steps
                     or a second of them, which change nothing, and the update that the devices
                     made together, times their number */
    const pg_rank_share *ranks; /* of a job of several processes, until the trainer's next call */
    size_t n_ranks;
} pg_fit_report;

/* Something that happened beside the steps. */
typedef enum pg_event_kind {
    PG_EVENT_NOTE,       /* good to know */
    PG_EVENT_WARNING,    /* something asked for was not done, or not yet */
    PG_EVENT_CHECKPOINT, /* `file` is complete on disk */
    PG_EVENT_RATE,       /* the learning rate was changed */
    PG_EVENT_STOP,       /* training ends before its last epoch */
    PG_EVENT_RESUME,     /* training goes on where `file` left it */
    PG_EVENT_SKIPPED     /* a step whose gradients were beyond float16 changed no weight */
} pg_event_kind;

typedef struct pg_event {
    pg_event_kind kind;
    size_t epoch;     /* in hand, from 0 */
    const char *file; /* or NULL */
    const char *text; /* one line for people, no final newline */
} pg_event;

/* Called by pg_fit(); members may be NULL. A status other than PG_OK stops the training and is
 * returned by it. */
typedef struct pg_callback {
    void *user;
    pg_status (*train_begin)(void *user, const pg_run *run, pg_err *err);
    pg_status (*epoch_begin)(void *user, size_t epoch, pg_err *err);
    /* own: of this batch alone; running: means since the epoch began */
    pg_status (*batch_end)(void *user, size_t batch, const pg_logs *own, const pg_logs *running,
                           pg_err *err);
    pg_status (*epoch_end)(void *user, size_t epoch, const pg_logs *logs, pg_err *err);
    pg_status (*event)(void *user, const pg_event *e, pg_err *err);
    /* Where no error stopped it, also where pg_fit() then says that a file is missing. */
    void (*train_end)(void *user, const pg_fit_report *report);
} pg_callback;

typedef struct pg_fit_opts {
    size_t batch_size;       /* of all devices together; 0: 32 */
    size_t epochs;           /* 0: 1 */
    size_t initial_epoch;    /* numbers begin here; epochs is where they end */
    size_t steps_per_epoch;  /* 0: one pass over the data; else the next epoch goes on behind */
    size_t validation_steps; /* batches from the first row on; 0: all */
    size_t validation_freq;  /* validate after every so many epochs; 0: every one */
    int no_shuffle;
    int shuffle_batches; /* permute batches, and rows inside of them: for slow compressed data */
    const char *class_weight; /* "0=1,1=5": rows of a class count so much in training */
    size_t accumulate; /* one update for so many batches, as one batch of all their rows; 0: 1 */
    uint64_t seed;
    pg_data *validation;     /* NULL: none; may be the training data where it holds xval0, ... */
    double validation_split; /* instead: share of the last training rows, never shuffled; 0: none */
    int reset_states; /* stateful layers; 0: never, as Keras; 1: zero at the start of each epoch and
                         around validation. Their rows are never shuffled */
    const volatile int *cancel; /* looked at after every batch: not 0 saves the state and is
                                   PG_E_CANCELLED; or NULL */
    int terminate_on_nan;       /* PG_E_NO at the first loss that is no number, with its batch */
    int measure_alone;          /* several devices: at last, pg_fit_report.alone */
    /* Keras' callbacks, run in this order, with Keras' parameters: "EarlyStopping:patience=3,
     * restore_best_weights", or {"class_name": "EarlyStopping", "config": {"patience": 3}}. An
     * unknown name or parameter, a monitor that no epoch has, a file that could not be written: an
     * error before training. Keras' LearningRateScheduler is given a function, this one names: it
     * counts epochs from the optimizer's own rate on by "schedule=epoch,rate=0.9" (lr rate^epoch),
     * "schedule=step,rate=0.1,epochs=30", "schedule=cosine,epochs=90,min_lr=1e-5",
     * "schedule=constant", all with warmup_epochs=N, or "schedule=table,file=rates.txt" with one
     * rate a line. SwapEMAWeights needs use_ema of the optimizer (PG_E_ARG), and with swap_on_epoch
     * stands before the callbacks that are to see the averages. Every epoch's logs end with the learning rate (`lr`, Keras 3: `learning_rate`),
     * where Keras has it behind some callbacks only. "Report:filename=run.html" is none of Keras':
     * a page with the curves for a browser. pg_callback_class() lists them all. */
    const char *const *callbacks;
    size_t n_callbacks;
    /* Going on after an interruption. The state of the run is kept in resume_file (the one before
     * as FILE.1, what another run left unfinished as FILE.before) when it is cancelled, at every
     * checkpoint, every resume_every seconds, and when it ends after one of these; NULL: never.
     * resume: 0 start afresh; 1 go on from that file, PG_E_IO where there is none; 2 go on if there
     * is one. The end is bitwise that of a run that was never interrupted where the trainer is
     * deterministic. Devices, their number, the last epoch and names of outputs may be others then;
     * what else the numbers depend on is PG_E_MISMATCH, by name. A damaged file: the one before is
     * taken, with a warning. Another run that keeps the same resume_file (flock() of FILE.lock):
     * PG_E_IO, unless this one would write it at an interruption alone. */
    const char *resume_file;
    int resume;
    double resume_every;
    const char *settings; /* kept with it for pg_resume_settings(); NULL: none */
    const char *output;   /* that pg_trainer_save() will write: the state keeps which file there is
                             the run's, for pg_resume_owns(); or NULL */
    int replaces_output;  /* the one that is there now may be replaced */
    int profile; /* count where the time goes, for pg_trainer_profile(); a GPU is slower then */
} pg_fit_opts;

/* Keras' name of the i-th class that pg_fit_opts.callbacks knows, sorted; NULL behind the last. */
PG_API const char *pg_callback_class(size_t i);

/* Of one GPU that has layers of the model (pg_train_opts.place). */
typedef struct pg_device_forecast {
    const char *device;          /* "cuda:1"; the trainer's */
    uint64_t total, activations; /* of total, in batches of that size */
    uint64_t room;               /* for total */
} pg_device_forecast;

/* Bytes that a run will hold at most, all devices together, and the largest batch for which they
 * are there. */
typedef struct pg_forecast {
    size_t n_devices, batch_size;
    uint64_t process; /* program, libraries, description, what was read of the data */
    uint64_t weights, optimizer;
    uint64_t gradients;           /* and what comes of them from other processes */
    uint64_t optimizer_elsewhere; /* of a divided state: what other processes keep */
    uint64_t activations;         /* in batches of that size */
    uint64_t workspace, data;
    uint64_t total;
    uint64_t available;                   /* free for what is not there yet */
    size_t largest_batch;                 /* that fits; 0: none */
    uint64_t checkpoint, checkpoint_full; /* bytes of weights; with optimizer state */
    size_t n_parts;                       /* GPUs that have layers of one model; 0: one has all */
    pg_device_forecast parts[16];
} pg_forecast;

/* What pg_fit() would need for these data and options, without training: everything else that it
 * checks is checked, too. Where there is not enough memory, pg_fit() says so before it trains. */
PG_API PG_MUST_USE pg_status pg_fit_forecast(pg_forecast *out, pg_trainer *t, pg_data *data,
                                             const pg_fit_opts *opts, pg_err *err);

/* ---- more devices than there are ---- */

/* What a plan is made for. Numbers that stay 0 are as it says there. */
typedef struct pg_plan_opts {
    size_t hosts;      /* machines; 0: 1 */
    size_t per_host;   /* devices on each; 0: 1 */
    int gpus;          /* they are GPUs; else CPU devices, a process of an MPI job each */
    size_t cores;      /* CPU devices: of each host, dealt to its devices, or shared where there are
                          more of these; 0: those that the trainer uses here */
    size_t batch_size; /* rows of a step of all devices together; with `weak` of each; 0: that of
                          pg_fit_opts */
    int weak;          /* each device has as many rows as one alone; else the batch stays the same,
                          and is cut over them, as multi_gpu_model cuts it */
    double latency, bandwidth; /* between hosts, in seconds and bytes per second in each direction,
                                  for all devices of a host together. 0: latency 10 us; the
                                  bandwidth must be given where hosts are several */
    double inner_latency, inner_bandwidth; /* between the devices of a host; 0: CPUs 5 us and 3 GB/s
                                              (MPI through shared memory), GPUs 10 us and 20 GB/s
                                              (NCCL over PCI Express 4.0) */
    double speedup; /* a device is so many times as fast as what is measured here; 0: as fast */
    double flops;   /* instead: multiplications and additions per second that a device reaches in
                       such a model */
    int measure;    /* pg_plan_measure() fails where it cannot measure between hosts */
    int link_measured, inner_measured; /* it has, between hosts, within one, what was not given */
} pg_plan_opts;

/* "hosts=16,gpus=8,link=100Gbit": `out` from a list of
 *
 *   hosts=N  gpus=N | cpus=N (or ranks=N)  cores=N    as above; gpus, cpus: of each host
 *   batch=N  scale=strong|weak
 *   link=RATE|measure  latency=TIME  inner=RATE  inner-latency=TIME
 *   speedup=X  flops=RATE
 *
 * RATE: bits per second as 100Gbit, bytes as 12.5GB; flops as 60T. TIME: 5us, 50ns, 1ms. PG_E_ARG
 * names what it does not know. */
PG_API PG_MUST_USE pg_status pg_plan_read(pg_plan_opts *out, const char *text, pg_err *err);

/* In a job of several processes: what is 0 of the latencies and bandwidths, as it is found between
 * them by MPI: between the first two hosts that have some, and for CPU devices within the first
 * host that has two. Where neither hosts nor per_host are given they become those of the job. All
 * processes call this, before a trainer: the job is over then, the process that is pg_job_rank() 0
 * goes on alone (pg_train_opts.joins_job 0), others have nothing left to do. with: comm_timeout and
 * cancel of it. Alone nothing changes. PG_E_ARG: `measure`, and there is one host; errors of
 * joining. */
PG_API PG_MUST_USE pg_status pg_plan_measure(pg_plan_opts *o, const pg_train_opts *with,
                                             pg_err *err);

/* A number of devices. Seconds of a step, which is compute + shown + update + rest. */
typedef struct pg_plan_row {
    size_t n_devices, n_hosts;
    uint64_t rows; /* of the device that has most */
    double step, compute;
    double exchange, shown; /* sums of gradients over the devices; what of them is not hidden behind
                               the backward pass */
    double update, rest;
    double samples_per_second;
    double efficiency;       /* samples per second of a device, by that of one alone */
    uint64_t memory;         /* bytes of a device, and for CPUs of its process */
    double step_sharded;     /* with pg_train_opts.shard_optimizer; 0: GPUs, which cannot */
    uint64_t memory_sharded; /* the same */
    int measured;            /* computing was timed here with as many rows; else between two that
                                were */
} pg_plan_row;

typedef struct pg_plan {
    pg_plan_row rows[32]; /* 1, 2, 4, ... devices, and at last all of them */
    size_t n_rows;
    size_t pays_up_to; /* twice as many devices as these give less than 1.2 times the samples per
                          second; 0: all are worth it */
    size_t batch_size, threads; /* threads: of a device */
    uint64_t buckets[64];       /* bytes of gradients that are summed together, in their order */
    size_t n_buckets;
    pg_plan_opts used;   /* with what stood for 0 */
    const char *checked; /* where to read how accurate predictions were */
    char notes[4][200];  /* what else should be known of the numbers */
    size_t n_notes;
} pg_plan;

/* What steps of these data would take on such devices: a device's part of a step is timed here, at
 * several numbers of rows, by some steps that change nothing; sums over devices are arithmetic, as
 * is when they begin. Reading data is not counted. PG_E_ARG: a number that cannot be measured here,
 * as of GPUs where there are none, was not given; PG_E_UNSUPPORTED: `place`, several GPUs in this
 * trainer, or one that has joined a job. */
PG_API PG_MUST_USE pg_status pg_fit_plan(pg_plan *out, pg_trainer *t, pg_data *data,
                                         const pg_fit_opts *opts, const pg_plan_opts *devices,
                                         pg_err *err);

/* Data are checked before the first step: shapes, numbers of rows, kinds of targets, classes and
 * ids (large arrays batch by batch), NaN in the first batch. The next batches are read by a thread
 * of their own; while this runs, data belongs to it (evaluating with it in a callback is PG_E_ARG).
 * Errors of the data, of a callback; PG_E_MISMATCH where data do not fit the model; PG_E_IO, once
 * all is trained, where a callback's file could not be written. */
PG_API PG_MUST_USE pg_status pg_fit(pg_trainer *t, pg_data *data, const pg_fit_opts *opts,
                                    const pg_callback *cb, pg_err *err);

/* Where the time of the last run with pg_fit_opts.profile went, of its training steps, or of the
 * last pass with pg_predict_opts.profile; the first step, or the first of several batches, left
 * out. */
typedef struct pg_op_profile {
    const char *layer; /* as the model names it, a loss with the last one; NULL: none */
    const char *op;    /* "conv", and of its gradients "conv_dx", "conv_dw"; beside operations:
                          "optimizer", "all-reduce", "input" */
    uint64_t calls;
    double seconds; /* of all threads together; of processor time, on GPUs until it was done */
    double flops;   /* multiplications and additions by definition, however they were saved */
    double bytes;   /* of operands and results */
} pg_op_profile;

/* Layers and operations, what took longest first. *rows is valid until this is called again, or
 * the trainer closed. PG_E_ARG: nothing was profiled. GPUs that share one model (`place`) are not
 * counted. */
PG_API PG_MUST_USE pg_status pg_trainer_profile(pg_trainer *t, const pg_op_profile **rows,
                                                size_t *n_rows, pg_err *err);

/* ---- using what was trained ---- */

typedef struct pg_predict_opts {
    size_t batch_size; /* of all devices together; 0: 32. Predictions of all rows, which do not
                          see each other, are made in batches that suit cores and their caches,
                          of so many rows at most, but at least one for each core */
    size_t steps;      /* batches, from the first row on; 0: all rows */
    int force;         /* pg_predict_file(): replace an existing file */
    int profile;       /* count where the time goes, for pg_trainer_profile(); the only batch, or a
                          last one of fewer rows, runs twice, the first time uncounted. Results
                          stay the same; equal in all processes of a job */
    const volatile int
        *cancel; /* PG_E_CANCELLED before the next batch once *cancel != 0; or NULL */
} pg_predict_opts;

/* Loss and metrics over all rows in inference mode, as Keras' evaluate(). *out is valid until this
 * is called again, or the trainer closed. opts may be NULL. Errors as pg_fit()'s. */
PG_API PG_MUST_USE pg_status pg_evaluate(pg_trainer *t, pg_data *data, const pg_predict_opts *opts,
                                         pg_logs *out, pg_err *err);

/* Who is given predictions; a status other than PG_OK ends it and is returned. */
typedef struct pg_predictions {
    void *user;
    /* Once: the whole arrays to come, in the order of the model's outputs; may be NULL. */
    pg_status (*begin)(void *user, const pg_weight *outputs, size_t n_outputs, pg_err *err);
    /* n_rows rows of an output from row `first` on, elements of its dtype, row-major. */
    pg_status (*rows)(void *user, size_t output, uint64_t first, size_t n_rows, const void *values,
                      pg_err *err);
} pg_predictions;

/* The outputs of every row of the inputs, in order. Targets are not needed. opts may be NULL. */
PG_API PG_MUST_USE pg_status pg_predict(pg_trainer *t, pg_data *data, const pg_predict_opts *opts,
                                        const pg_predictions *to, pg_err *err);

/* The same into a file that appears whole or not at all: .npy for one output, .npz with y0, y1, ...
 * for any number. PG_E_ARG: another suffix, or .npy for several outputs; it exists. */
PG_API PG_MUST_USE pg_status pg_predict_file(pg_trainer *t, pg_data *data, const char *path,
                                             const pg_predict_opts *opts, pg_err *err);

/* Could pg_predict_file() write there? To be asked before hours of training; nothing is created.
 * opts may be NULL. Errors: those of the file alone, as pg_predict_file()'s. */
PG_API PG_MUST_USE pg_status pg_predict_check_file(const pg_trainer *t, const char *path,
                                                   const pg_predict_opts *opts, pg_err *err);

#ifdef __cplusplus
}
#endif

#endif
