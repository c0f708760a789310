/* program.h - a model compiled for a number of rows on one device: an array of prepared calls over
 * one arena, for the forward pass and, in training, losses and gradients. */
#ifndef PG_TRAIN_EXEC_PROGRAM_H
#define PG_TRAIN_EXEC_PROGRAM_H

#include "backend/backend.h"
#include "model/lower/lower.h"
#include "train/exec/thread_pool.h"

/* The loss and weight of an output. */
typedef struct pg__objective {
    int has_loss;
    pg__loss_attrs loss;    /* logits is set by the compiler */
    uint32_t metric_losses; /* 1 << kind of each loss that is a metric, too */
} pg__objective;

typedef struct pg__program_opts {
    pg__lower_opts lower;            /* n_rows known */
    const pg__objective *objectives; /* per output, or NULL: predictions only */
    const pg__elem *elems;           /* per leaf, what it computes with; NULL: PG_ELEM_REAL */
    int from_probabilities;          /* no shortcut to the logits */
    int in_int8;                     /* products with parameters in 8 bits, where that pays */
    int masks_only;                  /* no losses, no predictions: the masks of the outputs */
    size_t n_lanes; /* lanes that may be run at once, a power of two; 0: one by one */
    const pg__backend *backend;
    pg__dev *dev;
    pg__dev *const *devs; /* per device that shares the work, each with its own memory; NULL: they
                             share one memory */
} pg__program_opts;

typedef struct pg__program pg__program;

/* The first call with NaN or infinity in its operands or results. */
typedef struct pg__watch {
    int found;
    uint32_t leaf;
    int in_input, in_param; /* it was already there */
} pg__watch;

/* What a run uses on one of several devices with memory of their own. */
typedef struct pg__frame_part {
    pg__dev *dev;
    void *arena, *scratch;
} pg__frame_part;

/* Memory of one run. The arrays, by slot, are in host memory and point to device memory. */
typedef struct pg__frame {
    const void *const *inputs;
    const void *const *targets; /* per output */
    const void *const *weights; /* per output, entries may be NULL */
    void *const *params;        /* per parameter */
    void *const *grads;         /* per parameter; it or entries may be NULL: not wanted */
    const void *const *seeds;   /* per output, then of activities: pointer to the scalar */
    const void *step;           /* PG_STEP_N integers */
    void *const *states;        /* per state of a stateful layer: its rows */
    void *arena, *scratch;
    size_t lane, n_lanes; /* its place among the lanes that share the arena; 0: not shared */
    const pg__frame_part
        *parts;  /* per device, if each has its own memory: then arena, scratch and dev are those of
                    device 0, which holds everything but parameters */
    void **args; /* room for pg__program_n_args() pointers */
    pg__dev *dev;                  /* NULL: the program's; or a fork of it, one per thread */
    pg__watch *watch;              /* NULL: not watched */
    struct pg__profile *profile;   /* NULL: not profiled */
    struct pg__trace_track *trace; /* NULL: not traced */
} pg__frame;

/* Fails as pg__lower() does; PG_E_UNSUPPORTED names the layers that the device cannot run. */
pg_status pg__program_new(pg__program **out, const pg__program_opts *opts, pg_err *err);
void pg__program_free(pg__program *p);

const pg__lowered *pg__program_model(const pg__program *p);
uint64_t pg__program_arena_bytes(const pg__program *p);
size_t pg__program_scratch_bytes(const pg__program *p);
/* The same for one device, if each has its own memory. */
uint64_t pg__program_arena_on(const pg__program *p, uint32_t device);
size_t pg__program_scratch_on(const pg__program *p, uint32_t device);
size_t pg__program_shared_on(const pg__program *p, uint32_t device);
int pg__program_is_split(const pg__program *p);  /* do devices have their own memories? */
size_t pg__program_n_args(const pg__program *p); /* of the call with most */
size_t pg__program_shared_bytes(const pg__program *p);

/* The leaf whose results take most of the arena at once, and their bytes; 0: none. */
uint64_t pg__program_largest(const pg__program *p, uint32_t *leaf);

/* Shape and type of output k's target (shape[0] = rows), and of its loss. */
const pg__value *pg__program_target(const pg__program *p, size_t k);
const pg__value *pg__program_loss_value(const pg__program *p, size_t k);

