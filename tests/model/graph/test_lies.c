/* Configs that lie: each is refused in a line that names the layer and the key; numbers stand for
 * true and false, as they do in Python. tests/hostile/lies.c tries more of them at random. */
#include "model/lower_test.h"

static void gives(const char *class_name, const char *shape, const char *config, const char *want)
{
    lowered_layer l = lower_one(class_name, shape, config, "3.6.0", 2, 1);
    const char *told =
        l.st == PG_OK ? PG_SHAPE(&l.low.tape.values[l.low.outputs[0]].shape) : l.err.msg;
    if (!strstr(told, want))
        fail_msg("%s %s gave %s, not %s", class_name, config, told, want);
    drop(&l);
}

static void numbers_are_true_or_false(void **state)
{
    lowered_layer l;
    (void)state;
    gives("LSTM", "4,3", "\"units\":5,\"return_sequences\":1", "(2, 4, 5)");
    gives("LSTM", "4,3", "\"units\":5,\"return_sequences\":0", "(2, 5)");
    l = lower_one("Dense", "3", "\"units\":5,\"use_bias\":0,\"trainable\":0", "3.6.0", 2, 1);
    assert_int_equal(l.st, PG_OK);
    assert_int_equal(l.low.n_params, 1);
    assert_false(l.low.params[0].trained);
    drop(&l);
}

static void flags_are_neither_texts_nor_lists(void **state)
{
    (void)state;
    gives("LSTM", "4,3", "\"units\":5,\"return_sequences\":\"no\"",
          "l: \"return_sequences\" is nei");
    gives("Dense", "3", "\"units\":5,\"use_bias\":[]", "l: \"use_bias\" is neither");
    gives("Dense", "3", "\"units\":5,\"use_bias\":null", "(2, 5)");
    gives("RNN", "4,3",
          "\"cell\":{\"class_name\":\"GRUCell\",\"config\":{\"name\":\"c\",\"units\":2,"
          "\"reset_after\":{}}}",
          "c: \"reset_after\" is neither");
}

/* What Keras refuses when it reads the description. */
static void names_types_and_steps_are_those_that_keras_takes(void **state)
{
    (void)state;
    gives("Dense", "3", "\"units\":5,\"dtype\":\"float33\"", "l: \"dtype\" float33 is not a type");
    gives("Dense", "3", "\"units\":5,\"dtype\":\"mixed_float16\"", "(2, 5)");
    gives("Dense", "3",
          "\"units\":5,\"dtype\":{\"class_name\":\"DTypePolicy\",\"config\":{\"name\":\"f\"}}",
          "l: \"dtype\" f is not a type");
    gives("Conv2D", "9,9,1", "\"filters\":2,\"kernel_size\":3,\"strides\":2,\"dilation_rate\":2",
          "l: \"strides\" and \"dilation_rate\" are both above 1");
    gives("Conv2D", "9,9,1", "\"filters\":2,\"kernel_size\":3,\"strides\":2", "(2, 4, 4, 2)");
}

static void numbers_and_axes_are_looked_at(void **state)
{
    (void)state;
#define HEADS "\"num_heads\":2,\"key_dim\":2,"
    gives("LSTM", "4,3", "\"units\":5,\"dropout\":1e300", "l: \"dropout\" is not in [0, 1)");
    gives("GRU", "4,3", "\"units\":5,\"recurrent_dropout\":-1", "l: \"recurrent_dropout\" is not");
    gives("LayerNormalization", "4,3", "\"epsilon\":\"small\"", "l: \"epsilon\"");
    gives("PReLU", "4,3", "\"shared_axes\":1", "l: \"shared_axes\" is not a list");
    gives("EinsumDense", "4,3", "\"equation\":\"abc,cd->abd\",\"output_shape\":[\"x\",4]",
          "l: \"output_shape\" does not fit");
    gives("EinsumDense", "4,3", "\"equation\":\"abc,cd->abd\",\"output_shape\":[null,4]",
          "(2, 4, 4)");
}

static void tables_are_looked_at(void **state)
{
    (void)state;
    gives("IntegerLookup", "5", "\"vocabulary\":[3,5,4]", "(2, 5)");
    gives("IntegerLookup", "5", "\"vocabulary\":[3,5,3]", "l: \"vocabulary\" holds 3 twice");
    gives("Resizing", "5,6,2",
          "\"height\":4,\"width\":4,\"pad_to_aspect_ratio\":true,\"fill_mode\":\"reflect\"",
          "l: \"fill_mode\" is not constant");
}

