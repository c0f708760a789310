/* program.h - a model compiled for a number of rows on one device: the forward pass, and for
 * training losses and gradients, as an array of prepared calls over one arena. */
#ifndef PG_TRAIN_EXEC_PROGRAM_H
#define PG_TRAIN_EXEC_PROGRAM_H

#include "backend/backend.h"
#include "model/lower/lower.h"
#include "train/exec/thread_pool.h"

/* What one output is trained for. */
typedef struct pg__objective {
    int has_loss;
    pg__loss_attrs loss;    /* logits is set by the compiler */
    uint32_t metric_losses; /* 1 << kind of each loss that is a metric, too */
} pg__objective;

typedef struct pg__program_opts {
    pg__lower_opts lower;            /* n_rows known */
    const pg__objective *objectives; /* per output, or NULL: predictions only */
    const pg__elem *elems;           /* per leaf, what it computes with; NULL: PG__REAL */
    int from_probabilities;          /* no shortcut to the logits */
    int masks_only;                  /* no losses, no predictions: the masks of the outputs */
    size_t n_lanes;                  /* that may be run at once, a power of two; 0: one by one */
    const pg__backend *backend;
    pg__dev *dev;
    pg__dev *const *devs; /* per device that shares the work, each with memory of its own; NULL: all
                             have one memory */
} pg__program_opts;

typedef struct pg__program pg__program;

/* The first call that had, or gave, a number that is none. */
typedef struct pg__watch {
    int found;
    uint32_t leaf;
    int in_input, in_param; /* it came from there */
} pg__watch;

/* What a run has of one of several devices with memory of their own. */
typedef struct pg__frame_part {
    pg__dev *dev;
    void *arena, *scratch;
} pg__frame_part;

/* Memory that one run works on. Arrays by slot, the host's; what they point to is the device's. */
typedef struct pg__frame {
    const void *const *inputs;
    const void *const *targets; /* per output */
    const void *const *weights; /* per output, entries may be NULL */
    void *const *params;        /* per parameter */
    void *const *grads;         /* per parameter; NULL, or entries NULL, where not wanted */
    const void *const *seeds;   /* per output, and that of activities: pointer to the scalar */
    const void *step;           /* PG__STEP_N integers */
    void *const *states;        /* per state of a stateful layer: its rows */
    void *arena, *scratch;
    size_t lane, n_lanes; /* it is one of those that share the arena; 0: none do */
    const pg__frame_part
        *parts;       /* per device, where each has its memory: then arena, scratch and dev are
                   those of device 0, on which all lies that is not a parameter's */
    void **args;      /* room for pg__program_n_args() pointers */
    pg__dev *dev;     /* NULL: the program's; a fork of it, where each thread has one */
    pg__watch *watch; /* NULL: nobody looks */
    struct pg__profile *profile; /* NULL: nobody counts */
} pg__frame;

/* Errors of pg__lower(); PG_E_UNSUPPORTED names the layers that the device cannot run. */
pg_status pg__program_new(pg__program **out, const pg__program_opts *opts, pg_err *err);
void pg__program_free(pg__program *p);

const pg__lowered *pg__program_model(const pg__program *p);
uint64_t pg__program_arena_bytes(const pg__program *p);
size_t pg__program_scratch_bytes(const pg__program *p);
/* The same of one device, where each has its memory. */
uint64_t pg__program_arena_on(const pg__program *p, uint32_t device);
size_t pg__program_scratch_on(const pg__program *p, uint32_t device);
size_t pg__program_shared_on(const pg__program *p, uint32_t device);
int pg__program_is_split(const pg__program *p);  /* each has */
size_t pg__program_n_args(const pg__program *p); /* of the call that has most */
size_t pg__program_shared_bytes(const pg__program *p);

/* The leaf whose results take most of the arena at once, and how much that is; 0: none does. */
uint64_t pg__program_largest(const pg__program *p, uint32_t *leaf);

/* Shape and type of what output k is compared with (its shape[0] = rows), and of its loss. */
const pg__value *pg__program_target(const pg__program *p, size_t k);
const pg__value *pg__program_loss_value(const pg__program *p, size_t k);

