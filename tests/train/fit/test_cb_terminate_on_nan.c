/* TerminateOnNaN: a run whose loss is not a number any more ends at once, and says where. */
#include "pg_test.h"

#include "pg/train.h"

static pg_status count_batch(void *user, size_t batch, const pg_logs *own, const pg_logs *running,
                             pg_err *err)
{
    (void)batch, (void)own, (void)running, (void)err;
    ++*(size_t *)user;
    return PG_OK;
}

static pg_status train(const char *rate, const char *callback, size_t *n_batches, pg_err *err)
{
    char model[512], data[512];
    pg_trainer *t = NULL;
    pg_data *d = NULL;
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    snprintf(data, sizeof data, "%s/golden/mlp_digits/data.npz", pg_testdata);
    const pg_train_opts opts = {
        .model = model, .optimizer = rate, .loss = "categorical_crossentropy", .threads = 1};
    const pg_fit_opts fit = {.epochs = 2, .callbacks = &callback, .n_callbacks = callback != NULL};
    const pg_callback cb = {.user = n_batches, .batch_end = count_batch};
    *n_batches = 0;
    assert_ok(pg_trainer_open(&t, &opts, err));
    assert_ok(pg_data_open(&d, data, err));
    const pg_status st = pg_fit(t, d, &fit, &cb, err);
    pg_data_close(d);
    pg_trainer_close(t);
    return st;
}

static void training_ends_at_the_first_one(void **state)
{
    size_t all, some;
    pg_err err;
    (void)state;
    assert_ok(train("sgd:lr=1e38,momentum=0.9", NULL, &all, &err));
    assert_fails(PG_E_NO, train("sgd:lr=1e38,momentum=0.9", "TerminateOnNaN", &some, &err), &err);
    assert_true(some < all);
    assert_non_null(strstr(err.msg, "loss is NaN since epoch 1, batch "));
}

static void other_runs_are_let_alone(void **state)
{
    size_t all, some;
    pg_err err;
    (void)state;
    assert_ok(train("sgd", NULL, &all, &err));
    assert_ok(train("sgd", "TerminateOnNaN", &some, &err));
    assert_int_equal(some, all);
}

PG_TEST_MAIN(cmocka_unit_test(training_ends_at_the_first_one),
             cmocka_unit_test(other_runs_are_let_alone))
