/* fit.h - does an assignment of stored weights to leaves hold: the fit test. */
#ifndef PG_MODEL_FIT_FIT_H
#define PG_MODEL_FIT_FIT_H

#include "model/fit/owner.h"

/* Why a weight has no variable, or a variable no weight. */
typedef enum pg__misfit {
    PG_FITS,
    PG_FIT_EXTRA, /* the weight is no variable of its owner, or has no owner */
    PG_FIT_SHAPE, /* it is, but of another shape */
} pg__misfit;

typedef struct pg__fit {
    size_t *leaf, *var;    /* per weight; PG_NONE where there is none */
    unsigned char *misfit; /* per weight: pg__misfit */
    size_t *first;         /* per leaf, and the end: index into used */
    unsigned char *used;   /* per variable of the known leaves: has a weight */
    size_t n_leaves, n_extra, n_shape, n_missing;
    size_t n_descents; /* how often the sequence of leaves goes down */
    int splits_model;  /* what is alike in a nested model stands on both sides of the descent */
} pg__fit;

/* Gives every weight the variable of its owner that its name and its place ask for. */
pg_status pg__fit_owners(pg__fit *out, const pg__leaves *leaves, const pg__stored *stored,
                         const pg__owner *owners, size_t n, pg_err *err);
void pg__fit_fini(pg__fit *f);

/* The test is passed: all weights and all variables are used, and the order is one that Keras
 * writes. */
int pg__fit_holds(const pg__fit *f);

/* Do rank and all known dims agree? */
int pg__dims_agree(const pg__var *v, const pg__stored *w);

/* Fills *err (PG_E_MISMATCH) with what the fit lacks. */
pg_status pg__fit_explain(const pg__fit *f, const pg__leaves *leaves, const pg__stored *stored,
                          size_t n, pg_err *err);

/* Placing by order alone; *holds says whether it is proven, and only then *out is set. */
pg_status pg__place_by_order(pg__placing *out, int *holds, const pg__leaves *leaves,
                             const pg__owner_table *table, const pg__stored *stored, size_t n,
                             pg_err *err);

#endif