/* The mask of output k, or NULL: it has none; its memory after a run. */
const pg__value *pg__program_mask_value(const pg__program *p, size_t k);
const void *pg__program_mask(const pg__program *p, const pg__frame *f, size_t k);

/* Where a run left what state k of a stateful layer is now. */
const void *pg__program_state(const pg__program *p, const pg__frame *f, size_t k);

/* What kernels make of the parameters, once for all runs until those change: part `part` of
 * n_parts, which may be made at the same time. The frame needs params, scratch and args only. */
pg_status pg__program_share(const pg__program *p, const pg__frame *f, size_t part, size_t n_parts);

/* Runs on from call *at (0 at first) to the end, or to where lanes meet: then 1 is in *meets, and
 * once the results of the meeting are there the run goes on from *at + 1. */
pg_status pg__program_run(const pg__program *p, const pg__frame *f, size_t *at, int *meets);

/* Calls [from, to) of a program without meetings. */
pg_status pg__program_run_calls(const pg__program *p, const pg__frame *f, size_t from, size_t to);
size_t pg__program_n_calls(const pg__program *p);

/* How many lanes can be run at once; 1: none are. Their arena, and what they work in. */
size_t pg__program_lanes(const pg__program *p);
uint64_t pg__program_lanes_bytes(const pg__program *p);
/* As pg__program_run(), for all of them: frames that differ in their lane and their rows, which
 * lie one after the other. The gradients of the first become the sum over all in the order of the
 * tree of lanes.h, those of the others are not touched. */
pg_status pg__program_run_lanes(const pg__program *p, const pg__frame *const *f, size_t *at,
                                int *meets);

/* Multiplications and additions of a run, by their definition. */
double pg__program_flops(const pg__program *p);

/* So many calls, and none after them, read or write the memory of parameter i's gradient, or find
 * what the parameter, a moving average, takes a share of. */
size_t pg__program_settled(const pg__program *p, size_t i);

/* The calls of one of the devices that share the work, each as soon as what it needs of the others
 * is there. The threads of a lane run it at once, with frames that differ in their scratch; done:
 * per device, 0 at first. Programs in which lanes meet are not run so. */
pg_status pg__program_run_part(const pg__program *p, const pg__frame *f, uint32_t device,
                               pg__thread_pool *team, pg__count *done);
uint32_t pg__program_n_devices(const pg__program *p);

/* What a lane brings to a meeting and takes from it: op_meet.c says what it is. */
#define PG_MEETING 3
typedef struct pg__meeting {
    int is_stats; /* mean, sum of squared distances, count; else sums */
    size_t n;
    uint64_t n_elems[PG_MEETING];
    const void *in[PG_MEETING];
    void *out[PG_MEETING]; /* NULL: not wanted */
} pg__meeting;

size_t pg__program_n_meetings(const pg__program *p);
uint64_t pg__program_meeting_elems(const pg__program *p); /* of the largest, all operands */
pg__meeting pg__program_meeting(const pg__program *p, const pg__frame *f, size_t at);

/* Where a run left prediction k and the losses of output k (one number per row of the last axis).
 */
const void *pg__program_prediction(const pg__program *p, const pg__frame *f, size_t k);
pg__dev *pg__program_prediction_dev(const pg__program *p, const pg__frame *f, size_t k);
const void *pg__program_loss(const pg__program *p, const pg__frame *f, size_t k);

/* The losses (1 << kind) that as metrics of output k start from what its activation squashed,
 * because Keras does, though it is not what their own one squashes; those values, or NULL: none do.
 */
uint32_t pg__program_on_logits(const pg__program *p, size_t k);
const pg__value *pg__program_logits_value(const pg__program *p, size_t k);
const void *pg__program_logits(const pg__program *p, const pg__frame *f, size_t k);

/* Where a run left what moving average i of the model (pg__lowered.moving) takes a share of: on the
 * device of its parameter. */
const void *pg__program_moving(const pg__program *p, const pg__frame *f, size_t i);

/* Where a run left what part i of the model's activities (pg__lowered.activities) is. */
const void *pg__program_activity(const pg__program *p, const pg__frame *f, size_t i);

#endif
