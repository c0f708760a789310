/* comm.c - see comm.h. A wait polls, because MPI moves messages only while it is called: without a
 * pause for some tens of microseconds, then yielding the core after each poll. The thread naps only
 * when it has waited longer than a large message takes: Open MPI moves those in pieces of 16 KB,
 * and a nap for each makes them several times slower. */
#include "comm/comm.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "comm/comm_impl.h"

#define SPINS        30e-6             /* seconds, before the thread yields its core */
#define YIELDS       0.1               /* seconds, before the thread naps between polls */
#define GONE_EVERY   0.05              /* seconds between looks for peers' processes */
#define AFTER_CANCEL 10.0              /* seconds for the others, once all must leave */
#define AT_THE_END   3600.0            /* seconds, for those that are alive */
#define LATE_NAPS    1000              /* of 1 ms, for a transport to give its own message */
#define PIECE        ((size_t)1 << 30) /* bytes of one message; MPI counts in ints */

static int is_cancelled(const pg__comm *c)
{
    return c->cancel && __atomic_load_n(c->cancel, __ATOMIC_RELAXED);
}

void pg__mpi_lock(pg__comm *c)
{
    pthread_mutex_lock(&c->lock);
}

int pg__mpi_try_lock(pg__comm *c)
{
    return pthread_mutex_trylock(&c->lock) == 0;
}

void pg__mpi_unlock(pg__comm *c)
{
    pthread_mutex_unlock(&c->lock);
}

/* ---- opening ---- */

/* MPI_Init returns when all processes have called it, and has no timeout. So it runs in a thread,
 * which is abandoned if a process never arrives. */
typedef struct opening {
    const pg__mpi *mpi;
    pg__mpi_job *job;
    int rank, size, error;
    double timeout;
    char name[PG_MPI_MESSAGE];
    _Atomic int is_over;
} opening;

static void *open_job(void *arg)
{
    opening *o = arg;
    o->error = o->mpi->open(&o->job, o->timeout, &o->rank, &o->size, o->name);
    o->is_over = 1;
    return NULL;
}

static pg_status join(pg__comm *c, pg_err *err)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    const double until = pg__now() + c->timeout;
    int late = 0;
    opening *o = pg__mem_array(1, sizeof *o);
    pthread_t thread;
    pg_status st = PG_OK;
    if (!o)
        return pg__nomem(err);
    o->mpi = c->mpi;
    o->timeout = c->timeout;
    const int failed = pthread_create(&thread, NULL, open_job, o);
    if (failed) {
        pg__mem_free(o);
        return pg_fail_sys(err, PG_E_IO, failed, "cannot start a thread");
    }
    /* A transport with its own timeout gives a better message. The naps that it has for that are
     * counted, not timed: this process, or the machine, may have been stopped for any time. */
    while (!o->is_over && late < LATE_NAPS && !is_cancelled(c)) {
        nanosleep(&nap, NULL);
        late += pg__now() >= until;
    }
    if (!o->is_over) {
        (void)pthread_detach(thread);
        c->is_broken = 1;
        if (is_cancelled(c))
            return pg_fail(err, PG_E_CANCELLED, "interrupted while waiting for other processes");
        return pg_fail(err, PG_E_PEER, "not all processes of the job started within %.0f s",
                       c->timeout);
    }
    (void)pthread_join(thread, NULL);
    if (o->error != 0) {
        st = pg__comm_failed(c, o->error, "the start", err);
    } else {
        c->job = o->job;
        c->rank = (size_t)o->rank;
        c->size = (size_t)o->size;
        memcpy(c->name, o->name, sizeof c->name);
    }
    pg__mem_free(o);
    return st;
}

pg_status pg__comm_join(pg__comm **out, const pg__comm_opts *opts, pg_err *err)
{
    const pg__job_place place = pg__job_place_of();
    pg__comm *c = NULL;
    pg_status st = PG_OK;
    *out = NULL;
    if (place.by == PG_ALONE)
        return PG_OK;
    c = pg__mem_array(1, sizeof *c);
    if (!c)
        return pg__nomem(err);
    pthread_mutex_init(&c->lock, NULL);
    c->timeout = opts->timeout > 0 ? opts->timeout : 300;
    c->cancel = opts->cancel;
    c->seen = pg__now();
    if (place.by == PG_TORCHRUN && opts->on_gpus)
        c->mpi = pg__tcp();
    else
        PG_TRY(pg__plugin_mpi(&c->mpi, place.by, err));
    PG_TRY(join(c, err));
    if (c->size != place.size)
        PG_FAIL(PG_E_UNSUPPORTED,
                "the launcher started %zu processes, %s sees %zu: it is another MPI's launcher",
                place.size, c->name, c->size);
    PG_TRY(pg__peers_exchange(c, err));
    pg__peers_count(c, &place);
    *out = c;
    c = NULL;
done:
    pg__comm_close(c);
    return st;
}

