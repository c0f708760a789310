/* exchange.c - how long the sum of gradients takes: run by mpirun, as a peer of ranks.py --link.
 * usage: bench_exchange TIMES BYTES[@MS]..., sizes of the buckets; rank 0 prints the median in ms.
 *
 * Without @MS nobody computes: all are begun at once, and then waited for. With it a bucket is
 * begun when its rank has computed for so long; the last of these times is the end of the
 * computation, and what is printed is the time from there to the end of the sums: the part that is
 * not hidden. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "comm/comm.h"

enum { MAX_BUCKETS = 64 };

typedef struct bucket {
    size_t n; /* numbers */
    double at;
} bucket;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void compute_until(double ms)
{
    static volatile double kept;
    double x = 1;
    while (now() < ms)
        for (int i = 0; i < 1000; i++)
            x = x * 0.999 + 1;
    kept = x;
    (void)kept;
}

/* *ended: the computation. */
static pg_status once(pg__comm *c, float *values, float *work, const bucket *b, size_t n_sums,
                      double *ended, pg_err *err)
{
    pg__comm_sum_of sums[MAX_BUCKETS];
    const double began = *ended = now();
    pg_status st = PG_OK;
    for (size_t k = 0; k < n_sums && st == PG_OK; values += b[k].n, work += b[k].n / 2 + 16, k++) {
        if (b[k].at > 0) {
            compute_until(began + b[k].at);
            *ended = now();
        }
        sums[k] = (pg__comm_sum_of){.mem = values,
                                    .n = b[k].n,
                                    .real_bytes = sizeof *values,
                                    .to = PG_TO_ALL,
                                    .work = work};
        st = pg__comm_sum_begin(c, &sums[k], "the sum", err);
    }
    return st == PG_OK ? pg__comm_sums_wait(c, sums, n_sums, "the sum", err) : st;
}

int main(int argc, char **argv)
{
    const pg__comm_opts opts = {.timeout = 60};
    const size_t times = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    const size_t n_sums = argc > 2 ? (size_t)argc - 2 : 0;
    bucket buckets[MAX_BUCKETS];
    size_t n = 0;
    if (times == 0 || n_sums == 0 || n_sums > MAX_BUCKETS)
        return 2;
    for (size_t k = 0; k < n_sums; k++) {
        char *end;
        buckets[k].n = strtoull(argv[k + 2], &end, 10) / sizeof(float);
        buckets[k].at = *end == '@' ? strtod(end + 1, NULL) : 0;
        n += buckets[k].n;
    }
    float *values = pg__mem_array(n, sizeof *values);
    float *work = pg__mem_array(n + 16 * n_sums, sizeof *work);
    double *ms = pg__mem_array(times, sizeof *ms);
    pg__comm *c = NULL;
    pg_err err = {0};
    char ready = 0, all[64];
    if (!values || !work || !ms)
        return 2;
    pg_status st = pg__comm_open(&c, &opts, &err);
    if (st == PG_OK && (!c || pg__comm_size(c) > sizeof all))
        return 2;
    for (size_t k = 0; k <= times && st == PG_OK; k++) { /* the first is not counted */
        st = pg__comm_gather(c, &ready, all, 1, "the start", &err);
        double ended = 0;
        if (st == PG_OK)
            st = once(c, values, work, buckets, n_sums, &ended, &err);
        if (k > 0)
            ms[k - 1] = now() - ended;
    }
    if (st == PG_OK && pg__comm_rank(c) == 0) {
        qsort(ms, times, sizeof *ms, by_size);
        printf("%.3f\n", ms[times / 2]);
    } else if (st != PG_OK) {
        fprintf(stderr, "%s\n", err.msg);
    }
    pg__comm_close(c);
    pg__mem_free(work);
    pg__mem_free(ms);
    pg__mem_free(values);
    return st != PG_OK;
}
