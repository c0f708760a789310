#include "pg_test.h"
#include "wrap/wrapper_json.h"

static void knows_its_two_arguments(void **state)
{
    (void)state;
    static const char *const two[] = {"\"arguments\": {\"i\": 0, \"parts\": 2}",
                                      "\"arguments\": {\"i\": 1, \"parts\": 2}"};
    static const char *const three[] = {"\"arguments\": {\"i\": 0, \"parts\": 3}",
                                        "\"arguments\": {\"i\": 1, \"parts\": 3}",
                                        "\"arguments\": {\"i\": 2, \"parts\": 3}"};
    assert_judged("wrapper multi_gpu_model certain 2", .slices = two, .n = 2);
    assert_judged("wrapper multi_gpu_model certain 3", .slices = three, .n = 3);
}

static void refuses_numbers_that_contradict_the_calls(void **state)
{
    (void)state;
    static const char *const count[] = {"\"arguments\": {\"i\": 0, \"parts\": 4}",
                                        "\"arguments\": {\"i\": 1, \"parts\": 4}"};
    static const char *const twice[] = {"\"arguments\": {\"i\": 0, \"parts\": 2}",
                                        "\"arguments\": {\"i\": 0, \"parts\": 2}"};
    static const char *const from1[] = {"\"arguments\": {\"i\": 1, \"parts\": 2}",
                                        "\"arguments\": {\"i\": 2, \"parts\": 2}"};
    assert_refused("contradict", .slices = count, .n = 2);
    assert_refused("contradict", .slices = twice, .n = 2);
    assert_refused("contradict", .slices = from1, .n = 2);
}

static void knows_its_layer_names(void **state)
{
    (void)state;
    assert_true(pg__rec_multi_gpu.slice_name("lambda_1"));
    assert_true(pg__rec_multi_gpu.slice_name("lambda"));
    assert_false(pg__rec_multi_gpu.slice_name("dense_1"));
    assert_string_equal(pg__named_kind(), pg__rec_multi_gpu.name);
}

PG_TEST_MAIN(cmocka_unit_test(knows_its_two_arguments),
             cmocka_unit_test(refuses_numbers_that_contradict_the_calls),
             cmocka_unit_test(knows_its_layer_names))
