/* Sums over devices, by a thread for each: on the GPU of plain C (host.h), or the way that NCCL is
 * asked for them (nccl_host.c). */
#include "pg_test.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cuda/coll.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/plugin.h"

#define N_RANKS 3
#define N       1000

typedef struct rank {
    pthread_t thread;
    pg__coll *coll;
    pg__dev *dev;
    size_t number, root; /* root: N_RANKS for a sum */
    float *p;
    float v[N];
    double timeout;
    int absent;
    pg_status st;
    pg_err err;
} rank;

static const pg__backend *backend(void)
{
    return pg_backend_get(PG_BACKEND_ABI);
}

static void *take_part(void *arg)
{
    rank *r = arg;
    if (r->absent)
        return NULL;
    r->st = r->root < N_RANKS ? pg__coll_broadcast(r->coll, r->number, r->p, N, r->root, &r->err)
                              : pg__coll_sum(r->coll, r->number, r->p, N, &r->err);
    if (r->st == PG_OK)
        r->st = pg__coll_check(r->coll, r->number, &(pg__timeout){.seconds = r->timeout}, &r->err);
    return NULL;
}

/* n of them, in this process. */
static pg_status try_some(rank *r, size_t n, const pg__group_place *among, pg_err *err)
{
    pg__rt *streams[N_RANKS];
    pg__coll *coll = NULL;
    const size_t first = among ? among->first : 0;
    void *p;
    assert_int_equal(setenv("FAKE_CUDA_DEVICES", "3", 1), 0);
    for (size_t k = 0; k < n; k++) {
        r[k] = (rank){.number = k, .root = N_RANKS, .timeout = 30};
        assert_ok(backend()->open(&r[k].dev, first + k, &(pg__dev_opts){.n_threads = 1}, NULL));
        assert_ok(backend()->alloc(r[k].dev, &p, sizeof r[k].v, NULL));
        r[k].p = p;
        streams[k] = r[k].dev->rt;
        for (size_t i = 0; i < N; i++)
            r[k].v[i] = (float)(i * (first + k + 1));
        assert_ok(backend()->put(r[k].dev, p, r[k].v, sizeof r[k].v));
    }
    const pg_status st = pg__coll_new(&coll, streams, n, among, err);
    for (size_t k = 0; k < n; k++)
        r[k].coll = coll;
    return st;
}

static pg_status try_ranks(rank r[N_RANKS], pg_err *err)
{
    return try_some(r, N_RANKS, NULL, err);
}

static void open_ranks(rank r[N_RANKS])
{
    assert_ok(try_ranks(r, NULL));
}

static void run_ranks(rank r[N_RANKS])
{
    for (size_t k = 0; k < N_RANKS; k++)
        assert_int_equal(pthread_create(&r[k].thread, NULL, take_part, &r[k]), 0);
    for (size_t k = 0; k < N_RANKS; k++)
        assert_int_equal(pthread_join(r[k].thread, NULL), 0);
}

static void close_some(rank *r, size_t n)
{
    if (r[0].coll) /* freeing memory waits for what is queued */
        pg__coll_drop(r[0].coll);
    for (size_t k = 0; k < n; k++) {
        backend()->free(r[k].dev, r[k].p);
        backend()->close(r[k].dev);
    }
    pg__coll_free(r[0].coll);
    unsetenv("FAKE_CUDA_DEVICES");
}

static void close_ranks(rank r[N_RANKS])
{
    close_some(r, N_RANKS);
}

static void check(rank r[N_RANKS], float factor)
{
    for (size_t k = 0; k < N_RANKS; k++) {
        if (r[k].st != PG_OK)
            fail_msg("rank %zu: %s", k, r[k].err.msg);
        assert_ok(backend()->get(r[k].dev, r[k].v, r[k].p, sizeof r[k].v));
        for (size_t i = 0; i < N; i++)
            assert_true(r[k].v[i] == factor * (float)i);
    }
}

static void every_rank_has_the_sum(void **state)
{
    rank *r = calloc(N_RANKS, sizeof *r);
    (void)state;
    open_ranks(r);
    run_ranks(r);
    check(r, 6);
    run_ranks(r); /* of what is there now */
    check(r, 18);
    close_ranks(r);
    free(r);
}

static void every_rank_has_what_the_root_has(void **state)
{
    rank *r = calloc(N_RANKS, sizeof *r);
    (void)state;
    open_ranks(r);
    for (size_t k = 0; k < N_RANKS; k++)
        r[k].root = 1;
    run_ranks(r);
    check(r, 2);
    close_ranks(r);
    free(r);
}

static void a_rank_that_does_not_come_is_not_waited_for_for_ever(void **state)
{
    rank *r = calloc(N_RANKS, sizeof *r);
    (void)state;
    setenv("FAKE_CUDA_PATIENCE", "1", 1);
    open_ranks(r);
    for (size_t k = 0; k < N_RANKS; k++)
        r[k].timeout = 1;
    r[2].absent = 1;
    run_ranks(r);
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(r[k].st, PG_E_DEVICE);
        if (!strstr(r[k].err.msg, "waited 1 seconds for another GPU"))
            fail_msg("%s", r[k].err.msg);
    }
    close_ranks(r);
    unsetenv("FAKE_CUDA_PATIENCE");
    free(r);
}

