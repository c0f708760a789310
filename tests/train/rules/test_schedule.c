/* Learning rate schedules: numbers of real Keras (2.15.0 and 3.6.0 give the same), texts and
 * configs, and training that follows them. */
#include "pg_test.h"

#include <math.h>

#include "base/mem.h"
#include "pg/train.h"
#include "train/rules/schedule.h"
#include "train/step/trainer.h"

static const uint64_t steps[] = {0, 1, 7, 9, 10, 11, 20, 25, 33, 100};
#define N_STEPS (sizeof steps / sizeof *steps)

/* Keras' float32 at those steps, initial_learning_rate=0.1. */
static const struct {
    const char *text;
    double want[N_STEPS];
} traces[] = {
    {"exponential_decay:decay_steps=10,decay_rate=0.9",
     {0.100000001, 0.0989519283, 0.0928901657, 0.0909532532, 0.0899999961, 0.0890567303,
      0.0809999928, 0.0768433437, 0.0706317946, 0.0348678343}},
    {"exponential_decay:decay_steps=10,decay_rate=0.9,staircase=true",
     {0.100000001, 0.100000001, 0.100000001, 0.100000001, 0.0899999961, 0.0899999961, 0.0809999928,
      0.0809999928, 0.0728999898, 0.0348678343}},
    {"inverse_time_decay:decay_steps=10,decay_rate=0.5",
     {0.100000001, 0.0952381045, 0.0740740746, 0.068965517, 0.0666666701, 0.0645161346,
      0.0500000007, 0.0444444455, 0.0377358496, 0.0166666675}},
    {"inverse_time_decay:decay_steps=10,decay_rate=0.5,staircase",
     {0.100000001, 0.100000001, 0.100000001, 0.100000001, 0.0666666701, 0.0666666701, 0.0500000007,
      0.0500000007, 0.0399999991, 0.0166666675}},
    {"polynomial_decay:decay_steps=25",
     {0.100000001, 0.0960040018, 0.0720280036, 0.0640359968, 0.0600400046, 0.0560440011,
      0.0200800039, 9.99999975e-05, 9.99999975e-05, 9.99999975e-05}},
    {"polynomial_decay:decay_steps=10,power=0.5,cycle=true,end_learning_rate=0.01",
     {0.100000001, 0.0953814983, 0.0592950359, 0.0384605005, 0.00999999978, 0.0703738332,
      0.00999999978, 0.0467423499, 0.0476497039, 0.00999999978}},
    {"piecewise_constant_decay:boundaries=10/20,values=0.1/0.01/0.001",
     {0.100000001, 0.100000001, 0.100000001, 0.100000001, 0.100000001, 0.00999999978, 0.00999999978,
      0.00100000005, 0.00100000005, 0.00100000005}},
    {"piecewise_constant_decay:boundaries=9,values=0.1/0.3",
     {0.100000001, 0.100000001, 0.100000001, 0.100000001, 0.300000012, 0.300000012, 0.300000012,
      0.300000012, 0.300000012, 0.300000012}},
    {"cosine_decay:decay_steps=25",
     {0.100000001, 0.0996057391, 0.0818712041, 0.0712889656, 0.0654508471, 0.0593690649,
      0.00954914745, 0, 0, 0}},
    {"cosine_decay:decay_steps=25,alpha=0.3",
     {0.100000001, 0.0997240171, 0.0873098373, 0.0799022764, 0.0758155957, 0.0715583488,
      0.0366844051, 0.0300000012, 0.0300000012, 0.0300000012}},
    {"cosine_decay:decay_steps=20,warmup_target=0.7,warmup_steps=10",
     {0.100000001, 0.159999996, 0.519999981, 0.639999986, 0.699999988, 0.69569087, 0.349999964,
      0.102512628, 0, 0}},
    {"cosine_decay:decay_steps=20,initial_learning_rate=0.0,warmup_target=0.7,warmup_steps=10,"
     "alpha=0.1",
     {0, 0.0700000003, 0.48999998, 0.629999995, 0.699999988, 0.696121812, 0.384999961, 0.162261367,
      0.0700000003, 0.0700000003}},
    {"cosine_decay_restarts:first_decay_steps=10",
     {0.100000001, 0.0975528285, 0.0206107404, 0.00244716997, 0.100000001, 0.0993844196,
      0.049999997, 0.0146446619, 0.0986184999, 0.0691341683}},
    {"cosine_decay_restarts:first_decay_steps=10,t_mul=1,m_mul=0.5",
     {0.100000001, 0.0975528285, 0.0206107404, 0.00244716997, 0.0500000007, 0.0487764142,
      0.0250000004, 0.0124999993, 0.00992365833, 9.76562515e-05}},
    {"cosine_decay_restarts:first_decay_steps=6,t_mul=1.5,m_mul=0.9,alpha=0.05",
     {0.100000001, 0.0936362073, 0.0879218504, 0.0691249967, 0.0551734529, 0.0403265357,
      0.0587141588, 0.0170718376, 0.0661536977, 0.0367242694}},
};

