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

/* The i-th layer class of Keras 1 to 3 that libpg knows, sorted by name; NULL after the last.
 * *trained: 1 if a trainer can compute it, 0 if libpg only handles files that contain it. */
PG_API const char *pg_layer_class(size_t i, int *trained);

/* What is known about a layer class, from the operations that it becomes. */
typedef struct pg_layer_support {
    int cpu, cuda, ref; /* 1: this kind of device supports all of them */
    const char *why;    /* why it cannot be trained, in a few words; NULL if it can */
} pg_layer_support;

/* The same for the i-th class; the device itself need not be present. PG_E_ARG: there is no such
 * class. */
PG_API PG_MUST_USE pg_status pg_layer_support_of(pg_layer_support *out, size_t i, pg_err *err);

/* ---- trainers ---- */

typedef struct pg_trainer pg_trainer;

typedef struct pg_train_opts {
    const char *model;      /* model JSON, full .h5 or .keras */
    const char *model_text; /* the JSON itself; `model` then only names it ("-": standard input) */
    const char *weights;    /* file with initial weights; NULL: those in `model`, if it has any */
    const char *freeze; /* "conv*,!conv5*": layers whose variables do not change. The last pattern
                           that matches a layer, or a model around it, counts; '!' means that it
                           trains. Saved files record this, too. NULL: as `model` says */
    const char
        *replace_head;     /* "10", "1:sigmoid", or "OUT=10,OUT=3": the Dense layer or convolution
                              that makes an output gets this number of classes, initial weights and,
                              if named, this activation; all others keep theirs. NULL: none */
    const char *init_from; /* a file: layers with the same name and shapes as in it start with its
                              weights, whatever models they are in. Notes say which were taken,
                              which not, and what the file lacks; if none match it is PG_E_MISMATCH.
                              NULL: none */
    const char *part;      /* of weights or init_from, as pg_open_opts.part; NULL: the only one */
    uint64_t seed;         /* of initial weights that no file provides */
    const char *optimizer; /* "adam", "SGD:learning_rate=0.05,momentum=0.9,nesterov"; NULL: that of
                              a full model, with its state, else RMSprop */
    const char *optimizer_json; /* instead: {"class_name", "config"} as Keras writes it */
    const char *schedule; /* learning rate, counted in steps: "exponential_decay:decay_steps=100,
                             decay_rate=0.9": Keras' schedules in snake case, or as it writes them
                             into files; lists as "0.1/0.01". If none is given, the optimizer's own
                             rate is the initial one. NULL: as the optimizer says */
    int optimizer_rules;  /* 0: as the version says; 1: to 2.10 ("legacy"); 2: from 2.11 ("new") */
    const char *loss;     /* "mse", or "OUT=NAME,OUT=NAME", with parameters as
                             "huber:delta=0.5:reduction=sum"; NULL: that of a full model, with its
                             metrics; without one, for predictions only */
    const char *loss_weights;     /* "1,0.3", or "OUT=1,OUT=0.3"; NULL: 1 each */
    const char *metrics;          /* "accuracy,auc:curve=PR:num_thresholds=50", or
                                     "OUT=accuracy,OUT=mae"; NULL: none. Lists as 0.1/0.5. If Keras
                                     logs an array, each number has a name: "f1_score[0]" */
    const char *weighted_metrics; /* the same, but rows count by their sample and class weights */
    const char *rules;            /* a version of Keras; NULL: the version that wrote the model */
    const char *devices;          /* "cpu:0,cpu:1", "cuda:0": replicas, a name may repeat; "cuda:*":
                                     every GPU; "auto": the same, or cpu:0 if there is no GPU. If
                                     several processes of the job share a machine, "cuda:*" and
                                     "auto" mean only the GPU that belongs to this process; NULL:
                                     cpu:0 */
    int gpu_tune; /* GPUs, 1: what only saves time and no test has run on a real one yet. Libraries'
                     algorithms are timed, and the fastest kept; a library's recurrent layers and
                     attention are taken where they are faster and agree; steps are recorded and
                     replayed; NCCL sums during the backward pass */
    int cpu_merge; /* several GPUs: sum gradients by copies to the first of them, not with NCCL; no
                      effect on CPUs */
    int precision; /* number type of layers. 0: as their dtype policies say ("mixed_bfloat16"),
                      float32 without one; 1: TF32: float32, but products use only the first 10 bits
                      after the point; 2: bfloat16, 3: float16, but where a layer's policy, beside
                      others, is float32; 4: float32. Variables, sums, statistics and losses are
                      always float32; float16 scales the loss as Keras' LossScaleOptimizer. CPUs
                      refuse 3, and 2 but for AMD's since Zen 4 (PG_E_UNSUPPORTED), and note what of
                      0 they leave. 5: rounds as 2 on any CPU */
    const char *quantize; /* "int8": pg_predict() and pg_evaluate() multiply operands with kernels
                             in 8 bits, where processors with VNNI gain by that: in dense layers,
                             convolutions and the projections of recurrent layers' inputs and of
                             attention. Kernels become int8 with a scale for each filter, operands
                             8 bits as ONNX' DynamicQuantizeLinear makes them, with a scale for each
                             row of the batch, which is NaN if one of its numbers is not finite. All
                             else is float32, whatever `precision` says; training stays as it is.
                             A note says if this processor has no VNNI. CPUs only, and no layers
                             with time_major (PG_E_UNSUPPORTED). NULL: none */
    const char *place; /* model parallelism: "LAYER=DEVICE,LAYER#CALL=DEVICE" says where calls run
                          (the last match counts, patterns are allowed, calls count from 0); all
                          others run on the only one of `devices`. Weights are stored once: a GPU
                          holds those of its layers, and what it computes; "cuda:0.1" is a second
                          device on GPU 0. NULL: none */
    size_t threads;    /* cores to use, divided among the devices; 0: all */
    int deterministic; /* equal bits on every run and for every number of devices and threads (with
                          batch_norm 1 not for other numbers of devices, because their slices are
                          part of the result) */
    size_t lanes;      /* deterministic: parts a batch is cut into, a power of two; 0: 8 */
    int batch_norm;    /* statistics over 1: each replica's slice, as in multi_gpu_model; 2: the
                          whole batch; 0: the whole batch where `deterministic`, else each
                          replica's */
    int conv; /* convolutions: 0: as fast as possible, 1: direct, 2: Winograd's algorithm if
                 possible; its errors are a few times larger */
    const char *compile_from;    /* a full model whose training configuration, instead of `model`'s,
                                    decides what these options leave open: optimizer, loss and its
                                    weights, metrics; the optimizer starts anew. NULL: none */
    int loss_from_probabilities; /* never compute the loss from logits, as after multi_gpu_model's
                                    Concatenate */
    int for_prediction;          /* weights only: ignore what `model` says about its training */
    int joins_job;        /* train with the other processes that mpirun, srun or, for GPUs, torchrun
                             started with this one: the devices of all, in the order of their ranks,
                             are the replicas. Every process makes the same calls; pg_fit() and
                             pg_predict() give each its part of the rows, and only rank 0 writes
                             files. No effect in a process that is alone */
    int shard_optimizer;  /* divide the optimizer's state over the processes of the job (ZeRO stage
                             1): results are the same, and each process keeps 1 / processes of it.
                             CPUs only; no effect in a process that is alone. Then all must call
                             pg_trainer_save(), and pg_trainer_read_grad() has gradients only if they
                             are clipped by norm */
    const char *compress; /* how processes on CPUs send float32 gradients; a later step of the run
                             makes up for what that takes. "bfloat16": by a power of two of
                             processes; "powersgd:rank=4": matrices as factors of that rank. Not if
                             deterministic or sharded */
    double comm_timeout;  /* seconds that a process waits for the others before PG_E_PEER; 0: 300 */
    const volatile int *cancel; /* set by a signal handler to end waiting for others; or NULL */
} pg_train_opts;

