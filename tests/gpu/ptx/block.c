/* block.c - the threads of a block, one after the other: each goes on until it waits for others,
 * at a barrier of the block or to exchange values with its warp. */
#include "engine.h"

#include <string.h>

enum { READY, ENDED, AT_BARRIER, AT_WARP };

#define LANES 32u

uint64_t ptx_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u; /* Steele, Lea and Flood: SplitMix, 2014 */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static void reset(ptx_launch *l)
{
    const uint32_t *const grid = l->threads[0].nctaid;
    const uint32_t x = l->block % grid[0], rest = l->block / grid[0];
    for (uint32_t n = 0; n < l->n_threads; n++) {
        ptx_thread *t = &l->threads[n];
        t->ctaid[0] = x, t->ctaid[1] = rest % grid[1], t->ctaid[2] = rest / grid[1];
        t->pc = 0, t->state = READY, t->warp_interval = 0;
        if (l->kernel->local_bytes > 0)
            memset(t->local_known, 0, l->kernel->local_bytes);
    }
    l->interval = 0;
    if (l->shared.known)
        memset(l->shared.known, 0, l->shared.n);
}

/* Each order of the threads is as likely as another. */
static void deal(ptx_launch *l)
{
    for (uint32_t k = l->n_threads; ptx_seed != 0 && k > 1; k--) {
        const uint32_t other = (uint32_t)(ptx_random(&l->random) % k);
        const uint16_t was = l->order[k - 1];
        l->order[k - 1] = l->order[other];
        l->order[other] = was;
    }
}

/* Those that can go on do; whether there was one. */
static int go_on(ptx_launch *l)
{
    int any = 0;
    deal(l);
    for (uint32_t k = 0; k < l->n_threads; k++) {
        ptx_thread *t = &l->threads[l->order[k]];
        if (t->state != READY)
            continue;
        const ptx_stop stop = l->kernel->run(t);
        t->state = stop == PTX_ENDED ? ENDED : stop == PTX_AT_BARRIER ? AT_BARRIER : AT_WARP;
        if (t->state == AT_WARP && !(t->mask >> t->lane & 1))
            ptx_fault(t, t->at, "its mask 0x%x does not name it", t->mask);
        any = 1;
    }
    return any;
}

/* ---- what a warp does together ---- */

static ptx_thread *lane_of(ptx_launch *l, const ptx_thread *of, uint32_t lane)
{
    const uint32_t n = of->number / LANES * LANES + lane;
    return n < l->n_threads ? &l->threads[n] : NULL;
}

static int is_with(const ptx_thread *a, const ptx_thread *b)
{
    return b->state == AT_WARP && b->at == a->at && b->pc == a->pc && b->mask == a->mask;
}

/* A thread that its mask names and that does not wait at the same place; NULL: they all do. One
 * that has ended is such a one: whether it was there in time nobody knows. */
static const ptx_thread *absent(ptx_launch *l, const ptx_thread *t)
{
    for (uint32_t lane = 0; lane < LANES; lane++) {
        const ptx_thread *o = t->mask >> lane & 1 ? lane_of(l, t, lane) : NULL;
        if (o && !is_with(t, o))
            return o;
    }
    return NULL;
}

/* The lane whose value a shuffle gives; *is_in: whether it is within the bounds of the call. */
static uint32_t source_of(const ptx_thread *t, int *is_in)
{
    const uint32_t segment = t->c >> 8 & 31, clamp = t->c & 31, by = t->b & 31;
    const uint32_t first = t->lane & segment, last = first | (clamp & ~segment);
    uint32_t from = t->lane;
    switch (t->exchange) {
    case PTX_SHFL_UP:
        *is_in = (int)(t->lane - by) >= (int)last;
        from = t->lane - by;
        break;
    case PTX_SHFL_DOWN:
        from = t->lane + by;
        *is_in = from <= last;
        break;
    case PTX_SHFL_BFLY:
        from = t->lane ^ by;
        *is_in = from <= last;
        break;
    default:
        from = first | (by & ~segment);
        *is_in = from <= last;
        break;
    }
    return *is_in ? from : t->lane;
}

static void take_shuffle(ptx_launch *l, ptx_thread *t)
{
    const uint32_t from = source_of(t, &t->truth);
    const ptx_thread *o = lane_of(l, t, from);
    if (!o || !(t->mask >> from & 1))
        ptx_fault(t, t->at, "a divergent shuffle: it takes the value of lane %u, which has no part",
                  from);
    t->result = o->value;
}

