/* megatron.h - checkpoints of Megatron-LM, a file for each rank: mp_rank_TT[_PPP][_EEE] holds what
 * a tensor parallel rank has of the layers of a pipeline stage, and of their experts.
 * megatron_paths.c finds the files, megatron_args.c reads what the job says about itself,
 * megatron_ranks.c opens all ranks, megatron_rules.c knows which tensor is cut in which way,
 * megatron_merge.c puts the model together, fmt_megatron.c makes the store. FORMATS.md:
 * "Megatron-LM". */
#ifndef PG_FORMAT_MEGATRON_H
#define PG_FORMAT_MEGATRON_H

#include "base/pickle.h"
#include "base/str.h"
#include "io/io.h"
#include "store/tiles.h"

/* ---- megatron_paths.c ---- */

/* A folder of a rank; absent numbers are 0. */
typedef struct pg__megatron_rank {
    uint64_t at[3];   /* of its name, in their order */
    unsigned n_parts; /* how many it has: 1 to 3 */
    char *file;       /* "mp_rank_00_001/model_optim_rng.pt"; owned */
} pg__megatron_rank;

typedef struct pg__megatron_ranks {
    pg__megatron_rank *v; /* sorted by number */
    size_t n, cap;
} pg__megatron_ranks;

/* The ranks beside that of `path`, a rank's file. PG_E_UNKNOWN if the path is not one. */
pg_status pg__megatron_list(pg__megatron_ranks *out, const char *path, pg_err *err);
void pg__megatron_ranks_fini(pg__megatron_ranks *r);

/* The file to open for a folder: of a job (whose latest_checkpointed_iteration.txt names an
 * iteration), of an iteration or of a rank. It is a rank's, or the .metadata of torch_dist; *out
 * stays NULL if there is neither. */
pg_status pg__megatron_in_folder(char **out, const char *folder, pg_err *err);

/* The same for the path of a latest_checkpointed_iteration.txt. */
pg_status pg__megatron_of_path(char **out, const char *path, pg_err *err);

/* Other iterations in the folder above that of `path`: "iter_0000050, iter_0000200". */
pg_status pg__megatron_iterations(pg__str *out, const char *path, pg_err *err);

/* ---- megatron_args.c ---- */

/* Arguments of the job. 0: not known; of a yes or no: 1 no, 2 yes. */
#define PG_MEGATRON_ARGS(X)                                \
    X(tensor_model_parallel_size)                          \
    X(model_parallel_size) /* its name before version 2 */ \
    X(pipeline_model_parallel_size)                        \
    X(expert_model_parallel_size)                          \
    X(expert_tensor_parallel_size)                         \
    X(num_layers)                                          \
    X(encoder_num_layers)                                  \
    X(decoder_num_layers)                                  \
    X(hidden_size)                                         \
    X(num_attention_heads)                                 \
    X(group_query_attention)                               \
    X(num_query_groups)                                    \
    X(kv_channels)                                         \
    X(ffn_hidden_size)                                     \
    X(num_experts)                                         \
    X(moe_grouped_gemm)                                    \
    X(moe_use_legacy_grouped_gemm)                         \
    X(padded_vocab_size)                                   \
    X(swiglu)                                              \
    X(untie_embeddings_and_output_weights)                 \
    X(multi_latent_attention)                              \
    X(attention_output_gate)                               \
    X(heterogeneous_layers_config_path)

typedef struct pg__megatron_args {
    int there;    /* the file has arguments */
    int is_local; /* "transformer_impl" is "local": 2; is another: 1; 0: not said */
#define PG_MEGATRON_ARG(name) uint64_t name;
    PG_MEGATRON_ARGS(PG_MEGATRON_ARG)
#undef PG_MEGATRON_ARG
} pg__megatron_args;

/* What a rank's file says beside the model. */
typedef struct pg__megatron_facts {
    pg__megatron_args args;
    int64_t iteration; /* -1: not said */
    int version;       /* of the checkpoint: 0 to 3; -1: not said */
    size_t n_models;   /* 1, or how many stages a rank has of a virtual pipeline; 0: this is not a
                          file of Megatron's */
    int is_numbered;   /* "model0" ..., not "model" */
} pg__megatron_facts;

pg_status pg__megatron_facts_of(pg__megatron_facts *out, const pg__pickle *p, pg_err *err);

/* ---- megatron_rules.c ---- */

