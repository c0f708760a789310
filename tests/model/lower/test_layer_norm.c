/* Normalisation over axes that the config names in another order than the input has. */
#include "model/lower_test.h"

#include <math.h>

enum { ROWS = 2, STEPS = 2, CHANNELS = 3, N = STEPS * CHANNELS };

static double number(const char *name, size_t i)
{
    return (name[0] == 'g' ? 1 : 0.3) + 0.2 * (double)i;
}

static void fill(const char *name, double *v, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        v[i] = number(name, i);
}

/* As Keras does: their sizes are turned round, their numbers are not. */
static void parameters_have_the_order_of_the_config(void **state)
{
    double x[ROWS * N];
    (void)state;
    for (size_t i = 0; i < ROWS * N; i++)
        x[i] = sin(1.7 * (double)i);
    for (int turned = 0; turned < 2; turned++) {
        lowered_layer l = lower_one("LayerNormalization", "2,3",
                                    turned ? "\"axis\":[-1,-2],\"epsilon\":0.01"
                                           : "\"axis\":[1,2],\"epsilon\":0.01",
                                    turned ? "3.6" : "2.15", ROWS, 1);
        assert_ok(l.st);
        assert_int_equal(l.low.n_params, 2);
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(l.low.params[i].shape.d[0], turned ? CHANNELS : STEPS);
            assert_int_equal(l.low.params[i].shape.d[1], turned ? STEPS : CHANNELS);
        }
        const double *y = compute(&l, x, 0, fill);
        for (size_t r = 0; r < ROWS; r++) {
            const double *row = x + r * N;
            double mean = 0, var = 0;
            for (size_t i = 0; i < N; i++)
                mean += row[i] / N;
            for (size_t i = 0; i < N; i++)
                var += (row[i] - mean) * (row[i] - mean) / N;
            for (size_t i = 0; i < N; i++)
                assert_true(
                    fabs(y[r * N + i] - ((row[i] - mean) / sqrt(var + 0.01) * number("gamma", i) +
                                         number("beta", i))) < 1e-12);
        }
        drop(&l);
    }
}

PG_TEST_MAIN(cmocka_unit_test(parameters_have_the_order_of_the_config))