static void take_vote(ptx_launch *l, ptx_thread *t)
{
    uint32_t ballot = 0, part = 0;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        const ptx_thread *o = t->mask >> lane & 1 ? lane_of(l, t, lane) : NULL;
        if (!o)
            continue;
        part |= 1u << lane;
        ballot |= (uint32_t)(o->value != 0) << lane;
    }
    t->result = ballot;
    t->truth = t->exchange == PTX_VOTE_ALL   ? ballot == part
               : t->exchange == PTX_VOTE_ANY ? ballot != 0
                                             : ballot == 0 || ballot == part;
}

/* A barrier puts what the warp did before it in order: modelled of whole warps. */
static void pass_barrier(ptx_launch *l, ptx_thread *t)
{
    for (uint32_t lane = 0; lane < LANES; lane++) {
        const ptx_thread *o = lane_of(l, t, lane);
        if (o && o->state != ENDED && !(t->mask >> lane & 1))
            ptx_fault(t, t->at, "a barrier of a part of a warp, which nobody follows");
    }
    t->warp_interval++;
}

static void exchange(ptx_launch *l, ptx_thread *t)
{
    if (t->exchange == PTX_WARP_BARRIER)
        pass_barrier(l, t);
    else if (t->exchange <= PTX_SHFL_IDX)
        take_shuffle(l, t);
    else
        take_vote(l, t);
}

/* Of the warp that begins with thread `first`; whether any thread can go on. */
static int meet(ptx_launch *l, uint32_t first)
{
    uint32_t met = 0;
    for (uint32_t lane = 0; lane < LANES && first + lane < l->n_threads; lane++) {
        ptx_thread *t = &l->threads[first + lane];
        if (t->state != AT_WARP)
            continue;
        if (absent(l, t))
            continue;
        exchange(l, t);
        met |= 1u << lane;
    }
    for (uint32_t lane = 0; lane < LANES; lane++)
        if (met >> lane & 1)
            l->threads[first + lane].state = READY;
    return met != 0;
}

/* ---- what a block does together ---- */

static const char *state_of(const ptx_thread *t)
{
    return t->state == ENDED        ? "has ended"
           : t->state == AT_BARRIER ? "waits at the barrier of "
                                    : "exchanges values at ";
}

/* Nobody can go on: says for whom this thread waits. */
static _Noreturn void stuck(const ptx_launch *l, ptx_thread *t, const ptx_thread *other)
{
    const char *const what = t->state == AT_BARRIER            ? "a divergent barrier"
                             : t->exchange == PTX_WARP_BARRIER ? "a divergent barrier of a warp"
                             : t->exchange <= PTX_SHFL_IDX     ? "a divergent shuffle"
                                                               : "a divergent vote";
    ptx_fault(t, t->at, "%s: thread %u %s%s", what, other->number, state_of(other),
              other->state == ENDED ? "" : l->kernel->places[other->at]);
}

static void find_stuck(ptx_launch *l)
{
    for (uint32_t n = 0; n < l->n_threads; n++) {
        ptx_thread *t = &l->threads[n];
        const ptx_thread *o = t->state == AT_WARP ? absent(l, t) : NULL;
        if (o)
            stuck(l, t, o);
    }
}

/* All wait at one barrier, or have ended; whether any is left. */
static int pass(ptx_launch *l)
{
    ptx_thread *first = NULL;
    for (uint32_t n = 0; n < l->n_threads; n++)
        if (!first && l->threads[n].state == AT_BARRIER)
            first = &l->threads[n];
    if (!first)
        return 0;
    for (uint32_t n = 0; n < l->n_threads; n++) {
        const ptx_thread *t = &l->threads[n];
        if (t->state != AT_BARRIER || t->at != first->at || t->pc != first->pc)
            stuck(l, first, t);
    }
    for (uint32_t n = 0; n < l->n_threads; n++)
        l->threads[n].state = READY;
    l->interval++;
    return 1;
}

void ptx_block_run(ptx_launch *l)
{
    reset(l);
    do {
        while (go_on(l))
            for (uint32_t first = 0; first < l->n_threads; first += LANES)
                (void)meet(l, first);
        find_stuck(l);
    } while (pass(l));
}