typedef enum pg__megatron_cut {
    PG_MEGATRON_UNKNOWN,
    PG_MEGATRON_SAME,    /* every rank has it */
    PG_MEGATRON_FIRST,   /* every rank has one, of which the first is taken */
    PG_MEGATRON_ROWS,    /* along axis 0 */
    PG_MEGATRON_COLUMNS, /* along axis 1 */
    PG_MEGATRON_GATED,   /* along axis 0 in two halves, if what follows it shows that it has them */
    PG_MEGATRON_HALVES,  /* along axis 0 in two halves */
    PG_MEGATRON_QKV,     /* along axis 0; before version 2 queries, keys, values in another order */
    PG_MEGATRON_KV
} pg__megatron_cut;

/* What the user adds to what the files say. */
typedef struct pg__megatron_rules {
    int version;    /* -1: not said */
    uint64_t heads; /* 0: not said */
    uint64_t words; /* of the vocabulary, without padding; 0: not said */
    pg__strs patterns;
    pg__megatron_cut *cuts; /* by pattern */
    unsigned char *used;    /* by pattern: a tensor has such a name */
    size_t cap;
} pg__megatron_rules;

/* Of "megatron-core", "megatron-lm-2" ..., "heads=N", "vocab=N", "PATTERN=0" and so on, with commas
 * between them; NULL: nothing. PG_E_ARG. */
pg_status pg__megatron_rules_read(pg__megatron_rules *out, const char *text, pg_err *err);
void pg__megatron_rules_fini(pg__megatron_rules *r);
/* After all tensors were asked for: PG_E_ARG if a pattern is of none. */
pg_status pg__megatron_rules_check(const pg__megatron_rules *r, pg_err *err);

/* By the user's rules (*given), else by Megatron's. */
pg__megatron_cut pg__megatron_rule(const pg__megatron_rules *r, const char *name, int *given);

/* ---- megatron_ranks.c ---- */

typedef struct pg__megatron {
    pg__megatron_facts facts; /* of the first rank */
    pg__megatron_rules rules;
    uint64_t tp, pp, ep;      /* ranks of each kind */
    size_t n_stages;          /* pipeline ranks by models of each, in the order of the layers */
    pg_store **v;             /* by stage, expert rank, tensor rank; NULL: holds nothing */
    pg__megatron_ranks ranks; /* those of the first stage, ... by pipeline, expert, tensor rank */
    size_t n_optimizers;      /* files of the distributed optimizer */
    int folder;               /* files that rest are opened from it; -1: not open */
} pg__megatron;

/* Opens the ranks beside `path`, a rank's file. */
pg_status pg__megatron_read(pg__megatron *out, const char *path, const char *rules, pg_err *err);
void pg__megatron_fini(pg__megatron *m);

pg_store *pg__megatron_store(const pg__megatron *m, size_t stage, uint64_t e, uint64_t t);
/* "mp_rank_00_001" */
pg__shown pg__megatron_rank_name(const pg__megatron *m, size_t stage, uint64_t e, uint64_t t);

/* ---- megatron_merge.c ---- */

/* A rank's tensor, or a part of it, as a piece. */
typedef struct pg__megatron_piece {
    pg_store *s;
    size_t tensor;
    uint64_t first;     /* element of the rank's tensor */
    size_t stage, e, t; /* whose it is */
    size_t copy;        /* another that must be equal, or PG_NONE */
} pg__megatron_piece;

/* Rows of a rank's tensor in an order before version 2: [splits][heads][size] (0) or
 * [heads][size][splits] (1), to become [heads][splits][size]. */
typedef struct pg__megatron_order {
    int version;
    uint64_t splits, heads, size; /* splits 0: as they are */
} pg__megatron_order;

typedef struct pg__megatron_tensor {
    char *name; /* owned */
    pg_dtype dtype;
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK];
    pg__megatron_order order;
    pg__tiled tiled;
    size_t cap;
} pg__megatron_tensor;

typedef struct pg__megatron_model {
    pg__megatron_tensor *v;
    size_t n, cap;
    pg__megatron_piece *pieces; /* tile.source; and their copies */
    size_t n_pieces, cap_pieces;
    size_t n_extra; /* Transformer Engine's _extra_state, left out */
    size_t n_tied;  /* copies of the word embeddings, left out */
    int is_core;    /* names of Megatron-Core */
    int is_reordered;
} pg__megatron_model;

pg_status pg__megatron_merge(pg__megatron_model *out, const pg__megatron *m, pg_err *err);
void pg__megatron_model_fini(pg__megatron_model *l);

/* n bytes from byte off of a piece, its rows in order; row: bytes. */
pg_status pg__megatron_read_piece(const pg__megatron_piece *p, const pg__megatron_tensor *t,
                                  uint64_t off, void *buf, size_t n, pg_err *err);

#endif
