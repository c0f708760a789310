#include "pg_test.h"

#include "base/str.h"
#include "model/graph/edit.h"

#define IN(name)                                                                               \
    "{\"class_name\":\"InputLayer\",\"name\":\"" name "\",\"config\":{\"name\":\"" name "\"}," \
    "\"inbound_nodes\":[]}"
#define LAYER(class_, name, config, from)                                               \
    "{\"class_name\":\"" class_ "\",\"name\":\"" name "\",\"config\":{\"name\":\"" name \
    "\"" config "},\"inbound_nodes\":[[[\"" from "\",0,0,{}]]]}"
#define ENDS(in, out) "\"input_layers\":[[\"" in "\",0,0]],\"output_layers\":[[\"" out "\",0,0]]"
/* i -> base (a, b: Dense) -> head -> act */
#define MODEL(head)                                                                             \
    "{\"class_name\":\"Model\",\"config\":{\"name\":\"m\",\"layers\":[" IN(                     \
        "i") ","                                                                                \
             "{\"class_name\":\"Model\",\"name\":\"base\",\"config\":{\"name\":\"base\","       \
             "\"layers\":[" IN("j") "," LAYER(                                                  \
                 "Dense", "a", ",\"units\":3,\"trainable\":true",                               \
                 "j") "," LAYER("Dense", "b", ",\"units\":4",                                   \
                                "a") "]," ENDS("j", "b") "},\"inbound_nodes\":"                 \
                                                         "[[[\"i\",0,0,{}]]]}," head "," LAYER( \
                                                             "Activation", "act",               \
                                                             ",\"activation\":\"softmax\"",     \
                                                             "head") "]," ENDS("i", "act") "}}"
#define HEAD LAYER("Dense", "head", ",\"units\":7", "base")

typedef struct outcome {
    pg_status st;
    pg_err err;
    pg__graph *g;
} outcome;

static outcome start(const char *text)
{
    outcome o = {0};
    if (pg__graph_parse(&o.g, text, strlen(text), &o.err) != PG_OK)
        fail_msg("%s", o.err.msg);
    return o;
}

/* "base/a- base/b+ head+": what trains behind the patterns. */
static const char *freeze(const char *patterns)
{
    static char got[2400];
    outcome o = start(MODEL(HEAD));
    pg__edits e = {0};
    o.st = pg__edit_freeze(&e, o.g, patterns, &o.err);
    if (o.st == PG_OK)
        o.st = pg__edits_apply(&o.g, &e, &o.err);
    if (o.st == PG_OK) {
        const pg__model *base = o.g->root->layers[1].model;
        snprintf(got, sizeof got, "a%c b%c head%c act%c", base->layers[1].trainable ? '+' : '-',
                 base->layers[2].trainable ? '+' : '-', o.g->root->layers[2].trainable ? '+' : '-',
                 o.g->root->layers[3].trainable ? '+' : '-');
    } else {
        snprintf(got, sizeof got, "%s: %s; %s", pg_status_name(o.st), o.err.msg, advice_of(&o.err));
    }
    pg__edits_fini(&e);
    pg__graph_free(o.g);
    return got;
}

static void patterns_name_layers_and_models_around_them(void **state)
{
    (void)state;
    assert_string_equal(freeze("a"), "a- b+ head+ act+");
    assert_string_equal(freeze("base"), "a- b- head+ act+");
    assert_string_equal(freeze("base/b"), "a+ b- head+ act+");
    assert_string_equal(freeze("*"), "a- b- head- act-");
}

static void the_last_pattern_counts(void **state)
{
    (void)state;
    assert_string_equal(freeze("*,!head"), "a- b- head+ act-");
    assert_string_equal(freeze("!a,base"), "a- b- head+ act+");
    assert_string_equal(freeze("base,!a"), "a+ b- head+ act+");
}

static void a_pattern_must_mean_something(void **state)
{
    (void)state;
    assert_string_equal(freeze("a,heat"),
                        "PG_E_ARG: freeze: the model has no layer \"heat\"; set freeze=head");
    assert_string_equal(freeze("a,!"), "PG_E_ARG: freeze: \"a,!\": an empty pattern; ");
}

