/* What NCCL's manual demands of a call (PRECONDITIONS.md) is refused by its emulation where it is
 * missing (nccl_host.c). */
#include "pg_test.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>

#include "backend/cuda/rt.h"

ncclResult_t ncclGroupStart(void); /* which the header has without a prototype */
ncclResult_t ncclGroupEnd(void);

#define N_RANKS 2
#define N       64

/* Ranks with a stream and numbers of each, and a stream of no rank. */
static struct rank {
    pg__rt *rt;
    float *p;
    ncclComm_t comm;
} ranks[N_RANKS];
static ncclUniqueId id;

static cudaStream_t stream_of(size_t k)
{
    return (cudaStream_t)pg__rt_stream(ranks[k].rt);
}

static ncclConfig_t config(void)
{
    ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
    c.blocking = 0;
    return c;
}

static ncclResult_t settled(ncclComm_t comm)
{
    ncclResult_t r = ncclInProgress;
    while (r == ncclInProgress)
        assert_int_equal(ncclCommGetAsyncError(comm, &r), ncclSuccess);
    return r;
}

static ncclResult_t join(size_t k, int n, int rank)
{
    ncclConfig_t c = config();
    return ncclCommInitRankConfig(&ranks[k].comm, n, id, rank, &c);
}

static void open_comms(int waits)
{
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    for (int k = 0; k < N_RANKS; k++)
        assert_int_equal(join((size_t)k, N_RANKS, k), ncclInProgress);
    assert_int_equal(ncclGroupEnd(), ncclInProgress);
    for (size_t k = 0; k < N_RANKS && waits; k++)
        assert_int_equal(settled(ranks[k].comm), ncclSuccess);
}

static void close_comms(void)
{
    for (size_t k = 0; k < N_RANKS; k++)
        assert_int_equal(ncclCommAbort(ranks[k].comm), ncclSuccess);
}

static ncclResult_t sum(size_t k, size_t n)
{
    return ncclAllReduce(ranks[k].p, ranks[k].p, n, ncclFloat, ncclSum, ranks[k].comm,
                         stream_of(k));
}

static int setup(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_RANKS; k++) {
        void *p = NULL;
        assert_ok(pg__rt_open(&ranks[k].rt, k, NULL));
        assert_ok(pg__rt_alloc(ranks[k].rt, &p, N * sizeof(float), NULL));
        ranks[k].p = p;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_RANKS; k++) {
        pg__rt_free(ranks[k].rt, ranks[k].p);
        pg__rt_close(ranks[k].rt);
    }
    return 0;
}

/* ---- communicators ---- */

static void communicators_are_made_as_they_must_be(void **state)
{
    ncclConfig_t empty = config(), blocks = config();
    ncclComm_t comm;
    (void)state;
    empty.magic = 0;
    blocks.blocking = 1;
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    assert_int_equal(ncclCommInitRankConfig(&comm, 2, id, 0, &empty), ncclInvalidArgument);
    assert_int_equal(ncclCommInitRankConfig(&comm, 2, id, 0, &blocks), ncclInvalidUsage);
    assert_int_equal(ncclCommInitRankConfig(NULL, 2, id, 0, &blocks), ncclInvalidArgument);
    assert_int_equal(join(0, 2, 2), ncclInvalidArgument);
    assert_int_equal(join(0, 2, -1), ncclInvalidArgument);
    assert_int_equal(join(0, 0, 0), ncclInvalidArgument);
}

static void a_rank_comes_once(void **state)
{
    (void)state;
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(join(0, 2, 0), ncclInProgress);
    assert_int_equal(join(1, 2, 0), ncclInvalidUsage);
    assert_int_equal(ncclGroupEnd(), ncclInProgress);
    assert_int_equal(ncclCommAbort(ranks[0].comm), ncclSuccess);
    assert_int_equal(join(0, 2, 0), ncclInvalidUsage); /* the id was for one */
}

/* Else the first would wait for the second, which its own thread is yet to make. */
static void ranks_of_a_thread_come_in_a_group(void **state)
{
    (void)state;
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    assert_int_equal(join(0, 2, 0), ncclInProgress);
    assert_int_equal(join(1, 2, 1), ncclInvalidUsage);
    assert_int_equal(ncclCommAbort(ranks[0].comm), ncclSuccess);
}

