/* Losses and metrics as the other Keras, or the other container, takes them; what it lacks is said
 * to be unknown. */
#include "pg_test.h"
#include "wrap/convert/convert.h"

/* What is taken; behind it, in brackets, what is not. */
static const char *said(pg__str *out, const char *text, int loss, pg__words_for to)
{
    pg__strs lost = {0};
    out->n = 0;
    assert_ok(
        pg__compile_words(out, &lost, text, (pg__json_span){0, strlen(text)}, loss, to, NULL));
    for (size_t i = 0; i < lost.n; i++)
        assert_ok(pg__str_printf(out, NULL, " (%s)", lost.v[i]));
    pg__strs_fini(&lost);
    return out->s;
}

#define LOSS(name, config)                                                                    \
    "{\"module\": \"keras.losses\", \"class_name\": \"" name "\", \"config\": {" config "}, " \
    "\"registered_name\": null}"
#define METRIC(name, config)                                                                   \
    "{\"module\": \"keras.metrics\", \"class_name\": \"" name "\", \"config\": {" config "}, " \
    "\"registered_name\": null}"
#define OLD(name, config) "{\"class_name\": \"" name "\", \"config\": {" config "}}"

static void translates_objects(void **state)
{
    (void)state;
    static const struct {
        int loss;
        const char *from, *to;
    } cases[] = {
        {1, "\"mse\"", "\"mean_squared_error\""},
        {1, OLD("Huber", "\"reduction\": \"auto\", \"delta\": 2.0, \"fn\": \"huber\""),
         LOSS("Huber", "\"reduction\": \"sum_over_batch_size\", \"delta\": 2.0")},
        {1, OLD("MeanSquaredError", "\"reduction\": \"none\""),
         LOSS("MeanSquaredError", "\"reduction\": \"none\"")},
        {1, LOSS("Poisson", ""), LOSS("Poisson", "")},
        {1, "{\"a\": " OLD("Hinge", "") ", \"b\": \"mae\"}",
         "{\"a\": " LOSS("Hinge", "") ", \"b\": \"mean_absolute_error\"}"},
        /* the metrics of one output are a list in a list in Keras 2 */
        {0, "[[\"mae\", " OLD("AUC", "\"num_labels\": null, \"curve\": \"PR\"") "]]",
         "[\"mae\", " METRIC("AUC", "\"curve\": \"PR\"") "]"},
        {0, "[[\"mae\"], [\"mse\"]]", "[[\"mae\"], [\"mse\"]]"},
        {0,
         OLD("MeanMetricWrapper",
             "\"name\": \"accuracy\", \"fn\": \"sparse_categorical_accuracy\""),
         METRIC("SparseCategoricalAccuracy", "\"name\": \"accuracy\"")},
        {0, "null", "null"},
        /* what Keras 3 does not have, or somebody's own */
        {1, OLD("Huber", "\"delta\": 2.0, \"unknown\": 1"), "null (Huber)"},
        {1, OLD("Mine", ""), "null (Mine)"},
        {1, OLD("Custom>Huber", ""), "null (Custom>Huber)"},
        {1, "{\"module\": \"mine\", \"class_name\": \"Huber\", \"config\": {}}", "null (Huber)"},
        {1, "{\"class_name\": \"Huber\", \"config\": {}, \"registered_name\": \"a>Huber\"}",
         "null (Huber)"},
        {1, "{\"class_name\": \"function\", \"config\": \"mine\"}", "null (mine)"},
        {1, "{\"class_name\": \"Huber\", \"config\": null}", "null (Huber)"},
        {1, "{\"class_name\": \"Huber\"}", "null (Huber)"},
        {0, OLD("MeanMetricWrapper", "\"fn\": \"mine\""), "null (mine)"},
        {0, OLD("MeanRelativeError", ""), "null (MeanRelativeError)"},
        {0, OLD("Huber", ""), "null (Huber)"},
        {0, "\"huber\"", "null (huber)"},
        {1, "\"mine\"", "null (mine)"},
        {1, "\"accuracy\"", "null (accuracy)"},
        {1, "\"logcosh\"", "\"log_cosh\""},
        {1, "[[[[\"mse\"]]]]", "null ([\"mse\"])"},
        /* some of a loss is another loss; metrics do without */
        {1, "{\"a\": \"mse\", \"b\": \"mine\"}", "null (mine)"},
        {0, "[[\"mine\", \"mae\", \"yours\", \"AUC\"]]", "[\"mae\", \"AUC\"] (mine) (yours)"},
        {0, "[[\"mine\"], [\"mae\", \"mine\"]]", "[[], [\"mae\"]] (mine)"},
        {0, "[[\"mine\"], [\"yours\"]]", "null (mine) (yours)"},
        {0, "{\"a\": \"mine\", \"b\": [\"mae\", \"mine\"], \"c\": [\"mine\"]}",
         "{\"b\": [\"mae\"]} (mine)"},
        {0, "[[], [\"mae\"]]", "[[], [\"mae\"]]"},
    };
    pg__str out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = said(&out, cases[i].from, cases[i].loss, (pg__words_for){3, 0, 1});
        if (strcmp(got, cases[i].to) != 0)
            fail_msg("%s: %s", cases[i].from, got);
    }
    pg__str_fini(&out);
}

