/* store.h - the contents of a checkpoint: layers in file order, each with its named tensors.
 *
 * Every file format is read into a pg_store and written from one. Opening reads names, shapes and
 * attributes only; tensor bytes stay in the file until pg_store_read() asks for them, so memory
 * use does not grow with the model.
 *
 *   order    layers and weights keep file order: Keras loads by position, not by name
 *   strings  UTF-8 as in the file, owned by the store, valid until pg_store_close()
 *   units    *_bytes are bytes, dims are elements, indices start at 0
 *   errors   on failure the out arguments are untouched and *err (if not NULL) is filled
 *   threads  a store may be used by one thread at a time; different stores are independent
 *
 *     pg_err err;
 *     pg_store *s = NULL;
 *     if (pg_store_open(&s, "model.h5", NULL, &err) != PG_OK)
 *         fprintf(stderr, "%s\n", err.msg);
 *     else
 *         for (size_t i = 0; i < pg_store_n_weights(s); i++)
 *             puts(pg_store_weight(s, i)->name);
 *     pg_store_close(s);
 */
#ifndef PG_STORE_H
#define PG_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PG_MAX_RANK 8 /* Keras layers use at most 5 */
#define PG_NONE     ((size_t)-1)

typedef enum pg_dtype {
    PG_F16,
    PG_BF16,
    PG_F32,
    PG_F64,
    PG_I8,
    PG_I16,
    PG_I32,
    PG_I64,
    PG_U8,
    PG_U16,
    PG_U32,
    PG_U64,
    PG_BOOL,
    PG_F8_E4M3, /* without infinities (OCP 8-bit floating point); safetensors holds them */
    PG_F8_E5M2
} pg_dtype;

/* numpy's word for a type ("float32", "bool"), or "bfloat16", "float8_e4m3fn", "float8_e5m2"; bytes
 * of one element. */
PG_API const char *pg_dtype_name(pg_dtype dtype);
PG_API size_t pg_dtype_bytes(pg_dtype dtype);

typedef struct pg_weight {
    const char *name;           /* as in the file, e.g. "conv1/kernel:0" */
    size_t layer;               /* index for pg_store_layer(), PG_NONE where files have no layers */
    pg_dtype dtype;             /* element type, whatever the byte order in the file */
    uint32_t rank;              /* 0 for a scalar */
    uint64_t dims[PG_MAX_RANK]; /* elements; dims[rank] and beyond are 0 */
    uint64_t n_bytes;           /* size in memory, without padding */
} pg_weight;

typedef struct pg_layer {
    const char *name; /* e.g. "model_1"; path layout: the owner's path, "layers/dense" */
    size_t first;     /* index of its first weight */
    size_t n_weights; /* 0 for layers such as Lambda */
} pg_layer;

typedef struct pg_store pg_store;

typedef struct pg_open_opts {
    int salvage; /* open what is left of a half-written or damaged file; see pg_store_damage */
    /* Of a checkpoint: which part to open, by its key ("model_ema"), nested keys joined with
     * dots ("nets.generator", "models.0"). "." is everything, each tensor under its path; "" is no
     * tensor, only the list of parts. Of DeepSpeed: "model" (float32, the default), "module" (as
     * trained), "optimizer". NULL: the only part that can be the model. PG_E_UNSUPPORTED:
     * a file of another format, or a part without tensors. */
    const char *part;
    /* Megatron-LM's ranks: what their files do not settle, with commas between: "megatron-core",
     * "megatron-lm-3" to "-0" (the order inside fused queries, keys and values); "heads=N";
     * "vocab=N", to cut off the padding of the vocabulary; "NAME=HOW", how a tensor is cut (NAME
     * may hold * and ?): 0, 1 (this axis), glu (two halves along axis 0), same (all ranks have it),
     * first (the same, not compared). Files of HuggingFaceStorageWriter: "ranks=N", how many ranks
     * there were. Files that ranks wrote with torch.save(): "NAME=first".
     * torch.distributed.checkpoint: "unstack", Megatron-Core wrote it, and stacked its layers;
     * "experts=sequential", "experts=grouped", "spec=local", "spec=te", which classes the model is
     * made of; "as-saved", tensors as they are in the files. NULL: nothing.
     * PG_E_UNSUPPORTED: the file is of none of them; PG_E_ARG: no tensor has that NAME. */
    const char *rules;
    /* Decompress chunks (of Orbax) on so many threads; more than 1 also read ahead while an output
     * is written or compared. 0: as many as there are processors. The bytes are the same. */
    size_t n_threads;
} pg_open_opts;

/* Opens a checkpoint of any known format, read-only. The contents determine the format; the file
 * name is ignored. opts may be NULL. The caller frees *out with pg_store_close().
 * Errors: PG_E_IO, PG_E_UNKNOWN (no format claims it; the message says what the file is),
 * PG_E_FORMAT (damaged), PG_E_LIMIT, PG_E_UNSUPPORTED, PG_E_NOMEM; PG_E_AMBIGUOUS: several parts
 * could be the model (the details list them, the hint is an option of the tools; opts.part "" opens
 * the file all the same, and pg_store_part() lists them); PG_E_ARG: no such part. Messages start
 * with the path. */
PG_API PG_MUST_USE pg_status pg_store_open(pg_store **out, const char *path,
                                           const pg_open_opts *opts, pg_err *err);

/* Frees the store and closes its file. NULL is allowed. Never fails. */
PG_API void pg_store_close(pg_store *s);

