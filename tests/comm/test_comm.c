/* comm.c - a job of one process, which needs no MPI: rank 0 of 1, and whatever is exchanged stays.
 * Jobs of several: tests/ranks/run.py. */
#include "pg_test.h"

#include "comm/comm.h"

static void one_process_is_rank_0_of_1(void **state)
{
    (void)state;
    assert_int_equal(pg__comm_rank(NULL), 0);
    assert_int_equal(pg__comm_size(NULL), 1);
    assert_true(pg__comm_waited(NULL) == 0);
    pg__comm_close(NULL);
}

static void exchanges_leave_its_numbers(void **state)
{
    const double mine = 2.5;
    double all = 0, same = 1.5;
    (void)state;
    assert_ok(pg__comm_gather(NULL, &mine, &all, sizeof mine, "numbers", NULL));
    assert_true(all == 2.5);
    assert_ok(pg__comm_broadcast(NULL, &same, sizeof same, "numbers", NULL));
    assert_ok(pg__comm_await(NULL, &same, sizeof same, "numbers", NULL));
    assert_true(same == 1.5);
}

static void its_failure_is_its_own(void **state)
{
    pg_err err = {0};
    (void)state;
    assert_ok(pg__comm_agree(NULL, PG_OK, &err));
    (void)pg_fail(&err, PG_E_IO, "disk full");
    assert_fails(PG_E_IO, pg__comm_agree(NULL, PG_E_IO, &err), &err);
    assert_string_equal(err.msg, "disk full");
}

PG_TEST_MAIN(cmocka_unit_test(one_process_is_rank_0_of_1),
             cmocka_unit_test(exchanges_leave_its_numbers),
             cmocka_unit_test(its_failure_is_its_own))
