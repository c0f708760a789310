#include "model/match_test.h"

#include "model/graph/classes.h"

/* "name T 3 ?|name N" of the only layer of this class and config. */
static const char *vars(const char *class_name, const char *config)
{
    static char got[2048];
    char json[1024];
    snprintf(json, sizeof json,
             "{\"class_name\":\"Sequential\",\"config\":[{\"class_name\":\"%s\",\"config\":"
             "{\"name\":\"l\"%s%s}}]}",
             class_name, config[0] ? "," : "", config);
    template_ t = template_of(json);
    const pg__vars *v = &t.leaves.v[0].vars;
    got[0] = 0;
    for (size_t i = 0; i < v->n; i++) {
        size_t at = strlen(got);
        at += (size_t)snprintf(got + at, sizeof got - at, "%s%s %c", i ? "|" : "", v->v[i].name,
                               v->v[i].trainable ? 'T' : 'N');
        for (uint32_t k = 0; k < v->v[i].rank; k++)
            if (v->v[i].dims[k] == PG_DIM_ANY)
                at += (size_t)snprintf(got + at, sizeof got - at, " ?");
            else
                at += (size_t)snprintf(got + at, sizeof got - at, " %d", (int)v->v[i].dims[k]);
        if (v->v[i].any_rank)
            strcat(got, " any");
    }
    if (!v->known)
        strcat(got, "unknown");
    template_free(&t);
    return got;
}

static void every_listed_class_is_found(void **state)
{
    (void)state;
    static const char *const names[] = {
#define PG_LAYER(class_name, family, outputs, lowering) #class_name,
#define PG_UNTRAINED(class_name, family, outputs, why)  #class_name,
#include "model/layers.def"
#undef PG_UNTRAINED
#undef PG_LAYER
    };
    int weightless;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!pg__class_known(names[i], &weightless) || (i && strcmp(names[i - 1], names[i]) >= 0))
            fail_msg("%s is not in its place", names[i]);
    assert_true(pg__class_known("Flatten", &weightless) && weightless);
    assert_true(pg__class_known("Dense", &weightless) && !weightless);
    assert_false(pg__class_known("Custom>Dense", &weightless));
    assert_true(pg__class_has_one_output("Dense"));
    assert_false(pg__class_has_one_output("LSTM"));
    assert_string_equal(vars("Custom>Dense", "\"units\":3"), "unknown");
}

static void shapes_are_those_of_keras_2_and_3(void **state)
{
    (void)state;
    assert_string_equal(vars("Dense", "\"units\":3"), "kernel T ? 3|bias T 3");
    assert_string_equal(vars("Dense", "\"units\":3,\"use_bias\":false"), "kernel T ? 3");
    assert_string_equal(vars("Conv2D", "\"filters\":4,\"kernel_size\":[3,2]"),
                        "kernel T 3 2 ? 4|bias T 4");
    assert_string_equal(vars("Conv2DTranspose", "\"filters\":4,\"kernel_size\":3"),
                        "kernel T 3 3 4 ?|bias T 4");
    assert_string_equal(vars("BatchNormalization", "\"scale\":false,\"axis\":[3]"),
                        "beta T ?|moving_mean N ?|moving_variance N ?");
    assert_string_equal(vars("GRU", "\"units\":2"), "kernel T ? 6|recurrent_kernel T 2 6|bias T 6");
    assert_string_equal(vars("GRU", "\"units\":2,\"reset_after\":true"),
                        "kernel T ? 6|recurrent_kernel T 2 6|bias T 2 6");
    assert_string_equal(vars("CuDNNLSTM", "\"units\":2"),
                        "kernel T ? 8|recurrent_kernel T 2 8|bias T 16");
    assert_string_equal(vars("Embedding", "\"input_dim\":9,\"output_dim\":2"), "embeddings T 9 2");
    assert_string_equal(vars("Dropout", "\"rate\":0.5"), "");
}

