/* Functions between layers: what a call gives, and what is refused. That values and gradients are
 * Keras': tests/interop/train_operations.py. */
#include "pg_test.h"

#include <string.h>

#include "base/limits.h"
#include "model/lower/lower.h"
#include "model/lower/operation.h"

#define TENSOR(name) \
    "{\"class_name\":\"__keras_tensor__\",\"config\":{\"keras_history\":[\"" name "\",0,0]}}"
#define INPUT2                                                                  \
    "{\"class_name\":\"InputLayer\",\"name\":\"i\",\"config\":{\"name\":\"i\"," \
    "\"batch_input_shape\":[null,4,6,3]},\"inbound_nodes\":[]}"
#define INPUT3                                                                  \
    "{\"class_name\":\"InputLayer\",\"name\":\"i\",\"config\":{\"name\":\"i\"," \
    "\"batch_shape\":[null,4,6,3]},\"inbound_nodes\":[]}"
#define MODEL(input, layer)                                                                  \
    "{\"class_name\":\"Functional\",\"config\":{\"name\":\"m\",\"layers\":[" input "," layer \
    "],\"input_layers\":[[\"i\",0,0]],\"output_layers\":[[\"f\",0,0]]}}"

static uint64_t n_rows = 5;
static double slope; /* of the last activation */

/* The shape of the model's output, or the message it is refused with. */
static const char *lowered(const char *text)
{
    static char told[sizeof(pg_err)];
    pg__graph *g = NULL;
    pg__leaves leaves = {0};
    pg__lowered low = {0};
    const pg__rules *rules = NULL;
    pg_err err = {0};
    assert_int_equal(pg__graph_parse(&g, text, strlen(text), &err), PG_OK);
    pg_status st = pg__leaves_of(&leaves, g->root, g->dialect, &err);
    assert_int_equal(pg__rules_of(&rules, g->dialect == 3 ? "3.6.0" : "2.15.0", &err), PG_OK);
    const pg__lower_opts opts = {
        .graph = g, .leaves = &leaves, .rules = rules, .n_rows = n_rows, .training = 1};
    if (st == PG_OK)
        st = pg__lower(&low, &opts, &err);
    for (uint32_t i = 0; st == PG_OK && i < low.tape.n_insts; i++)
        if (low.tape.insts[i].op == pg__op_of(PG_OP_act))
            slope = ((const pg__act_attrs *)low.tape.insts[i].attrs)->b;
    snprintf(told, sizeof told, "%s%s%s", st == PG_OK ? "" : err.msg, err.detail[0] ? ": " : "",
             st == PG_OK ? PG_SHAPE(&low.tape.values[low.outputs[0]].shape) : err.detail);
    pg__lowered_fini(&low);
    pg__leaves_fini(&leaves);
    pg__graph_free(g);
    return told;
}

static void expect(const char *text, const char *want)
{
    const char *told = lowered(text);
    if (!strstr(told, want))
        fail_msg("%s\ngave %s, not %s", text, told, want);
}

/* tf.keras: one call of `function`. */
static void tf_keras(const char *function, const char *node, const char *want)
{
    char text[2048];
    snprintf(text, sizeof text,
             MODEL(INPUT2, "{\"class_name\":\"TFOpLambda\",\"name\":\"f\",\"config\":{\"name\":"
                           "\"f\",\"trainable\":true,\"function\":\"%s\"},\"inbound_nodes\":[%s]}"),
             function, node);
    expect(text, want);
}

/* Keras 3, as a .h5 has it: without modules. */
static void keras3(const char *class_name, const char *config, const char *args, const char *want)
{
    char text[2048];
    snprintf(text, sizeof text,
             MODEL(INPUT3, "{\"class_name\":\"%s\",\"name\":\"f\",\"config\":{%s},"
                           "\"inbound_nodes\":[{\"args\":[%s],\"kwargs\":{}}]}"),
             class_name, config, args);
    expect(text, want);
}

