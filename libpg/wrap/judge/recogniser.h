/* recogniser.h - one kind of wrapper = one rec_<name>.c that defines `const pg__recogniser
 * pg__rec_<name>`, one line in recognisers.def and one test tests/wrap/judge/test_rec_<name>.c (the
 * build stops without it).
 *
 * wrap/judge/verdict.c judges, by structure, what all data-parallel wrappers share: one nested
 * model, called G times on slices, merged along axis 0. A recogniser answers the question that
 * differs: do these layers cut the batch into the G parts, and how certain is it? The first one in
 * table order that gives an answer decides. */
#ifndef PG_WRAP_JUDGE_RECOGNISER_H
#define PG_WRAP_JUDGE_RECOGNISER_H

#include "model/graph/graph.h"
#include "pg/inspect.h"

/* The layers between the wrapper's inputs and the calls of the template: the one that feeds input k
 * of call c is layers[c * n_inputs + k]. */
typedef struct pg__slices {
    const pg__layer *const *layers;
    size_t n_inputs, n_replicas;
} pg__slices;

typedef enum pg__saying {
    PG_SAYS_NOTHING,   /* not this kind */
    PG_SAYS_CERTAINLY, /* the arguments give part k of G for every call */
    PG_SAYS_LIKELY,    /* slices of this kind that do not show which part they take */
    PG_SAYS_OTHERWISE  /* this kind, but its numbers contradict the number of calls */
} pg__saying;

/* Words that wrappers of PyTorch put into the names of tensors, between dots. */
enum { PG_N_WORDS = 10 };
typedef struct pg__words {
    size_t n[PG_N_WORDS]; /* per word of the table: number of names from which it is removed */
    size_t n_names;       /* names that change */
    unsigned leading;     /* bit k: word k is a wrapper's at the beginning of every name */
    size_t prefix; /* length, if the same prefix is removed from every name but the counter's, and
                      nothing else; otherwise 0 */
    size_t
        counter; /* a tensor of the wrapper itself, AveragedModel's n_averaged; otherwise PG_NONE */
    size_t odd;  /* a name with an unknown part that looks like a wrapper's, or PG_NONE */
    char odd_part[64];
    int odd_is_flat; /* it is FSDP's flat parameter */
    int within;      /* "module" goes before "_orig_mod" within names, too */
    /* A name in which "module" stays that is the only child of its level, a DataParallel's or one
     * that people call so, and the bytes before it; else PG_NONE. */
    size_t inner, inner_at;
} pg__words;

/* `name` without the words that w found; out has room for all of it. */
void pg__words_strip(char *out, const pg__words *w, const char *name);
/* 1 if the names are those of copies, which must be the same. */
int pg__words_are_copies(const pg__words *w);
/* Which word stands at the beginning of name, with more after it, and its bytes with the dot;
 * PG_NONE if none does. */
size_t pg__word_at(const char *name, size_t *n);
/* The k-th word and who writes it. */
const char *pg__word(size_t k);
const char *pg__word_writer(size_t k);

typedef struct pg__recogniser {
    const char *name; /* shown to users: "multi_gpu_model" */
    const char *doc;  /* one line: its writers, its form */
    /* What the slices of a config say; NULL: this kind has no config. */
    pg__saying (*slices)(const pg__slices *s);
    /* 1 if a layer name looks like such a slice in a file without config; NULL: names show
     * nothing. */
    int (*slice_name)(const char *layer_name);
    int not_one_each; /* other layers than slices have such names, too: their number is not that of
                         the replicas */
    int writes_names; /* a wrapper whose layers have names, but no config, counts as this kind */
    /* Names alone, for files without layers (PyTorch): what wrappers added to them. NULL: not of
     * this kind. */
    pg_status (*words)(pg__words *out, const pg_store *s, pg_err *err);
} pg__recogniser;

#define PG_RECOGNISER(name) extern const pg__recogniser pg__rec_##name;
#include "wrap/judge/recognisers.def"
#undef PG_RECOGNISER

/* All recognisers in table order, NULL-terminated. */
const pg__recogniser *const *pg__recognisers(void);

/* What a file without config shows by its names alone: the kind that writes such names; 1 if a
 * layer is named like a slice; 1 if it is one of several for each replica. */
const char *pg__named_kind(void);
int pg__is_slice_name(const char *layer_name);
int pg__is_not_one_each(const char *layer_name);

/* Shared by recognisers (wrap/judge/roles.c). */

/* The object that holds a slice's numbers: a Lambda's "arguments", another class's config. */
const pg__json *pg__slice_args(const pg__layer *layer);

/* 1 if every slice has integers under both keys; *agree is 1 if the first runs over 0..G-1 for each
 * input and the second is G everywhere. */
int pg__slices_have(const pg__slices *s, const char *index_key, const char *count_key, int *agree);

/* 1 if some pair of integer arguments, whatever their keys, plays those two roles. */
int pg__slices_play_roles(const pg__slices *s);

/* 1 if the slices are ranges of one size that follow each other: {start: k * size, size} or
 * {k, "size" or the like: size}. */
int pg__slices_are_ranges(const pg__slices *s);

/* 1 if a layer of this class may cut a batch: Lambda, TensorFlow's op layers for slices and splits,
 * custom classes that say "slice", "split" or "shard" in their name. */
int pg__may_slice(const pg__layer *layer);

#endif
