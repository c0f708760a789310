/* launch.c - see engine.h. */
#include "engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned ptx_seed;

__attribute__((constructor)) static void set_seed(void)
{
    const char *seed = getenv("PTX_SEED");
    if (seed)
        ptx_seed = (unsigned)strtoul(seed, NULL, 10);
}

void ptx_fault(ptx_thread *t, uint32_t place, const char *format, ...)
{
    ptx_launch *l = t->launch;
    const int n = snprintf(l->message, l->message_bytes,
                           "%s: %s, block %u,%u,%u thread %u,%u,%u: ", l->kernel->places[place],
                           l->kernel->name, t->ctaid[0], t->ctaid[1], t->ctaid[2], t->tid[0],
                           t->tid[1], t->tid[2]);
    va_list args;
    va_start(args, format);
    if (n >= 0 && (size_t)n < l->message_bytes)
        (void)vsnprintf(l->message + n, l->message_bytes - (size_t)n, format, args);
    va_end(args);
    longjmp(l->fault, 1);
}

const ptx_kernel *ptx_kernel_of(const ptx_module *m, const char *name)
{
    for (const ptx_kernel *k = m->kernels; k->name; k++)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

void ptx_pack(const ptx_kernel *k, void *const *args, void *params)
{
    for (uint32_t n = 0; n < k->n_params; n++)
        memcpy((char *)params + k->params[n].at, args[n], k->params[n].n);
}

static void *room(size_t n, size_t each)
{
    void *p = calloc(n, each > 0 ? each : 1);
    if (!p)
        abort();
    return p;
}

/* Registers, local memory and whether it was written, one thread behind the other. */
static void lay_out(ptx_launch *l, const uint32_t grid[3], const uint32_t block[3])
{
    const size_t registers = (l->kernel->register_bytes + 15u) / 16 * 16;
    const size_t local = (l->kernel->local_bytes + 15u) / 16 * 16, each = registers + 2 * local;
    l->threads = room(l->n_threads, sizeof *l->threads);
    l->order = room(l->n_threads, sizeof *l->order);
    l->memory = room(l->n_threads, each);
    for (uint32_t n = 0; n < l->n_threads; n++) {
        ptx_thread *t = &l->threads[n];
        t->launch = l;
        t->number = l->order[n] = (uint16_t)n;
        t->lane = n % 32;
        t->tid[0] = n % block[0], t->tid[1] = n / block[0] % block[1];
        t->tid[2] = n / block[0] / block[1];
        memcpy(t->ntid, block, sizeof t->ntid);
        memcpy(t->nctaid, grid, sizeof t->nctaid);
        t->registers = l->memory + n * each;
        t->local = l->memory + n * each + registers;
        t->local_known = t->local + local;
    }
}

/* Blocks in an order of the seed's: a step that shares no divisor with their number. */
static void run(ptx_launch *l, uint32_t n)
{
    uint32_t step = 1, at = 0;
    if (ptx_seed != 0) {
        step = (uint32_t)(2654435761u % n) | 1u;
        at = (uint32_t)(ptx_random(&l->random) % n);
        for (uint32_t a = step, b = n; b != 0 || a != 1;) {
            if (b == 0)
                a = ++step, b = n;
            const uint32_t rest = a % b;
            a = b, b = rest;
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        l->block = at;
        ptx_block_run(l);
        at = (uint32_t)(((uint64_t)at + step) % n);
    }
}

/* 0, or -1 where a thread does what is wrong. */
static int try(ptx_launch *l, uint32_t n)
{
    if (setjmp(l->fault) != 0)
        return -1;
    run(l, n);
    return 0;
}

static void close_launch(ptx_launch *l)
{
    ptx_region_fini(&l->shared);
    free(l->threads);
    free(l->order);
    free(l->memory);
}

int ptx_run(const ptx_kernel *k, const uint32_t grid[3], const uint32_t block[3],
            const void *params, unsigned device, char *message, size_t n)
{
    static uint32_t number;
    ptx_launch l = {.kernel = k, .params = params, .device = device};
    pthread_mutex_lock(&ptx_lock);
    l.number = ++number;
    l.random = ((uint64_t)ptx_seed << 32) + l.number;
    l.n_threads = block[0] * block[1] * block[2];
    l.message = message, l.message_bytes = n;
    unsigned char *shared = room(k->shared_bytes + 1, 1);
    ptx_region_init(&l.shared, 0, shared, k->shared_bytes, 0);
    lay_out(&l, grid, block);
    const int failed = try(&l, grid[0] * grid[1] * grid[2]);
    close_launch(&l);
    free(shared);
    pthread_mutex_unlock(&ptx_lock);
    return failed;
}
