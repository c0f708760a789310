/* nccl_host.c - what coll_nccl.c calls of NCCL, and of the CUDA runtime, on the GPU of plain C
 * (host.h): a libnccl.so.2 whose communicators do not block, as it asks for, so that the polling,
 * the patience and the giving up show without a GPU. One group at a time. */
#include "host.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdlib.h>

#include "backend/cuda/pgk.h"

#pragma GCC visibility push(default)

ncclResult_t ncclGroupStart(void); /* which the header has without a prototype */
ncclResult_t ncclGroupEnd(void);

#define MAX_RANKS 8
#define POLLS     3 /* before a call that was begun is queued */

struct ncclComm {
    int rank, polls;
};

static struct {
    pthread_mutex_t lock;
    int n, n_here, meetings;
    float *p[MAX_RANKS];
    cudaStream_t stream[MAX_RANKS];
    int waits_for[MAX_RANKS]; /* a meeting; what is over is less */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    *id = (ncclUniqueId){{0}};
    return ncclSuccess;
}

static _Thread_local int n_open; /* groups */

ncclResult_t ncclGroupStart(void)
{
    n_open++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    n_open--;
    return ncclInProgress;
}

const char *ncclGetErrorString(ncclResult_t r)
{
    return r == ncclSystemError ? "unhandled system error" : "invalid usage";
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    const char *refused = getenv("FAKE_NCCL_REFUSES"); /* a rank */
    (void)id;
    if (refused && atoi(refused) == rank)
        return ncclInvalidUsage;
    if (config->blocking != 0 || config->size != sizeof *config || n > MAX_RANKS)
        return ncclInvalidUsage;
    if (rank == 0) {
        all.n = n;
        all.n_here = all.meetings = 0;
    }
    all.waits_for[rank] = -1;
    *comm = calloc(1, sizeof **comm);
    if (!*comm)
        abort();
    (*comm)->rank = rank;
    (*comm)->polls = POLLS;
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *r)
{
    const char *fails = getenv("FAKE_NCCL_FAILS"); /* a rank */
    *r = fails && atoi(fails) == comm->rank ? ncclSystemError
         : comm->polls-- > 0                ? ncclInProgress
                                            : ncclSuccess;
    return ncclSuccess;
}

/* In an open group it would be left for its end. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (n_open != 0)
        abort();
    free(comm);
    return ncclSuccess;
}

/* The last one who comes does it for all; root: all.n for a sum. */
static ncclResult_t meet(const void *from, void *to, size_t count, int root, ncclComm_t comm,
                         cudaStream_t stream)
{
    if (from != to || pg__rt_sync((pg__rt *)(void *)stream, NULL) != PG_OK)
        return ncclInvalidUsage;
    pthread_mutex_lock(&all.lock);
    all.p[comm->rank] = pgk_host_memory(to);
    all.stream[comm->rank] = stream;
    all.waits_for[comm->rank] = all.meetings;
    if (++all.n_here == all.n) {
        for (size_t i = 0; i < count; i++) {
            float v = root < all.n ? all.p[root][i] : all.p[0][i];
            for (int r = 1; root == all.n && r < all.n; r++)
                v += all.p[r][i];
            for (int r = 0; r < all.n; r++)
                all.p[r][i] = v;
        }
        all.n_here = 0;
        all.meetings++;
    }
    pthread_mutex_unlock(&all.lock);
    comm->polls = POLLS;
    return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    if (type != ncclFloat || op != ncclSum)
        return ncclInvalidUsage;
    return meet(from, to, count, all.n, comm, stream);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return type == ncclFloat ? meet(from, to, count, root, comm, stream) : ncclInvalidUsage;
}

/* ---- of the runtime ---- */

static _Thread_local cudaError_t last_error;

/* "Not ready" is noted as errors are: who does not clear it, finds it at the next launch. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    cudaError_t e = cudaSuccess;
    if (last_error != cudaSuccess)
        return cudaErrorLaunchFailure;
    pthread_mutex_lock(&all.lock);
    for (int r = 0; r < all.n; r++)
        if (all.stream[r] == stream && all.waits_for[r] == all.meetings)
            e = cudaErrorNotReady;
    pthread_mutex_unlock(&all.lock);
    last_error = e;
    return e;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t e = last_error;
    last_error = cudaSuccess;
    return e;
}

const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorNotReady ? "device not ready" : "no error";
}
