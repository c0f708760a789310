/* host_rt.c - rt.h without a GPU: see host.h. */
#include "host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/pgk.h"

#define DEVICE_BIT ((uintptr_t)1 << 63)
#define OWNER_AT   56 /* where 7 bits say of which device it is, counted from 1 */

typedef struct job {
    struct job *next;
    char name[64];
    pg__fake_work work;
    uint64_t n;
    size_t n_bytes; /* of args */
    _Alignas(16) unsigned char args[];
} job;

typedef struct queue {
    job *first, **end;
} queue;

struct pg__rt {
    size_t ordinal;
    unsigned number; /* of the stream, for the log */
    pthread_mutex_t lock;
    pthread_cond_t went_on;
    queue waiting;
    uint64_t n_queued, n_done, n_recorded;
    int is_busy; /* somebody does its work */
    _Atomic int is_held;
    pg__rt_graph *recording;
    pg__rt *next_closed;
    char name[32], bus[32];
};

struct pg__rt_graph {
    queue jobs;
};

struct pg__rt_event {
    pg__rt *of; /* NULL: nothing was marked yet */
    uint64_t n; /* so much of its work must be done */
};

/* ---- what can be made to fail, and the log ---- */

static _Atomic unsigned n_calls;

static void note(const char *what, const char *name, unsigned stream)
{
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f)
        return;
    fprintf(f, "%s %s on %u\n", what, name, stream);
    fclose(f);
}

void pg__fake_note(const char *what, const char *name)
{
    note(what, name, 0);
}

/* A new order is counted from its beginning. */
static void heed(const char *at)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char heard[32];
    pthread_mutex_lock(&lock);
    if (at && strncmp(heard, at, sizeof heard - 1) != 0) {
        (void)snprintf(heard, sizeof heard, "%s", at);
        atomic_store(&n_calls, 0);
    }
    pthread_mutex_unlock(&lock);
}

int pg__fake_fails(const char *name)
{
    const char *at = getenv("FAKE_CUDA_FAIL_AT");
    char *end = NULL;
    heed(at);
    const unsigned call = atomic_fetch_add(&n_calls, 1) + 1;
    const unsigned long n = at ? strtoul(at, &end, 10) : 0;
    const int fails = n > 0 && (call == n || (*end == '+' && call > n));
    if (fails)
        note("fail", name, 0);
    return fails;
}

int pg__fake_refuses(const char *what)
{
    const char *all = getenv("FAKE_CUDA_REFUSES");
    return all && strstr(all, what) != NULL;
}

static pg_status fails(const char *name, pg_status with, pg_err *err)
{
    return pg__fake_fails(name) ? pg_fail(err, with, "%s: failure that was ordered", name) : PG_OK;
}

const char *pg__rt_error(int code)
{
    return code == 0 ? "no error" : "failure that was ordered";
}

/* The device that does work on this thread, counted from 1; 0: none. */
static _Thread_local unsigned works;

static unsigned owner_of(const void *p)
{
    return (unsigned)((uintptr_t)p >> OWNER_AT & 0x7f);
}

void *pgk_host_memory(const void *p)
{
    const uintptr_t at = (uintptr_t)p;
    if (!(at & DEVICE_BIT)) {
        fprintf(stderr, "a kernel was given memory of the host: %p\n", p);
        abort();
    }
    if (works > 0 && owner_of(p) != works) {
        fprintf(stderr, "a kernel of cuda:%u was given memory of cuda:%u\n", works - 1,
                owner_of(p) - 1);
        abort();
    }
    return (void *)(at & (((uintptr_t)1 << OWNER_AT) - 1)); /* NOLINT: that is the point */
}

int pg__fake_is_at(const void *p, size_t align)
{
    return ((uintptr_t)p & DEVICE_BIT) && (uintptr_t)p % align == 0;
}

