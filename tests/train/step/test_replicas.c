/* Deterministic training gives the same bits however many devices and threads share the work. */
#include "pg_test.h"

#include <math.h>
#include <unistd.h>

#include "base/mem.h"
#include "pg/train.h"

typedef struct result {
    double *weights;
    size_t n;
    double loss;  /* of the last epoch */
    double alone; /* rows per second */
} result;

static void keep_report(void *user, const pg_fit_report *report)
{
    ((result *)user)->alone = report->alone;
}

static pg_status keep_loss(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    (void)epoch, (void)err;
    ((result *)user)->loss = logs->values[0];
    return PG_OK;
}

/* How a run is made. */
typedef struct how {
    const char *devices;
    size_t threads, batch_size;
    int deterministic, batch_norm;
    size_t accumulate;
    const char *optimizer; /* NULL: adam, which makes much of gradients that are only rounding */
    const char *place;
} how;

static int measure_alone; /* in the runs that follow */

/* A run of testdata/golden; or, on its data, the model of the file `other` with weights from a
 * seed. */
static result train_as(const char *other, const char *run, const how *h)
{
    char model[512], weights[512], data[512];
    result r = {0};
    pg_err err = {0};
    pg_trainer *t = NULL;
    pg_data *d = NULL;
    snprintf(model, sizeof model, "%s/golden/%s/model.json", pg_testdata, run);
    snprintf(weights, sizeof weights, "%s/golden/%s/init_weights.h5", pg_testdata, run);
    snprintf(data, sizeof data, "%s/golden/%s/data.npz", pg_testdata, run);
    const pg_train_opts opts = {.model = other ? other : model,
                                .weights = other ? NULL : weights,
                                .seed = 1,
                                .devices = h->devices,
                                .threads = h->threads,
                                .deterministic = h->deterministic,
                                .batch_norm = h->batch_norm,
                                .optimizer = h->optimizer ? h->optimizer : "adam",
                                .loss = "categorical_crossentropy",
                                .place = h->place,
                                .metrics = "accuracy"};
    if (pg_trainer_open(&t, &opts, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_ok(pg_data_open(&d, data, &err));
    const pg_callback cb = {.user = &r, .epoch_end = keep_loss, .train_end = keep_report};
    if (pg_fit(t, d,
               &(pg_fit_opts){.batch_size = h->batch_size,
                              .epochs = 2,
                              .no_shuffle = 1,
                              .accumulate = h->accumulate,
                              .measure_alone = measure_alone},
               &cb, &err) != PG_OK)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < pg_trainer_n_weights(t); i++) {
        const pg_weight *w = pg_trainer_weight(t, i);
        const size_t n = (size_t)(w->n_bytes / pg_dtype_bytes(w->dtype));
        double *more = realloc(r.weights, (r.n + n) * sizeof *more);
        assert_non_null(more);
        r.weights = more;
        assert_ok(pg_trainer_read(t, i, r.weights + r.n, n, NULL));
        r.n += n;
    }
    pg_data_close(d);
    pg_trainer_close(t);
    return r;
}

static void measuring_one_device_alone_changes_nothing(void **state)
{
    const how h = {.devices = "cpu:0,cpu:1", .threads = 2, .batch_size = 50};
    (void)state;
    result a = train_as(NULL, "cnn_bn", &h);
    measure_alone = 1;
    result b = train_as(NULL, "cnn_bn", &h);
    measure_alone = 0;
    assert_true(a.alone == 0);
    assert_true(b.alone > 0);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.weights, b.weights, a.n * sizeof *a.weights);
    free(a.weights);
    free(b.weights);
}

static result train_other(const char *other, const char *run, const char *devices, size_t threads,
                          size_t batch_size, int deterministic)
{
    return train_as(other, run,
                    &(how){devices, threads, batch_size, deterministic, 0, 0, NULL, NULL});
}

static result train(const char *run, const char *devices, size_t threads, size_t batch_size,
                    int deterministic)
{
    return train_other(NULL, run, devices, threads, batch_size, deterministic);
}

static int same_bits(const result *a, const result *b)
{
    return a->n == b->n && memcmp(a->weights, b->weights, a->n * sizeof *a->weights) == 0 &&
           a->loss == b->loss;
}

static double largest_difference(const result *a, const result *b)
{
    double worst = 0;
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        const double d = fabs(a->weights[i] - b->weights[i]);
        worst = d > worst ? d : worst;
    }
    return worst;
}

