/* Which key of a config speaks of which variable: each is found, however deep its layer is wrapped.
 */
#include "model/match_test.h"
#include "train/rules/penalty.h"

#define REG(key, l2) "\"" key "\":{\"class_name\":\"L2\",\"config\":{\"l2\":" l2 "}},"

/* "0.1 0 0.2 ": the l2 of each variable of the model's only layer */
static const char *penalties(const char *class_name, const char *config)
{
    static char got[256];
    char json[2048];
    snprintf(json, sizeof json,
             "{\"class_name\":\"Sequential\",\"config\":[{\"class_name\":\"%s\",\"config\":"
             "{%s\"name\":\"l\"}}]}",
             class_name, config);
    template_ t = template_of(json);
    const pg__leaf *leaf = &t.leaves.v[0];
    got[0] = 0;
    for (size_t i = 0; i < leaf->vars.n; i++) {
        const pg__param p = {.leaf = leaf, .var = &leaf->vars.v[i], .shape = {.rank = 2}};
        pg__penalty found;
        pg_err err;
        assert_int_equal(pg__penalty_of(&found, &p, &err), PG_OK);
        snprintf(got + strlen(got), sizeof got - strlen(got), "%g%s ", found.l2,
                 found.constraint == PG_MAX_NORM ? "m" : "");
    }
    template_free(&t);
    return got;
}

#define ALL                          \
    REG("kernel_regularizer", "0.1") \
    REG("recurrent_regularizer", "0.2") REG("bias_regularizer", "0.3")
#define LSTM(units) \
    "{\"class_name\":\"LSTM\",\"config\":{" ALL "\"name\":\"r\",\"units\":" units "}},"
#define MAX_NORM(key) \
    "\"" key "\":{\"class_name\":\"MaxNorm\",\"config\":{\"max_value\":2,\"axis\":0}},"

static void kernels_with_a_name_of_their_own_are_found(void **state)
{
    (void)state;
    assert_string_equal(penalties("LSTM", ALL "\"units\":3,"), "0.1 0.2 0.3 ");
    assert_string_equal(penalties("GRU", MAX_NORM("recurrent_constraint") "\"units\":3,"),
                        "0 0m 0 ");
    assert_string_equal(
        penalties("SeparableConv2D",
                  REG("depthwise_regularizer", "0.1") REG("pointwise_regularizer", "0.2")
                      MAX_NORM("pointwise_constraint") "\"filters\":2,\"kernel_size\":[2,2],"),
        "0.1 0.2m 0 ");
    assert_string_equal(
        penalties("DepthwiseConv2D", REG("depthwise_regularizer", "0.1") "\"kernel_size\":[2,2],"),
        "0.1 0 ");
    assert_string_equal(penalties("ConvLSTM2D", ALL "\"filters\":2,\"kernel_size\":[2,2],"),
                        "0.1 0.2 0.3 ");
    assert_string_equal(penalties("Dense", ALL "\"units\":3,"), "0.1 0.3 ");
}

static void wrapped_layers_have_their_own(void **state)
{
    (void)state;
    assert_string_equal(penalties("Bidirectional", "\"layer\":" LSTM("3")),
                        "0.1 0.2 0.3 0.1 0.2 0.3 ");
    assert_string_equal(
        penalties("Bidirectional",
                  "\"layer\":" LSTM("3") "\"backward_layer\":"
                                         "{\"class_name\":\"LSTM\",\"config\":{" REG(
                                             "recurrent_regularizer",
                                             "0.7") "\"name\":\"b\",\"units\":3}},"),
        "0.1 0.2 0.3 0 0.7 0 ");
    assert_string_equal(penalties("RNN", "\"cell\":{\"class_name\":\"LSTMCell\",\"config\":{" ALL
                                         "\"name\":\"c\",\"units\":3}},"),
                        "0.1 0.2 0.3 ");
    assert_string_equal(
        penalties("TimeDistributed",
                  "\"layer\":{\"class_name\":\"TimeDistributed\",\"config\":{"
                  "\"name\":\"t\",\"layer\":{\"class_name\":\"Dense\",\"config\":{" ALL
                  "\"name\":\"d\",\"units\":3}}}},"),
        "0.1 0.3 ");
}

static void keras_1_has_letters(void **state)
{
    (void)state;
    assert_string_equal(
        penalties("Dense",
                  "\"W_regularizer\":{\"name\":\"L1L2Regularizer\",\"l1\":0,\"l2\":0.5},"
                  "\"b_constraint\":{\"name\":\"MaxNorm\",\"m\":2,\"axis\":0},\"output_dim\":3,"),
        "0.5 0m ");
    assert_string_equal(
        penalties("SimpleRNN",
                  "\"U_regularizer\":{\"name\":\"WeightRegularizer\",\"l1\":0,\"l2\":0.25},"
                  "\"output_dim\":3,"),
        "0 0.25 0 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_with_a_name_of_their_own_are_found),
        cmocka_unit_test(wrapped_layers_have_their_own),
        cmocka_unit_test(keras_1_has_letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
