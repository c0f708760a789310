#include "v3_test.h"

#include "base/hash.h"
#include "base/str.h"

static const char *const genuine[] = {
    "keras-2.15.0-native/cnn4/template.keras",
    "keras-2.15.0-native/cnn4/wrapper.keras",
    "keras-2.15.0-native/nested/template.keras",
    "keras-2.15.0-native/nested/wrapper.keras",
    "keras-3.6.0-native/cnn4/template.keras",
    "keras-3.6.0-native/cnn4/wrapper.keras",
    "keras-3.6.0-native/cnnbn-frozen/template.keras",
    "keras-3.6.0-native/cnnbn-frozen/wrapper.keras",
    "keras-3.6.0-native/nested/template.keras",
    "keras-3.6.0-native/nested/wrapper.keras",
};
#define N_GENUINE (sizeof genuine / sizeof *genuine)

static void shows_the_model_and_its_texts(void **state)
{
    (void)state;
    size_t n = 0;
    pg_store *s = v3_open(v3_file(genuine[5]));
    assert_string_equal(pg_store_format(s), "keras-zip");
    assert_string_equal(pg_store_writer(s), "keras 3.6.0");
    assert_int_equal(pg_store_n_weights(s), 8);
    assert_string_equal(pg_store_weight(s, 0)->name, "layers/functional/layers/conv2d/vars/0");
    assert_non_null(pg_store_text(s, PG_TEXT_MODEL_CONFIG, &n));
    assert_int_equal(n, 10623);
    assert_non_null(pg_store_text(s, PG_TEXT_METADATA, &n));
    assert_int_equal(n, 63);
    pg_store_close(s);
}

static void same_member(const pg__zip *a, const pg__zip *b, const char *name)
{
    const pg__zip_member *x = pg__zip_at(a, pg__zip_find(a, name));
    const pg__zip_member *y = pg__zip_at(b, pg__zip_find(b, name));
    assert_int_equal(x->n, y->n);
    assert_int_equal(x->crc32, y->crc32);
}

static void a_copy_equals_the_original(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GENUINE; i++) {
        pg_store *in = v3_open(v3_file(genuine[i]));
        pg__plan plan = {0};
        assert_ok(pg__plan_copy_of(&plan, in, NULL));
        v3_save(&pg__fmt_keras_zip, v3_tmp("copy.keras"), &plan);
        pg_store *out = v3_open(v3_tmp("copy.keras"));
        const pg__v3 *a = pg__v3_of(in), *b = pg__v3_of(out);
        v3_same_h5(a->parts[0].h5, b->parts[0].h5);
        for (size_t k = 0; k < pg__store_n_tensors(in); k++)
            v3_same_bytes(in, k, out, k);
        assert_int_equal(pg__zip_n(b->zip), pg__zip_n(a->zip));
        same_member(a->zip, b->zip, "config.json");
        same_member(a->zip, b->zip, "metadata.json");
        pg_store_close(out);
        pg__plan_fini(&plan);
        pg_store_close(in);
    }
}

/* HDF5 itself finds the weights in what we write. */
static void puts_the_weights_where_hdf5_looks(void **state)
{
    (void)state;
    unsigned char head[8];
    pg_store *in = v3_open(v3_file(genuine[5]));
    pg__plan plan = {0};
    assert_ok(pg__plan_copy_of(&plan, in, NULL));
    v3_save(&pg__fmt_keras_zip, v3_tmp("copy.keras"), &plan);
    pg__io *io = NULL;
    assert_ok(pg__io_open(&io, v3_tmp("copy.keras"), NULL));
    assert_ok(pg__io_read(io, 512, head, 8, NULL));
    assert_memory_equal(head, "\x89HDF\r\n\x1a\n", 8);
    pg__io_close(io);
    pg__plan_fini(&plan);
    pg_store_close(in);
}

static void a_lifted_template_equals_its_own_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GENUINE; i += 2) {
        size_t n = 0;
        pg_store *want = v3_open(v3_file(genuine[i])), *in = v3_open(v3_file(genuine[i + 1]));
        const char *config = pg_store_text(want, PG_TEXT_MODEL_CONFIG, &n);
        pg__plan plan = {0};
        assert_ok(pg__v3_lift(&plan, in, "layers/functional", NULL));
        assert_ok(pg__plan_set_text(&plan, PG_TEXT_MODEL_CONFIG, config, n, NULL));
        v3_save(&pg__fmt_keras_zip, v3_tmp("single.keras"), &plan);
        pg_store *out = v3_open(v3_tmp("single.keras"));
        v3_same_model(out, want);
        v3_same_root_state(out, in);
        assert_string_equal(pg_store_text(out, PG_TEXT_MODEL_CONFIG, NULL), config);
        assert_string_equal(pg_store_text(out, PG_TEXT_METADATA, NULL),
                            pg_store_text(in, PG_TEXT_METADATA, NULL));
        pg_store_close(out);
        /* and without texts, as a file of weights */
        v3_save(&pg__fmt_keras_v3, v3_tmp("single.weights.h5"), &plan);
        out = v3_open(v3_tmp("single.weights.h5"));
        v3_same_model(out, want);
        pg_store_close(out);
        pg__plan_fini(&plan);
        pg_store_close(in);
        pg_store_close(want);
    }
}

