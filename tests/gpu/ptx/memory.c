/* memory.c - which memory there is, who touched it, and what may be. Two accesses to the same two
 * bytes in one launch race where one of them writes and no barrier stands between; accesses of
 * different blocks always do. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GRANULE      2u /* bytes that a trace stands for */
#define MANY_BLOCKS  UINT32_MAX
#define MANY_THREADS UINT16_MAX
#define MANY_OF_WARP 0x8000u /* with the warp's number */

pthread_mutex_t ptx_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- regions ---- */

static void *pages(size_t n)
{
    void *p =
        mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        abort();
    return p;
}

void ptx_region_init(ptx_region *r, uint64_t begin, unsigned char *bytes, size_t n, int is_known)
{
    const size_t granules = n / GRANULE + 1;
    *r = (ptx_region){.begin = begin, .n = n, .bytes = bytes};
    r->trace_bytes = 3 * granules * sizeof(ptx_trace);
    r->written = pages(r->trace_bytes);
    r->read = r->written + granules;
    r->met = r->read + granules;
    r->known = is_known ? NULL : pages(n + 1);
}

void ptx_region_fini(ptx_region *r)
{
    if (r->written)
        (void)munmap(r->written, r->trace_bytes);
    if (r->known)
        (void)munmap(r->known, r->n + 1);
    *r = (ptx_region){0};
}

/* Of devices, by their begin. */
static struct {
    ptx_region *of;
    size_t n, room, last; /* last: where the latest access was */
} all;

