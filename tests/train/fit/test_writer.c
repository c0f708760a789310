/* Files are written while training goes on: one job at a time, in order, each told of by the thread
 * that gave it. */
#include "pg_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "train/fit/writer.h"

typedef struct task {
    pthread_mutex_t may_go;
    pthread_t worker;
    pg_status result;
    int n_done, n_freed;
    pg_status told;
    pg_err why;
    _Atomic int in_work;
} task;

static pg_status work(void *ctx, pg_err *err)
{
    task *t = ctx;
    t->worker = pthread_self();
    t->in_work = 1;
    pthread_mutex_lock(&t->may_go);
    pthread_mutex_unlock(&t->may_go);
    return t->result == PG_OK ? PG_OK : pg_fail(err, t->result, "no room");
}

static pg_status done(void *ctx, pg_status st, const pg_err *why, pg_err *err)
{
    task *t = ctx;
    t->n_done++;
    t->told = st;
    t->why = *why;
    return st == PG_E_CANCELLED ? pg_fail(err, st, "the run ends") : PG_OK;
}

static void freed(void *ctx)
{
    task *t = ctx;
    t->n_freed++;
}

static task new_task(pg_status result)
{
    task t = {.may_go = PTHREAD_MUTEX_INITIALIZER, .result = result};
    return t;
}

static pg_status give(pg__writer *w, task *t, pg_err *err)
{
    const pg__write_job job = {.ctx = t, .work = work, .done = done, .free = freed};
    return pg__writer_give(w, &job, err);
}

static void await_work(task *t)
{
    while (!t->in_work)
        usleep(100);
}

static void works_in_a_thread_of_its_own(void **state)
{
    pg__writer *w = NULL;
    task t = new_task(PG_OK);
    (void)state;
    assert_ok(pg__writer_new(&w, 0, NULL));
    pthread_mutex_lock(&t.may_go);
    assert_ok(give(w, &t, NULL)); /* does not wait */
    await_work(&t);
    assert_false(pthread_equal(t.worker, pthread_self()));
    assert_ok(pg__writer_poll(w, NULL));
    assert_int_equal(t.n_done, 0);
    pthread_mutex_unlock(&t.may_go);
    assert_ok(pg__writer_wait(w, NULL));
    assert_int_equal(t.n_done, 1);
    assert_int_equal(t.n_freed, 1);
    assert_ok(pg__writer_wait(w, NULL)); /* nothing is told twice */
    assert_int_equal(t.n_done, 1);
    pg__writer_free(w);
    assert_int_equal(t.n_freed, 1);
}

static void jobs_of_one_moment_hold_nobody_up(void **state)
{
    pg__writer *w = NULL;
    task first = new_task(PG_OK), second = new_task(PG_OK);
    (void)state;
    assert_ok(pg__writer_new(&w, 0, NULL));
    pthread_mutex_lock(&first.may_go);
    assert_ok(give(w, &first, NULL));
    assert_ok(give(w, &second, NULL));
    await_work(&first);
    assert_int_equal(second.in_work, 0); /* one at a time, in order */
    pthread_mutex_unlock(&first.may_go);
    assert_ok(pg__writer_wait(w, NULL));
    assert_int_equal(first.n_done, 1);
    assert_int_equal(second.n_done, 1);
    pg__writer_free(w);
}

static void a_later_job_waits_for_all_before(void **state)
{
    pg__writer *w = NULL;
    task first = new_task(PG_OK), second = new_task(PG_OK), third = new_task(PG_OK);
    (void)state;
    assert_ok(pg__writer_new(&w, 0, NULL));
    pthread_mutex_lock(&third.may_go);
    assert_ok(give(w, &first, NULL));
    assert_ok(give(w, &second, NULL));
    assert_ok(pg__writer_poll(w, NULL));
    assert_ok(give(w, &third, NULL));
    assert_int_equal(first.n_done, 1); /* told before the third was taken */
    assert_int_equal(second.n_done, 1);
    assert_int_equal(third.n_done, 0);
    pthread_mutex_unlock(&third.may_go);
    assert_ok(pg__writer_wait(w, NULL));
    assert_int_equal(third.n_done, 1);
    pg__writer_free(w);
}

static void more_jobs_than_there_is_room_for_wait(void **state)
{
    enum { N = 40 };
    pg__writer *w = NULL;
    task all[N];
    (void)state;
    assert_ok(pg__writer_new(&w, 0, NULL));
    for (int i = 0; i < N; i++) {
        all[i] = new_task(PG_OK);
        assert_ok(give(w, &all[i], NULL));
    }
    assert_ok(pg__writer_wait(w, NULL));
    for (int i = 0; i < N; i++)
        assert_int_equal(all[i].n_done, 1);
    pg__writer_free(w);
}

static void a_failure_is_told_with_its_reason(void **state)
{
    pg__writer *w = NULL;
    task t = new_task(PG_E_IO);
    pg_err err = {0};
    (void)state;
    assert_ok(pg__writer_new(&w, 0, NULL));
    assert_ok(give(w, &t, &err));
    assert_ok(pg__writer_wait(w, &err)); /* whether the run ends is done()'s decision */
    assert_int_equal(t.told, PG_E_IO);
    assert_string_equal(t.why.msg, "no room");
    pg__writer_free(w);
}

static void done_may_end_the_run(void **state)
{
    pg__writer *w = NULL;
    task t = new_task(PG_E_CANCELLED), never = new_task(PG_OK);
    pg_err err = {0};
    (void)state;
    assert_ok(pg__writer_new(&w, 0, NULL));
    assert_ok(give(w, &t, &err));
    const pg_status polled = pg__writer_poll(w, &err), given = give(w, &never, &err);
    assert_true(polled == PG_E_CANCELLED || given == PG_E_CANCELLED);
    assert_string_equal(err.msg, "the run ends");
    assert_int_equal(never.n_done, 0);
    pg__writer_free(w);
    assert_int_equal(never.n_freed, 1); /* the job is the writer's all the same */
}

static void freeing_waits_and_tells_nobody(void **state)
{
    pg__writer *w = NULL;
    task t = new_task(PG_OK);
    (void)state;
    assert_ok(pg__writer_new(&w, 0, NULL));
    assert_ok(give(w, &t, NULL));
    pg__writer_free(w);
    assert_int_equal(t.in_work, 1);
    assert_int_equal(t.n_done, 0);
    assert_int_equal(t.n_freed, 1);
    pg__writer_free(NULL);
}

PG_TEST_MAIN(cmocka_unit_test(works_in_a_thread_of_its_own),
             cmocka_unit_test(jobs_of_one_moment_hold_nobody_up),
             cmocka_unit_test(a_later_job_waits_for_all_before),
             cmocka_unit_test(more_jobs_than_there_is_room_for_wait),
             cmocka_unit_test(a_failure_is_told_with_its_reason),
             cmocka_unit_test(done_may_end_the_run),
             cmocka_unit_test(freeing_waits_and_tells_nobody))
