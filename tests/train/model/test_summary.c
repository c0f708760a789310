/* The summary, against what real Keras 2.15 prints (testdata/summary, tests/interop/summaries.py).
 */
#include "pg_test.h"

#include <dirent.h>

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);
    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    fclose(f);
    return text;
}

/* The first line of a file is the model's, the rest what Keras printed. */
static void compare(const char *name)
{
    char path[1024], model[1024];
    char *text = NULL;
    pg_err err = {0};
    snprintf(path, sizeof path, "%s/summary/%s", pg_testdata, name);
    char *want = read_text(path);
    char *rest = strchr(want, '\n');
    *rest++ = 0;
    snprintf(model, sizeof model, "%s/%s", pg_testdata, want);
    const pg_train_opts opts = {.model = model};
    if (pg_model_summary(&text, &opts, &err) != PG_OK)
        fail_msg("%s: %s", name, err.msg);
    if (strcmp(text, rest) != 0)
        fail_msg("%s: Keras prints\n%sand pg_model_summary()\n%s", name, rest, text);
    pg_text_free(text);
    free(want);
}

static void prints_what_keras_prints(void **state)
{
    char path[1024];
    size_t n = 0;
    (void)state;
    snprintf(path, sizeof path, "%s/summary", pg_testdata);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        if (strlen(e->d_name) > 4 && strcmp(e->d_name + strlen(e->d_name) - 4, ".txt") == 0) {
            compare(e->d_name);
            n++;
        }
    closedir(d);
    assert_true(n >= 30);
}

static char *summary_of(const char *file, pg_train_opts opts)
{
    char path[1024], *text = NULL;
    pg_err err = {0};
    snprintf(path, sizeof path, "%s/%s", pg_testdata, file);
    opts.model = path;
    if (pg_model_summary(&text, &opts, &err) != PG_OK)
        fail_msg("%s: %s", file, err.msg);
    return text;
}

/* The same architecture by Keras 2.15 and 3.6; they name the InputLayer differently. */
static void prints_models_of_keras_3_alike(void **state)
{
    (void)state;
    char *a = summary_of("files/keras-2.15.0-native/cnn4/template.json", (pg_train_opts){0});
    char *b = summary_of("files/keras-3.6.0-native/cnn4/template.json", (pg_train_opts){0});
    assert_non_null(strstr(a, "conv2d (Conv2D)"));
    assert_non_null(strstr(b, "conv2d (Conv2D)"));
    assert_string_equal(strstr(a, "conv2d (Conv2D)"), strstr(b, "conv2d (Conv2D)"));
    pg_text_free(a);
    pg_text_free(b);
}

/* As it would be trained: the head of seven classes has its own parameters, frozen ones are told.
 */
static void shows_what_would_be_trained(void **state)
{
    const pg_train_opts head = {.replace_head = "7"}, frozen = {.freeze = "*"};
    static const char model[] = "files/keras-2.15.0-native/cnn4/template.json";
    (void)state;
    char *text = summary_of(model, head);
    assert_non_null(strstr(text, "(None, 7)"));
    pg_text_free(text);
    text = summary_of(model, frozen);
    assert_non_null(strstr(text, "Trainable params: 0 (0.00 Byte)"));
    pg_text_free(text);
}

static void names_all_unknown_layers(void **state)
{
    char path[1024], *text = NULL;
    pg_err err = {0};
    (void)state;
    snprintf(path, sizeof path, "%s/files/keras-2.2.4/lambdatpl-g2/template.json", pg_testdata);
    const pg_train_opts opts = {.model = path};
    assert_fails(PG_E_UNSUPPORTED, pg_model_summary(&text, &opts, &err), &err);
    assert_non_null(strstr(err.detail, "Lambda"));
    assert_null(text);
}

PG_TEST_MAIN(cmocka_unit_test(prints_what_keras_prints),
             cmocka_unit_test(prints_models_of_keras_3_alike),
             cmocka_unit_test(shows_what_would_be_trained),
             cmocka_unit_test(names_all_unknown_layers))