/* Reads model and weights and checks that everything can be trained. PG_E_UNSUPPORTED names all
 * layers that cannot be trained, PG_E_MISMATCH weights that do not fit, PG_E_ARG an unknown name
 * with the known ones in err->detail. If one of several processes that train together fails, all
 * fail; the message is then on rank 0, and empty elsewhere. PG_E_PEER: one did not arrive, or is
 * gone. For this, and for a failure of one process alone, each process has its own message; only a
 * process that was asked to leave (opts->cancel) because another is gone has an empty one. */
PG_API PG_MUST_USE pg_status pg_trainer_open(pg_trainer **out, const pg_train_opts *opts,
                                             pg_err *err);
PG_API void pg_trainer_close(pg_trainer *t); /* NULL is allowed */

/* The model of opts as model.summary() of Keras 2.15 prints it, whichever Keras wrote it: layers,
 * shapes, parameters, connections; opts' freeze and replace_head are applied. *out is UTF-8, lines
 * end with '\n'; release it with pg_text_free(). Errors as pg_trainer_open()'s for models. */
PG_API PG_MUST_USE pg_status pg_model_summary(char **out, const pg_train_opts *opts, pg_err *err);

/* Notes about the files that were read, one line each: a wrapper whose template is trained,
 * optimizer state that was taken or not. NULL after the last. */
