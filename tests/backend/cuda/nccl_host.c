/* nccl_host.c - what coll_nccl.c calls of NCCL, and of the CUDA runtime, on the GPU of plain C
 * (host.h): a libnccl.so.2 whose communicators do not block, as it asks for, so that the polling,
 * the timeout and the giving up show without a GPU, in one process or in several. One sum at a
 * time. What its manual demands is demanded (PRECONDITIONS.md). */
#include "host.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "backend/cuda/pgk.h"

#pragma GCC visibility push(default)

ncclResult_t ncclGroupStart(void); /* which the header has without a prototype */
ncclResult_t ncclGroupEnd(void);

#define MAX_RANKS 8
#define MOST      4096 /* floats of a sum */
#define POLLS     3    /* before a call that was begun is queued */

/* What ranks share, of one process or of several: memory that the id names. */
typedef struct board {
    _Atomic int here[MAX_RANKS];
    _Atomic uint64_t came[MAX_RANKS];    /* meetings that a rank came to */
    _Atomic uint64_t what[2][MAX_RANKS]; /* and what for: as many numbers, and from which rank */
    _Atomic int differ;                  /* ranks came for different things */
    float brought[2][MAX_RANKS][MOST];   /* to one meeting and the next */
} board;

struct ncclComm {
    struct ncclComm *next;
    int rank, n, polls, root; /* root: n for a sum */
    board *b;
    uint64_t n_begun;
    float *p; /* of the meeting under way, or NULL */
    size_t count;
    cudaStream_t stream;
    size_t ordinal;       /* of its device, counted from 1; 0: not known yet */
    int is_settled;       /* it was told that no call is under way */
    _Atomic int n_inside; /* threads that are in a call with it */
    char name[32];
};

static struct {
    pthread_mutex_t lock;
    struct ncclComm *first;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    if (getrandom(id, sizeof *id, 0) != (ssize_t)sizeof *id)
        abort();
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
    if (n_open == 0)
        return ncclInvalidUsage;
    n_open--;
    return ncclInProgress;
}

const char *ncclGetErrorString(ncclResult_t r)
{
    return r == ncclSystemError       ? "unhandled system error"
           : r == ncclInvalidArgument ? "invalid argument"
           : r == ncclRemoteError     ? "remote process exited or there was a network error"
                                      : "invalid usage";
}

static void name_of(char name[32], const ncclUniqueId *id)
{
    (void)snprintf(name, 32, "/pg-nccl-");
    for (size_t k = 0; k < 8; k++)
        (void)snprintf(name + 9 + 2 * k, 3, "%02x", (unsigned char)id->internal[k]);
}

static board *open_board(const char *name)
{
    const int fd = shm_open(name, O_CREAT | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(board)) != 0)
        abort();
    board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (b == MAP_FAILED)
        abort();
    (void)close(fd);
    return b;
}

static int all_here(const struct ncclComm *c)
{
    int n = 0;
    for (int k = 0; k < c->n; k++)
        n += atomic_load(&c->b->here[k]);
    return n == c->n;
}

/* An id makes one communicator, in which a rank comes once; outside of a group a thread would wait
 * for its own next one. */
static int is_new(const char *name, int rank)
{
    static struct {
        char name[32];
        int rank;
    } used[1024];
    static size_t n;
    static _Thread_local char alone[32];
    int found = n_open == 0 && strcmp(alone, name) == 0;
    pthread_mutex_lock(&all.lock);
    for (size_t k = 0; k < n && k < 1024; k++)
        found |= used[k].rank == rank && strcmp(used[k].name, name) == 0;
    memcpy(used[n % 1024].name, name, sizeof used[0].name);
    used[n++ % 1024].rank = rank;
    pthread_mutex_unlock(&all.lock);
    if (n_open == 0)
        memcpy(alone, name, sizeof alone);
    return !found;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    const char *refused = getenv("FAKE_NCCL_REFUSES"); /* a rank */
    if (refused && atoi(refused) == rank)
        return ncclInvalidUsage;
    static const ncclConfig_t fresh = NCCL_CONFIG_INITIALIZER;
    if (!comm || !config || config->size != fresh.size || config->magic != fresh.magic || n < 1 ||
        n > MAX_RANKS || rank < 0 || rank >= n)
        return ncclInvalidArgument;
    if (config->blocking != 0)
        return ncclInvalidUsage;
    struct ncclComm *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    name_of(c->name, &id);
    if (!is_new(c->name, rank)) {
        free(c);
        return ncclInvalidUsage;
    }
    c->b = open_board(c->name);
    c->rank = rank;
    c->n = n;
    c->polls = POLLS;
    atomic_store(&c->b->here[rank], 1);
    if (all_here(c))
        (void)shm_unlink(c->name);
    pthread_mutex_lock(&all.lock);
    c->next = all.first;
    all.first = c;
    pthread_mutex_unlock(&all.lock);
    *comm = c;
    return ncclInProgress;
}

/* Is it one that was made, and not given up? */
static int is_comm(ncclComm_t comm)
{
    pthread_mutex_lock(&all.lock);
    const struct ncclComm *c = all.first;
    while (c && c != comm)
        c = c->next;
    pthread_mutex_unlock(&all.lock);
    return c != NULL;
}

