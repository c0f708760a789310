/* Run by mpirun (link.py): do sums go on while no rank calls MPI? Between machines a thread moves
 * them; on one machine there is none. usage: moves apart|here */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "comm/comm.h"

#define N       ((size_t)1 << 20) /* numbers of a sum: more than kernels have room for in sockets */
#define N_SUMS  8u
#define ROUNDS  2 /* after the first, tags of messages repeat */
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

static int check(pg__comm *c, int apart, pg_err *err)
{
    const size_t threads = n_threads() + (size_t)apart;
    float *mem = pg__mem_array(N_SUMS * N, sizeof *mem);
    float *work = pg__mem_array(N_SUMS * (N / 2 + 16), sizeof *work);
    const char *wrong = mem && work ? NULL : "out of memory";
    for (int round = 0; round < ROUNDS && !wrong; round++)
        wrong = once(c, mem, work, threads, apart, err);
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
