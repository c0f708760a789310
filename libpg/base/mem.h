/* mem.h - allocation. All of libpg allocates through these functions, so every size is checked for
 * overflow, and one place knows what libpg asks for. */
#ifndef PG_BASE_MEM_H
#define PG_BASE_MEM_H

#include <stddef.h>

#include "pg/err.h"

/* n * size zeroed bytes, or NULL (also on overflow). n == 0 gives a valid pointer. */
void *pg__mem_array(size_t n, size_t size);

/* n zeroed bytes at a multiple of 64 (a cache line, the widest vector), or NULL. */
void *pg__mem_aligned(size_t n);

/* n bytes of any contents at a multiple of a page. Of a large piece, pages that are never touched
 * take no memory. */
void *pg__mem_bare(size_t n);

/* Copy of s[0..len) plus NUL, or NULL. pg__mem_strdup(NULL) gives NULL. */
char *pg__mem_strndup(const char *s, size_t len);
char *pg__mem_strdup(const char *s);

/* Grows *items (of *cap elements) to hold at least n. Returns 0, or -1 and changes nothing. */
int pg__mem_grow(void *items, size_t *cap, size_t n, size_t size);

void pg__mem_free(void *p);

/* The only wording of PG_E_NOMEM: `return pg__nomem(err);` */
pg_status pg__nomem(pg_err *err);

#endif
