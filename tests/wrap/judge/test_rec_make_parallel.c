#include "pg_test.h"
#include "wrap/wrapper_json.h"

static void knows_its_arguments_and_the_misspelt_copy(void **state)
{
    (void)state;
    static const char *const plain[] = {"\"arguments\": {\"idx\": 0, \"parts\": 2}",
                                        "\"arguments\": {\"idx\": 1, \"parts\": 2}"};
    static const char *const typo[] = {"\"arguments\": {\"idx\": 0, \"partss\": 2}",
                                       "\"arguments\": {\"idx\": 1, \"partss\": 2}"};
    assert_judged("wrapper make_parallel certain 2", .slices = plain, .n = 2);
    assert_judged("wrapper make_parallel certain 2", .slices = typo, .n = 2);
}

static void knows_the_merge_layer_of_keras_1(void **state)
{
    (void)state;
    static const char *const plain[] = {"\"arguments\": {\"idx\": 0, \"parts\": 2}",
                                        "\"arguments\": {\"idx\": 1, \"parts\": 2}"};
    assert_judged("wrapper make_parallel certain 2", .slices = plain, .n = 2,
                  .merge_class = "Merge",
                  .merge_config = "\"mode\": \"concat\", \"concat_axis\": 0");
    assert_refused("batch axis", .slices = plain, .n = 2, .merge_class = "Merge",
                   .merge_config = "\"mode\": \"ave\"");
}

static void refuses_parts_that_do_not_fit(void **state)
{
    (void)state;
    static const char *const wrong[] = {"\"arguments\": {\"idx\": 0, \"parts\": 3}",
                                        "\"arguments\": {\"idx\": 1, \"parts\": 3}"};
    assert_refused("contradict", .slices = wrong, .n = 2);
}

PG_TEST_MAIN(cmocka_unit_test(knows_its_arguments_and_the_misspelt_copy),
             cmocka_unit_test(knows_the_merge_layer_of_keras_1),
             cmocka_unit_test(refuses_parts_that_do_not_fit))
