/* sort.h - sorts with a context for the comparison, for which systems disagree on qsort_r(). */
#ifndef PG_BASE_SORT_H
#define PG_BASE_SORT_H

#include <stddef.h>

typedef int (*pg__compare)(const void *a, const void *b, void *context);

/* n items of `size` bytes at v, in ascending order. */
void pg__sort(void *v, size_t n, size_t size, pg__compare compare, void *context);

#endif
