#include "pg_test.h"

#include "base/thread.h"
#include "base/watch.h"

typedef struct told {
    uint64_t n_calls, last, total;
    int inside;
} told;

static void tell(void *ctx, uint64_t n_done, uint64_t n_total)
{
    told *t = ctx;
    assert_false(t->inside); /* never two at once */
    t->inside = 1;
    assert_true(n_done >= t->last && n_done <= n_total);
    t->n_calls++;
    t->last = n_done;
    t->total = n_total;
    t->inside = 0;
}

static void nothing_to_watch_is_allowed(void **state)
{
    (void)state;
    assert_false(pg__cancelled(NULL));
    pg__progress_start(NULL, 5);
    pg__progress_add(NULL, 5);
}

static void a_flag_cancels(void **state)
{
    (void)state;
    volatile int flag = 0;
    assert_false(pg__cancelled(&flag));
    flag = 1;
    assert_true(pg__cancelled(&flag));
}

static void tells_no_more_than_the_total(void **state)
{
    (void)state;
    told t = {0};
    pg_progress p = {.tell = tell, .ctx = &t};
    pg__progress_start(&p, 10);
    pg__progress_add(&p, 4);
    assert_int_equal(t.last, 4);
    pg__progress_add(&p, 40);
    assert_int_equal(t.last, 10);
    assert_int_equal(t.total, 10);
    assert_int_equal(t.n_calls, 2);
}

static pg_status add_one(void *ctx, size_t worker, size_t item, pg_err *err)
{
    (void)worker, (void)item, (void)err;
    pg__progress_add(ctx, 1);
    return PG_OK;
}

static void loses_nothing_between_threads(void **state)
{
    (void)state;
    told t = {0};
    pg_progress p = {.tell = tell, .ctx = &t};
    pg__progress_start(&p, 10001);
    assert_ok(pg__parallel(4, 10000, add_one, &p, NULL));
    pg__progress_add(&p, 1);
    assert_int_equal(t.last, 10001);
}

PG_TEST_MAIN(cmocka_unit_test(nothing_to_watch_is_allowed), cmocka_unit_test(a_flag_cancels),
             cmocka_unit_test(tells_no_more_than_the_total),
             cmocka_unit_test(loses_nothing_between_threads))
