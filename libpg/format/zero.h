/* zero.h - checkpoints of DeepSpeed's ZeRO: the float32 weights of a model, cut into equal parts
 * among the ranks. zero_files.c opens the files, zero_ranks.c reads those of the optimizer,
 * zero_model.c those of the module, zero_job.c all of them; zero_cut.c says where each parameter
 * is, zero_rest.c where everything else is, zero_slices.c how slices of tensor parallelism fit
 * together; fmt_zero.c makes the store. FORMATS.md: "DeepSpeed ZeRO". */
#ifndef PG_FORMAT_ZERO_H
#define PG_FORMAT_ZERO_H

#include "base/index.h"
#include "base/str.h"
#include "format/shards.h"
#include "io/io.h"
#include "store/tiles.h"

/* What is taken from a checkpoint. */
typedef enum pg__zero_what {
    PG_ZERO_MASTER,  /* the float32 weights that the optimizer updates */
    PG_ZERO_TRAINED, /* the weights of the module, in the type of training */
    PG_ZERO_STATE,   /* the optimizer's averages */
    PG_ZERO_NONE,    /* nothing: only what the parts are */
    PG_ZERO_ALL      /* masters, and the averages beside them */
} pg__zero_what;

/* A parameter as model_states describes it. */
typedef struct pg__zero_param {
    char *name; /* owned */
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK], n; /* n: elements */
    uint64_t gap;                  /* elements of padding after it, stages 1 and 2 */
} pg__zero_param;

typedef struct pg__zero_group {
    pg__zero_param *v;
    size_t n, cap;
    uint64_t parts; /* ranks that hold it together; fewer than all: each set of ranks has its own
                       experts */
} pg__zero_group;

/* Tied: `name` is another name of `of`. */
typedef struct pg__zero_tie {
    char *name, *of; /* owned */
} pg__zero_tie;

/* How the ranks of tensor parallelism cut the parameters that match a pattern. */
typedef enum pg__zero_rule_kind {
    PG_ZERO_REPLICATED,
    PG_ZERO_AVERAGED,
    PG_ZERO_COLUMNS,    /* along axis 1 */
    PG_ZERO_VOCABULARY, /* rows beyond the vocabulary are padding; another rule says the axis */
    PG_ZERO_SUBS,       /* each of several parts in a row is cut by itself */
    PG_ZERO_UNKNOWN     /* DeepSpeed itself cannot merge it */
} pg__zero_rule_kind;

typedef struct pg__zero_rule {
    pg__zero_rule_kind kind;
    char *pattern; /* owned */
    uint64_t n;    /* SUBS: how many parts; VOCABULARY: rows */
    uint64_t
        *widths; /* SUBS: rows of part i on slice k: widths[i * slices + k]; NULL: equal parts */
} pg__zero_rule;

#define PG_ZERO_UNREAD (-2)

/* What model_states and optim_states of one mp_rank_XX say: of all, or of one slice of tensor
 * parallelism or stage of a pipeline. */
typedef struct pg__zero {
    unsigned slice; /* XX */
    int stage;
    int universal; /* ds_to_universal.py made it: a file for each parameter */
    uint64_t n_ranks;
    int64_t step; /* of the optimizer on the first rank; -1: unknown, or PG_ZERO_UNREAD */
    int64_t saved_at, updates; /* by model_states: steps of the job, and those that were not
                                  skipped; -1: unknown */
    char *ranks_say;           /* ds_version of the first optim_states, or NULL */
    pg_store **flat;           /* by rank: the float32 parts, a tensor for each group */
    pg_store **state;  /* by rank: the optimizer's tensors, "GROUP.exp_avg"; NULL: not asked for */
    pg_store **frozen; /* by rank: parts of parameters that are not trained; NULL: none. Stages 1
                          and 2: whole, of the first rank alone */
    pg_store *module; /* what the first rank keeps as the module: buffers, and in stages 1 and 2 the
                         parameters as they were trained; NULL: nothing */
    pg__index in_module;    /* its tensors by name */
    pg__zero_group *groups; /* in the order of the flat parts */
    size_t n_groups;
    pg__zero_group frozen_params;
    pg__strs buffers; /* names */
    pg__index in_buffers;
    pg__strs names; /* of the module, in its order */
    pg__zero_tie *ties;
    size_t n_ties;
    uint64_t *experts; /* by layer of experts: how many */
    size_t n_experts;
    pg__zero_rule *rules;
    size_t n_rules, cap_rules;
    int has_rules; /* there is a universal_checkpoint_info */
    char *writer;  /* "deepspeed 0.14.2" or NULL */
} pg__zero;