/* The same of memory that must be rt's. */
static void *own_memory(const pg__rt *rt, const void *p)
{
    if (owner_of(p) != rt->ordinal + 1) {
        fprintf(stderr, "cuda:%zu copies memory of cuda:%u as its own\n", rt->ordinal,
                owner_of(p) - 1);
        abort();
    }
    return pgk_host_memory(p);
}

static void do_job(const pg__rt *rt, const job *j)
{
    const unsigned before = works;
    works = (unsigned)rt->ordinal + 1;
    j->work(j->args, j->n);
    works = before;
}

/* ---- ways of doing the same, time ---- */

static _Atomic uint64_t microseconds;

void pg__fake_spend(unsigned n)
{
    atomic_fetch_add(&microseconds, n);
}

/* Word k of FAKE_CUDA_PLANS; how many there are. */
static size_t plans(size_t k, char word[16])
{
    const char *at = getenv("FAKE_CUDA_PLANS");
    size_t n = 0, len;
    word[0] = '\0';
    for (at = at ? at : ""; *at; n++, at += len + strspn(at + len, " ")) {
        len = strcspn(at, " ");
        if (n == k)
            (void)snprintf(word, 16, "%.*s", (int)len, at);
    }
    return n;
}

size_t pg__fake_n_plans(void)
{
    char unused[16];
    const size_t n = plans(0, unused);
    return n ? n : 1;
}

int pg__fake_has_plan(size_t k)
{
    char word[16];
    (void)plans(k, word);
    return strcmp(word, "none") != 0;
}

int pg__fake_queue_plan(void *stream, const char *name, size_t k, pg__fake_work work,
                        const void *args, size_t n_bytes, uint64_t n)
{
    char word[16], full[64];
    (void)plans(k, word);
    (void)snprintf(full, sizeof full, word[0] ? "%s, %s" : "%s%s", name, word);
    if (strcmp(word, "fails") == 0) {
        note("fail", full, 0);
        return 719;
    }
    pg__fake_spend(strcmp(word, "ages") == 0   ? 1000000u
                   : strcmp(word, "slow") == 0 ? 20000u
                                               : 1000u);
    return pg__fake_queue(stream, full, work, args, n_bytes, n);
}

double pg__rt_now(pg__rt *rt)
{
    (void)rt;
    return (double)atomic_load(&microseconds) / 1e6;
}

/* ---- queues ---- */

static job *new_job(const char *name, pg__fake_work work, const void *args, size_t n_bytes,
                    uint64_t n)
{
    job *j = calloc(1, sizeof *j + n_bytes);
    if (!j)
        abort();
    (void)snprintf(j->name, sizeof j->name, "%s", name);
    j->work = work;
    j->n = n;
    j->n_bytes = n_bytes;
    memcpy(j->args, args, n_bytes);
    return j;
}

static void append(queue *q, job *j)
{
    if (!q->first)
        q->end = &q->first;
    *q->end = j;
    q->end = &j->next;
}

static void drop(queue *q)
{
    while (q->first) {
        job *j = q->first;
        q->first = j->next;
        free(j);
    }
}

int (*pg__fake_on_work)(void *stream);

int pg__fake_queue(void *stream, const char *name, pg__fake_work work, const void *args,
                   size_t n_bytes, uint64_t n)
{
    pg__rt *rt = stream;
    if (pg__fake_fails(name))
        return 719;
    if (atomic_load(&rt->is_held))
        return 800;
    const int refused = pg__fake_on_work ? pg__fake_on_work(stream) : 0;
    if (refused)
        return refused;
    if (rt->recording && pg__fake_refuses("record"))
        return 900;
    pthread_mutex_lock(&rt->lock);
    note(rt->recording ? "record" : "queue", name, rt->number);
    append(rt->recording ? &rt->recording->jobs : &rt->waiting,
           new_job(name, work, args, n_bytes, n));
    rt->n_queued += !rt->recording;
    rt->n_recorded += rt->recording != NULL;
    pthread_mutex_unlock(&rt->lock);
    return 0;
}

void pg__fake_hold(void *stream, int is_held)
{
    atomic_store(&((pg__rt *)stream)->is_held, is_held);
}