static void translates_objects_for_keras_2(void **state)
{
    (void)state;
    static const struct {
        int loss, zip;
        const char *from, *to;
    } cases[] = {
        {1, 0, "\"mse\"", "\"mse\""},
        {1, 0, "\"categorical_focal_crossentropy\"", "\"categorical_focal_crossentropy\""},
        {1, 0, "\"dice\"", "null (dice)"},
        {1, 0, LOSS("Huber", "\"name\": \"h\", \"reduction\": \"sum\", \"dtype\": \"float32\""),
         OLD("Huber", "\"name\": \"h\", \"reduction\": \"sum\"")},
        {1, 1, LOSS("Huber", "\"reduction\": null"), LOSS("Huber", "\"reduction\": \"none\"")},
        {1, 1, OLD("Huber", "\"reduction\": \"mean\""), "null (Huber)"},
        {1, 1, LOSS("Dice", ""), "null (Dice)"},
        {0, 0, "[" METRIC("AUC", "\"label_weights\": null, \"curve\": \"PR\"") ", \"mae\"]",
         "[" OLD("AUC", "\"curve\": \"PR\"") ", \"mae\"]"},
        {0, 1, METRIC("Accuracy", "\"dtype\": {\"class_name\": \"DTypePolicy\"}, \"name\": \"a\""),
         METRIC("Accuracy", "\"name\": \"a\"")},
        {0, 1, "[[\"mae\"], [" METRIC("PearsonCorrelation", "") "]]",
         "[[\"mae\"], []] (PearsonCorrelation)"},
        {0, 1,
         "{\"module\": null, \"class_name\": \"AUC\", \"config\": {}, "
         "\"registered_name\": \"a>AUC\"}",
         "null (AUC)"},
    };
    pg__str out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pg__words_for to = {2, 0, cases[i].zip};
        const char *got = said(&out, cases[i].from, cases[i].loss, to);
        if (strcmp(got, cases[i].to) != 0)
            fail_msg("%s: %s", cases[i].from, got);
    }
    pg__str_fini(&out);
}

/* The other container: all that is Keras' own stays, and only that has no other name. */
static void moves_objects_to_the_other_container(void **state)
{
    (void)state;
    static const struct {
        int loss;
        pg__words_for to;
        const char *from, *want;
    } cases[] = {
        {1,
         {3, 1, 0},
         "{\"a\": \"mse\", \"b\": \"mine\"}",
         "{\"a\": \"mean_squared_error\", \"b\": \"mine\"}"}, /* Keras 3 finds no "mse" there */
        {1, {3, 1, 1}, "\"mse\"", "\"mse\""},
        {1, {2, 1, 0}, "\"mse\"", "\"mse\""},
        {0,
         {3, 1, 0},
         "[" METRIC("AUC", "\"name\": null") ", \"mse\"]",
         "[" OLD("AUC", "\"name\": null") ", \"mse\"]"},
        {0,
         {3, 1, 1},
         "[[" OLD("AUC", "") "], [" OLD("a>Mine", "") ", \"mae\"]]",
         "[[" METRIC("AUC", "") "], [\"mae\"]] (a>Mine)"},
        {0,
         {3, 1, 0},
         "{\"module\": \"mine\", \"class_name\": \"AUC\", \"config\": {}}",
         "null (AUC)"},
        {0, {2, 1, 1}, "[[" OLD("Sum", "") "]]", "[[" METRIC("Sum", "") "]]"},
    };
    pg__str out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = said(&out, cases[i].from, cases[i].loss, cases[i].to);
        if (strcmp(got, cases[i].want) != 0)
            fail_msg("%s: %s", cases[i].from, got);
    }
    pg__str_fini(&out);
}

PG_TEST_MAIN(cmocka_unit_test(translates_objects), cmocka_unit_test(translates_objects_for_keras_2),
             cmocka_unit_test(moves_objects_to_the_other_container))