/* A file with tensors of its own: an expert, a layer of a pipeline, a parameter of a universal
 * checkpoint. */
typedef struct pg__zero_extra {
    char *name;      /* of the parameter, or what precedes the names of its tensors; owned */
    const char *key; /* of a universal checkpoint: "fp32", "exp_avg"; static */
    int trained;     /* ... and whether the optimizer has the parameter */
    pg_store *s;
} pg__zero_extra;

typedef struct pg__zero_job {
    pg__zero *slices; /* tensor parallelism, or stages of a pipeline */
    size_t n_slices;
    int pipeline;
    pg__zero_extra *experts, *layers, *params;
    size_t n_experts, n_layers, n_params, cap_experts, cap_params;
    int folder; /* files that rest are opened from it */
    pg__zero_what what;
} pg__zero_job;

/* Reads the files of all ranks beside `path`, an optim_states file of the first rank, or
 * model_states of a universal checkpoint. */
pg_status pg__zero_read(pg__zero_job *out, const char *path, pg__zero_what what, pg_err *err);
void pg__zero_job_fini(pg__zero_job *job);
void pg__zero_fini(pg__zero *z);

/* ---- zero_paths.c ---- */

/* The optim_states file of the first rank: of the step that the file "latest" in a folder names, or
 * of the folder itself; or the first model_states of a universal checkpoint. *out stays NULL if
 * there is none. */
pg_status pg__zero_in_folder(char **out, const char *folder, pg_err *err);
/* The same beside another file of a rank. */
pg_status pg__zero_of_path(char **out, const char *path, pg_err *err);
/* Whether `path`, a model_states, is of a universal checkpoint. */
pg_status pg__zero_is_universal(int *is, const char *path, pg_err *err);

/* ---- zero_cut.c ---- */

/* Where the elements of one tensor are. */
typedef struct pg__zero_source {
    pg_store *s;
    size_t tensor;
    uint64_t first; /* element */
    uint64_t rank;  /* of the flat parts: whose, and which group */
    size_t group;
} pg__zero_source;

typedef struct pg__zero_tensor {
    const char *name;  /* of pg__zero, or of pg__zero_cut.made */
    const char *param; /* whose rules it follows: itself, or the parameter of an average */
    pg_dtype dtype;    /* of the store; float32 that is read as a smaller type has its row.elem */
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK];
    pg__tiled row; /* all elements in a row; tile.source: of pg__zero_cut.sources */
} pg__zero_tensor;

typedef struct pg__zero_cut {
    pg__zero_tensor *v;
    size_t n, cap;
    pg__zero_source *sources;
    size_t n_sources, cap_sources;
    pg__strs made; /* names that are in no file */
} pg__zero_cut;

/* Every tensor of a slice that is asked for, in the order of the module. PG_E_FORMAT if the parts
 * do not hold just these. */
pg_status pg__zero_cut_of(pg__zero_cut *out, const pg__zero_job *job, const pg__zero *z,
                          pg_err *err);
void pg__zero_cut_fini(pg__zero_cut *c);

