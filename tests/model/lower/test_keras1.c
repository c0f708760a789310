/* Layers that only Keras 1 has, whose formulas are those of 1.2.2 (keras/layers/core.py,
 * advanced_activations.py, Merge in engine/topology.py), by hand. */
#include "model/lower_test.h"

#include <math.h>

enum { ROWS = 3, IN = 4, OUT = 2, FEATURES = 3 };

static double value(size_t i, double phase)
{
    return sin(phase + 1.7 * (double)i);
}

static double phase_of(const char *name)
{
    double phase = 0;
    for (; *name; name++)
        phase = phase * 1.3 + *name;
    return phase;
}

static void fill(const char *name, double *v, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        v[i] = value(i, phase_of(name));
}

/* Number i of a parameter. */
static double w(const char *name, size_t i)
{
    return value(i, phase_of(name));
}

static double x[ROWS * IN];

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS * IN; i++)
        x[i] = 2 * value(i, 0.3);
    return 0;
}

static void near(double a, double b)
{
    if (!(fabs(a - b) < 1e-12))
        fail_msg("%.12g is not %.12g", a, b);
}

static double dense(const double *row, const char *kernel, const char *bias, size_t unit,
                    size_t units, size_t first)
{
    double sum = bias ? w(bias, first / IN + unit) : 0;
    for (size_t i = 0; i < IN; i++)
        sum += row[i] * w(kernel, first + i * units + unit);
    return sum;
}

static void highway_mixes_its_input_with_a_dense_layer(void **state)
{
    (void)state;
    for (int bias = 0; bias < 2; bias++) {
        lowered_layer l = lower_one("Highway", "4",
                                    bias ? "\"activation\":\"tanh\",\"bias\":true"
                                         : "\"activation\":\"tanh\",\"bias\":false",
                                    "1.2.2", ROWS, 1);
        const double *y = compute(&l, x, 0, fill);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t u = 0; u < IN; u++) {
                const double *row = x + r * IN;
                const double t =
                    1 / (1 + exp(-dense(row, "W_carry", bias ? "b_carry" : NULL, u, IN, 0)));
                near(y[r * IN + u],
                     t * tanh(dense(row, "W", bias ? "b" : NULL, u, IN, 0)) + (1 - t) * row[u]);
            }
        drop(&l);
    }
}

static void maxout_takes_the_largest_of_its_features(void **state)
{
    (void)state;
    lowered_layer l = lower_one(
        "MaxoutDense", "4", "\"output_dim\":2,\"nb_feature\":3,\"bias\":true", "1.2.2", ROWS, 1);
    const double *y = compute(&l, x, 0, fill);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t u = 0; u < OUT; u++) {
            double largest = -INFINITY;
            for (size_t f = 0; f < FEATURES; f++) {
                double sum = w("b", f * OUT + u);
                for (size_t i = 0; i < IN; i++)
                    sum += x[r * IN + i] * w("W", (f * IN + i) * OUT + u);
                largest = sum > largest ? sum : largest;
            }
            near(y[r * OUT + u], largest);
        }
    drop(&l);
}

static void srelu_bends_at_two_places(void **state)
{
    (void)state;
    lowered_layer l = lower_one("SReLU", "4", "", "1.2.2", ROWS, 1);
    const double *y = compute(&l, x, 0, fill);
    for (size_t i = 0; i < ROWS * IN; i++) {
        const double left = w("t_left", i % IN), right = left + fabs(w("t_right", i % IN));
        near(y[i], x[i] >= right ? right + w("a_right", i % IN) * (x[i] - right)
                   : x[i] > left ? x[i]
                                 : left + w("a_left", i % IN) * (x[i] - left));
    }
    drop(&l);
}

static void parametric_softplus_has_two_numbers_for_each_place(void **state)
{
    (void)state;
    lowered_layer l = lower_one("ParametricSoftplus", "4", "\"alpha_init\":0.2", "1.2.2", ROWS, 1);
    const double *y = compute(&l, x, 0, fill);
    for (size_t i = 0; i < ROWS * IN; i++)
        near(y[i], w("alphas", i % IN) * log1p(exp(w("betas", i % IN) * x[i])));
    drop(&l);
}

static void time_distributed_dense_is_dense_at_every_step(void **state)
{
    (void)state;
    lowered_layer l = lower_one("TimeDistributedDense", "3,4",
                                "\"output_dim\":2,\"activation\":\"linear\"", "1.2.2", 1, 1);
    const double *y = compute(&l, x, 0, fill);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t u = 0; u < OUT; u++)
            near(y[r * OUT + u], dense(x + r * IN, "kernel", "bias", u, OUT, 0));
    drop(&l);
}

