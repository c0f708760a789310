#include "pg_test.h"

#include <signal.h>

#include "base/thread.h"

enum { N = 1000 };

typedef struct board {
    int done[N];              /* by item */
    int busy[PG_MAX_THREADS]; /* by worker: it does one item at a time */
    size_t fails_from;
} board;

static pg_status mark(void *ctx, size_t worker, size_t item, pg_err *err)
{
    board *b = ctx;
    assert_true(worker < PG_MAX_THREADS && !b->busy[worker]);
    b->busy[worker] = 1;
    b->done[item]++;
    b->busy[worker] = 0;
    return item >= b->fails_from ? pg_fail(err, PG_E_IO, "item %zu", item) : PG_OK;
}

static void does_every_item_once(void **state)
{
    (void)state;
    static const size_t threads[] = {0, 1, 2, 7, 1000};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        board b = {.fails_from = N};
        assert_ok(pg__parallel(threads[t], N, mark, &b, NULL));
        for (size_t i = 0; i < N; i++)
            assert_int_equal(b.done[i], 1);
    }
}

static void does_nothing_for_no_items(void **state)
{
    (void)state;
    board b = {0};
    assert_ok(pg__parallel(4, 0, mark, &b, NULL));
    assert_int_equal(b.done[0], 0);
}

static void returns_the_failure_of_the_lowest_item(void **state)
{
    (void)state;
    for (size_t threads = 1; threads < 5; threads++) {
        pg_err err = {0};
        board b = {.fails_from = 300};
        assert_fails(PG_E_IO, pg__parallel(threads, N, mark, &b, &err), &err);
        assert_string_equal(err.msg, "item 300");
        for (size_t i = 0; i < 300; i++)
            assert_int_equal(b.done[i], 1);
        assert_int_equal(b.done[N - 1], 0);
    }
}

static void *blocked(void *arg)
{
    sigset_t *mine = arg;
    pthread_sigmask(SIG_SETMASK, NULL, mine);
    return NULL;
}

static void signals_belong_to_the_thread_that_begins_others(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    sigset_t before, own, of_thread;
    pthread_t thread;
    (void)state;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(pg__thread_begin(&thread, blocked, &of_thread), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &own);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        assert_true(sigismember(&of_thread, signals[i]));
        assert_int_equal(sigismember(&own, signals[i]), sigismember(&before, signals[i]));
    }
}

PG_TEST_MAIN(cmocka_unit_test(does_every_item_once), cmocka_unit_test(does_nothing_for_no_items),
             cmocka_unit_test(returns_the_failure_of_the_lowest_item),
             cmocka_unit_test(signals_belong_to_the_thread_that_begins_others))
