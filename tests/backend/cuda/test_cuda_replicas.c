/* Training on several devices of the GPU of plain C (host.h): the same bits, however many share the
 * work, with --deterministic; and what is recorded is replayed. */
#include "pg_test.h"

#include <math.h>
#include <unistd.h>

#include "base/mem.h"
#include "pg/train.h"

typedef struct how {
    const char *run, *devices, *optimizer;
    size_t accumulate;
    int deterministic, cpu_merge;
} how;

/* The weights after one epoch, one behind the other. */
static double *train(const how *h, size_t *n_out)
{
    char model[600], weights[600], data_file[600];
    pg_trainer *t = NULL;
    pg_data *data = NULL;
    pg_err err = {0};
    size_t n = 0;
    snprintf(model, sizeof model, "%s/golden/%s/model.json", pg_testdata, h->run);
    snprintf(weights, sizeof weights, "%s/golden/%s/init_weights.h5", pg_testdata, h->run);
    snprintf(data_file, sizeof data_file, "%s/golden/%s/data.npz", pg_testdata, h->run);
    const pg_train_opts opts = {.model = model,
                                .weights = weights,
                                .loss = "categorical_crossentropy",
                                .metrics = "accuracy",
                                .optimizer = h->optimizer,
                                .devices = h->devices,
                                .deterministic = h->deterministic,
                                .cpu_merge = h->cpu_merge};
    const pg_fit_opts fit = {
        .batch_size = 33, .epochs = 1, .steps_per_epoch = 6, .accumulate = h->accumulate};
    if (pg_trainer_open(&t, &opts, &err) != PG_OK)
        fail_msg("%s: %s", h->devices, err.msg);
    assert_ok(pg_data_open(&data, data_file, &err));
    if (pg_fit(t, data, &fit, NULL, &err) != PG_OK)
        fail_msg("%s: %s", h->devices, err.msg);
    for (size_t i = 0; i < pg_trainer_n_weights(t); i++)
        n += (size_t)(pg_trainer_weight(t, i)->n_bytes / sizeof(float));
    double *out = pg__mem_array(n, sizeof *out), *at = out;
    for (size_t i = 0; i < pg_trainer_n_weights(t); i++) {
        const size_t some = (size_t)(pg_trainer_weight(t, i)->n_bytes / sizeof(float));
        assert_ok(pg_trainer_read(t, i, at, some, NULL));
        at += some;
    }
    pg_data_close(data);
    pg_trainer_close(t);
    *n_out = n;
    return out;
}

static void check(const how *one, const how *other, double bound)
{
    size_t n, m;
    double *a = train(one, &n), *b = train(other, &m), worst = 0, top = 0;
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs(a[i] - b[i]));
        top = fmax(top, fabs(a[i]));
        if (isnan(b[i]))
            worst = INFINITY;
    }
    if (!(worst <= bound * top))
        fail_msg("%s on %s and on %s: %.3g apart", one->run, one->devices, other->devices, worst);
    pg__mem_free(a);
    pg__mem_free(b);
}

static const char *const many[] = {"cuda:0,cuda:0", "cuda:0,cuda:1", "cuda:0,cuda:0,cuda:0",
                                   "cuda:1,cuda:0,cuda:1,cuda:0"};

static void deterministic_replicas_give_the_same_bits(void **state)
{
    static const char *const runs[] = {"mlp_digits", "cnn_bn"};
    (void)state;
    for (size_t r = 0; r < 2; r++)
        for (size_t i = 0; i < sizeof many / sizeof *many; i++)
            check(&(how){runs[r], "cuda:0", "adam", 0, 1, 0},
                  &(how){runs[r], many[i], "adam", 0, 1, 0}, 0);
}

/* Clipping needs whole gradients, on every device. */
static void replicas_train_as_one(void **state)
{
    static const char *const rules[] = {"sgd:momentum=0.9", "adam:clipnorm=0.1",
                                        "sgd:global_clipnorm=0.5"};
    (void)state;
    for (size_t r = 0; r < 3; r++)
        for (size_t i = 0; i < sizeof many / sizeof *many; i++)
            for (int merge = 0; merge < 2; merge++)
                check(&(how){"mlp_digits", "cpu:0", rules[r], 0, 0, 0},
                      &(how){"mlp_digits", many[i], rules[r], 0, 0, merge}, 1e-4);
}

static void parts_of_a_batch_add_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        check(&(how){"mlp_digits", "cuda:0", "adam", 3, 1, 0},
              &(how){"mlp_digits", many[i], "adam", 3, 1, 0}, 0);
}

/* Two steps go by before there is anything to replay. */
static void steps_are_recorded_once(void **state)
{
    char path[] = "/tmp/pg-cuda-log-XXXXXX", line[256];
    size_t n, n_recorded = 0, n_queued = 0;
    const int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(setenv("FAKE_CUDA_LOG", path, 1), 0);
    pg__mem_free(train(&(how){"mlp_digits", "cuda:0", "sgd", 0, 0, 0}, &n));
    assert_int_equal(unsetenv("FAKE_CUDA_LOG"), 0);
    FILE *f = fdopen(fd, "r");
    while (fgets(line, sizeof line, f)) {
        n_recorded += strncmp(line, "record ", 7) == 0 && strstr(line, "softmax") != NULL;
        n_queued += strncmp(line, "queue ", 6) == 0 && strstr(line, " softmax on") != NULL;
    }
    fclose(f);
    unlink(path);
    assert_int_equal(n_recorded, 1);
    assert_int_equal(n_queued, 1);
}

PG_TEST_MAIN(cmocka_unit_test(deterministic_replicas_give_the_same_bits),
             cmocka_unit_test(replicas_train_as_one), cmocka_unit_test(parts_of_a_batch_add_up),
             cmocka_unit_test(steps_are_recorded_once))