PG_API size_t pg_trainer_n_notes(const pg_trainer *t);
PG_API const char *pg_trainer_note(const pg_trainer *t, size_t i);

/* ---- weights ---- */

/* 1: no file provided the weights and nothing was trained yet: the initializers drew them. */
PG_API int pg_trainer_is_untrained(const pg_trainer *t);

/* Variables in the order of Keras' get_weights(); names are "layer/variable". */
PG_API size_t pg_trainer_n_weights(const pg_trainer *t);
PG_API const pg_weight *pg_trainer_weight(const pg_trainer *t, size_t i);

/* Copies variable i, or (pg_trainer_read_grad) its gradient in the last step, into n_elems doubles.
 * PG_E_ARG: no such variable, another size, or no gradient, for example after a step that was
 * skipped because its gradients exceeded float16. */
PG_API PG_MUST_USE pg_status pg_trainer_read(pg_trainer *t, size_t i, double *out, size_t n_elems,
                                             pg_err *err);
PG_API PG_MUST_USE pg_status pg_trainer_read_grad(pg_trainer *t, size_t i, double *out,
                                                  size_t n_elems, pg_err *err);

typedef struct pg_save_opts {
    int force;      /* replace an existing file */
    int full_model; /* .h5: description, training configuration and optimizer state too */
    int beside;     /* if a file of that name has appeared, write the next free name of NAME-1.h5,
                       NAME-2.h5, ...: pg_trainer_saved() returns it */
} pg_save_opts;

/* Could pg_trainer_save() write there? Meant to be asked before hours of training. With t NULL it
 * can be asked before the model has been read, which may still refuse the format later. PG_E_ARG:
 * the file exists, or its suffix means no format; PG_E_UNSUPPORTED: the format cannot hold this
 * model. */
PG_API PG_MUST_USE pg_status pg_trainer_check_output(pg_trainer *t, const char *path,
                                                     const pg_save_opts *opts, pg_err *err);

/* Writes a file that the model loads on one device, in the format that the suffix says:
 *
 *   .h5, .hdf5    the weights, legacy layout; with full_model as model.save() writes it
 *   .weights.h5   the weights, as save_weights() of the model's Keras writes them under that name
 *   .keras        the full model
 *   .safetensors  the weights
 *
 * A full model continues where training stopped: load_model(), then fit(). The file appears whole
 * or not at all, and has been read back. A note says what the format could not hold. A model that
 * no HDF5 file can hold becomes a folder of shards, `path`.shards, as pg_split_file() writes it.
 * opts may be NULL. */
PG_API PG_MUST_USE pg_status pg_trainer_save(pg_trainer *t, const char *path,
                                             const pg_save_opts *opts, pg_err *err);

/* File or folder of the last save, or NULL. */
PG_API const char *pg_trainer_saved(const pg_trainer *t);

/* ---- training ---- */

/* Named numbers, as Keras passes them to a callback: "loss", "accuracy", "val_loss", ... */
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

/* The run that is about to start. */
typedef struct pg_run {
    size_t n_devices, n_cores; /* replicas, of all processes; threads of this one */
    const char *devices;       /* names of this process' devices: "cpu:0,cpu:1" */
    size_t rank, n_ranks;      /* this process among those that train together: 0 of 1 if alone */
    const char *mpi;           /* what they communicate through: "Open MPI v4.1.4"; NULL: alone */
    const char *kind;          /* of the first GPU: "NVIDIA H100 80GB HBM3, sm_90"; NULL: CPUs */
    size_t batch_size;         /* of all devices */
    size_t n_batches, n_epochs;
    uint64_t n_train, n_val; /* rows */
    pg_shape input, output;  /* of one row, for the model's first input */
    size_t n_inputs, n_outputs, n_layers;
    uint64_t n_params, n_param_bytes;
    const char *optimizer; /* Keras' class name */
    double learning_rate;
} pg_run;

