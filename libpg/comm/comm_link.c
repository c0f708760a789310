/* comm_link.c - measures what a message costs between two ranks, with the operations that sums use.
 * Swaps of a few bytes give the latency; halving sums of two ranks, as in comm_sums.c, give the
 * cost of many bytes beside the latency of their two swaps. The best result counts, because other
 * load on the machine can only add time. */
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/try.h"
#include "comm/comm_impl.h"

#define SWAPS   100u /* in a row, of a few bytes */
#define FEWEST  5u   /* rounds */
#define MANY    400u
#define LEAST   ((size_t)16 << 10) /* numbers of a sum */
#define MOST    ((size_t)1 << 20)  /* the same; as many numbers as buckets of gradients have */
#define PLACES  16u                /* in memory, so that none is in a cache, as gradients */
#define SECONDS 1.0                /* for all rounds together */

static const char what[] = "what a message costs";

typedef struct pair {
    pg__comm *c;
    size_t other;
    int is_first;
    float *mem, *work; /* PLACES times MOST numbers, and half of that */
    size_t place;
} pair;

static pg_status swap(const pair *p, const float *out, float *in, size_t n, pg_err *err)
{
    return pg__comm_swap(p->c, out, in, n * sizeof *out, p->other, what, err);
}

/* n is even. */
static pg_status sum_of_two(pair *p, size_t n, pg_err *err)
{
    float *low = p->mem + p->place * MOST, *high = low + n / 2;
    float *work = p->work + p->place * (MOST / 2);
    float *mine = p->is_first ? low : high, *others = p->is_first ? high : low;
    pg_status st = PG_OK;
    p->place = (p->place + 1) % PLACES;
    PG_TRY(swap(p, others, work, n / 2, err));
    pg__tree_add(mine, work, n / 2, sizeof *mine);
    PG_TRY(swap(p, mine, others, n / 2, err));
done:
    return st;
}

/* Seconds of a sum of n numbers or, with n 0, of a swap of a few. */
static pg_status seconds_of(pair *p, size_t n, double *out, pg_err *err)
{
    const double begun = pg__now();
    pg_status st = PG_OK;
    for (unsigned i = 0; n == 0 && i < SWAPS; i++)
        PG_TRY(swap(p, p->mem, p->work, 2, err));
    if (n > 0)
        PG_TRY(sum_of_two(p, n, err));
    *out = (pg__now() - begun) / (n == 0 ? SWAPS : 1);
done:
    return st;
}

/* Both use the sizes that the first rank chose. */
static pg_status agree(const pair *p, uint64_t plan[2], pg_err *err)
{
    const size_t own = p->c->rank;
    return pg__comm_move(p->c, plan, 2 * sizeof *plan, p->is_first ? own : p->other,
                         p->is_first ? p->other : own, what, err);
}

static pg_status measure(pair *p, double *latency, double *bandwidth, pg_err *err)
{
    double once, best[2] = {0, 0};
    uint64_t plan[2] = {LEAST, FEWEST}; /* numbers of a sum; rounds */
    pg_status st = PG_OK;
    for (int warm = 0; warm < 2; warm++)
        PG_TRY(seconds_of(p, LEAST, &once, err));
    for (; plan[0] < MOST && 2 * once < SECONDS / FEWEST; once *= 2)
        plan[0] *= 2;
    while (plan[1] < MANY && once * (double)plan[1] < SECONDS)
        plan[1]++;
    PG_TRY(agree(p, plan, err));
    for (uint64_t k = 0; k < plan[1]; k++)
        for (size_t i = 0; i < 2; i++) {
            PG_TRY(seconds_of(p, i * (size_t)plan[0], &once, err));
            best[i] = k == 0 || once < best[i] ? once : best[i];
        }
    const double bytes = (double)plan[0] * sizeof *p->mem, swaps = 2 * best[0];
    *latency = best[0];
    *bandwidth = bytes / (best[1] > 2 * swaps ? best[1] - swaps : best[1]);
done:
    return st;
}

pg_status pg__comm_link(pg__comm *c, size_t first, size_t second, double *latency,
                        double *bandwidth, pg_err *err)
{
    double mine[2] = {0, 0}, *all = NULL;
    pair p = {.c = c, .other = c->rank == first ? second : first, .is_first = c->rank == first};
    pg_status st = PG_OK;
    all = pg__mem_array(c->size, sizeof mine);
    if (!all)
        PG_TRY(pg__nomem(err));
    if (c->rank == first || c->rank == second) {
        p.mem = pg__mem_aligned(PLACES * MOST * sizeof *p.mem);
        p.work = pg__mem_aligned(PLACES * MOST / 2 * sizeof *p.mem);
        if (!p.mem || !p.work)
            PG_TRY(pg__nomem(err));
        PG_TRY(measure(&p, &mine[0], &mine[1], err));
    }
    PG_TRY(pg__comm_gather(c, mine, all, sizeof mine, what, err));
    *latency = all[2 * first];
    *bandwidth = all[2 * first + 1];
done:
    pg__mem_free(p.mem);
    pg__mem_free(p.work);
    pg__mem_free(all);
    return st;
}