/* Powers and cosines are the C library's: TensorFlow's differ in the last bit, and it divides by a
 * constant by multiplying. */
static void numbers_are_those_of_Keras(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        pg__schedule *s = NULL;
        double largest = 0;
        for (size_t k = 0; k < N_STEPS; k++)
            largest = fmax(largest, traces[i].want[k]);
        assert_ok(pg__schedule_parse(&s, traces[i].text, 0.1, NULL));
        for (size_t k = 0; k < N_STEPS; k++) {
            const double got = pg__schedule_at(s, steps[k]), want = traces[i].want[k];
            if (!(fabs(got - want) <= 4e-7 * largest))
                fail_msg("%s at %llu: %.9g, Keras has %.9g", traces[i].text,
                         (unsigned long long)steps[k], got, want);
        }
        pg__schedule_free(s);
    }
}

/* TensorFlow's graphs multiply by 1/41 and 1/15, which are not quite that in float32; fit() is such
 * a graph. */
static void periods_end_at_the_steps_where_they_do_in_fit(void **state)
{
    pg__schedule *s = NULL;
    (void)state;
    assert_ok(pg__schedule_parse(&s, "exponential_decay:decay_steps=41,decay_rate=0.9,staircase",
                                 0.1, NULL));
    assert_true(pg__schedule_at(s, 41) == (double)0.1F);
    assert_true(pg__schedule_at(s, 42) < (double)0.0901F);
    pg__schedule_free(s);
    assert_ok(pg__schedule_parse(&s, "polynomial_decay:decay_steps=15,cycle=true", 0.1, NULL));
    assert_true(fabs(pg__schedule_at(s, 45) - 0.025075) < 1e-8);
    assert_true(fabs(pg__schedule_at(s, 30) - 0.0001) < 1e-8);
    pg__schedule_free(s);
}

static void assert_refused(const char *text, const char *message)
{
    pg__schedule *s = NULL;
    pg_err err;
    assert_fails(PG_E_ARG, pg__schedule_parse(&s, text, 0.1, &err), &err);
    assert_string_equal(err.msg, message);
    assert_null(s);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    assert_refused(
        "ExponentialDecy:decay_steps=3",
        "unknown learning rate schedule \"ExponentialDecy\"; did you mean ExponentialDecay?");
    assert_refused("exponential_decay:decay_steps=3", "ExponentialDecay needs decay_rate");
    assert_refused("cosine_decay:decay_steps=0", "CosineDecay: decay_steps is 0.0");
    assert_refused("cosine_decay:decay_steps=9,slope=1", "cosine_decay has no parameter \"slope\"");
    assert_refused("cosine_decay_restarts:first_decay_steps=9,t_mul=0.5",
                   "CosineDecayRestarts: t_mul is 0.5, and periods would shrink to nothing");
    assert_refused("piecewise_constant_decay:boundaries=10/20,values=1/2",
                   "PiecewiseConstantDecay: 2 boundaries need 3 values, not 2");
    assert_refused("piecewise_constant_decay:boundaries=20/10,values=1/2/3",
                   "PiecewiseConstantDecay: the boundaries do not ascend");
    assert_refused("piecewise_constant_decay:boundaries=10/x,values=1/2/3",
                   "boundaries is not a list of numbers such as 0.1/0.01/0.001");
}

