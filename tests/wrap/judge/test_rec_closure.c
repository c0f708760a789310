#include "pg_test.h"
#include "wrap/wrapper_json.h"

static void matches_unknown_arguments_by_their_role(void **state)
{
    (void)state;
    static const char *const slices[] = {"\"arguments\": {\"total\": 2, \"which\": 1, \"dim\": 7}",
                                         "\"arguments\": {\"total\": 2, \"which\": 0, \"dim\": 7}"};
    assert_judged("wrapper closure certain 2", .slices = slices, .n = 2);
}

static void believes_ranges_of_one_size(void **state)
{
    (void)state;
    static const char *const starts[] = {"\"arguments\": {\"start\": 0, \"n\": 16}",
                                         "\"arguments\": {\"start\": 16, \"n\": 16}"};
    static const char *const index[] = {"\"arguments\": {\"k\": 0, \"size\": 16}",
                                        "\"arguments\": {\"k\": 1, \"size\": 16}"};
    assert_judged("wrapper closure likely 2", .slices = starts, .n = 2);
    assert_judged("wrapper closure likely 2", .slices = index, .n = 2);
}

static void believes_closures_of_one_expression(void **state)
{
    (void)state;
    static const char *const same[] = {"\"function\": [\"4wEA\", [0], null]",
                                       "\"function\": [\"4wEA\", [1], null]"};
    static const char *const none[] = {"", ""};
    assert_judged("wrapper closure likely 2", .slices = same, .n = 2);
    assert_judged("wrapper closure likely 2", .slices = none, .n = 2, .slice_class = "MySplitter");
}

static void refuses_views_of_the_input(void **state)
{
    (void)state;
    static const char *const differ[] = {"\"function\": [\"4wEA\", null, null]",
                                         "\"function\": [\"4wEB\", null, null]"};
    static const char *const turned[] = {"\"arguments\": {\"k\": 0}", "\"arguments\": {\"k\": 1}"};
    static const char *const degrees[] = {"\"arguments\": {\"deg\": 0, \"c\": 3}",
                                          "\"arguments\": {\"deg\": 90, \"c\": 3}"};
    static const char *const none[] = {"", ""};
    assert_refused("cut the batch", .slices = differ, .n = 2);
    assert_refused("cut the batch", .slices = turned, .n = 2);
    assert_refused("cut the batch", .slices = degrees, .n = 2);
    assert_refused("not a slice", .slices = none, .n = 2, .slice_class = "RandomFlip");
}

static void its_names_do_not_count_replicas(void **state)
{
    (void)state;
    assert_true(pg__is_slice_name("tf.split") && pg__is_not_one_each("tf.split"));
    assert_true(pg__is_not_one_each("tf_op_layer_strided_slice"));
    assert_true(pg__is_slice_name("lambda_1"));
    assert_false(pg__is_not_one_each("lambda_1"));
    assert_false(pg__is_slice_name("dense_1") || pg__is_not_one_each("dense_1"));
}

PG_TEST_MAIN(cmocka_unit_test(matches_unknown_arguments_by_their_role),
             cmocka_unit_test(its_names_do_not_count_replicas),
             cmocka_unit_test(believes_ranges_of_one_size),
             cmocka_unit_test(believes_closures_of_one_expression),
             cmocka_unit_test(refuses_views_of_the_input))
