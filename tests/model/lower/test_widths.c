#include "model/match_test.h"

/* A Functional model of these layers; its inputs are "a" and, if there is one, "b". */
#define MODEL(layers, inputs, outputs)                                              \
    "{\"class_name\":\"Functional\",\"config\":{\"name\":\"m\",\"layers\":[" layers \
    "],\"input_layers\":[" inputs "],\"output_layers\":[" outputs "]}}"
#define INPUT(name, shape)                                                              \
    "{\"class_name\":\"InputLayer\",\"name\":\"" name "\",\"config\":{\"name\":\"" name \
    "\",\"batch_input_shape\":[null," shape "]},\"inbound_nodes\":[]}"
#define CALLED(cls, name, config, nodes)                                                          \
    ",{\"class_name\":\"" cls "\",\"name\":\"" name "\",\"config\":{\"name\":\"" name "\"" config \
    "},\"inbound_nodes\":[" nodes "]}"
#define FROM(name) "[[\"" name "\",0,0,{}]]"
#define REF(name)  "[\"" name "\",0,0]"
#define SEQ(layers) \
    "{\"class_name\":\"Sequential\",\"config\":{\"name\":\"s\",\"layers\":[" layers "]}}"
#define UNITS(n) ",\"units\":" #n
#define CONV(n)  ",\"filters\":" #n ",\"kernel_size\":[2,2]"

/* "kernel 3x4, bias 4; " for each layer that holds any; "?" is not known. */
static const char *shapes(const char *json)
{
    static char got[4096];
    size_t at = 0;
    template_ t = template_of(json);
    got[0] = 0;
    for (size_t i = 0; i < t.leaves.n; i++)
        for (size_t k = 0; k < t.leaves.v[i].vars.n; k++) {
            const pg__var *v = &t.leaves.v[i].vars.v[k];
            const char *end = k + 1 < t.leaves.v[i].vars.n ? ", " : "; ";
            at += (size_t)snprintf(got + at, sizeof got - at, "%s ", v->name);
            for (uint32_t d = 0; d < v->rank; d++)
                at += v->dims[d] == PG_DIM_ANY
                          ? (size_t)snprintf(got + at, sizeof got - at, "%s?", d ? "x" : "")
                          : (size_t)snprintf(got + at, sizeof got - at, "%s%d", d ? "x" : "",
                                             (int)v->dims[d]);
            at += (size_t)snprintf(got + at, sizeof got - at, "%s", end);
        }
    template_free(&t);
    return got;
}

static void a_kernel_is_as_high_as_the_layer_before_is_wide(void **state)
{
    (void)state;
    assert_string_equal(
        shapes(MODEL(INPUT("a", "3") CALLED("Dense", "d", UNITS(4), FROM("a"))
                         CALLED("BatchNormalization", "n", ",\"axis\":[1]", FROM("d"))
                             CALLED("Dense", "e", UNITS(2), FROM("n")),
                     REF("a"), REF("e"))),
        "kernel 3x4, bias 4; gamma 4, beta 4, moving_mean 4, moving_variance 4; kernel 4x2, bias "
        "2; ");
}

static void layers_may_be_listed_in_any_order(void **state)
{
    (void)state;
    assert_string_equal(shapes(MODEL(INPUT("a", "3") CALLED("Dense", "e", UNITS(2), FROM("j"))
                                         CALLED("Concatenate", "j", ",\"axis\":-1",
                                                "[[\"a\",0,0,{}],[\"d\",0,0,{}]]")
                                             CALLED("Dense", "d", UNITS(4), FROM("a")),
                                     REF("a"), REF("e"))),
                        "kernel 7x2, bias 2; kernel 3x4, bias 4; ");
}

