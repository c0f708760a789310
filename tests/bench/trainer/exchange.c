/* exchange.c - how long the sum of gradients takes when nobody computes: run by mpirun, as a peer
 * of ranks.py --link. usage: bench_exchange TIMES BYTES..., sizes of the buckets; rank 0 prints the
 * median in ms. All are begun at once, and then waited for. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "comm/comm.h"

enum { MAX_BUCKETS = 64 };

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

static pg_status once(pg__comm *c, float *values, float *work, const size_t *n, size_t n_sums,
                      pg_err *err)
{
    pg__comm_sum_of sums[MAX_BUCKETS];
    pg_status st = PG_OK;
    for (size_t k = 0; k < n_sums && st == PG_OK; values += n[k], work += n[k] / 2 + 16, k++) {
        sums[k] = (pg__comm_sum_of){
            .mem = values, .n = n[k], .real_bytes = sizeof *values, .to = PG_TO_ALL, .work = work};
        st = pg__comm_sum_begin(c, &sums[k], "the sum", err);
    }
    return st == PG_OK ? pg__comm_sums_wait(c, sums, n_sums, "the sum", err) : st;
}

int main(int argc, char **argv)
{
    const pg__comm_opts opts = {.timeout = 60};
    const size_t times = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    const size_t n_sums = argc > 2 ? (size_t)argc - 2 : 0;
    size_t sizes[MAX_BUCKETS], n = 0;
    if (times == 0 || n_sums == 0 || n_sums > MAX_BUCKETS)
        return 2;
    for (size_t k = 0; k < n_sums; k++)
        n += sizes[k] = strtoull(argv[k + 2], NULL, 10) / sizeof(float);
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
        const double began = now();
        if (st == PG_OK)
            st = once(c, values, work, sizes, n_sums, &err);
        if (k > 0)
            ms[k - 1] = now() - began;
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
