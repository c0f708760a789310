/* clock.h - time that only goes forward. */
#ifndef PG_BASE_CLOCK_H
#define PG_BASE_CLOCK_H

#include <time.h>

/* Seconds, from any beginning. */
static inline double pg__now(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
