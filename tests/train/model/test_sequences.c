/* Sequences beyond the golden runs: dropout inside recurrent layers, states, masks. What is said
 * here must hold for any number of devices. */
#include "pg_test.h"

#include <math.h>
#include <unistd.h>

#include "base/mem.h"
#include "pg/train.h"

static char dir[] = "/tmp/pg-test-sequences-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char path[600];
    (void)state;
    snprintf(path, sizeof path, "%s/model.json", dir);
    (void)unlink(path);
    return rmdir(dir);
}

/* The siamese model of testdata with another text in one place of its description. */
static void write_model(const char *path, const char *from, const char *to)
{
    char source[600], *text = pg__mem_array(1 << 16, 1);
    snprintf(source, sizeof source, "%s/golden/siamese/model.json", pg_testdata);
    FILE *f = fopen(source, "rb");
    assert_non_null(f);
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    fclose(f);
    char *at = strstr(text, from);
    assert_non_null(at);
    f = fopen(path, "wb");
    assert_non_null(f);
    fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(f);
    pg__mem_free(text);
}

typedef struct trained {
    double loss;      /* of the last epoch */
    double first;     /* of the first batch */
    double w[8 * 32]; /* the recurrent kernel */
} trained;

static pg_status batch_end(void *user, size_t batch, const pg_logs *own, const pg_logs *running,
                           pg_err *err)
{
    trained *t = user;
    (void)running, (void)err;
    if (batch == 0 && isnan(t->first))
        t->first = own->values[0];
    return PG_OK;
}

static pg_status epoch_end(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    (void)epoch, (void)err;
    ((trained *)user)->loss = logs->values[0];
    return PG_OK;
}

static trained train(const char *from, const char *to, const char *devices, uint64_t seed)
{
    char model[600], weights[600], data_path[600];
    trained t = {.first = NAN};
    pg_trainer *trainer = NULL;
    pg_data *data = NULL;
    pg_err err = {0};
    snprintf(model, sizeof model, "%s/model.json", dir);
    snprintf(weights, sizeof weights, "%s/golden/siamese/init_weights.h5", pg_testdata);
    snprintf(data_path, sizeof data_path, "%s/golden/siamese/data.npz", pg_testdata);
    write_model(model, from, to);
    const pg_train_opts opts = {.model = model,
                                .weights = weights,
                                .optimizer = "SGD:learning_rate=0.1,momentum=0.9",
                                .loss = "categorical_crossentropy",
                                .devices = devices};
    const pg_callback cb = {.user = &t, .batch_end = batch_end, .epoch_end = epoch_end};
    if (pg_trainer_open(&trainer, &opts, &err) != PG_OK)
        fail_msg("%s\n%s", err.msg, err.detail);
    assert_ok(pg_data_open(&data, data_path, &err));
    if (pg_fit(trainer, data,
               &(pg_fit_opts){.batch_size = 24, .epochs = 2, .no_shuffle = 1, .seed = seed}, &cb,
               &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_ok(pg_trainer_read(trainer, 1, t.w, 8 * 32, &err));
    pg_data_close(data);
    pg_trainer_close(trainer);
    return t;
}

static double difference(const trained *a, const trained *b)
{
    double worst = fabs(a->loss - b->loss);
    for (size_t i = 0; i < 8 * 32; i++)
        worst = fmax(worst, fabs(a->w[i] - b->w[i]));
    return worst;
}

#define NO_DROPOUT "\"dropout\": 0.0, \"recurrent_dropout\": 0.0"
static const char *const dropouts[] = {
    "\"dropout\": 0.5, \"recurrent_dropout\": 0.0", "\"dropout\": 0.0, \"recurrent_dropout\": 0.5",
    "\"dropout\": 0.3, \"recurrent_dropout\": 0.3" /* for each gate */};

static void dropout_does_not_depend_on_the_number_of_devices(void **state)
{
    const trained none = train(NO_DROPOUT, NO_DROPOUT, "ref:0", 7);
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const trained one = train(NO_DROPOUT, dropouts[i], "ref:0", 7);
        const trained two = train(NO_DROPOUT, dropouts[i], "ref:0,ref:0", 7);
        const trained three = train(NO_DROPOUT, dropouts[i], "cpu:0,cpu:0,cpu:0", 7);
        const trained other = train(NO_DROPOUT, dropouts[i], "ref:0", 8);
        assert_true(isfinite(one.loss));
        assert_true(difference(&one, &none) > 1e-3);
        assert_true(difference(&one, &other) > 1e-4);
        assert_true(difference(&one, &two) < 1e-12);
        assert_true(difference(&one, &three) < 1e-4);
        assert_true(one.first != none.first);
    }
}

static void activations_that_hide_their_slope_are_refused(void **state)
{
    char model[600];
    pg_trainer *t = NULL;
    pg_err err = {0};
    (void)state;
    snprintf(model, sizeof model, "%s/model.json", dir);
    write_model(model, "\"activation\": \"tanh\"", "\"activation\": \"swish\"");
    const pg_train_opts opts = {.model = model, .weights = model, .loss = "mse"};
    assert_int_equal(pg_trainer_open(&t, &opts, &err), PG_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "shared_lstm: activation \"swish\" is not supported inside a recurrent layer"));
}

static void batches_of_stateful_models_are_full(void **state)
{
    char path[600], weights[600], data_path[600];
    pg_trainer *t = NULL;
    pg_data *data = NULL;
    pg_err err = {0};
    (void)state;
    snprintf(path, sizeof path, "%s/golden/lstm_stateful/model.json", pg_testdata);
    snprintf(weights, sizeof weights, "%s/golden/lstm_stateful/init_weights.h5", pg_testdata);
    snprintf(data_path, sizeof data_path, "%s/golden/lstm_stateful/data.npz", pg_testdata);
    const pg_train_opts opts = {.model = path, .weights = weights, .loss = "mse"};
    assert_ok(pg_trainer_open(&t, &opts, &err));
    assert_ok(pg_data_open(&data, data_path, &err));
    assert_int_equal(pg_fit(t, data, &(pg_fit_opts){.batch_size = 64, .epochs = 1}, NULL, &err),
                     PG_E_MISMATCH);
    assert_non_null(strstr(err.msg, "the stateful model asks for batches of "));
    const pg_fit_opts parted = {.validation_split = 0.33, .epochs = 1};
    assert_int_equal(pg_fit(t, data, &parted, NULL, &err), PG_E_MISMATCH);
    assert_non_null(strstr(err.msg, " samples are not a multiple of the fixed batch of "));
    assert_non_null(pg_action_get(&err.action, "steps_per_epoch"));
    pg_data_close(data);
    pg_trainer_close(t);
}

PG_TEST_MAIN_WITH(make_dir, remove_dir,
                  cmocka_unit_test(dropout_does_not_depend_on_the_number_of_devices),
                  cmocka_unit_test(activations_that_hide_their_slope_are_refused),
                  cmocka_unit_test(batches_of_stateful_models_are_full))
