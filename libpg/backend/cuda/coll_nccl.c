/* coll_nccl.c - coll.h over NCCL, which is opened when a second GPU is used: nobody needs NCCL for
 * one. Communicators do not block, so a rank that another one never joins can be abandoned. */
#include "backend/cuda/coll.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"

#define SETUP_SECONDS 120.0 /* for all ranks to meet the first time */

#define FUNCTIONS(X)      \
    X(GetUniqueId)        \
    X(CommInitRankConfig) \
    X(GroupStart)         \
    X(GroupEnd) X(CommGetAsyncError) X(AllReduce) X(Broadcast) X(CommAbort) X(GetErrorString)

typedef struct member {
    ncclComm_t comm; /* NULL: given up */
    pg__rt *rt;
    size_t ordinal;
} member;

struct pg__coll {
    void *lib;
#define X(name) __typeof__(&nccl##name) name;
    FUNCTIONS(X)
#undef X
    size_t n, first, n_all; /* ranks here; the first of them among those of all processes */
    pg__timeout timeout;
    member *of; /* by rank */
};

static pg_status open_library(pg__coll *c, pg_err *err)
{
    c->lib = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!c->lib)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "several GPUs need NCCL, and libnccl.so.2 is missing; install the package "
                       "libnccl2, or nvidia-nccl-cu%d for Python",
                       CUDART_VERSION / 1000);
#define X(name)                                                                               \
    *(void **)(void *)&c->name = dlsym(c->lib, "nccl" #name);                                 \
    if (!c->name)                                                                             \
        return pg_fail(err, PG_E_UNSUPPORTED,                                                 \
                       "libnccl.so.2 is too old: it has no nccl" #name "; install NCCL 2.19 " \
                       "or newer");
    FUNCTIONS(X)
#undef X
    return PG_OK;
}

static void nap(void)
{
    (void)nanosleep(&(struct timespec){0, 50000}, NULL);
}

/* Ends what a rank waits for; ranks that wait for this one time out. */
static void give_up(pg__coll *c, member *m)
{
    if (m->comm)
        (void)c->CommAbort(m->comm);
    m->comm = NULL;
}

static pg_status failed(pg__coll *c, member *m, ncclResult_t r, pg_err *err)
{
    give_up(c, m);
    return pg_fail(err, r == ncclRemoteError ? PG_E_PEER : PG_E_DEVICE, "cuda:%zu: NCCL: %s",
                   m->ordinal, c->GetErrorString(r));
}

/* Is it time to give up? The rank that did not arrive may belong to another process. */
static pg_status look_at_clock(pg__coll *c, member *m, const pg__timeout *p, double begun,
                               pg_err *err)
{
    const double so_far = pg__now() - begun;
    const int ends = p->ends && p->ends(p->of);
    if (!ends && so_far <= p->seconds)
        return PG_OK;
    give_up(c, m);
    return pg_fail(err, c->n_all > c->n ? PG_E_PEER : PG_E_DEVICE,
                   "cuda:%zu waited %.0f seconds for another GPU", m->ordinal,
                   ends ? so_far : p->seconds);
}

/* Until a call that was begun is queued; r: what it returned. */
static pg_status settle(pg__coll *c, member *m, ncclResult_t r, pg_err *err)
{
    const double begun = pg__now();
    while (r == ncclInProgress) {
        const ncclResult_t asked = c->CommGetAsyncError(m->comm, &r);
        if (asked != ncclSuccess)
            r = asked;
        if (r != ncclInProgress)
            break;
        const pg_status st = look_at_clock(c, m, &c->timeout, begun, err);
        if (st != PG_OK)
            return st;
        nap();
    }
    return r == ncclSuccess ? PG_OK : failed(c, m, r, err);
}

static pg_status join_all(pg__coll *c, const pg__group_place *among, pg_err *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    ncclResult_t r = ncclSuccess;
    size_t last = 0;
    pg_status st = PG_OK;
    config.blocking = 0;
    if (among)
        memcpy(&id, among->id, sizeof id);
    else
        r = c->GetUniqueId(&id);
    if (r == ncclSuccess)
        r = c->GroupStart();
    const int begun = r == ncclSuccess;
    for (size_t k = 0; r == ncclSuccess && k < c->n; k++) {
        last = k;
        (void)pg__rt_stream(c->of[k].rt); /* its device is the current one */
        r = c->CommInitRankConfig(&c->of[k].comm, (int)c->n_all, id, (int)(c->first + k), &config);
        if (r == ncclInProgress)
            r = ncclSuccess;
    }
    if (begun) { /* in any case: the thread's group is open until then */
        const ncclResult_t end = c->GroupEnd();
        r = r == ncclSuccess ? end : r;
    }
    if (r != ncclSuccess && r != ncclInProgress)
        return failed(c, &c->of[last], r, err);
    for (size_t k = 0; st == PG_OK && k < c->n; k++)
        st = settle(c, &c->of[k], ncclInProgress, err);
    return st;
}

