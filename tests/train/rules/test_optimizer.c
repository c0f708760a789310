/* Optimizers from Keras' configs: what is theirs is taken, what is foreign left alone, and a value
 * of another type refused by name. */
#include "pg_test.h"

#include <string.h>

#include "base/json.h"
#include "train/rules/optimizer.h"

static pg_status read_config(pg__optimizer *o, const char *name, const char *config, pg_err *err)
{
    char text[512];
    const pg__rules *rules = NULL;
    pg__json *j = NULL;
    snprintf(text, sizeof text, "{\"class_name\": \"%s\", \"config\": %s}", name, config);
    assert_ok(pg__rules_of(&rules, "3.6.0", NULL));
    assert_ok(pg__json_parse(&j, text, strlen(text), NULL));
    const pg_status st = pg__optimizer_of_json(o, j, rules, -1, err);
    pg__json_free(j);
    return st;
}

static void values_of_a_wrong_type_are_refused_by_name(void **state)
{
    static const struct {
        const char *name, *config, *want;
    } cases[] = {
        {"Adam", "{\"learning_rate\": \"0.1\"}",
         "optimizer Adam: learning_rate is the text \"0.1\"; it takes a number"},
        {"Adam", "{\"learning_rate\": \"fast\"}",
         "optimizer Adam: learning_rate is the text \"fast\"; it takes a number"},
        {"Adam", "{\"learning_rate\": [0.1]}",
         "optimizer Adam: learning_rate is a list; it takes a number"},
        {"SGD", "{\"lr\": true}", "optimizer SGD: lr is true; it takes a number"},
        {"Adam", "{\"beta_1\": \"x\"}",
         "optimizer Adam: beta_1 is the text \"x\"; it takes a number"},
        {"Adam", "{\"beta_1\": {\"class_name\": \"CosineDecay\"}}",
         "optimizer Adam: beta_1 is an object; it takes a number"},
        {"Adam", "{\"amsgrad\": \"no\"}",
         "optimizer Adam: amsgrad is the text \"no\"; it takes true or false"},
        {"SGD", "{\"nesterov\": 0.5}", "optimizer SGD: nesterov is 0.5; it takes true or false"},
        {"SGD", "{\"momentum\": 1.5}", "optimizer SGD: momentum must lie between 0 and 1"},
        {"Adam", "{\"epsilon\": -1e-7}", "optimizer Adam: epsilon must not be negative"},
        {"Ftrl", "{\"learning_rate\": 0}", "optimizer Ftrl: the learning rate must be above 0"},
        {"Adam", "{\"use_ema\": true, \"ema_momentum\": 2}",
         "optimizer Adam: ema_momentum must lie between 0 and 1"},
        {"Adam", "{\"use_ema\": true, \"ema_overwrite_frequency\": 1.5}",
         "optimizer Adam: ema_overwrite_frequency is not a number of steps"},
        {"Ftrl", "{\"learning_rate_power\": 1}",
         "optimizer Ftrl: learning_rate_power must not be above 0"},
        {"Lion", "{\"epsilon\": 1}", "optimizer Lion has no \"epsilon\""},
        {"Adam", "{\"use_ema\": \"yes\"}",
         "optimizer Adam: use_ema is the text \"yes\"; it takes true or false"},
        {"Adam", "[0.1]", "optimizer Adam: config is a list; it takes an object"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pg__optimizer o;
        pg_err err = {0};
        assert_fails(PG_E_ARG, read_config(&o, cases[i].name, cases[i].config, &err), &err);
        assert_string_equal(err.msg, cases[i].want);
    }
}

static void what_is_not_covered_is_refused_by_name(void **state)
{
    pg__optimizer o;
    pg_err err = {0};
    (void)state;
    assert_fails(PG_E_UNSUPPORTED, read_config(&o, "Lamb", "{}", &err), &err);
    assert_string_equal(
        err.msg, "optimizer Lamb is not supported: its steps depend on norms of whole variables");
    assert_fails(PG_E_UNSUPPORTED,
                 read_config(&o, "Adam", "{\"gradient_accumulation_steps\": 4}", &err), &err);
    assert_string_equal(err.msg, "optimizer Adam: gradient_accumulation_steps is not supported");
    assert_string_equal(advice_of(&err), "set accumulate=4");
}

static void null_and_schedules_and_foreign_keys_are_let_in(void **state)
{
    pg__optimizer o;
    pg_err err = {0};
    (void)state;
    assert_ok(
        read_config(&o, "Adam",
                    "{\"name\": \"adam\", \"learning_rate\": null, \"clipnorm\": null, "
                    "\"use_ema\": false, \"ema_momentum\": 0.99, \"loss_scale_factor\": null, "
                    "\"gradient_accumulation_steps\": null, \"amsgrad\": 1, \"beta_1\": 0}",
                    &err));
    assert_true(o.lr == (double)0.001f && o.clipnorm == 0);
    assert_true(o.amsgrad == 1 && o.beta_1 == 0 && o.beta_2 == 0.999);
    assert_ok(
        read_config(&o, "SGD", "{\"learning_rate\": {\"class_name\": \"CosineDecay\"}}", &err));
    assert_true(o.lr == (double)0.01f);
    assert_ok(read_config(&o, "SGD", "null", &err));
    assert_true(o.lr == (double)0.01f);
}

static void keys_of_another_optimizer_are_refused(void **state)
{
    pg__optimizer o;
    pg_err err = {0};
    (void)state;
    assert_fails(PG_E_ARG, read_config(&o, "SGD", "{\"beta_1\": 0.9}", &err), &err);
    assert_string_equal(err.msg, "optimizer SGD has no \"beta_1\"");
    assert_fails(PG_E_ARG, read_config(&o, "SGD", "{\"learning_rat\": 0.9}", &err), &err);
}

/* The second slot after a step by a gradient of 1. */
static float share_of_new(const char *name, const char *config, int legacy)
{
    pg__optimizer o;
    pg_err err = {0};
    float w = 1, slots[3] = {0};
    const float g = 1;
    assert_ok(read_config(&o, name, config, &err));
    o.legacy = legacy;
    const pg__update u = pg__optimizer_step(&o);
    void *at[PG_SLOT_AVERAGE + 1] = {&slots[0], &slots[1], &slots[2]}; /* no moving average */
    pg__optimizer_of(pg__optimizer_kind_of(&o))->f32(&u, &w, &g, at, 1);
    return slots[1];
}

/* Keras takes 0.999 from 1 as Python does, and only then as float32; its legacy kernels have
 * 0.999f. */
static void shares_are_rounded_where_keras_rounds(void **state)
{
    (void)state;
    assert_true(share_of_new("Adam", "{\"beta_2\": 0.999}", 0) == 0.001f);
    assert_true(share_of_new("Adam", "{\"beta_2\": 0.999}", 1) == 1 - 0.999f);
    assert_true(share_of_new("Nadam", "{\"beta_2\": 0.999}", 0) == 1 - 0.999f);
}

PG_TEST_MAIN(cmocka_unit_test(shares_are_rounded_where_keras_rounds),
             cmocka_unit_test(values_of_a_wrong_type_are_refused_by_name),
             cmocka_unit_test(what_is_not_covered_is_refused_by_name),
             cmocka_unit_test(null_and_schedules_and_foreign_keys_are_let_in),
             cmocka_unit_test(keys_of_another_optimizer_are_refused))
