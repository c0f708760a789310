/* What one core does at best while all of them work: matrix products of the CPU's back end, copying
 * of memory that no cache holds, and multiplying and adding in registers, of float32 and, where the
 * processor has AVX512-BF16, of bfloat16 into float32. Prints one JSON object: GFLOP/s and GB/s
 * (read and written), of a core, in processor time, as pgfit --profile tells them; 0: it cannot. */
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
    double flops, bytes, fma, bf16; /* in a second */
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

#if defined __x86_64__ && (defined __clang__ || __GNUC__ >= 11)
#include <immintrin.h>

#define SUMS  24 /* at once, so that no sum waits for itself */
#define TIMES 100000
#ifdef __clang__
#define EACH_SUM(k) _Pragma("clang loop unroll(full)") for (int k = 0; k < SUMS; k++)
#else
#define EACH_SUM(k) _Pragma("GCC unroll 24") for (int k = 0; k < SUMS; k++)
#endif

/* float32, 16 at a time, or bfloat16, 32 at a time: the seconds that TIMES steps take. */
#define STEPS(name, features, step)                                                     \
    __attribute__((target("avx512f,avx512bw" features))) static double name(float *out) \
    {                                                                                   \
        __m512 s[SUMS];                                                                 \
        EACH_SUM(k) s[k] = _mm512_set1_ps(*out + (float)k);                             \
        const double begun = now();                                                     \
        for (int i = 0; i < TIMES; i++) {                                               \
            EACH_SUM(k) s[k] = step;                                                    \
        }                                                                               \
        const double took = now() - begun;                                              \
        EACH_SUM(k) *out += _mm512_reduce_add_ps(s[k]);                                 \
        return took;                                                                    \
    }
STEPS(in_float32, "", _mm512_fmadd_ps(_mm512_set1_ps(1e-3f), _mm512_set1_ps(1e-3f), s[k]))
STEPS(in_bfloat16, ",avx512bf16",
      _mm512_dpbf16_ps(s[k], (__m512bh)_mm512_set1_epi16(0x3a83),
                       (__m512bh)_mm512_set1_epi16(0x3a83)))

static double rate(double (*steps)(float *), double numbers)
{
    float out = 1;
    double least = INFINITY;
    for (const double until = now() + SECONDS; now() < until;)
        least = fmin(least, steps(&out));
    return 2 * numbers * SUMS * TIMES / least;
}

static void registers(best *b)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
        b->fma = rate(in_float32, 16);
    if (b->fma > 0 && __builtin_cpu_supports("avx512bf16"))
        b->bf16 = rate(in_bfloat16, 32);
}
#else
static void registers(best *b)
{
    (void)b;
}
#endif

static void *one_core(void *arg)
{
    best *b = arg;
    b->flops = products();
    b->bytes = copies();
    registers(b);
    return NULL;
}

int main(void)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t n = cores < 1 ? 1 : cores > MOST ? MOST : (size_t)cores;
    pthread_t threads[MOST];
    best all[MOST] = {{0}}, sum = {0};
    for (size_t k = 0; k < n; k++)
        must(pthread_create(&threads[k], NULL, one_core, &all[k]) == 0);
    for (size_t k = 0; k < n; k++) {
        pthread_join(threads[k], NULL);
        sum.flops += all[k].flops;
        sum.bytes += all[k].bytes;
        sum.fma += all[k].fma;
        sum.bf16 += all[k].bf16;
    }
    const double by = 1e-9 / (double)n;
    printf("{\"gflops\": %.1f, \"gbytes\": %.1f, \"fma_gflops\": %.1f, \"bf16_gflops\": %.1f}\n",
           sum.flops * by, sum.bytes * by, sum.fma * by, sum.bf16 * by);
    return 0;
}
