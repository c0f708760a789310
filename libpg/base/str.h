/* str.h - growing byte strings, lists of strings, and names made safe for a terminal. */
#ifndef PG_BASE_STR_H
#define PG_BASE_STR_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

/* A growing string; starts as {0}; s is NUL-terminated once anything has been added. */
typedef struct pg__str {
    char *s;
    size_t n, cap; /* n excludes the NUL */
} pg__str;

pg_status pg__str_add(pg__str *b, const char *s, size_t n, pg_err *err);
pg_status pg__str_puts(pg__str *b, const char *s, pg_err *err);
pg_status pg__str_printf(pg__str *b, pg_err *err, const char *fmt, ...) PG_PRINTF(3, 4);
void pg__str_fini(pg__str *b);

/* A list of owned strings; starts as {0}. */
typedef struct pg__strs {
    char **v;
    size_t n, cap;
} pg__strs;

pg_status pg__strs_add(pg__strs *l, const char *s, size_t len, pg_err *err);
pg_status pg__strs_printf(pg__strs *l, pg_err *err, const char *fmt, ...) PG_PRINTF(3, 4);
size_t pg__strs_find(const pg__strs *l, const char *s); /* index, or (size_t)-1 */
void pg__strs_sort(pg__strs *l);
size_t pg__strs_search(const pg__strs *l, const char *s); /* the same, of a sorted list */
void pg__strs_fini(pg__strs *l);

/* Is s one of the n strings of list? PG_IS_ANY takes an array. */
int pg__is_any(const char *s, const char *const *list, size_t n);
#define PG_IS_ANY(s, list) pg__is_any(s, list, sizeof(list) / sizeof *(list))

/* Does s end with `end`? */
int pg__ends_with(const char *s, const char *end);
/* Has a file's name this suffix, in upper or lower case, and something before it? */
int pg__has_suffix(const char *name, const char *suffix);

/* Length of the valid UTF-8 sequence at s (n > 0 bytes), 0 if there is none; *code is its code
 * point. */
size_t pg__utf8_at(const unsigned char *s, size_t n, uint32_t *code);

/* A name from a file, safe to show: control, bidi and invalid UTF-8 bytes become \xNN, and "..."
 * replaces the end of a name that does not fit. Returns buf, so that it can be an argument of
 * printf. */
const char *pg__printable(char *buf, size_t cap, const char *name, size_t len);

/* The same for a NUL-terminated name, with a buffer of its own: %s with PG_SHOW(name). */
typedef struct pg__shown {
    char s[160];
} pg__shown;
pg__shown pg__show(const char *name);
#define PG_SHOW(name) (pg__show(name).s)

/* The same, safe to paste into a shell as one operand: quoted if needed, "./-x" for "-x". A name
 * that cannot be shown completely and unchanged becomes PG_UNQUOTABLE, and pg_err_hint() drops a
 * hint that holds it: a command that was cut short must not be proposed. */
typedef struct pg__quoted {
    char s[512];
} pg__quoted;
#define PG_UNQUOTABLE "\x01"
pg__quoted pg__quote(const char *name);
#define PG_QUOTE(name) (pg__quote(name).s)

/* Adds text to a filled message (NULL allowed), which is cut if both do not fit. */
void pg__err_append(pg_err *err, const char *text);

/* Makes `why`, a failure noted elsewhere, that of err (NULL allowed); returns its code. */
pg_status pg__fail_as(pg_err *err, const pg_err *why);

/* Adds an argument to an action that does not belong to an error, as pg_err_arg() does. */
void pg__action_arg(pg_action *a, const char *key, const char *fmt, ...) PG_PRINTF(3, 4);

/* Keras accepts names regardless of case and underscores: CategoricalCrossentropy,
 * categorical_crossentropy. */
int pg__same_name(const char *a, size_t n, const char *b);

/* A number with separators: 246,000,000. */
typedef struct pg__num {
    char s[28];
} pg__num;
pg__num pg__num_of(uint64_t v);
#define PG_NUM(v) (pg__num_of(v).s)

/* The last of n bytes that is c, or NULL: memrchr(), which not every system has. */
const char *pg__last_byte(const char *s, char c, size_t n);

/* The part of a path after its last "/". */
const char *pg__base_name(const char *path);

#endif
