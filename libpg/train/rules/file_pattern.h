/* file_pattern.h - names of checkpoints, "unet-{epoch:02d}-{val_loss:.4f}.hdf5", filled in like
 * Python's str.format(). */
#ifndef PG_TRAIN_RULES_FILE_PATTERN_H
#define PG_TRAIN_RULES_FILE_PATTERN_H

#include "base/spec.h"

typedef struct pg__pattern_key {
    const char *name;
    pg__spec_value value;
    int is_absent; /* it has no value now */
} pg__pattern_key;

/* Fills in a pattern; *absent (or NULL): the first key without a value now, and then *out is empty.
 * PG_E_ARG: unclosed braces, an unknown key (the message lists the known ones, and the nearest), a
 * specification that Python would refuse. */
pg_status pg__pattern_fill(pg__str *out, const char **absent, const char *pattern,
                           const pg__pattern_key *keys, size_t n_keys, pg_err *err);

/* Characters before the first key; all if there is none. {{ and }} count as one. */
size_t pg__pattern_fixed(const char *pattern);

#endif
