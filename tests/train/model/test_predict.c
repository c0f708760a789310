/* Predictions and evaluation: the same numbers however batches and devices cut them, and files that
 * are whole. */
#include "pg_test.h"

#include <math.h>

#include "train/data_files.h"
#include "train/model/feed.h"
#include "train/step/trainer.h"

static pg_trainer *open_golden(const char *run, const char *loss, const char *devices)
{
    char model[600], weights[600];
    pg_trainer *t = NULL;
    pg_err err = {0};
    snprintf(model, sizeof model, "%s/golden/%s/model.json", pg_testdata, run);
    snprintf(weights, sizeof weights, "%s/golden/%s/init_weights.h5", pg_testdata, run);
    const pg_train_opts opts = {.model = model,
                                .weights = weights,
                                .loss = loss,
                                .metrics = loss ? "accuracy" : NULL,
                                .devices = devices,
                                .threads = 1};
    if (pg_trainer_open(&t, &opts, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return t;
}

static pg_data *open_golden_data(const char *run)
{
    char path[600];
    pg_data *d = NULL;
    snprintf(path, sizeof path, "%s/golden/%s/data.npz", pg_testdata, run);
    assert_ok(pg_data_open(&d, path, NULL));
    return d;
}

/* Values of one array of a file of predictions. */
static double *read_file(const char *name, const char *key, size_t *n)
{
    const pg__dims any = {2, {PG_DIM_ANY, PG_DIM_ANY}};
    pg__ends ends = one_in_one_out(&any);
    pg_data *d = NULL;
    pg_err err = {0};
    if (pg_data_open(&d, in_dir(name).s, &err) != PG_OK)
        fail_msg("%s", err.msg);
    ends.targeted = NULL;
    assert_ok(pg__data_bind(d, &ends, &err));
    assert_non_null(pg__data_find(d, key));
    double *v = read_all(pg__data_find(d, key), n);
    pg_data_close(d);
    return v;
}

static double *predict(const char *devices, size_t batch_size, size_t *n)
{
    const pg_predict_opts opts = {.batch_size = batch_size, .force = 1};
    pg_trainer *t = open_golden("mlp_digits", NULL, devices);
    pg_data *d = open_golden_data("mlp_digits");
    pg_err err = {0};
    if (pg_predict_file(t, d, in_dir("y.npy").s, &opts, &err) != PG_OK)
        fail_msg("%s", err.msg);
    pg_data_close(d);
    pg_trainer_close(t);
    return read_file("y.npy", "x0", n);
}

static void predictions_do_not_depend_on_batches_and_devices(void **state)
{
    size_t n = 0, n_other = 0;
    double *one = predict("cpu:0", 500, &n), *other = predict("cpu:0,cpu:0,cpu:0", 17, &n_other);
    (void)state;
    assert_int_equal(n, 500 * 10);
    assert_int_equal(n_other, n);
    for (size_t row = 0; row < 500; row++) {
        double sum = 0;
        for (size_t k = 0; k < 10; k++) {
            sum += one[row * 10 + k];
            assert_true(fabs(one[row * 10 + k] - other[row * 10 + k]) < 1e-6);
        }
        assert_true(fabs(sum - 1) < 1e-5); /* a softmax */
    }
    pg__mem_free(one);
    pg__mem_free(other);
}

#define N_STEPS 48
static const char time_major[] =
    "{\"class_name\":\"Sequential\",\"keras_version\":\"2.15.0\",\"config\":{\"name\":\"m\","
    "\"layers\":[{\"class_name\":\"SimpleRNN\",\"config\":{\"name\":\"r\",\"units\":3,"
    "\"batch_input_shape\":[null,2,4],\"time_major\":true,\"return_sequences\":true}}]}}";

static double *predict_steps(size_t threads, int deterministic)
{
    pg_array x = {.key = "x0", .dtype = PG_F64, .rank = 3, .dims = {N_STEPS, 2, 4}};
    const pg_train_opts opts = {
        .model_text = time_major, .threads = threads, .deterministic = deterministic};
    const pg_predict_opts whole = {.batch_size = N_STEPS, .force = 1};
    pg_trainer *t = NULL;
    pg_data *d = NULL;
    size_t n = 0;
    double values[N_STEPS * 2 * 4];
    for (size_t k = 0; k < sizeof values / sizeof *values; k++)
        values[k] = sin((double)k);
    x.values = values;
    assert_ok(pg_trainer_open(&t, &opts, NULL));
    assert_ok(pg_data_arrays(&d, &x, 1, NULL));
    assert_ok(pg_predict_file(t, d, in_dir("s.npy").s, &whole, NULL));
    pg_data_close(d);
    pg_trainer_close(t);
    double *got = read_file("s.npy", "x0", &n);
    assert_int_equal(n, N_STEPS * 2 * 3);
    return got;
}

/* Where steps come before rows, a part of a batch would begin with its first step. */
static void steps_stay_together(void **state)
{
    (void)state;
    double *one = predict_steps(1, 0);
    for (size_t k = 0; k < 2; k++) {
        double *more = predict_steps(3, k == 1);
        for (size_t i = 0; i < N_STEPS * 2 * 3; i++)
            assert_true(fabs(one[i] - more[i]) < 1e-6);
        pg__mem_free(more);
    }
    pg__mem_free(one);
    pg_trainer *t = NULL;
    pg_err err = {0};
    const pg_train_opts two = {.model_text = time_major, .devices = "cpu:0,cpu:0"};
    assert_fails(PG_E_UNSUPPORTED, pg_trainer_open(&t, &two, &err), &err);
    assert_non_null(strstr(err.msg, "time_major"));
}

/* The rows of the file, and no others, whoever holds them. */
static void rows_in_memory_give_what_a_file_gives(void **state)
{
    const pg__dims any = {2, {PG_DIM_ANY, PG_DIM_ANY}};
    const pg__ends ends = one_in_one_out(&any);
    pg_trainer *t = open_golden("mlp_digits", NULL, "cpu:0");
    pg_data *file = open_golden_data("mlp_digits"), *d = NULL;
    pg_array x = {.key = "x0", .dtype = PG_F64};
    pg_err err = {0};
    size_t n = 0, n_other = 0, n_x = 0;
    double *want = predict("cpu:0", 32, &n);
    (void)state;
    assert_ok(pg__data_bind(file, &ends, NULL));
    const pg__array *from = pg__data_find(file, "x0");
    assert_non_null(from);
    double *values = read_all(from, &n_x);
    x.values = values;
    x.rank = from->dims.rank;
    memcpy(x.dims, from->dims.d, x.rank * sizeof *x.dims);
    assert_ok(pg_data_arrays(&d, &x, 1, NULL));
    if (pg_predict_file(t, d, in_dir("m.npy").s, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    double *got = read_file("m.npy", "x0", &n_other);
    assert_int_equal(n_other, n);
    assert_memory_equal(got, want, n * sizeof *got);
    pg_data_close(d);
    assert_ok(pg_data_arrays(&d, NULL, 0, NULL));
    assert_fails(PG_E_MISMATCH, pg_predict_file(t, d, in_dir("none.npy").s, NULL, &err), &err);
    assert_int_equal(access(in_dir("none.npy").s, F_OK), -1);
    pg_data_close(d);
    pg_data_close(file);
    pg_trainer_close(t);
    pg__mem_free(values);
    pg__mem_free(got);
    pg__mem_free(want);
}

static void evaluation_is_the_validation_of_a_run(void **state)
{
    pg_trainer *t = open_golden("mlp_digits", "categorical_crossentropy", "cpu:0");
    pg_data *d = open_golden_data("mlp_digits");
    size_t n = 0, hits = 0, n_y = 0;
    pg_logs logs, part;
    pg_err err = {0};
    (void)state;
    assert_ok(pg_evaluate(t, d, NULL, &logs, &err));
    assert_int_equal(logs.n, 2);
    assert_string_equal(logs.names[0], "loss");
    assert_string_equal(logs.names[1], "accuracy");
    double *p = predict("cpu:0", 32, &n), *y = read_all(pg__data_find(d, "y0"), &n_y), loss = 0;
    for (size_t row = 0; row < 500; row++) {
        size_t best = 0, wanted = 0;
        for (size_t k = 1; k < 10; k++) {
            best = p[row * 10 + k] > p[row * 10 + best] ? k : best;
            wanted = y[row * 10 + k] > y[row * 10 + wanted] ? k : wanted;
        }
        hits += best == wanted;
        loss -= log(p[row * 10 + wanted]) / 500;
    }
    assert_true(fabs(logs.values[0] - loss) < 1e-5);
    assert_true(fabs(logs.values[1] - (double)hits / 500) < 1e-9);
    assert_ok(pg_evaluate(t, d, &(pg_predict_opts){.steps = 1}, &part, &err));
    assert_true(part.values[0] != loss);
    pg__mem_free(p);
    pg__mem_free(y);
    pg_data_close(d);
    pg_trainer_close(t);
}

/* As the loss of that name does, over a softmax that hides them from the prediction. */
static void a_metric_takes_the_logits_of_another_activation(void **state)
{
    char model[600], weights[600];
    double losses[2];
    pg_data *d = open_golden_data("mlp_digits");
    (void)state;
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    snprintf(weights, sizeof weights, "%s/golden/mlp_digits/init_weights.h5", pg_testdata);
    for (int cached = 0; cached < 2; cached++) {
        const pg_train_opts opts = {.model = model,
                                    .weights = weights,
                                    .loss = "binary_crossentropy",
                                    .metrics = "binary_crossentropy",
                                    .weighted_metrics = "BinaryCrossentropy:from_logits=true",
                                    .rules = cached ? "2.15" : "2.3",
                                    .devices = "cpu:0,cpu:1"};
        pg_trainer *t = NULL;
        pg_logs logs;
        assert_ok(pg_trainer_open(&t, &opts, NULL));
        assert_ok(pg_evaluate(t, d, NULL, &logs, NULL));
        assert_int_equal(logs.n, 3);
        for (size_t i = 1; i < 3; i++)
            assert_true(fabs(logs.values[i] - logs.values[0]) < 1e-6);
        losses[cached] = logs.values[0];
        pg_trainer_close(t);
    }
    assert_true(fabs(losses[0] - losses[1]) > 0.01);
    pg_data_close(d);
}

static void several_outputs_go_to_one_archive(void **state)
{
    pg_trainer *t = open_golden("multiout", NULL, "cpu:0,cpu:0");
    pg_data *d = open_golden_data("multiout");
    size_t n = 0, n_rows = 0;
    pg_err err = {0};
    (void)state;
    double *x = read_all(pg__data_find(d, "x0"), &n);
    n_rows = (size_t)pg__data_find(d, "x0")->dims.d[0];
    pg__mem_free(x);
    assert_fails(PG_E_ARG, pg_predict_file(t, d, in_dir("two.npy").s, NULL, &err), &err);
    assert_fails(PG_E_ARG, pg_predict_check_file(t, in_dir("two.npy").s, NULL, &err), &err);
    assert_int_equal(access(in_dir("two.npy").s, F_OK), -1);
    assert_ok(pg_predict_check_file(t, in_dir("two.npz").s, NULL, &err));
    assert_int_equal(access(in_dir("two.npz").s, F_OK), -1);
    assert_ok(pg_predict_file(t, d, in_dir("two.npz").s, NULL, &err)); /* CRCs are checked */
    double *a = read_file("two.npz", "y0", &n);
    assert_true(n > 0 && n % n_rows == 0);
    double *b = read_file("two.npz", "y1", &n);
    assert_true(n > 0 && n % n_rows == 0);
    pg__mem_free(a);
    pg__mem_free(b);
    assert_fails(PG_E_ARG, pg_predict_file(t, d, in_dir("two.npz").s, NULL, &err), &err);
    assert_fails(PG_E_ARG, pg_predict_check_file(t, in_dir("two.npz").s, NULL, &err), &err);
    assert_ok(pg_predict_check_file(t, in_dir("two.npz").s, &(pg_predict_opts){.force = 1}, &err));
    assert_fails(PG_E_ARG, pg_predict_file(t, d, in_dir("two.csv").s, NULL, &err), &err);
    pg_data_close(d);
    pg_trainer_close(t);
}

/* Of a residual block nothing is left but its convolution, where one predicts. */
static const char block[] =
    "{\"class_name\": \"Functional\", \"keras_version\": \"2.15.0\", \"config\": {\"name\": \"m\", "
    "\"layers\": [{\"class_name\": \"InputLayer\", \"name\": \"in\", \"config\": "
    "{\"batch_input_shape\": [null, 5, 5, 8], \"dtype\": \"float32\", \"name\": \"in\"}, "
    "\"inbound_nodes\": []}, {\"class_name\": \"Conv2D\", \"name\": \"c\", \"config\": {\"name\": "
    "\"c\", \"filters\": 8, \"kernel_size\": [1, 1]}, \"inbound_nodes\": [[[\"in\", 0, 0, {}]]]}, "
    "{\"class_name\": \"BatchNormalization\", \"name\": \"b\", \"config\": {\"name\": \"b\"}, "
    "\"inbound_nodes\": [[[\"c\", 0, 0, {}]]]}, {\"class_name\": \"Add\", \"name\": \"a\", "
    "\"config\": {\"name\": \"a\"}, \"inbound_nodes\": [[[\"in\", 0, 0, {}], [\"b\", 0, 0, {}]]]}, "
    "{\"class_name\": \"ReLU\", \"name\": \"r\", \"config\": {\"name\": \"r\"}, \"inbound_nodes\": "
    "[[[\"a\", 0, 0, {}]]]}], \"input_layers\": [[\"in\", 0, 0]], \"output_layers\": [[\"r\", 0, "
    "0]]}}";

static void the_end_of_a_residual_block_is_part_of_its_convolution(void **state)
{
    static const pg__pass passes[] = {PG_PREDICTS, PG_TRAINS};
    pg_trainer *t = NULL;
    pg_err err = {0};
    (void)state;
    write_text("model.json", block);
    const test_path path = in_dir("model.json");
    const pg_train_opts opts = {
        .model = path.s, .loss = "mse", .devices = "cpu", .threads = 1, .seed = 1};
    if (pg_trainer_open(&t, &opts, &err) != PG_OK)
        fail_msg("%s", err.msg);
    for (int k = 0; k < 2; k++) {
        const pg__program *program = NULL;
        assert_ok(pg__feed_program(t, 3, passes[k], &program, &err));
        const pg__tape *tape = &pg__program_model(program)->tape;
        size_t n_sums = 0;
        for (uint32_t at = 0; at < tape->n_insts; at++)
            n_sums += tape->insts[at].op == pg__op_of(PG_OP_add);
        if (passes[k] == PG_PREDICTS)
            assert_int_equal(pg__program_n_calls(program), 1);
        else
            assert_true(n_sums > 0);
    }
    pg_trainer_close(t);
}

static void a_cancelled_prediction_leaves_no_file(void **state)
{
    const int cancel = 1;
    pg_trainer *t = open_golden("mlp_digits", NULL, "cpu:0");
    pg_data *d = open_golden_data("mlp_digits");
    pg_err err = {0};
    (void)state;
    assert_fails(
        PG_E_CANCELLED,
        pg_predict_file(t, d, in_dir("c.npy").s, &(pg_predict_opts){.cancel = &cancel}, &err),
        &err);
    assert_int_equal(access(in_dir("c.npy").s, F_OK), -1);
    pg_data_close(d);
    pg_trainer_close(t);
}

static void without_a_loss_there_is_nothing_to_evaluate(void **state)
{
    pg_trainer *t = open_golden("mlp_digits", NULL, "cpu:0");
    pg_data *d = open_golden_data("mlp_digits");
    pg_logs logs;
    pg_err err = {0};
    (void)state;
    assert_fails(PG_E_ARG, pg_evaluate(t, d, NULL, &logs, &err), &err);
    assert_fails(PG_E_ARG, pg_fit(t, d, &(pg_fit_opts){.epochs = 1}, NULL, &err), &err);
    pg_data_close(d);
    pg_trainer_close(t);
}

typedef struct evaluator {
    pg_trainer *t;
    pg_data *used, *other;
    size_t n;
} evaluator;

static pg_status evaluate_both(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    evaluator *e = user;
    pg_logs out = {.n = 0};
    (void)epoch;
    (void)logs;
    assert_fails(PG_E_ARG, pg_evaluate(e->t, e->used, NULL, &out, err), err);
    assert_ok(pg_evaluate(e->t, e->other, NULL, &out, err));
    assert_true(out.n > 0);
    e->n++;
    return PG_OK;
}

static void a_callback_evaluates_with_data_of_its_own(void **state)
{
    evaluator e = {.t = open_golden("mlp_digits", "categorical_crossentropy", "cpu:0"),
                   .used = open_golden_data("mlp_digits"),
                   .other = open_golden_data("mlp_digits")};
    const pg_callback cb = {.user = &e, .epoch_end = evaluate_both};
    const pg_fit_opts fit = {.epochs = 2, .validation_split = 0.1};
    pg_logs out;
    pg_err err = {0};
    (void)state;
    assert_ok(pg_fit(e.t, e.used, &fit, &cb, &err));
    assert_int_equal(e.n, 2);
    assert_ok(pg_evaluate(e.t, e.used, NULL, &out, &err)); /* afterwards */
    pg_data_close(e.used);
    pg_data_close(e.other);
    pg_trainer_close(e.t);
}

/* ---- profiles ---- */

static const pg__backend *genuine;
static uint64_t n_calls; /* of operations, counted or not */

static pg_status run_and_count(pg__dev *d, const pg__kernel *k, void *const *args, void *scratch,
                               const void *shared)
{
    n_calls++;
    return genuine->run(d, k, args, scratch, shared);
}

static uint64_t profiled_calls(pg_trainer *t)
{
    const pg_op_profile *rows = NULL;
    uint64_t all = 0;
    size_t n = 0;
    assert_ok(pg_trainer_profile(t, &rows, &n, NULL));
    for (size_t i = 0; i < n; i++)
        all += rows[i].calls;
    return all;
}

typedef struct seen {
    double values[4][8]; /* of passes that follow each other: what they leave behind shows */
    float rows[2 * 500 * 10];
    size_t n, n_columns;
    uint64_t ran, counted; /* in the first pass */
} seen;

static pg_status keep_shape(void *user, const pg_weight *outputs, size_t n, pg_err *err)
{
    (void)err;
    assert_int_equal(n, 1);
    ((seen *)user)->n_columns = (size_t)(outputs->n_bytes / outputs->dims[0] / sizeof(float));
    return PG_OK;
}

static pg_status keep_rows(void *user, size_t output, uint64_t first, size_t n_rows,
                           const void *values, pg_err *err)
{
    seen *s = user;
    (void)output, (void)first, (void)err;
    const size_t n = n_rows * s->n_columns;
    assert_true(s->n + n <= sizeof s->rows / sizeof *s->rows);
    memcpy(s->rows + s->n, values, n * sizeof *s->rows);
    s->n += n;
    return PG_OK;
}

static seen pass_over(const char *run, const char *loss, size_t batch_size, size_t steps,
                      int profile)
{
    const pg_predict_opts opts = {.batch_size = batch_size, .steps = steps, .profile = profile};
    pg_trainer *t = open_golden(run, loss, "cpu:0");
    pg_data *d = open_golden_data(run);
    seen s = {.n = 0};
    const pg_predictions to = {.user = &s, .begin = keep_shape, .rows = keep_rows};
    genuine = t->devs.backend;
    pg__backend counting = *genuine;
    counting.run = run_and_count;
    t->devs.backend = &counting;
    for (size_t k = 0; k < 4; k++) {
        pg_logs logs = {.n = 0};
        n_calls = 0;
        if (k < 2)
            assert_ok(pg_evaluate(t, d, &opts, &logs, NULL));
        else
            assert_ok(pg_predict(t, d, &opts, &to, NULL));
        if (k == 0)
            s.ran = n_calls;
        if (k == 0 && profile)
            s.counted = profiled_calls(t);
        assert_true(logs.n <= 8);
        memcpy(s.values[k], logs.values, logs.n * sizeof *logs.values);
    }
    t->devs.backend = genuine;
    pg_data_close(d);
    pg_trainer_close(t);
    return s;
}

static void assert_same_results(const seen *a, const seen *b)
{
    assert_memory_equal(a->values, b->values, sizeof a->values);
    assert_memory_equal(a->rows, b->rows, sizeof a->rows);
    assert_int_equal(a->n, b->n);
}

static void the_profile_of_one_batch_is_of_a_second_run(void **state)
{
    const seen bare = pass_over("lstm_stateful", "mse", 0, 1, 0);
    const seen counted = pass_over("lstm_stateful", "mse", 0, 1, 1);
    (void)state;
    assert_true(bare.ran > 0 && bare.n > 0);
    assert_true(bare.values[0][0] != bare.values[1][0]); /* the layers' states matter */
    assert_int_equal(counted.ran, 2 * bare.ran);
    assert_int_equal(counted.counted, bare.ran);
    assert_same_results(&counted, &bare);
}

static void the_profile_counts_a_smaller_last_batch_warm(void **state)
{
    const char *loss = "categorical_crossentropy"; /* 500 rows: 200, 200, 100 */
    const seen one = pass_over("mlp_digits", loss, 200, 1, 0);
    const seen bare = pass_over("mlp_digits", loss, 200, 0, 0);
    const seen counted = pass_over("mlp_digits", loss, 200, 0, 1);
    (void)state;
    assert_int_equal(bare.ran, 3 * one.ran);
    assert_int_equal(counted.ran, 4 * one.ran);
    assert_int_equal(counted.counted, 2 * one.ran); /* the first is left out */
    assert_same_results(&counted, &bare);
}

PG_TEST_MAIN_WITH(make_test_dir, remove_test_dir,
                  cmocka_unit_test(predictions_do_not_depend_on_batches_and_devices),
                  cmocka_unit_test(steps_stay_together),
                  cmocka_unit_test(rows_in_memory_give_what_a_file_gives),
                  cmocka_unit_test(evaluation_is_the_validation_of_a_run),
                  cmocka_unit_test(a_metric_takes_the_logits_of_another_activation),
                  cmocka_unit_test(several_outputs_go_to_one_archive),
                  cmocka_unit_test(the_end_of_a_residual_block_is_part_of_its_convolution),
                  cmocka_unit_test(a_cancelled_prediction_leaves_no_file),
                  cmocka_unit_test(without_a_loss_there_is_nothing_to_evaluate),
                  cmocka_unit_test(a_callback_evaluates_with_data_of_its_own),
                  cmocka_unit_test(the_profile_of_one_batch_is_of_a_second_run),
                  cmocka_unit_test(the_profile_counts_a_smaller_last_batch_warm))
