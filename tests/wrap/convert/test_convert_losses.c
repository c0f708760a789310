/* Losses and metrics of Keras 2 as Keras 3 takes them; what it lacks is said to be unknown. */
#include "pg_test.h"
#include "wrap/convert/convert.h"

static const char *said(pg__str *out, const char *text, int loss)
{
    int known = 1;
    out->n = 0;
    assert_ok(pg__compile_words_3(out, &known, text, (pg__json_span){0, strlen(text)}, loss, NULL));
    return known ? out->s : NULL;
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
        {1, OLD("Huber", "\"delta\": 2.0, \"unknown\": 1"), NULL},
        {1, OLD("Mine", ""), NULL},
        {1, OLD("Custom>Huber", ""), NULL},
        {1, "{\"module\": \"mine\", \"class_name\": \"Huber\", \"config\": {}}", NULL},
        {1, "{\"class_name\": \"Huber\", \"config\": {}, \"registered_name\": \"a>Huber\"}", NULL},
        {1, "{\"class_name\": \"Huber\", \"config\": null}", NULL},
        {1, "{\"class_name\": \"Huber\"}", NULL},
        {0, OLD("MeanMetricWrapper", "\"fn\": \"mine\""), NULL},
        {0, OLD("SensitivityAtSpecificity", ""), NULL},
        {0, OLD("Huber", ""), NULL},
        {1, "\"mine\"", NULL},
        {1, "[[[[\"mse\"]]]]", NULL},
    };
    pg__str out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = said(&out, cases[i].from, cases[i].loss);
        if (!got != !cases[i].to || (got && strcmp(got, cases[i].to) != 0))
            fail_msg("%s: %s", cases[i].from, got ? got : "unknown");
    }
    pg__str_fini(&out);
}

PG_TEST_MAIN(cmocka_unit_test(translates_objects))
