#include <math.h>
#include <unistd.h>

#include "base/sha256.h"
#include "pg_test.h"

#define CNN4   "files/keras-2.2.4/cnn4-g2/"
#define EXCHANGED "extra/keras-2.15/exchanged/"
#define NATIVE "files/keras-3.6.0-native/cnn4/"

static char folder[] = "/tmp/pg_test_check.XXXXXX";

static const char *in_data(char buf[512], const char *rel)
{
    snprintf(buf, 512, "%s/%s", pg_testdata, rel);
    return buf;
}

/* A file in a fresh folder; the caller removes both by cleanup(). */
static const char *make_file(char buf[512], const char *name, const void *data, size_t n)
{
    snprintf(buf, 512, "%s/%s", folder, name);
    FILE *f = fopen(buf, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return buf;
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int cleanup(void **state)
{
    static const char *const names[] = {"x.safetensors", "SHA256SUMS", "model.json"};
    char path[512];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    return rmdir(folder);
}

/* One tensor "conv2/kernel" of float32. */
static const char *make_tensor(char buf[512], const char *shape, const float *v, size_t n)
{
    unsigned char file[65536];
    char header[200];
    const int len = snprintf(header, sizeof header,
                             "{\"conv2/kernel\":{\"dtype\":\"F32\",\"shape\":%s,"
                             "\"data_offsets\":[0,%zu]}}",
                             shape, 4 * n);
    memset(file, 0, 8);
    file[0] = (unsigned char)len, file[1] = (unsigned char)(len >> 8);
    memcpy(file + 8, header, (size_t)len);
    memcpy(file + 8 + len, v, 4 * n);
    return make_file(buf, "x.safetensors", file, 8 + (size_t)len + 4 * n);
}

static const pg_check *find(const pg_check_report *r, const char *name)
{
    for (size_t i = 0; i < r->n_checks; i++)
        if (strcmp(r->checks[i].name, name) == 0)
            return &r->checks[i];
    return NULL;
}

static pg_check_report checked(const char *file, const char *model, int ok)
{
    char path[512], like[512];
    pg_check_report r = {0};
    const pg_check_opts o = {.model = model ? in_data(like, model) : NULL};
    assert_ok(pg_check_file(&r, in_data(path, file), &o, NULL));
    if (r.ok != ok)
        fail_msg("%s: %s", file, r.checks[r.n_checks - 1].summary);
    return r;
}

static void lets_the_template_pass(void **state)
{
    (void)state;
    pg_check_report r = checked(CNN4 "template_weights.h5", CNN4 "template.json", 1);
    assert_int_equal(r.n_checks, 4);
    assert_true(r.fitted);
    assert_true(!r.hint && r.action.what == PG_DO_NOTHING);
    assert_string_equal(find(&r, "structure")->summary,
                        "4 layers with weights in the order of template.json, 8/8 tensors, shapes "
                        "and types match");
    assert_string_equal(find(&r, "values")->summary, "987 finite, 5 zeros");
    pg_check_report_fini(&r);
    r = checked(NATIVE "template.weights.h5", NATIVE "template.json", 1);
    pg_check_report_fini(&r);
    r = checked(NATIVE "template.keras", NULL, 1);
    assert_true(r.fitted);
    pg_check_report_fini(&r);
    r = checked(CNN4 "template_weights.h5", NULL, 1);
    assert_false(r.fitted);
    pg_check_report_fini(&r);
}

/* Keras loads it without a word and predicts with exchanged layers. */
static void sees_exchanged_layers_of_a_nested_model(void **state)
{
    (void)state;
    pg_check_report r = checked(EXCHANGED "weights.h5", EXCHANGED "model.json", 1);
    pg_check_report_fini(&r);
    r = checked(EXCHANGED "weights.h5", EXCHANGED "exchanged.json", 0);
    assert_string_equal(find(&r, "structure")->summary, "1 of 2 layers do not fit exchanged.json");
    pg_check_report_fini(&r);
}

static void stops_a_wrapper_with_keras_own_words(void **state)
{
    (void)state;
    pg_check_report r = checked(CNN4 "wrapper_weights.h5", CNN4 "template.json", 0);
    const pg_check *c = find(&r, "structure");
    assert_false(c->ok);
    assert_string_equal(c->summary, "file has 1 layer with weights, template.json has 4");
    assert_string_equal(c->details[c->n_details - 1],
                        "Keras:  Layer count mismatch when loading weights from file. Model "
                        "expected 4 layers, found 1 saved layers.");
    assert_false(find(&r, "wrapper")->ok);
    assert_true(find(&r, "values")->ok);
    assert_non_null(strstr(action_text(&r.action), "wrapper_weights.h5 out=single.h5"));
    assert_false(r.damaged);
    pg_check_report_fini(&r);
    r = checked(NATIVE "wrapper.weights.h5", NATIVE "template.json", 0);
    assert_non_null(strstr(find(&r, "structure")->details[0], "but received 0 variables"));
    pg_check_report_fini(&r);
    r = checked(CNN4 "wrapper_model.h5", NULL, 0);
    assert_true(find(&r, "structure")->ok);
    assert_false(find(&r, "wrapper")->ok);
    pg_check_report_fini(&r);
}

static void tells_what_is_missing_and_extra(void **state)
{
    (void)state;
    pg_check_report r =
        checked(CNN4 "template_weights.h5", "files/keras-2.2.4/rnn-g2/template.json", 0);
    const pg_check *c = find(&r, "structure");
    assert_string_equal(c->details[0], "missing: bidirectional_1");
    assert_non_null(strstr(c->details[c->n_details - 1],
                           "Layer expects 6 weight(s). Received 2 saved weight(s)"));
    assert_true(!r.hint && r.action.what == PG_DO_NOTHING);
    pg_check_report_fini(&r);
}

/* The path layout keeps a recurrent layer's weights in groups below its own. */
static void sees_a_cell_of_another_width(void **state)
{
    (void)state;
    char model[512], legacy[512], path[512], wide[512], text[16384];
    in_data(model, "files/tf.keras-2.15/rnn-g2/template.json");
    in_data(legacy, "files/tf.keras-2.15/rnn-g2/template_weights.h5");
    snprintf(path, sizeof path, "%s/rnn.weights.h5", folder);
    assert_ok(pg_convert_file(legacy, path, &(pg_convert_opts){.model = model}, NULL, NULL));
    FILE *f = fopen(model, "r");
    assert_non_null(f);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    assert_int_equal(fclose(f), 0);
    char *units = strstr(text, "\"LSTM\"");
    units = units ? strstr(units, "\"units\": ") : NULL;
    assert_non_null(units);
    for (int wider = 0; wider < 2; wider++) {
        pg_check_report r = {0};
        units[9] = (char)(units[9] + wider);
        make_file(wide, "wide.json", text, n);
        assert_ok(pg_check_file(&r, path, &(pg_check_opts){.model = wide}, NULL));
        assert_int_equal(r.ok, !wider);
        pg_check_report_fini(&r);
    }
    (void)unlink(path);
    (void)unlink(wide);
}

static void calls_a_damaged_file_a_failed_check(void **state)
{
    (void)state;
    pg_check_report r = checked("negative/truncated_half.h5", NULL, 0);
    assert_int_equal(r.n_checks, 1);
    assert_string_equal(r.checks[0].name, "container");
    assert_string_equal(r.checks[0].summary, "truncated: holds 10,556 of 21,112 bytes (50 %)");
    assert_true(r.damaged);
    pg_check_report_fini(&r);
}

static void says_where_the_first_nan_is(void **state)
{
    (void)state;
    static float v[3 * 200 * 2];
    char path[512];
    pg_check_report r = {0};
    v[0] = 1;
    v[2 * 400 + 150 * 2 + 1] = (float)NAN;
    v[2 * 400 + 199 * 2] = -(float)INFINITY;
    make_tensor(path, "[3,200,2]", v, 1200);
    assert_ok(pg_check_file(&r, path, NULL, NULL));
    const pg_check *c = find(&r, "values");
    assert_false(c->ok);
    assert_string_equal(c->summary, "2 of 1,200 are not finite");
    assert_string_equal(c->details[0],
                        "conv2/kernel holds 1 NaN and 1 infinite (first at [2,150,1])");
    pg_check_report_fini(&r);
    v[2 * 400 + 150 * 2 + 1] = v[2 * 400 + 199 * 2] = -0.0f;
    make_tensor(path, "[3,200,2]", v, 1200);
    assert_ok(pg_check_file(&r, path, NULL, NULL));
    assert_string_equal(find(&r, "values")->summary, "1,200 finite, 1,199 zeros");
    pg_check_report_fini(&r);
}

static void runs_only_what_was_asked_for(void **state)
{
    (void)state;
    char path[512];
    pg_check_report r = {0};
    in_data(path, CNN4 "wrapper_weights.h5");
    assert_ok(pg_check_file(&r, path, &(pg_check_opts){.only_finite = 1}, NULL));
    assert_int_equal(r.n_checks, 2);
    assert_true(r.ok);
    pg_check_report_fini(&r);
    assert_ok(pg_check_file(&r, path, &(pg_check_opts){.only_no_wrapper = 1}, NULL));
    assert_int_equal(r.n_checks, 2);
    assert_false(r.ok);
    pg_check_report_fini(&r);
}

static void notes_unknown_classes_and_fails_them_when_strict(void **state)
{
    (void)state;
    static const char json[] =
        "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"m\", \"layers\": ["
        "{\"class_name\": \"Glow\", \"config\": {\"name\": \"conv2\"}}]}}";
    char path[512], model[512];
    const float v[4] = {1, 2, 3, 4};
    pg_check_report r = {0};
    make_tensor(path, "[4]", v, 4);
    make_file(model, "model.json", json, sizeof json - 1);
    pg_check_opts o = {.model = model, .strict = 1};
    assert_ok(pg_check_file(&r, path, &o, NULL));
    assert_false(find(&r, "structure")->ok);
    pg_check_report_fini(&r);
}

static void compares_with_a_list_of_sums(void **state)
{
    (void)state;
    char path[512], list[512], hex[65], line[256];
    const float v[2] = {1, 2};
    unsigned char bytes[4096];
    pg_check_report r = {0};
    pg_err err = {0};
    pg__sha256 s;
    make_tensor(path, "[2]", v, 2);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    pg__sha256_init(&s);
    pg__sha256_add(&s, bytes, n);
    pg__sha256_hex(&s, hex);
    snprintf(line, sizeof line, "%064d  other\n%s *sub/x.safetensors\n", 0, hex);
    make_file(list, "SHA256SUMS", line, strlen(line));
    const pg_check_opts o = {.sha256 = list};
    assert_ok(pg_check_file(&r, path, &o, NULL));
    assert_true(find(&r, "checksums")->ok);
    pg_check_report_fini(&r);
    snprintf(line, sizeof line, "%064d  x.safetensors\n", 0);
    make_file(list, "SHA256SUMS", line, strlen(line));
    assert_ok(pg_check_file(&r, path, &o, NULL));
    assert_false(find(&r, "checksums")->ok);
    assert_string_equal(find(&r, "checksums")->summary, "SHA-256 differs from that in SHA256SUMS");
    pg_check_report_fini(&r);
    make_file(list, "SHA256SUMS", "", 0);
    assert_ok(pg_check_file(&r, path, &o, NULL));
    assert_string_equal(find(&r, "checksums")->summary, "SHA256SUMS has no sum of this file");
    pg_check_report_fini(&r);
    assert_fails(PG_E_IO, pg_check_file(&r, path, &(pg_check_opts){.sha256 = "/nowhere"}, &err),
                 &err);
}

static void says_what_it_cannot_do(void **state)
{
    (void)state;
    char path[512];
    pg_check_report r = {0};
    pg_err err = {0};
    in_data(path, CNN4 "template_weights.h5");
    assert_fails(PG_E_ARG, pg_check_file(&r, path, &(pg_check_opts){.expect = "y.npy"}, &err),
                 &err);
    assert_non_null(strstr(err.msg, "an input"));
    assert_fails(PG_E_IO, pg_check_file(&r, "/nowhere.h5", NULL, &err), &err);
    assert_fails(PG_E_IO, pg_check_file(&r, path, &(pg_check_opts){.model = "/nowhere"}, &err),
                 &err);
    assert_null(r.checks);
}

PG_TEST_MAIN_WITH(setup, cleanup, cmocka_unit_test(lets_the_template_pass),
                  cmocka_unit_test(sees_exchanged_layers_of_a_nested_model),
                  cmocka_unit_test(stops_a_wrapper_with_keras_own_words),
                  cmocka_unit_test(tells_what_is_missing_and_extra),
                  cmocka_unit_test(sees_a_cell_of_another_width),
                  cmocka_unit_test(calls_a_damaged_file_a_failed_check),
                  cmocka_unit_test(says_where_the_first_nan_is),
                  cmocka_unit_test(runs_only_what_was_asked_for),
                  cmocka_unit_test(notes_unknown_classes_and_fails_them_when_strict),
                  cmocka_unit_test(compares_with_a_list_of_sums),
                  cmocka_unit_test(says_what_it_cannot_do))
