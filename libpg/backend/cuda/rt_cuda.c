/* rt_cuda.c - rt.h over the CUDA runtime. Every call that needs a current device sets it for the
 * thread, even the one that returns the stream, because kernels are launched right after it. */
#include "backend/cuda/rt.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cuda/kernels.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"

struct pg__rt {
    int ordinal;
    cudaStream_t stream;
    cudaStream_t setup;  /* nothing is recorded on it: memory is cleared here, by whatever thread */
    uint64_t peers_seen; /* devices that were asked for direct access, as bits */
    char name[64], bus[32];
};

struct pg__rt_event {
    cudaEvent_t e;
};

struct pg__rt_graph {
    cudaGraphExec_t exec;
};

const char *pg__rt_error(int code)
{
    return cudaGetErrorString((cudaError_t)code);
}

/* PG_OK, or what failed of which device. The runtime's own note of it is cleared. */
static pg_status checked(const pg__rt *rt, cudaError_t e, const char *what, pg_err *err)
{
    if (e == cudaSuccess)
        return PG_OK;
    (void)cudaGetLastError();
    return pg_fail(err, e == cudaErrorMemoryAllocation ? PG_E_NOMEM : PG_E_DEVICE,
                   "cuda:%d: %s: %s", rt->ordinal, what, cudaGetErrorString(e));
}

static cudaError_t enter(const pg__rt *rt)
{
    return cudaSetDevice(rt->ordinal);
}

#define CUDA(rt, what, call)                   \
    do {                                       \
        cudaError_t e_ = enter(rt);            \
        if (e_ == cudaSuccess)                 \
            e_ = (call);                       \
        if (e_ != cudaSuccess)                 \
            return checked(rt, e_, what, err); \
    } while (0)

/* ---- devices ---- */

/* What prevents the use of any device. The runtime gives the same error for no driver and an old
 * one. */
static pg_status no_device(cudaError_t e, pg_err *err)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int driver = 0;
    (void)cudaGetLastError();
    if (e != cudaSuccess && cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
        (void)pg_fail(err, PG_E_UNSUPPORTED,
                      "no NVIDIA driver: libcuda.so.1 is missing; install the package "
                      "nvidia-driver (Debian) or nvidia-driver-580 (Ubuntu)");
    else if (e == cudaErrorInsufficientDriver)
        (void)pg_fail(
            err, PG_E_UNSUPPORTED,
            "the NVIDIA driver is too old: it is for CUDA %d.%d and this build for %d.%d; "
            "install a newer driver",
            driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    else if (visible && (e == cudaSuccess || e == cudaErrorNoDevice)) {
        (void)pg_fail(err, PG_E_UNSUPPORTED, "CUDA_VISIBLE_DEVICES=%s leaves no GPU",
                      visible[0] ? PG_SHOW(visible) : "\"\"");
        pg_err_hint(err, "unset CUDA_VISIBLE_DEVICES; nvidia-smi -L lists what there is");
    } else
        (void)pg_fail(err, PG_E_UNSUPPORTED, "no GPU can be used: %s",
                      e == cudaSuccess ? "there is none" : cudaGetErrorString(e));
    return PG_E_UNSUPPORTED;
}

pg_status pg__rt_count(size_t *n, pg_err *err)
{
    int count = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e != cudaSuccess || count <= 0)
        return no_device(e, err);
    *n = (size_t)count;
    return PG_OK;
}

/* Not for this device, or for a younger driver. */
static int has_no_code(cudaError_t e)
{
    return e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction ||
           e == cudaErrorInvalidKernelImage || e == cudaErrorUnsupportedPtxVersion ||
           e == cudaErrorJitCompilerNotFound;
}

static pg_status learn(pg__rt *rt, pg_err *err)
{
    struct cudaDeviceProp p;
    CUDA(rt, "its properties", cudaGetDeviceProperties(&p, rt->ordinal));
    (void)snprintf(rt->name, sizeof rt->name, "%.50s, sm_%d%d", p.name, p.major, p.minor);
    if (cudaDeviceGetPCIBusId(rt->bus, sizeof rt->bus, rt->ordinal) != cudaSuccess) {
        (void)cudaGetLastError();
        rt->bus[0] = '\0';
    }
    const cudaError_t e = (cudaError_t)pgk_usable();
    if (!has_no_code(e))
        return checked(rt, e, "its kernels", err);
    (void)cudaGetLastError();
    return pg_fail(err, PG_E_UNSUPPORTED,
                   "cuda:%d, %s: this build has no code for it; build with -Dgpu_arch=%d%d",
                   rt->ordinal, rt->name, p.major, p.minor);
}

