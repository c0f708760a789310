/* lower.h - from a model to operations: one tape for a given number of rows.
 *
 * Lowering walks the calls of the graph in the order of their inputs; every layer class appends its
 * operations (pg__lower_<family>() in a layer_*.c, named by layers.def). A layer called twice uses
 * the same parameters; a nested model is lowered in place. Parameters are numbered as the leaves of
 * the model hold them (leaves.h), so that they have the same numbers on every tape of a model, and
 * the order of the file formats. */
#ifndef PG_MODEL_LOWER_LOWER_H
#define PG_MODEL_LOWER_LOWER_H

#include "model/graph/rules.h"
#include "model/lower/assign.h"
#include "model/lower/leaves.h"
#include "ops/attrs.h"
#include "ops/op.h"

/* One variable of one leaf. */
typedef struct pg__param {
    const pg__leaf *leaf;
    const pg__var *var;
    pg__dims shape;  /* set by the first call of its layer */
    int is_built;    /* it was */
    int trained;     /* the variable is trainable, and so are its layer and all models around it */
    pg__val value;   /* on this tape, PG_NO_VAL before its layer is called */
    uint32_t device; /* of that call, see pg__lower_opts.assigned */
} pg__param;

/* The logits of a softmax or sigmoid, for losses that start from logits. */
typedef enum pg__squash { PG_NOT_SQUASHED, PG_SOFTMAX_OF, PG_SIGMOID_OF } pg__squash;
typedef struct pg__origin {
    pg__squash squash;
    pg__val logits;
    pg__val mask; /* 1 and 0 for every step, or PG_NO_VAL */
} pg__origin;

/* A parameter that is a moving average: after a step, a share of `value`, which the step computed,
 * goes into it. */
typedef struct pg__moving {
    size_t param;
    pg__val value;
    double momentum; /* the share of the old value that stays */
} pg__moving;

/* A kernel that a SpectralNormalization divides by its largest singular value before each step.
 * `iterations` steps of the power method find it, starting from the vector u, which is kept. */
typedef struct pg__spectral {
    size_t kernel, u; /* parameters */
    size_t iterations;
    int is_repeated; /* Keras does it several times in a step, each call sees another kernel */
} pg__spectral;

/* Facts for the summary about a layer of the root model. */
typedef struct pg__called {
    const pg__layer *layer;
    pg__dims *out; /* of its first call; n_out of them */
    size_t n_out;
    int differ; /* another call gave other shapes */
} pg__called;

/* State that a stateful layer keeps from one batch to the next: `before` is read; after the step,
 * `after` replaces it. */
typedef struct pg__state {
    const pg__leaf *leaf;
    const char *sub;
    uint32_t k;
    pg__val before, after;
} pg__state;

typedef struct pg__lowered {
    pg__tape tape;
    pg__param *params;
    size_t n_params;
    pg__val *inputs, *outputs; /* in the model's order */
    size_t n_inputs, n_outputs;
    pg__called *called; /* per layer of the root model */
    size_t n_called;
    pg__origin *origins; /* per value of the forward pass */
    size_t cap_origins;
    pg__moving *moving; /* in the order of calls; only when training */
    size_t n_moving, cap_moving;
    pg__spectral *spectral; /* in the order of calls; only when training */
    size_t n_spectral, cap_spectral;
    pg__val *activities; /* terms that layers add to the loss: scalars, in the order of calls */
    size_t n_activities, cap_activities;
    pg__val activity_seed; /* or PG_NO_VAL */
    int couples_rows;      /* rows of a batch depend on each other: BatchNormalization */
    int steps_first;       /* the first axis of a batch is that of steps: time_major */
    pg__val step;          /* seed and step, or PG_NO_VAL if nothing is random */
    uint32_t n_streams;    /* number of streams of random numbers */
    pg__state *states;     /* slots of PG_STATE values, in the order of the first calls */
    size_t n_states, cap_states;
} pg__lowered;

typedef struct pg__lower_opts {
    const pg__graph *graph;
    const pg__leaves *leaves;
    const pg__rules *rules;
    uint64_t n_rows;        /* PG_DIM_ANY: not known yet, the tape cannot run */
    const pg__dims *inputs; /* shapes of one row, for unknown dimensions; NULL: as in the model */
    int training;
    pg__assigned *assigned; /* NULL: all runs on device 0; marks what was used */
    int lanes_meet;         /* these rows are normalised together with those of other lanes */
} pg__lower_opts;

