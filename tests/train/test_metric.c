/* Metrics compare with the targets that they are made for, and say so where those are others. */
#include "pg_test.h"

#include "pg/train.h"
#include "train/metric.h"

/* The golden run's targets are one-hot rows. */
static pg_status fit_with(const char *metrics, pg_err *err)
{
    char model[512], data[512];
    pg_trainer *t = NULL;
    pg_data *d = NULL;
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    snprintf(data, sizeof data, "%s/golden/mlp_digits/data.npz", pg_testdata);
    const pg_train_opts opts = {
        .model = model, .loss = "categorical_crossentropy", .metrics = metrics, .threads = 1};
    const pg_status opened = pg_trainer_open(&t, &opts, err);
    if (opened != PG_OK)
        return opened;
    assert_ok(pg_data_open(&d, data, err));
    const pg_status first = pg_fit(t, d, &(pg_fit_opts){.epochs = 1}, NULL, err);
    const pg_status again = pg_fit(t, d, &(pg_fit_opts){.epochs = 1}, NULL, err);
    assert_int_equal(first, again);
    pg_data_close(d);
    pg_trainer_close(t);
    return again;
}

static void metrics_of_other_targets_are_refused(void **state)
{
    pg_err err;
    (void)state;
    assert_int_equal(fit_with("sparse_categorical_accuracy", &err), PG_E_MISMATCH);
    assert_string_equal(err.msg,
                        "metric sparse_categorical_accuracy does not fit targets that are numbers");
    assert_int_equal(fit_with("sparse_categorical_crossentropy", &err), PG_E_MISMATCH);
    assert_int_equal(fit_with("accuracy,categorical_accuracy,mae", &err), PG_OK);
}

static void unknown_metrics_and_outputs_are_refused_at_once(void **state)
{
    pg_err err;
    (void)state;
    assert_int_equal(fit_with("acuracy", &err), PG_E_ARG);
    assert_int_equal(fit_with("prob=accuracy", &err), PG_E_ARG);
    assert_string_equal(err.msg, "metrics: the model has no output \"prob\"");
    assert_int_equal(fit_with("probs=accuracy", &err), PG_OK);
}

static void classes_and_numbers_are_told_apart(void **state)
{
    static const struct {
        const char *name;
        int of_classes, of_numbers;
    } cases[] = {{"binary_accuracy", 0, 1},
                 {"categorical_accuracy", 0, 1},
                 {"sparse_categorical_accuracy", 1, 0},
                 {"mse", 0, 1},
                 {"sparse_categorical_crossentropy", 1, 0}};
    const pg__rules *rules;
    (void)state;
    assert_ok(pg__rules_of(&rules, NULL, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pg__metric m = {0};
        assert_ok(pg__metric_of(&m, cases[i].name, strlen(cases[i].name), 0, 10, rules, NULL));
        assert_int_equal(pg__metric_fits(&m, 1), cases[i].of_classes);
        assert_int_equal(pg__metric_fits(&m, 0), cases[i].of_numbers);
    }
}

PG_TEST_MAIN(cmocka_unit_test(metrics_of_other_targets_are_refused),
             cmocka_unit_test(unknown_metrics_and_outputs_are_refused_at_once),
             cmocka_unit_test(classes_and_numbers_are_told_apart))
