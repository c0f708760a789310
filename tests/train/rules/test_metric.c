/* Metrics compare with the targets that they are made for, and say so where those are others. */
#include "pg_test.h"

#include "pg/train.h"
#include "train/rules/metric.h"

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
                 {"accuracy", 1, 1},
                 {"AUC", 0, 1},
                 {"mean_io_u:num_classes=10:sparse_y_pred=0", 1, 0},
                 {"sparse_categorical_crossentropy", 1, 0}};
    const pg__rules *rules;
    (void)state;
    assert_ok(pg__rules_of(&rules, NULL, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int classes = 0; classes < 2; classes++) {
            const pg__dims rows = {2, {1, 10}};
            pg__metric m = {0};
            assert_ok(pg__metric_of(&m, cases[i].name, strlen(cases[i].name), rules, NULL));
            assert_int_equal(pg__metric_bind(&m, &rows, classes, rules, NULL) == PG_OK,
                             classes ? cases[i].of_classes : cases[i].of_numbers);
            pg__metric_fini(&m);
        }
    }
}

static pg_status read(const char *text, pg_err *err)
{
    const pg__rules *rules;
    const pg__dims rows = {2, {PG_DIM_ANY, 3}};
    pg__metric m = {0};
    assert_ok(pg__rules_of(&rules, NULL, NULL));
    pg_status st = pg__metric_of(&m, text, strlen(text), rules, err);
    if (st == PG_OK)
        st = pg__metric_bind(&m, &rows, 0, rules, err);
    pg__metric_fini(&m);
    return st;
}

static void parameters_that_lie_are_refused_by_name(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"auc:curve=XY", "metric auc: curve is \"XY\", not one of: ROC PR"},
        {"auc:curve=3", "auc: curve is not text"},
        {"auc:num_thresholds=1", "metric AUC: num_thresholds must be at least 2"},
        {"auc:num_thresholds=1e14", "metric AUC: at most 100,000 thresholds are supported"},
        {"auc:thresholds=0.5/x", "metric auc: thresholds is not a list of numbers such as 0.1/0.5"},
        {"auc:label_weights=1/2",
         "metric AUC: label_weights differ in number from the prediction's labels"},
        {"precision:top_k=4", "metric Precision: top_k is more than the prediction's classes"},
        {"precision:class_id=3",
         "metric Precision: class_id is not one of the prediction's classes"},
        {"precision:thresholds=7", "metric Precision: thresholds must lie between 0 and 1"},
        {"precision_at_recall", "metric precision_at_recall needs recall"},
        {"precision_at_recall:recall=2",
         "metric PrecisionAtRecall: its bound must lie between 0 and 1"},
        {"mean_io_u:num_classes=100000", "metric MeanIoU: num_classes must lie between 1 and 1024"},
        {"io_u:num_classes=3:target_class_ids=0/3",
         "metric IoU: target_class_ids are not all among its classes"},
        {"one_hot_io_u:num_classes=3:target_class_ids=1:axis=1",
         "metric one_hot_io_u: axis 1.0, only the last one (-1) is supported"},
        {"Mean", "metric Mean: it does not compare targets with predictions"},
        {"huber:deltas=1", "huber has no parameter \"deltas\"; did you mean delta?"},
        {"f1_score:beta=1", "f1_score has no parameter \"beta\""},
    };
    pg_err err;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_not_equal(read(cases[i].text, &err), PG_OK);
        assert_string_equal(err.msg, cases[i].why);
    }
}

PG_TEST_MAIN(cmocka_unit_test(metrics_of_other_targets_are_refused),
             cmocka_unit_test(unknown_metrics_and_outputs_are_refused_at_once),
             cmocka_unit_test(classes_and_numbers_are_told_apart),
             cmocka_unit_test(parameters_that_lie_are_refused_by_name))
