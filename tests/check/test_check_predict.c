#include "wrap/files.h"

#include "pg/check.h"

#define CNN4 K224 "cnn4-g2/"

/* The check "predicted" of a file with these rows; the report is the caller's. */
static const pg_check *predicted(pg_check_report *r, const char *file, const char *model,
                                 double tolerance)
{
    char path[600], input[600], expect[600];
    pg_err err = {0};
    strcpy(path, data(file));
    strcpy(input, data(CNN4 "x0.npy"));
    strcpy(expect, data(CNN4 "y0.npy"));
    const pg_check_opts o = {.model = model ? data(model) : NULL,
                             .only_no_wrapper = 1,
                             .input = input,
                             .expect = expect,
                             .tolerance = tolerance};
    if (pg_check_file(r, path, &o, &err) != PG_OK)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < r->n_checks; i++)
        if (strcmp(r->checks[i].name, "predicted") == 0)
            return &r->checks[i];
    fail_msg("not checked");
    return NULL;
}

static void agrees_with_what_keras_predicted(void **state)
{
    (void)state;
    pg_check_report full = {0}, weights = {0};
    assert_true(predicted(&full, CNN4 "template_model.h5", NULL, 1e-6)->ok);
    assert_true(full.ok);
    assert_true(predicted(&weights, CNN4 "template_weights.h5", CNN4 "template.json", 0)->ok);
    pg_check_report_fini(&full);
    pg_check_report_fini(&weights);
}

static void sees_another_models_weights(void **state)
{
    (void)state;
    pg_check_report r = {0};
    const pg_check *c = predicted(&r, "files/keras-2.3.1/cnn4-g2/template_model.h5", NULL, 0);
    assert_false(c->ok);
    assert_int_equal(c->n_details, 1);
    assert_false(r.ok);
    pg_check_report_fini(&r);
}

static void predicts_nothing_through_a_wrapper(void **state)
{
    (void)state;
    pg_check_report r = {0};
    assert_false(predicted(&r, CNN4 "wrapper_model.h5", NULL, 0)->ok);
    pg_check_report_fini(&r);
}

static void fails_where_the_file_does_not_fit(void **state)
{
    (void)state;
    pg_check_report r = {0};
    const pg_check *c = predicted(&r, K224 "rnn-g2/template_weights.h5", CNN4 "template.json", 0);
    assert_false(c->ok);
    assert_non_null(strstr(c->summary, "does not fit"));
    pg_check_report_fini(&r);
}

PG_TEST_MAIN(cmocka_unit_test(agrees_with_what_keras_predicted),
             cmocka_unit_test(sees_another_models_weights),
             cmocka_unit_test(predicts_nothing_through_a_wrapper),
             cmocka_unit_test(fails_where_the_file_does_not_fit))