/* Rank 0 may write for a long time, and be asked to stop meanwhile. */
static double be_patient(pg__comm *c, const volatile int **cancel)
{
    const double before = c->timeout;
    *cancel = c->cancel;
    c->cancel = NULL;
    c->timeout = before > AT_THE_END ? before : AT_THE_END;
    return before;
}

void pg__comm_forget_sums(pg__comm *c)
{
    pg__mover_stop(c);
    pg__sums_forget(c);
}

static void leave(pg__comm *c, pg__mpi_end how)
{
    if (!c)
        return;
    pg__comm_forget_sums(c);
    if (c->job && !c->is_broken) { /* MPI itself would wait for ever */
        const volatile int *cancel;
        void *request = NULL;
        (void)be_patient(c, &cancel);
        if (c->mpi->meet(c->job, &request) != 0 ||
            pg__comm_wait(c, &request, 1, "the end", NULL) != PG_OK)
            c->is_broken = 1;
    }
    if (c->job)
        c->mpi->close(c->job, c->is_broken ? PG_LEFT : how);
    pthread_mutex_destroy(&c->lock);
    pg__mem_free(c->peers);
    pg__mem_free(c);
}

void pg__comm_close(pg__comm *c)
{
    leave(c, PG_IN_ORDER);
}

void pg__comm_leave(pg__comm *c)
{
    leave(c, PG_FOR_GOOD);
}

void pg__comm_abandon(pg__comm *c)
{
    pg__mpi_lock(c);
    c->is_broken = 1;
    pg__mpi_unlock(c);
}

size_t pg__comm_rank(const pg__comm *c)
{
    return c ? c->rank : 0;
}

size_t pg__comm_size(const pg__comm *c)
{
    return c ? c->size : 1;
}

const char *pg__comm_host(const pg__comm *c, size_t rank)
{
    return c->peers[rank].host;
}

const char *pg__comm_name(const pg__comm *c)
{
    return c->name;
}

double pg__comm_waited(const pg__comm *c)
{
    return c ? c->waited : 0;
}

double pg__comm_timeout(const pg__comm *c)
{
    return c->timeout;
}

size_t pg__comm_local(const pg__comm *c, size_t *n)
{
    *n = c->n_local;
    return c->local;
}

size_t pg__comm_gone(const pg__comm *c)
{
    return pg__peers_gone(c);
}

int pg__comm_is_over(const pg__comm *c)
{
    return c->is_broken;
}

static double look_around(pg__comm *c)
{
    const double at = pg__now();
    c->absent = at - c->seen > c->absent ? at - c->seen : c->absent;
    c->seen = at;
    return at;
}

int pg__comm_ends(pg__comm *c)
{
    if (pg__mpi_try_lock(c)) {
        (void)look_around(c);
        c->is_asked = c->is_asked || pg__peers_ask(c);
        pg__mpi_unlock(c);
    }
    return c->is_asked || pg__peers_gone(c) < c->size;
}

/* A rank is gone: did it leave because this one kept the others waiting? */
static pg_status lost(pg__comm *c, size_t gone, const char *what, pg_err *err)
{
    return c->absent > c->timeout ? pg__peers_left(c, c->absent, err)
                                  : pg__peers_lost(c, gone, what, err);
}

pg_status pg__comm_missed(pg__comm *c, const char *what, pg_err *err)
{
    pg__mpi_lock(c);
    const size_t gone = pg__peers_gone(c);
    const pg_status st =
        gone < c->size ? lost(c, gone, what, err) : pg__peers_missing(c, what, c->timeout, err);
    pg__mpi_unlock(c);
    return st;
}

/* ---- waiting ---- */