/* A GPU that a trainer uses, measured by its driver (NVML, opened by this call). */
typedef struct pg_gpu {
    const char *kind;    /* "NVIDIA H100 80GB HBM3, sm_90" */
    size_t ordinal;      /* 1 of cuda:1 */
    uint64_t used_bytes; /* bytes of its memory in use, by all programs */
    uint64_t total_bytes;
    int busy; /* percent of about the last second during which it worked; -1: unknown */
} pg_gpu;

/* The k-th of these GPUs, each once; any thread may call it, but not two at the same time. 0: there
 * are fewer, or libnvidia-ml.so.1 is missing or does not know it. */
PG_API int pg_trainer_gpu(pg_trainer *t, size_t k, pg_gpu *out);

/* Where the time of one process of a job went: shares of its steps and of the reading before them.
 * The process that waits least is the one that the others wait for. */
typedef struct pg_rank_share {
    char host[64];
    double compute, exchange, waiting; /* exchange: sums of gradients that outlasted the backward
                                          pass; waiting: for anything else from other processes */
    double input;
} pg_rank_share;

/* Results of a run. */
typedef struct pg_fit_report {
    size_t n_epochs; /* epochs that were finished */
    double seconds;
    double rows_per_second; /* training rows by the time of their steps, without the first step and
                               validation; 0: there was only one step */
    double reduce, input;   /* shares of that time: summing gradients, waiting for data */
    double alone; /* rows per second of the first device alone, 0: not measured. Measured with up to
                     10 steps or a second of them, which change nothing, and the update that the
                     devices made together, times their number */
    const pg_rank_share *ranks; /* of a job of several processes, valid until the trainer's next
                                   call */
    size_t n_ranks;
} pg_fit_report;

/* Something that happened outside the steps. */
typedef enum pg_event_kind {
    PG_EVENT_NOTE,       /* good to know */
    PG_EVENT_WARNING,    /* something that was asked for has not been done, or not yet */
    PG_EVENT_CHECKPOINT, /* `file` is complete on disk */
    PG_EVENT_RATE,       /* the learning rate was changed */
    PG_EVENT_STOP,       /* training ends before its last epoch */
    PG_EVENT_RESUME,     /* training continues from the state in `file` */
    PG_EVENT_SKIPPED     /* a step whose gradients exceeded float16 changed no weight */
} pg_event_kind;

typedef struct pg_event {
    pg_event_kind kind;
    size_t epoch;     /* current ones, from 0 */
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
    /* Called if no error stopped the training, even if pg_fit() then reports a missing file. */
    void (*train_end)(void *user, const pg_fit_report *report);
} pg_callback;