static void shapes_are_those_of_keras_1(void **state)
{
    (void)state;
    assert_string_equal(vars("Dense", "\"output_dim\":3,\"bias\":false"), "kernel T ? 3");
    assert_string_equal(vars("Convolution1D", "\"nb_filter\":4,\"filter_length\":3"),
                        "kernel T 3 1 ? 4|bias T 4");
    assert_string_equal(
        vars("Convolution2D", "\"nb_filter\":4,\"nb_row\":3,\"nb_col\":2,\"dim_ordering\":\"th\""),
        "kernel T 4 ? 3 2|bias T 4");
    assert_string_equal(vars("GRU", "\"output_dim\":2,\"consume_less\":\"gpu\""),
                        "W T ? 6|U T 2 6|b T 6");
    assert_string_equal(
        vars("GRU", "\"output_dim\":2,\"consume_less\":\"cpu\""),
        "W_z T ? 2|U_z T 2 2|b_z T 2|W_r T ? 2|U_r T 2 2|b_r T 2|W_h T ? 2|U_h T 2 2|"
        "b_h T 2");
}

static void wrapping_layers_hold_what_they_wrap(void **state)
{
    (void)state;
#define INNER(cls, cfg) "\"layer\":{\"class_name\":\"" cls "\",\"config\":{\"name\":\"i\"," cfg "}}"
    assert_string_equal(vars("TimeDistributed", INNER("Dense", "\"units\":3")),
                        "kernel T ? 3|bias T 3");
    assert_string_equal(vars("TimeDistributed", INNER("Dense", "\"units\":3,\"trainable\":false")),
                        "kernel N ? 3|bias N 3");
    assert_string_equal(vars("SpectralNormalization", INNER("Dense", "\"units\":3")),
                        "kernel T ? 3|bias T 3|vector_u N 1 ?");
    assert_string_equal(vars("Bidirectional", INNER("SimpleRNN", "\"units\":2,\"use_bias\":false")),
                        "kernel T ? 2|recurrent_kernel T 2 2|kernel T ? 2|recurrent_kernel T 2 2");
    assert_string_equal(vars("RNN",
                             "\"cell\":{\"class_name\":\"StackedRNNCells\",\"config\":{\"cells\":["
                             "{\"class_name\":\"SimpleRNNCell\",\"config\":{\"units\":2}}]}}"),
                        "kernel T ? 2|recurrent_kernel T 2 2|bias T 2");
    assert_string_equal(vars("TimeDistributed", INNER("Custom", "\"units\":3")), "unknown");
    assert_string_equal(vars("TimeDistributed", ""), "unknown");
}

static void sizes_that_make_no_sense_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const bad[] = {"-4",   "0",   "4.5",        "\"4\"",
                                      "null", "NaN", "2147483648", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char json[256];
        pg_err err = {0};
        pg__graph *g = NULL;
        pg__leaves leaves = {0};
        snprintf(json, sizeof json,
                 "{\"class_name\":\"Sequential\",\"config\":[{\"class_name\":\"Dense\",\"config\":"
                 "{\"name\":\"o\",\"units\":%s}}]}",
                 bad[i]);
        assert_ok(pg__graph_parse(&g, json, strlen(json), &err));
        const pg_status st = pg__leaves_of(&leaves, g->root, g->dialect, &err);
        assert_int_equal(st, i == 6 ? PG_E_LIMIT : PG_E_FORMAT);
        assert_non_null(strstr(err.msg, "o: \"units\""));
        pg__graph_free(g);
    }
}

PG_TEST_MAIN(cmocka_unit_test(every_listed_class_is_found),
             cmocka_unit_test(shapes_are_those_of_keras_2_and_3),
             cmocka_unit_test(shapes_are_those_of_keras_1),
             cmocka_unit_test(wrapping_layers_hold_what_they_wrap),
             cmocka_unit_test(sizes_that_make_no_sense_are_refused_by_name))