static void replicas_and_threads_give_the_same_bits(void **state)
{
    static const char *const devices[] = {"cpu:0,cpu:0", "cpu:0,cpu:1,cpu:2",
                                          "cpu:0,cpu:1,cpu:2,cpu:3",
                                          "cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0"};
    (void)state;
    const result one = train("mlp_digits", "cpu:0", 1, 33, 1);
    for (size_t i = 0; i < 4; i++)
        for (size_t threads = 1; threads <= 5; threads += 4) {
            const result many = train("mlp_digits", devices[i], threads, 33, 1);
            assert_int_equal(many.n, one.n);
            assert_memory_equal(many.weights, one.weights, one.n * sizeof *one.weights);
            assert_true(many.loss == one.loss);
            free(many.weights);
        }
    free(one.weights);
}

static void replicas_differ_from_one_device_by_rounding_only(void **state)
{
    (void)state;
    const result one = train("mlp_digits", "cpu:0", 1, 32, 0);
    const result three = train("mlp_digits", "cpu:0,cpu:1,cpu:2", 3, 32, 0);
    double worst = 0;
    for (size_t i = 0; i < one.n; i++) {
        const double d = one.weights[i] - three.weights[i];
        worst = d > worst ? d : -d > worst ? -d : worst;
    }
    assert_true(worst < 2e-6 && worst > 0);
    free(one.weights);
    free(three.weights);
}

/* What is dropped is a function of the row of the whole batch, whoever holds it. */
static void replicas_drop_the_same_elements(void **state)
{
    static const char model[] =
        "{\"class_name\":\"Sequential\",\"config\":["
        "{\"class_name\":\"Dropout\",\"config\":{\"name\":\"a\",\"rate\":0.2,"
        "\"batch_input_shape\":[null,64]}},"
        "{\"class_name\":\"Dense\",\"config\":{\"name\":\"b\",\"units\":13,"
        "\"activation\":\"relu\"}},"
        "{\"class_name\":\"Dropout\",\"config\":{\"name\":\"c\",\"rate\":0.5}},"
        "{\"class_name\":\"Dense\",\"config\":{\"name\":\"d\",\"units\":10,"
        "\"activation\":\"softmax\"}}]}";
    char path[] = "/tmp/pg-dropout-XXXXXX";
    const int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, model, strlen(model)), strlen(model));
    close(fd);
    const result one = train_other(path, "mlp_digits", "cpu:0", 1, 33, 1);
    const result again = train_other(path, "mlp_digits", "cpu:0", 2, 33, 1);
    const result three = train_other(path, "mlp_digits", "cpu:0,cpu:1,cpu:2", 3, 33, 1);
    assert_memory_equal(one.weights, again.weights, one.n * sizeof *one.weights);
    assert_memory_equal(one.weights, three.weights, one.n * sizeof *one.weights);
    assert_true(one.loss == three.loss);
    unlink(path);
    free(one.weights);
    free(again.weights);
    free(three.weights);
}

static void batches_smaller_than_the_replicas_train(void **state)
{
    (void)state;
    const result r = train("mlp_digits", "cpu:0,cpu:1,cpu:2,cpu:3", 4, 3, 0);
    assert_true(r.loss > 0 && r.loss < 3);
    free(r.weights);
}

/* Lanes meet at BatchNormalization: through the whole batch, whoever has them. */
static void normalised_batches_give_the_same_bits(void **state)
{
    static const char *const devices[] = {"cpu:0,cpu:0", "cpu:0,cpu:1,cpu:2",
                                          "cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0"};
    (void)state;
    for (size_t batch = 30; batch <= 32; batch += 2) { /* lanes that differ, that do not */
        result one = train_as(NULL, "cnn_bn", &(how){"cpu:0", 1, batch, 1, 0, 0, NULL, NULL});
        for (size_t i = 0; i < 3; i++) {
            result many =
                train_as(NULL, "cnn_bn", &(how){devices[i], 3, batch, 1, 0, 0, NULL, NULL});
            assert_true(same_bits(&one, &many));
            free(many.weights);
        }
        free(one.weights);
    }
}

