/* comm_mover.c - sums between machines. What kernels have room for in their sockets lasts for some
 * milliseconds, operations of a lane take tens of them, and each message of a sum waits for the one
 * before: so a thread looks after sums while others compute. It sleeps while there are none. On one
 * machine there is no thread: the cores that it would take are those that copy the messages. */
#include <signal.h>
#include <stddef.h>
#include <time.h>

#include "base/mem.h"
#include "comm/comm_impl.h"

#define NAP 500000 /* ns between two looks: at 10 Gbit/s 625 KB come in it */

struct pg__mover {
    pthread_cond_t changed; /* there are sums, or it stops; with the lock of pg__comm */
    int stops;
    pthread_t thread;
};

static void *move(void *arg)
{
    const struct timespec nap = {.tv_nsec = NAP};
    pg__comm *c = arg;
    struct pg__mover *m = c->mover;
    pg__mpi_lock(c);
    while (!m->stops) {
        if (!c->sums) {
            pthread_cond_wait(&m->changed, &c->lock);
            continue;
        }
        pg__mpi_unlock(c);
        nanosleep(&nap, NULL);
        pg__mpi_lock(c);
        pg__sums_move(c, SIZE_MAX);
    }
    pg__mpi_unlock(c);
    return NULL;
}

/* Signals are the program's. */
static int start(pg__comm *c)
{
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int e = pthread_create(&c->mover->thread, NULL, move, c);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return e;
}

static void free_mover(pg__comm *c)
{
    pthread_cond_destroy(&c->mover->changed);
    pg__mem_free(c->mover);
    c->mover = NULL;
}

/* When the first sum is under way. */
static void begin(pg__comm *c)
{
    c->mover = pg__mem_array(1, sizeof *c->mover);
    c->has_no_thread = !c->mover;
    if (!c->mover)
        return;
    pthread_cond_init(&c->mover->changed, NULL);
    c->has_no_thread = start(c) != 0;
    if (c->has_no_thread)
        free_mover(c);
}

void pg__mover_wake(pg__comm *c)
{
    if (!c->mover && !c->has_no_thread && c->n_local < c->size)
        begin(c);
    else if (c->mover)
        pthread_cond_signal(&c->mover->changed);
}

void pg__mover_stop(pg__comm *c)
{
    struct pg__mover *m = c->mover;
    if (!m)
        return;
    pg__mpi_lock(c);
    m->stops = 1;
    pthread_cond_signal(&m->changed);
    pg__mpi_unlock(c);
    (void)pthread_join(m->thread, NULL);
    free_mover(c);
}