/* ---- archives made here ---- */

typedef struct member {
    const char *name;
    const void *data;
    size_t n;
} member;

static const char *make_zip(const char *name, const member *m, size_t n)
{
    pg__sink *sink = NULL;
    pg__zip_out *zip = NULL;
    const char *path = v3_tmp(name);
    const pg__sink_opts opts = {.force = 1, .no_sync = 1};
    assert_ok(pg__sink_open(&sink, path, &opts, NULL));
    assert_ok(pg__zip_out_new(&zip, sink, NULL));
    for (size_t i = 0; i < n; i++) {
        uint64_t off = 0;
        if (!m[i].data)
            continue;
        assert_ok(pg__zip_out_begin(zip, m[i].name, m[i].n, 1, &off, NULL));
        assert_ok(pg__sink_write(sink, off, m[i].data, m[i].n, NULL));
        assert_ok(pg__zip_out_end(zip, pg__crc32(0, m[i].data, m[i].n), NULL));
    }
    assert_ok(pg__zip_out_finish(zip, NULL));
    assert_ok(pg__sink_commit(sink, NULL));
    pg__zip_out_free(zip);
    pg__sink_close(sink);
    return path;
}

static char *weights;
static size_t n_weights;

static int load_weights(void **state)
{
    (void)state;
    pg__io *io = NULL;
    assert_ok(pg__io_open(&io, v3_file("keras-3.6.0-native/cnn4/wrapper.weights.h5"), NULL));
    n_weights = (size_t)pg__io_size(io);
    weights = pg__mem_array(n_weights, 1);
    assert_ok(pg__io_read(io, 0, weights, n_weights, NULL));
    pg__io_close(io);
    return 0;
}

static int free_weights(void **state)
{
    (void)state;
    pg__mem_free(weights);
    return 0;
}

#define METADATA       "{\"keras_version\": \"3.6.0\"}"
#define CONFIG(layers) "{\"class_name\": \"Functional\", \"config\": {\"layers\": [" layers "]}}"

static pg_status open_config(pg_store **s, const char *config, pg_err *err)
{
    const member m[] = {{"metadata.json", METADATA, strlen(METADATA)},
                        {"config.json", config, strlen(config)},
                        {"model.weights.h5", weights, n_weights}};
    return pg_store_open(s, make_zip("config.keras", m, 3), NULL, err);
}

static void needs_all_three_members(void **state)
{
    (void)state;
    for (size_t gone = 0; gone < 3; gone++) {
        pg_err err = {0};
        pg_store *s = NULL;
        const char *config = CONFIG("");
        member m[] = {{"metadata.json", METADATA, strlen(METADATA)},
                      {"config.json", config, strlen(config)},
                      {"model.weights.h5", weights, n_weights}};
        m[gone].data = NULL;
        const char *path = make_zip("part.keras", m, 3);
        assert_fails(PG_E_FORMAT, pg_store_open(&s, path, NULL, &err), &err);
        assert_non_null(strstr(err.msg, m[gone].name));
    }
}

static void leaves_other_archives_alone(void **state)
{
    (void)state;
    pg_err err = {0};
    pg_store *s = NULL;
    const member m[] = {{"a.txt", "hello", 5}};
    const char *path = make_zip("other.zip", m, 1);
    assert_fails(PG_E_UNKNOWN, pg_store_open(&s, path, NULL, &err), &err);
}

static void says_that_other_weights_are_not_read(void **state)
{
    (void)state;
    pg_err err = {0};
    pg_store *s = NULL;
    const char *config = CONFIG("");
    const member m[] = {{"metadata.json", METADATA, strlen(METADATA)},
                        {"config.json", config, strlen(config)},
                        {"model.weights.npz", "x", 1}};
    const char *path = make_zip("npz.keras", m, 3);
    assert_fails(PG_E_UNSUPPORTED, pg_store_open(&s, path, NULL, &err), &err);
}

