/* exchange.c - how long the sum of gradients takes when nobody computes: run by mpirun, as a peer
 * of ranks.py --link. usage: bench_exchange FLOATS TIMES; rank 0 prints the median in ms. Begun in
 * pieces of the size that training uses (train/buckets.c), all at once, and then waited for. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "comm/comm.h"

#define PIECE ((size_t)1 << 20) /* floats: 4 MB */

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

static pg_status once(pg__comm *c, float *values, float *work, size_t n, pg__comm_sum_of *sums,
                      pg_err *err)
{
    const size_t n_sums = (n + PIECE - 1) / PIECE;
    pg_status st = PG_OK;
    for (size_t k = 0; k < n_sums && st == PG_OK; k++) {
        sums[k] = (pg__comm_sum_of){.mem = values + k * PIECE,
                                    .n = n - k * PIECE < PIECE ? n - k * PIECE : PIECE,
                                    .real_bytes = sizeof *values,
                                    .to = PG__TO_ALL,
                                    .work = work + k * (PIECE / 2 + 16)};
        st = pg__comm_sum_begin(c, &sums[k], "the sum", err);
    }
    return st == PG_OK ? pg__comm_sums_wait(c, sums, n_sums, "the sum", err) : st;
}

int main(int argc, char **argv)
{
    const pg__comm_opts opts = {.timeout = 60};
    const size_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    const size_t times = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    float *values = pg__mem_array(n, sizeof *values);
    double *ms = pg__mem_array(times, sizeof *ms);
    pg__comm_sum_of *sums = pg__mem_array(n / PIECE + 1, sizeof *sums);
    float *work = pg__mem_array((n / PIECE + 1) * (PIECE / 2 + 16), sizeof *work);
    pg__comm *c = NULL;
    pg_err err = {0};
    char ready = 0, all[64];
    if (n == 0 || times == 0 || !values || !ms || !sums || !work)
        return 2;
    pg_status st = pg__comm_open(&c, &opts, &err);
    if (st == PG_OK && (!c || pg__comm_size(c) > sizeof all))
        return 2;
    for (size_t k = 0; k <= times && st == PG_OK; k++) { /* the first is not counted */
        st = pg__comm_gather(c, &ready, all, 1, "the start", &err);
        const double began = now();
        if (st == PG_OK)
            st = once(c, values, work, n, sums, &err);
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
    pg__mem_free(sums);
    pg__mem_free(work);
    pg__mem_free(ms);
    pg__mem_free(values);
    return st != PG_OK;
}
