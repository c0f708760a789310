/* cudart_host.c - what rt_cuda.c calls of the CUDA runtime, on the GPU of plain C (host.h). It
 * minds what the runtime minds and plain C does not: which device is a thread's current one, and
 * what may not be done while a stream records. */
#include "host_names.h"

#include "host.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/pgk.h"

#define MAX_DEVICES 8
#define MAX_STREAMS 256

static _Thread_local int current, last_error;
static pg__rt *devices[MAX_DEVICES]; /* for memory */
static struct {
    pthread_mutex_t lock;
    pg__rt *rt[MAX_STREAMS];
    int records[MAX_STREAMS];
} streams = {.lock = PTHREAD_MUTEX_INITIALIZER};

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
    return e == cudaSuccess                      ? "no error"
           : e == cudaErrorInvalidResourceHandle ? "invalid resource handle"
                                                 : "failure that was ordered";
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

cudaError_t cudaSetDevice(int device)
{
    current = device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
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
    return device == current ? cudaSuccess : told(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)flags;
    return peer != current ? cudaSuccess : told(cudaErrorInvalidDevice);
}

/* ---- memory ---- */

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
    pg__rt *d = device();
    return d ? done(host__rt_alloc(d, p, n, NULL)) : told(cudaErrorLaunchFailure);
}

/* Waits for all that the device was given. */
cudaError_t cudaFree(void *p)
{
    pthread_mutex_lock(&streams.lock);
    for (int k = 0; p && k < MAX_STREAMS; k++)
        if (streams.rt[k] && (int)host__rt_ordinal(streams.rt[k]) == current)
            (void)host__rt_sync(streams.rt[k], NULL);
    pthread_mutex_unlock(&streams.lock);
    if (p)
        host__rt_free(device(), p);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **p, size_t n, unsigned flags)
{
    pg__rt *d = device();
    (void)flags;
    return d ? done(host__rt_host_alloc(d, p, n, NULL)) : told(cudaErrorLaunchFailure);
}

cudaError_t cudaFreeHost(void *p)
{
    pg__rt *d = device();
    if (!d)
        return told(cudaErrorLaunchFailure);
    host__rt_host_free(d, p);
    return cudaSuccess;
}

/* ---- streams: those of plain C ---- */

static pg__rt *rt_of(cudaStream_t s)
{
    return (pg__rt *)(void *)s;
}

/* Is the stream the current device's? */
static int misplaced(cudaStream_t s)
{
    return (int)host__rt_ordinal(rt_of(s)) != current;
}
#define CHECK(s)                                         \
    do {                                                 \
        if (misplaced(s))                                \
            return told(cudaErrorInvalidResourceHandle); \
    } while (0)

/* Finds the stream that is `from` and makes it `to`; whether it was there. */
static int place(const pg__rt *from, pg__rt *to)
{
    int k = 0;
    pthread_mutex_lock(&streams.lock);
    while (k < MAX_STREAMS && streams.rt[k] != from)
        k++;
    if (k < MAX_STREAMS) {
        streams.rt[k] = to;
        streams.records[k] = 0;
    }
    pthread_mutex_unlock(&streams.lock);
    return k < MAX_STREAMS;
}

/* Whether it was recording; set: 0 or 1 from now on, else as it is. */
static int records(cudaStream_t s, int set)
{
    int was = 0;
    pthread_mutex_lock(&streams.lock);
    for (int k = 0; k < MAX_STREAMS; k++)
        if (streams.rt[k] == rt_of(s)) {
            was = streams.records[k];
            streams.records[k] = set == 0 || set == 1 ? set : was;
        }
    pthread_mutex_unlock(&streams.lock);
    return was;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    pg__rt *rt = NULL;
    const pg_status st = host__rt_open(&rt, (size_t)current, NULL);
    *s = (cudaStream_t)(void *)rt;
    if (st == PG_OK && !place(NULL, rt))
        abort();
    return flags == cudaStreamNonBlocking ? done(st) : told(cudaErrorInvalidValue);
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
    (void)place(rt_of(s), NULL);
    host__rt_close(rt_of(s));
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    CHECK(s);
    return records(s, -1) ? told(cudaErrorStreamCaptureUnsupported)
                          : done(host__rt_sync(rt_of(s), NULL));
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    return done(host__rt_sync(rt_of(s), NULL));
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    CHECK(s);
    switch (kind) {
    case cudaMemcpyHostToDevice:
        if (!pg__fake_is_pinned(src))
            return (cudaError_t)pg__fake_put_late(rt_of(s), dst, src, n);
        return done(host__rt_put(rt_of(s), dst, src, n, NULL));
    case cudaMemcpyDeviceToHost: return done(host__rt_get(rt_of(s), dst, src, n, NULL));
    case cudaMemcpyDeviceToDevice: return done(host__rt_copy(rt_of(s), dst, src, n, NULL));
    default: return told(cudaErrorInvalidValue);
    }
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t n,
                                cudaStream_t s)
{
    CHECK(s);
    pg__rt *other = device_at(from);
    if (to != current || to == from || !other)
        return told(cudaErrorInvalidDevice);
    return done(host__rt_copy_from(rt_of(s), dst, other, src, n, NULL));
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t n, cudaStream_t s)
{
    CHECK(s);
    return value == 0 ? done(host__rt_clear(rt_of(s), dst, n, NULL)) : told(cudaErrorInvalidValue);
}

/* ---- events ---- */

struct CUevent_st {
    pg__rt_event *event;
    int has_time;
    double at;
    cudaStream_t on;
};

static cudaError_t new_event(cudaEvent_t *e, int has_time)
{
    *e = calloc(1, sizeof **e);
    if (!*e)
        abort();
    (*e)->has_time = has_time;
    if (host__rt_event_new(&(*e)->event, device(), NULL) == PG_OK)
        return cudaSuccess;
    free(*e);
    *e = NULL;
    return told(cudaErrorLaunchFailure);
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
    host__rt_event_free(e->event);
    free(e);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    CHECK(s);
    e->at = host__rt_now(rt_of(s));
    e->on = s;
    return done(host__rt_mark(rt_of(s), e->event, NULL));
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    return e->on ? done(host__rt_sync(rt_of(e->on), NULL)) : cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    if (!from->has_time || !to->has_time)
        return told(cudaErrorInvalidResourceHandle);
    *ms = (float)((to->at - from->at) * 1e3);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    CHECK(s);
    return flags == 0 ? done(host__rt_wait(rt_of(s), e->event, NULL)) : told(cudaErrorInvalidValue);
}

/* ---- recorded work ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    CHECK(s);
    if (mode != cudaStreamCaptureModeThreadLocal || records(s, 1))
        return told(cudaErrorIllegalState);
    return done(host__rt_record_begin(rt_of(s), NULL));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status)
{
    *status = records(s, -1) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    pg__rt_graph *g = NULL;
    CHECK(s);
    (void)records(s, 0);
    const pg_status st = host__rt_record_end(rt_of(s), &g, NULL);
    *out = (cudaGraph_t)(void *)g;
    return done(st);
}

/* What is instantiated is the graph itself. */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long flags)
{
    *out = (cudaGraphExec_t)(void *)g;
    return flags == 0 ? cudaSuccess : told(cudaErrorInvalidValue);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t g, cudaStream_t s)
{
    (void)g;
    CHECK(s);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s)
{
    CHECK(s);
    return done(host__rt_replay(rt_of(s), (pg__rt_graph *)(void *)g, NULL));
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    (void)g;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g)
{
    host__rt_graph_free((pg__rt_graph *)(void *)g);
    return cudaSuccess;
}
