/* profile.c - counts the time of calls. */
#include "train/exec/profile.h"

#include <time.h>

double pg__profile_clock(const pg__backend *b)
{
    struct timespec t = {0};
    (void)clock_gettime(b->host_memory ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void pg__profile_add(pg__profile *p, uint32_t leaf, uint32_t kind, double seconds, pg__cost w)
{
    pg__profile *r = &p[leaf * PG_N_OPS + kind];
    r->calls++;
    r->seconds += seconds;
    r->flops += w.flops;
    r->bytes += w.bytes;
}
