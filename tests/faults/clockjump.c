/* clockjump.so - preloaded: the wall clock (CLOCK_REALTIME, time(), gettimeofday()) jumps by CJ_BY
 * seconds after its CJ_AFTER-th reading, and again after every CJ_EVERY (0: once). CLOCK_MONOTONIC
 * stays. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long from_environment(const char *name, long fallback)
{
    const char *s = getenv(name);
    return s ? atol(s) : fallback;
}

static long jump(void)
{
    static atomic_long n_readings;
    const long after = from_environment("CJ_AFTER", 10), by = from_environment("CJ_BY", -86400),
               every = from_environment("CJ_EVERY", 0), k = atomic_fetch_add(&n_readings, 1) + 1;
    if (k <= after)
        return 0;
    return by * (1 + (every > 0 ? (k - after) / every : 0));
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    union {
        void *p;
        int (*fn)(clockid_t, struct timespec *);
    } real = {dlsym(RTLD_NEXT, "clock_gettime")};
    const int failed = real.fn(clock, t);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        t->tv_sec += jump();
    return failed;
}

time_t time(time_t *out)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_REALTIME, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec t = {0};
    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
    return 0;
}