static void assert_config(const char *text, int with_module, const char *want)
{
    pg__schedule *s = NULL, *again = NULL;
    pg__json *j = NULL;
    pg__str out = {0};
    assert_ok(pg__schedule_parse(&s, text, 0.1, NULL));
    assert_ok(pg__schedule_put(&out, s, with_module, NULL));
    assert_string_equal(out.s, want);
    assert_ok(pg__json_parse(&j, out.s, out.n, NULL));
    assert_ok(pg__schedule_of_json(&again, j, NULL));
    for (size_t k = 0; k < N_STEPS; k++)
        assert_true(pg__schedule_at(s, steps[k]) == pg__schedule_at(again, steps[k]));
    pg__schedule_free(again);
    pg__schedule_free(s);
    pg__json_free(j);
    pg__str_fini(&out);
}

static void configs_are_as_Keras_writes_them(void **state)
{
    (void)state;
    assert_config("ExponentialDecay:decay_steps=100,decay_rate=0.9,staircase", 0,
                  "{\"class_name\": \"ExponentialDecay\", \"config\": {\"initial_learning_rate\": "
                  "0.1, \"decay_steps\": 100, \"decay_rate\": 0.9, \"staircase\": true}}");
    assert_config("piecewise_constant_decay:boundaries=10/20,values=.1/1e-2/0.001", 1,
                  "{\"module\": \"keras.optimizers.schedules\", \"class_name\": "
                  "\"PiecewiseConstantDecay\", \"config\": {\"boundaries\": [10, 20], \"values\": "
                  "[0.1, 0.01, 0.001]}, \"registered_name\": null}");
    assert_config("cosine_decay:decay_steps=10", 0,
                  "{\"class_name\": \"CosineDecay\", \"config\": {\"initial_learning_rate\": 0.1, "
                  "\"decay_steps\": 10, \"alpha\": 0.0, \"warmup_target\": null, "
                  "\"warmup_steps\": 0}}");
}

/* ---- in training ---- */

static pg_status open_trainer(pg_trainer **t, const char *optimizer, const char *json,
                              const char *schedule, const char *rules, pg_err *err)
{
    char model[512];
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    const pg_train_opts opts = {.model = model,
                                .optimizer = optimizer,
                                .optimizer_json = json,
                                .schedule = schedule,
                                .optimizer_rules = strcmp(optimizer, "nadam") == 0,
                                .loss = "mse",
                                .rules = rules,
                                .threads = 1};
    return pg_trainer_open(t, &opts, err);
}

typedef struct heard {
    double rate, first;
} heard;

static pg_status hear_start(void *user, const pg_run *run, pg_err *err)
{
    (void)err;
    ((heard *)user)->first = run->learning_rate;
    return PG_OK;
}

static pg_status hear_epoch(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    (void)epoch, (void)err;
    ((heard *)user)->rate = logs->values[logs->n - 1];
    return PG_OK;
}

static pg_status fit(pg_trainer *t, heard *h, const char *callback, pg_err *err)
{
    char path[512];
    pg_data *d = NULL;
    snprintf(path, sizeof path, "%s/golden/mlp_digits/data.npz", pg_testdata);
    const pg_callback cb = {.user = h, .train_begin = hear_start, .epoch_end = hear_epoch};
    const pg_fit_opts opts = {
        .steps_per_epoch = 5, .epochs = 2, .callbacks = &callback, .n_callbacks = callback != NULL};
    assert_ok(pg_data_open(&d, path, err));
    const pg_status st = pg_fit(t, d, &opts, &cb, err);
    pg_data_close(d);
    return st;
}

