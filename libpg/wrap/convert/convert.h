/* convert.h - one run of pgconvert: an outline of the output (its layers and tensors, each with a
 * recipe for its elements), the steps that change outlines, and a store that makes a finished
 * outline look like any other file. Formats write that store like every other one, and the proof
 * compares the output with the same recipes. */
#ifndef PG_WRAP_CONVERT_CONVERT_H
#define PG_WRAP_CONVERT_CONVERT_H

#include "pg/convert.h"
#include "store/values.h"
#include "wrap/dialect/dialect.h"
#include "wrap/rewrite/rewrite.h"

/* ---- convert_take.c: where the elements of one tensor come from ---- */

#define PG_TAKE_BLOCKS 6 /* an LSTM has four gates, a GRU three in each of two biases */

#define PG_SHOWN_RANK  4

typedef struct pg__take_block {
    size_t src;    /* tensor of the input; PG_NONE: the same value everywhere */
    uint64_t base; /* its element that comes first in the block */
} pg__take_block;

/* Element (i0, i1, ...) of the output is element base + sum(stride[k] * i[k]) of a tensor of the
 * input. Along `axis` the output is cut into n_blocks equal blocks with a base of their own;
 * indices count from 0 in each. That covers transposed axes, gates put side by side or in another
 * order, and parts of a tensor. */
typedef struct pg__take {
    uint32_t rank, axis, n_blocks;
    uint64_t dims[PG_MAX_RANK];   /* of the output */
    uint64_t stride[PG_MAX_RANK]; /* elements of the input */
    pg__take_block block[PG_TAKE_BLOCKS];
    pg_dtype from, to;
    double value;        /* where there is no input */
    size_t plus;         /* 1 + a tensor of the same shape that is added; 0: none */
    uint32_t shown_rank; /* if not 0: the shape in which the elements appear, in the same order */
    uint64_t shown[PG_SHOWN_RANK];
} pg__take;

void pg__take_whole(pg__take *t, const pg_store *s, size_t src);
/* A vector of n times the same value. */
void pg__take_constant(pg__take *t, uint64_t n, pg_dtype dtype, double value);
/* The same elements in another shape; 0 if the number of elements differs. */
int pg__take_show(pg__take *t, uint32_t rank, const uint64_t *dims);
/* Axis k of the new output is axis perm[k] of the old one. */
void pg__take_permute(pg__take *t, const uint32_t *perm);
/* Removes an axis of extent 1; of a longer one, keeps only index i. */
void pg__take_index(pg__take *t, uint32_t axis, uint64_t i);
/* Reorders the blocks along axis: the new block k is the old block order[k]. The extent must be a
 * multiple of n. 0 if it is already cut differently. */
int pg__take_reorder(pg__take *t, uint32_t axis, uint32_t n, const uint32_t *order);
/* Concatenates n tensors of one shape along axis. 0 if shapes differ. */
int pg__take_join(pg__take *t, const pg__take *parts, uint32_t n, uint32_t axis);
/* 1 if the output's bytes are the input's. */
int pg__take_is_copy(const pg__take *t, const pg_store *s);
uint64_t pg__take_bytes(const pg__take *t);
/* Shape of the output as the file says it; returns the rank. */
uint32_t pg__take_shape(const pg__take *t, uint64_t *dims);

/* Reads bytes [off, off + n) of such a tensor; through one window of bounded size. */
typedef struct pg__taker pg__taker;
typedef struct pg__rounding {
    double max_rel_error;
    uint64_t n_overflow, n_underflow;
} pg__rounding;
pg_status pg__taker_new(pg__taker **out, pg_store *src, size_t n_tensors, pg_err *err);
void pg__taker_free(pg__taker *r);
/* which: number of the tensor, so that rounding is counted once for each element. */
pg_status pg__taker_read(pg__taker *r, const pg__take *t, size_t which, uint64_t off, void *buf,
                         size_t n, pg_err *err);
const pg__rounding *pg__taker_rounding(const pg__taker *r);

/* ---- convert_round.c: float16, bfloat16, float32, float64 ---- */

/* n elements, in the byte order of this machine; rounds to nearest, ties to even. from and to may
 * be the same buffer only if the type is. stats may be NULL. */
void pg__round(void *to, pg_dtype to_type, const void *from, pg_dtype from_type, size_t n,
               pg__rounding *stats);

