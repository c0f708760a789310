/* host.c - back ends in the host's own memory: the reference, which runs the plain C references in
 * double, and the CPU, which falls back on them in float. */
#include "backend/backend.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/warm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread.h"
#include "base/try.h"
#include "ops/compact.h"

struct pg__dev {
    pg__dev_opts opts;
    int f64;
    pg__isa isa;
    pg__warm *warm;
};

struct pg__kernel {
    pg__ref_fn fn;
    const void *attrs;
    size_t n_in, n_out;
    pg__dims *shapes;           /* of operands and results */
    uint64_t *n;                /* elements */
    const pg__cpu_kernel *fast; /* NULL: use fn */
    void *state;                /* its own */
    uint32_t rounds;            /* bit k: result k is a PG_ELEM_AS_BF16 */
};

static pg_status host_count(size_t *n, pg_err *err)
{
    (void)err;
    *n = pg__processors();
    return PG_OK;
}

static pg_status open_dev(pg__dev **out, const pg__dev_opts *o, int f64, pg_err *err)
{
    pg__dev *d = pg__mem_array(1, sizeof *d);
    if (!d)
        return pg__nomem(err);
    *d = (pg__dev){.opts = *o, .f64 = f64};
    const pg_status st = f64 ? PG_OK : pg__isa_named(&d->isa, o->isa, err);
    if (st != PG_OK)
        pg__mem_free(d);
    else
        *out = d;
    if (st == PG_OK && !f64 && o->warm)
        d->warm = pg__warm_begin();
    return st;
}
static const char *host_kind(pg__dev *d)
{
    return d->f64 ? "plain" : pg__isa_name(d->isa);
}

static int host_has_bf16(pg__dev *d)
{
    return !d->f64 && pg__isa_has_bf16(d->isa);
}

static int host_has_int8(pg__dev *d)
{
    return d->f64 ? -1 : pg__isa_has_vnni(d->isa);
}

static pg_status open_cpu(pg__dev **out, size_t ordinal, const pg__dev_opts *o, pg_err *err)
{
    (void)ordinal;
    return open_dev(out, o, 0, err);
}
static pg_status open_ref(pg__dev **out, size_t ordinal, const pg__dev_opts *o, pg_err *err)
{
    (void)ordinal;
    return open_dev(out, o, 1, err);
}

static void host_close(pg__dev *d)
{
    if (d)
        pg__warm_end(d->warm);
    pg__mem_free(d);
}

