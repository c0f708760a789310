/* cudart_host.c - what rt_cuda.c calls of the CUDA runtime, on the GPU of plain C (host.h). It
 * minds what the runtime minds and plain C does not (PRECONDITIONS.md): which device is a thread's
 * current one, what lives, where memory ends, and what may not be done while a stream records. */
#include "host_names.h"

#include "host.h"
#include "host_alive.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/pgk.h"

#define MAX_DEVICES 8
#define MAX_STREAMS 256

static _Thread_local int current, last_error;
static pg__rt *devices[MAX_DEVICES]; /* for memory */

/* A recording that a thread began, and what it must not see any more: a rule was broken. */
typedef struct capture {
    unsigned number; /* from 1 on; 0: there is none */
    pg__rt *origin;
    pthread_t thread;
    int is_broken;
} capture;

/* joined: how much of what a stream recorded others wait for. */
typedef struct stream {
    pg__rt *rt;
    unsigned in; /* number of a recording, 0: none */
    uint64_t joined;
} stream;

static struct {
    pthread_mutex_t lock;
    stream of[MAX_STREAMS];
    capture captures[MAX_STREAMS];
    unsigned n_captures;
} streams = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local unsigned n_mine; /* recordings of this thread */

static cudaError_t told(cudaError_t e)
{
    if (e != cudaSuccess)
        last_error = (int)e;
    return e;
}

static cudaError_t done(pg_status st)
{
    return told(st == PG_OK        ? cudaSuccess
                : st == PG_E_NOMEM ? cudaErrorMemoryAllocation
                                   : cudaErrorLaunchFailure);
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t e = (cudaError_t)last_error;
    last_error = 0;
    return e;
}

const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorPeerAccessAlreadyEnabled: return "peer access is already enabled";
    case cudaErrorIllegalState: return "the operation cannot be performed in the present state";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureMerge:
        return "operation would result in a merge of separate capture sequences";
    case cudaErrorStreamCaptureUnmatched:
        return "capture was not ended in the same stream as it began";
    case cudaErrorStreamCaptureUnjoined: return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
        return "dependency created on uncaptured work in another stream";
    case cudaErrorStreamCaptureWrongThread:
        return "attempt to terminate a thread-local capture sequence from another thread";
    case cudaErrorCapturedEvent:
        return "operation not permitted on an event last recorded in a capturing stream";
    default: return "failure that was ordered";
    }
}

/* ---- devices ---- */

/* As the driver reads CUDA_VISIBLE_DEVICES: numbers, or beginnings of names, up to the first that
 * there is not. *out: the machine's numbers of those that are seen. */
static int visible(int out[MAX_DEVICES])
{
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    size_t all = 0;
    int n = 0;
    if (host__rt_count(&all, NULL) != PG_OK)
        return 0;
    for (size_t k = 0; !at && k < all && n < MAX_DEVICES; k++)
        out[n++] = (int)k;
    while (at && *at && n < MAX_DEVICES) {
        const size_t len = strcspn(at, ",");
        char *end;
        long k = strncmp(at, "GPU-", 4) == 0 ? strtol(at + 4, &end, 16) : strtol(at, &end, 10);
        if (end != at + len || len == 0 || k < 0 || (size_t)k >= all)
            break;
        out[n++] = (int)k;
        at += len + (at[len] == ',');
    }
    return n;
}

