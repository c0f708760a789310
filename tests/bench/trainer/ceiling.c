/* What one core does at best while all of them work: matrix products of the CPU's back end, and
 * copying of memory that no cache holds. Prints one JSON object: GFLOP/s and GB/s (read and
 * written), of a core, in processor time, as pgfit --profile tells them. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/mem.h"

#define SIDE    512
#define BYTES   ((size_t)64 << 20)
#define SECONDS 0.5
#define MOST    256 /* cores */

typedef struct best {
    double flops, bytes; /* in a second */
} best;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(int ok)
{
    if (!ok) {
        fputs("ceiling: cannot be run\n", stderr);
        exit(1);
    }
}

static float *numbers(size_t n)
{
    float *p = pg__mem_aligned(n * sizeof *p);
    must(p != NULL);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)(i % 7) - 3;
    return p;
}

static double products(void)
{
    const pg__backend *cpu = &pg__backend_cpu;
    const pg__dims shape = {2, {SIDE, SIDE}};
    pg__tape t = {0};
    pg__val x, w, y;
    pg__dev *dev;
    pg__kernel *kernel;
    pg__needs needs;
    double least = INFINITY;
    must(!pg__tape_value(&t, &shape, PG_ELEM_REAL, PG_INPUT, 0, 0, &x, NULL) &&
         !pg__tape_value(&t, &shape, PG_ELEM_REAL, PG_PARAM, 0, 0, &w, NULL) &&
         !pg__emit2(&t, PG_OP_dense, NULL, x, w, &y, NULL) &&
         !cpu->open(&dev, 0, &(pg__dev_opts){.n_threads = 1}, NULL) &&
         !cpu->prepare(&kernel, dev, &t, &t.insts[0], &needs, NULL));
    void *args[] = {numbers(SIDE * SIDE), numbers(SIDE * SIDE), numbers(SIDE * SIDE)};
    void *scratch = pg__mem_aligned(needs.scratch_bytes + 64);
    void *shared = pg__mem_aligned(needs.shared_bytes + 64);
    must(scratch && shared);
    if (needs.shared_bytes)
        must(!cpu->share(dev, kernel, args, shared));
    for (const double until = now() + SECONDS; now() < until;) {
        const double begun = now();
        (void)cpu->run(dev, kernel, args, scratch, shared);
        least = fmin(least, now() - begun);
    }
    for (size_t k = 0; k < 3; k++)
        pg__mem_free(args[k]);
    pg__mem_free(shared);
    pg__mem_free(scratch);
    cpu->release(kernel);
    cpu->close(dev);
    pg__tape_fini(&t);
    return 2.0 * SIDE * SIDE * SIDE / least;
}

static double copies(void)
{
    float *from = numbers(BYTES / sizeof *from), *to = numbers(BYTES / sizeof *to);
    double least = INFINITY;
    for (const double until = now() + SECONDS; now() < until;) {
        const double begun = now();
        memcpy(to, from, BYTES);
        least = fmin(least, now() - begun);
        from[0] += to[1];
    }
    pg__mem_free(from);
    pg__mem_free(to);
    return 2.0 * (double)BYTES / least;
}

static void *one_core(void *arg)
{
    best *b = arg;
    b->flops = products();
    b->bytes = copies();
    return NULL;
}

int main(void)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t n = cores < 1 ? 1 : cores > MOST ? MOST : (size_t)cores;
    pthread_t threads[MOST];
    best all[MOST], sum = {0, 0};
    for (size_t k = 0; k < n; k++)
        must(pthread_create(&threads[k], NULL, one_core, &all[k]) == 0);
    for (size_t k = 0; k < n; k++) {
        pthread_join(threads[k], NULL);
        sum.flops += all[k].flops;
        sum.bytes += all[k].bytes;
    }
    printf("{\"gflops\": %.1f, \"gbytes\": %.1f}\n", sum.flops / (double)n * 1e-9,
           sum.bytes / (double)n * 1e-9);
    return 0;
}
