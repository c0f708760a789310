/* sort.c - glibc's qsort_r(); elsewhere (PG_PORTABLE) a merge sort like it, which keeps equal items
 * in their order, and without memory for it an insertion sort. */
#include "base/sort.h"

#include <stdlib.h>

#ifndef PG_PORTABLE

void pg__sort(void *v, size_t n, size_t size, pg__compare compare, void *context)
{
    qsort_r(v, n, size, compare, context);
}

#else

#include <string.h>

#include "base/mem.h"

/* Merges two sorted runs, [at, middle) and [middle, end), through `room`. */
static void merge(char *at, char *middle, const char *end, size_t size, char *room,
                  pg__compare compare, void *context)
{
    char *out = room;
    const char *a = at, *b = middle;
    while (a < middle && b < end) {
        const char **next = compare(a, b, context) <= 0 ? &a : &b;
        memcpy(out, *next, size);
        out += size;
        *next += size;
    }
    memcpy(out, a, (size_t)(middle - a)); /* what is left of the second stays where it is */
    out += middle - a;
    memcpy(at, room, (size_t)(out - room));
}

static void insert(char *v, size_t n, size_t size, pg__compare compare, void *context)
{
    for (size_t i = 1; i < n; i++)
        for (char *p = v + i * size; p > v && compare(p - size, p, context) > 0; p -= size)
            for (size_t k = 0; k < size; k++) {
                const char byte = p[k];
                p[k] = p[k - size];
                p[k - size] = byte;
            }
}

void pg__sort(void *v, size_t n, size_t size, pg__compare compare, void *context)
{
    char *items = v, *room = n > 8 ? pg__mem_array(n, size) : NULL;
    const size_t first = room ? 8 : n; /* items of the runs that are sorted by insertion */
    for (size_t i = 0; i < n; i += first)
        insert(items + i * size, n - i < first ? n - i : first, size, compare, context);
    for (size_t run = first; run < n; run *= 2)
        for (size_t i = 0; n - i > run; i += n - i < 2 * run ? n - i : 2 * run)
            merge(items + i * size, items + (i + run) * size,
                  items + (n - i < 2 * run ? n : i + 2 * run) * size, size, room, compare, context);
    pg__mem_free(room);
}

#endif