static int number_of(int device)
{
    int seen[MAX_DEVICES];
    return device < visible(seen) ? seen[device] : device;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    int seen[MAX_DEVICES];
    *n = visible(seen);
    return *n > 0 ? cudaSuccess : told(cudaErrorNoDevice);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

static int is_device(int device)
{
    int seen[MAX_DEVICES];
    return device >= 0 && device < visible(seen);
}

cudaError_t cudaSetDevice(int device)
{
    if (!is_device(device))
        return told(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    if (!is_device(device))
        return told(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    (void)snprintf(p->name, sizeof p->name, "GPU of plain C %d", number_of(device));
    p->major = 9;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *bus, int n, int device)
{
    (void)snprintf(bus, (size_t)n, "0000:%02x:00.0", (unsigned)number_of(device) + 16);
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p)
{
    a->type = pg__fake_is_pinned(p) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = device != peer;
    return is_device(device) && is_device(peer) ? cudaSuccess : told(cudaErrorInvalidDevice);
}

/* ---- recordings ---- */

static pg__rt *rt_of(cudaStream_t s)
{
    return (pg__rt *)(void *)s;
}

/* Under the lock: NULL where there is no such stream, or none any more. */
static stream *stream_of(const pg__rt *rt)
{
    for (int k = 0; rt && k < MAX_STREAMS; k++)
        if (streams.of[k].rt == rt)
            return &streams.of[k];
    return NULL;
}

static capture *capture_of(unsigned number)
{
    for (int k = 0; number > 0 && k < MAX_STREAMS; k++)
        if (streams.captures[k].number == number)
            return &streams.captures[k];
    return NULL;
}

/* A broken rule spoils the recording, as its end will tell. */
static cudaError_t broken(unsigned number, cudaError_t e)
{
    pthread_mutex_lock(&streams.lock);
    capture *c = capture_of(number);
    if (c)
        c->is_broken = 1;
    pthread_mutex_unlock(&streams.lock);
    return told(e);
}

/* What a thread must not do while it records: calls that wait, or that allocate. */
static int is_prohibited(void)
{
    pthread_mutex_lock(&streams.lock);
    for (int k = 0; n_mine > 0 && k < MAX_STREAMS; k++)
        if (streams.captures[k].number && pthread_equal(streams.captures[k].thread, pthread_self()))
            streams.captures[k].is_broken = 1;
    pthread_mutex_unlock(&streams.lock);
    return n_mine > 0;
}
#define MAY_BE_UNSAFE()                                     \
    do {                                                    \
        if (is_prohibited())                                \
            return told(cudaErrorStreamCaptureUnsupported); \
    } while (0)

/* The recording that a stream is in; 0: none. */
static unsigned capture_in(const pg__rt *rt)
{
    pthread_mutex_lock(&streams.lock);
    const stream *s = stream_of(rt);
    const unsigned in = s ? s->in : 0;
    pthread_mutex_unlock(&streams.lock);
    return in;
}

/* Whether work may come to it: it lives, is the current device's, and its recording is whole. */
static cudaError_t usable(cudaStream_t s)
{
    cudaError_t e = cudaSuccess;
    pthread_mutex_lock(&streams.lock);
    const stream *at = stream_of(rt_of(s));
    const capture *c = at ? capture_of(at->in) : NULL;
    if (!at || (int)host__rt_ordinal(at->rt) != current)
        e = cudaErrorInvalidResourceHandle;
    else if (c && c->is_broken)
        e = cudaErrorStreamCaptureInvalidated;
    pthread_mutex_unlock(&streams.lock);
    return e;
}
#define CHECK(s)                          \
    do {                                  \
        const cudaError_t e_ = usable(s); \
        if (e_ != cudaSuccess)            \
            return told(e_);              \
    } while (0)

static int may_launch(void *s)
{
    return (int)told(usable((cudaStream_t)s));
}

/* Of launches the runtime is not told here. */
__attribute__((constructor)) static void begin(void)
{
    pg__fake_on_work = may_launch;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    static _Atomic int enabled[MAX_DEVICES][MAX_DEVICES];
    MAY_BE_UNSAFE();
    if (flags != 0)
        return told(cudaErrorInvalidValue);
    if (peer == current || !is_device(peer))
        return told(cudaErrorInvalidDevice);
    return atomic_exchange(&enabled[current][peer], 1) ? told(cudaErrorPeerAccessAlreadyEnabled)
                                                       : cudaSuccess;
}

/* ---- memory ---- */

/* What was handed out and not taken back, of devices and of the host. */
typedef struct block {
    const char *at;
    size_t n;
    int device; /* -1: pinned memory of the host */
} block;

static struct {
    pthread_mutex_t lock;
    block *of;
    size_t n, room;
} blocks = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void add_block(const void *p, size_t n, int device)
{
    pthread_mutex_lock(&blocks.lock);
    if (blocks.n == blocks.room) {
        blocks.room = 2 * blocks.room + 64;
        blocks.of = realloc(blocks.of, blocks.room * sizeof *blocks.of);
        if (!blocks.of)
            abort();
    }
    blocks.of[blocks.n++] = (block){p, n, device};
    pthread_mutex_unlock(&blocks.lock);
}

/* Takes out the one that begins there: its device, or -2 where there is none. */
static int take_block(const void *p, int of_host)
{
    int device = -2;
    pthread_mutex_lock(&blocks.lock);
    for (size_t k = 0; k < blocks.n; k++)
        if (blocks.of[k].at == p && (blocks.of[k].device < 0) == of_host) {
            device = blocks.of[k].device;
            blocks.of[k] = blocks.of[--blocks.n];
            break;
        }
    pthread_mutex_unlock(&blocks.lock);
    return device;
}

/* Do all n bytes lie in one piece of this device's memory? */
static int is_within(const void *p, size_t n, int device)
{
    const char *at = p;
    int found = n == 0;
    pthread_mutex_lock(&blocks.lock);
    for (size_t k = 0; !found && k < blocks.n; k++) {
        const block *b = &blocks.of[k];
        found = b->device == device && at >= b->at && at < b->at + b->n &&
                n <= (size_t)(b->at + b->n - at);
    }
    pthread_mutex_unlock(&blocks.lock);
    return found;
}

static pg__rt *device_at(int k)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!devices[k] && host__rt_open(&devices[k], (size_t)k, NULL) != PG_OK)
        devices[k] = NULL;
    pthread_mutex_unlock(&lock);
    return devices[k];
}

static pg__rt *device(void)
{
    return device_at(current);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    uint64_t is_free = 0, all = 0;
    const cudaError_t e = done(host__rt_memory(device(), &is_free, &all, NULL));
    *free_bytes = is_free;
    *total_bytes = all;
    return e;
}

cudaError_t cudaMalloc(void **p, size_t n)
{
    MAY_BE_UNSAFE();
    pg__rt *d = device();
    const cudaError_t e = d ? done(host__rt_alloc(d, p, n, NULL)) : told(cudaErrorLaunchFailure);
    if (e == cudaSuccess)
        add_block(*p, n, current);
    return e;
}

/* Waits for all that the device was given. */
cudaError_t cudaFree(void *p)
{
    MAY_BE_UNSAFE();
    const int of = p ? take_block(p, 0) : current;
    if (of < 0)
        return told(cudaErrorInvalidValue);
    pthread_mutex_lock(&streams.lock);
    for (int k = 0; p && k < MAX_STREAMS; k++)
        if (streams.of[k].rt && (int)host__rt_ordinal(streams.of[k].rt) == of)
            (void)host__rt_sync(streams.of[k].rt, NULL);
    pthread_mutex_unlock(&streams.lock);
    if (p)
        host__rt_free(device_at(of), p);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **p, size_t n, unsigned flags)
{
    MAY_BE_UNSAFE();
    pg__rt *d = device();
    (void)flags;
    const cudaError_t e =
        d ? done(host__rt_host_alloc(d, p, n, NULL)) : told(cudaErrorLaunchFailure);
    if (e == cudaSuccess)
        add_block(*p, n, -1);
    return e;
}

cudaError_t cudaFreeHost(void *p)
{
    MAY_BE_UNSAFE();
    pg__rt *d = device();
    if (!d)
        return told(cudaErrorLaunchFailure);
    if (p && take_block(p, 1) != -1)
        return told(cudaErrorInvalidValue);
    host__rt_host_free(d, p);
    return cudaSuccess;
}

/* ---- streams: those of plain C ---- */

static int place(pg__rt *rt)
{
    int k = 0;
    pthread_mutex_lock(&streams.lock);
    while (k < MAX_STREAMS && streams.of[k].rt)
        k++;
    if (k < MAX_STREAMS)
        streams.of[k] = (stream){.rt = rt};
    pthread_mutex_unlock(&streams.lock);
    return k < MAX_STREAMS;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    pg__rt *rt = NULL;
    if (flags != cudaStreamNonBlocking)
        return told(cudaErrorInvalidValue);
    const pg_status st = host__rt_open(&rt, (size_t)current, NULL);
    *s = (cudaStream_t)(void *)rt;
    if (st == PG_OK && !place(rt))
        abort();
    return done(st);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority)
{
    return priority <= 0 && priority >= -5 ? cudaStreamCreateWithFlags(s, flags)
                                           : told(cudaErrorInvalidValue);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    pthread_mutex_lock(&streams.lock);
    stream *at = stream_of(rt_of(s));
    if (at)
        *at = (stream){.rt = NULL};
    pthread_mutex_unlock(&streams.lock);
    if (!at)
        return told(cudaErrorInvalidResourceHandle);
    host__rt_close(rt_of(s));
    return cudaSuccess;
}

/* Of a stream that is asked about, or waited for: it must not record, nor the thread. */
static cudaError_t may_wait(cudaStream_t s)
{
    CHECK(s);
    const unsigned in = capture_in(rt_of(s));
    if (in)
        return broken(in, cudaErrorStreamCaptureUnsupported);
    MAY_BE_UNSAFE();
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    const cudaError_t e = may_wait(s);
    return e != cudaSuccess ? e : done(host__rt_sync(rt_of(s), NULL));
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    return cudaStreamSynchronize(s);
}

/* A copy between host and device; of memory that is not pinned it may wait, which a recording
 * cannot hold. */
static cudaError_t host_copy(void *dst, const void *src, size_t n, int is_put, pg__rt *rt)
{
    const void *host = is_put ? src : dst, *at = is_put ? dst : src;
    const unsigned in = capture_in(rt);
    const int pinned = pg__fake_is_pinned(host);
    if (!is_within(at, n, current) || (uintptr_t)host >> 63)
        return told(cudaErrorInvalidValue);
    if (in && !pinned)
        return broken(in, cudaErrorStreamCaptureUnsupported);
    if (!is_put)
        return done(host__rt_get(rt, dst, src, n, NULL));
    if (!pinned)
        return (cudaError_t)pg__fake_put_late(rt, dst, src, n);
    return done(host__rt_put(rt, dst, src, n, NULL));
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    CHECK(s);
    switch (kind) {
    case cudaMemcpyHostToDevice:
    case cudaMemcpyDeviceToHost:
        return host_copy(dst, src, n, kind == cudaMemcpyHostToDevice, rt_of(s));
    case cudaMemcpyDeviceToDevice:
        if (!is_within(dst, n, current) || !is_within(src, n, current))
            return told(cudaErrorInvalidValue);
        return done(host__rt_copy(rt_of(s), dst, src, n, NULL));
    default: return told(cudaErrorInvalidValue);
    }
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t n,
                                cudaStream_t s)
{
    CHECK(s);
    pg__rt *other = is_device(from) ? device_at(from) : NULL;
    if (to != current || to == from || !other)
        return told(cudaErrorInvalidDevice);
    if (!is_within(dst, n, to) || !is_within(src, n, from))
        return told(cudaErrorInvalidValue);
    return done(host__rt_copy_from(rt_of(s), dst, other, src, n, NULL));
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t n, cudaStream_t s)
{
    CHECK(s);
    return value == 0 && is_within(dst, n, current) ? done(host__rt_clear(rt_of(s), dst, n, NULL))
                                                    : told(cudaErrorInvalidValue);
}

/* ---- what lives besides ---- */

typedef enum thing { EVENT, GRAPH, EXECUTABLE } thing;

/* ---- events ---- */

struct CUevent_st {
    pg__rt_event *event;
    int has_time, device;
    double at;
    cudaStream_t on;
    unsigned in;       /* the recording in which it was marked */
    uint64_t recorded; /* by the stream until then */
};

static cudaError_t new_event(cudaEvent_t *e, int has_time)
{
    pg__rt_event *event;
    *e = NULL;
    if (host__rt_event_new(&event, device(), NULL) != PG_OK)
        return told(cudaErrorLaunchFailure);
    *e = born(sizeof **e, EVENT);
    **e = (struct CUevent_st){.event = event, .has_time = has_time, .device = current};
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    return flags == cudaEventDisableTiming ? new_event(e, 0) : told(cudaErrorInvalidValue);
}

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    return new_event(e, 1);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    if (!dies(e, EVENT))
        return told(cudaErrorInvalidResourceHandle);
    host__rt_event_free(e->event);
    free(e);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    CHECK(s);
    if (!lives(e, EVENT) || e->device != (int)host__rt_ordinal(rt_of(s)))
        return told(cudaErrorInvalidResourceHandle);
    e->at = host__rt_now(rt_of(s));
    e->on = s;
    e->in = capture_in(rt_of(s));
    e->recorded = pg__fake_n_recorded(rt_of(s));
    return e->in ? cudaSuccess : done(host__rt_mark(rt_of(s), e->event, NULL));
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    if (!lives(e, EVENT))
        return told(cudaErrorInvalidResourceHandle);
    if (e->in)
        return broken(e->in, cudaErrorCapturedEvent);
    MAY_BE_UNSAFE();
    return e->on ? done(host__rt_sync(rt_of(e->on), NULL)) : cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    if (!lives(from, EVENT) || !lives(to, EVENT) || !from->has_time || !to->has_time || !from->on ||
        !to->on || from->device != to->device)
        return told(cudaErrorInvalidResourceHandle);
    if (from->in || to->in)
        return told(cudaErrorCapturedEvent);
    if (!pg__fake_is_over(from->event) || !pg__fake_is_over(to->event))
        return told(cudaErrorNotReady);
    *ms = (float)((to->at - from->at) * 1e3);
    return cudaSuccess;
}

