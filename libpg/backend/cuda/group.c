/* group.c - by one event, a rank's stream for sums waits for the work that the device was given
 * before the sum; by another, the device waits for the sums when it joins them. */
#include "backend/cuda/group.h"

#include "backend/cuda/coll.h"
#include "base/mem.h"
#include "base/try.h"

typedef struct member {
    pg__rt *rt;                     /* the stream for sums */
    pg__rt_event *is_made, *is_sum; /* what is to be summed; what was */
} member;

struct pg__group {
    pg__coll *coll;
    size_t n;
    member *of; /* by rank */
};

static pg_status open_member(member *m, const pg__dev *d, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__rt_open_beside(&m->rt, d->rt, err));
    PG_TRY(pg__rt_event_new(&m->is_made, m->rt, err));
    PG_TRY(pg__rt_event_new(&m->is_sum, m->rt, err));
done:
    return st;
}

pg_status pg__group_new(pg__group **out, pg__dev *const *devs, size_t n,
                        const pg__group_place *among, pg_err *err)
{
    pg__rt **streams = pg__mem_array(n, sizeof(pg__rt *));
    pg__group *g = pg__mem_array(1, sizeof *g);
    pg_status st = PG_OK;
    if (g)
        g->of = pg__mem_array(n, sizeof *g->of);
    if (!streams || !g || !g->of)
        PG_TRY(pg__nomem(err));
    g->n = n;
    for (size_t k = 0; k < n; k++) {
        PG_TRY(open_member(&g->of[k], devs[k], err));
        streams[k] = g->of[k].rt;
    }
    PG_TRY(pg__coll_new(&g->coll, streams, n, among, err));
    *out = g;
    g = NULL;
done:
    pg__mem_free(streams);
    pg__group_free(g);
    return st;
}

/* Queued sums are abandoned first, because closing a stream waits for them. */
void pg__group_free(pg__group *g)
{
    if (!g)
        return;
    if (g->coll)
        pg__coll_drop(g->coll);
    for (size_t k = 0; g->of && k < g->n; k++) {
        pg__rt_close(g->of[k].rt);
        pg__rt_event_free(g->of[k].is_made);
        pg__rt_event_free(g->of[k].is_sum);
    }
    pg__coll_free(g->coll);
    pg__mem_free(g->of);
    pg__mem_free(g);
}

pg_status pg__group_sum(pg__group *g, size_t rank, pg__dev *d, void *p, size_t n)
{
    member *m = &g->of[rank];
    pg_status st = PG_OK;
    PG_TRY(pg__rt_mark(d->rt, m->is_made, &d->failure));
    PG_TRY(pg__rt_wait(m->rt, m->is_made, &d->failure));
    PG_TRY(pg__coll_sum(g->coll, rank, p, n, &d->failure));
done:
    return st;
}

pg_status pg__group_join(pg__group *g, size_t rank, pg__dev *d)
{
    member *m = &g->of[rank];
    const pg_status st = pg__rt_mark(m->rt, m->is_sum, &d->failure);
    return st == PG_OK ? pg__rt_wait(d->rt, m->is_sum, &d->failure) : st;
}

pg_status pg__group_wait(pg__group *g, size_t rank, const pg__timeout *p, pg_err *err)
{
    return pg__coll_check(g->coll, rank, p, err);
}

void pg__group_drop(pg__group *g)
{
    pg__coll_drop(g->coll);
}