/* The number of regions that begin at or before `address`. */
static size_t before(uint64_t address)
{
    size_t low = 0, high = all.n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (all.of[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add(uint64_t device, void *host, size_t n, int is_known)
{
    const size_t k = before(device);
    if (all.n == all.room) {
        all.room = 2 * all.room + 64;
        all.of = realloc(all.of, all.room * sizeof *all.of);
        if (!all.of)
            abort();
    }
    memmove(&all.of[k + 1], &all.of[k], (all.n - k) * sizeof *all.of);
    ptx_region_init(&all.of[k], device, host, n, is_known);
    all.n++;
}

static void drop(uint64_t device)
{
    const size_t k = before(device);
    if (k == 0 || all.of[k - 1].begin != device)
        abort();
    ptx_region_fini(&all.of[k - 1]);
    memmove(&all.of[k - 1], &all.of[k], (all.n - k) * sizeof *all.of);
    all.n--;
}

void ptx_memory(uint64_t device, void *host, size_t n, int is_known)
{
    pthread_mutex_lock(&ptx_lock);
    if (host)
        add(device, host, n, is_known);
    else
        drop(device);
    all.last = 0;
    pthread_mutex_unlock(&ptx_lock);
}

static const char *const words[] = {
    [PTX_READ] = "reads", [PTX_WRITE] = "writes", [PTX_ATOMIC] = "changes"};

/* No region holds it: says which one is near. */
static _Noreturn void nowhere(ptx_thread *t, uint64_t a, uint32_t n, ptx_kind kind, uint32_t place)
{
    const size_t k = before(a);
    const ptx_region *low = k > 0 ? &all.of[k - 1] : NULL, *high = k < all.n ? &all.of[k] : NULL;
    if (!(a & PTX_DEVICE))
        ptx_fault(t, place, "%s %u bytes at 0x%llx, which is no memory of a device", words[kind], n,
                  (unsigned long long)a);
    if (low && (!high || a - low->begin - low->n < high->begin - a))
        ptx_fault(t, place, "%s %u bytes from byte %llu on of memory that has %zu", words[kind], n,
                  (unsigned long long)(a - low->begin), low->n);
    ptx_fault(t, place, "%s %u bytes at 0x%llx, %llu before the begin of any memory", words[kind],
              n, (unsigned long long)a, high ? (unsigned long long)(high->begin - a) : 0ULL);
}

static ptx_region *region_of(ptx_thread *t, uint64_t a, uint32_t n, ptx_kind kind, uint32_t place)
{
    ptx_region *r = all.last < all.n ? &all.of[all.last] : NULL;
    if (!r || a < r->begin || a - r->begin >= r->n) {
        const size_t k = before(a);
        r = k > 0 ? &all.of[k - 1] : NULL;
        all.last = k > 0 ? k - 1 : 0;
    }
    if (!r || a - r->begin >= r->n || r->n - (a - r->begin) < n)
        nowhere(t, a, n, kind, place);
    if (t->launch->device && (a >> 56 & 0x7f) != t->launch->device)
        ptx_fault(t, place, "%s memory of another device", words[kind]);
    return r;
}

/* ---- races ---- */

static int is_ordered(const ptx_trace *was, const ptx_trace *now)
{
    if (was->launch != now->launch)
        return 1;
    if (was->block != now->block)
        return 0;
    if (was->interval != now->interval || was->thread == now->thread)
        return 1;
    const unsigned warp =
        was->thread & MANY_OF_WARP ? was->thread & ~MANY_OF_WARP : was->thread / 32u;
    return was->thread != MANY_THREADS && warp == now->thread / 32u &&
           was->warp_interval != now->warp_interval;
}

/* Of accesses that may meet others of their kind: stands for all that nothing has put in order. */
static void join(ptx_trace *was, const ptx_trace *now)
{
    const unsigned warp =
        was->thread & MANY_OF_WARP ? was->thread & ~MANY_OF_WARP : was->thread / 32u;
    ptx_trace both = *now;
    if (was->thread == now->thread && was->block == now->block && was->launch == now->launch) {
        *was = *now;
        return;
    }
    if (!is_ordered(was, now)) {
        both.block = was->block == now->block ? now->block : MANY_BLOCKS;
        both.thread = was->thread != MANY_THREADS && warp == now->thread / 32u
                          ? (uint16_t)(MANY_OF_WARP | warp)
                          : MANY_THREADS;
    }
    *was = both;
}

static void meets(ptx_thread *t, const ptx_trace *was, const ptx_trace *now, ptx_kind kind,
                  ptx_kind other, const char *what)
{
    if (is_ordered(was, now))
        return;
    char who[64] = "another block";
    if (was->block == now->block)
        (void)snprintf(who, sizeof who, was->thread & MANY_OF_WARP ? "other threads" : "thread %u",
                       was->thread);
    ptx_fault(t, now->place, "a race: it %s %s that %s %s without a barrier between, at %s",
              words[kind], what, who,
              other == PTX_READ    ? "read"
              : other == PTX_WRITE ? "wrote"
                                   : "changed",
              t->launch->kernel->places[was->place]);
}

static void trace(ptx_thread *t, ptx_region *r, uint64_t at, uint32_t n, ptx_kind kind,
                  uint32_t place, const char *what)
{
    const ptx_launch *l = t->launch;
    const uint32_t number = r == &l->shared ? l->block + 1 : l->number; /* blocks share nothing */
    const ptx_trace now = {number, l->block, l->interval, place, t->number, t->warp_interval};
    if (n < GRANULE)
        ptx_fault(t, place, "%s a single byte of %s, which nobody follows", words[kind], what);
    for (uint64_t g = at / GRANULE; g < (at + n) / GRANULE; g++) {
        ptx_trace *const mine = kind == PTX_WRITE  ? &r->written[g]
                                : kind == PTX_READ ? &r->read[g]
                                                   : &r->met[g];
        if (r->written[g].launch == number)
            meets(t, &r->written[g], &now, kind, PTX_WRITE, what);
        if (kind != PTX_READ && r->read[g].launch == number)
            meets(t, &r->read[g], &now, kind, PTX_READ, what);
        if (kind != PTX_ATOMIC && r->met[g].launch == number)
            meets(t, &r->met[g], &now, kind, PTX_ATOMIC, what);
        if (kind == PTX_WRITE || mine->launch != number)
            *mine = now;
        else
            join(mine, &now);
    }
}

/* ---- an access ---- */

static void know(ptx_thread *t, unsigned char *known, uint32_t n, ptx_kind kind, uint32_t place,
                 const char *what)
{
    if (kind != PTX_WRITE && memchr(known, 0, n))
        ptx_fault(t, place, "%s %u bytes of %s that nobody has written", words[kind], n, what);
    memset(known, 1, n);
}

static void *shared_at(ptx_thread *t, ptx_region *r, uint64_t at, uint32_t n, ptx_kind kind,
                       uint32_t place, const char *what)
{
    if (r->known)
        know(t, r->known + at, n, kind, place, what);
    trace(t, r, at, n, kind, place, what);
    return r->bytes + at;
}

static void within(ptx_thread *t, uint64_t at, uint32_t n, uint64_t size, ptx_kind kind,
                   uint32_t place, const char *what)
{
    if (at >= size || size - at < n)
        ptx_fault(t, place, "%s %u bytes from byte %lld on of %s that has %llu", words[kind], n,
                  (long long)at, what, (unsigned long long)size);
}

/* Of what holds the values of variables, or the arguments. */
static void *constant_at(ptx_thread *t, const unsigned char *bytes, uint64_t at, uint32_t n,
                         uint64_t size, ptx_kind kind, uint32_t place, const char *what)
{
    within(t, at, n, size, kind, place, what);
    if (kind != PTX_READ)
        ptx_fault(t, place, "%s %s", words[kind], what);
    return (void *)(uintptr_t)(bytes + at);
}

void *ptx_at(ptx_thread *t, ptx_space space, uint64_t address, uint32_t n, ptx_kind kind,
             uint32_t place)
{
    ptx_launch *l = t->launch;
    const ptx_kernel *k = l->kernel;
    uint64_t at = address;
    if (address % n != 0)
        ptx_fault(t, place, "%s %u bytes at 0x%llx, which is no multiple of them", words[kind], n,
                  (unsigned long long)address);
    if (space <= PTX_GLOBAL && address >> 56 > PTX_GLOBAL && address >> 56 <= PTX_N_SPACES) {
        space = (ptx_space)(address >> 56);
        at = address & (PTX_WINDOW(1) - 1);
    }
    switch ((int)space) {
    case PTX_SHARED:
        within(t, at, n, k->shared_bytes, kind, place, "shared memory");
        return shared_at(t, &l->shared, at, n, kind, place, "shared memory");
    case PTX_LOCAL:
        within(t, at, n, k->local_bytes, kind, place, "local memory");
        know(t, t->local_known + at, n, kind, place, "local memory");
        return t->local + at;
    case PTX_PARAM:
        return constant_at(t, l->params, at, n, k->param_bytes, kind, place, "the arguments");
    case PTX_N_SPACES:
        return constant_at(t, k->module, at, n, k->module_bytes, kind, place, "a constant");
    default: {
        ptx_region *r = region_of(t, address, n, kind, place);
        return shared_at(t, r, address - r->begin, n, kind, place, "memory");
    }
    }
}
