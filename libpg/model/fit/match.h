/* match.h - the strict fit: assigns stored weights to the layers of a model.
 *
 * A wrapper's file lists the trainable weights of the template's leaves first, then the others;
 * names may be renumbered, prefixed or missing. pg__place() finds the one assignment that names,
 * shapes and order prove, or says why there is none. Rules: by name (exact, without _N suffixes,
 * tail, flat Keras 1 names), each accepted only if every leaf gets exactly its variables and the
 * sequence of leaves descends at most once; otherwise by order, if shapes and prefixes agree. */
#ifndef PG_MODEL_FIT_MATCH_H
#define PG_MODEL_FIT_MATCH_H

#include "model/lower/leaves.h"

/* A stored weight for the matcher. */
typedef struct pg__stored {
    const char *name;
    uint32_t rank;
    const uint64_t *dims;
} pg__stored;

typedef enum pg__placed_by {
    PG_BY_NAME,
    PG_BY_NAME_WITHOUT_SUFFIX,
    PG_BY_TAIL,
    PG_BY_FLAT_NAME,
    PG_BY_ORDER
} pg__placed_by;

typedef struct pg__placing {
    size_t n;
    size_t *leaf; /* per stored weight: index into pg__leaves */
    size_t *var;  /* per stored weight: index of the variable in that leaf */
    pg__placed_by how;
} pg__placing;

/* stored: the flat list of one file layer, in its order. PG_E_MISMATCH if no reading fits, with
 * lines "missing: ", "extra:   ", "shape:   " or "order:   " in err->detail. *out is released with
 * pg__placing_fini(). */
pg_status pg__place(pg__placing *out, const pg__leaves *leaves, const pg__stored *stored, size_t n,
                    pg_err *err);
void pg__placing_fini(pg__placing *p);

/* Pairs the layers of a plain (unwrapped) file with a model, for the repair: finds for each
 * top-level layer of the model that holds weights the file layer that fits, and lists layers
 * without a partner. Returns PG_OK also then: the caller decides about missing and extra layers.
 * Candidates, if there are any, are layers for which names and order contradict each other and both
 * fit: refuse. The lists are for people: their names are safe for a terminal. */
typedef struct pg__alignment {
    size_t *file_layer; /* per top-level model layer: index of a file layer, or PG_NONE */
    size_t n;
    pg__strs missing; /* model layers, with the reason if the file's of that name does not fit */
    pg__strs extra, candidates;
    int by_order; /* 1: position and shapes decided, instead of names */
} pg__alignment;
pg_status pg__align(pg__alignment *out, const pg__model *m, const pg__leaves *leaves,
                    const pg_store *file, pg_err *err);
void pg__alignment_fini(pg__alignment *a);

/* Visits every tensor of a file that fits the model, with the number of its variable among those of
 * the leaves (walk.c). PG_E_MISMATCH lists what does not fit. */
typedef pg_status (*pg__fit_visit)(void *ctx, size_t param, pg_store *file, size_t weight,
                                   pg_err *err);
pg_status pg__fit_walk(const pg__model *m, const pg__leaves *leaves, pg_store *file,
                       pg__fit_visit visit, void *ctx, pg_err *err);

#endif
