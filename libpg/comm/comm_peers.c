/* comm_peers.c - where the other ranks run, and which of them did not arrive. A process on the same
 * machine is looked up by its number; one elsewhere is asked whether it waits, too. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "base/watch.h"
#include "comm/comm_impl.h"

#define TO_ANSWER 1.0 /* seconds */

static int is_alive(int64_t pid)
{
    return kill((pid_t)pid, 0) == 0 || errno != ESRCH;
}

pg_status pg__peers_exchange(pg__comm *c, pg_err *err)
{
    pg__peer mine = {.pid = getpid()};
    pg_status st = PG_OK;
    if (gethostname(mine.host, sizeof mine.host - 1) != 0)
        snprintf(mine.host, sizeof mine.host, "unknown");
    c->peers = pg__mem_array(c->size, sizeof *c->peers);
    if (!c->peers)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__comm_gather(c, &mine, c->peers, sizeof mine, "the ranks' places", err));
    for (size_t k = 0; k < c->size; k++) {
        pg__peer *p = &c->peers[k];
        p->host[sizeof p->host - 1] = '\0';
        /* in another container with the same host name, its number is missing or belongs to another
         * process */
        p->is_here = strcmp(p->host, mine.host) == 0 && p->pid > 0 && is_alive(p->pid);
    }
done:
    return st;
}

void pg__peers_count(pg__comm *c, const pg__job_place *place)
{
    c->local = place->local;
    c->n_local = place->n_local;
    for (size_t k = 0; place->n_local == 0 && k < c->size; k++) {
        const int is_here = strcmp(c->peers[k].host, c->peers[c->rank].host) == 0;
        c->local += (size_t)(is_here && k < c->rank);
        c->n_local += (size_t)is_here;
    }
}

size_t pg__peers_gone(const pg__comm *c)
{
    const int lost = c->mpi->lost && c->job ? c->mpi->lost(c->job) : -1;
    size_t k = 0;
    if (lost >= 0 && c->peers)
        return (size_t)lost;
    while (c->peers && k < c->size && (!c->peers[k].is_here || is_alive(c->peers[k].pid)))
        k++;
    return c->peers ? k : c->size;
}

static pg_status silent(pg_err *err)
{
    if (err)
        *err = (pg_err){.code = PG_E_PEER};
    return PG_E_PEER;
}

pg_status pg__peers_lost(pg__comm *c, size_t rank, const char *what, pg_err *err)
{
    c->is_broken = 1;
    if (pg__cancelled(c->cancel))
        return silent(err);
    return pg_fail(err, PG_E_PEER, "rank %zu on %s is gone (process %lld): %s did not come", rank,
                   c->peers[rank].host, (long long)c->peers[rank].pid, what);
}

pg_status pg__peers_left(pg__comm *c, double absent, pg_err *err)
{
    c->is_broken = 1;
    if (pg__cancelled(c->cancel))
        return silent(err);
    return pg_fail(
        err, PG_E_PEER,
        "this process (rank %zu on %s) did not respond for %.0f s, so the others gave up on it",
        c->rank, c->peers[c->rank].host, absent);
}

/* ---- who waits too ---- */

typedef struct present {
    char waits_for[48]; /* "": it has not answered */
} present;

int pg__peers_ask(const pg__comm *c)
{
    return c->mpi->has_come(c->job, PG_TAG_PRESENT);
}

/* Asks all ranks; heard[k]: what rank k waits for. */
static void ask_all(pg__comm *c, const char *what, present *heard, unsigned char *is_there)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    void **requests = pg__mem_array(2 * c->size, sizeof(void *));
    present mine = {{0}};
    struct timespec begun, at;
    snprintf(mine.waits_for, sizeof mine.waits_for, "%s", what);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (size_t k = 0; requests && k < c->size; k++) {
        if (k == c->rank)
            continue;
        (void)c->mpi->send(c->job, &mine, sizeof mine, (int)k, PG_TAG_PRESENT, &requests[k]);
        (void)c->mpi->receive(c->job, &heard[k], sizeof *heard, (int)k, PG_TAG_PRESENT,
                              &requests[c->size + k]);
    }
    do {
        nanosleep(&nap, NULL);
        clock_gettime(CLOCK_MONOTONIC, &at);
        for (size_t k = 0; requests && k < 2 * c->size; k++)
            (void)c->mpi->test(c->job, &requests[k]);
    } while ((double)(at.tv_sec - begun.tv_sec) + (double)(at.tv_nsec - begun.tv_nsec) * 1e-9 <
             TO_ANSWER);
    for (size_t k = 0; requests && k < c->size; k++)
        is_there[k] = k == c->rank || heard[k].waits_for[0] != '\0';
    pg__mem_free(requests);
}

pg_status pg__peers_missing(pg__comm *c, const char *what, double waited, pg_err *err)
{
    /* MPI may write to them until the process ends, which is soon */
    present *heard = pg__mem_array(c->size, sizeof *heard);
    unsigned char *is_there = pg__mem_array(c->size, 1);
    size_t n = 0, first = c->size;
    c->is_broken = 1;
    if (!heard || !is_there || !c->peers) {
        pg__mem_free(is_there);
        return pg_fail(err, PG_E_PEER, "%s did not come from all ranks within %.0f s", what,
                       waited);
    }
    ask_all(c, what, heard, is_there);
    for (size_t k = c->size; k-- > 0;)
        if (!is_there[k]) {
            first = k;
            n++;
        }
    if (n == 0)
        (void)pg_fail(err, PG_E_PEER,
                      "the ranks wait for each other: %s did not come within %.0f s", what, waited);
    else
        (void)pg_fail(
            err, PG_E_PEER,
            "rank %zu on %s did not come within %.0f s%s: it is gone, cannot be reached, or "
            "is slower than comm_timeout allows",
            first, c->peers[first].host, waited, n > 1 ? " (nor did others, below)" : "");
    for (size_t k = 0; k < c->size; k++)
        if (!is_there[k] && k != first)
            pg_err_detail(err, "missing: rank %zu on %s", k, c->peers[k].host);
        else if (is_there[k] && k != c->rank && strcmp(heard[k].waits_for, what) != 0)
            pg_err_detail(err, "rank %zu on %s waits for %.*s", k, c->peers[k].host,
                          (int)sizeof heard[k].waits_for, heard[k].waits_for);
    pg__mem_free(is_there);
    return PG_E_PEER;
}