/* A stream waits for one that records: it becomes a part of the recording, or, if it is one, is now
 * behind the other. */
static cudaError_t wait_recorded(pg__rt *rt, const struct CUevent_st *e)
{
    cudaError_t r = cudaSuccess;
    pthread_mutex_lock(&streams.lock);
    capture *c = capture_of(e->in);
    stream *s = stream_of(rt), *other = stream_of(rt_of(e->on));
    if (!c || !other)
        r = cudaErrorCapturedEvent;
    else if (c->is_broken)
        r = cudaErrorStreamCaptureInvalidated;
    else if (s->in && s->in != e->in) {
        r = cudaErrorStreamCaptureMerge;
        c->is_broken = capture_of(s->in)->is_broken = 1;
    } else if (s->in)
        other->joined = e->recorded;
    else {
        *s = (stream){rt, e->in, UINT64_MAX};
        pg__fake_record_with(rt, c->origin);
    }
    pthread_mutex_unlock(&streams.lock);
    return told(r);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    CHECK(s);
    if (!lives(e, EVENT))
        return told(cudaErrorInvalidResourceHandle);
    if (flags != 0)
        return told(cudaErrorInvalidValue);
    if (!e->on)
        return cudaSuccess;
    if (e->in)
        return wait_recorded(rt_of(s), e);
    const unsigned in = capture_in(rt_of(s));
    if (in)
        return broken(in, cudaErrorStreamCaptureIsolation);
    return done(host__rt_wait(rt_of(s), e->event, NULL));
}

