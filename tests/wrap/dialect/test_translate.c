#include "pg_test.h"

#include "wrap/convert/convert_torch.h"
#include "wrap/dialect/translate.h"

static char *translate(const char *text, int to, int same)
{
    static pg__str out;
    pg_err err = {0};
    size_t n = 0;
    pg__str_fini(&out);
    if (pg__translate(&out, &n, text, strlen(text), to, same, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return out.s;
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no %s there", part);
}

static void assert_has_not(const char *text, const char *part)
{
    if (strstr(text, part))
        fail_msg("%s is there", part);
}

#define INPUT(name)                                                          \
    "{\"class_name\": \"InputLayer\", \"name\": \"" name "\", \"config\": {" \
    "\"batch_input_shape\": [null, 4], \"ragged\": false, \"name\": \"" name \
    "\"}, \"inbound_nodes\": []}"
#define INNER                                                                              \
    "{\"class_name\": \"Sequential\", \"name\": \"enc\", \"config\": {\"name\": \"enc\", " \
    "\"layers\": [{\"class_name\": \"Dense\", \"config\": {\"name\": \"d\", "              \
    "\"batch_input_shape\": [null, 4], \"units\": 4}}]}, \"inbound_nodes\": "
#define MODEL(nodes, add)                                                                        \
    "{\"class_name\": \"Functional\", \"config\": {\"name\": \"m\", \"layers\": [" INPUT(        \
        "a") ", " INPUT("b") ", " INNER nodes "}, {\"class_name\": \"Add\", \"name\": \"sum\", " \
                             "\"config\": {\"name\": \"sum\"}, \"inbound_nodes\": " add          \
                             "}], \"input_layers\": "                                            \
                             "[[\"a\", 0, 0], [\"b\", 0, 0]], \"output_layers\": [[\"sum\", 0, " \
                             "0], [\"enc\", 1, 0]]}}"

static const char keras2[] = MODEL("[[[\"a\", 0, 0, {}]], [[\"b\", 0, 0, {}]]]",
                                   "[[[\"enc\", 1, 0, {}], [\"enc\", 2, 0, {}]]]");

static void counts_calls_of_models_as_the_other_keras_does(void **state)
{
    (void)state;
    const char *three = translate(keras2, 3, 0);
    assert_has(three, "\"keras_history\": [\"enc\", 0, 0]");
    assert_has(three, "\"keras_history\": [\"enc\", 1, 0]");
    assert_has_not(three, "[\"enc\", 2");
    assert_has(three, "[\"sum\", 0, 0], [\"enc\", 0, 0]]"); /* a Sequential's output */
    assert_has(three, "{\"args\": [[{\"class_name\": \"__keras_tensor__\"");
    assert_has(three, "\"batch_shape\": [null, 4]");
    assert_has_not(three, "ragged");
    assert_has(three, "\"name\": \"d_input\""); /* the inner model's input has a layer of its own */
    char *copy = strdup(three);
    const char *two = translate(copy, 2, 0);
    assert_has(two, "[[[\"enc\", 1, 0, {}], [\"enc\", 2, 0, {}]]]");
    assert_has(two, "[[[\"a\", 0, 0, {}]], [[\"b\", 0, 0, {}]]]");
    assert_has(two, "[\"sum\", 0, 0], [\"enc\", 1, 0]]");
    free(copy);
}

static void leaves_calls_of_unbuilt_models_alone(void **state)
{
    (void)state;
    const char *three = translate(MODEL("[[[\"a\", 0, 0, {}]], [[\"b\", 0, 0, {}]]]",
                                        "[[[\"enc\", 0, 0, {}], [\"enc\", 1, 0, {}]]]"),
                                  3, 0);
    assert_has(three, "[\"enc\", 0, 0]");
    assert_has(three, "[\"enc\", 1, 0]");
}

#define LAYER(class_name, config, nodes)                                                    \
    "{\"class_name\": \"Functional\", \"config\": {\"name\": \"m\", \"layers\": [" INPUT(   \
        "a") ", {\"class_name\": \"" class_name "\", \"name\": \"l\", \"config\": {" config \
             "}, \"inbound_nodes\": " nodes "}], \"input_layers\": [[\"a\", 0, 0]], "       \
             "\"output_layers\": [[\"l\", 0, 0]]}}"
#define CALL2     "[[[\"a\", 0, 0, {}]]]"
#define TENSOR(s) "{\"class_name\": \"__keras_tensor__\", \"config\": {\"keras_history\": " s "}}"

static void drops_members_wherever_they_stand(void **state)
{
    (void)state;
    assert_has(translate(LAYER("GRU",
                               "\"time_major\": false, \"dynamic\": false, \"units\": 2, "
                               "\"reset_after\": true",
                               CALL2),
                         3, 0),
               "\"config\": {\"units\": 2, \"reset_after\": true}");
    assert_has(translate(LAYER("GRU",
                               "\"units\": 2, \"reset_after\": true, \"time_major\": false, "
                               "\"dynamic\": false",
                               CALL2),
                         3, 0),
               "\"config\": {\"units\": 2, \"reset_after\": true}");
    assert_has(translate(LAYER("Dense",
                               "\"dynamic\": false, \"name\": \"l\", \"batch_input_shape\": "
                               "[null, 4], \"units\": 3",
                               CALL2),
                         3, 0),
               "\"config\": {\"name\": \"l\", \"units\": 3}");
}

static void says_what_its_absence_meant(void **state)
{
    (void)state;
    assert_has(translate(LAYER("GRU", "\"units\": 2", CALL2), 3, 0), "\"reset_after\": false");
    const char *two = translate(LAYER("GRU", "\"units\": 2", CALL2), 2, 1);
    assert_has(two, "\"reset_after\": false");
    assert_has(two, "\"module\": \"keras.layers\"");
    assert_has(two, CALL2);
}

static void hands_states_over(void **state)
{
    (void)state;
    const char *three =
        translate(LAYER("LSTM", "\"units\": 2",
                        "[[[\"a\", 0, 0, {}], [\"a\", 0, 0, {}], [\"a\", 0, 0, {}]]]"),
                  3, 0);
    assert_has(three, "\"kwargs\": {\"initial_state\": [{");
    char *copy = strdup(three);
    assert_has(translate(copy, 2, 0),
               "[[[\"a\", 0, 0, {}], [\"a\", 0, 0, {}], [\"a\", 0, 0, {}]]]");
    free(copy);
}

static void keeps_training_only_where_it_was_said(void **state)
{
    (void)state;
    const char *dropout = translate(
        LAYER("Dropout", "\"rate\": 0.5",
              "[{\"args\": [" TENSOR(
                  "[\"a\", 0, 0]") "], \"kwargs\": {\"training\": false, \"mask\": null}}]"),
        2, 0);
    assert_has(dropout, "[[[\"a\", 0, 0, {}]]]");
    const char *norm = translate(
        LAYER("BatchNormalization", "\"axis\": -1",
              "[{\"args\": [" TENSOR("[\"a\", 0, 0]") "], \"kwargs\": {\"training\": false}}]"),
        2, 0);
    assert_has(norm, "[[[\"a\", 0, 0, {\"training\": false}]]]");
}

static void refuses_what_predicts_something_else(void **state)
{
    (void)state;
    static const char *const texts[] = {
        LAYER("LSTM", "\"units\": 2, \"recurrent_activation\": \"hard_sigmoid\"", CALL2),
        LAYER("Discretization", "\"bin_boundaries\": [0.0]", CALL2),
        LAYER("LocallyConnected1D", "\"filters\": 2", CALL2),
        LAYER("Conv2DTranspose", "\"groups\": 2", CALL2),
        LAYER("Add", "\"name\": \"l\"",
              "[[[\"_CONSTANT_VALUE\", -1, 3, {\"y\": "
              "[\"_CONSTANT_VALUE\", -1, 3]}]]]"),
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pg_err err = {0};
        pg__str out = {0};
        size_t n = 0;
        assert_fails(PG_E_UNSUPPORTED,
                     pg__translate(&out, &n, texts[i], strlen(texts[i]), 3, 0, &err), &err);
        pg__str_fini(&out);
    }
}

static void does_not_break_a_text_that_says_things_twice(void **state)
{
    (void)state;
    static const char text[] =
        LAYER("Dense",
              "\"dtype\": {\"class_name\": \"Policy\", \"config\": {\"name\": \"x\", "
              "\"dynamic\": false, \"batch_input_shape\": 1}}, \"dtype\": \"float32\"",
              CALL2);
    pg_err err = {0};
    pg__str out = {0};
    size_t n = 0;
    const pg_status st = pg__translate(&out, &n, text, strlen(text), 3, 0, &err);
    assert_true(st == PG_OK || st == PG_E_FORMAT);
    pg__str_fini(&out);
}

static void finds_every_class_of_its_table(void **state)
{
    (void)state;
    size_t n = 0, n_classes = 0;
    const pg_layout_row *rows = pg_layout_rows(&n);
    for (size_t i = 0; i < n; i++)
        for (const char *word = rows[i].keras; *word; n_classes++) {
            char name[64];
            const size_t len = strcspn(word, " ");
            (void)snprintf(name, sizeof name, "%.*s", (int)len, word);
            assert_int_equal(pg__torch_kind_of(name), i);
            word += len + (word[len] == ' ');
        }
    assert_true(n_classes > 20);
    assert_int_equal(pg__torch_kind_of("Conv2"), PG_TORCH_NONE);
    assert_int_equal(pg__torch_kind_of("LocallyConnected2D"), PG_TORCH_NONE);
    assert_int_equal(pg__torch_kind_of(""), PG_TORCH_NONE);
}

PG_TEST_MAIN(cmocka_unit_test(counts_calls_of_models_as_the_other_keras_does),
             cmocka_unit_test(leaves_calls_of_unbuilt_models_alone),
             cmocka_unit_test(drops_members_wherever_they_stand),
             cmocka_unit_test(says_what_its_absence_meant), cmocka_unit_test(hands_states_over),
             cmocka_unit_test(keeps_training_only_where_it_was_said),
             cmocka_unit_test(refuses_what_predicts_something_else),
             cmocka_unit_test(does_not_break_a_text_that_says_things_twice),
             cmocka_unit_test(finds_every_class_of_its_table))