/* Lanes with gradients that are larger than caches are run at once, as many as a worker has. */
static void large_gradients_give_the_same_bits(void **state)
{
    static const char model[] =
        "{\"class_name\":\"Sequential\",\"config\":["
        "{\"class_name\":\"Reshape\",\"config\":{\"name\":\"a\",\"target_shape\":[8,8,1],"
        "\"batch_input_shape\":[null,64]}},"
        "{\"class_name\":\"Conv2D\",\"config\":{\"name\":\"b\",\"filters\":24,"
        "\"kernel_size\":[3,3],\"padding\":\"same\",\"activation\":\"relu\"}},"
        "{\"class_name\":\"Conv2D\",\"config\":{\"name\":\"c\",\"filters\":40,"
        "\"kernel_size\":[3,3],\"padding\":\"same\",\"activation\":\"relu\"}},"
        "{\"class_name\":\"Flatten\",\"config\":{\"name\":\"d\"}},"
        "{\"class_name\":\"Dropout\",\"config\":{\"name\":\"e\",\"rate\":0.2}},"
        "{\"class_name\":\"Dense\",\"config\":{\"name\":\"f\",\"units\":830}},"
        "{\"class_name\":\"Dense\",\"config\":{\"name\":\"g\",\"units\":10,"
        "\"activation\":\"softmax\"}}]}";
    static const char *const devices[] = {"cpu:0,cpu:1", "cpu:0,cpu:1,cpu:2",
                                          "cpu:0,cpu:1,cpu:2,cpu:3",
                                          "cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0"};
    char path[] = "/tmp/pg-large-XXXXXX";
    const int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, model, strlen(model)), strlen(model));
    close(fd);
    const result one = train_other(path, "mlp_digits", "cpu:0", 1, 128, 1);
    for (size_t i = 0; i < 4; i++) {
        const result many = train_other(path, "mlp_digits", devices[i], 1, 128, 1);
        assert_true(same_bits(&one, &many));
        free(many.weights);
    }
    unlink(path);
    free(one.weights);
}

static void threads_of_a_replica_are_normalised_together(void **state)
{
    (void)state;
    result one = train_as(NULL, "cnn_bn", &(how){"cpu:0", 1, 32, 0, 0, 0, "SGD", NULL});
    result three = train_as(NULL, "cnn_bn", &(how){"cpu:0", 3, 32, 0, 0, 0, "SGD", NULL});
    result synced = train_as(NULL, "cnn_bn", &(how){"cpu:0,cpu:1", 2, 32, 0, 2, 0, "SGD", NULL});
    result apart = train_as(NULL, "cnn_bn", &(how){"cpu:0,cpu:1", 2, 32, 0, 1, 0, "SGD", NULL});
    assert_true(largest_difference(&one, &three) < 1e-4);
    assert_true(largest_difference(&one, &synced) < 1e-4);
    assert_true(largest_difference(&one, &apart) > 1e-3);
    free(one.weights);
    free(three.weights);
    free(synced.weights);
    free(apart.weights);
}

static void replicas_normalised_apart_are_deterministic_too(void **state)
{
    (void)state;
    result a = train_as(NULL, "cnn_bn", &(how){"cpu:0,cpu:1", 2, 32, 1, 1, 0, "SGD", NULL});
    result b = train_as(NULL, "cnn_bn", &(how){"cpu:0,cpu:1", 5, 32, 1, 1, 0, "SGD", NULL});
    result plain = train_as(NULL, "cnn_bn", &(how){"cpu:0,cpu:1", 2, 32, 0, 1, 0, "SGD", NULL});
    assert_true(same_bits(&a, &b));
    assert_true(largest_difference(&a, &plain) < 1e-4);
    free(a.weights);
    free(b.weights);
    free(plain.weights);
}

/* One update for three batches is the update of one batch of their rows. */
static void batches_are_accumulated(void **state)
{
    (void)state;
    result whole = train_as(NULL, "mlp_digits", &(how){"cpu:0", 1, 48, 0, 0, 0, NULL, NULL});
    result parts = train_as(NULL, "mlp_digits", &(how){"cpu:0", 2, 16, 0, 0, 3, NULL, NULL});
    result bits = train_as(NULL, "mlp_digits", &(how){"cpu:0", 1, 16, 1, 0, 3, NULL, NULL});
    result many =
        train_as(NULL, "mlp_digits", &(how){"cpu:0,cpu:1,cpu:2", 3, 16, 1, 0, 3, NULL, NULL});
    assert_true(largest_difference(&whole, &parts) < 2e-6);
    assert_true(fabs(whole.loss - parts.loss) < 1e-6);
    assert_true(same_bits(&bits, &many));
    free(whole.weights);
    free(parts.weights);
    free(bits.weights);
    free(many.weights);
}