/* "units=3 activation=softmax", or what was said. */
static const char *replace(const char *model, uint64_t units, const char *activation)
{
    static char got[2400];
    pg__head head = {0};
    outcome o = start(model);
    pg__edits e = {0};
    o.st = pg__edit_head(&e, o.g, 0, units, activation, &o.err);
    if (o.st == PG_OK)
        o.st = pg__edits_apply(&o.g, &e, &o.err);
    if (o.st == PG_OK)
        o.st = pg__head_of(&head, o.g, 0, &o.err);
    int64_t n = 0;
    if (o.st != PG_OK)
        snprintf(got, sizeof got, "%s: %s", pg_status_name(o.st), o.err.msg);
    else if (!pg__json_int(pg__json_get(head.layer->config, "units"), &n) &&
             !pg__json_int(pg__json_get(head.layer->config, "filters"), &n))
        snprintf(got, sizeof got, "no number");
    else
        snprintf(got, sizeof got, "%s %d %s", head.layer->name, (int)n,
                 pg__json_get_str((head.activation ? head.activation : head.layer)->config,
                                  "activation"));
    pg__edits_fini(&e);
    pg__graph_free(o.g);
    return got;
}

static void the_head_stands_before_activations(void **state)
{
    (void)state;
    assert_string_equal(replace(MODEL(HEAD), 3, NULL), "head 3 softmax");
    assert_string_equal(replace(MODEL(HEAD), 1, "sigmoid"), "head 1 sigmoid");
    assert_string_equal(replace(MODEL(HEAD), 1, NULL),
                        "PG_E_ARG: replace head: the softmax of one number is always 1");
    assert_string_equal(replace(MODEL(LAYER("Conv2D", "head", ",\"filters\":7", "base")), 12, NULL),
                        "head 12 softmax");
    /* of a model inside the model */
    assert_string_equal(replace(MODEL(LAYER("Dropout", "head", ",\"rate\":0.5", "base")), 2, NULL),
                        "b 2 softmax");
}

/* MobileNet's: a convolution, pooled, its classes named once more. */
static void pooling_and_a_reshape_may_follow(void **state)
{
    (void)state;
#define CONV   LAYER("Conv2D", "conv", ",\"filters\":7", "base")
#define POOLED CONV "," LAYER("GlobalAveragePooling2D", "pool", "", "conv")
    assert_string_equal(
        replace(MODEL(CONV "," LAYER("GlobalMaxPooling2D", "head", "", "conv")), 3, NULL),
        "conv 3 softmax");
    outcome o =
        start(MODEL(POOLED "," LAYER("Reshape", "head", ",\"target_shape\":[1, 7]", "pool")));
    pg__edits e = {0};
    assert_int_equal(pg__edit_head(&e, o.g, 0, 12, NULL, NULL), PG_OK);
    assert_int_equal(pg__edits_apply(&o.g, &e, NULL), PG_OK);
    assert_non_null(strstr(o.g->text, "\"filters\":12"));
    assert_non_null(strstr(o.g->text, "\"target_shape\":[1, 12]"));
    pg__edits_fini(&e);
    pg__graph_free(o.g);
    assert_string_equal(
        replace(MODEL(POOLED "," LAYER("Reshape", "head", ",\"target_shape\":[7, 1]", "pool")), 3,
                NULL),
        "PG_E_UNSUPPORTED: the output of the model is made by head (Reshape), not by a Dense layer "
        "or "
        "a convolution: it has no number of classes that could be replaced");
}

static void what_has_no_number_of_classes_is_named(void **state)
{
    (void)state;
    assert_string_equal(replace(MODEL(LAYER("Flatten", "head", "", "base")), 3, NULL),
                        "PG_E_UNSUPPORTED: the output of the model is made by head (Flatten), not "
                        "by a Dense layer or a convolution: it has no number of classes that "
                        "could be replaced");
}

static void other_bytes_stay(void **state)
{
    (void)state;
    outcome o = start(MODEL(HEAD));
    pg__edits e = {0};
    assert_int_equal(pg__edit_head(&e, o.g, 0, 10, NULL, NULL), PG_OK);
    assert_int_equal(pg__edit_freeze(&e, o.g, "a,head", NULL), PG_OK);
    assert_int_equal(pg__edits_apply(&o.g, &e, NULL), PG_OK);
    assert_non_null(strstr(o.g->text, "\"config\":{\"trainable\": false, \"name\":\"head\","
                                      "\"units\":10}"));
    assert_non_null(strstr(o.g->text, "{\"name\":\"a\",\"units\":3,\"trainable\":false}"));
    assert_non_null(strstr(o.g->text, LAYER("Dense", "b", ",\"units\":4", "a")));
    pg__edits_fini(&e);
    pg__graph_free(o.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_name_layers_and_models_around_them),
        cmocka_unit_test(the_last_pattern_counts),
        cmocka_unit_test(a_pattern_must_mean_something),
        cmocka_unit_test(the_head_stands_before_activations),
        cmocka_unit_test(pooling_and_a_reshape_may_follow),
        cmocka_unit_test(what_has_no_number_of_classes_is_named),
        cmocka_unit_test(other_bytes_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