/* n bytes from byte off of the row of a tensor, in the type in which it is stored. */
pg_status pg__zero_row_read(const pg__zero_cut *c, const pg__tiled *row, uint64_t off, void *buf,
                            size_t n, pg_err *err);

/* ---- zero_step.c ---- */

/* If model_states of stages 1 and 2 have seen another number of updates than the optimizer, whose
 * masters are in c, they must still begin with the same weights: a job that was resumed without its
 * optimizer counts anew. */
pg_status pg__zero_check_module(const pg__zero_cut *c, const pg__zero *z, pg_err *err);

/* ---- zero_rest.c ---- */

/* A new tensor, NULL without memory; elements first ... first + n of a source become
 * the next of t. */
pg__zero_tensor *pg__zero_add(pg__zero_cut *c, const char *name, pg_dtype dtype, uint32_t rank,
                              const uint64_t *dims);
pg_status pg__zero_add_run(pg__zero_cut *c, pg__zero_tensor *t, size_t *cap, pg__zero_source in,
                           uint64_t n, pg_err *err);
/* A whole tensor of a store; name: borrowed. */
pg_status pg__zero_add_whole(pg__zero_cut *c, pg_store *s, size_t i, const char *name, pg_err *err);

/* Frozen parameters, buffers, tied names, experts and layers, and what else the module has. */
pg_status pg__zero_add_rest(pg__zero_cut *c, const pg__zero_job *job, const pg__zero *z,
                            pg_err *err);

/* ---- zero_experts.c ---- */

/* Which ranks hold a group together: first, first + step, ... */
typedef struct pg__zero_lane {
    uint64_t first, step, n;
} pg__zero_lane;

/* Set k of the ranks that hold group g; there are n_ranks / parts. */
pg__zero_lane pg__zero_lane_of(const pg__zero *z, size_t g, uint64_t k);
/* The name of an expert's parameter in the model of set k: ranks count their own experts only. */
pg_status pg__zero_expert_name(const char **out, pg__zero_cut *c, const pg__zero *z,
                               const char *name, uint64_t k, pg_err *err);
/* The master weights of tensor i, rounded, must begin as the expert in its own file does: which set
 * of ranks holds which experts is known by it. */
pg_status pg__zero_check_expert(const pg__zero_cut *c, const pg__zero_job *job, size_t i,
                                pg_err *err);
/* n floats as float16 or bfloat16, to nearest, ties to even. */
void pg__zero_round(uint16_t *out, const float *in, size_t n, pg_dtype dtype);

/* ---- zero_slices.c ---- */

typedef struct pg__zero_merged {
    size_t slice, tensor; /* of the cut that has its name and type */
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK];
    pg__tiled box; /* tile.source: of pieces; box.n is 0 if the slice has all of it */
} pg__zero_merged;

typedef struct pg__zero_piece {
    size_t slice, tensor;
    uint64_t first; /* element */
} pg__zero_piece;

typedef struct pg__zero_whole {
    pg__zero_cut *cuts; /* by slice */
    size_t n_cuts;
    pg__zero_merged *v;
    size_t n, cap;
    pg__zero_piece *pieces;
    size_t n_pieces, cap_pieces;
    uint64_t steps; /* that comparisons of names with patterns may still take */
} pg__zero_whole;

/* The tensors of all slices together. PG_E_UNSUPPORTED if nothing says along which axis one is cut;
 * PG_E_FORMAT if copies that must be equal are not. */
pg_status pg__zero_whole_of(pg__zero_whole *out, const pg__zero_job *job, pg_err *err);
void pg__zero_whole_fini(pg__zero_whole *w);

/* ---- zero_match.c ---- */

/* 1 if the pattern, a regular expression of Python, matches the beginning of text, as re.match()
 * decides it; 0 if not; -1 if it has parts that are not read here: groups, alternatives, counts; or
 * if it takes too long. *budget: steps that all calls together may take. */
int pg__zero_match(const char *pattern, const char *text, uint64_t *budget);

#endif
