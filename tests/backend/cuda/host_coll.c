/* host_coll.c - coll.h without a GPU: see host.h. Ranks meet when their queues come to it, on a
 * board that they share: of several processes it is shared memory, which the id names. One that
 * waits alone longer than FAKE_CUDA_PATIENCE seconds (10, or what a group of processes has) gives
 * up. The rank FAKE_CUDA_ABSENT never comes; a process with FAKE_CUDA_LATE=N,SECONDS comes to its
 * Nth sum or broadcast so much later. */
#include "host.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "backend/cuda/coll.h"
#include "backend/cuda/pgk.h"

#define MAX_RANKS 64
#define PIECE     65536u /* floats that are summed at once */

typedef struct board {
    _Atomic uint64_t came[MAX_RANKS]; /* meetings that a rank came to */
    float slots[][PIECE];             /* what it brought */
} board;

struct pg__coll {
    size_t n, first, n_all;
    pg__timeout timeout;
    board *b;
    size_t board_bytes; /* 0: it is this process' */
    pg__rt **rt;
    _Atomic int broken, dropped;
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

pg_status pg__coll_id(unsigned char id[PG_GROUP_ID], pg_err *err)
{
    if (pg__fake_fails("coll_id"))
        return pg_fail(err, PG_E_UNSUPPORTED, "coll_id: failure that was ordered");
    if (id && getrandom(id, PG_GROUP_ID, 0) != PG_GROUP_ID)
        abort();
    return PG_OK;
}

/* Until all are there, or it is given up. */
static void meet_at(pg__coll *c, size_t rank)
{
    const char *timeout = getenv("FAKE_CUDA_PATIENCE");
    const double until = seconds() + (timeout ? atof(timeout) : c->timeout.seconds);
    const uint64_t mine = atomic_fetch_add(&c->b->came[c->first + rank], 1) + 1;
    for (size_t k = 0; k < c->n_all && !c->broken;) {
        if (atomic_load(&c->b->came[k]) >= mine)
            k++;
        else if (seconds() > until || (c->timeout.ends && c->timeout.ends(c->timeout.of)))
            c->broken = 1;
        else
            (void)nanosleep(&(struct timespec){0, 20000}, NULL);
    }
}

static void open_board(pg__coll *c, const pg__group_place *among)
{
    char name[32] = "/pg-fake-";
    const size_t bytes = sizeof *c->b + c->n_all * sizeof c->b->slots[0];
    if (!among) {
        c->b = calloc(1, bytes);
        if (!c->b)
            abort();
        return;
    }
    for (size_t k = 0; k < 8; k++)
        (void)snprintf(name + 9 + 2 * k, 3, "%02x", among->id[k]);
    const int fd = shm_open(name, O_CREAT | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        abort();
    c->board_bytes = bytes;
    c->b = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (c->b == MAP_FAILED)
        abort();
    (void)close(fd);
    for (size_t k = 0; k + 1 < c->n; k++) /* all of this process' come at once */
        atomic_fetch_add(&c->b->came[c->first + k], 1);
    meet_at(c, c->n - 1);
    (void)shm_unlink(name);
}

pg_status pg__coll_new(pg__coll **out, pg__rt *const *streams, size_t n,
                       const pg__group_place *among, pg_err *err)
{
    if (pg__fake_fails("coll_new"))
        return pg_fail(err, PG_E_UNSUPPORTED, "coll_new: failure that was ordered");
    pg__coll *c = calloc(1, sizeof *c);
    if (!c || !(c->rt = calloc(n, sizeof *c->rt)))
        abort();
    memcpy(c->rt, streams, n * sizeof(pg__rt *));
    c->n = n;
    c->first = among ? among->first : 0;
    c->n_all = among ? among->n_all : n;
    c->timeout = among ? among->timeout : (pg__timeout){.seconds = 10};
    if (c->n_all > MAX_RANKS)
        abort();
    open_board(c, among);
    if (c->broken) {
        pg__coll_free(c);
        return pg_fail(err, PG_E_PEER, "cuda:%zu: another process' GPU did not come",
                       pg__rt_ordinal(streams[0]));
    }
    *out = c;
    return PG_OK;
}

void pg__coll_free(pg__coll *c)
{
    if (!c)
        return;
    if (c->board_bytes)
        (void)munmap(c->b, c->board_bytes);
    else
        free(c->b);
    free(c->rt);
    free(c);
}

typedef struct visit {
    pg__coll *c;
    size_t rank, root;
    int sums;
    float *p;
} visit;

/* In the order of ranks. */
static void take(const visit *v, float *p, size_t n)
{
    const pg__coll *c = v->c;
    for (size_t i = 0; i < n; i++) {
        float all = c->b->slots[v->sums ? 0 : v->root][i];
        for (size_t r = 1; v->sums && r < c->n_all; r++)
            all += c->b->slots[r][i];
        p[i] = all;
    }
}

static void be_late(void)
{
    static _Atomic unsigned n_meetings;
    const char *late = getenv("FAKE_CUDA_LATE");
    const unsigned mine = ++n_meetings;
    if (late && strtoul(late, NULL, 10) == mine && strchr(late, ','))
        (void)nanosleep(&(struct timespec){.tv_sec = atoi(strchr(late, ',') + 1)}, NULL);
}

static void meet(const void *args, uint64_t n)
{
    const visit *v = args;
    pg__coll *c = v->c;
    const char *absent = getenv("FAKE_CUDA_ABSENT");
    float *p = pgk_host_memory(v->p);
    if (absent && strtoul(absent, NULL, 10) == c->first + v->rank)
        return;
    be_late();
    for (uint64_t at = 0; at < n && !c->broken; at += PIECE) {
        const size_t some = n - at < PIECE ? (size_t)(n - at) : PIECE;
        memcpy(c->b->slots[c->first + v->rank], p + at, some * sizeof *p);
        meet_at(c, v->rank);
        if (c->broken)
            return;
        take(v, p + at, some);
        meet_at(c, v->rank); /* then what was brought may be overwritten */
    }
}

static pg_status queue_visit(const char *name, const visit *v, size_t n, pg_err *err)
{
    if (v->c->dropped)
        return pg_fail(err, PG_E_DEVICE, "cuda:%zu: NCCL was shut down after an earlier failure",
                       pg__rt_ordinal(v->c->rt[v->rank]));
    if (pg__fake_is_recording(pg__rt_stream(v->c->rt[v->rank]))) /* all ranks would have to */
        return pg_fail(err, PG_E_DEVICE, "%s: it would be recorded", name);
    return pg__fake_queue(pg__rt_stream(v->c->rt[v->rank]), name, meet, v, sizeof *v, n) == 0
               ? PG_OK
               : pg_fail(err, PG_E_DEVICE, "%s: failure that was ordered", name);
}

pg_status pg__coll_sum(pg__coll *c, size_t rank, float *p, size_t n, pg_err *err)
{
    return queue_visit("coll_sum", &(visit){.c = c, .rank = rank, .sums = 1, .p = p}, n, err);
}

pg_status pg__coll_broadcast(pg__coll *c, size_t rank, float *p, size_t n, size_t root, pg_err *err)
{
    return queue_visit("coll_broadcast", &(visit){.c = c, .rank = rank, .root = root, .p = p}, n,
                       err);
}

pg_status pg__coll_check(pg__coll *c, size_t rank, const pg__timeout *p, pg_err *err)
{
    const pg_status st = pg__rt_sync(c->rt[rank], err);
    if (st != PG_OK || !c->broken)
        return st;
    return pg_fail(err, c->n_all > c->n ? PG_E_PEER : PG_E_DEVICE,
                   "cuda:%zu waited %.0f seconds for another GPU", pg__rt_ordinal(c->rt[rank]),
                   p->seconds);
}

void pg__coll_drop(pg__coll *c)
{
    c->broken = c->dropped = 1;
}
