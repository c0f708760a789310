/* allreduce.c - how long ranks take to sum the gradients of a step: bare MPI_Allreduce of all of
 * them at once, and of each bucket; what pgfit does with the same buckets in its normal and in its
 * deterministic mode, with nothing to hide it behind; and the latency and bandwidth of sums as it
 * makes them in the normal mode, which `pgfit --plan` takes (inner-latency=, inner=).
 *
 * usage: mpirun -np N bench_allreduce BYTES...      sizes of the buckets. Rank 0 prints a JSON
 * object, times in seconds.
 *
 * All ways in turn, again and again, the best of each: what else the machine does only adds. The
 * plug-in begins MPI, the bare calls use it too. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"

enum { MAX_BUCKETS = 64, ROUNDS = 41, SMALL = 64 };
enum { BARE, BARE_BUCKETS, NORMAL, TREE, TINY, N_WAYS };

static pg__comm *comm;
static size_t sizes[MAX_BUCKETS], n_buckets, total;
static float *mem, *work;

static int normal(const size_t *n, size_t count)
{
    pg__comm_sum_of sums[MAX_BUCKETS];
    float *at = mem, *room = work;
    for (size_t k = 0; k < count; at += n[k++]) {
        sums[k] = (pg__comm_sum_of){
            .mem = at, .n = n[k], .real_bytes = sizeof *mem, .to = PG_TO_ALL, .work = room};
        room += n[k] / 2 + 16;
        if (pg__comm_sum_begin(comm, &sums[k], "the bench", NULL) != PG_OK)
            return -1;
    }
    return pg__comm_sums_wait(comm, sums, count, "the bench", NULL) == PG_OK ? 0 : -1;
}

static int bare(float *at, size_t n)
{
    return MPI_Allreduce(MPI_IN_PLACE, at, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) ==
                   MPI_SUCCESS
               ? 0
               : -1;
}

static int once(int way)
{
    float *at = mem;
    int has = 1, failed = 0;
    switch (way) {
    case BARE: return bare(mem, total);
    case BARE_BUCKETS:
        for (size_t k = 0; k < n_buckets; at += sizes[k++])
            failed |= bare(at, sizes[k]);
        return failed;
    case NORMAL: return normal(sizes, n_buckets);
    case TREE:
        return pg__comm_tree_sum(comm, mem, work, total, sizeof *mem, &has, "the bench", NULL) ==
                       PG_OK
                   ? 0
                   : -1;
    default:
        for (int k = 0; k < SMALL; k++)
            failed |= normal(&(size_t){1}, 1);
        return failed;
    }
}

/* The slowest rank's. */
static int measure(double times[N_WAYS])
{
    for (int r = -2; r < ROUNDS; r++)
        for (int way = 0; way < N_WAYS; way++) {
            memset(mem, 0, total * sizeof *mem);
            MPI_Barrier(MPI_COMM_WORLD);
            double t = MPI_Wtime(), most = 0;
            if (once(way) != 0)
                return -1;
            t = MPI_Wtime() - t;
            MPI_Allreduce(&t, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            if (r == 0 || (r > 0 && most < times[way]))
                times[way] = most;
        }
    return 0;
}

static void print(double times[N_WAYS])
{
    static const char *const names[] = {"bare", "bare_buckets", "normal", "deterministic"};
    const size_t n = pg__comm_size(comm);
    const double tiny = times[TINY] / SMALL, large = times[NORMAL] - (double)n_buckets * tiny;
    double halvings = 0;
    for (size_t m = 1; m < n; m *= 2)
        halvings++;
    const double latency = n > 1 ? tiny / halvings : 0;
    const double bytes = 2 * (double)(n - 1) / (double)n * (double)total * sizeof(float);
    printf("{\"ranks\": %zu, \"mpi\": \"%s\", \"bytes\": %zu, \"buckets\": %zu", n,
           pg__comm_name(comm), total * sizeof *mem, n_buckets);
    for (int way = BARE; way < TINY; way++)
        printf(", \"%s\": %.9g", names[way], times[way]);
    printf(", \"latency\": %.9g, \"bandwidth\": %.9g}\n", latency,
           n > 1 && large > 0 ? bytes / large : 0);
}

int main(int argc, char **argv)
{
    static double times[N_WAYS];
    const pg__comm_opts opts = {.timeout = 60};
    pg_err err = {0};
    for (int i = 1; i < argc && n_buckets < MAX_BUCKETS; i++) {
        sizes[n_buckets] = strtoul(argv[i], NULL, 10) / sizeof *mem;
        total += sizes[n_buckets++];
    }
    if (total == 0) {
        fputs("usage: mpirun -np N bench_allreduce BYTES...\n", stderr);
        return 2;
    }
    mem = calloc(total, sizeof *mem);
    work = calloc(total + 16 * (MAX_BUCKETS + 1), sizeof *work);
    if (!mem || !work || pg__comm_open(&comm, &opts, &err) != PG_OK || !comm) {
        fprintf(stderr, "%s\n", err.msg[0] ? err.msg : "start it by mpirun");
        return 2;
    }
    const int failed = measure(times);
    if (!failed && pg__comm_rank(comm) == 0)
        print(times);
    pg__comm_close(comm);
    free(mem);
    free(work);
    return failed != 0;
}