/* MPI may notice that a process is gone before its process number disappears. */
pg_status pg__comm_failed(pg__comm *c, int error, const char *what, pg_err *err)
{
    const struct timespec nap = {.tv_nsec = 10000000};
    char text[PG_MPI_MESSAGE];
    size_t gone = pg__peers_gone(c);
    for (int k = 0; k < 20 && gone == c->size; k++) {
        nanosleep(&nap, NULL);
        gone = pg__peers_gone(c);
    }
    if (gone < c->size)
        return pg__peers_lost(c, gone, what, err);
    c->mpi->describe(error, text);
    c->is_broken = 1;
    return pg_fail(err, PG_E_PEER, "%s: %s failed: %s", what, c->mpi->name, text);
}

typedef struct request_list {
    void **of;
    size_t n;
} request_list;

static pg_status look_at_requests(pg__comm *c, void *ctx, size_t *left, const char *what,
                                  pg_err *err)
{
    const request_list *r = ctx;
    for (size_t k = 0; k < r->n; k++) {
        const int e = c->mpi->test(c->job, &r->of[k]);
        if (e != 0)
            return pg__comm_failed(c, e, what, err);
        *left += r->of[k] != NULL;
    }
    return PG_OK;
}

pg_status pg__comm_wait(pg__comm *c, void **of, size_t n, const char *what, pg_err *err)
{
    return pg__comm_wait_for(c, look_at_requests, &(request_list){of, n}, what, err);
}

static void rest(double waited)
{
    const struct timespec nap = {.tv_nsec = 20000};
    if (waited > YIELDS)
        nanosleep(&nap, NULL);
    else if (waited > SPINS)
        sched_yield();
}

static pg_status look_and_move(pg__comm *c, pg__comm_look look, void *ctx, size_t *left,
                               const char *what, pg_err *err)
{
    pg__sums_move(c, SIZE_MAX);
    const pg_status st = pg__sums_failed(c, err);
    return st == PG_OK ? look(c, ctx, left, what, err) : st;
}

pg_status pg__comm_wait_for(pg__comm *c, pg__comm_look look, void *ctx, const char *what,
                            pg_err *err)
{
    const double began = pg__now();
    double last = began, until = began + c->timeout;
    size_t left = 0;
    pg_status st = PG_OK;
    int seen = 0;
    c->absent = 0;
    for (;; left = 0) {
        PG_TRY(look_and_move(c, look, ctx, &left, what, err));
        if (left == 0)
            break;
        const double at = look_around(c);
        rest(at - began);
        if (at - last < GONE_EVERY)
            continue;
        last = at;
        const size_t gone = pg__peers_gone(c);
        if (gone < c->size) { /* a message that it sent may still be on its way */
            left = 0;
            PG_TRY(look_and_move(c, look, ctx, &left, what, err));
            if (left == 0)
                break;
            st = lost(c, gone, what, err);
            goto done;
        }
        if (!seen && is_cancelled(c)) {
            seen = 1;
            until = at + AFTER_CANCEL < until ? at + AFTER_CANCEL : until;
        }
        if (at > until || pg__peers_ask(c)) {
            const double waited = at > until ? at - began : c->timeout; /* the longest of all */
            st = pg__peers_missing(c, what, waited, err);
            goto done;
        }
    }
done:
    c->waited += pg__now() - began;
    return st;
}

pg_status pg__comm_begin(pg__comm *c, const char *what, pg_err *err)
{
    if (!c->is_broken)
        return PG_OK;
    const pg_status st = pg__sums_failed(c, err);
    const size_t gone = pg__peers_gone(c);
    if (st != PG_OK)
        return st;
    return gone < c->size ? pg__peers_lost(c, gone, what, err)
                          : pg_fail(err, PG_E_PEER, "%s: another rank is gone", what);
}

/* ---- exchanging data ---- */

static pg_status begun(pg__comm *c, int e, const char *what, pg_err *err)
{
    return e == 0 ? PG_OK : pg__comm_failed(c, e, what, err);
}

pg_status pg__comm_gather(pg__comm *c, const void *mine, void *all, size_t n_bytes,
                          const char *what, pg_err *err)
{
    void *request = NULL;
    pg_status st = PG_OK;
    if (!c) {
        memcpy(all, mine, n_bytes);
        return PG_OK;
    }
    pg__mpi_lock(c);
    PG_TRY(pg__comm_begin(c, what, err));
    if (n_bytes > INT_MAX / c->size)
        PG_FAIL(PG_E_LIMIT, "%s: %zu bytes of %zu ranks are too many", what, n_bytes, c->size);
    PG_TRY(begun(c, c->mpi->gather(c->job, mine, all, n_bytes, &request), what, err));
    st = pg__comm_wait(c, &request, 1, what, err);
done:
    pg__mpi_unlock(c);
    return st;
}

