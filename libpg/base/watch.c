/* watch.c - cancelling and progress, from any thread and without locks. A thread that finds another
 * one reporting continues with its work: the next report covers both. */
#include "base/watch.h"

#include <stddef.h>

int pg__cancelled(const volatile int *flag)
{
    return flag && __atomic_load_n(flag, __ATOMIC_RELAXED);
}

void pg__progress_start(pg_progress *p, uint64_t n_total)
{
    if (!p)
        return;
    p->n_done = 0;
    p->n_total = n_total;
}

void pg__progress_add(pg_progress *p, uint64_t n_bytes)
{
    if (!p)
        return;
    (void)__atomic_add_fetch(&p->n_done, n_bytes, __ATOMIC_RELAXED);
    if (!p->tell || __atomic_exchange_n(&p->busy, 1, __ATOMIC_ACQUIRE))
        return;
    const uint64_t done = __atomic_load_n(&p->n_done, __ATOMIC_RELAXED); /* headers count as well */
    p->tell(p->ctx, done < p->n_total ? done : p->n_total, p->n_total);
    __atomic_store_n(&p->busy, 0, __ATOMIC_RELEASE);
}
