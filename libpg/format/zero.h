/* zero.h - checkpoints of DeepSpeed's ZeRO: the float32 weights of a model, cut into equal parts
 * among the ranks. zero_ranks.c reads the files of all ranks, zero_cut.c says where each parameter
 * is in them, fmt_zero.c makes the store. FORMATS.md: "DeepSpeed ZeRO". */
#ifndef PG_FORMAT_ZERO_H
#define PG_FORMAT_ZERO_H

#include "base/str.h"
#include "io/io.h"
#include "store/tiles.h"

/* A parameter as model_states describes it. */
typedef struct pg__zero_param {
    char *name; /* owned */
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK], n; /* n: elements */
} pg__zero_param;

typedef struct pg__zero_group {
    pg__zero_param *v;
    size_t n, cap;
} pg__zero_group;

/* Tied: `name` is another name of `of`. */
typedef struct pg__zero_tie {
    char *name, *of; /* owned */
} pg__zero_tie;

typedef struct pg__zero {
    int stage;
    uint64_t n_ranks;
    pg_store **flat;   /* by rank: the float32 parts, a tensor for each group */
    pg_store **frozen; /* by rank: parts of parameters that are not trained; NULL: none. Stages 1 and
                          2: whole, of the first rank alone */
    pg_store *module;  /* what the first rank keeps as the module: buffers, and in stages 1 and 2 the
                          parameters as they were trained; NULL: nothing */
    pg__zero_group *groups; /* in the order of the flat parts */
    size_t n_groups;
    pg__zero_group frozen_params;
    pg__strs buffers; /* names */
    pg__strs names;   /* of the module, in its order */
    pg__zero_tie *ties;
    size_t n_ties;
    char *writer; /* "deepspeed 0.14.2" or NULL */
} pg__zero;

/* Reads the files of all ranks beside `path`, an optim_states file. */
pg_status pg__zero_read(pg__zero *out, const char *path, pg_err *err);
void pg__zero_fini(pg__zero *z);

/* ---- zero_paths.c ---- */

/* The optim_states file of the first rank: of the step that the file "latest" in a folder names, or
 * of the folder itself. *out stays NULL if there is none. */
pg_status pg__zero_in_folder(char **out, const char *folder, pg_err *err);
/* The same beside another file of a rank. */
pg_status pg__zero_of_path(char **out, const char *path, pg_err *err);

/* ---- zero_cut.c ---- */

/* Where the elements of one tensor are. */
typedef struct pg__zero_source {
    pg_store *s;
    size_t tensor;
    uint64_t first; /* element */
} pg__zero_source;

typedef struct pg__zero_tensor {
    const char *name; /* of pg__zero */
    pg_dtype dtype;
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK];
    pg__tiled tiled; /* of all elements in a row */
} pg__zero_tensor;

typedef struct pg__zero_cut {
    pg__zero_tensor *v;
    size_t n, cap;
    pg__zero_source *sources; /* tile.source */
    size_t n_sources, cap_sources;
} pg__zero_cut;

/* Every parameter, frozen parameter, buffer and tied name, in the order of the module. PG_E_FORMAT
 * if the parts do not hold just these. */
pg_status pg__zero_cut_of(pg__zero_cut *out, const pg__zero *z, pg_err *err);
void pg__zero_cut_fini(pg__zero_cut *c);

#endif
