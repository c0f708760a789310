/* settings.h - the parameters of a named object of Keras: "NAME:key=value,flag,..." from a command
 * line, or {"class_name": NAME, "config": {...}} as Keras serializes it. Values are read by key; at
 * the end, an unread key is an error that lists the known ones. */
#ifndef PG_TRAIN_RULES_SETTINGS_H
#define PG_TRAIN_RULES_SETTINGS_H

#include "base/json.h"
#include "base/str.h"

typedef struct pg__settings {
    pg__str name;       /* as given */
    pg__json *root;     /* owned: an object, even if text was given */
    const pg__json *of; /* the object with the keys */
    pg__strs known;     /* keys read so far */
} pg__settings;

/* PG_E_ARG, PG_E_FORMAT: the text is malformed. A value in text is a number, true or false if it
 * looks like one; a key without a value is true. */
pg_status pg__settings_of(pg__settings *out, const char *text, pg_err *err);
/* "NAME:key=value:flag", the form for lists separated by commas. */
pg_status pg__settings_colons(pg__settings *out, const char *text, pg_err *err);
void pg__settings_fini(pg__settings *s);

/* Reads the value of a key; leaves *inout unchanged if it is missing or null. PG_E_ARG: another
 * type. Texts live as long as the settings. */
pg_status pg__settings_text(pg__settings *s, const char *key, const char **inout, pg_err *err);
pg_status pg__settings_real(pg__settings *s, const char *key, double *inout, pg_err *err);
pg_status pg__settings_count(pg__settings *s, const char *key, size_t *inout, pg_err *err);
pg_status pg__settings_flag(pg__settings *s, const char *key, int *inout, pg_err *err);
/* "epoch" gives 0, a number of batches itself. */
pg_status pg__settings_freq(pg__settings *s, const char *key, size_t *inout, pg_err *err);

/* Does the key have a value other than null? Counts as read. */
pg_status pg__settings_has(pg__settings *s, const char *key, int *out, pg_err *err);

/* PG_E_ARG names a key that was never read. */
pg_status pg__settings_end(const pg__settings *s, pg_err *err);

#endif