typedef struct pg_fit_opts {
    size_t batch_size;       /* of all devices together; 0: 32 */
    size_t epochs;           /* 0: 1 */
    size_t initial_epoch;    /* numbers begin here; `epochs` is where they end */
    size_t steps_per_epoch;  /* 0: one pass over the data; else the next epoch goes on from there */
    size_t validation_steps; /* batches from the first row on; 0: all */
    size_t validation_freq;  /* validate after every N epochs; 0: after each */
    int no_shuffle;
    int shuffle_batches; /* shuffle batches, and rows within them: for compressed data that is slow
                            to read */
    const char *class_weight; /* "0=1,1=5": weights of classes in training */
    size_t accumulate; /* one update for this many batches, as if they were one batch; 0: 1 */
    uint64_t seed;
    pg_data *validation;     /* NULL: none; may be the training data if it holds xval0, ... */
    double validation_split; /* instead: share of the rows, from the end, unshuffled; 0: none */
    int reset_states; /* stateful layers; 0: never reset, as Keras; 1: reset to zero at the start of
                         each epoch and around validation. Their rows are never shuffled */
    const volatile int *cancel; /* checked after every batch: not 0 saves the state and returns
                                   PG_E_CANCELLED; or NULL */
    int terminate_on_nan;       /* PG_E_NO at the first loss that is NaN or infinite; the message
                                   names the batch */
    int measure_alone;          /* several devices: at the end, measure pg_fit_report.alone */
    /* Keras' callbacks, run in this order, with Keras' parameters: "EarlyStopping:patience=3,
     * restore_best_weights", or {"class_name": "EarlyStopping", "config": {"patience": 3}}. An
     * unknown name or parameter, a monitor that no epoch has, or a file that cannot be written is
     * an error before training. Keras' LearningRateScheduler takes a function; this one takes a
     * name, and starts from the optimizer's own rate: "schedule=epoch,rate=0.9" (lr rate^epoch),
     * "schedule=step,rate=0.1,epochs=30", "schedule=cosine,epochs=90,min_lr=1e-5",
     * "schedule=constant", all with warmup_epochs=N, or "schedule=table,file=rates.txt" with one
     * rate a line. SwapEMAWeights needs use_ema of the optimizer (PG_E_ARG), and with swap_on_epoch
     * must come before the callbacks that should see the averages. Every epoch's logs end with the
     * learning rate (`lr`, Keras 3: `learning_rate`), which Keras adds only with some callbacks.
     * "Report:filename=run.html" does not exist in Keras: it writes a page with the curves, for a
     * browser. pg_callback_class() lists all. */
    const char *const *callbacks;
    size_t n_callbacks;
    /* Continuing after an interruption. The state of the run is saved in resume_file (the previous
     * state as FILE.1, an unfinished one of another run as FILE.before) when the run is cancelled,
     * at every checkpoint, every resume_every seconds, and when it ends after one of these; NULL:
     * never. resume: 0 start afresh; 1 continue from that file, PG_E_IO if it is missing; 2
     * continue if it exists. With a deterministic trainer, the result has the same bits as that of
     * an uninterrupted run. Devices, their number, the last epoch and names of outputs may change;
     * a change of anything else that affects the numbers is PG_E_MISMATCH, which names it. If the
     * file is damaged, the previous one is used, with a warning. If another run uses the same
     * resume_file (flock() of FILE.lock): PG_E_IO, unless this run would write it only at an
     * interruption. */
    const char *resume_file;
    int resume;
    double resume_every;
    const char *settings; /* stored with it for pg_resume_settings(); NULL: none */
    const char *output;   /* file that pg_trainer_save() will write: the state records which file
                             there belongs to the run, for pg_resume_owns(); or NULL */
    int replaces_output;  /* the file that exists there now may be replaced */
    int profile; /* measure where the time goes, for pg_trainer_profile(); slows a GPU down */
    const volatile int *stop; /* looked at after epoch_end: not 0 makes this epoch the last one, as
                                 EarlyStopping does; in a job, all processes set it; or NULL */
    /* A file that gets a trace of some training steps in Chrome's trace event format: what each
     * thread of each process does, and when, by the clock of rank 0. It is written after the last
     * of them. On GPUs each operation is waited for. An existing file is replaced only if it is a
     * trace (PG_E_ARG). At most 262,144 events of a thread are kept (8 MB). NULL: none. */
    const char *trace;
    size_t trace_first; /* counted from 1 in this run, PG_E_ARG: it has fewer steps; 0: usually 3 */
    size_t trace_last;  /* 0: the fourth after the first */
} pg_fit_opts;

/* Keras' name of the i-th class that pg_fit_opts.callbacks accepts, sorted; NULL after the last. */
PG_API const char *pg_callback_class(size_t i);

/* One GPU that holds layers of the model (pg_train_opts.place). */
typedef struct pg_device_forecast {
    const char *device;          /* "cuda:1"; owned by the trainer */
    uint64_t total, activations; /* of total, in batches of that size */
    uint64_t room;               /* for total */
} pg_device_forecast;