static void what_does_not_fit_is_refused(void **state)
{
    static const struct {
        const char *class_name, *shape, *config;
    } bad[] = {
        {"Highway", "3,4", ""},
        {"MaxoutDense", "4", "\"output_dim\":0,\"nb_feature\":3"},
        {"MaxoutDense", "4", "\"output_dim\":2,\"nb_feature\":-3"},
        {"MaxoutDense", "4", "\"output_dim\":2,\"nb_feature\":\"three\""},
        {"SReLU", "4", "\"shared_axes\":[7]"},
        {"ParametricSoftplus", "null", ""},
        {"Dot", "4", "\"axes\":1"},
        {"EinsumDense", "4", "\"equation\":7,\"output_shape\":2"},
        {"EinsumDense", "4", "\"equation\":\"ab,bc->\",\"output_shape\":2"},
        {"EinsumDense", "4", "\"equation\":\"ab,bc->ac\",\"output_shape\":[2,3]"},
        {"EinsumDense", "4", "\"equation\":\"ab,bc->ac\",\"output_shape\":-2"},
        {"EinsumDense", "4", "\"equation\":\"ab,bc->ac\",\"output_shape\":9e18"},
        {"EinsumDense", "4", "\"equation\":\"ab,bc->ac\",\"output_shape\":2,\"bias_axes\":\"b\""},
        {"EinsumDense", "4", "\"equation\":\"aa,ac->ac\",\"output_shape\":2"},
        {"EinsumDense", "4", "\"equation\":\"ab,bc->ca\",\"output_shape\":2"},
        {"EinsumDense", "4", "\"equation\":\"ab,bd->ac\",\"output_shape\":2"},
        {"EinsumDense", "4", "\"equation\":\"abc,cd->abd\",\"output_shape\":[4,2]"},
        {"EinsumDense", "4", "\"equation\":\"abcdefghij,jk->abcdefghik\",\"output_shape\":2"},
        {"EinsumDense", "4,4", "\"equation\":\"abc,cd->abd\",\"output_shape\":[3,2]"},
        {"Attention", "4,4", ""},
        {"RNN", "4,4", ""},
        {"RNN", "4,4", "\"cell\":{\"class_name\":\"LSTMCell\",\"config\":{\"units\":-1}}"},
        {"RNN", "4,4", "\"cell\":{\"class_name\":\"ConvLSTM2DCell\",\"config\":{\"filters\":2}}"},
        {"RNN", "4,4",
         "\"cell\":{\"class_name\":\"LSTMCell\",\"registered_name\":\"my>LSTMCell\",\"config\":{"
         "\"units\":2}}"},
        {"RNN", "4,4", "\"cell\":{\"class_name\":\"StackedRNNCells\",\"config\":{\"cells\":[]}}"},
        {"RNN", "4,4", "\"cell\":{\"class_name\":\"StackedRNNCells\",\"config\":{\"cells\":[7]}}"},
        {"RNN", "4", "\"cell\":{\"class_name\":\"GRUCell\",\"config\":{\"units\":2}}"},
    };
    (void)state;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        char json[1024];
        pg__graph *g = NULL;
        pg__leaves leaves = {0};
        pg__lowered low;
        const pg__rules *rules;
        pg_err err = {0};
        assert_ok(pg__rules_of(&rules, "2.15", NULL));
        snprintf(json, sizeof json,
                 "{\"class_name\":\"Sequential\",\"config\":[{\"class_name\":\"%s\",\"config\":"
                 "{\"name\":\"l\",\"batch_input_shape\":[null,%s]%s%s}}]}",
                 bad[k].class_name, bad[k].shape, bad[k].config[0] ? "," : "", bad[k].config);
        assert_ok(pg__graph_parse(&g, json, strlen(json), &err));
        pg_status st = pg__leaves_of(&leaves, g->root, g->dialect, &err);
        if (st == PG_OK) {
            st = pg__lower(
                &low,
                &(pg__lower_opts){
                    .graph = g, .leaves = &leaves, .rules = rules, .n_rows = 4, .training = 1},
                &err);
            pg__leaves_fini(&leaves);
        }
        if (st == PG_OK || st == PG_E_NOMEM || !strstr(err.msg, "l"))
            fail_msg("%s: %d, %s", json, st, err.msg);
        pg__graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(highway_mixes_its_input_with_a_dense_layer, setup),
        cmocka_unit_test_setup(maxout_takes_the_largest_of_its_features, setup),
        cmocka_unit_test_setup(srelu_bends_at_two_places, setup),
        cmocka_unit_test_setup(parametric_softplus_has_two_numbers_for_each_place, setup),
        cmocka_unit_test_setup(time_distributed_dense_is_dense_at_every_step, setup),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