static void refuses_layers_that_run_code_on_load(void **state)
{
    (void)state;
    static const struct {
        const char *config, *says;
    } bad[] = {
        {CONFIG("{\"module\": \"os\", \"class_name\": \"function\", \"config\": \"system\"}"),
         "os.system"},
        {CONFIG("{\"class_name\": \"Bidirectional\", \"config\": {\"layer\": {\"module\": \"os\", "
                "\"class_name\": \"function\", \"config\": \"system\"}}}"),
         "os.system"},
        {CONFIG("{\"class_name\": \"RNN\", \"config\": {\"cells\": [{\"module\": \"os\", "
                "\"class_name\": \"function\", \"config\": \"system\"}]}}"),
         "os.system"},
        {CONFIG("{\"class_name\": \"TFSMLayer\", \"config\": {\"name\": \"t\"}}"),
         "t is a TFSMLayer"},
        {CONFIG("{\"class_name\": \"Model\", \"config\": {\"layers\": [{\"class_name\": "
                "\"TorchModuleWrapper\", \"config\": {\"name\": \"tm\"}}]}}"),
         "tm is a TorchModuleWrapper"},
        {"[]", "no model description"},
        {"{\"a\": ", "config.json"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pg_err err = {0};
        pg_store *s = NULL;
        assert_fails(PG_E_FORMAT, open_config(&s, bad[i].config, &err), &err);
        assert_non_null(strstr(err.msg, "config.json: "));
        assert_non_null(strstr(err.msg, bad[i].says));
    }
}

static void passes_functions_that_are_data(void **state)
{
    (void)state;
    static const char *const good[] = {
        CONFIG(
            "{\"class_name\": \"Lambda\", \"config\": {\"name\": \"l\", \"function\": {\"module\": "
            "\"builtins\", \"class_name\": \"function\", \"config\": \"get_slice\"}}}"),
        CONFIG("{\"class_name\": \"Dense\", \"config\": {\"activation\": {\"module\": \"mine\", "
               "\"class_name\": \"function\", \"config\": \"swish\"}}}"),
        CONFIG(
            "{\"module\": \"mine\", \"class_name\": \"MyLayer\", \"config\": {\"name\": \"m\"}}"),
        CONFIG("{\"module\": \"keras.ops\", \"class_name\": \"function\", \"config\": \"add\"}"),
        CONFIG("{\"class_name\": \"Dense\", \"config\": {\"bias_regularizer\": NaN}}"),
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        pg_err err = {0};
        pg_store *s = NULL;
        if (open_config(&s, good[i], &err) != PG_OK)
            fail_msg("%s", err.msg);
        assert_string_equal(pg_store_text(s, PG_TEXT_MODEL_CONFIG, NULL), good[i]);
        pg_store_close(s);
    }
}

/* Keras puts what StringLookup learnt at assets/<path of the layer>/vocabulary.txt. */
static void moves_assets_with_their_layers(void **state)
{
    (void)state;
    const char *config = CONFIG("");
    const member m[] = {
        {"metadata.json", METADATA, strlen(METADATA)},
        {"config.json", config, strlen(config)},
        {"model.weights.h5", weights, n_weights},
        {"assets/layers/functional/layers/string_lookup/vocabulary.txt", "a\nb\n", 4},
        {"assets/layers/string_lookup/vocabulary.txt", "wrapper's", 9},
        {"notes.txt", "mine", 4}};
    pg_store *in = v3_open(make_zip("assets.keras", m, 6));
    pg__plan plan = {0};
    assert_ok(pg__v3_lift(&plan, in, "layers/functional", NULL));
    assert_ok(pg__plan_set_text(&plan, PG_TEXT_MODEL_CONFIG, config, strlen(config), NULL));
    v3_save(&pg__fmt_keras_zip, v3_tmp("single.keras"), &plan);
    pg_store *out = v3_open(v3_tmp("single.keras"));
    pg__zip *zip = pg__v3_of(out)->zip;
    char *text = NULL;
    size_t n = 0;
    assert_int_equal(pg__zip_n(zip), 5);
    const size_t at = pg__zip_find(zip, "assets/layers/string_lookup/vocabulary.txt");
    assert_ok(pg__zip_load(zip, at, 100, &text, &n, NULL));
    assert_string_equal(text, "a\nb\n");
    assert_int_not_equal(pg__zip_find(zip, "notes.txt"), SIZE_MAX);
    pg__mem_free(text);
    pg_store_close(out);
    pg__plan_fini(&plan);
    pg_store_close(in);
}

static void writes_nothing_without_a_description(void **state)
{
    (void)state;
    pg_err err = {0};
    pg_store *in = v3_open(v3_file("keras-3.6.0-native/cnn4/template.weights.h5"));
    pg__plan plan = {0};
    assert_ok(pg__plan_copy_of(&plan, in, NULL));
    const char *path = v3_tmp("none.keras");
    assert_fails(PG_E_UNSUPPORTED,
                 pg__format_save(&pg__fmt_keras_zip, path, &plan, NULL, NULL, &err), &err);
    assert_int_equal(access(path, F_OK), -1);
    pg__plan_fini(&plan);
    pg_store_close(in);
}

#define WITH_WEIGHTS(test) cmocka_unit_test_setup_teardown(test, load_weights, free_weights)

V3_TEST_MAIN(cmocka_unit_test(shows_the_model_and_its_texts),
             cmocka_unit_test(a_copy_equals_the_original),
             cmocka_unit_test(puts_the_weights_where_hdf5_looks),
             cmocka_unit_test(a_lifted_template_equals_its_own_file),
             WITH_WEIGHTS(needs_all_three_members),
             WITH_WEIGHTS(says_that_other_weights_are_not_read),
             cmocka_unit_test(leaves_other_archives_alone),
             WITH_WEIGHTS(refuses_layers_that_run_code_on_load),
             WITH_WEIGHTS(passes_functions_that_are_data),
             WITH_WEIGHTS(moves_assets_with_their_layers),
             cmocka_unit_test(writes_nothing_without_a_description))
