/* view.h - the tensors of a file as those of the one-device model: through a wrapper, and under
 * names that mean the same in every format. */
#ifndef PG_WRAP_COMPARE_VIEW_H
#define PG_WRAP_COMPARE_VIEW_H

#include "wrap/rewrite/rewrite.h"

typedef struct pg__seen {
    size_t src;        /* tensor number in the store */
    char *label;       /* "conv1/kernel": for people, and equal for equal tensors; owned */
    const char *own;   /* name as stored, or as in a file of the template */
    const char *layer; /* legacy layout: the layer that lists it; else NULL */
    const char *owner; /* name of the innermost layer that holds it, n_owner bytes */
    size_t n_owner;
    const char *var;   /* the rest of the name, "kernel", "forward_lstm/kernel"; NULL: unknown */
    const char *group; /* the owner's whole path, n_group bytes */
    size_t n_group;
    int rank;            /* path layout: creation order of parts of a layer */
    size_t nth;          /* among the owner's, in creation order */
    size_t nth_in_layer; /* legacy layout */
} pg__seen;

typedef struct pg__view {
    pg__rewrite r; /* the store, the verdict, the plan */
    pg__seen *v;   /* in the plan's order */
    size_t n;
    int unwrapped;    /* the file is a wrapper's */
    int planned;      /* ... and the plan is its template's; 0: it is the list of the wrapper */
    const char *like; /* a description of the template, or NULL: set before opening; borrowed */
} pg__view;

/* Opens path (how: part) and plans its template if it is a wrapper; writes nothing and
 * reads no tensor. If the order of a wrapper is not settled, even with out->like, the view
 * has the order of its list. Errors: those of pg_store_open(); PG_E_FORMAT for a damaged file.
 * Messages start with the path. */
pg_status pg__view_open(pg__view *out, const char *path, const pg_open_opts *how, pg_err *err);
void pg__view_fini(pg__view *v);

/* Names the tensors of an opened and judged view (v->r.s, v->r.v); pg__view_open() without the
 * opening. */
pg_status pg__view_fill(pg__view *v, pg_err *err);

const pg_weight *pg__view_weight(const pg__view *v, size_t i);

/* Pairs the tensors of two views by name: of_a[i] is the partner of i in b, of_b the reverse,
 * PG_NONE where there is none. */
pg_status pg__view_pair(size_t *of_a, size_t *of_b, const pg__view *a, const pg__view *b,
                        pg_err *err);

/* The same by the variables of the model that one of the files describes. *paired is 0, and nothing
 * changes, if neither describes it or it does not fit both files one to one. */
pg_status pg__view_pair_by_model(int *paired, size_t *of_a, size_t *of_b, const pg__view *a,
                                 const pg__view *b, pg_err *err);

#endif