/* Nobody has to wait for the timeout of the others. */
static void what_is_given_up_is_not_waited_for(void **state)
{
    rank *r = calloc(N_RANKS, sizeof *r);
    (void)state;
    open_ranks(r);
    assert_ok(pg__coll_sum(r->coll, 0, r[0].p, N, NULL));
    pg__coll_drop(r->coll);
    run_ranks(r);
    for (size_t k = 0; k < N_RANKS; k++) {
        assert_int_equal(r[k].st, PG_E_DEVICE);
        if (!strstr(r[k].err.msg, "NCCL was shut down after an earlier failure"))
            fail_msg("%s", r[k].err.msg);
    }
    close_ranks(r);
    free(r);
}

/* ---- of several processes ---- */

/* The ranks of a process, from among->first on; is everything as it must be? */
static int is_right(size_t n, const pg__group_place *among, int n_sums)
{
    rank *r = calloc(N_RANKS, sizeof *r);
    float want = 6;
    int right = try_some(r, n, among, NULL) == PG_OK;
    for (int s = 0; right && s < n_sums; s++, want *= N_RANKS) {
        for (size_t k = 0; k < n; k++)
            right = right && pthread_create(&r[k].thread, NULL, take_part, &r[k]) == 0;
        for (size_t k = 0; k < n; k++)
            right = right && pthread_join(r[k].thread, NULL) == 0;
        for (size_t k = 0; right && k < n; k++) {
            right = r[k].st == PG_OK &&
                    backend()->get(r[k].dev, r[k].v, r[k].p, sizeof r[k].v) == PG_OK;
            for (size_t i = 0; right && i < N; i++)
                right = r[k].v[i] == want * (float)i;
        }
    }
    close_some(r, n);
    free(r);
    return right;
}

static void ranks_of_two_processes_sum(void **state)
{
    pg__group_place among = {.n_all = N_RANKS, .timeout = {.seconds = 20}};
    int status = -1;
    (void)state;
    assert_ok(pg__coll_id(among.id, NULL));
    const pid_t other = fork();
    among.first = other == 0 ? 1 : 0;
    const int right = is_right(other == 0 ? 2 : 1, &among, 4);
    if (other == 0)
        _exit(!right);
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
    assert_true(right);
}

static int is_over(void *of)
{
    return ++*(int *)of > 3;
}

/* Until there is no timeout, or nobody to wait for. */
static void another_process_that_does_not_come_is_named_as_such(void **state)
{
    int asked = 0;
    const pg__timeout all[] = {{.seconds = 0.2}, {60, is_over, &asked}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        rank *r = calloc(N_RANKS, sizeof *r);
        pg__group_place among = {.n_all = N_RANKS, .timeout = all[i]};
        pg_err err = {0};
        assert_ok(pg__coll_id(among.id, NULL));
        assert_int_equal(try_some(r, 1, &among, &err), PG_E_PEER);
        assert_non_null(strstr(err.msg, "cuda:0"));
        backend()->free(r[0].dev, r[0].p);
        backend()->close(r[0].dev);
        free(r);
    }
    unsetenv("FAKE_CUDA_DEVICES");
}

/* Of NCCL alone, as what follows. */
static void a_rank_that_nccl_refuses_leaves_no_group_open(void **state)
{
    rank *r = calloc(N_RANKS, sizeof *r);
    pg_err err = {0};
    (void)state;
    setenv("FAKE_NCCL_REFUSES", "1", 1);
    const pg_status st = try_ranks(r, &err);
    unsetenv("FAKE_NCCL_REFUSES");
    close_ranks(r);
    if (st == PG_OK) {
        free(r);
        skip();
    }
    assert_int_equal(st, PG_E_DEVICE);
    assert_string_equal(err.msg, "cuda:1: NCCL: invalid usage");
    open_ranks(r);
    run_ranks(r);
    check(r, 6);
    close_ranks(r);
    free(r);
}

static void what_nccl_says_of_a_rank_is_told(void **state)
{
    rank *r = calloc(N_RANKS, sizeof *r);
    (void)state;
    open_ranks(r);
    for (size_t k = 0; k < N_RANKS; k++)
        r[k].timeout = 1;
    setenv("FAKE_NCCL_FAILS", "1", 1);
    run_ranks(r);
    unsetenv("FAKE_NCCL_FAILS");
    if (r[1].st == PG_OK) {
        close_ranks(r);
        free(r);
        skip();
        return;
    }
    assert_int_equal(r[1].st, PG_E_DEVICE);
    assert_string_equal(r[1].err.msg, "cuda:1: NCCL: unhandled system error");
    r[1].root = N_RANKS;
    run_ranks(r);
    assert_int_equal(r[1].st, PG_E_DEVICE);
    assert_string_equal(r[1].err.msg, "cuda:1: NCCL was shut down after an earlier failure");
    close_ranks(r);
    free(r);
}

PG_TEST_MAIN(cmocka_unit_test(what_is_given_up_is_not_waited_for),
             cmocka_unit_test(what_nccl_says_of_a_rank_is_told),
             cmocka_unit_test(a_rank_that_nccl_refuses_leaves_no_group_open),
             cmocka_unit_test(every_rank_has_the_sum),
             cmocka_unit_test(every_rank_has_what_the_root_has),
             cmocka_unit_test(ranks_of_two_processes_sum),
             cmocka_unit_test(another_process_that_does_not_come_is_named_as_such),
             cmocka_unit_test(a_rank_that_does_not_come_is_not_waited_for_for_ever))