static void groups_end_as_often_as_they_begin(void **state)
{
    (void)state;
    assert_int_equal(ncclGroupEnd(), ncclInvalidUsage);
    open_comms(1);
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    assert_int_equal(ncclCommAbort(ranks[0].comm), ncclInvalidUsage);
    assert_int_equal(ncclGroupEnd(), ncclInProgress);
    close_comms();
}

static void what_is_gone_is_refused(void **state)
{
    ncclResult_t r;
    (void)state;
    open_comms(1);
    close_comms();
    assert_int_equal(ncclCommAbort(ranks[0].comm), ncclInvalidArgument);
    assert_int_equal(ncclCommGetAsyncError(ranks[0].comm, &r), ncclInvalidArgument);
    assert_int_equal(sum(0, N), ncclInvalidArgument);
}

/* ---- sums ---- */

static void only_its_state_is_asked_for_while_a_call_is_under_way(void **state)
{
    (void)state;
    open_comms(0);
    assert_int_equal(sum(0, N), ncclInvalidUsage);
    for (size_t k = 0; k < N_RANKS; k++)
        assert_int_equal(settled(ranks[k].comm), ncclSuccess);
    assert_int_equal(sum(0, N), ncclInProgress);
    assert_int_equal(sum(0, N), ncclInvalidUsage);
    assert_int_equal(sum(1, N), ncclInProgress);
    assert_int_equal(sum(0, N), ncclInvalidUsage); /* all came, which it was not asked for yet */
    for (size_t k = 0; k < N_RANKS; k++)
        assert_int_equal(settled(ranks[k].comm), ncclSuccess);
    assert_int_equal(sum(0, N), ncclInProgress);
    close_comms();
}

/* Another thread may be about to queue the sum. */
static void nothing_is_queued_while_a_call_is_under_way(void **state)
{
    const struct rank *r = &ranks[0];
    pg__rt_graph *g = NULL;
    (void)state;
    open_comms(1);
    assert_ok(pg__rt_record_begin(r->rt, NULL));
    assert_ok(pg__rt_clear(r->rt, r->p, N * sizeof(float), NULL));
    assert_ok(pg__rt_record_end(r->rt, &g, NULL));
    assert_int_equal(sum(0, N), ncclInProgress);
    assert_int_equal(pg__rt_clear(r->rt, r->p, N * sizeof(float), NULL), PG_E_DEVICE);
    assert_int_equal(pg__rt_replay(r->rt, g, NULL), PG_E_DEVICE);
    assert_ok(pg__rt_clear(ranks[1].rt, ranks[1].p, N * sizeof(float), NULL));
    assert_int_equal(settled(r->comm), ncclSuccess);
    assert_ok(pg__rt_clear(r->rt, r->p, N * sizeof(float), NULL));
    assert_ok(pg__rt_replay(r->rt, g, NULL));
    assert_int_equal(sum(1, N), ncclInProgress);
    assert_int_equal(settled(ranks[1].comm), ncclSuccess);
    assert_int_equal(cudaStreamQuery(stream_of(0)), cudaSuccess);
    assert_int_equal(sum(0, N), ncclInProgress);
    close_comms(); /* which lets it go */
    assert_ok(pg__rt_clear(r->rt, r->p, N * sizeof(float), NULL));
    pg__rt_graph_free(g);
}

static void arguments_are_as_they_must_be(void **state)
{
    const struct rank *r = &ranks[0];
    const cudaStream_t s = stream_of(0);
    (void)state;
    open_comms(1);
    assert_int_equal(ncclAllReduce(NULL, r->p, N, ncclFloat, ncclSum, r->comm, s),
                     ncclInvalidArgument);
    assert_int_equal(ncclAllReduce(r->p, r->p, N, ncclNumTypes, ncclSum, r->comm, s),
                     ncclInvalidArgument);
    assert_int_equal(ncclAllReduce(r->p, r->p, N, ncclFloat, ncclNumOps, r->comm, s),
                     ncclInvalidArgument);
    assert_int_equal(ncclAllReduce(r->p + 1, r->p, N - 1, ncclFloat, ncclSum, r->comm, s),
                     ncclInvalidUsage); /* in part upon each other */
    assert_int_equal(ncclBroadcast(r->p, r->p, N, ncclFloat, 2, r->comm, s), ncclInvalidArgument);
    assert_int_equal(ncclBroadcast(r->p, r->p, N, ncclFloat, -1, r->comm, s), ncclInvalidArgument);
    close_comms();
}

