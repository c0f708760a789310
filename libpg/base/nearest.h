/* nearest.h - suggests what a mistyped name may have meant. */
#ifndef PG_BASE_NEAREST_H
#define PG_BASE_NEAREST_H

#include <stddef.h>

#include "pg/err.h"

/* pg_nearest() in a list. */
const char *pg__nearest(const char *s, const char *const *names, size_t n);

/* The same, ignoring capitals and '_'; compares the first len bytes of name. */
const char *pg__nearest_spelt(const char *name, size_t len, const char *const *names, size_t n);

/* PG_E_ARG: unknown WHAT "name"; did you mean that? */
pg_status pg__fail_unknown(pg_err *err, const char *what, const char *name, size_t len,
                           const char *const *names, size_t n);

/* Adds a line of detail to a filled *err: "known: a, b, c". Returns err's code. */
pg_status pg__list_known(pg_err *err, pg_status st, const char *const *names, size_t n);

#endif
