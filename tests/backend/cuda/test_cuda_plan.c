/* A plan made on the GPU of plain C (host.h): for GPUs that are like it, and it stays as it was. */
#include "pg_test.h"

#include "pg/train.h"

typedef struct set {
    pg_trainer *t;
    pg_data *data;
} set;

/* Of the sets that are opened from here on. */
static int deterministic = 1, tunes;

static set open_set(const char *devices)
{
    char model[600], data[600];
    set s = {NULL, NULL};
    pg_err err = {0};
    snprintf(model, sizeof model, "%s/golden/cnn_bn/model.json", pg_testdata);
    snprintf(data, sizeof data, "%s/golden/cnn_bn/data.npz", pg_testdata);
    const pg_train_opts opts = {.model = model,
                                .optimizer = "adam",
                                .loss = "categorical_crossentropy",
                                .devices = devices,
                                .deterministic = deterministic,
                                .gpu_tune = tunes};
    if (pg_trainer_open(&s.t, &opts, &err) != PG_OK)
        fail_msg("%s: %s", devices, err.msg);
    assert_ok(pg_data_open(&s.data, data, &err));
    return s;
}

static void close_set(set *s)
{
    pg_data_close(s->data);
    pg_trainer_close(s->t);
}

static const pg_fit_opts fit = {.batch_size = 32, .steps_per_epoch = 3};

static pg_status plan(const set *s, const char *devices, pg_plan *out, pg_err *err)
{
    pg_plan_opts o;
    assert_ok(pg_plan_read(&o, devices, err));
    return pg_fit_plan(out, s->t, s->data, &fit, &o, err);
}

static void a_gpu_is_timed_for_others(void **state)
{
    set s = open_set("cuda:0");
    pg_plan p;
    pg_err err = {0};
    (void)state;
    assert_ok(plan(&s, "gpus=4,hosts=2,link=100Gbit", &p, &err));
    assert_int_equal(p.n_rows, 4);
    assert_int_equal(p.rows[3].n_devices, 8);
    assert_int_equal(p.rows[3].rows, 4);
    assert_true(p.used.speedup == 1);
    for (size_t i = 0; i < p.n_rows; i++)
        assert_true(p.rows[i].compute > 0 && p.rows[i].update > 0 && p.rows[i].memory > 0);
    close_set(&s);
}

/* Sums that begin during the backward pass are predicted only where they are asked for. */
static void overlap_is_planned_where_it_is_asked_for(void **state)
{
    (void)state;
    assert_int_equal(setenv("PG_BUCKET_BYTES", "1", 1), 0);
    deterministic = 0;
    for (tunes = 0; tunes < 2; tunes++) {
        set s = open_set("cuda:0");
        pg_plan p;
        pg_err err = {0};
        assert_ok(plan(&s, "gpus=2,hosts=2,link=100Gbit", &p, &err));
        const pg_plan_row *r = &p.rows[p.n_rows - 1];
        assert_true(r->exchange > 0);
        assert_int_equal(r->shown < 0.99 * r->exchange, tunes);
        close_set(&s);
    }
    deterministic = 1;
    tunes = 0;
    assert_int_equal(unsetenv("PG_BUCKET_BYTES"), 0);
}

static void others_are_refused(void **state)
{
    set one = open_set("cuda:0"), two = open_set("cuda:0,cuda:1");
    pg_plan p;
    pg_err err = {0};
    (void)state;
    assert_fails(PG_E_ARG, plan(&one, "cpus=2", &p, &err), &err);
    assert_fails(PG_E_UNSUPPORTED, plan(&two, "gpus=2", &p, &err), &err);
    close_set(&one);
    close_set(&two);
}

static size_t read_weights(const set *s, double *to, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < pg_trainer_n_weights(s->t); i++) {
        const size_t each = (size_t)(pg_trainer_weight(s->t, i)->n_bytes / sizeof(float));
        assert_true(n + each <= most);
        assert_ok(pg_trainer_read(s->t, i, to + n, each, NULL));
        n += each;
    }
    return n;
}

static void a_plan_changes_nothing(void **state)
{
    enum { MOST = 1 << 16 };
    static double a[MOST], b[MOST];
    set plain = open_set("cuda:0"), planned = open_set("cuda:0");
    pg_plan p;
    pg_err err = {0};
    (void)state;
    for (int k = 0; k < 2; k++) {
        assert_ok(plan(&planned, "gpus=2", &p, &err));
        assert_ok(pg_fit(plain.t, plain.data, &fit, NULL, &err));
        assert_ok(pg_fit(planned.t, planned.data, &fit, NULL, &err));
        const size_t n = read_weights(&plain, a, MOST);
        assert_int_equal(read_weights(&planned, b, MOST), n);
        assert_memory_equal(a, b, n * sizeof *a);
    }
    close_set(&plain);
    close_set(&planned);
}

PG_TEST_MAIN(cmocka_unit_test(a_gpu_is_timed_for_others),
             cmocka_unit_test(overlap_is_planned_where_it_is_asked_for),
             cmocka_unit_test(others_are_refused), cmocka_unit_test(a_plan_changes_nothing))
