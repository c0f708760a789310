/* part_name.h - the names that people have for the parts of a checkpoint. */
#ifndef PG_STORE_PART_NAME_H
#define PG_STORE_PART_NAME_H

#include "base/str.h"

/* Adds a name of n bytes unless it is in the list, or that is long. */
pg_status pg__part_note(pg__strs *list, const char *name, size_t n, pg_err *err);

/* No part is called `part`: *out becomes what it can only mean, "opt_state" for "optimizer", one of
 * the names that are there. PG_E_ARG if there is no such, with the names. */
pg_status pg__part_meant(const char **out, const char *part, const pg__strs *there, pg_err *err);

/* Of several parts that could be the model, the one to propose: the first that is not called after
 * a moving average, a judge of another model or what feeds it. */
size_t pg__part_likely(const pg__strs *models);

/* The part whose tensors must be readable: all if what it means is not known yet. */
const char *pg__part_read(const char *part);

#endif
