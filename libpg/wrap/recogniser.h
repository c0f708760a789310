/* recogniser.h - one kind of wrapper = one rec_<name>.c that defines
 * `const pg__recogniser pg__rec_<name>`, one line in recognisers.def and one test
 * tests/wrap/test_rec_<name>.c (the build stops without it).
 *
 * What all data-parallel wrappers share (one nested model, called G times on slices, merged along
 * axis 0) is judged once, in wrap/verdict.c, by structure. A recogniser answers the question that
 * differs: is this layer one of my slices, and which part of how many does it take? */
#ifndef PG_WRAP_RECOGNISER_H
#define PG_WRAP_RECOGNISER_H

#include "model/graph.h"
#include "pg/inspect.h"

typedef struct pg__slice {
    size_t part, n_parts; /* n_parts == 0: the layer does not tell (closures, SliceBatch) */
} pg__slice;

typedef struct pg__recogniser {
    const char *name; /* shown to users: "multi_gpu_model" */
    const char *doc;  /* one line: who writes it, what it looks like */
    /* 1 if a layer of the wrapper's config is such a slice; fills *out. NULL: not by config. */
    int (*slice)(pg__slice *out, const pg__layer *layer);
    /* 1 if a layer name looks like such a slice in a file without config. NULL: not by name. */
    int (*slice_name)(const char *layer_name);
    /* Names alone, for files without layers (PyTorch): bytes of the prefix that every tensor name
     * has and that the wrapper added, 0 if none. NULL: not of this kind. */
    size_t (*prefix)(const pg_store *s);
} pg__recogniser;

#define PG_RECOGNISER(name) extern const pg__recogniser pg__rec_##name;
#include "wrap/recognisers.def"
#undef PG_RECOGNISER

/* All recognisers in table order, NULL-terminated. */
const pg__recogniser *const *pg__recognisers(void);

#endif
