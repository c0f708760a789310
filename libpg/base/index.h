/* index.h - finds a name among many: sorted once, then searched by bisection, so that work on lists
 * from files stays linear. Names are borrowed. */
#ifndef PG_BASE_INDEX_H
#define PG_BASE_INDEX_H

#include <stddef.h>

#include "pg/err.h"

typedef struct pg__index_entry {
    const char *name;
    size_t i; /* the caller's number */
} pg__index_entry;

/* Starts as {0}. */
typedef struct pg__index {
    pg__index_entry *v; /* by name, equal ones by i, after pg__index_sort() */
    size_t n, cap;
} pg__index;

pg_status pg__index_add(pg__index *x, const char *name, size_t i, pg_err *err);
void pg__index_sort(pg__index *x);
void pg__index_fini(pg__index *x);

/* The smallest i of a name, (size_t)-1 if there is none. */
size_t pg__index_find(const pg__index *x, const char *name);

/* Position in v of the first entry that does not sort before `name`; n if there is none. */
size_t pg__index_from(const pg__index *x, const char *name);

#endif
