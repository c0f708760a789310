/* comm_mover.c - moves sums between machines. The kernel's socket buffers last for a few
 * milliseconds, operations of a lane take tens of them, and each message of a sum waits for the one
 * before. So a thread moves sums while others compute, and sleeps while there are none. On one
 * machine there is no such thread: it would take a core from the ones that copy the messages. */
#include <stddef.h>
#include <time.h>

#include "base/mem.h"
#include "base/thread.h"
#include "comm/comm_impl.h"

#define NAP 500000 /* ns between two polls: 625 KB at 10 Gbit/s */

struct pg__mover {
    pthread_cond_t changed; /* there are sums, or it must stop; with the lock of pg__comm */
    int stops;
    pthread_t thread;
};

static void *move(void *arg)
{
    const struct timespec nap = {.tv_nsec = NAP};
    pg__comm *c = arg;
    struct pg__mover *m = c->mover;
    pg__thread_hurry(); /* it needs little time, but the link is idle while it waits for a core */
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

static void free_mover(pg__comm *c)
{
    pthread_cond_destroy(&c->mover->changed);
    pg__mem_free(c->mover);
    c->mover = NULL;
}

/* Called when the first sum is in progress. */
static void begin(pg__comm *c)
{
    c->mover = pg__mem_array(1, sizeof *c->mover);
    c->has_no_thread = !c->mover;
    if (!c->mover)
        return;
    pthread_cond_init(&c->mover->changed, NULL);
    c->has_no_thread = pg__thread_begin(&c->mover->thread, move, c) != 0;
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
