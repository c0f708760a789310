/* comm_tree.c - sums whose order does not depend on who computed what. MPI_Allreduce may use any
 * order. So each rank swaps half of its numbers with rank xor 1, then half of that with rank xor 2,
 * and so on, each time adding the half that it keeps; afterwards the halves go back the same way
 * (recursive halving and doubling: Rabenseifner 2004). Each element is thus summed in the tree of
 * lanes.h, whose lower levels lie within each rank. 2 (R - 1) / R of the bytes go each way, as in a
 * ring. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "comm/comm_impl.h"

#define MAX_LEVELS 20
#define GRAIN      16                  /* elements */
#define PIECE      ((uint64_t)1 << 30) /* bytes of a message */

typedef struct tree {
    pg__comm *c;
    char *mem, *work;
    size_t real_bytes;
    const unsigned char *has; /* per rank */
    const char *what;
    pg_err *err;
} tree;

/* Sends [s.from, s.to) and receives [r.from, r.to) into `into`, piece by piece. */
static pg_status swap(const tree *t, size_t partner, pg__range s, int sends, char *into,
                      pg__range r, int receives)
{
    pg__comm *c = t->c;
    const uint64_t n_out = sends ? (uint64_t)(s.to - s.from) * t->real_bytes : 0;
    const uint64_t n_in = receives ? (uint64_t)(r.to - r.from) * t->real_bytes : 0;
    const char *out = t->mem + (uint64_t)s.from * t->real_bytes;
    char *in = into + (uint64_t)r.from * t->real_bytes;
    pg_status st = PG_OK;
    pg__mpi_lock(c);
    for (uint64_t at = 0; st == PG_OK && (at < n_out || at < n_in); at += PIECE) {
        void *requests[2] = {NULL, NULL};
        const uint64_t o = at < n_out ? (n_out - at < PIECE ? n_out - at : PIECE) : 0;
        const uint64_t i = at < n_in ? (n_in - at < PIECE ? n_in - at : PIECE) : 0;
        int e = 0;
        if (i > 0)
            e = c->mpi->receive(c->job, in + at, (size_t)i, (int)partner, PG_TAG_TREE,
                                &requests[0]);
        if (e == 0 && o > 0)
            e = c->mpi->send(c->job, out + at, (size_t)o, (int)partner, PG_TAG_TREE, &requests[1]);
        st = e == 0 ? pg__comm_wait(c, requests, 2, t->what, t->err)
                    : pg__comm_failed(c, e, t->what, t->err);
    }
    pg__mpi_unlock(c);
    return st;
}

void pg__tree_add(void *to, const void *more, size_t n, size_t real_bytes)
{
    if (real_bytes == sizeof(double)) {
        double *a = to;
        const double *b = more;
        for (size_t i = 0; i < n; i++)
            a[i] += b[i];
    } else {
        float *a = to;
        const float *b = more;
        for (size_t i = 0; i < n; i++)
            a[i] += b[i];
    }
}

/* Does any rank in the block of `size` that holds `rank` contribute? */
static int any(const tree *t, size_t rank, size_t size)
{
    const size_t first = rank / size * size;
    for (size_t k = first; k < first + size; k++)
        if (t->has[k])
            return 1;
    return 0;
}

/* The part of `all` that a rank keeps, and the part for its partner. Cut at cache lines, so that
 * vectors over the kept part begin where they would in all of it. */
pg__range pg__tree_half(pg__range all, size_t rank, size_t distance, pg__range *other)
{
    const size_t mid = all.from + (all.to - all.from) / 2 / GRAIN * GRAIN;
    const int is_low = (rank & distance) == 0;
    const pg__range low = {all.from, mid}, high = {mid, all.to};
    *other = is_low ? high : low;
    return is_low ? low : high;
}

/* One level down: the kept part of `all`, added to the partner's. */
static pg_status halve(const tree *t, pg__range all, size_t distance, pg__range *keeps)
{
    const size_t rank = t->c->rank, partner = rank ^ distance;
    pg__range other;
    const pg__range mine = pg__tree_half(all, rank, distance, &other);
    const int i_have = any(t, rank, distance), it_has = any(t, partner, distance);
    char *into = i_have ? t->work : t->mem;
    const pg_status st = swap(t, partner, other, i_have, into, mine, it_has);
    if (st == PG_OK && i_have && it_has)
        pg__tree_add(t->mem + (uint64_t)mine.from * t->real_bytes,
                     t->work + (uint64_t)mine.from * t->real_bytes, mine.to - mine.from,
                     t->real_bytes);
    *keeps = mine;
    return st;
}

void pg__comm_tree_own(size_t rank, size_t n_ranks, size_t n, size_t *from, size_t *to)
{
    pg__range own = {0, n}, other;
    for (size_t distance = 1; distance < n_ranks; distance *= 2)
        own = pg__tree_half(own, rank, distance, &other);
    *from = own.from;
    *to = own.to;
}

pg_status pg__comm_tree_double(pg__comm *c, void *mem, size_t n, size_t real_bytes,
                               const char *what, pg_err *err)
{
    const tree t = {.c = c, .mem = mem, .real_bytes = real_bytes, .what = what, .err = err};
    pg__range at[MAX_LEVELS + 1] = {{0, n}}, other[MAX_LEVELS];
    size_t level = 0, distance;
    pg_status st = PG_OK;
    if (!c)
        return PG_OK;
    for (distance = 1; distance < c->size; distance *= 2, level++)
        at[level + 1] = pg__tree_half(at[level], c->rank, distance, &other[level]);
    while (level-- > 0) {
        distance /= 2;
        PG_TRY(swap(&t, c->rank ^ distance, at[level + 1], 1, mem, other[level], 1));
    }
done:
    return st;
}

pg_status pg__comm_tree_sum(pg__comm *c, void *mem, void *work, size_t n, size_t real_bytes,
                            int *has, const char *what, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__comm_tree_halve(c, mem, work, n, real_bytes, has, what, err));
    if (*has)
        PG_TRY(pg__comm_tree_double(c, mem, n, real_bytes, what, err));
done:
    return st;
}

pg_status pg__comm_tree_halve(pg__comm *c, void *mem, void *work, size_t n, size_t real_bytes,
                              int *has, const char *what, pg_err *err)
{
    unsigned char *all = NULL, mine = (unsigned char)(*has != 0);
    pg__range own = {0, n};
    pg_status st = PG_OK;
    if (!c || c->size == 1)
        return PG_OK;
    all = pg__mem_array(c->size, 1);
    if (!all)
        return pg__nomem(err);
    PG_TRY(pg__comm_gather(c, &mine, all, 1, what, err));
    const tree t = {c, mem, work, real_bytes, all, what, err};
    *has = any(&t, 0, c->size);
    for (size_t distance = 1; *has && distance < c->size; distance *= 2)
        PG_TRY(halve(&t, own, distance, &own));
done:
    pg__mem_free(all);
    return st;
}