static void a_stream_is_of_the_communicators_device(void **state)
{
    (void)state;
    open_comms(1);
    assert_int_equal(sum(0, N), ncclInProgress);
    assert_int_equal(sum(1, N), ncclInProgress);
    for (size_t k = 0; k < N_RANKS; k++)
        assert_int_equal(settled(ranks[k].comm), ncclSuccess);
    assert_int_equal(cudaStreamQuery(stream_of(0)), cudaSuccess);
    assert_int_equal(cudaStreamQuery(stream_of(1)), cudaSuccess);
    assert_int_equal(
        ncclAllReduce(ranks[1].p, ranks[1].p, N, ncclFloat, ncclSum, ranks[0].comm, stream_of(1)),
        ncclInvalidUsage);
    close_comms();
}

static void ranks_come_for_the_same(void **state)
{
    (void)state;
    open_comms(1);
    assert_int_equal(sum(0, N), ncclInProgress);
    assert_int_equal(sum(1, N / 2), ncclInProgress);
    assert_int_equal(settled(ranks[1].comm), ncclInvalidUsage);
    close_comms();
}

/* Whether all ranks record is theirs to agree on; this back end's never do. */
static void nothing_is_summed_in_a_recording(void **state)
{
    pg__rt_graph *g = NULL;
    (void)state;
    open_comms(1);
    assert_ok(pg__rt_record_begin(ranks[0].rt, NULL));
    assert_int_equal(sum(0, N), ncclInvalidUsage);
    assert_ok(pg__rt_record_end(ranks[0].rt, &g, NULL));
    pg__rt_graph_free(g);
    close_comms();
}

static void *ask_often(void *of)
{
    int *n_refused = of;
    ncclResult_t r;
    for (int k = 0; k < 1000 && *n_refused == 0; k++)
        *n_refused += ncclCommGetAsyncError(ranks[0].comm, &r) != ncclSuccess;
    return NULL;
}

static void one_thread_at_a_time_uses_a_communicator(void **state)
{
    pthread_t t[2];
    int n_refused[2] = {0, 0};
    (void)state;
    open_comms(1);
    assert_int_equal(setenv("FAKE_NCCL_SLOW", "1", 1), 0);
    for (size_t k = 0; k < 2; k++)
        assert_int_equal(pthread_create(&t[k], NULL, ask_often, &n_refused[k]), 0);
    for (size_t k = 0; k < 2; k++)
        assert_int_equal(pthread_join(t[k], NULL), 0);
    assert_int_equal(unsetenv("FAKE_NCCL_SLOW"), 0);
    close_comms();
    assert_true(n_refused[0] + n_refused[1] > 0);
}

PG_TEST_MAIN_WITH(setup, teardown, cmocka_unit_test(communicators_are_made_as_they_must_be),
                  cmocka_unit_test(a_rank_comes_once),
                  cmocka_unit_test(ranks_of_a_thread_come_in_a_group),
                  cmocka_unit_test(groups_end_as_often_as_they_begin),
                  cmocka_unit_test(what_is_gone_is_refused),
                  cmocka_unit_test(only_its_state_is_asked_for_while_a_call_is_under_way),
                  cmocka_unit_test(nothing_is_queued_while_a_call_is_under_way),
                  cmocka_unit_test(arguments_are_as_they_must_be),
                  cmocka_unit_test(a_stream_is_of_the_communicators_device),
                  cmocka_unit_test(ranks_come_for_the_same),
                  cmocka_unit_test(nothing_is_summed_in_a_recording),
                  cmocka_unit_test(one_thread_at_a_time_uses_a_communicator))