/* PG_OK while the file is unchanged since it was opened, by its size and time of change; PG_E_IO
 * (the message starts with the path) if somebody has written to it, because reads before and after
 * that are not of one file. libpg checks this before any output gets its name. Stores of several
 * files or of none are always PG_OK. */
PG_API PG_MUST_USE pg_status pg_store_check_same(const pg_store *s, pg_err *err);

/* Format in one word: "keras-h5-weights", "keras-h5-model", "keras-weights-h5", "keras-zip",
 * "keras-sharded", "safetensors", "pytorch-zip", "npz", ... Static string. */
PG_API const char *pg_store_format(const pg_store *s);

/* Who wrote it, e.g. "keras 2.2.4, tensorflow", or NULL if the file does not say. */
PG_API const char *pg_store_writer(const pg_store *s);

/* How a checkpoint of many processes or devices came about, in words ("saved by 4 ranks"), or NULL
 * for other files. */
PG_API const char *pg_store_ranks(const pg_store *s);

/* The same in numbers, as far as the files say them. */
typedef struct pg_rank_count {
    const char *kind; /* static: "ranks" (all), "data_parallel", "tensor_parallel",
                         "pipeline_parallel", "virtual_pipeline", "expert_parallel", "zero_stage"
                         (which), "data_files" */
    uint64_t n;
} pg_rank_count;
PG_API size_t pg_store_n_rank_counts(const pg_store *s);
PG_API const pg_rank_count *pg_store_rank_count(const pg_store *s, size_t i); /* NULL: none */

/* What is wrong with a store opened with opts.salvage, or NULL if nothing is. */
PG_API const char *pg_store_damage(const pg_store *s);

/* What the file holds besides the model's tensors, in words ("optimizer (14 tensors), epoch 3"), or
 * NULL. It is not read. */
PG_API const char *pg_store_others(const pg_store *s);

/* State that is neither an optimizer's nor a metric's: datasets that somebody put beside the
 * weights of a .weights.h5 or .keras, in words ("2 datasets beside the weights (extra, notes/x)"),
 * or NULL. Outputs of that layout keep them, others cannot. *n (NULL allowed): how many. */
PG_API const char *pg_store_beside(const pg_store *s, size_t *n);

/* The parts of a checkpoint: containers of tensors, and tensors beside them. A file that is nothing
 * but one model has none. */
typedef struct pg_part {
    const char *path; /* as pg_open_opts.part takes it */
    const char *kind; /* static: "model", "numbers" (each tensor is a single one), "tensor",
                         "number", "object" (of a class that only Python can build), "optimizer",
                         "scheduler", "scaler", "random generator" */
    uint64_t n_tensors, n_params; /* elements; 0 if not examined: for all that belongs to
                                     training */
    int is_model;                 /* it could be the model */
} pg_part;
PG_API size_t pg_store_n_parts(const pg_store *s);
PG_API const pg_part *pg_store_part(const pg_store *s, size_t i); /* borrowed; NULL: none */

/* Counts and borrowed views; an index out of range returns NULL. Weights belong to the model, state
 * to training (optimizer, metrics), in file order, with layer = PG_NONE. */
PG_API size_t pg_store_n_layers(const pg_store *s);
PG_API size_t pg_store_n_weights(const pg_store *s);
PG_API size_t pg_store_n_state(const pg_store *s);
PG_API const pg_layer *pg_store_layer(const pg_store *s, size_t i);
PG_API const pg_weight *pg_store_weight(const pg_store *s, size_t i);
PG_API const pg_weight *pg_store_state(const pg_store *s, size_t i);

/* How many pieces make up tensor i (weights, then state), copies not counted; those of a file that
 * one process wrote are whole. */
typedef struct pg_pieces {
    uint64_t n;    /* 1: it is whole */
    uint32_t axes; /* bit k: axis k is cut; 0: the row of all its elements is */
} pg_pieces;
PG_API pg_pieces pg_store_pieces(const pg_store *s, size_t i);

typedef enum pg_text { PG_TEXT_MODEL_CONFIG, PG_TEXT_TRAINING_CONFIG, PG_TEXT_METADATA } pg_text;

/* Borrowed text of a description (JSON), or NULL if the file has none; *n_bytes may be NULL. */
PG_API const char *pg_store_text(const pg_store *s, pg_text which, size_t *n_bytes);

/* Copies n_bytes of weight i, from byte off_bytes of its row-major data, into buf. There are no
 * short reads: after PG_OK all of buf is filled. Data is in this machine's byte order.
 * pg_store_read_state() does the same for state i.
 * Errors: PG_E_ARG if the range leaves the tensor, PG_E_IO, PG_E_FORMAT. */
PG_API PG_MUST_USE pg_status pg_store_read(pg_store *s, size_t i, uint64_t off_bytes, void *buf,
                                           size_t n_bytes, pg_err *err);
PG_API PG_MUST_USE pg_status pg_store_read_state(pg_store *s, size_t i, uint64_t off_bytes,
                                                 void *buf, size_t n_bytes, pg_err *err);

/* For a program that maps tensors into memory: the descriptor of the file that holds all bytes of
 * weight (or state) i as pg_store_read() would give them, in one piece from byte *off_bytes on. -1:
 * there is no such piece, because the tensor is compressed, chunked, empty or of the other byte
 * order, or there is no tensor i. The descriptor is borrowed from the store; a mapping made of it
 * may outlive both. */
PG_API int pg_store_place(const pg_store *s, size_t i, uint64_t *off_bytes);
PG_API int pg_store_place_state(const pg_store *s, size_t i, uint64_t *off_bytes);

#ifdef __cplusplus
}
#endif

#endif