static void tf_keras_calls_give_shapes(void **state)
{
    (void)state;
    tf_keras("__operators__.add", "[\"i\",0,0,{\"y\":3.0,\"name\":null}]", "(5, 4, 6, 3)");
    tf_keras("math.multiply", "[\"_CONSTANT_VALUE\",-1,2.0,{\"y\":[\"i\",0,0]}]", "(5, 4, 6, 3)");
    tf_keras("math.reduce_mean", "[\"i\",0,0,{\"axis\":[1,-2]}]", "(5, 3)");
    tf_keras("math.reduce_sum", "[\"i\",0,0,{\"axis\":1,\"keepdims\":true}]", "(5, 1, 6, 3)");
    tf_keras("reshape", "[\"i\",0,0,{\"shape\":[-1,8,9]}]", "(5, 8, 9)");
    tf_keras("concat", "[[\"i\",0,0,{\"axis\":1}],[\"i\",0,0,{\"axis\":1}]]", "(5, 8, 6, 3)");
    tf_keras("transpose", "[\"i\",0,0,{\"perm\":[0,3,1,2]}]", "(5, 3, 4, 6)");
    tf_keras("__operators__.getitem",
             "[\"i\",0,0,{\"slice_spec\":[{\"start\":null,\"stop\":null,\"step\":null},-1,"
             "{\"start\":1,\"stop\":-2,\"step\":null}]}]",
             "(5, 3, 3)");
}

/* An axis whose size is not known, cut by one item. */
static void open_axis(const char *item, const char *want)
{
    char text[2048];
    snprintf(text, sizeof text,
             MODEL("{\"class_name\":\"InputLayer\",\"name\":\"i\",\"config\":{\"name\":\"i\","
                   "\"batch_input_shape\":[null,null,3]},\"inbound_nodes\":[]}",
                   "{\"class_name\":\"SlicingOpLambda\",\"name\":\"f\",\"config\":{\"name\":\"f\","
                   "\"function\":\"__operators__.getitem\"},\"inbound_nodes\":[[\"i\",0,0,"
                   "{\"slice_spec\":[{\"start\":null,\"stop\":null},%s]}]]}"),
             item);
    expect(text, want);
}

/* There may be fewer cells than a slice asks for. */
static void axes_of_unknown_size_are_cut(void **state)
{
    (void)state;
    open_axis("0", "(5, 3)");
    open_axis("-2", "(5, 3)");
    open_axis("{\"start\":1,\"stop\":null}", "(5, None, 3)");
    open_axis("{\"start\":null,\"stop\":2}", "(5, None, 3)");
    open_axis("{\"start\":-2,\"stop\":-1}", "(5, 1, 3)");
    open_axis("{\"start\":1,\"stop\":-1}", "(5, None, 3)");
    open_axis("{\"start\":2,\"stop\":2}", "slices of step 1");
    open_axis("{\"start\":-1,\"stop\":2}", "slices of step 1");
    open_axis("{\"start\":null,\"stop\":0}", "slices of step 1");
    open_axis("{\"start\":null,\"stop\":3,\"step\":2}", "slices of step 1");
    open_axis("2147483647", "slices of step 1");
    open_axis("-9223372036854775807", "slices of step 1");
}

/* Not "is none": Keras 3 has it. */
static void activations_that_are_missing_are_not_called_unknown(void **state)
{
    (void)state;
    static const char layer[] = "{\"class_name\":\"Activation\",\"name\":\"f\",\"config\":{"
                                "\"name\":\"f\",\"activation\":\"%s\"},"
                                "\"inbound_nodes\":[[[\"i\",0,0,{}]]]}";
    static const char *const cases[][2] = {{"log_softmax", "\"log_softmax\" is not supported"},
                                           {"logsoftmax", "is not one of Keras'"}};
    for (size_t k = 0; k < 2; k++) {
        char one[512], text[2048];
        snprintf(one, sizeof one, layer, cases[k][0]);
        snprintf(text, sizeof text, MODEL(INPUT2, "%s"), one);
        expect(text, cases[k][1]);
    }
}