/* The mask of output k, or NULL if it has none; the mask's memory after a run. */
const pg__value *pg__program_mask_value(const pg__program *p, size_t k);
const void *pg__program_mask(const pg__program *p, const pg__frame *f, size_t k);

/* Where a run left the new state k of a stateful layer. */
const void *pg__program_state(const pg__program *p, const pg__frame *f, size_t k);

/* Prepares kernels for the parameters, once for all runs until those change: part `part` of
 * n_parts, which may run concurrently. The frame only needs params, scratch and args. */
pg_status pg__program_share(const pg__program *p, const pg__frame *f, size_t part, size_t n_parts);

/* Runs from call *at (0 at first) to the end, or to the next meeting of lanes: then *meets is 1,
 * and once the results of the meeting are there, the run continues from *at + 1. */
pg_status pg__program_run(const pg__program *p, const pg__frame *f, size_t *at, int *meets);

/* Runs calls [from, to) of a program without meetings. */
pg_status pg__program_run_calls(const pg__program *p, const pg__frame *f, size_t from, size_t to);
size_t pg__program_n_calls(const pg__program *p);

/* How many lanes can be run at once, 1: only one by one; and the bytes of their arena. */
size_t pg__program_lanes(const pg__program *p);
uint64_t pg__program_lanes_bytes(const pg__program *p);
/* Like pg__program_run(), for all of them: frames that differ only in their lane and rows, which
 * are contiguous. The gradients of the first become the sum over all, in the order of the tree of
 * lanes.h; those of the others are not touched. */
pg_status pg__program_run_lanes(const pg__program *p, const pg__frame *const *f, size_t *at,
                                int *meets);

/* Calls that multiply in 8 bits. */
size_t pg__program_n_in_int8(const pg__program *p);

/* Multiplications and additions of a run, by the definition of its operations. */
double pg__program_flops(const pg__program *p);

/* Number of calls after which parameter i's gradient (or a moving average's new sample) is final.
 */
size_t pg__program_settled(const pg__program *p, size_t i);

/* Runs the calls of one of the devices that share the work, each as soon as its inputs from the
 * others are there. The threads of a lane call it concurrently, with frames that differ in their
 * scratch; done: per device, 0 at first. Not for programs in which lanes meet. */
pg_status pg__program_run_part(const pg__program *p, const pg__frame *f, uint32_t device,
                               pg__thread_pool *threads, pg__count *done);
uint32_t pg__program_n_devices(const pg__program *p);

/* What a lane brings to a meeting and takes from it: see op_meet.c. */
#define PG_MEETING 3
typedef struct pg__meeting {
    int is_stats; /* mean, sum of squared distances, count; else sums */
    size_t n;
    uint64_t n_elems[PG_MEETING];
    const void *in[PG_MEETING];
    void *out[PG_MEETING]; /* NULL: not wanted */
} pg__meeting;

size_t pg__program_n_meetings(const pg__program *p);
uint64_t pg__program_meeting_elems(const pg__program *p); /* of the largest, over all operands */
pg__meeting pg__program_meeting(const pg__program *p, const pg__frame *f, size_t at);

/* Where a run left prediction k and the losses of output k (one number per row of the last axis).
 */
const void *pg__program_prediction(const pg__program *p, const pg__frame *f, size_t k);
pg__dev *pg__program_prediction_dev(const pg__program *p, const pg__frame *f, size_t k);
const void *pg__program_loss(const pg__program *p, const pg__frame *f, size_t k);

/* The losses (1 << kind) that, as metrics of output k, start from the logits because Keras does,
 * although its activation is not made for them; the logits, or NULL. */
uint32_t pg__program_on_logits(const pg__program *p, size_t k);
const pg__value *pg__program_logits_value(const pg__program *p, size_t k);
const void *pg__program_logits(const pg__program *p, const pg__frame *f, size_t k);

/* Where a run left the new sample of the model's moving average i (pg__lowered.moving): on the
 * device of its parameter. */
const void *pg__program_moving(const pg__program *p, const pg__frame *f, size_t i);

/* Where a run left part i of the model's activities (pg__lowered.activities). */
const void *pg__program_activity(const pg__program *p, const pg__frame *f, size_t i);

#endif