static void an_epoch_tells_the_rate_of_the_next_step(void **state)
{
    pg_trainer *t = NULL;
    heard h = {0};
    pg_err err;
    (void)state;
    assert_ok(open_trainer(&t, "sgd:lr=0.5", NULL,
                           "piecewise_constant_decay:boundaries=9,values=0.1/0.01", NULL, &err));
    assert_ok(fit(t, &h, NULL, &err));
    assert_true(h.first == (double)0.1f);
    assert_true(h.rate == (double)0.01f); /* 10 steps were made */
    pg_trainer_close(t);
}

static void the_optimizers_rate_is_where_it_begins(void **state)
{
    pg_trainer *t = NULL;
    heard h = {0};
    pg_err err;
    (void)state;
    assert_ok(
        open_trainer(&t, "sgd:lr=0.5", NULL, "polynomial_decay:decay_steps=1000", NULL, &err));
    assert_ok(fit(t, &h, NULL, &err));
    assert_true(h.first == 0.5);
    assert_true(fabs(h.rate - 0.495001) < 1e-6);
    pg_trainer_close(t);
}

static void a_config_can_hold_one(void **state)
{
    static const char *const json =
        "{\"class_name\": \"SGD\", \"config\": {\"momentum\": 0.5, \"learning_rate\": "
        "{\"class_name\": \"InverseTimeDecay\", \"config\": {\"initial_learning_rate\": 0.25, "
        "\"decay_steps\": 10, \"decay_rate\": 1.0, \"staircase\": false, \"name\": null}}}}";
    pg_trainer *t = NULL;
    heard h = {0};
    pg_err err;
    (void)state;
    assert_ok(open_trainer(&t, "sgd", json, NULL, NULL, &err));
    assert_ok(fit(t, &h, NULL, &err));
    assert_true(h.first == 0.25);
    assert_true(h.rate == 0.125);
    pg_trainer_close(t);
}

static void one_of_another_kind_is_refused(void **state)
{
    static const char *const json =
        "{\"class_name\": \"SGD\", \"config\": {\"learning_rate\": {\"class_name\": \"WarmUp\", "
        "\"config\": {\"steps\": 10}}}}";
    pg_trainer *t = NULL;
    pg_err err;
    (void)state;
    assert_fails(PG_E_UNSUPPORTED, open_trainer(&t, "sgd", json, NULL, NULL, &err), &err);
    assert_string_equal(err.msg, "its optimizer's learning rate: unknown learning rate schedule "
                                 "\"WarmUp\"");
    assert_ok(open_trainer(&t, "sgd", json, "cosine_decay:decay_steps=5", NULL, &err));
    pg_trainer_close(t);
}

static void who_cannot_follow_one_says_so(void **state)
{
    pg_trainer *t = NULL;
    pg_err err;
    (void)state;
    assert_fails(PG_E_UNSUPPORTED,
                 open_trainer(&t, "nadam", NULL, "cosine_decay:decay_steps=5", NULL, &err), &err);
}

PG_TEST_MAIN(cmocka_unit_test(numbers_are_those_of_Keras),
             cmocka_unit_test(periods_end_at_the_steps_where_they_do_in_fit),
             cmocka_unit_test(what_is_wrong_is_named),
             cmocka_unit_test(configs_are_as_Keras_writes_them),
             cmocka_unit_test(an_epoch_tells_the_rate_of_the_next_step),
             cmocka_unit_test(the_optimizers_rate_is_where_it_begins),
             cmocka_unit_test(a_config_can_hold_one),
             cmocka_unit_test(one_of_another_kind_is_refused),
             cmocka_unit_test(who_cannot_follow_one_says_so))