/* ---- recorded work ---- */

struct CUgraph_st {
    pg__rt_graph *g; /* NULL: an executable has it */
};

struct CUgraphExec_st {
    pg__rt_graph *g;
    int device;
};

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    CHECK(s);
    if (mode != cudaStreamCaptureModeThreadLocal || capture_in(rt_of(s)))
        return told(cudaErrorIllegalState);
    const cudaError_t e = done(host__rt_record_begin(rt_of(s), NULL));
    if (e != cudaSuccess)
        return e;
    pthread_mutex_lock(&streams.lock);
    size_t k = 0;
    while (streams.captures[k].number)
        k++;
    const unsigned number = ++streams.n_captures;
    streams.captures[k] = (capture){number, rt_of(s), pthread_self(), 0};
    stream_of(rt_of(s))->in = number;
    pthread_mutex_unlock(&streams.lock);
    n_mine++;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status)
{
    pthread_mutex_lock(&streams.lock);
    const stream *at = stream_of(rt_of(s));
    const capture *c = at ? capture_of(at->in) : NULL;
    *status = !c             ? cudaStreamCaptureStatusNone
              : c->is_broken ? cudaStreamCaptureStatusInvalidated
                             : cudaStreamCaptureStatusActive;
    pthread_mutex_unlock(&streams.lock);
    return at ? cudaSuccess : told(cudaErrorInvalidResourceHandle);
}