static void keras_3_calls_give_shapes(void **state)
{
    (void)state;
    keras3("Multiply", "\"name\":\"f\"", TENSOR("i") ",0.5", "(5, 4, 6, 3)");
    keras3("Add", "\"name\":\"f\"", TENSOR("i") "," TENSOR("i"), "(5, 4, 6, 3)");
    keras3("Mean", "\"axis\":[1,2],\"keepdims\":true", TENSOR("i"), "(5, 1, 1, 3)");
    keras3("Concatenate", "\"axis\":-1", "[" TENSOR("i") "," TENSOR("i") "]", "(5, 4, 6, 6)");
    keras3("Cast", "\"dtype\":\"bfloat16\"", TENSOR("i"), "(5, 4, 6, 3)");
    keras3("GetItem", "\"name\":\"f\"",
           TENSOR("i") ",[{\"class_name\":\"__ellipsis__\",\"config\":{}},0]", "(5, 4, 6)");
}

static void calls_that_cannot_be_are_refused_by_name(void **state)
{
    (void)state;
    tf_keras("math.cumsum", "[\"i\",0,0,{\"axis\":1}]", "TFOpLambda of math.cumsum: f");
    keras3("Cumsum", "\"axis\":1", TENSOR("i"), "Cumsum: f");
    keras3("Cast", "\"dtype\":\"int32\"", TENSOR("i"), "Cast to anything but floating point");
    tf_keras("math.add", "[\"i\",0,0,{\"y\":\"three\"}]", "f: math.add with an argument");
    tf_keras("math.add", "[\"i\",0,0,{}]", "f: math.add with an argument");
    tf_keras("math.add", "[\"i\",0,0,{\"y\":[[1.0,2.0],[3.0]]}]", "f: math.add with an argument");
    tf_keras("math.add", "[\"i\",0,0,{\"y\":[[[[1.0]]],[[[1.0]]]]}]", "constant for each row");
    tf_keras("math.add", "[\"i\",0,0,{\"y\":[1.0,2.0]}]", "f: cannot combine");
    tf_keras("math.add", "[\"i\",0,0,{\"y\":[]}]", "not a small array");
    tf_keras("math.reduce_mean", "[\"i\",0,0,{\"axis\":0}]", "over the rows of a batch");
    tf_keras("math.reduce_mean", "[\"i\",0,0,{}]", "over the rows of a batch");
    tf_keras("math.reduce_mean", "[\"i\",0,0,{\"axis\":9223372036854775807}]", "does not exist");
    tf_keras("math.reduce_mean", "[\"i\",0,0,{\"axis\":[1,1,1,1,1,1,1,1,1]}]", "more axes");
    tf_keras("reshape", "[\"i\",0,0,{\"shape\":[2,36]}]", "does not begin with -1");
    tf_keras("reshape", "[\"i\",0,0,{\"shape\":[-1,-5]}]", "anything but sizes");
    tf_keras("reshape", "[\"i\",0,0,{\"shape\":[-1,7]}]", "f: cannot reshape");
    tf_keras("transpose", "[\"i\",0,0,{\"perm\":[1,0,2,3]}]", "moves the batch axis");
    tf_keras("transpose", "[\"i\",0,0,{\"perm\":[0,1,1,2]}]", "invalid axis order");
    tf_keras("squeeze", "[\"i\",0,0,{\"axis\":1}]", "whose size is not 1");
    tf_keras("nn.softmax", "[\"i\",0,0,{\"axis\":1}]", "any axis but the last");
    tf_keras("concat", "[[\"i\",0,0,{\"axis\":0}],[\"i\",0,0,{\"axis\":0}]]", "along the rows");
    tf_keras("__operators__.getitem", "[\"i\",0,0,{\"slice_spec\":[0]}]", "slices of step 1");
    tf_keras("__operators__.getitem",
             "[\"i\",0,0,{\"slice_spec\":[{\"start\":null,\"stop\":null},{\"start\":-"
             "9223372036854775807,"
             "\"stop\":-9223372036854775807}]}]",
             "slices of step 1");
    tf_keras("__operators__.getitem",
             "[\"i\",0,0,{\"slice_spec\":[{\"start\":null,\"stop\":null},9223372036854775807]}]",
             "slices of step 1");
    keras3("GetItem", "\"name\":\"f\"", TENSOR("i") ",[null,0,0,0,0,0]", "slices of step 1");
    keras3("Concatenate", "\"axis\":-1", TENSOR("i"), "anything but a list of tensors");
}