/* A number, or the number after a name, times its unit; the largest number if there is none. */
static uint64_t number_in(const char *path, const char *name, uint64_t unit)
{
    char line[256];
    uint64_t n = UINT64_MAX;
    FILE *f = fopen(path, "re");
    while (f && n == UINT64_MAX && fgets(line, sizeof line, f)) {
        unsigned long long v = 0;
        if (!name && sscanf(line, "%llu", &v) == 1)
            n = v * unit;
        else if (name && strncmp(line, name, strlen(name)) == 0 &&
                 sscanf(line + strlen(name), "%llu", &v) == 1)
            n = v * unit;
    }
    if (f)
        fclose(f);
    return n;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Memory that the system can provide, within the limits of the process and its control group. */
static pg_status host_memory(pg__dev *d, uint64_t *free_bytes, uint64_t *total_bytes, pg_err *err)
{
    const uint64_t limit = number_in("/sys/fs/cgroup/memory.max", NULL, 1);
    const uint64_t used = number_in("/sys/fs/cgroup/memory.current", NULL, 1);
    uint64_t all = number_in("/proc/meminfo", "MemTotal:", 1024);
    uint64_t room = number_in("/proc/meminfo", "MemAvailable:", 1024);
    struct rlimit as;
    (void)d;
    if (all == UINT64_MAX || room == UINT64_MAX)
        return pg_fail(err, PG_E_IO, "the system does not report its memory");
    if (limit != UINT64_MAX && used != UINT64_MAX) { /* the page cache goes first */
        const uint64_t cached = number_in("/sys/fs/cgroup/memory.stat", "inactive_file ", 1);
        const uint64_t taken = cached < used ? used - cached : used;
        room = least(room, limit > taken ? limit - taken : 0);
    }
    if (getrlimit(RLIMIT_AS, &as) == 0 && as.rlim_cur != RLIM_INFINITY) {
        const uint64_t mapped = number_in("/proc/self/status", "VmSize:", 1024);
        room = least(room, mapped < as.rlim_cur ? as.rlim_cur - mapped : 0);
    }
    *free_bytes = room;
    *total_bytes = least(all, limit);
    return PG_OK;
}

static int host_supports(pg__dev *d, const pg__tape *t, const pg__inst *i, char why[128])
{
    (void)d, (void)t, (void)i;
    why[0] = '\0';
    return 1;
}

static void host_release(pg__kernel *k)
{
    if (!k)
        return;
    if (k->state)
        k->fast->release(k->state);
    pg__mem_free(k->shapes);
    pg__mem_free(k->n);
    pg__mem_free(k);
}

/* The CPU's faster implementation, if it supports exactly this instruction. */
static pg_status prepare_fast(pg__kernel *k, pg__dev *d, const pg__tape *t, const pg__inst *i,
                              pg__needs *needs, pg_err *err)
{
    const pg__cpu_kernel *fast = d->f64 ? NULL : pg__cpu_kernel_of(i->op);
    if (!fast)
        return PG_OK;
    const pg__cpu_inst inst = {.tape = t,
                               .inst = i,
                               .attrs = i->attrs,
                               .shapes = k->shapes,
                               .opts = &d->opts,
                               .isa = d->isa};
    const pg_status st = fast->prepare(&k->state, &inst, needs, err);
    if (st == PG_OK && k->state)
        k->fast = fast;
    return st;
}

static pg_status host_prepare(pg__kernel **out, pg__dev *d, const pg__tape *t, const pg__inst *i,
                              pg__needs *needs, pg_err *err)
{
    const size_t n = (size_t)i->n_in + i->n_out;
    pg_status st = PG_OK;
    pg__kernel *k = pg__mem_array(1, sizeof *k);
    if (!k)
        return pg__nomem(err);
    *k = (pg__kernel){.fn = d->f64 ? i->op->ref_f64 : pg__cpu_fn(i->op, d->isa),
                      .attrs = i->attrs,
                      .n_in = i->n_in,
                      .n_out = i->n_out};
    k->shapes = pg__mem_array(n, sizeof *k->shapes);
    k->n = pg__mem_array(n, sizeof *k->n);
    if (!k->shapes || !k->n)
        PG_TRY(pg__nomem(err));
    for (size_t v = 0; v < n; v++) {
        const pg__val at = v < i->n_in ? pg__in(t, i, v) : pg__out(t, i, v - i->n_in);
        if (at == PG_NO_VAL)
            continue;
        k->shapes[v] = t->values[at].shape;
        k->n[v] = pg__dims_elems(&k->shapes[v]);
    }
    for (uint32_t r = 0; r < i->n_out; r++)
        if (t->values[pg__out(t, i, r)].elem == PG_ELEM_AS_BF16 && !pg__is_rounded(t, i, r))
            k->rounds |= 1u << r;
    *needs = (pg__needs){0};
    PG_TRY(prepare_fast(k, d, t, i, needs, err));
    if (!k->fast)
        needs->scratch_bytes = n * sizeof(pg__arg);
    *out = k;
    k = NULL;
done:
    host_release(k);
    return st;
}

static pg_status host_prepare_lanes(pg__kernel **out, pg__dev *d, const pg__kernel *one, size_t n,
                                    size_t *scratch_bytes, pg_err *err)
{
    pg__kernel *k = NULL;
    pg_status st = PG_OK;
    (void)d;
    if (!one->fast || !one->fast->prepare_lanes || one->rounds)
        return PG_OK;
    k = pg__mem_array(1, sizeof *k);
    if (!k)
        return pg__nomem(err);
    k->fast = one->fast;
    PG_TRY(k->fast->prepare_lanes(&k->state, one->state, n, scratch_bytes, err));
    if (k->state) {
        *out = k;
        k = NULL;
    }
done:
    host_release(k);
    return st;
}

static pg_status host_share(pg__dev *d, const pg__kernel *k, void *const *args, void *shared)
{
    (void)d;
    k->fast->share(k->state, args, shared);
    return PG_OK;
}

/* The reference's doubles become what floats would. */
static void round_results(const pg__dev *d, const pg__kernel *k, void *const *args)
{
    void (*const to_bf16)(float *, size_t) = pg__isa_fns_of(d->isa)->to_bf16;
    for (size_t r = 0; k->rounds >> r; r++) {
        double *v = args[k->n_in + r];
        const size_t n = (size_t)k->n[k->n_in + r];
        if (!(k->rounds >> r & 1) || !v)
            continue;
        if (!d->f64)
            to_bf16(args[k->n_in + r], n);
        for (size_t i = 0; d->f64 && i < n; i++) {
            float one = (float)v[i];
            to_bf16(&one, 1);
            v[i] = (double)one;
        }
    }
}

static pg_status host_run(pg__dev *d, const pg__kernel *k, void *const *args, void *scratch,
                          const void *shared)
{
    pg__arg *v = scratch;
    if (k->fast)
        k->fast->run(k->state, args, scratch, shared);
    for (size_t i = 0; !k->fast && i < k->n_in + k->n_out; i++)
        v[i] = (pg__arg){&k->shapes[i], args[i], k->n[i]};
    if (!k->fast)
        k->fn(k->attrs, v, k->n_in, v + k->n_in, k->n_out);
    round_results(d, k, args);
    return PG_OK;
}

static pg_status host_alloc(pg__dev *d, void **p, size_t n_bytes, pg_err *err)
{
    (void)d;
    *p = pg__mem_aligned(n_bytes);
    return *p ? PG_OK : pg__nomem(err);
}
static void host_free(pg__dev *d, void *p)
{
    (void)d;
    pg__mem_free(p);
}
static pg_status host_copy(pg__dev *d, void *dst, const void *src, size_t n_bytes)
{
    (void)d;
    memcpy(dst, src, n_bytes);
    return PG_OK;
}

static pg_status host_sync(pg__dev *d)
{
    (void)d;
    return PG_OK;
}

static pg_status host_update(pg__dev *d, pg__optimizer_kind kind, const pg__update *u, void *w,
                             const void *g, void *const *slots, size_t n)
{
    if (d->f64)
        pg__optimizer_of(kind)->f64(u, w, g, slots, n);
    else
        pg__isa_fns_of(d->isa)->updates[kind](u, w, g, slots, n);
    return PG_OK;
}

static pg_status host_regularise(pg__dev *d, void *g, const void *w, size_t n, double l1, double l2,
                                 double *penalty)
{
    double sum = penalty ? *penalty : 0;
    for (size_t i = 0; i < n; i++) {
        const double v = d->f64 ? ((const double *)w)[i] : (double)((const float *)w)[i];
        const double slope = l1 * ((v > 0) - (v < 0)) + 2 * l2 * v;
        if (g && d->f64)
            ((double *)g)[i] += slope;
        else if (g)
            ((float *)g)[i] += (float)slope;
        sum += l1 * fabs(v) + l2 * v * v;
    }
    if (penalty)
        *penalty = sum;
    return PG_OK;
}

static pg_status host_squares(pg__dev *d, const void *g, size_t n, double *sum)
{
    if (!d->f64)
        *sum += pg__isa_fns_of(d->isa)->squares(g, n);
    for (size_t i = 0; d->f64 && i < n; i++)
        *sum += ((const double *)g)[i] * ((const double *)g)[i];
    return PG_OK;
}

static pg_status host_clip(pg__dev *d, void *g, size_t n, double scale, double limit)
{
    double *v = g;
    if (!d->f64)
        pg__isa_fns_of(d->isa)->clip(g, (float)scale, (float)limit, n);
    for (size_t i = 0; d->f64 && i < n; i++)
        v[i] = limit > 0 ? fmin(fmax(v[i] * scale, -limit), limit) : v[i] * scale;
    return PG_OK;
}

static pg_status host_blend(pg__dev *d, void *into, double keep, const void *from, double take,
                            size_t n)
{
    double *v = into;
    const double *w = from;
    if (!d->f64)
        pg__isa_fns_of(d->isa)->blend(into, (float)keep, from, (float)take, n);
    for (size_t i = 0; d->f64 && i < n; i++)
        v[i] = (keep == 0 ? 0 : keep * v[i]) + (take == 0 ? 0 : take * w[i]);
    return PG_OK;
}

static pg_status host_accumulate(pg__dev *d, void *into, const void *from, size_t n)
{
    if (!d->f64)
        pg__isa_fns_of(d->isa)->accumulate(into, from, n);
    for (size_t i = 0; d->f64 && i < n; i++)
        ((double *)into)[i] += ((const double *)from)[i];
    return PG_OK;
}

#define HOST_BACKEND(word, bytes, open_fn)                                                     \
    {                                                                                          \
        .abi = PG_BACKEND_ABI, .size = sizeof(pg__backend), .name = word, .real_bytes = bytes, \
        .host_memory = 1, .count = host_count, .open = open_fn, .close = host_close,           \
        .memory = host_memory, .kind = host_kind, .has_bf16 = host_has_bf16,                   \
        .has_int8 = host_has_int8, .supports = host_supports, .prepare = host_prepare,         \
        .prepare_lanes = host_prepare_lanes, .release = host_release, .share = host_share,     \
        .run = host_run, .alloc = host_alloc, .free = host_free, .put = host_copy,             \
        .get = host_copy, .copy = host_copy, .sync = host_sync,                                \
        .flat = {                                                                              \
            .update = host_update,                                                             \
            .regularise = host_regularise,                                                     \
            .squares = host_squares,                                                           \
            .clip = host_clip,                                                                 \
            .blend = host_blend,                                                               \
            .accumulate = host_accumulate,                                                     \
        },                                                                                     \
    }

const pg__backend pg__backend_cpu = HOST_BACKEND("cpu", sizeof(float), open_cpu);
const pg__backend pg__backend_ref = HOST_BACKEND("ref", sizeof(double), open_ref);