static pg_status broadcast(pg__comm *c, void *mem, size_t n_bytes, const char *what, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t at = 0; at < n_bytes; at += PIECE) {
        const size_t n = n_bytes - at < PIECE ? n_bytes - at : PIECE;
        void *request = NULL;
        PG_TRY(pg__comm_begin(c, what, err));
        PG_TRY(begun(c, c->mpi->broadcast(c->job, (char *)mem + at, n, 0, &request), what, err));
        PG_TRY(pg__comm_wait(c, &request, 1, what, err));
    }
done:
    return st;
}

pg_status pg__comm_broadcast(pg__comm *c, void *mem, size_t n_bytes, const char *what, pg_err *err)
{
    if (!c)
        return PG_OK;
    pg__mpi_lock(c);
    const pg_status st = broadcast(c, mem, n_bytes, what, err);
    pg__mpi_unlock(c);
    return st;
}

pg_status pg__comm_await(pg__comm *c, void *mem, size_t n_bytes, const char *what, pg_err *err)
{
    const volatile int *cancel;
    if (!c)
        return PG_OK;
    pg__mpi_lock(c);
    const double timeout = be_patient(c, &cancel);
    const pg_status st = broadcast(c, mem, n_bytes, what, err);
    c->timeout = timeout;
    c->cancel = cancel;
    pg__mpi_unlock(c);
    return st;
}

pg_status pg__comm_spread(pg__comm *c, const pg__comm_piece *pieces, size_t n, const char *what,
                          pg_err *err)
{
    void **requests = NULL;
    pg_status st = PG_OK;
    if (!c || n == 0)
        return PG_OK;
    requests = pg__mem_array(n, sizeof *requests);
    if (!requests)
        return pg__nomem(err);
    pg__mpi_lock(c);
    PG_TRY(pg__comm_begin(c, what, err));
    for (size_t k = 0; k < n; k++) {
        const pg__comm_piece *p = &pieces[k];
        const int e = c->mpi->broadcast(c->job, p->mem, p->n_bytes, (int)p->from, &requests[k]);
        PG_TRY(begun(c, e, what, err));
    }
    st = pg__comm_wait(c, requests, n, what, err);
done:
    pg__mpi_unlock(c);
    pg__mem_free(requests);
    return st;
}

pg_status pg__comm_move(pg__comm *c, void *mem, size_t n_bytes, size_t from, size_t to,
                        const char *what, pg_err *err)
{
    pg_status st = PG_OK;
    if (!c || from == to || (c->rank != from && c->rank != to))
        return PG_OK;
    pg__mpi_lock(c);
    for (size_t at = 0; at < n_bytes; at += PIECE) {
        const size_t n = n_bytes - at < PIECE ? n_bytes - at : PIECE;
        char *piece = (char *)mem + at;
        void *request = NULL;
        PG_TRY(pg__comm_begin(c, what, err));
        const int e = c->rank == from
                          ? c->mpi->send(c->job, piece, n, (int)to, PG_TAG_MOVE, &request)
                          : c->mpi->receive(c->job, piece, n, (int)from, PG_TAG_MOVE, &request);
        PG_TRY(begun(c, e, what, err));
        PG_TRY(pg__comm_wait(c, &request, 1, what, err));
    }
done:
    pg__mpi_unlock(c);
    return st;
}

pg_status pg__comm_swap(pg__comm *c, const void *out, void *in, size_t n_bytes, size_t partner,
                        const char *what, pg_err *err)
{
    void *requests[2] = {NULL, NULL};
    pg_status st = PG_OK;
    pg__mpi_lock(c);
    PG_TRY(pg__comm_begin(c, what, err));
    int e = c->mpi->receive(c->job, in, n_bytes, (int)partner, PG_TAG_MOVE, &requests[0]);
    if (e == 0)
        e = c->mpi->send(c->job, out, n_bytes, (int)partner, PG_TAG_MOVE, &requests[1]);
    PG_TRY(begun(c, e, what, err));
    st = pg__comm_wait(c, requests, 2, what, err);
done:
    pg__mpi_unlock(c);
    return st;
}
