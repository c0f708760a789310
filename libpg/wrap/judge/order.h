/* order.h - finds the order of a template's layers from its wrapper's weight names alone, and
 * accepts it only if no other order is possible (nine tests, see order.c). */
#ifndef PG_WRAP_JUDGE_ORDER_H
#define PG_WRAP_JUDGE_ORDER_H

#include "wrap/judge/verdict.h"

/* The kind of one layer of the template, as far as its variables show. */
typedef enum pg__kind {
    PG_KIND_OTHER,
    PG_KIND_DENSE,
    PG_KIND_CONV, /* also separable, depthwise, transposed and ConvLSTM */
    PG_KIND_EMBEDDING,
    PG_KIND_RECURRENT,
    PG_KIND_NORM
} pg__kind;

typedef struct pg__group {
    char *name;      /* the layer's name in the output; owned */
    const char *key; /* start of its weights' names, n_key bytes; borrowed from the store */
    size_t n_key;
    size_t first,
        n; /* its weights without the statistics: index of the first in the layer's list, number */
    size_t n_stats; /* its statistics, at the end of the list */
    pg__kind kind;
    uint64_t in, out; /* widths in a plain stack */
    uint64_t out2;    /* the other width a Bidirectional may give, or 0 */
    char *skeleton;   /* name with '#' for every number; owned */
    size_t prev;      /* the nearest earlier group with the same skeleton, or PG_NONE */
} pg__group;

typedef struct pg__order {
    pg__group *groups; /* in the order of the layers */
    size_t n, cap;
    size_t *group_of; /* per weight of the layer */
    size_t n_weights;
    int stripped; /* layer names are those of the weights without a final _<digits> */
} pg__order;

/* Groups the weights of store layer v->layer, in their order. A single layer needs no proof;
 * otherwise PG_E_AMBIGUOUS says which evidence is missing. `named`: the user named the template, so
 * an unclear verdict is accepted. */
pg_status pg__order_infer(pg__order *out, const pg__verdict *v, const pg_store *s, int named,
                          pg_err *err);
void pg__order_fini(pg__order *o);

/* 1 for a normalisation's running mean or variance. */
int pg__is_statistic(const char *weight_name);

/* 1 if the file's writer begins automatic names without a number ("lambda", "lambda_1": tf.keras,
 * and Keras from 2.4 on), 0 if it begins with 1 (standalone Keras). */
int pg__counts_from_nothing(const pg_store *s);

/* 1 if all weights of store layer `layer` belong to one layer of the template. */
int pg__has_one_owner(const pg_store *s, size_t layer);

/* Kind and widths from the shapes (order_stack.c). l: the store's layer. */
void pg__group_measure(pg__group *g, const pg_store *s, const pg_layer *l);
/* 1 if the groups can be a plain stack in their order; otherwise *at is the first that does not
 * fit. */
int pg__stack_chains(const pg__group *g, size_t n, size_t *at);
/* Test 9: *unique is 0 if another order of the layers also explains the list (which has frozen
 * layers last), -1 if there are too many possibilities. last_known: the last group is the last
 * layer. */
pg_status pg__stack_is_unique(const pg__group *g, size_t n, int last_known, int *unique,
                              pg_err *err);
/* Test 7: fills in skeleton and prev; *at is the first group whose number does not rise, or
 * PG_NONE. */
pg_status pg__numbers_rise(pg__group *g, size_t n, size_t *at, pg_err *err);

#endif
