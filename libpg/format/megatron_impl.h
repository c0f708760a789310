/* megatron_impl.h - between megatron_merge.c, which walks over stages and names, and
 * megatron_cut.c, which puts one tensor together. */
#ifndef PG_FORMAT_MEGATRON_IMPL_H
#define PG_FORMAT_MEGATRON_IMPL_H

#include "base/index.h"
#include "format/megatron.h"

/* Layers below one prefix ("decoder.layers."). */
typedef struct pg__megatron_run {
    char *prefix;          /* owned */
    uint64_t before, here; /* layers of the stages before this one, and of this one so far */
} pg__megatron_run;

typedef struct pg__megatron_merging {
    pg__megatron_model *l;
    const pg__megatron *m;
    size_t stage;
    pg__megatron_run *runs;
    size_t n_runs, cap_runs;
    pg__index *names;  /* of the stage's files, by expert and tensor rank; made when it is needed */
    pg__index earlier; /* the tensors of earlier stages that are in no layer, by name */
    pg_err *err;
} pg__megatron_merging;

/* A tensor of the stage, of which every tensor parallel rank has a part. */
typedef struct pg__megatron_part {
    const char *name; /* in the output */
    const char *own;  /* in the file */
    uint64_t e;       /* of an expert: the expert rank that has it; else 0 */
    int is_expert;
    size_t at; /* in the first rank's store */
    const pg_weight *w;
} pg__megatron_part;

/* *out: the number of a rank's tensor of the stage, by its name, or PG_NONE; guess: a likely one.
 */
pg_status pg__megatron_find(size_t *out, const pg__megatron_merging *g, uint64_t e, uint64_t t,
                            const char *name, size_t guess);

/* Is it one of the layers and embeddings that the arguments describe? */
int pg__megatron_is_plain(const char *name);
int pg__megatron_is_expert(const char *name);

/* Puts the parts together, as a new tensor of the model. */
pg_status pg__megatron_add_tensor(pg__megatron_merging *g, const pg__megatron_part *x);
/* They must be what the same ranks have of t, of an earlier stage. */
pg_status pg__megatron_add_repeated(pg__megatron_merging *g, pg__megatron_tensor *t,
                                    const pg__megatron_part *x);

#endif