static pg_status queue_work(pg__rt *rt, const char *name, pg__fake_work work, const void *args,
                            size_t n_bytes, uint64_t n, pg_err *err)
{
    return pg__fake_queue(rt, name, work, args, n_bytes, n) == 0
               ? PG_OK
               : pg_fail(err, PG_E_DEVICE, "%s: failure that was ordered", name);
}

static void do_first(pg__rt *rt)
{
    job *j = rt->waiting.first;
    rt->waiting.first = j->next;
    rt->is_busy = 1;
    pthread_mutex_unlock(&rt->lock);
    note("do", j->name, rt->number);
    do_job(rt, j);
    free(j);
    pthread_mutex_lock(&rt->lock);
    rt->is_busy = 0;
    rt->n_done++;
    pthread_cond_broadcast(&rt->went_on);
}

/* The first n of all its work; no more than one thread is at it at a time, and none holds the lock
 * meanwhile, since work may wait for that of another stream. */
static void do_until(pg__rt *rt, uint64_t n)
{
    pthread_mutex_lock(&rt->lock);
    while (rt->n_done < n)
        if (rt->is_busy)
            pthread_cond_wait(&rt->went_on, &rt->lock);
        else
            do_first(rt);
    pthread_mutex_unlock(&rt->lock);
}

static uint64_t n_queued(pg__rt *rt)
{
    pthread_mutex_lock(&rt->lock);
    const uint64_t n = rt->n_queued;
    pthread_mutex_unlock(&rt->lock);
    return n;
}

static void do_waiting(pg__rt *rt)
{
    do_until(rt, n_queued(rt));
}

/* ---- devices ---- */

pg_status pg__rt_count(size_t *n, pg_err *err)
{
    const char *set = getenv("FAKE_CUDA_DEVICES");
    *n = set ? strtoul(set, NULL, 10) : 2;
    if (*n == 0)
        return pg_fail(err, PG_E_UNSUPPORTED, "no CUDA-capable device is detected");
    return fails("count", PG_E_UNSUPPORTED, err);
}

pg_status pg__rt_open(pg__rt **out, size_t ordinal, pg_err *err)
{
    static _Atomic unsigned n_streams;
    size_t n;
    pg_status st = pg__rt_count(&n, err);
    if (st == PG_OK && ordinal >= n)
        st = pg_fail(err, PG_E_ARG, "cuda:%zu does not exist: there %s %zu", ordinal,
                     n == 1 ? "is" : "are", n);
    if (st == PG_OK)
        st = fails("open", PG_E_DEVICE, err);
    if (st != PG_OK)
        return st;
    pg__rt *rt = calloc(1, sizeof *rt);
    if (!rt)
        abort();
    rt->ordinal = ordinal;
    rt->number = atomic_fetch_add(&n_streams, 1);
    pthread_mutex_init(&rt->lock, NULL);
    pthread_cond_init(&rt->went_on, NULL);
    const char *one = getenv("FAKE_CUDA_NAME");
    if (one)
        (void)snprintf(rt->name, sizeof rt->name, "%s", one);
    else
        (void)snprintf(rt->name, sizeof rt->name, "GPU of plain C %zu", ordinal);
    (void)snprintf(rt->bus, sizeof rt->bus, "0000:%02zx:00.0", ordinal + 16);
    *out = rt;
    return PG_OK;
}

pg_status pg__rt_open_beside(pg__rt **out, const pg__rt *of, pg_err *err)
{
    return pg__rt_open(out, of->ordinal, err);
}

/* It is kept: work of other streams may ask whether what was marked in it is done. */
void pg__rt_close(pg__rt *rt)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pg__rt *closed;
    if (!rt)
        return;
    do_waiting(rt);
    pthread_mutex_lock(&lock);
    rt->next_closed = closed;
    closed = rt;
    pthread_mutex_unlock(&lock);
}

size_t pg__rt_ordinal(const pg__rt *rt)
{
    return rt->ordinal;
}