pg_status pg__coll_id(unsigned char id[PG_GROUP_ID], pg_err *err)
{
    _Static_assert(sizeof(ncclUniqueId) == PG_GROUP_ID, "the size of NCCL's id");
    ncclUniqueId made;
    pg__coll c = {.n = 0};
    pg_status st = open_library(&c, err);
    if (st == PG_OK && id) {
        const ncclResult_t r = c.GetUniqueId(&made);
        if (r == ncclSuccess)
            memcpy(id, &made, sizeof made);
        else
            st = pg_fail(err, PG_E_DEVICE, "NCCL: %s", c.GetErrorString(r));
    }
    if (c.lib)
        (void)dlclose(c.lib);
    return st;
}

pg_status pg__coll_new(pg__coll **out, pg__rt *const *streams, size_t n,
                       const pg__group_place *among, pg_err *err)
{
    pg__coll *c = pg__mem_array(1, sizeof *c);
    pg_status st = PG_OK;
    if (!c)
        return pg__nomem(err);
    c->n = n;
    c->first = among ? among->first : 0;
    c->n_all = among ? among->n_all : n;
    c->timeout = among ? among->timeout : (pg__timeout){.seconds = SETUP_SECONDS};
    c->of = pg__mem_array(n, sizeof *c->of);
    if (!c->of)
        PG_TRY(pg__nomem(err));
    for (size_t k = 0; k < n; k++)
        c->of[k] = (member){.rt = streams[k], .ordinal = pg__rt_ordinal(streams[k])};
    PG_TRY(open_library(c, err));
    PG_TRY(join_all(c, among, err));
    *out = c;
    c = NULL;
done:
    pg__coll_free(c);
    return st;
}

void pg__coll_drop(pg__coll *c)
{
    for (size_t k = 0; c->of && k < c->n; k++)
        give_up(c, &c->of[k]);
}

/* An idle communicator is aborted without loss, and without the others' consent. */
void pg__coll_free(pg__coll *c)
{
    if (!c)
        return;
    pg__coll_drop(c);
    if (c->lib)
        (void)dlclose(c->lib);
    pg__mem_free(c->of);
    pg__mem_free(c);
}

static pg_status is_there(const member *m, pg_err *err)
{
    return m->comm ? PG_OK
                   : pg_fail(err, PG_E_DEVICE,
                             "cuda:%zu: NCCL was shut down after an earlier failure", m->ordinal);
}

pg_status pg__coll_sum(pg__coll *c, size_t rank, float *p, size_t n, pg_err *err)
{
    member *m = &c->of[rank];
    pg_status st = PG_OK;
    PG_TRY(is_there(m, err));
    PG_TRY(settle(c, m, c->AllReduce(p, p, n, ncclFloat, ncclSum, m->comm, pg__rt_stream(m->rt)),
                  err));
done:
    return st;
}

pg_status pg__coll_broadcast(pg__coll *c, size_t rank, float *p, size_t n, size_t root, pg_err *err)
{
    member *m = &c->of[rank];
    pg_status st = PG_OK;
    PG_TRY(is_there(m, err));
    PG_TRY(settle(c, m, c->Broadcast(p, p, n, ncclFloat, (int)root, m->comm, pg__rt_stream(m->rt)),
                  err));
done:
    return st;
}

pg_status pg__coll_check(pg__coll *c, size_t rank, const pg__timeout *p, pg_err *err)
{
    member *m = &c->of[rank];
    const double begun = pg__now();
    pg_status st = PG_OK;
    PG_TRY(is_there(m, err));
    for (;;) {
        ncclResult_t r = ncclSuccess;
        const cudaError_t e = cudaStreamQuery(pg__rt_stream(m->rt));
        if (e == cudaSuccess)
            break;
        (void)cudaGetLastError(); /* "not ready" too is noted there, and a launch would find it */
        if (e != cudaErrorNotReady) {
            give_up(c, m);
            PG_FAIL(PG_E_DEVICE, "cuda:%zu: queued work failed: %s", m->ordinal,
                    cudaGetErrorString(e));
        }
        const ncclResult_t asked = c->CommGetAsyncError(m->comm, &r);
        if (asked != ncclSuccess || (r != ncclSuccess && r != ncclInProgress))
            return failed(c, m, asked != ncclSuccess ? asked : r, err);
        PG_TRY(look_at_clock(c, m, p, begun, err));
        nap();
    }
done:
    return st;
}
