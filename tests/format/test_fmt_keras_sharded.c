#include "v3_test.h"

#include <errno.h>

#define CNN4   "keras-3.10.0-native/cnn4/"
#define NESTED "keras-3.10.0-native/nested/"

static const char *const pairs[][2] = {
    {CNN4 "sharded/template.weights.json", CNN4 "sharded_wrapper/wrapper.weights.json"},
    {NESTED "sharded/template.weights.json", NESTED "sharded_wrapper/wrapper.weights.json"},
};

static void merges_what_lies_in_several_shards(void **state)
{
    (void)state;
    pg_store *s = v3_open(v3_file(pairs[1][0]));
    assert_string_equal(pg_store_format(s), "keras-sharded");
    assert_null(pg__v3_shard_index(s));
    /* batch_normalization lies in two shards, the index names one */
    const pg_layer *bn = pg_store_layer(s, 3);
    assert_string_equal(bn->name, "layers/functional/layers/batch_normalization");
    assert_int_equal(bn->n_weights, 4);
    assert_string_equal(pg__v3_layer_name(s, 3), "batch_normalization");
    assert_int_equal(pg_store_n_weights(s), 10);
    assert_int_equal(pg_store_n_state(s), 2);
    assert_string_equal(pg__v3_model_name(s), "functional");
    pg_store_close(s);
}

/* Weightless groups come with the shard in which Keras was when it met them; all end in one file.
 */
static void writes_one_file_of_all_shards(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        pg_store *in = v3_open(v3_file(pairs[i / 2][i % 2]));
        pg__plan plan = {0};
        assert_ok(pg__plan_copy_of(&plan, in, NULL));
        v3_save(&pg__fmt_keras_v3, v3_tmp("whole.weights.h5"), &plan);
        pg_store *out = v3_open(v3_tmp("whole.weights.h5"));
        v3_same_model(out, in);
        assert_int_equal(pg__store_n_tensors(out), pg__store_n_tensors(in));
        for (size_t k = 0; k < pg__store_n_tensors(in); k++)
            v3_same_bytes(out, k, in, k);
        pg_store_close(out);
        pg__plan_fini(&plan);
        pg_store_close(in);
    }
}

static void a_lifted_template_equals_its_own_shards(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        pg_store *want = v3_open(v3_file(pairs[i][0])), *in = v3_open(v3_file(pairs[i][1]));
        pg__plan plan = {0};
        assert_ok(pg__v3_lift(&plan, in, "layers/functional", NULL));
        v3_save(&pg__fmt_keras_v3, v3_tmp("single.weights.h5"), &plan);
        pg_store *out = v3_open(v3_tmp("single.weights.h5"));
        v3_same_model(out, want);
        v3_same_root_state(out, in);
        pg_store_close(out);
        pg__plan_fini(&plan);
        pg_store_close(in);
        pg_store_close(want);
    }
}

/* An index beside copies of the genuine shards of CNN4. */
static pg_status open_text(pg_store **s, const char *text, pg_err *err)
{
    v3_copy_file(v3_file(CNN4 "sharded/template_00000.weights.h5"),
                 v3_tmp("template_00000.weights.h5"));
    v3_copy_file(v3_file(CNN4 "sharded/template_00001.weights.h5"),
                 v3_tmp("template_00001.weights.h5"));
    v3_write_file(v3_tmp("template.weights.json"), text, strlen(text));
    return pg_store_open(s, v3_tmp("template.weights.json"), NULL, err);
}

#define MAP(entries) "{\"metadata\": {\"total_size\": 1.0}, \"weight_map\": {" entries "}}"

static void accepts_lists_of_shards(void **state)
{
    (void)state;
    pg_store *s = NULL;
    assert_ok(open_text(&s,
                        MAP("\"/layers/dense/vars\": [\"template_00000.weights.h5\", "
                            "\"template_00001.weights.h5\"]"),
                        NULL));
    assert_int_equal(pg_store_n_weights(s), 8);
    pg_store_close(s);
}

