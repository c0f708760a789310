/* A step that was cut for a number of rows is used again, and looks as it did at first. */
#include "pg_test.h"

#include "train/step/cut.h"

static pg_trainer *opened(int deterministic)
{
    static char model[600];
    pg_trainer *t = NULL;
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    const pg_train_opts opts = {.model = model,
                                .optimizer = "sgd",
                                .loss = "categorical_crossentropy",
                                .threads = 2,
                                .deterministic = deterministic};
    assert_ok(pg_trainer_open(&t, &opts, NULL));
    return t;
}

static pg__step *cut(pg_trainer *t, uint64_t n_rows, pg__pass pass)
{
    const pg__batch b = {.n_rows = n_rows};
    pg__step *s = NULL;
    assert_ok(pg__step_cut(&s, t, &b, pass, NULL));
    assert_int_equal(s->batch->n_rows, n_rows);
    return s;
}

static void keeps_a_step_for_each_number_of_rows(void **state)
{
    (void)state;
    pg_trainer *t = opened(1);
    pg__step *full = cut(t, 32, PG_TRAINS), *rest = cut(t, 20, PG_TRAINS);
    pg__step *test = cut(t, 32, PG_TESTS);
    assert_ptr_not_equal(full, rest);
    assert_ptr_not_equal(full, test);
    assert_ptr_equal(cut(t, 32, PG_TRAINS), full);
    assert_ptr_equal(cut(t, 20, PG_TRAINS), rest);
    assert_ptr_equal(cut(t, 32, PG_TESTS), test);
    pg_trainer_close(t);
}

static void forgets_what_was_asked_for_least_recently(void **state)
{
    (void)state;
    pg_trainer *t = opened(1);
    const pg__step *first = cut(t, 1, PG_TRAINS);
    for (uint64_t n = 2; n <= PG_MAX_STEPS; n++) {
        cut(t, n, PG_TRAINS);
        assert_ptr_equal(cut(t, 1, PG_TRAINS), first);
    }
    cut(t, 40, PG_TRAINS); /* in place of that of 2 rows */
    assert_ptr_equal(cut(t, 1, PG_TRAINS), first);
    for (size_t k = 0; k < PG_MAX_STEPS; k++)
        assert_int_not_equal(t->programs.steps[k]->n_rows, 2);
    pg__steps_drop(&t->programs);
    assert_null(t->programs.steps[0]);
    pg_trainer_close(t);
}

static void has_nothing_left_of_the_step_before(void **state)
{
    (void)state;
    pg_trainer *t = opened(1);
    pg__step *s = cut(t, 16, PG_TRAINS);
    for (size_t k = 0; k < s->n_jobs; k++) {
        s->jobs[k].totals.loss_sums[0] = s->jobs[k].mask_sums[0].steps = 1;
        s->jobs[k].totals.n_rows = 1;
        s->jobs[k].opened = s->jobs[k].members = 1;
    }
    s->sums[0].weights = 1;
    s->part = 1;
    assert_ptr_equal(cut(t, 16, PG_TRAINS), s);
    for (size_t k = 0; k < s->n_jobs; k++) {
        assert_true(s->jobs[k].totals.loss_sums[0] == 0 && s->jobs[k].mask_sums[0].steps == 0);
        assert_int_equal(s->jobs[k].totals.n_rows + s->jobs[k].opened + s->jobs[k].members, 0);
    }
    assert_true(s->sums[0].weights == 0 && s->part == 0);
    pg_trainer_close(t);
}

static void cuts_anew_where_batches_come_in_parts(void **state)
{
    (void)state;
    pg_trainer *t = opened(0);
    const pg__step *whole = cut(t, 32, PG_TRAINS);
    t->loop.part_rows = 8;
    const pg__step *parts = cut(t, 32, PG_TRAINS);
    assert_ptr_not_equal(whole, parts);
    assert_int_equal(parts->n_parts, 4);
    assert_int_equal(parts->n_jobs, 4 * parts->n_lanes);
    pg_trainer_close(t);
}

PG_TEST_MAIN(cmocka_unit_test(keeps_a_step_for_each_number_of_rows),
             cmocka_unit_test(forgets_what_was_asked_for_least_recently),
             cmocka_unit_test(has_nothing_left_of_the_step_before),
             cmocka_unit_test(cuts_anew_where_batches_come_in_parts))
