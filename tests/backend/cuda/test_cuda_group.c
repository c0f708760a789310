/* Sums over devices beside their work, on the GPU of plain C (host.h), which does what is queued
 * when somebody waits for it, and no more: what comes before a sum, not what comes after it. */
#include "pg_test.h"

#include <pthread.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/pgk.h"
#include "backend/cuda/plugin.h"

#define N_RANKS 2
#define N       1000

typedef struct rank {
    pthread_t thread;
    pg__group *group;
    pg__dev *dev;
    size_t number;
    void *sum, *one, *later; /* memory of the device: what is summed; ones; what comes later */
    float found[N], behind;
    int joins; /* what is queued after the sum adds to it */
    pg_status st;
} rank;

static const pg__backend *cuda(void)
{
    return pg_backend_get(PG_BACKEND_ABI);
}

/* The last number of memory as it is now, whatever is queued. */
static float peek(const void *p)
{
    return ((const float *)pgk_host_memory(p))[N - 1];
}

static void *work(void *arg)
{
    rank *r = arg;
    pg_err err;
    assert_ok(cuda()->flat.accumulate(r->dev, r->sum, r->one, N)); /* the backward pass so far */
    assert_ok(cuda()->group.sum(r->group, r->number, r->dev, r->sum, N));
    assert_ok(cuda()->flat.accumulate(r->dev, r->later, r->one, N)); /* and the rest of it */
    if (r->joins) {
        assert_ok(cuda()->group.join(r->group, r->number, r->dev));
        assert_ok(cuda()->flat.accumulate(r->dev, r->sum, r->one, N));
        assert_ok(cuda()->get(r->dev, r->found, r->sum, sizeof r->found));
    }
    r->st = cuda()->group.wait(r->group, r->number, &(pg__timeout){.seconds = 30}, &err);
    r->behind = peek(r->later);
    if (!r->joins)
        r->found[N - 1] = peek(r->sum);
    return NULL;
}

static void open_ranks(rank r[N_RANKS], int joins)
{
    pg__dev *devs[N_RANKS];
    pg__group *group = NULL;
    float ones[N];
    for (size_t i = 0; i < N; i++)
        ones[i] = 1;
    for (size_t k = 0; k < N_RANKS; k++) {
        const float start[1] = {(float)(10 * k)};
        r[k] = (rank){.number = k, .joins = joins};
        assert_ok(cuda()->open(&r[k].dev, k, &(pg__dev_opts){.n_threads = 1}, NULL));
        assert_ok(cuda()->alloc(r[k].dev, &r[k].sum, sizeof ones, NULL));
        assert_ok(cuda()->alloc(r[k].dev, &r[k].one, sizeof ones, NULL));
        assert_ok(cuda()->alloc(r[k].dev, &r[k].later, sizeof ones, NULL));
        assert_ok(cuda()->put(r[k].dev, r[k].one, ones, sizeof ones));
        for (size_t i = 0; i < N; i++)
            assert_ok(cuda()->put(r[k].dev, (float *)r[k].sum + i, start, sizeof start));
        assert_ok(cuda()->sync(r[k].dev));
        devs[k] = r[k].dev;
    }
    assert_ok(cuda()->group.new(&group, devs, N_RANKS, NULL, NULL));
    for (size_t k = 0; k < N_RANKS; k++)
        r[k].group = group;
}

static void run_ranks(rank r[N_RANKS])
{
    for (size_t k = 0; k < N_RANKS; k++)
        assert_int_equal(pthread_create(&r[k].thread, NULL, work, &r[k]), 0);
    for (size_t k = 0; k < N_RANKS; k++)
        assert_int_equal(pthread_join(r[k].thread, NULL), 0);
}

static void close_ranks(rank r[N_RANKS])
{
    cuda()->group.free(r[0].group);
    for (size_t k = 0; k < N_RANKS; k++) {
        cuda()->free(r[k].dev, r[k].sum);
        cuda()->free(r[k].dev, r[k].one);
        cuda()->free(r[k].dev, r[k].later);
        cuda()->close(r[k].dev);
    }
}

static void a_sum_waits_for_what_was_before_it_and_for_no_more(void **state)
{
    rank *r = calloc(N_RANKS, sizeof *r);
    (void)state;
    open_ranks(r, 0);
    run_ranks(r);
    for (size_t k = 0; k < N_RANKS; k++) {
        assert_int_equal(r[k].st, PG_OK);
        assert_true(r[k].found[N - 1] == 12); /* (0 + 1) + (10 + 1) */
        assert_true(r[k].behind == 0);
    }
    close_ranks(r);
    free(r);
}

static void what_joins_a_sum_waits_for_it(void **state)
{
    rank *r = calloc(N_RANKS, sizeof *r);
    (void)state;
    open_ranks(r, 1);
    run_ranks(r);
    for (size_t k = 0; k < N_RANKS; k++) {
        assert_int_equal(r[k].st, PG_OK);
        for (size_t i = 0; i < N; i++)
            assert_true(r[k].found[i] == 13);
        assert_true(r[k].behind == 1);
    }
    close_ranks(r);
    free(r);
}

/* A rank that failed does not come; nobody waits for it. */
static void a_group_that_is_dropped_can_be_closed(void **state)
{
    rank *r = calloc(N_RANKS, sizeof *r);
    pg_err err;
    (void)state;
    open_ranks(r, 0);
    assert_ok(cuda()->group.sum(r[0].group, 0, r[0].dev, r[0].sum, N));
    assert_ok(cuda()->group.join(r[0].group, 0, r[0].dev));
    cuda()->group.drop(r[0].group);
    assert_ok(cuda()->sync(r[0].dev)); /* returns */
    assert_int_equal(cuda()->group.wait(r[0].group, 0, &(pg__timeout){.seconds = 1}, &err),
                     PG_E_DEVICE);
    assert_int_equal(cuda()->group.sum(r[1].group, 1, r[1].dev, r[1].sum, N), PG_E_DEVICE);
    assert_string_equal(cuda()->failure(r[1].dev)->msg, "cuda:1: NCCL was shut down after an earlier failure");
    close_ranks(r);
    free(r);
}

PG_TEST_MAIN(cmocka_unit_test(a_sum_waits_for_what_was_before_it_and_for_no_more),
             cmocka_unit_test(what_joins_a_sum_waits_for_it),
             cmocka_unit_test(a_group_that_is_dropped_can_be_closed))