/* ---- convert_outline.c ---- */

typedef struct pg__out_tensor {
    char *name; /* owned */
    pg__take take;
} pg__out_tensor;

typedef struct pg__out_layer {
    char *name, *label; /* owned; label: the layer's own name where name is a path, or NULL */
    size_t first, n;
} pg__out_layer;

typedef enum pg__shape {
    PG_SHAPE_LAYERS, /* layers by name, trainable weights first: legacy files */
    PG_SHAPE_PATHS,  /* one group per object: .weights.h5, .keras */
    PG_SHAPE_FLAT    /* names only */
} pg__shape;

typedef struct pg__outline {
    pg__shape shape;
    pg__out_layer *layers;
    size_t n_layers, cap_layers;
    pg__out_tensor *tensors;
    size_t n_tensors, cap_tensors;
    pg__out_tensor *state; /* optimizer, metrics */
    size_t n_state, cap_state;
    pg__str model_config, training_config, metadata; /* n == 0: none */
    pg__str writer;
} pg__outline;

void pg__outline_fini(pg__outline *o);
pg_status pg__outline_layer(pg__outline *o, const char *name, const char *label, pg_err *err);
pg_status pg__outline_add(pg__outline *o, const char *name, const pg__take *t, pg_err *err);
pg_status pg__outline_add_state(pg__outline *o, const char *name, const pg__take *t, pg_err *err);
/* The outline of a plan, without conversion. */
pg_status pg__outline_of(pg__outline *out, const pg__plan *plan, pg_err *err);
/* Indices of the tensors sorted by name, for pg__outline_find(); pg__mem_free(). */
pg_status pg__outline_index(size_t **out, const pg__outline *o, pg_err *err);
size_t pg__outline_find(const pg__outline *o, const size_t *index, const char *name);
/* No two tensors may have one name: PG_E_UNSUPPORTED. */
pg_status pg__outline_check_names(const pg__outline *o, pg_err *err);

pg_status pg__outline_check_layers(const pg__outline *o, pg_err *err); /* PG_E_FORMAT */
/* Gives names that occur twice in one layer a number. */
pg_status pg__outline_unique(pg__outline *o, size_t layer, pg_err *err);
/* Changes the type of all floating-point weights; counters and optimizer state keep theirs. word:
 * as pg_convert_opts.dtype. */
pg_status pg__outline_dtype(pg__outline *o, const char *word, pg_err *err);
/* Takes layers, tensors and shape of *with, which gets the old ones. */
void pg__outline_replace(pg__outline *o, pg__outline *with);

/* The outline as a store that reads from src; both must outlive it. *rounding is borrowed from it.
 */
pg_status pg__outline_store(pg_store **out, const pg__rounding **rounding, const pg__outline *o,
                            pg_store *src, pg_err *err);
/* Transfers ownership to such a store, which releases it when it is closed. */
void pg__outline_hold(pg_store *s, void *held, void (*release)(void *held));

/* ---- the run ---- */

typedef enum pg__target { PG_TO_H5, PG_TO_WEIGHTS_H5, PG_TO_KERAS, PG_TO_SAFETENSORS } pg__target;

typedef struct pg__convert {
    pg__rewrite r; /* input, verdict, plan of what is converted, notes */
    const pg_convert_opts *o;
    pg__target target;
    pg__graph *graph; /* the description that the weights follow; NULL if there is none */
    int graph_is_own; /* it is the input's, so it may be written as the output's */
    int dialect;      /* Keras major version of the output */
    int keras1;       /* the input's kernels are Keras 1's */
    pg__shape from;   /* of the input */
    pg__outline at;   /* the outline so far */
    size_t n_transposed, n_hwio, n_class_paths;
} pg__convert;

/* Makes the outline of c->r.plan and finds the description that its tensors follow. Wants o, r and
 * target of c. */
pg_status pg__convert_begin(pg__convert *c, pg_err *err);
void pg__convert_fini(pg__convert *c);

/* How messages name the missing description, with the hint that asks for it. */
pg_status pg__convert_needs_model(const pg__convert *c, const char *what, pg_err *err);

/* ---- convert_slots.c: one variable of a model, by layer and by path ---- */

