/* file_pattern.h - names of checkpoints: "unet-{epoch:02d}-{val_loss:.4f}.hdf5", as Python's
 * str.format() fills them in. */
#ifndef PG_TRAIN_RULES_FILE_PATTERN_H
#define PG_TRAIN_RULES_FILE_PATTERN_H

#include "base/spec.h"

typedef struct pg__pattern_key {
    const char *name;
    pg__spec_value value;
    int is_absent; /* it has no value this time */
} pg__pattern_key;

/* Fills a pattern in; *absent (NULL: none): the first key that has no value this time, and then
 * nothing is in *out. PG_E_ARG: braces that do not close, a key that is none of them (the message
 * lists them, and the nearest), a specification that Python would refuse. */
pg_status pg__pattern_fill(pg__str *out, const char **absent, const char *pattern,
                           const pg__pattern_key *keys, size_t n_keys, pg_err *err);

/* Characters before the first key; all of them where there is none. {{ and }} count as one. */
size_t pg__pattern_fixed(const char *pattern);

#endif
