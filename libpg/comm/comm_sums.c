/* comm_sums.c - sums that run while others compute. For any number of ranks there is
 * MPI_Iallreduce(), but it processes a message in many small rounds, each of which begins only when
 * somebody calls MPI. So with a power of two ranks, and the caller's memory, sums use halving and
 * doubling (comm_tree.c) here too: two messages for each level, which MPI moves on its own once
 * they have begun.
 *
 * Between machines such a sum is cut into pieces, many of which are in progress at once. MPI sends
 * a large message only after its receiver has answered, which takes until each side calls MPI
 * again, behind everything that is queued between them; meanwhile the link may be idle. Halves of a
 * piece are small enough to be sent at once. */
#include <limits.h>

#include "base/clock.h"
#include "base/try.h"
#include "comm/comm_impl.h"

#define TAGS   64u  /* of a piece: two for each level */
#define N_TAGS 400u /* pieces whose tags differ: at most twice as many as in progress */
#define MOST   ((size_t)1 << 30) /* bytes of a message */
#define POLLED 8u                /* pieces at a time: checking one moves all */
#define PIECE  (126u << 10)      /* bytes; Open MPI sends 64 KB at once, with its header */

static int by_halves(const pg__comm *c, const pg__comm_sum_of *s)
{
    return s->work && s->to == PG_TO_ALL && (c->size & (c->size - 1)) == 0 &&
           s->n <= MOST / s->real_bytes;
}

/* ---- a piece ---- */

static char *at_element(const pg__comm_sum_of *s, size_t i)
{
    return (char *)s->mem + i * s->real_bytes;
}

/* For the current level: what this rank keeps, and what its partner keeps. */
static pg__range keeps_at(const pg__comm *c, const pg__sum_piece *p, pg__range *other)
{
    pg__range at = {p->from, p->to};
    for (size_t k = 0; k <= p->level; k++)
        at = pg__tree_half(at, c->rank, (size_t)1 << k, other);
    return at;
}

/* Memory for what comes in, which is half of the piece; if it is rounded, for what goes out, too.
 */
static char *work_of(const pg__sum_piece *p)
{
    return (char *)p->sum->work + p->from / 2 * p->sum->real_bytes;
}

/* What goes out, behind the memory for what comes in. On the way up it has been rounded before. */
static const void *rounded(const pg__sum_piece *p, pg__range out, pg__range in)
{
    const pg__comm_sum_of *s = p->sum;
    uint16_t *to = (uint16_t *)(void *)work_of(p) + (in.to - in.from);
    pg__bf16_put(to, (const float *)s->mem + out.from, s->lost + out.from, out.to - out.from);
    return to;
}

static pg_status swap(pg__comm *c, pg__sum_piece *p, pg__range out, void *into, pg__range in,
                      pg_err *err)
{
    const int partner = (int)(c->rank ^ (size_t)1 << p->level);
    const int tag = p->tag + 2 * (int)p->level + p->goes_up;
    const size_t each = p->sum->lost ? sizeof(uint16_t) : p->sum->real_bytes;
    const void *from = p->sum->lost ? rounded(p, out, in) : at_element(p->sum, out.from);
    int e = 0;
    if (p->sum->lost)
        into = work_of(p);
    if (in.from < in.to)
        e = c->mpi->receive(c->job, into, (in.to - in.from) * each, partner, tag, &p->requests[0]);
    if (e == 0 && out.from < out.to)
        e = c->mpi->send(c->job, from, (out.to - out.from) * each, partner, tag, &p->requests[1]);
    return e == 0 ? PG_OK : pg__comm_failed(c, e, p->sum->what, err);
}

static pg_status begin_level(pg__comm *c, pg__sum_piece *p, pg_err *err)
{
    pg__range other;
    const pg__range mine = keeps_at(c, p, &other);
    return p->goes_up ? swap(c, p, mine, at_element(p->sum, other.from), other, err)
                      : swap(c, p, other, work_of(p), mine, err);
}

static void finish(pg__comm *c, pg__sum_piece *p)
{
    pg__comm_sum_of *s = p->sum, **at = &c->sums;
    p->sum = NULL;
    s->n_done += p->to - p->from;
    if (s->n_done < s->n)
        return;
    s->is_under_way = 0;
    s->ended = pg__now();
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
}

/* Sums of what this rank keeps, or on the way up the others'. */
static void take(const pg__sum_piece *p, pg__range mine, pg__range other)
{
    const pg__comm_sum_of *s = p->sum;
    const pg__range in = p->goes_up ? other : mine;
    if (s->lost)
        pg__bf16_take((float *)s->mem + in.from, (const uint16_t *)(const void *)work_of(p),
                      in.to - in.from, !p->goes_up);
    else if (!p->goes_up)
        pg__tree_add(at_element(s, in.from), work_of(p), in.to - in.from, s->real_bytes);
}