static pg_status not_there(const char *name, size_t n, pg_err *err)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return visible ? pg_fail(err, PG_E_ARG, "%s does not exist: CUDA_VISIBLE_DEVICES=%s leaves %zu",
                             name, PG_SHOW(visible), n)
                   : pg_fail(err, PG_E_ARG, "%s does not exist: there %s %zu", name,
                             n == 1 ? "is" : "are", n);
}

/* Work of an urgent stream starts before that of another one that waits for room. */
static pg_status open_streams(pg__rt *rt, int urgent, pg_err *err)
{
    int least = 0, greatest = 0;
    CUDA(rt, "a stream", cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CUDA(rt, "a stream",
         cudaStreamCreateWithPriority(&rt->stream, cudaStreamNonBlocking,
                                      urgent ? greatest : least));
    CUDA(rt, "a stream", cudaStreamCreateWithFlags(&rt->setup, cudaStreamNonBlocking));
    return PG_OK;
}

static pg_status open_one(pg__rt **out, size_t ordinal, int urgent, pg_err *err)
{
    char name[32];
    size_t n = 0;
    pg__rt *rt = NULL;
    pg_status st = PG_OK;
    (void)snprintf(name, sizeof name, "cuda:%zu", ordinal);
    st = pg__rt_count(&n, err);
    if (st != PG_OK) {
        pg_err_prefix(err, name);
        return st;
    }
    if (ordinal >= n)
        PG_TRY(not_there(name, n, err));
    rt = pg__mem_array(1, sizeof *rt);
    if (!rt)
        PG_TRY(pg__nomem(err));
    rt->ordinal = (int)ordinal;
    PG_TRY(learn(rt, err));
    PG_TRY(open_streams(rt, urgent, err));
    *out = rt;
    rt = NULL;
done:
    pg__rt_close(rt);
    return st;
}

pg_status pg__rt_open(pg__rt **out, size_t ordinal, pg_err *err)
{
    return open_one(out, ordinal, 0, err);
}

pg_status pg__rt_open_beside(pg__rt **out, const pg__rt *of, pg_err *err)
{
    return open_one(out, (size_t)of->ordinal, 1, err);
}

void pg__rt_close(pg__rt *rt)
{
    if (!rt)
        return;
    (void)enter(rt);
    if (rt->stream) {
        (void)cudaStreamSynchronize(rt->stream);
        (void)cudaStreamDestroy(rt->stream);
    }
    if (rt->setup)
        (void)cudaStreamDestroy(rt->setup);
    (void)cudaGetLastError();
    pg__mem_free(rt);
}

size_t pg__rt_ordinal(const pg__rt *rt)
{
    return (size_t)rt->ordinal;
}

void *pg__rt_stream(pg__rt *rt)
{
    (void)enter(rt);
    return rt->stream;
}

const char *pg__rt_name(const pg__rt *rt)
{
    return rt->name;
}

const char *pg__rt_bus(const pg__rt *rt)
{
    return rt->bus;
}

pg_status pg__rt_memory(pg__rt *rt, uint64_t *free_bytes, uint64_t *total_bytes, pg_err *err)
{
    size_t free_now = 0, total = 0;
    CUDA(rt, "its memory", cudaMemGetInfo(&free_now, &total));
    *free_bytes = free_now;
    *total_bytes = total;
    return PG_OK;
}

/* ---- memory ---- */

static pg_status no_room(pg__rt *rt, size_t n, pg_err *err)
{
    size_t free_now = 0, total = 0;
    (void)cudaGetLastError();
    (void)cudaMemGetInfo(&free_now, &total);
    return pg_fail(err, PG_E_NOMEM, "cuda:%d: no room for %s MiB: %s of %s MiB are free",
                   rt->ordinal, PG_NUM((n + 0xfffff) >> 20), PG_NUM(free_now >> 20),
                   PG_NUM(total >> 20));
}

/* Other streams of the device use it too, so its zeros are there when this returns. */
pg_status pg__rt_alloc(pg__rt *rt, void **p, size_t n, pg_err *err)
{
    void *mem = NULL;
    cudaError_t e = enter(rt);
    if (e == cudaSuccess)
        e = cudaMalloc(&mem, n > 0 ? n : 1);
    if (e == cudaErrorMemoryAllocation)
        return no_room(rt, n, err);
    if (e == cudaSuccess)
        e = cudaMemsetAsync(mem, 0, n, rt->setup);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(rt->setup);
    if (e != cudaSuccess) {
        (void)cudaFree(mem);
        return checked(rt, e, "memory", err);
    }
    *p = mem;
    return PG_OK;
}

void pg__rt_free(pg__rt *rt, void *p)
{
    (void)enter(rt);
    (void)cudaFree(p); /* waits for the device */
    (void)cudaGetLastError();
}

pg_status pg__rt_host_alloc(pg__rt *rt, void **p, size_t n, pg_err *err)
{
    *p = NULL;
    CUDA(rt, "memory of the host for its copies",
         cudaHostAlloc(p, n > 0 ? n : 1, cudaHostAllocPortable));
    memset(*p, 0, n);
    return PG_OK;
}

void pg__rt_host_free(pg__rt *rt, void *p)
{
    (void)enter(rt);
    (void)cudaStreamSynchronize(rt->stream);
    (void)cudaFreeHost(p);
    (void)cudaGetLastError();
}

/* The runtime may copy memory of the host that is not pinned before it returns, or when the stream
 * comes to it. */
pg_status pg__rt_put(pg__rt *rt, void *dst, const void *src, size_t n, pg_err *err)
{
    struct cudaPointerAttributes of;
    CUDA(rt, "a copy to it", cudaMemcpyAsync(dst, src, n, cudaMemcpyHostToDevice, rt->stream));
    CUDA(rt, "a copy to it", cudaPointerGetAttributes(&of, src));
    return of.type == cudaMemoryTypeUnregistered ? pg__rt_sync(rt, err) : PG_OK;
}

pg_status pg__rt_get(pg__rt *rt, void *dst, const void *src, size_t n, pg_err *err)
{
    CUDA(rt, "a copy from it", cudaMemcpyAsync(dst, src, n, cudaMemcpyDeviceToHost, rt->stream));
    return PG_OK;
}

pg_status pg__rt_copy(pg__rt *rt, void *dst, const void *src, size_t n, pg_err *err)
{
    CUDA(rt, "a copy within it",
         cudaMemcpyAsync(dst, src, n, cudaMemcpyDeviceToDevice, rt->stream));
    return PG_OK;
}

/* Copies between devices are faster if one can access the other's memory; they work either way, so
 * failures here do not matter. Not called while a step is recorded, because it would end the
 * recording. */
static void meet_peer(pg__rt *rt, int other)
{
    enum cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    int can = 0;
    if (other >= 64 || rt->peers_seen >> other & 1)
        return;
    if (cudaStreamIsCapturing(rt->stream, &capturing) != cudaSuccess ||
        capturing != cudaStreamCaptureStatusNone)
        return;
    rt->peers_seen |= (uint64_t)1 << other;
    if (cudaDeviceCanAccessPeer(&can, rt->ordinal, other) == cudaSuccess && can)
        (void)cudaDeviceEnablePeerAccess(other, 0);
    (void)cudaGetLastError();
}

pg_status pg__rt_copy_from(pg__rt *rt, void *dst, const pg__rt *other, const void *src, size_t n,
                           pg_err *err)
{
    if (other->ordinal == rt->ordinal)
        return pg__rt_copy(rt, dst, src, n, err);
    (void)enter(rt);
    meet_peer(rt, other->ordinal);
    CUDA(rt, "a copy from another device",
         cudaMemcpyPeerAsync(dst, rt->ordinal, src, other->ordinal, n, rt->stream));
    return PG_OK;
}

pg_status pg__rt_clear(pg__rt *rt, void *dst, size_t n, pg_err *err)
{
    CUDA(rt, "clearing its memory", cudaMemsetAsync(dst, 0, n, rt->stream));
    return PG_OK;
}

pg_status pg__rt_sync(pg__rt *rt, pg_err *err)
{
    CUDA(rt, "its work", cudaStreamSynchronize(rt->stream));
    return PG_OK;
}

/* ---- events ---- */

pg_status pg__rt_event_new(pg__rt_event **out, pg__rt *rt, pg_err *err)
{
    pg__rt_event *e = pg__mem_array(1, sizeof *e);
    pg_status st = PG_OK;
    if (!e)
        return pg__nomem(err);
    PG_TRY(checked(rt, enter(rt), "an event", err));
    PG_TRY(checked(rt, cudaEventCreateWithFlags(&e->e, cudaEventDisableTiming), "an event", err));
    *out = e;
    e = NULL;
done:
    pg__mem_free(e);
    return st;
}

void pg__rt_event_free(pg__rt_event *e)
{
    if (!e)
        return;
    (void)cudaEventDestroy(e->e);
    (void)cudaGetLastError();
    pg__mem_free(e);
}

pg_status pg__rt_mark(pg__rt *rt, pg__rt_event *e, pg_err *err)
{
    CUDA(rt, "an event", cudaEventRecord(e->e, rt->stream));
    return PG_OK;
}

pg_status pg__rt_wait(pg__rt *rt, const pg__rt_event *e, pg_err *err)
{
    CUDA(rt, "an event", cudaStreamWaitEvent(rt->stream, e->e, 0));
    return PG_OK;
}

/* ---- time ---- */

static cudaError_t between(pg__rt *rt, cudaEvent_t from, cudaEvent_t to, float *ms)
{
    cudaError_t e = cudaEventRecord(to, rt->stream);
    if (e == cudaSuccess)
        e = cudaEventSynchronize(to);
    return e == cudaSuccess ? cudaEventElapsedTime(ms, from, to) : e;
}

pg_status pg__rt_time(pg__rt *rt, pg_status (*work)(void *of), void *of, double *seconds,
                      pg_err *err)
{
    cudaEvent_t from = NULL, to = NULL;
    float ms = 0;
    pg_status st = PG_OK;
    PG_TRY(checked(rt, enter(rt), "an event", err));
    PG_TRY(checked(rt, cudaEventCreate(&from), "an event", err));
    PG_TRY(checked(rt, cudaEventCreate(&to), "an event", err));
    PG_TRY(checked(rt, cudaEventRecord(from, rt->stream), "an event", err));
    PG_TRY(work(of));
    PG_TRY(checked(rt, between(rt, from, to, &ms), "its work", err));
    *seconds = (double)ms / 1e3;
done:
    if (from)
        (void)cudaEventDestroy(from);
    if (to)
        (void)cudaEventDestroy(to);
    (void)cudaGetLastError();
    return st;
}

double pg__rt_now(pg__rt *rt)
{
    struct timespec t = {0};
    (void)rt;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- recorded work ---- */

pg_status pg__rt_record_begin(pg__rt *rt, pg_err *err)
{
    CUDA(rt, "recording a step",
         cudaStreamBeginCapture(rt->stream, cudaStreamCaptureModeThreadLocal));
    return PG_OK;
}

/* Was it something that a step may hold, but a recording may not? It wants memory of its own. */
static int cannot_record(cudaError_t e)
{
    return (e >= cudaErrorStreamCaptureUnsupported && e <= cudaErrorStreamCaptureWrongThread) ||
           e == cudaErrorNotSupported || e == cudaErrorMemoryAllocation;
}

pg_status pg__rt_record_end(pg__rt *rt, pg__rt_graph **out, pg_err *err)
{
    pg__rt_graph *g = pg__mem_array(1, sizeof *g);
    cudaGraph_t graph = NULL;
    cudaError_t e;
    pg_status st = PG_OK;
    *out = NULL;
    (void)enter(rt);
    e = cudaStreamEndCapture(rt->stream, &graph); /* in any case: the stream must work again */
    if (!g)
        PG_TRY(pg__nomem(err));
    if (e == cudaSuccess)
        e = cudaGraphInstantiate(&g->exec, graph, 0);
    if (e == cudaSuccess)
        e = cudaGraphUpload(g->exec, rt->stream); /* or the first replay would */
    if (e != cudaSuccess) {
        if (!cannot_record(e))
            st = checked(rt, e, "recording a step", err);
        (void)cudaGetLastError();
        goto done;
    }
    *out = g;
    g = NULL;
done:
    if (graph)
        (void)cudaGraphDestroy(graph);
    pg__rt_graph_free(g);
    return st;
}

pg_status pg__rt_replay(pg__rt *rt, pg__rt_graph *g, pg_err *err)
{
    CUDA(rt, "a recorded step", cudaGraphLaunch(g->exec, rt->stream));
    return PG_OK;
}

void pg__rt_graph_free(pg__rt_graph *g)
{
    if (!g)
        return;
    if (g->exec)
        (void)cudaGraphExecDestroy(g->exec);
    pg__mem_free(g);
}