typedef struct pg__slot {
    size_t leaf, var; /* index into pg__slots.leaves and its variables; of the first of several */
    uint32_t n_gates; /* Keras 1: variables var, var + 3, ... that are one later; else 1 */
    const char *kind; /* "kernel" (static) */
    int trainable;
    char *path;   /* "layers/dense/vars/0", owned */
    char *copy;   /* where files with paths have it once more, owned; or NULL */
    char *name;   /* "dense/kernel:0", owned */
    char *object; /* where TensorFlow's object graph has it, "layer-1/kernel", owned */
    int filled;   /* take is set */
    pg__take take;
} pg__slot;

typedef struct pg__slot_group {
    char *path, *label; /* owned */
    const pg__layer *layer;
} pg__slot_group;

typedef struct pg__slots {
    pg__leaves leaves;
    size_t *first;    /* first slot of each leaf, and the end */
    char **leaf_path; /* group of each leaf, owned */
    pg__slot *v;
    size_t n, cap;
    pg__slot_group *groups;
    size_t n_groups, cap_groups;
    int attention; /* there is a layer whose groups Keras 2 and 3 name differently */
} pg__slots;

/* Slots of the model, in the order of its leaves and their variables. A leaf of an unknown class
 * has none. dialect: the Keras whose names the paths use; 1: for a legacy list. PG_E_UNSUPPORTED
 * names layers whose variables have no known place. */
pg_status pg__slots_of(pg__slots *out, const pg__graph *g, int dialect, pg_err *err);
void pg__slots_fini(pg__slots *s);
/* The name that Keras 2.15 and 3 give a renamed class. */
const char *pg__modern_class(const char *name);

/* ---- convert_keras1.c: kernels of Keras 1 ---- */

/* Makes slot->take from takes[k], that of variable k of its leaf: merges gates and converts kernels
 * as Keras 2 does on loading (FORMATS.md: "Conversions on load"). *why: what has no counterpart. */
void pg__keras1_take(pg__slot *slot, const pg__leaf *leaf, const pg__take *takes, const char **why);

/* ---- convert_torch.c: kernels transposed, names mapped ---- */

pg_status pg__torch(pg__convert *c, pg_err *err);

/* ---- convert_arrange.c: the same tensors by layer or by path ---- */

/* Changes c->at to the shape that the target needs. */
pg_status pg__arrange(pg__convert *c, pg__shape to, pg_err *err);
/* The model's slots, filled from c->at whatever its shape. */
pg_status pg__fill_slots(pg__slots *out, pg__convert *c, pg_err *err);
/* The tensors of filled slots as a legacy file lists them. */
pg_status pg__emit_layers(pg__outline *to, const pg__slots *s, const pg__graph *g, pg_err *err);

/* ---- convert_rename.c: --rename, on flat names ---- */

pg_status pg__rename(pg__convert *c, pg_err *err);

/* ---- convert_texts.c: the description in the output's form ---- */

/* Sets model_config, training_config and metadata of c->at for a legacy full model or a .keras, and
 * decides about the optimizer's state. */
pg_status pg__convert_texts(pg__convert *c, pg_err *err);

/* Drops and names the datasets beside the weights of a path layout, for which no other has a place
 * (convert.c). */
pg_status pg__convert_lose_beside(pg__convert *c, pg_err *err);

/* Who reads a training configuration that is written. */
typedef struct pg__words_for {
    int keras; /* 2 or 3 */
    int same;  /* it was that Keras' before; else the other one's */
    int zip;   /* in a .keras, else in an .h5 */
} pg__words_for;

/* convert_losses.c: the loss or the metrics s of a training configuration as `to` takes them. lost
 * gets the names of those that it cannot take: metrics are kept without them, a loss of which a
 * part is lost is null. */
pg_status pg__compile_words(pg__str *out, pg__strs *lost, const char *text, pg__json_span s,
                            int loss, pg__words_for to, pg_err *err);

/* ---- convert_flat.c: names and metadata of safetensors ---- */

/* "conv1/kernel" for weight "conv1/kernel:0" of layer conv1. */
pg_status pg__flat_name(pg__str *out, const char *layer, const char *weight, pg_err *err);
/* Layers to flat names; the rest goes into the metadata. */
pg_status pg__flatten(pg__convert *c, pg_err *err);
/* 1 if all names are those of the path layout. */
int pg__names_are_paths(const pg__outline *o);
/* And back; c->at is flat, and stays so if neither metadata nor names show the layers. */
pg_status pg__unflatten(pg__convert *c, pg_err *err);

#endif