/* Errors name the layer: PG_E_UNSUPPORTED lists every class that cannot be trained in err->detail;
 * PG_E_MISMATCH if shapes do not fit, PG_E_FORMAT for an invalid config. */
pg_status pg__lower(pg__lowered *out, const pg__lower_opts *opts, pg_err *err);
void pg__lowered_fini(pg__lowered *l);

/* The mask of output k, or PG_NO_VAL. */
pg__val pg__output_mask(const pg__lowered *l, size_t k);

/* ---- for the families ---- */

typedef struct pg__lowering {
    pg__lowered *to;
    const pg__lower_opts *opts;
    const pg__leaf *leaf;    /* whose parameters are asked for */
    const char *sub;         /* inner layer of it, or "" */
    const pg__leaves *inner; /* leaf wraps a model: the leaves of that */
    size_t
        inner_first; /* index of the first variable of leaf that belongs to the leaves of inner */
    size_t first_var,
        n_vars;   /* the variables of leaf that belong to the current layer; n_vars 0: all */
    int training; /* the current layer works as in training */
    int by_steps; /* a TimeDistributed calls the current layer */
    uint32_t
        runs; /* runs of the current model per call, 0: 1. tf.keras' TimeDistributed runs a model
                 again for its mask: it adds to the loss again, and averages move again */
    uint64_t
        calls;     /* calls of the current layer, one for each step of the layers around it; 0: 1 */
    uint64_t fold; /* steps that are rows here, per row of the batch; 0: 1 */
    const char *const *args; /* keywords of the current call, per operand; NULL: there are none */
    const pg__json *kwargs;  /* of the current call, or NULL */
    const pg__model
        *model; /* the model of the current layer, and its call; NULL if there is none */
    const pg__call *call;
} pg__lowering;

/* Operand `name` of the current call: the one with that keyword, or the one at `position` among
 * those without keyword; PG_NO_VAL if there is none. */
pg__val pg__operand(const pg__lowering *lw, const pg__val *in, size_t n_in, const char *name,
                    size_t position);

/* Ids as numbers and numbers as ids; values that already have the type stay the same. */
pg_status pg__lower_as_real(pg__lowering *lw, pg__val x, pg__val *out, pg_err *err);
pg_status pg__lower_as_ids(pg__lowering *lw, pg__val x, pg__val *out, pg_err *err);

#define PG_MAX_OUTPUTS 64 /* of one call */

/* The results of one call. */
typedef struct pg__results {
    pg__val v[PG_MAX_OUTPUTS];
    size_t n;
} pg__results;

/* Calls a layer or model inside the current layer, named `sub` there, with one tensor. */
pg_status pg__lower_inner(pg__lowering *lw, const pg__layer *inner, const char *sub, pg__val in,
                          pg__results *out, pg_err *err);

typedef pg_status (*pg__lower_fn)(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                  size_t n_in, pg__results *out, pg_err *err);

/* The parameter `name` (Keras 2's name of the variable) of the current layer, with this shape. */
pg_status pg__lower_param(pg__lowering *lw, const char *name, uint32_t rank, const uint64_t *dims,
                          pg__val *out, pg_err *err);

/* Parameter `param` (a value of pg__lower_param()) moves towards `value`. */
pg_status pg__lower_moving(pg__lowering *lw, pg__val param, pg__val value, double momentum,
                           pg_err *err);

/* Appends dropout of x. noise: x's shape, with 1 along axes that share their noise; rows_share: the
 * first axis does. Does nothing outside of training. */
pg_status pg__lower_dropout_of(pg__lowering *lw, pg__val x, double rate, const pg__dims *noise,
                               int rows_share, pg__val *out, pg_err *err);

/* The factors of dropout for values of this shape; PG_NO_VAL: nothing is dropped. */
pg_status pg__lower_factors(pg__lowering *lw, double rate, const pg__dims *shape, pg__val *out,
                            pg_err *err);

/* Arguments of random numbers, besides a stream of lowered.n_streams. */
pg_status pg__lower_step(pg__lowering *lw, pg__val *out, pg_err *err);

