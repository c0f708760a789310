/* comm_sums.c - sums that run while others compute. For any number of ranks there is
 * MPI_Iallreduce(), but it processes a message in many small rounds, each of which begins only when
 * somebody calls MPI. So with a power of two ranks, and the caller's memory, sums use halving and
 * doubling (comm_tree.c) here too: two messages for each level, which MPI moves on its own once
 * they have begun. */
#include <limits.h>

#include "base/clock.h"
#include "base/try.h"
#include "comm/comm_impl.h"

#define TAGS   64u               /* of a sum: two for each level */
#define N_TAGS 400u              /* sums whose tags differ; far fewer are in progress */
#define MOST   ((size_t)1 << 30) /* bytes of a message */
#define POLLED 8u                /* sums at a time: checking one moves all */

static int by_halves(const pg__comm *c, const pg__comm_sum_of *s)
{
    return s->work && s->to == PG_TO_ALL && (c->size & (c->size - 1)) == 0 &&
           s->n <= MOST / s->real_bytes;
}

/* For the current level: what this rank keeps, and what its partner keeps. */
static pg__range keeps_at(const pg__comm *c, const pg__comm_sum_of *s, pg__range *other)
{
    pg__range at = {0, s->n};
    for (size_t k = 0; k <= s->level; k++)
        at = pg__tree_half(at, c->rank, (size_t)1 << k, other);
    return at;
}

static pg_status swap(pg__comm *c, pg__comm_sum_of *s, pg__range out, void *into, pg__range in,
                      pg_err *err)
{
    const int partner = (int)(c->rank ^ (size_t)1 << s->level);
    const int tag = s->tag + 2 * (int)s->level + s->goes_up;
    const char *from = (const char *)s->mem + out.from * s->real_bytes;
    int e = 0;
    if (in.from < in.to)
        e = c->mpi->receive(c->job, into, (in.to - in.from) * s->real_bytes, partner, tag,
                            &s->requests[0]);
    if (e == 0 && out.from < out.to)
        e = c->mpi->send(c->job, from, (out.to - out.from) * s->real_bytes, partner, tag,
                         &s->requests[1]);
    return e == 0 ? PG_OK : pg__comm_failed(c, e, s->what, err);
}

static pg_status begin_level(pg__comm *c, pg__comm_sum_of *s, pg_err *err)
{
    pg__range other;
    const pg__range mine = keeps_at(c, s, &other);
    return s->goes_up ? swap(c, s, mine, (char *)s->mem + other.from * s->real_bytes, other, err)
                      : swap(c, s, other, s->work, mine, err);
}

/* The messages of the current level have arrived. */
static pg_status end_level(pg__comm *c, pg__comm_sum_of *s, pg_err *err)
{
    pg__range other;
    const pg__range mine = keeps_at(c, s, &other);
    if (!s->goes_up) {
        pg__tree_add((char *)s->mem + mine.from * s->real_bytes, s->work, mine.to - mine.from,
                     s->real_bytes);
        if ((size_t)2 << s->level < c->size)
            s->level++;
        else
            s->goes_up = 1;
    } else if (s->level > 0) {
        s->level--;
    } else {
        s->is_under_way = 0;
        return PG_OK;
    }
    return begin_level(c, s, err);
}

static pg_status begin(pg__comm *c, pg__comm_sum_of *s, pg_err *err)
{
    s->in_halves = by_halves(c, s);
    if (s->in_halves) {
        s->tag = (int)(PG_TAG_SUMS + c->n_sums++ % N_TAGS * TAGS);
        s->level = 0;
        s->goes_up = 0;
        return begin_level(c, s, err);
    }
    const int to = s->to == PG_TO_ALL ? -1 : (int)s->to;
    const int e = c->mpi->sum(c->job, s->mem, s->n, s->real_bytes, to, &s->requests[0]);
    return e == 0 ? PG_OK : pg__comm_failed(c, e, s->what, err);
}

pg_status pg__comm_sum_begin(pg__comm *c, pg__comm_sum_of *s, const char *what, pg_err *err)
{
    pg__comm_sum_of **end = &c->sums;
    pg_status st = PG_OK;
    s->requests[0] = s->requests[1] = NULL;
    s->next = NULL;
    s->what = what;
    s->is_under_way = 0;
    s->began = pg__now();
    pg__mpi_lock(c);
    PG_TRY(pg__comm_begin(c, what, err));
    if (s->n > INT_MAX)
        PG_FAIL(PG_E_LIMIT, "%s: %zu numbers at once are too many", what, s->n);
    PG_TRY(begin(c, s, err));
    s->is_under_way = 1;
    while (*end)
        end = &(*end)->next;
    *end = s;
    pg__mover_wake(c);
done:
    pg__mpi_unlock(c);
    return st;
}

static pg_status move(pg__comm *c, pg__comm_sum_of *s, pg_err *err)
{
    pg_status st = PG_OK;
    for (int k = 0; k < 2; k++) {
        const int e = c->mpi->test(c->job, &s->requests[k]);
        if (e != 0)
            return pg__comm_failed(c, e, s->what, err);
    }
    if (s->requests[0] || s->requests[1])
        return PG_OK;
    if (s->in_halves)
        st = end_level(c, s, err);
    else
        s->is_under_way = 0;
    return st;
}

void pg__sums_move(pg__comm *c, size_t n)
{
    for (pg__comm_sum_of **at = &c->sums; *at && n > 0 && !c->is_broken; n--) {
        pg__comm_sum_of *s = *at;
        c->sums_st = move(c, s, &c->sums_err);
        if (s->is_under_way) {
            at = &s->next;
            continue;
        }
        s->ended = pg__now();
        *at = s->next;
    }
    if (c->is_broken) /* they stay as they are */
        c->sums = NULL;
}

pg_status pg__sums_failed(const pg__comm *c, pg_err *err)
{
    if (c->sums_st != PG_OK && err)
        *err = c->sums_err;
    return c->sums_st;
}

pg_status pg__comm_poll(pg__comm *c, pg_err *err)
{
    pg_status st = PG_OK;
    if (!pg__mpi_try_lock(c))
        return PG_OK;
    if (!c->mover)
        pg__sums_move(c, POLLED);
    st = pg__sums_failed(c, err);
    pg__mpi_unlock(c);
    return st;
}

typedef struct waiting {
    const pg__comm_sum_of *sums;
    size_t n;
} waiting;

/* The waiting thread moves them. */
static pg_status look_at_sums(pg__comm *c, void *ctx, size_t *left, const char *what, pg_err *err)
{
    const waiting *w = ctx;
    for (size_t k = 0; k < w->n; k++)
        *left += (size_t)w->sums[k].is_under_way;
    return *left > 0 ? pg__comm_begin(c, what, err) : PG_OK;
}

pg_status pg__comm_sums_wait(pg__comm *c, pg__comm_sum_of *sums, size_t n, const char *what,
                             pg_err *err)
{
    pg__mpi_lock(c);
    const pg_status st = pg__comm_wait_for(c, look_at_sums, &(waiting){sums, n}, what, err);
    pg__mpi_unlock(c);
    return st;
}
