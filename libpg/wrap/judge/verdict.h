/* verdict.h - the judgement of a store, with the facts that the unwrapper needs. pg_inspect() is
 * the public part. */
#ifndef PG_WRAP_JUDGE_VERDICT_H
#define PG_WRAP_JUDGE_VERDICT_H

#include "wrap/judge/recogniser.h"

/* A weights-only file as its names show it: layers before and after the only one with weights. */
typedef struct pg__names {
    size_t n_weighted; /* layers with weights */
    size_t layer;      /* the only one, or PG_NONE */
    pg__strs inputs, slices, merges;
    int merges_named; /* every layer after it is named like a layer found inside it */
    int merge_class;  /* a layer after it has the default name of a class that merges */
} pg__names;

typedef struct pg__verdict {
    pg_finding f;
    pg__graph *graph; /* the file's model config; NULL if there is none, or it does not parse */
    char *misfit;     /* why the config could not be used, or NULL; owned */
    const pg__model *outer; /* config: the innermost wrapper around the template, or NULL */
    const pg__layer *tmpl;  /* config: the innermost template's entry, or NULL */
    size_t depth;           /* config: wrappers around it */
    size_t layer;           /* legacy: the store's layer that holds the template, or PG_NONE */
    pg__strs outputs;       /* config: names of the wrapper's outputs ... */
    pg__strs originals;     /* ... and of the template's outputs that they merge */
    pg__names names;        /* legacy without config */
    char *path;             /* path layout: the template's group, "layers/functional"; owned */
    pg__words words;        /* PyTorch */
} pg__verdict;

/* Starts as {0}. PG_OK for every verdict; errors: PG_E_NOMEM. */
pg_status pg__judge(pg__verdict *out, pg_store *s, pg_err *err);
void pg__verdict_fini(pg__verdict *v);

/* Parts of pg__judge(), one file each. */
pg_status pg__judge_config(pg__verdict *v, const pg_store *s, pg_err *err);
pg_status pg__judge_names(pg__verdict *v, const pg_store *s, pg_err *err);
pg_status pg__judge_paths(pg__verdict *v, const pg_store *s, pg_err *err);
pg_status pg__judge_prefix(pg__verdict *v, const pg_store *s, pg_err *err);

/* For them: verdict and reason in one statement; a line of evidence; lists of the finding. */
pg_status pg__verdict_set(pg__verdict *v, pg_verdict is, pg_err *err, const char *fmt, ...)
    PG_PRINTF(4, 5);
pg_status pg__evidence(pg__verdict *v, pg_err *err, const char *fmt, ...) PG_PRINTF(3, 4);
pg_status pg__finding_add(char ***list, size_t *n, const char *name, pg_err *err);

/* Sets the reason of a wrapper: "2 replicas (lambda, lambda_1), merged in "predictions"". */
pg_status pg__describe_wrapper(pg__verdict *v, const char *lead, pg_err *err);

/* next.c: the call that takes the model out; PG_DO_NOTHING where the whole of a shard is not there.
 * like: the model to give, NULL: needs_model where pg_unwrap_file() asks for one. */
void pg__next_action(pg_action *out, const pg_store *s, const pg_finding *f, const char *like);
/* The call that makes one file of what ranks saved; PG_DO_NOTHING for other files. */
void pg__next_join(pg_action *out, const pg_store *s);

/* 1 if weights are stored by layers as Keras' legacy layout does; 1 for the path layout. */
int pg__store_is_legacy(const pg_store *s);
int pg__store_is_paths(const pg_store *s);
int pg__store_has_paths(const pg_store *s); /* the same, or the shards of such a file */

/* Names. The owner of "a/b/forward_lstm/kernel:0" is the path "a/b" ("dense_1" of the flat
 * "dense_1_W:0" of Keras 1); returns its length. */
size_t pg__owner_len(const char *weight_name);

/* Length of a layer's name in the names of its weights: those of "a/" are "a/kernel:0" or
 * "a//query/kernel:0". */
size_t pg__layer_len(const char *name);
size_t pg__path_len(const char *path, size_t n); /* the same for n bytes */
/* Length of name without a final _<digits>. */
size_t pg__stem_len(const char *name);

#endif
