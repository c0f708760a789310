/* plan.c - offsets in the arena: largest span first, best gap among the spans alive with it. */
#include "train/plan.h"

#include <stdlib.h>

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
    return x < y ? -1 : x > y; /* equal plans on every machine */
}

static int lower_first(const void *a, const void *b)
{
    const pg__span_of *x = *(pg__span_of *const *)a, *y = *(pg__span_of *const *)b;
    return x->off < y->off ? -1 : x->off > y->off;
}

/* The smallest gap between the spans of `busy` (sorted by offset) that takes n bytes, or the end.
 */
static uint64_t best_gap(pg__span_of *const *busy, size_t n_busy, uint64_t n)
{
    uint64_t end = 0, best = UINT64_MAX, best_size = UINT64_MAX;
    for (size_t i = 0; i < n_busy; i++) {
        const uint64_t gap = busy[i]->off > end ? busy[i]->off - end : 0;
        const uint64_t after = busy[i]->off + whole(busy[i]->n_bytes);
        if (gap >= n && gap < best_size) {
            best = end;
            best_size = gap;
        }
        end = after > end ? after : end;
    }
    return best != UINT64_MAX ? best : end;
}

pg_status pg__plan_memory(pg__span_of *spans, size_t n, uint64_t *arena_bytes, pg_err *err)
{
    pg__span_of **order = pg__mem_array(n, sizeof(pg__span_of *));
    pg__span_of **busy = pg__mem_array(n, sizeof(pg__span_of *));
    pg_status st = PG_OK;
    *arena_bytes = 0;
    if (!order || !busy)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < n; i++)
        order[i] = &spans[i];
    qsort(order, n, sizeof *order, larger_first);
    for (size_t i = 0; i < n; i++) {
        pg__span_of *s = order[i];
        size_t n_busy = 0;
        if (s->n_bytes > UINT64_MAX / 4)
            PG_FAIL(PG_E_LIMIT, "the model needs more memory than there is");
        for (size_t k = 0; k < i; k++)
            if (order[k]->first <= s->last && s->first <= order[k]->last)
                busy[n_busy++] = order[k];
        qsort(busy, n_busy, sizeof *busy, lower_first);
        s->off = best_gap(busy, n_busy, whole(s->n_bytes));
        if (s->off + whole(s->n_bytes) > *arena_bytes)
            *arena_bytes = s->off + whole(s->n_bytes);
    }
done:
    pg__mem_free(busy);
    pg__mem_free(order);
    return st;
}
