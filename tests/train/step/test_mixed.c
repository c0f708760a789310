/* mixed.c - the scale of the loss as Keras' files tell it. What it does to a run is tried where
 * there is a device that computes in 16 bits: tests/backend/cuda/test_cuda_mixed.c. */
#include "pg_test.h"

#include "train/step/mixed.h"

static pg__json *json;

static const pg__json *read_scale(pg__loss_scale *s, const char *text)
{
    *s = (pg__loss_scale){0};
    pg__json_free(json);
    json = NULL;
    assert_ok(pg__json_parse(&json, text, strlen(text), NULL));
    return pg__loss_scale_of(s, json);
}

#define ADAM "{\"class_name\": \"Adam\", \"config\": {\"learning_rate\": 0.01}}"

static int drop_json(void **state)
{
    (void)state;
    pg__json_free(json);
    json = NULL;
    return 0;
}

/* Keras 2.15 and Keras 3 write it so. */
static void the_inner_optimizer_is_the_one(void **state)
{
    pg__loss_scale s;
    (void)state;
    const pg__json *own = read_scale(
        &s, "{\"class_name\": \"LossScaleOptimizerV3\", \"config\": {\"inner_optimizer\": " ADAM
            ", \"dynamic\": true, \"initial_scale\": 1024.0, \"dynamic_growth_steps\": 100}}");
    assert_string_equal(pg__json_get_str(own, "class_name"), "Adam");
    assert_true(s.now == 1024);
    assert_int_equal(s.growth_steps, 100);
    own = read_scale(&s, "{\"class_name\": \"LossScaleOptimizer\", \"config\": {\"name\": \"x\", "
                         "\"inner_optimizer\": " ADAM "}}");
    assert_string_equal(pg__json_get_str(own, "class_name"), "Adam");
    assert_true(s.now == 32768);
    assert_int_equal(s.growth_steps, 2000);
}

static void a_fixed_scale_stays(void **state)
{
    pg__loss_scale s;
    (void)state;
    (void)read_scale(&s, "{\"class_name\": \"LossScaleOptimizer\", \"config\": {"
                         "\"inner_optimizer\": " ADAM ", \"dynamic\": false, "
                         "\"initial_scale\": 8, \"dynamic_growth_steps\": null}}");
    assert_true(s.now == 8);
    assert_int_equal(s.growth_steps, 0);
}

static void other_optimizers_have_none(void **state)
{
    pg__loss_scale s;
    (void)state;
    const pg__json *own = read_scale(&s, ADAM);
    assert_ptr_equal(own, json);
    assert_true(s.now == 0);
}

/* A scale that would make nothing, or no number, of gradients is not taken. */
static void nonsense_is_left_alone(void **state)
{
    static const char *const scales[] = {"0", "-2", "1e300", "0.001"};
    (void)state;
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
        char text[300];
        pg__loss_scale s;
        snprintf(text, sizeof text,
                 "{\"class_name\": \"LossScaleOptimizer\", \"config\": {\"inner_optimizer\": " ADAM
                 ", \"initial_scale\": %s}}",
                 scales[k]);
        assert_string_equal(pg__json_get_str(read_scale(&s, text), "class_name"), "Adam");
        assert_true(s.now == 0);
    }
}

PG_TEST_MAIN(cmocka_unit_test_teardown(the_inner_optimizer_is_the_one, drop_json),
             cmocka_unit_test_teardown(a_fixed_scale_stays, drop_json),
             cmocka_unit_test_teardown(other_optimizers_have_none, drop_json),
             cmocka_unit_test_teardown(nonsense_is_left_alone, drop_json))
