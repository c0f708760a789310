/* flax.h - msgpack as flax.serialization writes it: maps of maps, and arrays as extensions
 * (flax/serialization.py; github.com/msgpack/msgpack, spec.md). */
#ifndef PG_FORMAT_FLAX_H
#define PG_FORMAT_FLAX_H

#include "base/str.h"
#include "io/io.h"
#include "store/tiles.h"

typedef struct pg__flax_array {
    char *name; /* keys on the way, joined with '/'; owned */
    pg_dtype dtype;
    int is_complex; /* the last dimension is the real and the imaginary part */
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK];
    uint64_t *off; /* in the file: of each tile, owned */
    pg__tiled row; /* all elements in a row; tile.source: index of off */
} pg__flax_array;

typedef struct pg__flax {
    pg__flax_array *v;
    size_t n, cap;
    pg__str values; /* numbers and texts beside the arrays: "step 2, epoch 3" */
} pg__flax;

/* 1 if the n bytes with which a file begins are maps that lead to an array. */
int pg__flax_is(const unsigned char *head, size_t n);

/* The newest checkpoint_N of a folder; *out stays NULL if there is none. */
pg_status pg__flax_in_folder(char **out, const char *folder, pg_err *err);

/* Reads the maps; the arrays' bytes stay in the file. An array of a type that libpg does not know
 * is noted, and is PG_E_UNSUPPORTED if it is one of the model in this part. */
pg_status pg__flax_read(pg__flax *out, pg__io *io, const char *part, pg_err *err);
void pg__flax_fini(pg__flax *f);

/* Of an array in the requested part of a tree (NULL: the model; "." all; "params"): 1 for the
 * model's, 2 for state, 0 for others. Orbax' trees have the same names. */
int pg__flax_wants(const char *name, const char *part);

/* What a part must mean in a tree of n arrays: itself if arrays are below it, else one of the names
 * from outside, which are put into *there. PG_E_ARG with these names. */
typedef const char *(*pg__flax_name)(const void *ctx, size_t i);
pg_status pg__flax_part_of(const char **out, pg__strs *there, const char *part, size_t n,
                           pg__flax_name name, const void *ctx, pg_err *err);

/* PG_E_AMBIGUOUS if the weights are "params" and a moving average beside it, or several trees with
 * "params"; they are named. */
pg_status pg__flax_one_model(const pg_store *s, pg_err *err);

#endif
