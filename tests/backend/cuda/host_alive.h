/* host_alive.h - which objects of a library live: a fake of it refuses those that do not. Each file
 * that includes it has a list of its own. */
#ifndef HOST_ALIVE_H
#define HOST_ALIVE_H

#include <pthread.h>
#include <stdlib.h>

static struct {
    pthread_mutex_t lock;
    struct {
        const void *at;
        int kind;
    } of[4096];
} alive = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Finds an object of a kind, or with NULL a free place; from now on `to` is there. */
static int find(const void *at, int kind, const void *to)
{
    int found = 0;
    pthread_mutex_lock(&alive.lock);
    for (size_t k = 0; !found && k < sizeof alive.of / sizeof *alive.of; k++)
        if (alive.of[k].at == at && (!at || alive.of[k].kind == kind)) {
            alive.of[k].at = to;
            alive.of[k].kind = kind;
            found = 1;
        }
    pthread_mutex_unlock(&alive.lock);
    return found;
}

static void *born(size_t size, int kind)
{
    void *p = calloc(1, size);
    if (!p || !find(NULL, kind, p))
        abort();
    return p;
}

static int lives(const void *p, int kind)
{
    return p && find(p, kind, p);
}

static int dies(const void *p, int kind)
{
    return p && find(p, kind, NULL);
}

#endif