void *pg__rt_stream(pg__rt *rt)
{
    return rt;
}

const char *pg__rt_name(const pg__rt *rt)
{
    return rt->name;
}

#define MAX_DEVICES 64
#define HEAD        256u /* bytes before what is handed out: how many there are */
static _Atomic uint64_t in_use[MAX_DEVICES];

static uint64_t memory_of_device(void)
{
    const char *set = getenv("FAKE_CUDA_MEMORY");
    return set ? strtoull(set, NULL, 10) : (uint64_t)8 << 30;
}

const char *pg__rt_bus(const pg__rt *rt)
{
    return rt->bus;
}

pg_status pg__rt_memory(pg__rt *rt, uint64_t *free_bytes, uint64_t *total_bytes, pg_err *err)
{
    *total_bytes = memory_of_device();
    *free_bytes = *total_bytes - atomic_load(&in_use[rt->ordinal % MAX_DEVICES]);
    return fails("memory", PG_E_DEVICE, err);
}

/* ---- memory ---- */

static void note_memory(const pg__rt *rt)
{
    char n[24];
    (void)snprintf(n, sizeof n, "%llu",
                   (unsigned long long)atomic_load(&in_use[rt->ordinal % MAX_DEVICES]));
    note("memory", n, (unsigned)rt->ordinal);
}

void (*pg__fake_on_memory)(const void *device, void *host, size_t n);

pg_status pg__rt_alloc(pg__rt *rt, void **p, size_t n, pg_err *err)
{
    const pg_status st = fails("alloc", PG_E_NOMEM, err);
    _Atomic uint64_t *used = &in_use[rt->ordinal % MAX_DEVICES];
    if (st != PG_OK)
        return st;
    if (atomic_fetch_add(used, n) + n > memory_of_device()) {
        atomic_fetch_sub(used, n);
        return pg_fail(err, PG_E_NOMEM, "cuda:%zu: no room for %zu kB", rt->ordinal, n / 1000);
    }
    char *mem = aligned_alloc(256, (n + 255) / 256 * 256 + 256 + HEAD);
    if (!mem)
        return pg_fail(err, PG_E_NOMEM, "out of memory");
    memcpy(mem, &n, sizeof n);
    memset(mem + HEAD, 0, n);
    *p = (void *)((uintptr_t)(mem + HEAD) | DEVICE_BIT | /* NOLINT */
                  (uintptr_t)(rt->ordinal + 1) << OWNER_AT);
    if (pg__fake_on_memory)
        pg__fake_on_memory(*p, mem + HEAD, n);
    note_memory(rt);
    return PG_OK;
}

void pg__rt_free(pg__rt *rt, void *p)
{
    if (!p)
        return;
    do_waiting(rt);
    char *mem = (char *)own_memory(rt, p) - HEAD;
    size_t n;
    memcpy(&n, mem, sizeof n);
    atomic_fetch_sub(&in_use[rt->ordinal % MAX_DEVICES], n);
    if (pg__fake_on_memory)
        pg__fake_on_memory(p, NULL, 0);
    free(mem);
}

/* Pinned memory, which the device reads when it gets there. */
static struct pinned {
    const char *at;
    size_t n;
} pinned[4096];
static pthread_mutex_t pinned_lock = PTHREAD_MUTEX_INITIALIZER;

static struct pinned *pinned_at(const void *p)
{
    const char *at = p;
    for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++)
        if (p ? pinned[i].at && at >= pinned[i].at && at < pinned[i].at + pinned[i].n
              : !pinned[i].at)
            return &pinned[i];
    return NULL;
}

int pg__fake_is_pinned(const void *p)
{
    pthread_mutex_lock(&pinned_lock);
    const int found = pinned_at(p) != NULL;
    pthread_mutex_unlock(&pinned_lock);
    return found;
}