/* Each step is a call of its own, and each step of those. */
static void steps_of_steps_are_counted(void **state)
{
    (void)state;
#define STEPS_OF(layer) "\"layer\":{\"class_name\":" layer "}"
    const char *config = STEPS_OF("\"TimeDistributed\",\"config\":{\"name\":\"t\"," STEPS_OF(
        "\"BatchNormalization\",\"config\":{\"name\":\"b\"}") "}");
    gives("TimeDistributed", "3,4,2", config, "(2, 3, 4, 2)");
    gives("TimeDistributed", "30,30,2", config, "at every step, which is supported for up to 512 rows");
}

#define WRAPPED(config)                                                                \
    "\"layer\":{\"class_name\":\"Functional\",\"config\":{\"name\":\"f\",\"layers\":[" \
    "{\"class_name\":\"InputLayer\",\"name\":\"i\",\"config\":{\"name\":\"i\","        \
    "\"batch_input_shape\":[null,3]},\"inbound_nodes\":[]},"                           \
    "{\"class_name\":\"Functional\",\"name\":\"g\",\"config\":" config ","             \
    "\"inbound_nodes\":[[[\"i\",0,0,{}]]]}],"                                          \
    "\"input_layers\":[[\"i\",0,0]],\"output_layers\":[[\"g\",0,0]]}}"

/* ... and was called for ever. */
static void a_model_gives_something(void **state)
{
    (void)state;
    gives("TimeDistributed", "4,3",
          WRAPPED("{\"name\":\"g\",\"layers\":[{\"class_name\":\"InputLayer\",\"name\":\"j\","
                  "\"config\":{\"name\":\"j\",\"batch_input_shape\":[null,3]},"
                  "\"inbound_nodes\":[]}],\"input_layers\":[[\"j\",0,0]],"
                  "\"output_layers\":[]}"),
          "g: is a model without outputs");
}

/* Layers that are called with one tensor twice. */
static void expect_attention(const char *class_name, const char *config, const char *want)
{
    char json[2048];
    pg_err err = {0};
    pg__lowered low = {0};
    const pg__rules *rules;
    snprintf(json, sizeof json,
             "{\"class_name\":\"Functional\",\"config\":{\"name\":\"m\",\"layers\":["
             "{\"class_name\":\"InputLayer\",\"name\":\"i\",\"config\":{\"name\":\"i\","
             "\"batch_input_shape\":[null,4,3]},\"inbound_nodes\":[]},"
             "{\"class_name\":\"%s\",\"name\":\"l\",\"config\":{\"name\":\"l\",%s},"
             "\"inbound_nodes\":[[[\"i\",0,0,{}],[\"i\",0,0,{}]]]}],"
             "\"input_layers\":[[\"i\",0,0]],\"output_layers\":[[\"l\",0,0]]}}",
             class_name, config);
    template_ t = template_of(json);
    assert_ok(pg__rules_of(&rules, "2.15.0", NULL));
    const pg_status st = pg__lower(
        &low,
        &(pg__lower_opts){
            .graph = t.g, .leaves = &t.leaves, .rules = rules, .n_rows = 2, .training = 1},
        &err);
    const char *told = st == PG_OK ? PG_SHAPE(&low.tape.values[low.outputs[0]].shape) : err.msg;
    if (!strstr(told, want))
        fail_msg("%s %s gave %s, not %s", class_name, config, told, want);
    pg__lowered_fini(&low);
    template_free(&t);
}

static void attention_is_over_axes_that_exist(void **state)
{
    (void)state;
    expect_attention("MultiHeadAttention", HEADS "\"attention_axes\":1", "(2, 4, 3)");
    expect_attention("MultiHeadAttention", HEADS "\"attention_axes\":9223372036854775807",
                     "l: \"attention_axes\"");
    expect_attention("MultiHeadAttention", HEADS "\"attention_axes\":[1,9223372036854775807]",
                     "l: \"attention_axes\"");
    expect_attention("MultiHeadAttention", HEADS "\"dropout\":-1", "l: \"dropout\" is not in");
    expect_attention("Attention", "\"score_mode\":{}", "l: \"score_mode\" is not a text");
}

PG_TEST_MAIN(cmocka_unit_test(numbers_are_true_or_false),
             cmocka_unit_test(flags_are_neither_texts_nor_lists),
             cmocka_unit_test(names_types_and_steps_are_those_that_keras_takes),
             cmocka_unit_test(numbers_and_axes_are_looked_at),
             cmocka_unit_test(tables_are_looked_at), cmocka_unit_test(steps_of_steps_are_counted),
             cmocka_unit_test(a_model_gives_something),
             cmocka_unit_test(attention_is_over_axes_that_exist))