/* The most bytes that a run will hold, all devices together, and the largest batch that fits. */
typedef struct pg_forecast {
    size_t n_devices, batch_size;
    uint64_t process; /* program, libraries, description, data read so far */
    uint64_t weights, optimizer;
    uint64_t gradients;           /* and what they receive from other processes */
    uint64_t optimizer_elsewhere; /* of a divided state: the part that other processes keep */
    uint64_t activations;         /* in batches of that size */
    uint64_t workspace, data;
    uint64_t total;
    uint64_t available;                   /* free for what is not allocated yet */
    size_t largest_batch;                 /* that fits; 0: none */
    uint64_t checkpoint, checkpoint_full; /* bytes of weights; with optimizer state */
    size_t n_parts;                       /* GPUs that hold layers of one model; 0: one holds all */
    pg_device_forecast parts[16];
} pg_forecast;

/* What pg_fit() would need for these data and options, without training; it also checks everything
 * else that pg_fit() checks. If memory does not suffice, pg_fit() says so before it trains. */
PG_API PG_MUST_USE pg_status pg_fit_forecast(pg_forecast *out, pg_trainer *t, pg_data *data,
                                             const pg_fit_opts *opts, pg_err *err);

/* ---- plans for more devices ---- */

/* What a plan is made for. A number that is 0 has the default given beside it. */
typedef struct pg_plan_opts {
    size_t hosts;      /* machines; 0: 1 */
    size_t per_host;   /* devices on each; 0: 1 */
    int gpus;          /* they are GPUs; else CPU devices, each a process of an MPI job */
    size_t cores;      /* CPU devices: cores of each host, divided among its devices, or shared if
                          there are more devices; 0: those that the trainer uses here */
    size_t batch_size; /* rows of a step of all devices together; with `weak` of each; 0: that of
                          pg_fit_opts */
    int weak;          /* each device has as many rows as one alone; else the batch stays the same
                          and is cut over them, as in multi_gpu_model */
    double latency, bandwidth; /* between hosts, in seconds and bytes per second in each direction,
                                  for all devices of a host together. 0: latency 10 us; the
                                  bandwidth must be given for several hosts */
    double inner_latency, inner_bandwidth; /* between the devices of a host; 0: CPUs 5 us and 3 GB/s
                                              (MPI through shared memory), GPUs 10 us and 20 GB/s
                                              (NCCL over PCI Express 4.0) */
    double speedup; /* a device is this many times as fast as the one measured here; 0: as fast */
    double flops;   /* instead: multiplications and additions per second that a device reaches in
                       such a model */
    int measure;    /* pg_plan_measure() fails if it cannot measure between hosts */
    int link_measured, inner_measured; /* it measured what was not given, between hosts, within
                                          one */
} pg_plan_opts;

/* "hosts=16,gpus=8,link=100Gbit": `out` from a list of
 *
 *   hosts=N  gpus=N | cpus=N (or ranks=N)  cores=N    as above; gpus, cpus: of each host
 *   batch=N  scale=strong|weak
 *   link=RATE|measure  latency=TIME  inner=RATE  inner-latency=TIME
 *   speedup=X  flops=RATE
 *
 * RATE: bits per second as 100Gbit, bytes as 12.5GB; flops as 60T. TIME: 5us, 50ns, 1ms. PG_E_ARG
 * names any unknown key. */
PG_API PG_MUST_USE pg_status pg_plan_read(pg_plan_opts *out, const char *text, pg_err *err);

/* In a job of several processes, measures by MPI those latencies and bandwidths that are 0: between
 * the first two hosts that have some, and for CPU devices within the first host that has two. If
 * neither hosts nor per_host is given, they become those of the job. All processes call this,
 * before a trainer. Then the job is over: the process that is pg_job_rank() 0 continues alone
 * (pg_train_opts.joins_job 0), and the others have nothing left to do. Of `with`, comm_timeout and
 * cancel are used. Without a job nothing changes. PG_E_ARG: `measure`, but there is only one host;
 * errors of joining. */
PG_API PG_MUST_USE pg_status pg_plan_measure(pg_plan_opts *o, const pg_train_opts *with,
                                             pg_err *err);

/* One number of devices. A step takes compute + shown + update + rest seconds. */
typedef struct pg_plan_row {
    size_t n_devices, n_hosts;
    uint64_t rows; /* of the device that has most */
    double step, compute;
    double exchange, shown; /* sums of gradients over the devices; the part of them that the
                               backward pass does not hide */
    double update, rest;
    double samples_per_second;
    double efficiency;       /* samples per second of a device, divided by those of one alone */
    uint64_t memory;         /* bytes of a device; for CPUs, of its process */
    double step_sharded;     /* with pg_train_opts.shard_optimizer; 0: GPUs, which do not support
                                it */
    uint64_t memory_sharded; /* the same */
    int measured;            /* computing was timed here with this number of rows; else interpolated
                                between two others */
} pg_plan_row;