pg_status pg__rt_host_alloc(pg__rt *rt, void **p, size_t n, pg_err *err)
{
    const pg_status st = fails("host_alloc", PG_E_NOMEM, err);
    (void)rt;
    *p = st == PG_OK ? calloc(1, n + 1) : NULL;
    pthread_mutex_lock(&pinned_lock);
    struct pinned *free_one = *p ? pinned_at(NULL) : NULL;
    if (free_one)
        *free_one = (struct pinned){*p, n + 1};
    pthread_mutex_unlock(&pinned_lock);
    return st;
}

void pg__rt_host_free(pg__rt *rt, void *p)
{
    do_waiting(rt);
    pthread_mutex_lock(&pinned_lock);
    struct pinned *of = p ? pinned_at(p) : NULL;
    if (of)
        of->at = NULL;
    pthread_mutex_unlock(&pinned_lock);
    free(p);
}

typedef struct move {
    void *dst;
    const void *src;
} move;

static void do_move(const void *args, uint64_t n)
{
    const move *m = args;
    memmove(m->dst, m->src, n);
}

/* From pinned memory. */
static void do_put(const void *args, uint64_t n)
{
    if (!pg__fake_is_pinned(((const move *)args)->src)) {
        fprintf(stderr, "memory of the host was freed before it was copied\n");
        abort();
    }
    do_move(args, n);
}

int pg__fake_put_late(void *stream, void *dst, const void *src, size_t n)
{
    return pg__fake_queue(stream, "put waits", do_move, &(move){own_memory(stream, dst), src},
                          sizeof(move), n);
}

static pg_status queue_move(pg__rt *rt, const char *name, void *dst, const void *src, size_t n,
                            pg_err *err)
{
    return queue_work(rt, name, do_move, &(move){dst, src}, sizeof(move), n, err);
}

typedef struct gift {
    void *dst;
    unsigned char bytes[];
} gift;

static void do_gift(const void *args, uint64_t n)
{
    const gift *g = args;
    memcpy(g->dst, g->bytes, n);
}

/* Pageable memory may change as soon as this returns. */
pg_status pg__rt_put(pg__rt *rt, void *dst, const void *src, size_t n, pg_err *err)
{
    if (pg__fake_is_pinned(src))
        return queue_work(rt, "put", do_put, &(move){own_memory(rt, dst), src}, sizeof(move), n,
                          err);
    gift *g = malloc(sizeof *g + n);
    if (!g)
        abort();
    g->dst = own_memory(rt, dst);
    memcpy(g->bytes, src, n);
    const pg_status st = queue_work(rt, "put waits", do_gift, g, sizeof *g + n, n, err);
    free(g);
    return st;
}

pg_status pg__rt_get(pg__rt *rt, void *dst, const void *src, size_t n, pg_err *err)
{
    return queue_move(rt, "get", dst, own_memory(rt, src), n, err);
}

pg_status pg__rt_copy(pg__rt *rt, void *dst, const void *src, size_t n, pg_err *err)
{
    return queue_move(rt, "copy", own_memory(rt, dst), own_memory(rt, src), n, err);
}

pg_status pg__rt_copy_from(pg__rt *rt, void *dst, const pg__rt *other, const void *src, size_t n,
                           pg_err *err)
{
    return queue_move(rt, "copy_from", own_memory(rt, dst), own_memory(other, src), n, err);
}

static void do_clear(const void *args, uint64_t n)
{
    memset(((const move *)args)->dst, 0, n);
}

pg_status pg__rt_clear(pg__rt *rt, void *dst, size_t n, pg_err *err)
{
    return queue_work(rt, "clear", do_clear, &(move){own_memory(rt, dst), NULL}, sizeof(move), n,
                      err);
}

pg_status pg__rt_sync(pg__rt *rt, pg_err *err)
{
    do_waiting(rt);
    return fails("sync", PG_E_DEVICE, err);
}

/* ---- events ---- */

pg_status pg__rt_event_new(pg__rt_event **out, pg__rt *rt, pg_err *err)
{
    const pg_status st = fails("event", PG_E_DEVICE, err);
    (void)rt;
    *out = st == PG_OK ? calloc(1, sizeof **out) : NULL;
    return st;
}