/* The factors of dropout where rows may share their numbers. */
pg_status pg__lower_noise(pg__lowering *lw, double rate, const pg__dims *shape, int rows_share,
                          pg__val *out, pg_err *err);

/* Normally distributed numbers of mean 0 and variance 1; PG_NO_VAL outside of training. */
pg_status pg__lower_normal(pg__lowering *lw, const pg__dims *shape, pg__val *out, pg_err *err);

/* Normalises the kernel of the current layer's inner layer, which was called, before each step. */
pg_status pg__lower_spectral_of(pg__lowering *lw, const pg__layer *inner, size_t iterations,
                                pg_err *err);

#define PG_MAX_CONSTANT (UINT64_C(1) << 26) /* numbers of one: 512 MB while they are made */

/* Appends constants. */
pg_status pg__lower_constant(pg__lowering *lw, const pg__dims *shape, const double *values,
                             pg__val *out, pg_err *err);

/* Appends a op b; axes of size 1 repeat. */
pg_status pg__lower_binary(pg__lowering *lw, pg__binary_kind kind, pg__val a, pg__val b,
                           pg__val *out, pg_err *err);

/* PG_E_FORMAT unless the layer is called with one tensor. */
pg_status pg__lower_one_input(const pg__layer *l, size_t n_in, pg_err *err);

/* State k of the current layer, kept from batch to batch: its value before this call, and its value
 * after it. dims: (rows, units). */
pg_status pg__lower_state(pg__lowering *lw, uint32_t k, const uint64_t dims[2], pg__val *out,
                          pg_err *err);
void pg__keep_state(pg__lowering *lw, uint32_t k, pg__val now);

/* The activation that a config value names, for operations that apply it themselves and derive its
 * slope from its result; if absent: `fallback`. PG_E_UNSUPPORTED for others. */
pg_status pg__activation_attrs(pg__lowering *lw, const pg__layer *l, const pg__json *which,
                               const char *fallback, pg__act_attrs *out, pg_err *err);

/* Appends the activation that a config value names (string, object or null). */
pg_status pg__lower_activation_of(pg__lowering *lw, const pg__layer *l, const pg__json *which,
                                  pg__val x, pg__val *out, pg_err *err);

/* x as another value if it has logits: a layer that makes a new tensor of them loses what Keras
 * attached to the old one, even if no element changes. */
pg_status pg__lower_copy(pg__lowering *lw, pg__val x, pg__val *out, pg_err *err);
pg_status pg__lower_reshape(pg__lowering *lw, pg__val x, const pg__dims *to, pg__val *out,
                            pg_err *err);

/* The family of a class, or NULL if it cannot be trained. */
pg__lower_fn pg__lower_fn_of(const char *class_name);

/* Why it cannot be trained, or NULL. */
const char *pg__why_untrained(const char *class_name);

/* sample.c: marks the operations that a layer of this class becomes in a small model, for training
 * with its gradients; used: of PG_N_OPS. *found: 0 if no model with it can be lowered. */
pg_status pg__sample_ops(unsigned char *used, int *found, const char *class_name, int training,
                         pg_err *err);

/* The existing class that a mistyped one may mean, or NULL. */
const char *pg__class_meant(const char *class_name);

static inline const pg__dims *pg__dims_at(const pg__lowering *lw, pg__val v)
{
    return &lw->to->tape.values[v].shape;
}

/* Remembers that v is the softmax (sigmoid) of logits. */
pg_status pg__set_logits(pg__lowering *lw, pg__val v, pg__squash squash, pg__val logits,
                         pg_err *err);

/* Shape and type of a model's input, by its InputLayer or by the first layer of a Sequential:
 * dimension 0 is the batch (PG_DIM_ANY unless the model fixes it). Inputs that an Embedding reads
 * are integers. PG_E_MISMATCH if the model does not say. */
pg_status pg__input_shape(pg__dims *out, pg__elem *elem, const pg__model *m, const pg__layer *l,
                          pg_err *err);

/* The mask of v, or PG_NO_VAL; setting it; giving `to` the mask of `from`, if there is one. */
pg__val pg__mask_of(const pg__lowering *lw, pg__val v);
pg_status pg__set_mask(pg__lowering *lw, pg__val v, pg__val mask, pg_err *err);
pg_status pg__pass_mask(pg__lowering *lw, pg__val from, pg__val to, pg_err *err);

#endif
