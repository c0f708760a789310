/* Noise in training: what each number becomes, given what was drawn, and how it is distributed;
 * outside of training nothing happens. Formulas: keras/layers/regularization of 2.15 and 3.6. */
#include "model/lower_test.h"

#include <math.h>

enum { ROWS = 3000, FEATURES = 7, N = ROWS * FEATURES };

static const double alpha = -1.7580993408473766; /* what SELU tends to */

static double *numbers(void)
{
    double *x = malloc(N * sizeof *x);
    for (size_t i = 0; i < N; i++) /* mean 0, variance 1 */
        x[i] = sqrt(3) * (2 * ((double)((i * 7919) % N) + 0.5) / N - 1);
    return x;
}

static void near(double a, double b, double bound)
{
    if (!(fabs(a - b) <= bound))
        fail_msg("%.9g is not %.9g", a, b);
}

static void moments(const double *v, double *mean, double *variance)
{
    *mean = *variance = 0;
    for (size_t i = 0; i < N; i++)
        *mean += v[i] / N;
    for (size_t i = 0; i < N; i++)
        *variance += (v[i] - *mean) * (v[i] - *mean) / N;
}

static const char *const all[][2] = {{"GaussianNoise", "\"stddev\":0.25"},
                                     {"GaussianNoise", "\"sigma\":0.25"}, /* Keras 1 */
                                     {"GaussianDropout", "\"rate\":0.2"},
                                     {"GaussianDropout", "\"p\":0.2"},
                                     {"AlphaDropout", "\"rate\":0.3,\"noise_shape\":null"}};
#define N_ALL (sizeof all / sizeof *all)

static void nothing_happens_outside_of_training(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_ALL; k++) {
        lowered_layer l = lower_one(all[k][0], "7", all[k][1], "3.6", ROWS, 0);
        assert_int_equal(l.st, PG_OK);
        assert_int_equal(l.low.tape.n_insts, 0);
        assert_int_equal(l.low.outputs[0], l.low.inputs[0]);
        drop(&l);
    }
}

static void gaussian_noise_is_added(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        double *x = numbers(), mean, variance;
        lowered_layer l = lower_one(all[k][0], "7", all[k][1], "2.15", ROWS, 1);
        const double *y = compute(&l, x, 5, NULL), *drawn = result_of(&l, PG_OP_normal);
        for (size_t i = 0; i < N; i++)
            near(y[i], x[i] + 0.25 * drawn[i], 1e-15);
        for (size_t i = 0; i < N; i++)
            x[i] = y[i] - x[i];
        moments(x, &mean, &variance);
        near(mean, 0, 4 * 0.25 / sqrt(N));
        near(variance, 0.0625, 4 * 0.0625 * sqrt(2.0 / N));
        drop(&l);
        free(x);
    }
}

static void gaussian_dropout_multiplies(void **state)
{
    (void)state;
    for (size_t k = 2; k < 4; k++) {
        double *x = numbers(), mean, variance;
        lowered_layer l = lower_one(all[k][0], "7", all[k][1], "2.15", ROWS, 1);
        const double *y = compute(&l, x, 5, NULL), *drawn = result_of(&l, PG_OP_normal);
        for (size_t i = 0; i < N; i++)
            near(y[i], x[i] * (1 + 0.5 * drawn[i]), 1e-14); /* sqrt(0.2 / 0.8) */
        for (size_t i = 0; i < N; i++)
            x[i] = y[i] / x[i];
        moments(x, &mean, &variance);
        near(mean, 1, 4 * 0.5 / sqrt(N));
        near(variance, 0.25, 4 * 0.25 * sqrt(2.0 / N));
        drop(&l);
        free(x);
    }
}

static void alpha_dropout_keeps_mean_and_variance(void **state)
{
    const double rate = 0.3, a = pow((1 - rate) * (1 + rate * alpha * alpha), -0.5),
                 b = -a * alpha * rate;
    double *x = numbers(), mean, variance;
    size_t n_dropped = 0;
    (void)state;
    lowered_layer l = lower_one(all[4][0], "7", all[4][1], "3.6", ROWS, 1);
    const double *y = compute(&l, x, 5, NULL), *drawn = result_of(&l, PG_OP_dropout);
    for (size_t i = 0; i < N; i++) {
        near(y[i], a * (drawn[i] == 0 ? alpha : x[i]) + b, 1e-14);
        n_dropped += drawn[i] == 0;
    }
    near((double)n_dropped / N, rate, 4 * sqrt(rate * (1 - rate) / N));
    moments(y, &mean, &variance);
    near(mean, 0, 4 / sqrt(N));
    near(variance, 1, 0.03);
    drop(&l);
    free(x);
}

static void steps_share_the_noise_that_noise_shape_says(void **state)
{
    double x[2 * 3 * 4];
    (void)state;
    for (size_t i = 0; i < 24; i++)
        x[i] = 1;
    lowered_layer l =
        lower_one("AlphaDropout", "3,4", "\"rate\":0.5,\"noise_shape\":[null,1,4]", "3.6", 2, 1);
    const double *y = compute(&l, x, 7, NULL);
    for (size_t i = 0; i < 24; i++)
        near(y[i], y[i / 12 * 12 + i % 4], 0);
    drop(&l);
}

static void steps_have_numbers_of_their_own(void **state)
{
    const double x[8] = {0};
    (void)state;
    lowered_layer l = lower_one("GaussianNoise", "4", "\"stddev\":1", "3.6", 2, 1),
                  m = lower_one("GaussianNoise", "4", "\"stddev\":1", "3.6", 2, 1);
    assert_memory_not_equal(compute(&l, x, 7, NULL), compute(&m, x, 8, NULL), sizeof x);
    drop(&l);
    drop(&m);
}

static void rates_that_are_none_are_refused(void **state)
{
    static const char *const bad[][2] = {{"GaussianNoise", "\"stddev\":-0.1"},
                                         {"GaussianNoise", "\"stddev\":\"much\""},
                                         {"GaussianNoise", "\"stddev\":[0.1]"},
                                         {"GaussianDropout", "\"rate\":1"},
                                         {"GaussianDropout", "\"rate\":-0.5"},
                                         {"GaussianDropout", "\"seed\":1"},
                                         {"AlphaDropout", "\"rate\":1e300"},
                                         {"AlphaDropout", "\"rate\":0.5,\"noise_shape\":[2]"},
                                         {"ActivityRegularization", "\"l1\":{}"}};
    (void)state;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        lowered_layer l = lower_one(bad[k][0], "7", bad[k][1], "3.6", 4, 1);
        if (l.st != PG_E_FORMAT && l.st != PG_E_MISMATCH)
            fail_msg("%s %s: %d", bad[k][0], bad[k][1], l.st);
        assert_non_null(strstr(l.err.msg, "l: "));
        drop(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_happens_outside_of_training),
        cmocka_unit_test(gaussian_noise_is_added),
        cmocka_unit_test(gaussian_dropout_multiplies),
        cmocka_unit_test(alpha_dropout_keeps_mean_and_variance),
        cmocka_unit_test(steps_share_the_noise_that_noise_shape_says),
        cmocka_unit_test(steps_have_numbers_of_their_own),
        cmocka_unit_test(rates_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