void pg__rt_event_free(pg__rt_event *e)
{
    free(e);
}

pg_status pg__rt_mark(pg__rt *rt, pg__rt_event *e, pg_err *err)
{
    *e = (pg__rt_event){rt, n_queued(rt)};
    return fails("mark", PG_E_DEVICE, err);
}

/* By the time that the stream comes to it, not before, the other's work up to the mark is done. */
static void do_wait(const void *args, uint64_t n)
{
    const pg__rt_event *e = args;
    (void)n;
    do_until(e->of, e->n);
}

pg_status pg__rt_wait(pg__rt *rt, const pg__rt_event *e, pg_err *err)
{
    if (!e->of || e->of == rt)
        return fails("wait", PG_E_DEVICE, err);
    return queue_work(rt, "wait", do_wait, e, sizeof *e, 0, err);
}

pg_status pg__rt_time(pg__rt *rt, pg_status (*work)(void *of), void *of, double *seconds,
                      pg_err *err)
{
    const double from = pg__rt_now(rt);
    pg_status st = fails("time", PG_E_DEVICE, err);
    if (st == PG_OK)
        st = work(of);
    do_waiting(rt);
    *seconds = pg__rt_now(rt) - from;
    return st;
}

int pg__fake_is_over(const pg__rt_event *e)
{
    if (!e->of)
        return 1;
    pthread_mutex_lock(&e->of->lock);
    const int over = e->of->n_done >= e->n;
    pthread_mutex_unlock(&e->of->lock);
    return over;
}

/* ---- recorded work ---- */

int pg__fake_is_recording(void *stream)
{
    pg__rt *rt = stream;
    pthread_mutex_lock(&rt->lock);
    const int records = rt->recording != NULL;
    pthread_mutex_unlock(&rt->lock);
    return records;
}

void pg__fake_record_with(void *stream, void *with)
{
    pg__rt *rt = stream, *other = with;
    pthread_mutex_lock(&rt->lock);
    rt->recording = other ? other->recording : NULL;
    pthread_mutex_unlock(&rt->lock);
}

uint64_t pg__fake_n_recorded(void *stream)
{
    return ((pg__rt *)stream)->n_recorded;
}

pg_status pg__rt_record_begin(pg__rt *rt, pg_err *err)
{
    const pg_status st = fails("record_begin", PG_E_DEVICE, err);
    if (st != PG_OK)
        return st;
    pg__rt_graph *g = calloc(1, sizeof *g);
    if (!g)
        abort();
    pthread_mutex_lock(&rt->lock);
    rt->recording = g;
    pthread_mutex_unlock(&rt->lock);
    return PG_OK;
}

pg_status pg__rt_record_end(pg__rt *rt, pg__rt_graph **out, pg_err *err)
{
    const pg_status st = fails("record_end", PG_E_DEVICE, err);
    pthread_mutex_lock(&rt->lock);
    *out = rt->recording;
    rt->recording = NULL;
    pthread_mutex_unlock(&rt->lock);
    if (st != PG_OK) {
        pg__rt_graph_free(*out);
        *out = NULL;
    }
    return st;
}

pg_status pg__rt_replay(pg__rt *rt, pg__rt_graph *g, pg_err *err)
{
    const pg_status st = atomic_load(&rt->is_held)
                             ? pg_fail(err, PG_E_DEVICE, "replay: operation not permitted")
                             : fails("replay", PG_E_DEVICE, err);
    pthread_mutex_lock(&rt->lock);
    for (job *j = st == PG_OK ? g->jobs.first : NULL; j; j = j->next) {
        append(&rt->waiting, new_job(j->name, j->work, j->args, j->n_bytes, j->n));
        rt->n_queued++;
    }
    note("queue", "replay", rt->number);
    pthread_mutex_unlock(&rt->lock);
    return st;
}

void pg__rt_graph_free(pg__rt_graph *g)
{
    if (!g)
        return;
    pg__fake_note("drop", "recording");
    drop(&g->jobs);
    free(g);
}