/* Ends it for all its streams; whether it is whole. Under the lock. */
static cudaError_t close_capture(capture *c)
{
    cudaError_t e = c->is_broken ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    for (int k = 0; k < MAX_STREAMS; k++) {
        stream *s = &streams.of[k];
        if (!s->rt || s->in != c->number)
            continue;
        if (s->rt != c->origin) {
            if (e == cudaSuccess && s->joined != pg__fake_n_recorded(s->rt))
                e = cudaErrorStreamCaptureUnjoined;
            pg__fake_record_with(s->rt, NULL);
        }
        s->in = 0;
    }
    c->number = 0;
    return e;
}

/* What prevents the end of a recording, which then goes on. Under the lock. */
static cudaError_t may_end(const capture *c, const pg__rt *rt)
{
    return !c                                          ? cudaErrorIllegalState
           : c->origin != rt                           ? cudaErrorStreamCaptureUnmatched
           : !pthread_equal(c->thread, pthread_self()) ? cudaErrorStreamCaptureWrongThread
                                                       : cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    pg__rt_graph *g = NULL;
    *out = NULL;
    pthread_mutex_lock(&streams.lock);
    const stream *at = stream_of(rt_of(s));
    capture *c = at ? capture_of(at->in) : NULL;
    cudaError_t e = at ? may_end(c, at->rt) : cudaErrorInvalidResourceHandle;
    const int ends = e == cudaSuccess;
    if (ends)
        e = close_capture(c);
    pthread_mutex_unlock(&streams.lock);
    if (!ends)
        return told(e);
    n_mine--;
    const pg_status st = host__rt_record_end(rt_of(s), &g, NULL);
    if (st != PG_OK || e != cudaSuccess) {
        host__rt_graph_free(g);
        return e != cudaSuccess ? told(e) : done(st);
    }
    *out = born(sizeof **out, GRAPH);
    (*out)->g = g;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long flags)
{
    *out = NULL;
    if (!lives(g, GRAPH) || !g->g || flags != 0)
        return told(cudaErrorInvalidValue);
    *out = born(sizeof **out, EXECUTABLE);
    **out = (struct CUgraphExec_st){g->g, current};
    g->g = NULL;
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t g, cudaStream_t s)
{
    CHECK(s);
    return lives(g, EXECUTABLE) && g->device == current ? cudaSuccess : told(cudaErrorInvalidValue);
}

/* While its stream records it would become a part of the recording, which plain C does not do. */
cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s)
{
    CHECK(s);
    const unsigned in = capture_in(rt_of(s));
    if (in)
        return broken(in, cudaErrorStreamCaptureUnsupported);
    if (!lives(g, EXECUTABLE) || g->device != current)
        return told(cudaErrorInvalidValue);
    return done(host__rt_replay(rt_of(s), g->g, NULL));
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    if (!dies(g, GRAPH))
        return told(cudaErrorInvalidValue);
    host__rt_graph_free(g->g);
    free(g);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g)
{
    if (!dies(g, EXECUTABLE))
        return told(cudaErrorInvalidValue);
    host__rt_graph_free(g->g);
    free(g);
    return cudaSuccess;
}