static void opens_nothing_but_files_beside_the_index(void **state)
{
    (void)state;
    static const char *const bad[] = {
        MAP("\"/layers/dense/vars\": \"../x.weights.h5\""),
        MAP("\"/layers/dense/vars\": \"/etc/x.weights.h5\""),
        MAP("\"/layers/dense/vars\": \"sub/x.weights.h5\""),
        MAP("\"/layers/dense/vars\": [\"template_00000.weights.h5\", \"..\"]"),
        MAP("\"/layers/dense/vars\": [\"template_00000.weights.h5\", \"a\\u0000b\"]"),
        MAP("\"/layers/dense/vars\": [\"template_00000.weights.h5\", \"\"]"),
        MAP("\"/layers/dense/vars\": [\"template_00000.weights.h5\", 7]"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pg_err err = {0};
        pg_store *s = NULL;
        assert_fails(PG_E_FORMAT, open_text(&s, bad[i], &err), &err);
    }
}

static void does_not_follow_links(void **state)
{
    (void)state;
    pg_err err = {0};
    pg_store *s = NULL;
    assert_int_equal(symlink("template_00000.weights.h5", v3_tmp("link.weights.h5")), 0);
    assert_fails(PG_E_FORMAT, open_text(&s, MAP("\"/vars\": \"link.weights.h5\""), &err), &err);
    assert_non_null(strstr(err.detail, "link.weights.h5"));
}

static void lists_all_missing_shards(void **state)
{
    (void)state;
    pg_err err = {0};
    pg_store *s = NULL;
    assert_fails(
        PG_E_FORMAT,
        open_text(&s,
                  MAP("\"/a/vars\": \"gone_1.weights.h5\", \"/b/vars\": "
                      "\"template_00000.weights.h5\", \"/c/vars\": [\"gone_2.weights.h5\", "
                      "\"gone_1.weights.h5\"]"),
                  &err),
        &err);
    assert_non_null(strstr(err.msg, "2 of 3 shards missing"));
    assert_string_equal(err.detail, "missing  gone_1.weights.h5\nmissing  gone_2.weights.h5");
    assert_string_equal(err.hint, "copy these files again");
}

static void notices_groups_that_no_shard_holds(void **state)
{
    (void)state;
    pg_err err = {0};
    pg_store *s = NULL;
    assert_fails(PG_E_FORMAT,
                 open_text(&s, MAP("\"/layers/lost/vars\": \"template_00000.weights.h5\""), &err),
                 &err);
    assert_string_equal(err.detail,
                        "damaged  template_00000.weights.h5 (holds no /layers/lost/vars)");
}

static void refuses_a_variable_that_two_shards_hold(void **state)
{
    (void)state;
    pg_err err = {0};
    pg_store *s = NULL;
    v3_copy_file(v3_file(CNN4 "sharded/template_00001.weights.h5"), v3_tmp("twin.weights.h5"));
    assert_fails(PG_E_FORMAT,
                 open_text(&s,
                           MAP("\"/layers/dense/vars\": [\"template_00001.weights.h5\", "
                               "\"twin.weights.h5\", \"template_00000.weights.h5\"]"),
                           &err),
                 &err);
    assert_non_null(strstr(err.msg, "layers/dense: variable 0 is both in"));
}

static void leaves_other_json_alone(void **state)
{
    (void)state;
    static const char *const other[] = {
        "{\"class_name\": \"Sequential\"}",
        "{\"weight_map\": {\"a.weight\": \"model-00001-of-00002.safetensors\"}}",
        "{\"weight_map\": {}}",
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        pg_err err = {0};
        pg_store *s = NULL;
        pg__io *io = NULL;
        assert_ok(pg__io_open_mem(&io, other[i], strlen(other[i]), NULL));
        assert_fails(PG_E_UNKNOWN, pg__fmt_keras_sharded.open(&s, io, NULL, NULL, &err), &err);
        pg__io_close(io);
    }
    pg_err err = {0};
    pg_store *s = NULL;
    assert_fails(PG_E_FORMAT, open_text(&s, "{\"weight_map\": ", &err), &err);
}

V3_TEST_MAIN(cmocka_unit_test(merges_what_lies_in_several_shards),
             cmocka_unit_test(writes_one_file_of_all_shards),
             cmocka_unit_test(a_lifted_template_equals_its_own_shards),
             cmocka_unit_test(accepts_lists_of_shards),
             cmocka_unit_test(opens_nothing_but_files_beside_the_index),
             cmocka_unit_test(does_not_follow_links), cmocka_unit_test(lists_all_missing_shards),
             cmocka_unit_test(notices_groups_that_no_shard_holds),
             cmocka_unit_test(refuses_a_variable_that_two_shards_hold),
             cmocka_unit_test(leaves_other_json_alone))
