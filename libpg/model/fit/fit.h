/* fit.h - the fit test: is an assignment of stored weights to leaves right? */
#ifndef PG_MODEL_FIT_FIT_H
#define PG_MODEL_FIT_FIT_H

#include "model/fit/owner.h"

/* Why a weight has no variable, or a variable no weight. */
typedef enum pg__misfit {
    PG_FITS,
    PG_FIT_EXTRA, /* the weight is not a variable of its owner, or has no owner */
    PG_FIT_SHAPE, /* it is a variable, but of another shape */
} pg__misfit;

typedef struct pg__fit {
    size_t *leaf, *var;    /* per weight; PG_NONE if it has none */
    unsigned char *misfit; /* per weight: pg__misfit */
    size_t *first;         /* per leaf, and the end: index into used */
    unsigned char *used;   /* per variable of the known leaves: has a weight */
    size_t n_leaves, n_extra, n_shape, n_missing;
    size_t n_descents; /* number of descents in the sequence of leaves */
    int splits_model;  /* weights that are treated alike in a nested model are on both sides of the
                          descent */
} pg__fit;

/* Assigns to every weight the variable of its owner that its name and position select. */
pg_status pg__fit_owners(pg__fit *out, const pg__leaves *leaves, const pg__stored *stored,
                         const pg__owner *owners, size_t n, pg_err *err);
void pg__fit_fini(pg__fit *f);

/* Is the test passed: are all weights and variables used, in an order that Keras writes? */
int pg__fit_holds(const pg__fit *f);

/* Do rank and all known dims agree? */
int pg__dims_agree(const pg__var *v, const pg__stored *w);

/* Fills in *err (PG_E_MISMATCH) with the reasons why the fit fails. */
pg_status pg__fit_explain(const pg__fit *f, const pg__leaves *leaves, const pg__stored *stored,
                          size_t n, pg_err *err);

/* Placing by order alone; *holds says whether it is proven, and only then *out is set. */
pg_status pg__place_by_order(pg__placing *out, int *holds, const pg__leaves *leaves,
                             const pg__owner_table *table, const pg__stored *stored, size_t n,
                             pg_err *err);

#endif
