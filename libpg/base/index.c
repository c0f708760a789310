/* index.c - names, sorted. */
#include "base/index.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static int by_name(const void *a, const void *b)
{
    const pg__index_entry *x = a, *y = b;
    const int c = strcmp(x->name, y->name);
    return c ? c : x->i < y->i ? -1 : x->i > y->i;
}

pg_status pg__index_add(pg__index *x, const char *name, size_t i, pg_err *err)
{
    if (pg__mem_grow(&x->v, &x->cap, x->n + 1, sizeof *x->v))
        return pg__nomem(err);
    x->v[x->n++] = (pg__index_entry){name, i};
    return PG_OK;
}

void pg__index_sort(pg__index *x)
{
    if (x->n)
        qsort(x->v, x->n, sizeof *x->v, by_name);
}

void pg__index_fini(pg__index *x)
{
    pg__mem_free(x->v);
    *x = (pg__index){0};
}

size_t pg__index_from(const pg__index *x, const char *name)
{
    size_t lo = 0, hi = x->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (strcmp(x->v[mid].name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

size_t pg__index_find(const pg__index *x, const char *name)
{
    const size_t at = pg__index_from(x, name);
    return at < x->n && strcmp(x->v[at].name, name) == 0 ? x->v[at].i : SIZE_MAX;
}