/* Two towers of one LSTM on two devices: the same work, the same bits. */
static void placed_branches_give_the_same_bits(void **state)
{
    static const char *const places[] = {"*lstm*#1=cpu:1", "*=cpu:1,*lstm*#0=cpu:0,*lstm*#1=cpu:2"};
    const how plain = {"cpu:0", 1, 32, 0, 0, 0, NULL, NULL};
    result one = train_as(NULL, "siamese", &plain);
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        how h = plain;
        h.place = places[i];
        result placed = train_as(NULL, "siamese", &h);
        assert_true(same_bits(&one, &placed));
        free(placed.weights);
        h.deterministic = 1;
        h.threads = 4;
        result lanes = train_as(NULL, "siamese", &h);
        assert_true(largest_difference(&one, &lanes) < 1e-5);
        free(lanes.weights);
    }
    free(one.weights);
}

static void a_place_names_a_call_of_the_model(void **state)
{
    char model[512];
    pg_err err;
    pg_trainer *t = NULL;
    (void)state;
    snprintf(model, sizeof model, "%s/golden/mlp_digits/init_model.h5", pg_testdata);
    pg_train_opts opts = {.model = model, .loss = "mse", .place = "tower=cpu:1"};
    assert_fails(PG_E_ARG, pg_trainer_open(&t, &opts, &err), &err);
    assert_string_equal(err.msg, "place: the model calls no layer \"tower\"");
    opts.place = "tower";
    assert_fails(PG_E_ARG, pg_trainer_open(&t, &opts, &err), &err);
    opts.place = "tower#x=cpu:1";
    assert_fails(PG_E_ARG, pg_trainer_open(&t, &opts, &err), &err);
    opts.place = "*=cuda:1";
    assert_fails(PG_E_UNSUPPORTED, pg_trainer_open(&t, &opts, &err), &err);
    opts.place = "*=cpu:1";
    opts.devices = "cpu:0,cpu:1";
    assert_fails(PG_E_UNSUPPORTED, pg_trainer_open(&t, &opts, &err), &err);
}

/* A lane that has no rows in the last part brings nothing to its meetings. */
static void lanes_may_be_absent_from_the_last_part(void **state)
{
    (void)state;
    result alone = train_as(NULL, "cnn_bn", &(how){"cpu:0", 1, 76, 0, 0, 2, "SGD", NULL});
    result lanes = train_as(NULL, "cnn_bn", &(how){"cpu:0", 2, 76, 1, 0, 2, "SGD", NULL});
    assert_true(largest_difference(&alone, &lanes) < 1e-4);
    free(alone.weights);
    free(lanes.weights);
}

static void more_devices_than_lanes_are_refused(void **state)
{
    char model[512];
    pg_err err;
    pg_trainer *t = NULL;
    (void)state;
    snprintf(model, sizeof model, "%s/golden/mlp_digits/init_model.h5", pg_testdata);
    const pg_train_opts opts = {.model = model,
                                .loss = "mse",
                                .deterministic = 1,
                                .lanes = 2,
                                .devices = "cpu:0,cpu:0,cpu:0"};
    assert_fails(PG_E_ARG, pg_trainer_open(&t, &opts, &err), &err);
    assert_string_equal(err.msg, "3 devices need at least as many lanes");
    assert_string_equal(advice_of(&err), "set lanes=4");
}

PG_TEST_MAIN(cmocka_unit_test(measuring_one_device_alone_changes_nothing),
             cmocka_unit_test(replicas_and_threads_give_the_same_bits),
             cmocka_unit_test(replicas_differ_from_one_device_by_rounding_only),
             cmocka_unit_test(replicas_drop_the_same_elements),
             cmocka_unit_test(batches_smaller_than_the_replicas_train),
             cmocka_unit_test(normalised_batches_give_the_same_bits),
             cmocka_unit_test(large_gradients_give_the_same_bits),
             cmocka_unit_test(threads_of_a_replica_are_normalised_together),
             cmocka_unit_test(replicas_normalised_apart_are_deterministic_too),
             cmocka_unit_test(batches_are_accumulated),
             cmocka_unit_test(placed_branches_give_the_same_bits),
             cmocka_unit_test(a_place_names_a_call_of_the_model),
             cmocka_unit_test(lanes_may_be_absent_from_the_last_part),
             cmocka_unit_test(more_devices_than_lanes_are_refused))
