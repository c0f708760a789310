/* Callbacks are found by name before anything is trained, and epochs tell the learning rate. */
#include "pg_test.h"

#include <math.h>

#include "pg/train.h"

typedef struct heard {
    size_t n_epochs;
    char names[256];
    double rate;
} heard;

static pg_status hear_epoch(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    heard *h = user;
    size_t n = 0;
    (void)err;
    assert_int_equal(epoch, h->n_epochs++);
    for (size_t i = 0; i < logs->n; i++)
        n += (size_t)snprintf(h->names + n, sizeof h->names - n, "%s ", logs->names[i]);
    h->rate = logs->values[logs->n - 1];
    return PG_OK;
}

static pg_status fit_with(const char *rules, const char *loss, const char *callback, heard *h,
                          pg_err *err)
{
    char model[512], data[512];
    pg_trainer *t = NULL;
    pg_data *d = NULL;
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    snprintf(data, sizeof data, "%s/golden/mlp_digits/data.npz", pg_testdata);
    const pg_train_opts opts = {
        .model = model, .loss = loss, .metrics = "accuracy", .rules = rules, .threads = 1};
    const pg_fit_opts fit = {.epochs = 2,
                             .validation_split = 0.2,
                             .validation_freq = 2,
                             .callbacks = &callback,
                             .n_callbacks = callback != NULL};
    const pg_callback cb = {.user = h, .epoch_end = hear_epoch};
    assert_ok(pg_trainer_open(&t, &opts, err));
    assert_ok(pg_data_open(&d, data, err));
    const pg_status st = pg_fit(t, d, &fit, h ? &cb : NULL, err);
    pg_data_close(d);
    pg_trainer_close(t);
    return st;
}

static void an_epoch_ends_with_the_learning_rate(void **state)
{
    heard h = {0}, three = {0};
    pg_err err;
    (void)state;
    assert_ok(fit_with(NULL, "mse", NULL, &h, &err));
    assert_int_equal(h.n_epochs, 2); /* the first one has no validation */
    assert_string_equal(h.names, "loss accuracy val_loss val_accuracy lr ");
    assert_true(h.rate == (double)0.001f);
    assert_ok(fit_with("3.6", "mse", NULL, &three, &err));
    assert_non_null(strstr(three.names, " learning_rate "));
}

static void names_are_Keras_own(void **state)
{
    pg_err err;
    (void)state;
    assert_fails(PG_E_ARG, fit_with(NULL, "mse", "TerminateOnNan2", NULL, &err), &err);
    assert_string_equal(err.msg,
                        "unknown callback \"TerminateOnNan2\"; did you mean TerminateOnNaN?");
    assert_non_null(strstr(err.detail, "TerminateOnNaN"));
    assert_ok(fit_with(NULL, "mse", "terminate_on_nan", NULL, &err));
    assert_fails(PG_E_ARG, fit_with(NULL, "mse", "TerminateOnNaN:patience=3", NULL, &err), &err);
    assert_string_equal(err.msg, "TerminateOnNaN has no parameter \"patience\"");
}

static void all_classes_are_listed_in_order(void **state)
{
    size_t n = 0;
    (void)state;
    while (pg_callback_class(n)) {
        if (n > 0)
            assert_true(strcmp(pg_callback_class(n - 1), pg_callback_class(n)) < 0);
        n++;
    }
    assert_true(n > 0);
}

typedef struct told {
    size_t n_epochs;
    int stop, ended;
} told;

static pg_status stop_in_second_epoch(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    told *t = user;
    (void)logs, (void)err;
    t->n_epochs++;
    t->stop = epoch == 1;
    return PG_OK;
}

static void hear_the_end(void *user, const pg_fit_report *report)
{
    ((told *)user)->ended = report->n_epochs == 2;
}

/* The run is as whole as one that ends by itself: callbacks hear its end, nothing failed. */
static void a_flag_makes_an_epoch_the_last(void **state)
{
    char model[512], data[512];
    told got = {.n_epochs = 0};
    pg_trainer *t = NULL;
    pg_data *d = NULL;
    (void)state;
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    snprintf(data, sizeof data, "%s/golden/mlp_digits/data.npz", pg_testdata);
    const pg_train_opts opts = {.model = model, .loss = "mse", .threads = 1};
    const pg_fit_opts fit = {.epochs = 5, .stop = &got.stop};
    const pg_callback cb = {
        .user = &got, .epoch_end = stop_in_second_epoch, .train_end = hear_the_end};
    assert_ok(pg_trainer_open(&t, &opts, NULL));
    assert_ok(pg_data_open(&d, data, NULL));
    assert_ok(pg_fit(t, d, &fit, &cb, NULL));
    assert_int_equal(got.n_epochs, 2);
    assert_true(got.ended);
    pg_data_close(d);
    pg_trainer_close(t);
}

PG_TEST_MAIN(cmocka_unit_test(an_epoch_ends_with_the_learning_rate),
             cmocka_unit_test(names_are_Keras_own),
             cmocka_unit_test(all_classes_are_listed_in_order),
             cmocka_unit_test(a_flag_makes_an_epoch_the_last))