typedef struct pg_plan {
    pg_plan_row rows[32]; /* 1, 2, 4, ... devices, and finally all of them */
    size_t n_rows;
    size_t pays_up_to; /* from this number on, doubling the devices gives less than 1.2 times the
                          samples per second; 0: all pay off */
    size_t batch_size, threads; /* threads: of one device */
    uint64_t buckets[64];       /* bytes of gradients that are summed together, in their order */
    size_t n_buckets;
    pg_plan_opts used;   /* with the defaults filled in */
    const char *checked; /* where to read how accurate predictions were */
    char notes[4][200];  /* what else to know about the numbers */
    size_t n_notes;
} pg_plan;

/* Predicts the time of a step on such devices with these data: times one device's part of a step
 * here, at several numbers of rows, with a few steps that change nothing; computes how long sums
 * over devices take and when they begin. Reading data is not counted. PG_E_ARG: a number that
 * cannot be measured here, such as one of GPUs without a GPU, was not given; PG_E_UNSUPPORTED:
 * `place`, several GPUs in this trainer, or a trainer that has joined a job. */
PG_API PG_MUST_USE pg_status pg_fit_plan(pg_plan *out, pg_trainer *t, pg_data *data,
                                         const pg_fit_opts *opts, const pg_plan_opts *devices,
                                         pg_err *err);

/* Data are checked before the first step: shapes, numbers of rows, kinds of targets, classes and
 * ids (large arrays batch by batch), NaN in the first batch. A separate thread reads the next
 * batches; while this runs, `data` belongs to it (evaluating with it in a callback is PG_E_ARG).
 * Errors of the data, of a callback; PG_E_MISMATCH if data do not fit the model; PG_E_IO, after all
 * training, if a callback's file could not be written. */
PG_API PG_MUST_USE pg_status pg_fit(pg_trainer *t, pg_data *data, const pg_fit_opts *opts,
                                    const pg_callback *cb, pg_err *err);

/* How the gradients of the largest batch were summed, the last time that one was trained with. */
typedef struct pg_sum_plan {
    const char *way;  /* "lanes": CPUs of one process; "placed": GPUs that share one model;
                           "copies": from GPU to GPU; "nccl"; "hosts": GPUs of several processes,
                           through the hosts' memory; "mpi": CPUs of several processes */
    int is_in_tree;   /* in an order that does not depend on devices and processes; 0: in the
                           order of NCCL or MPI */
    int overlaps;     /* began while the backward pass went on */
    size_t n_buckets; /* ranges of variables that were summed one by one; 0: all at once */
    const char *why;  /* a clause for people: "no order is required" */
} pg_sum_plan;

/* 0: nothing was trained yet. *out is valid as long as the trainer. */
PG_API int pg_trainer_sums(const pg_trainer *t, pg_sum_plan *out);

/* Where the time went: of the training steps of the last run with pg_fit_opts.profile, or of the
 * last pass with pg_predict_opts.profile; without the first step, or the first of several
 * batches. */
typedef struct pg_op_profile {
    const char *layer; /* as the model names it; a loss counts for the last layer; NULL: none */
    const char *op;    /* "conv", and for its gradients "conv_dx", "conv_dw"; beside operations:
                          "optimizer", "all-reduce", "input" */
    uint64_t calls;
    double seconds; /* of all threads together; processor time, or on GPUs the time until it was
                       done */
    double flops;   /* multiplications and additions by definition, even if an algorithm saves
                       some */
    double bytes;   /* of operands and results */
} pg_op_profile;

/* Layers and operations, the slowest first. *rows is valid until the next call or until the trainer
 * is closed. PG_E_ARG: nothing was profiled. GPUs that share one model (`place`) are not
 * measured. */
PG_API PG_MUST_USE pg_status pg_trainer_profile(pg_trainer *t, const pg_op_profile **rows,
                                                size_t *n_rows, pg_err *err);

#ifdef __cplusplus
}
#endif

#endif
