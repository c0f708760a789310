/* update.c - what one step does to the weights: the rule, clipping, frozen variables, and the same
 * bits on any number of threads. The rules themselves are tested in tests/backend and
 * tests/train/fit/test_golden.c. */
#include <math.h>

#include "base/mem.h"
#include "pg_test.h"
#include "train/step/trainer.h"

enum { MOST = 1 << 14 };

/* The change of every weight, variable by variable, by one step over all rows. */
typedef struct change {
    double by[MOST];
    size_t at[16], n_vars; /* where a variable begins, and the end of the last */
} change;

static void read_all(pg_trainer *t, double *out)
{
    size_t n = 0;
    for (size_t i = 0; i < t->vars.n_params; n += t->vars.n_elems[i++]) {
        assert_true(n + t->vars.n_elems[i] <= MOST);
        assert_ok(pg__param_get(t, i, out + n));
    }
}

static void step(change *c, const char *optimizer, const char *freeze, size_t threads)
{
    static double before[MOST];
    char model[600], weights[600], rows[600];
    pg_trainer *t = NULL;
    pg_data *d = NULL;
    pg_err err = {0};
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    snprintf(weights, sizeof weights, "%s/golden/mlp_digits/init_weights.h5", pg_testdata);
    snprintf(rows, sizeof rows, "%s/golden/mlp_digits/data.npz", pg_testdata);
    const pg_train_opts opts = {.model = model,
                                .weights = weights,
                                .optimizer = optimizer,
                                .freeze = freeze,
                                .loss = "categorical_crossentropy",
                                .threads = threads,
                                .deterministic = 1};
    const pg_fit_opts fit = {.epochs = 1, .batch_size = 1 << 20, .no_shuffle = 1};
    if (pg_trainer_open(&t, &opts, &err) != PG_OK || pg_data_open(&d, rows, &err) != PG_OK)
        fail_msg("%s", err.msg);
    read_all(t, before);
    if (pg_fit(t, d, &fit, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    read_all(t, c->by);
    c->n_vars = t->vars.n_params;
    for (size_t i = 0; i < c->n_vars; i++)
        c->at[i + 1] = c->at[i] + t->vars.n_elems[i];
    for (size_t i = 0; i < c->at[c->n_vars]; i++)
        c->by[i] -= before[i];
    pg_data_close(d);
    pg_trainer_close(t);
}

static double norm(const change *c, size_t first, size_t end)
{
    double sum = 0;
    for (size_t i = c->at[first]; i < c->at[end]; i++)
        sum += c->by[i] * c->by[i];
    return sqrt(sum);
}

static void assert_close(double got, double want)
{
    if (!(fabs(got - want) <= 1e-4 * fabs(want) + 1e-7))
        fail_msg("%.9g, expected %.9g", got, want);
}

static change plain, other;

static void the_step_is_as_long_as_the_rate(void **state)
{
    (void)state;
    step(&other, "SGD:learning_rate=0.25", NULL, 1);
    assert_true(norm(&plain, 0, plain.n_vars) > 0.1);
    for (size_t i = 0; i < plain.at[plain.n_vars]; i++)
        assert_close(other.by[i], 0.25 * plain.by[i]);
}

static void values_are_clipped_one_by_one(void **state)
{
    (void)state;
    step(&other, "SGD:learning_rate=1,clipvalue=0.01", NULL, 2);
    for (size_t i = 0; i < plain.at[plain.n_vars]; i++)
        assert_close(other.by[i], fmin(fmax(plain.by[i], -0.01), 0.01));
}

static void a_norm_limits_each_variable_or_all_together(void **state)
{
    double limit = norm(&plain, 0, 1) / 2;
    char text[80];
    (void)state;
    snprintf(text, sizeof text, "SGD:learning_rate=1,clipnorm=%.9g", limit);
    step(&other, text, NULL, 2);
    for (size_t v = 0; v < plain.n_vars; v++) {
        const double was = norm(&plain, v, v + 1);
        assert_close(norm(&other, v, v + 1), was < limit ? was : limit);
    }
    limit = norm(&plain, 0, plain.n_vars) / 2;
    snprintf(text, sizeof text, "SGD:learning_rate=1,global_clipnorm=%.9g", limit);
    step(&other, text, NULL, 2);
    assert_close(norm(&other, 0, plain.n_vars), limit);
    for (size_t i = 0; i < plain.at[plain.n_vars]; i++)
        assert_close(other.by[i], 0.5 * plain.by[i]);
}

static void frozen_variables_stay(void **state)
{
    (void)state;
    step(&other, "SGD:learning_rate=1", "fc1", 1);
    for (size_t v = 0; v < 2; v++)
        assert_true(norm(&other, v, v + 1) == 0);
    for (size_t v = 2; v < plain.n_vars; v++)
        assert_close(norm(&other, v, v + 1), norm(&plain, v, v + 1));
}

/* Each thread updates a range of the parameters, whose borders are within variables; clipping goes
 * by whole ones. */
static void threads_change_no_bit(void **state)
{
    static const char *const optimizers[] = {"SGD:learning_rate=1", "Adam:learning_rate=0.01",
                                             "Adam:learning_rate=0.01,clipnorm=0.1"};
    static change one;
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        step(&one, optimizers[k], NULL, 1);
        for (size_t threads = 2; threads <= 5; threads += 3) {
            step(&other, optimizers[k], NULL, threads);
            assert_memory_equal(other.by, one.by, one.at[one.n_vars] * sizeof *one.by);
        }
    }
}

static int step_plainly(void **state)
{
    (void)state;
    step(&plain, "SGD:learning_rate=1", NULL, 1);
    return 0;
}

PG_TEST_MAIN_WITH(step_plainly, NULL, cmocka_unit_test(the_step_is_as_long_as_the_rate),
                  cmocka_unit_test(values_are_clipped_one_by_one),
                  cmocka_unit_test(a_norm_limits_each_variable_or_all_together),
                  cmocka_unit_test(frozen_variables_stay), cmocka_unit_test(threads_change_no_bit))