/* One thread at a time. */
static int enter(ncclComm_t comm)
{
    if (!is_comm(comm))
        return 0;
    const int is_alone = atomic_fetch_add(&comm->n_inside, 1) == 0;
    if (!is_alone)
        atomic_fetch_sub(&comm->n_inside, 1);
    if (getenv("FAKE_NCCL_SLOW")) /* so that threads meet */
        (void)usleep(1000);
    return is_alone;
}

static ncclResult_t leave(ncclComm_t comm, ncclResult_t r)
{
    atomic_fetch_sub(&comm->n_inside, 1);
    return r;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *r)
{
    const char *fails = getenv("FAKE_NCCL_FAILS"); /* a rank */
    if (!r || !enter(comm))
        return ncclInvalidArgument;
    *r = fails && atoi(fails) == comm->rank     ? ncclSystemError
         : atomic_load(&comm->b->differ)        ? ncclInvalidUsage
         : comm->polls-- > 0 || !all_here(comm) ? ncclInProgress
                                                : ncclSuccess;
    comm->is_settled = *r == ncclSuccess;
    if (comm->is_settled && comm->stream)
        pg__fake_hold(comm->stream, 0);
    return leave(comm, ncclSuccess);
}

/* In an open group it would be left for its end. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (n_open != 0)
        return ncclInvalidUsage;
    if (!enter(comm))
        return ncclInvalidArgument;
    pthread_mutex_lock(&all.lock);
    struct ncclComm **at = &all.first;
    while (*at != comm)
        at = &(*at)->next;
    *at = comm->next;
    pthread_mutex_unlock(&all.lock);
    if (!all_here(comm)) /* else nobody needs the name any more */
        (void)shm_unlink(comm->name);
    if (comm->stream)
        pg__fake_hold(comm->stream, 0);
    (void)munmap(comm->b, sizeof *comm->b);
    free(comm);
    return ncclSuccess;
}

/* Whoever asks does what is to be done, once all have come. Under the lock. */
static int is_over(struct ncclComm *c)
{
    float(*brought)[MOST] = c->b->brought[c->n_begun % 2];
    for (int k = 0; c->p && k < c->n; k++)
        if (atomic_load(&c->b->came[k]) < c->n_begun)
            return 0;
    for (size_t i = 0; c->p && i < c->count; i++) {
        c->p[i] = brought[c->root < c->n ? c->root : 0][i];
        for (int r = 1; c->root == c->n && r < c->n; r++)
            c->p[i] += brought[r][i];
    }
    c->p = NULL;
    return 1;
}

/* Have the others that came to this meeting come for the same? Under the lock. */
static void compare(struct ncclComm *c, uint64_t what)
{
    _Atomic uint64_t *of = c->b->what[c->n_begun % 2];
    atomic_store(&of[c->rank], what);
    for (int k = 0; k < c->n; k++)
        if (atomic_load(&c->b->came[k]) == c->n_begun && atomic_load(&of[k]) != what)
            atomic_store(&c->b->differ, 1);
}

/* Its device is that of its first stream. */
static int is_its(struct ncclComm *c, cudaStream_t stream)
{
    const size_t ordinal = pg__rt_ordinal((pg__rt *)(void *)stream) + 1;
    if (c->ordinal == 0)
        c->ordinal = ordinal;
    return c->ordinal == ordinal;
}

static ncclResult_t begin(void *p, size_t count, int root, ncclComm_t comm, cudaStream_t stream)
{
    pthread_mutex_lock(&all.lock);
    const int is_free = is_over(comm);
    if (is_free) {
        comm->p = p;
        comm->count = count;
        comm->root = root;
        comm->stream = stream;
        comm->n_begun++;
        memcpy(comm->b->brought[comm->n_begun % 2][comm->rank], comm->p, count * sizeof(float));
        compare(comm, count << 8 | (unsigned)root);
        atomic_store(&comm->b->came[comm->rank], comm->n_begun);
        comm->polls = POLLS;
        comm->is_settled = 0;
        pg__fake_hold(stream, 1);
    }
    pthread_mutex_unlock(&all.lock);
    return is_free ? ncclInProgress : ncclInvalidUsage;
}

/* While a communicator is still busy with a call, only its state may be asked for, and nothing else
 * be queued on the stream. */
static ncclResult_t meet(const void *from, void *to, size_t count, int root, ncclComm_t comm,
                         cudaStream_t stream)
{
    if (!from || !to || !stream || !enter(comm))
        return ncclInvalidArgument;
    if (root < 0 || root > comm->n || (uintptr_t)to % sizeof(float) || count > MOST)
        return leave(comm, ncclInvalidArgument);
    if (from != to || !comm->is_settled || n_open != 0 || !is_its(comm, stream) ||
        pg__fake_is_recording(stream) || pg__rt_sync((pg__rt *)(void *)stream, NULL) != PG_OK)
        return leave(comm, ncclInvalidUsage);
    return leave(comm, begin(pgk_host_memory(to), count, root, comm, stream));
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    if (type != ncclFloat || op != ncclSum)
        return ncclInvalidArgument;
    return meet(from, to, count, is_comm(comm) ? comm->n : 0, comm, stream);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    if (type != ncclFloat || (is_comm(comm) && root >= comm->n))
        return ncclInvalidArgument;
    return meet(from, to, count, root, comm, stream);
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
    for (struct ncclComm *c = all.first; c; c = c->next)
        if (c->stream == stream && !is_over(c))
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
