/* pg_train_opts.quantize: predictions in int8, what they change, and what they leave. */
#include "pg_test.h"

#include <math.h>

#include "base/mem.h"
#include "pg/predict.h"

#define SEQUENTIAL(layer)                                                                     \
    "{\"class_name\":\"Sequential\",\"keras_version\":\"2.15.0\",\"config\":{\"name\":\"m\"," \
    "\"layers\":[" layer "]}}"
#define DENSE(more) "{\"class_name\":\"Dense\",\"config\":{\"name\":\"d\",\"units\":120" more "}}"

static const char dense[] = SEQUENTIAL(DENSE(",\"batch_input_shape\":[null,400]"));
static const char mixed[] = SEQUENTIAL(DENSE(
    ",\"batch_input_shape\":[null,400],\"dtype\":{\"class_name\":\"Policy\",\"config\":{\"name\":"
    "\"mixed_bfloat16\"}}"));
static const char stateful[] = SEQUENTIAL(
    "{\"class_name\":\"LSTM\",\"config\":{\"name\":\"r\",\"units\":100,\"stateful\":true,"
    "\"batch_input_shape\":[8,5,80]}}," DENSE(""));
static const char time_major[] = SEQUENTIAL(
    "{\"class_name\":\"SimpleRNN\",\"config\":{\"name\":\"r\",\"units\":3,\"time_major\":true,"
    "\"batch_input_shape\":[null,2,4],\"return_sequences\":true}}");

enum { ROWS = 32, IN = 400, OUT = 120 };

static pg_trainer *open_trainer(const char *model, const char *quantize)
{
    const pg_train_opts opts = {.model_text = model,
                                .seed = 5,
                                .loss = "mse",
                                .optimizer = "sgd:learning_rate=0.1",
                                .quantize = quantize,
                                .deterministic = 1,
                                .threads = 1};
    pg_trainer *t = NULL;
    pg_err err = {0};
    if (pg_trainer_open(&t, &opts, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return t;
}

/* Rows of the inputs, and targets. */
static pg_data *open_rows(float *x, float *y, uint32_t rank)
{
    const pg_array arrays[] = {
        {"x0", PG_F32, rank, {ROWS, rank == 2 ? IN : 5, IN / 5}, x},
        {"y0", PG_F32, 2, {ROWS, OUT}, y},
    };
    pg_data *d = NULL;
    for (size_t i = 0; i < (size_t)ROWS * IN; i++)
        x[i] = (float)sin((double)i * (double)i) * (float)(i / IN + 1);
    for (size_t i = 0; i < (size_t)ROWS * OUT; i++)
        y[i] = (float)cos((double)i);
    assert_ok(pg_data_arrays(&d, arrays, 2, NULL));
    return d;
}

static void check_change(pg_trainer *t, pg_data *d, size_t n_products)
{
    const pg_predict_opts opts = {.batch_size = 8};
    pg_quantized q = {0};
    assert_ok(pg_predict_quantized(t, d, &opts, &q, NULL));
    assert_int_equal(q.n_products, n_products);
    assert_int_equal(q.n_rows, ROWS);
    assert_int_equal(q.n_choices, ROWS);
    assert_true(q.n_same > ROWS / 2);
    assert_string_equal(q.output, "d");
    assert_true(q.rel_change > 1e-3 && q.rel_change < 0.03);
    assert_true(q.max_change > 0 && q.max_change < 0.1 * q.max_given);
}

static void test_what_changes_is_told_and_follows_the_weights(void **state)
{
    static float x[ROWS * IN], y[ROWS * OUT];
    pg_trainer *t = open_trainer(dense, "int8");
    pg_data *d = open_rows(x, y, 2);
    (void)state;
    check_change(t, d, 1);
    assert_ok(pg_fit(t, d, &(pg_fit_opts){.epochs = 3, .batch_size = 8}, NULL, NULL));
    check_change(t, d, 1);
    pg_trainer_close(t);
    pg_data_close(d);
}

static void test_stateful_layers_begin_anew(void **state)
{
    static float x[ROWS * IN], y[ROWS * OUT];
    pg_trainer *t = open_trainer(stateful, "int8");
    pg_data *d = open_rows(x, y, 3);
    (void)state;
    check_change(t, d, 2);
    check_change(t, d, 2);
    pg_trainer_close(t);
    pg_data_close(d);
}

static double *trained(const char *model, const char *quantize)
{
    static float x[ROWS * IN], y[ROWS * OUT];
    pg_trainer *t = open_trainer(model, quantize);
    pg_data *d = open_rows(x, y, 2);
    double *w = pg__mem_array((size_t)IN * OUT, sizeof *w);
    pg_logs logs;
    assert_non_null(w);
    assert_ok(pg_fit(t, d, &(pg_fit_opts){.epochs = 1, .batch_size = 8}, NULL, NULL));
    assert_ok(pg_evaluate(t, d, NULL, &logs, NULL));
    assert_ok(pg_fit(t, d, &(pg_fit_opts){.epochs = 2, .batch_size = 8}, NULL, NULL));
    assert_ok(pg_trainer_read(t, 0, w, (size_t)IN * OUT, NULL));
    pg_trainer_close(t);
    pg_data_close(d);
    return w;
}

static void test_training_stays_as_it_is(void **state)
{
    const char *const models[] = {dense, mixed};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        double *with = trained(models[i], "int8"), *without = trained(models[i], NULL);
        assert_memory_equal(with, without, (size_t)IN * OUT * sizeof *with);
        pg__mem_free(with);
        pg__mem_free(without);
    }
}

static void test_refusals(void **state)
{
    static float x[ROWS * IN], y[ROWS * OUT];
    pg_train_opts opts = {.model_text = time_major, .quantize = "int8", .for_prediction = 1};
    pg_trainer *t = NULL;
    pg_quantized q;
    pg_err err = {0};
    (void)state;
    assert_fails(PG_E_UNSUPPORTED, pg_trainer_open(&t, &opts, &err), &err);
    opts.model_text = dense;
    opts.devices = "ref:0";
    assert_fails(PG_E_UNSUPPORTED, pg_trainer_open(&t, &opts, &err), &err);
    opts.devices = NULL;
    opts.quantize = "int4";
    assert_fails(PG_E_ARG, pg_trainer_open(&t, &opts, &err), &err);
    assert_null(t);
    t = open_trainer(dense, NULL);
    pg_data *d = open_rows(x, y, 2);
    assert_fails(PG_E_ARG, pg_predict_quantized(t, d, NULL, &q, &err), &err);
    pg_trainer_close(t);
    pg_data_close(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_changes_is_told_and_follows_the_weights),
        cmocka_unit_test(test_stateful_layers_begin_anew),
        cmocka_unit_test(test_training_stays_as_it_is),
        cmocka_unit_test(test_refusals),
    };
    (void)argc, (void)argv;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
