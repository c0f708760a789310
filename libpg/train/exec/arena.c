/* arena.c - offsets in the arena: largest span first, best gap among the spans alive with it. */
#include "train/exec/arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"

static uint64_t whole(uint64_t n_bytes)
{
    return (n_bytes + PG_ALIGN - 1) / PG_ALIGN * PG_ALIGN;
}

static int larger_first(const void *a, const void *b)
{
    const pg__span_of *x = *(pg__span_of *const *)a, *y = *(pg__span_of *const *)b;
    if (x->n_bytes != y->n_bytes)
        return x->n_bytes < y->n_bytes ? 1 : -1;
    return x < y ? -1 : x > y; /* the same plan on every machine */
}

/* A span with its place; kept in the order of offsets. */
typedef struct placed {
    uint64_t off, end; /* bytes */
    size_t first, last;
} placed;

/* The smallest gap of n bytes between the spans alive with s, or the end of the last one. */
static uint64_t best_gap(const placed *at, size_t n_placed, const pg__span_of *s, uint64_t n)
{
    uint64_t end = 0, best = UINT64_MAX, best_size = UINT64_MAX;
    for (size_t i = 0; i < n_placed; i++) {
        if (at[i].first > s->last || s->first > at[i].last)
            continue;
        const uint64_t gap = at[i].off > end ? at[i].off - end : 0;
        if (gap >= n && gap < best_size) {
            best = end;
            best_size = gap;
        }
        end = at[i].end > end ? at[i].end : end;
    }
    return best != UINT64_MAX ? best : end;
}

static void insert(placed *at, size_t n_placed, const pg__span_of *s)
{
    size_t lo = 0;
    for (size_t hi = n_placed; lo < hi;) {
        const size_t mid = lo + (hi - lo) / 2;
        if (at[mid].off <= s->off)
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(at + lo + 1, at + lo, (n_placed - lo) * sizeof *at);
    at[lo] = (placed){s->off, s->off + whole(s->n_bytes), s->first, s->last};
}

pg_status pg__arena_plan(pg__span_of *spans, size_t n, uint64_t *arena_bytes, pg_err *err)
{
    pg__span_of **order = pg__mem_array(n, sizeof(pg__span_of *));
    placed *at = pg__mem_array(n, sizeof *at);
    pg_status st = PG_OK;
    *arena_bytes = 0;
    if (!order || !at)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < n; i++)
        order[i] = &spans[i];
    qsort(order, n, sizeof *order, larger_first);
    for (size_t i = 0; i < n; i++) {
        pg__span_of *s = order[i];
        if (s->n_bytes > UINT64_MAX / 4)
            PG_FAIL(PG_E_LIMIT, "the model needs more memory than there is");
        s->off = best_gap(at, i, s, whole(s->n_bytes));
        insert(at, i, s);
        if (s->off + whole(s->n_bytes) > *arena_bytes)
            *arena_bytes = s->off + whole(s->n_bytes);
    }
done:
    pg__mem_free(at);
    pg__mem_free(order);
    return st;
}