/* The sums of `mine` are complete; all ranks get the same. */
static void turn(pg__sum_piece *p, pg__range mine)
{
    const pg__comm_sum_of *s = p->sum;
    p->goes_up = 1;
    if (s->lost)
        pg__bf16_round((float *)s->mem + mine.from, s->lost + mine.from, mine.to - mine.from);
}

/* The messages of the current level have arrived. */
static pg_status end_level(pg__comm *c, pg__sum_piece *p, pg_err *err)
{
    pg__range other;
    const pg__range mine = keeps_at(c, p, &other);
    take(p, mine, other);
    if (!p->goes_up) {
        if ((size_t)2 << p->level < c->size)
            p->level++;
        else
            turn(p, mine);
    } else if (p->level > 0) {
        p->level--;
    } else {
        finish(c, p);
        return PG_OK;
    }
    return begin_level(c, p, err);
}

static pg_status move(pg__comm *c, pg__sum_piece *p, pg_err *err)
{
    for (int k = 0; k < 2; k++) {
        const int e = c->mpi->test(c->job, &p->requests[k]);
        if (e != 0)
            return pg__comm_failed(c, e, p->sum->what, err);
    }
    if (p->requests[0] || p->requests[1])
        return PG_OK;
    if (p->sum->in_halves)
        return end_level(c, p, err);
    finish(c, p);
    return PG_OK;
}

/* ---- which pieces are in progress ---- */

static pg_status begin_piece(pg__comm *c, pg__comm_sum_of *s, pg_err *err)
{
    const size_t left = s->n - s->n_begun;
    const size_t most = PIECE / (s->lost ? sizeof(uint16_t) : s->real_bytes);
    const int is_cut = s->in_halves && c->n_local < c->size;
    pg__sum_piece *p = &c->pieces[c->next_piece % PG_PIECES];
    *p = (pg__sum_piece){.sum = s,
                         .from = s->n_begun,
                         .to = s->n_begun + (is_cut && left > most ? most : left),
                         .tag = (int)(PG_TAG_SUMS + c->next_piece % N_TAGS * TAGS)};
    c->next_piece++;
    s->n_begun = p->to;
    if (s->lost)
        pg__bf16_repay((float *)s->mem + p->from, s->lost + p->from, p->to - p->from);
    if (s->in_halves)
        return begin_level(c, p, err);
    const int to = s->to == PG_TO_ALL ? -1 : (int)s->to;
    const int e = c->mpi->sum(c->job, s->mem, s->n, s->real_bytes, to, &p->requests[0]);
    return e == 0 ? PG_OK : pg__comm_failed(c, e, s->what, err);
}

/* Every rank begins the pieces in the same order, of one sum after the other. */
static pg_status begin_pieces(pg__comm *c, pg_err *err)
{
    pg_status st = PG_OK;
    for (pg__comm_sum_of *s = c->sums; s && st == PG_OK; s = s->next)
        while (s->n_begun < s->n && c->next_piece - c->first_piece < PG_PIECES && st == PG_OK)
            st = begin_piece(c, s, err);
    return st;
}

pg_status pg__comm_sum_begin(pg__comm *c, pg__comm_sum_of *s, const char *what, pg_err *err)
{
    pg__comm_sum_of **end = &c->sums;
    pg_status st = PG_OK;
    s->next = NULL;
    s->what = what;
    s->n_begun = s->n_done = 0;
    s->is_under_way = 0;
    s->began = s->ended = pg__now();
    pg__mpi_lock(c);
    PG_TRY(pg__comm_begin(c, what, err));
    if (s->n > INT_MAX)
        PG_FAIL(PG_E_LIMIT, "%s: %zu numbers at once are too many", what, s->n);
    if (s->n == 0)
        goto done;
    s->in_halves = by_halves(c, s);
    s->is_under_way = 1;
    while (*end)
        end = &(*end)->next;
    *end = s;
    PG_TRY(begin_pieces(c, err));
    pg__mover_wake(c);
done:
    pg__mpi_unlock(c);
    return st;
}

void pg__sums_forget(pg__comm *c)
{
    c->sums = NULL;
    c->first_piece = c->next_piece;
}

void pg__sums_move(pg__comm *c, size_t n)
{
    for (size_t k = c->first_piece; k < c->next_piece && n > 0 && !c->is_broken; k++) {
        pg__sum_piece *p = &c->pieces[k % PG_PIECES];
        if (!p->sum)
            continue;
        c->sums_st = move(c, p, &c->sums_err);
        n--;
    }
    while (c->first_piece < c->next_piece && !c->pieces[c->first_piece % PG_PIECES].sum)
        c->first_piece++;
    if (!c->is_broken && c->sums)
        c->sums_st = begin_pieces(c, &c->sums_err);
    if (c->is_broken) /* they stay as they are */
        pg__sums_forget(c);
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