/* A constant of one element more than PG_LIMIT_CONSTANT. */
static void large_constants_are_refused(void **state)
{
    static const char begin[] =
        MODEL(INPUT2, "{\"class_name\":\"TFOpLambda\",\"name\":\"f\",\"config\":{\"name\":\"f\","
                      "\"trainable\":true,\"function\":\"math.add\"},"
                      "\"inbound_nodes\":[[\"i\",0,0,{\"y\":[@]}]]}");
    const size_t n = PG_LIMIT_CONSTANT + 1, at = (size_t)(strchr(begin, '@') - begin);
    char *text = malloc(sizeof begin + 2 * n);
    (void)state;
    assert_non_null(text);
    memcpy(text, begin, at);
    for (size_t i = 0; i < n; i++)
        memcpy(text + at + 2 * i, "0,", 2);
    strcpy(text + at + 2 * n - 1, begin + at + 1);
    expect(text, "not a small array");
    free(text);
}

/* What would make another function of it. */
static void arguments_are_computed_or_refused(void **state)
{
    (void)state;
    tf_keras("nn.silu", "[\"i\",0,0,{\"beta\":1.0,\"name\":null}]", "(5, 4, 6, 3)");
    tf_keras("nn.silu", "[\"i\",0,0,{\"beta\":2.0}]", "f: nn.silu with \"beta\"");
    tf_keras("nn.bias_add", "[\"i\",0,0,{\"bias\":[1,2,3],\"data_format\":\"NHWC\"}]",
             "(5, 4, 6, 3)");
    tf_keras("nn.bias_add", "[\"i\",0,0,{\"bias\":[1,2,3],\"data_format\":\"NCHW\"}]",
             "f: nn.bias_add with \"data_format\"");
    tf_keras("nn.leaky_relu", "[\"i\",0,0,{\"alpha\":0.1}]", "(5, 4, 6, 3)");
    tf_keras("nn.leaky_relu", "[\"i\",0,0,{\"alpha\":[\"i\",0,0]}]",
             "a slope that is not a number");
    tf_keras("transpose", "[\"i\",0,0,{\"perm\":[0,3,1,2],\"conjugate\":false}]", "(5, 3, 4, 6)");
    keras3("GetItem", "\"name\":\"f\"",
           TENSOR("i") ",[{\"class_name\":\"__slice__\",\"config\":{\"start\":null,\"stop\":null,"
                       "\"step\":null}},{\"class_name\":\"__tensor__\",\"config\":{\"value\":[0,2],"
                       "\"dtype\":\"int64\"}}]",
           "slices of step 1");
}

/* A batch may have one row; axis 0 is the batch all the same. */
static void one_row_is_a_batch(void **state)
{
    (void)state;
    n_rows = 1;
    tf_keras("math.reduce_mean", "[\"i\",0,0,{\"axis\":0,\"keepdims\":true}]", "over the rows");
    tf_keras("math.reduce_mean", "[\"i\",0,0,{\"axis\":1}]", "(1, 6, 3)");
    n_rows = 5;
}