static void images_are_flattened(void **state)
{
    (void)state;
    const char *fixed =
        MODEL(INPUT("a", "5,5,3") CALLED("Conv2D", "c", CONV(4), FROM("a"))
                  CALLED("Flatten", "f", "", FROM("c")) CALLED("Dense", "d", UNITS(2), FROM("f")),
              REF("a"), REF("d"));
    const char *open =
        MODEL(INPUT("a", "null,null,3") CALLED("Conv2D", "c", CONV(4), FROM("a"))
                  CALLED("Conv2D", "e", CONV(2), FROM("c")) CALLED("Flatten", "f", "", FROM("e"))
                      CALLED("Dense", "d", UNITS(2), FROM("f")),
              REF("a"), REF("d"));
    assert_string_equal(shapes(fixed), "kernel 2x2x3x4, bias 4; kernel 64x2, bias 2; ");
    assert_string_equal(shapes(open),
                        "kernel 2x2x3x4, bias 4; kernel 2x2x4x2, bias 2; kernel ?x2, bias 2; ");
}

static void a_nested_model_is_built_from_its_own_inputs(void **state)
{
    (void)state;
#define INNER                                                                 \
    ",\"layers\":[" INPUT("x", "3") CALLED("Dense", "d", UNITS(4), FROM("x")) \
        CALLED("Dense", "e", UNITS(5), FROM("d")) INNER_ENDS
#define INNER_ENDS "],\"input_layers\":[" REF("x") "],\"output_layers\":[" REF("e") "," REF("d") "]"
    assert_string_equal(shapes(MODEL(INPUT("a", "3") CALLED("Functional", "t", INNER, FROM("a"))
                                         CALLED("Dense", "o", UNITS(1), "[[\"t\",0,1,{}]]"),
                                     REF("a"), REF("o"))),
                        "kernel 3x4, bias 4; kernel 4x5, bias 5; kernel 4x1, bias 1; ");
}

static void layers_in_other_layers_count_too(void **state)
{
    (void)state;
    assert_string_equal(
        shapes(MODEL(INPUT("a", "7,3")
                         CALLED("Bidirectional", "b",
                                ",\"layer\":{\"class_name\":\"GRU\",\"config\":{\"name\":\"g\","
                                "\"units\":2,\"return_sequences\":true}}",
                                FROM("a"))
                             CALLED("TimeDistributed", "t",
                                    ",\"layer\":{\"class_name\":\"Dense\",\"config\":{\"name\":"
                                    "\"d\",\"units\":5}}",
                                    FROM("b")),
                     REF("a"), REF("t"))),
        "kernel 3x6, recurrent_kernel 2x6, bias 6, kernel 3x6, recurrent_kernel 2x6, bias 6; "
        "kernel 4x5, bias 5; ");
}

static void what_nobody_can_compute_stays_open(void **state)
{
    (void)state;
    assert_string_equal(shapes(MODEL(INPUT("a", "3") CALLED("Lambda", "l", "", FROM("a"))
                                         CALLED("Dense", "d", UNITS(4), FROM("l"))
                                             CALLED("Dense", "e", UNITS(2), FROM("a")),
                                     REF("a"), REF("d") "," REF("e"))),
                        "kernel ?x4, bias 4; kernel 3x2, bias 2; ");
    /* built by its first call, which the description does not know */
    assert_string_equal(
        shapes(SEQ("{\"class_name\":\"Dense\",\"config\":{\"name\":\"d\",\"units\":4}}")),
        "kernel ?x4, bias 4; ");
    assert_string_equal(shapes(SEQ("{\"class_name\":\"Dense\",\"config\":{\"name\":\"d\","
                                   "\"units\":4,\"batch_input_shape\":[null,3]}}")),
                        "kernel 3x4, bias 4; ");
}

PG_TEST_MAIN(cmocka_unit_test(a_kernel_is_as_high_as_the_layer_before_is_wide),
             cmocka_unit_test(layers_may_be_listed_in_any_order),
             cmocka_unit_test(images_are_flattened),
             cmocka_unit_test(a_nested_model_is_built_from_its_own_inputs),
             cmocka_unit_test(layers_in_other_layers_count_too),
             cmocka_unit_test(what_nobody_can_compute_stays_open))
