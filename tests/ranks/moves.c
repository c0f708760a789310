/* Run by mpirun (link.py): do sums go on while no rank calls MPI? Between machines a thread moves
 * them; on one machine there is none. usage: moves apart|here */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/mem.h"
#include "comm/comm.h"

#define N       ((size_t)1 << 20) /* numbers of a sum: more than kernels have room for in sockets */
#define N_SUMS  8u
#define ROUNDS  2 /* after the first, tags of messages repeat */
#define MANY    16
#define SECONDS 60

static float value(size_t rank, size_t i)
{
    return (float)(1 + rank) * (float)(1 + i % 1000);
}

static float total(size_t n_ranks, size_t i)
{
    float sum = 0;
    for (size_t k = 0; k < n_ranks; k++)
        sum += value(k, i);
    return sum;
}

static size_t n_threads(void)
{
    DIR *d = opendir("/proc/self/task");
    size_t n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* Looked at while it is written: whoever must know waits for the sum. */
__attribute__((no_sanitize("thread"))) static int is_there(const float *mem, size_t n_ranks)
{
    const volatile float *v = mem;
    return v[0] == total(n_ranks, 0) && v[N - 1] == total(n_ranks, N - 1);
}

static int go_on(const float *mem, size_t n_ranks)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    size_t n = 0;
    for (int k = 0; k < SECONDS * 1000 && n < N_SUMS; k++) {
        (void)nanosleep(&nap, NULL);
        for (n = 0; n < N_SUMS && is_there(mem + n * N, n_ranks);)
            n++;
    }
    return n == N_SUMS;
}

static int are_right(const float *mem, size_t n_ranks)
{
    size_t i = 0;
    while (i < N_SUMS * N && mem[i] == total(n_ranks, i % N))
        i++;
    return i == N_SUMS * N;
}

static pg_status begin(pg__comm *c, pg__comm_sum_of *sums, float *mem, float *work, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < N_SUMS * N; i++)
        mem[i] = value(pg__comm_rank(c), i % N);
    for (size_t k = 0; st == PG_OK && k < N_SUMS; k++) {
        sums[k] = (pg__comm_sum_of){.mem = mem + k * N,
                                    .n = N,
                                    .real_bytes = sizeof *mem,
                                    .to = PG_TO_ALL,
                                    .work = work + k * (N / 2 + 16)};
        st = pg__comm_sum_begin(c, &sums[k], "the sum", err);
    }
    return st;
}

/* What is wrong, or NULL. threads: how many there should be while sums are in progress. */
static const char *once(pg__comm *c, float *mem, float *work, size_t threads, int apart,
                        pg_err *err)
{
    const size_t n_ranks = pg__comm_size(c);
    pg__comm_sum_of sums[N_SUMS];
    pg_status st = begin(c, sums, mem, work, err);
    const char *wrong = NULL;
    if (st == PG_OK && n_threads() != threads)
        wrong = "another number of threads";
    if (st == PG_OK && apart && !go_on(mem, n_ranks))
        wrong = "sums do not go on while nobody calls";
    if (st == PG_OK)
        st = pg__comm_sums_wait(c, sums, N_SUMS, "the sum", err);
    if (st == PG_OK && !are_right(mem, n_ranks))
        wrong = "wrong sums";
    return st == PG_OK ? wrong : err->msg;
}

/* Are the sums those of all ranks, bit for bit? */
static int are_same(pg__comm *c, const float *mem, pg_err *err)
{
    uint32_t mine = pg__crc32(0, mem, N * sizeof *mem), all[64];
    int same = pg__comm_gather(c, &mine, all, sizeof mine, "the sums", err) == PG_OK;
    for (size_t k = 1; same && k < pg__comm_size(c); k++)
        same = all[k] == all[0];
    return same;
}

/* Sums of rounded numbers: what rounding takes is made up for, so that the error of all rounds
 * together is no larger than that of one. */
static const char *rounded(pg__comm *c, float *mem, float *work, float *lost, pg_err *err)
{
    const size_t n_ranks = pg__comm_size(c);
    double *all = pg__mem_array(N, sizeof *all);
    const char *wrong = all ? NULL : "out of memory";
    for (int round = 0; round < MANY && !wrong; round++) {
        pg__comm_sum_of sum = {.mem = mem,
                               .n = N,
                               .real_bytes = sizeof *mem,
                               .to = PG_TO_ALL,
                               .work = work,
                               .lost = lost};
        for (size_t i = 0; i < N; i++)
            mem[i] = value(pg__comm_rank(c), i);
        if (pg__comm_sum_begin(c, &sum, "the sum", err) != PG_OK ||
            pg__comm_sums_wait(c, &sum, 1, "the sum", err) != PG_OK)
            wrong = err->msg;
        else if (!are_same(c, mem, err))
            wrong = "rounded sums differ";
        for (size_t i = 0; i < N; i++)
            all[i] += mem[i];
    }
    for (size_t i = 0; i < N && !wrong; i++) {
        const double want = (double)total(n_ranks, i);
        if (fabs(all[i] - MANY * want) > (double)n_ranks * want / 256)
            wrong = "rounding is not made up for";
    }
    pg__mem_free(all);
    return wrong;
}

static int check(pg__comm *c, int apart, pg_err *err)
{
    const size_t threads = n_threads() + (size_t)apart;
    float *mem = pg__mem_array(N_SUMS * N, sizeof *mem);
    float *work = pg__mem_array(N_SUMS * (N / 2 + 16), sizeof *work);
    const char *wrong = mem && work ? NULL : "out of memory";
    for (int round = 0; round < ROUNDS && !wrong; round++)
        wrong = once(c, mem, work, threads, apart, err);
    if (!wrong && (pg__comm_size(c) & (pg__comm_size(c) - 1)) == 0) {
        memset(mem + N, 0, N * sizeof *mem);
        wrong = rounded(c, mem, work, mem + N, err);
    }
    if (wrong)
        fprintf(stderr, "rank %zu: %s\n", pg__comm_rank(c), wrong);
    pg__comm_close(c);
    pg__mem_free(work);
    pg__mem_free(mem);
    return wrong != NULL;
}

int main(int argc, char **argv)
{
    const pg__comm_opts opts = {.timeout = SECONDS};
    pg__comm *c = NULL;
    pg_err err = {0};
    if (argc != 2 || pg__comm_open(&c, &opts, &err) != PG_OK || !c) {
        fprintf(stderr, "no job: %s\n", err.msg);
        return 2;
    }
    return check(c, strcmp(argv[1], "apart") == 0, &err);
}
