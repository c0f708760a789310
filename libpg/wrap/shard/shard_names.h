/* shard_names.h - file names for tensors: readable, harmless on every file system, and different.
 */
#ifndef PG_WRAP_SHARD_SHARD_NAMES_H
#define PG_WRAP_SHARD_SHARD_NAMES_H

#include "base/str.h"

typedef struct pg__shard_names pg__shard_names;

pg_status pg__shard_names_new(pg__shard_names **out, pg_err *err);
void pg__shard_names_free(pg__shard_names *n); /* NULL is allowed */

/* Marks a name in the folder itself as taken. */
pg_status pg__shard_names_reserve(pg__shard_names *n, const char *name, pg_err *err);

/* Appends to `out` the n_pieces paths of a tensor whose name has the components of `raw`, separated
 * by "/": "conv1/kernel.npy", or "conv1/kernel-00001-of-00003.npy" ... */
pg_status pg__shard_names_add(pg__shard_names *n, pg__strs *out, const char *raw, size_t n_pieces,
                              const char *suffix, pg_err *err);

#endif
