#include "pg_test.h"

#include "pg/inspect.h"

static void expect_counts(const char *name, int known, uint64_t trainable, uint64_t others)
{
    char path[512];
    pg_store *s = NULL;
    pg_param_counts n = {0};
    (void)snprintf(path, sizeof path, "%s/files/%s", pg_testdata, name);
    assert_ok(pg_store_open(&s, path, NULL, NULL));
    assert_ok(pg_count_params(&n, s, NULL));
    assert_int_equal(n.known, known);
    assert_int_equal(n.trainable, trainable);
    assert_int_equal(n.non_trainable, others);
    pg_store_close(s);
}

static void tells_moving_statistics_apart(void **state)
{
    (void)state;
    expect_counts("keras-2.2.4/cnnbn-g2/template_model.h5", 1, 455, 22);
}

static void counts_the_template_of_a_wrapper(void **state)
{
    (void)state;
    expect_counts("keras-2.2.4/cnnbn-g2/wrapper_model.h5", 1, 455, 22);
    expect_counts("keras-3.6.0-native/cnnbn-frozen/wrapper.keras", 1, 84, 165);
}

static void counts_frozen_layers(void **state)
{
    (void)state;
    expect_counts("keras-3.6.0-native/cnnbn-frozen/template.keras", 1, 84, 165);
}

static void says_nothing_without_a_description(void **state)
{
    (void)state;
    expect_counts("keras-2.2.4/cnnbn-g2/template_weights.h5", 0, 0, 0);
    expect_counts("pytorch/cnn/single.safetensors", 0, 0, 0);
}

PG_TEST_MAIN(cmocka_unit_test(tells_moving_statistics_apart),
             cmocka_unit_test(counts_the_template_of_a_wrapper),
             cmocka_unit_test(counts_frozen_layers),
             cmocka_unit_test(says_nothing_without_a_description))