static void a_node_of_tensorflow_keeps_its_attributes(void **state)
{
    (void)state;
#define NODE(op, attr)                                                                       \
    MODEL(INPUT2,                                                                            \
          "{\"class_name\":\"TensorFlowOpLayer\",\"name\":\"f\",\"config\":{\"name\":\"f\"," \
          "\"trainable\":true,\"node_def\":{\"op\":\"" op "\",\"attr\":{" attr               \
          "}},\"constants\":{\"1\":[1,2,3]}},\"inbound_nodes\":[[[\"i\",0,0,{}]]]}")
    expect(NODE("BiasAdd", "\"data_format\":{\"s\":\"TkhXQw==\"}"), "(5, 4, 6, 3)");
    expect(NODE("BiasAdd", "\"data_format\":{\"s\":\"TkNIVw==\"}"), "the channels first");
    expect(NODE("LeakyRelu", "\"alpha\":{\"f\":0.125}"), "(5, 4, 6, 3)");
    assert_true(slope == 0.125);
}

/* ... and was waited for without an end. */
static void what_is_used_is_called(void **state)
{
    (void)state;
    expect("{\"class_name\":\"Functional\",\"config\":{\"name\":\"m\",\"layers\":[" INPUT3
           ",{\"class_name\":\"Elu\",\"module\":\"keras.src.ops.nn\",\"name\":\"e\",\"config\":{"
           "\"name\":\"e\"},"
           "\"inbound_nodes\":null},{\"class_name\":\"Relu\",\"name\":\"f\",\"config\":{"
           "\"name\":\"f\"},\"inbound_nodes\":[{\"args\":[" TENSOR(
               "e") "],\"kwargs\":{}}]}],"
                    "\"input_layers\":[[\"i\",0,0]],\"output_layers\":[[\"f\",0,0]]}}",
           "e: its output is used, but it is never called");
}

/* ConvNeXt's and InceptionResNetV2's own; in a .h5 anybody's class may be called so. */
static void classes_of_others_are_not_taken_for_keras(void **state)
{
    (void)state;
#define OWN(cls, config)                                                                         \
    MODEL(INPUT2,                                                                                \
          "{\"class_name\":\"" cls "\",\"name\":\"f\",\"config\":{\"name\":\"f\",\"trainable\":" \
          "true" config "},\"inbound_nodes\":[[[\"i\",0,0,{}]]]}")
    expect(OWN("LayerScale", ",\"init_values\":0.1,\"projection_dim\":3"), "(5, 4, 6, 3)");
    expect(OWN("LayerScale", ",\"init_values\":0.1,\"projection_dim\":-3"), "\"projection_dim\"");
    expect(OWN("StochasticDepth", ",\"drop_path_rate\":0.5"), "(5, 4, 6, 3)");
    expect(OWN("StochasticDepth", ",\"rate\":0.5"), "has no \"drop_path_rate\"");
    expect(OWN("StochasticDepth", ",\"drop_path_rate\":1"), "not in [0, 1)");
    expect(OWN("CustomScaleLayer", ",\"scale\":0.5"), "takes two tensors");
}

PG_TEST_MAIN(cmocka_unit_test(tf_keras_calls_give_shapes),
             cmocka_unit_test(axes_of_unknown_size_are_cut),
             cmocka_unit_test(activations_that_are_missing_are_not_called_unknown),
             cmocka_unit_test(keras_3_calls_give_shapes),
             cmocka_unit_test(calls_that_cannot_be_are_refused_by_name),
             cmocka_unit_test(large_constants_are_refused),
             cmocka_unit_test(arguments_are_computed_or_refused),
             cmocka_unit_test(what_is_used_is_called), cmocka_unit_test(one_row_is_a_batch),
             cmocka_unit_test(a_node_of_tensorflow_keeps_its_attributes),
             cmocka_unit_test(classes_of_others_are_not_taken_for_keras))
