#include "v3_test.h"

#include "format/h5/h5_writer.h"

/* Every genuine file of this layout that is no shard. */
static const char *const genuine[] = {
    "keras-2.15.0-native/cnn4/template.weights.h5",
    "keras-2.15.0-native/cnn4/wrapper.weights.h5",
    "keras-2.15.0-native/nested/template.weights.h5",
    "keras-2.15.0-native/nested/wrapper.weights.h5",
    "keras-3.6.0-native/cnn4/template.weights.h5",
    "keras-3.6.0-native/cnn4/wrapper.weights.h5",
    "keras-3.6.0-native/cnnbn-frozen/template.weights.h5",
    "keras-3.6.0-native/cnnbn-frozen/wrapper.weights.h5",
    "keras-3.6.0-native/nested/template.weights.h5",
    "keras-3.6.0-native/nested/wrapper.weights.h5",
};
#define N_GENUINE (sizeof genuine / sizeof *genuine)

static void lists_groups_that_own_vars(void **state)
{
    (void)state;
    static const char *const layers[] = {
        "layers/concatenate",
        "layers/functional",
        "layers/functional/layers/batch_normalization",
        "layers/functional/layers/batch_normalization_1",
        "layers/functional/layers/conv2d",
        "layers/functional/layers/dense",
        "layers/functional/layers/depthwise_conv2d",
        "layers/functional/layers/global_average_pooling2d",
        "layers/functional/layers/re_lu",
        "layers/input_layer",
        "layers/lambda",
        "layers/lambda_1",
    };
    pg_store *s = v3_open(v3_file("keras-3.6.0-native/cnnbn-frozen/wrapper.weights.h5"));
    assert_string_equal(pg_store_format(s), "keras-weights-h5");
    assert_null(pg_store_writer(s));
    assert_null(pg__v3_shard_index(s));
    assert_int_equal(pg_store_n_layers(s), sizeof layers / sizeof *layers);
    for (size_t i = 0; i < pg_store_n_layers(s); i++)
        assert_string_equal(pg_store_layer(s, i)->name, layers[i]);
    assert_int_equal(pg_store_n_weights(s), 13);
    assert_string_equal(pg_store_weight(s, 9)->name, "layers/functional/layers/dense/vars/0");
    assert_string_equal(pg__v3_layer_name(s, 0), "head");
    assert_string_equal(pg__v3_layer_name(s, 1), "small_net");
    assert_string_equal(pg__v3_model_name(s), "functional");
    assert_string_equal(pg__v3_container(s), "layers");
    pg_store_close(s);
}

/* The file has optimizer/vars/1, /10, /11, ... /2; the template's own optimizer is no weight. */
static void puts_numbers_in_order_and_state_apart(void **state)
{
    (void)state;
    pg_store *s = v3_open(v3_file("keras-2.15.0-native/cnn4/wrapper.weights.h5"));
    assert_int_equal(pg_store_n_weights(s), 8);
    assert_int_equal(pg_store_n_state(s), 1 + 2 + 17);
    assert_string_equal(pg_store_state(s, 0)->name, "layers/functional/optimizer/vars/0");
    assert_string_equal(pg_store_state(s, 1)->name, "metrics/mean/vars/0");
    assert_string_equal(pg_store_state(s, 4)->name, "optimizer/vars/1");
    assert_string_equal(pg_store_state(s, 5)->name, "optimizer/vars/2");
    assert_string_equal(pg_store_state(s, 19)->name, "optimizer/vars/16");
    assert_null(pg__v3_model_name(s));
    pg_store_close(s);
}

static void a_copy_equals_the_original(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_GENUINE; i++) {
        pg_store *in = v3_open(v3_file(genuine[i])), *out = NULL;
        pg__plan plan = {0};
        assert_ok(pg__plan_copy_of(&plan, in, NULL));
        v3_save(&pg__fmt_keras_v3, v3_tmp("copy.weights.h5"), &plan);
        out = v3_open(v3_tmp("copy.weights.h5"));
        v3_same_h5(pg__v3_of(in)->parts[0].h5, pg__v3_of(out)->parts[0].h5);
        assert_int_equal(pg__store_n_tensors(in), pg__store_n_tensors(out));
        for (size_t k = 0; k < pg__store_n_tensors(in); k++)
            v3_same_bytes(in, k, out, k);
        pg_store_close(out);
        pg__plan_fini(&plan);
        pg_store_close(in);
    }
}

static void a_lifted_template_equals_its_own_file(void **state)
{
    (void)state;
    for (size_t i = 0; i + 1 < N_GENUINE; i += 2) {
        pg_store *want = v3_open(v3_file(genuine[i])), *in = v3_open(v3_file(genuine[i + 1]));
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

static void drops_the_state_when_asked(void **state)
{
    (void)state;
    pg_store *in = v3_open(v3_file(genuine[1]));
    pg__plan plan = {0};
    assert_ok(pg__v3_lift(&plan, in, "layers/functional", NULL));
    plan.keep_state = 0;
    v3_save(&pg__fmt_keras_v3, v3_tmp("single.weights.h5"), &plan);
    pg_store *out = v3_open(v3_tmp("single.weights.h5"));
    assert_int_equal(pg_store_n_state(out), 0);
    assert_int_equal(pg__h5_find(pg__v3_of(out)->parts[0].h5, 0, "optimizer"), PG_H5_NONE);
    pg_store_close(out);
    pg__plan_fini(&plan);
    pg_store_close(in);
}

static void lifts_groups_that_are_there_only(void **state)
{
    (void)state;
    pg_store *in = v3_open(v3_file(genuine[1]));
    pg_err err = {0};
    pg__plan plan = {0};
    assert_fails(PG_E_ARG, pg__v3_lift(&plan, in, "layers/func", &err), &err);
    pg__plan_fini(&plan);
    pg_store_close(in);
    in = pg_test_store("layers[layers/vars/0]"); /* of some other format */
    assert_fails(PG_E_ARG, pg__v3_lift(&plan, in, "layers", &err), &err);
    pg__plan_fini(&plan);
    pg_store_close(in);
}

/* ---- files that Keras could write but the test data lacks ---- */

typedef struct dataset {
    const char *path;
    pg_dtype dtype;
    uint64_t value; /* its first bytes are the data */
} dataset;

/* A file of scalars. attr (may be NULL) goes to the first dataset. */
static const char *make_h5(const char *name, const char *const *groups, size_t n_groups,
                           const dataset *data, size_t n, const pg__h5_attr *attr)
{
    pg__h5_out *h = NULL;
    pg__sink *sink = NULL;
    const char *path = v3_tmp(name);
    const pg__sink_opts opts = {.force = 1, .no_sync = 1};
    assert_ok(pg__h5_out_new(&h, NULL));
    for (size_t i = 0; i < n_groups; i++)
        assert_ok(pg__h5_out_group(h, groups[i], NULL));
    for (size_t i = 0; i < n; i++) {
        size_t id = 0;
        const pg__h5_dtype type = {.dtype = data[i].dtype,
                                   .size = (uint32_t)pg_dtype_bytes(data[i].dtype)};
        assert_ok(pg__h5_out_dataset(h, data[i].path, &type, 0, NULL, &id, NULL));
    }
    if (attr)
        assert_ok(pg__h5_out_attr(h, data[0].path, attr, NULL));
    assert_ok(pg__h5_out_finish(h, NULL));
    assert_ok(pg__sink_open(&sink, path, &opts, NULL));
    assert_ok(pg__h5_out_flush(h, sink, 0, NULL));
    for (size_t i = 0; i < n; i++)
        assert_ok(pg__sink_write(sink, pg__h5_out_offset(h, i), &data[i].value,
                                 pg_dtype_bytes(data[i].dtype), NULL));
    assert_ok(pg__sink_commit(sink, NULL));
    pg__sink_close(sink);
    pg__h5_out_free(h);
    return path;
}

static void a_gap_in_the_numbers_is_damage(void **state)
{
    (void)state;
    static const char *const groups[] = {"vars"};
    static const dataset data[] = {{"layers/dense/vars/0", PG_F32, 1},
                                   {"layers/dense/vars/2", PG_F32, 2}};
    const pg_open_opts salvage = {.salvage = 1};
    pg_err err = {0};
    pg_store *s = NULL;
    const char *path = make_h5("gap.weights.h5", groups, 1, data, 2, NULL);
    assert_fails(PG_E_FORMAT, pg_store_open(&s, path, NULL, &err), &err);
    assert_non_null(strstr(err.msg, "layers/dense: variable 1 is missing"));
    assert_ok(pg_store_open(&s, path, &salvage, NULL));
    assert_string_equal(pg_store_damage(s), "layers/dense: variable 1 is missing");
    assert_int_equal(pg_store_n_weights(s), 2);
    pg_store_close(s);
}

/* Keras 3.6 keeps the attributes of a subclassed model under their names, its variables in /vars.
 */
static void reads_subclassed_models(void **state)
{
    (void)state;
    static const dataset data[] = {{"vars/0", PG_F32, 1},
                                   {"enc/vars/0", PG_F32, 2},
                                   {"layers/dense_1/vars/0", PG_F32, 3},
                                   {"optimizer/vars/0", PG_I64, 0},
                                   {"notes/loss", PG_F32, 4}};
    pg_store *in = v3_open(make_h5("sub.weights.h5", NULL, 0, data, 5, NULL));
    assert_int_equal(pg_store_n_layers(in), 3);
    assert_string_equal(pg_store_layer(in, 0)->name, "/");
    assert_string_equal(pg_store_layer(in, 1)->name, "enc");
    assert_string_equal(pg_store_weight(in, 0)->name, "vars/0");
    assert_string_equal(pg_store_state(in, 0)->name, "optimizer/vars/0");
    assert_string_equal(pg_store_state(in, 1)->name, "notes/loss");
    size_t n_beside;
    assert_string_equal(pg_store_beside(in, &n_beside),
                        "1 dataset beside the weights (notes/loss)");
    assert_int_equal(n_beside, 1);
    pg__plan plan = {0};
    assert_ok(pg__plan_copy_of(&plan, in, NULL));
    v3_save(&pg__fmt_keras_v3, v3_tmp("copy.weights.h5"), &plan);
    pg_store *out = v3_open(v3_tmp("copy.weights.h5"));
    v3_same_model(out, in);
    assert_int_equal(pg_store_n_state(out), 2);
    pg_store_close(out);
    pg__plan_fini(&plan);
    pg_store_close(in);
}

static void lifts_a_template_with_variables_of_its_own(void **state)
{
    (void)state;
    static const dataset data[] = {{"layers/sub/vars/0", PG_F32, 1},
                                   {"layers/sub/enc/vars/0", PG_F32, 2},
                                   {"layers/sub_1/vars/0", PG_F32, 3},
                                   {"layers/lambda/vars/0", PG_F32, 3},
                                   {"vars/0", PG_F32, 5}};
    pg_store *in = v3_open(make_h5("sub.weights.h5", NULL, 0, data, 5, NULL));
    pg__plan plan = {0};
    assert_ok(pg__v3_lift(&plan, in, "layers/sub", NULL));
    v3_save(&pg__fmt_keras_v3, v3_tmp("single.weights.h5"), &plan);
    pg_store *out = v3_open(v3_tmp("single.weights.h5"));
    assert_int_equal(pg_store_n_weights(out), 2);
    assert_string_equal(pg_store_weight(out, 0)->name, "vars/0");
    assert_string_equal(pg_store_weight(out, 1)->name, "enc/vars/0");
    pg_store_close(out);
    pg__plan_fini(&plan);
    pg_store_close(in);
}

/* Keras 2.12 and 2.13. */
static void lifts_from_the_old_container(void **state)
{
    (void)state;
#define OLD "_layer_checkpoint_dependencies"
    static const char *const groups[] = {OLD "/functional/vars", OLD "/lambda/vars", "vars"};
    static const dataset data[] = {{OLD "/functional/" OLD "/dense/vars/0", PG_F32, 1},
                                   {OLD "/functional/" OLD "/dense_2/vars/0", PG_F32, 2},
                                   {OLD "/functional/optimizer/vars/0", PG_I64, 0},
                                   {"optimizer/vars/0", PG_I64, 0}};
    pg_store *in = v3_open(make_h5("old.weights.h5", groups, 3, data, 4, NULL));
    assert_string_equal(pg__v3_container(in), OLD);
    pg__plan plan = {0};
    assert_ok(pg__v3_lift(&plan, in, OLD "/functional", NULL));
    v3_save(&pg__fmt_keras_v3, v3_tmp("single.weights.h5"), &plan);
    pg_store *out = v3_open(v3_tmp("single.weights.h5"));
    assert_int_equal(pg_store_n_layers(out), 2);
    assert_string_equal(pg_store_weight(out, 1)->name, OLD "/dense_2/vars/0");
    assert_int_equal(pg_store_n_state(out), 1);
    assert_int_equal(pg__h5_find(pg__v3_of(out)->parts[0].h5, 0, "layers"), PG_H5_NONE);
    pg_store_close(out);
    pg__plan_fini(&plan);
    pg_store_close(in);
#undef OLD
}

static void keeps_the_mark_of_bfloat16(void **state)
{
    (void)state;
    static const char *const mark[] = {"bfloat16"};
    static const size_t len[] = {8};
    static const dataset data[] = {{"layers/dense/vars/0", PG_BF16, 0}, {"vars/0", PG_BOOL, 0}};
    const pg__h5_attr attr = {.name = "dtype",
                              .type = {.cls = PG_H5_STR_VLEN, .utf8 = 1},
                              .n_elems = 1,
                              .strs = (const char **)(uintptr_t)mark,
                              .lens = len};
    pg_store *in = v3_open(make_h5("bf16.weights.h5", NULL, 0, data, 2, &attr));
    assert_int_equal(pg_store_weight(in, 1)->dtype, PG_BF16);
    pg__plan plan = {0};
    assert_ok(pg__plan_copy_of(&plan, in, NULL));
    v3_save(&pg__fmt_keras_v3, v3_tmp("copy.weights.h5"), &plan);
    pg_store *out = v3_open(v3_tmp("copy.weights.h5"));
    v3_same_h5(pg__v3_of(in)->parts[0].h5, pg__v3_of(out)->parts[0].h5);
    pg_store_close(out);
    pg__plan_fini(&plan);
    pg_store_close(in);
}

/* A wrapper that a plan puts around a template: made-up layers get the names that the plan says. */
static void names_layers_that_the_plan_made_up(void **state)
{
    (void)state;
    pg_store *in = v3_open(v3_file("keras-3.6.0-native/cnn4/template.weights.h5"));
    pg__plan plan = {.src = in};
    const char *slice = "layers/lambda", *merge = "layers/concatenate";
    assert_ok(pg__plan_add_layer(&plan, merge, strlen(merge), PG_NONE, NULL));
    plan.layers[0].label = pg__mem_strdup("dense_1");
    assert_ok(pg__plan_add_layer(&plan, slice, strlen(slice), PG_NONE, NULL));
    v3_save(&pg__fmt_keras_v3, v3_tmp("made.weights.h5"), &plan);
    pg_store *out = v3_open(v3_tmp("made.weights.h5"));
    assert_string_equal(pg__v3_layer_name(out, 0), "dense_1");
    assert_string_equal(pg__v3_layer_name(out, 1), "lambda");
    pg_store_close(out);
    pg__plan_fini(&plan);
    pg_store_close(in);
}

static void knows_a_shard_by_its_name_and_its_gaps(void **state)
{
    (void)state;
    static const char *const folder = "keras-3.10.0-native/nested/sharded_wrapper/";
    char name[128];
    for (int k = 0; k < 3; k++) {
        snprintf(name, sizeof name, "%swrapper_%05d.weights.h5", folder, k);
        pg_store *s = v3_open(v3_file(name));
        assert_string_equal(pg__v3_shard_index(s), "wrapper.weights.json");
        pg_store_close(s);
    }
    /* "{epoch:05d}" of a whole file */
    v3_copy_file(v3_file(genuine[0]), v3_tmp("epoch_00012.weights.h5"));
    pg_store *s = v3_open(v3_tmp("epoch_00012.weights.h5"));
    assert_null(pg__v3_shard_index(s));
    pg_store_close(s);
}

static void leaves_other_hdf5_files_alone(void **state)
{
    (void)state;
    static const char *const groups[] = {"layers/a/weights", "x/vars"};
    static const dataset data[] = {{"layers/a/data", PG_F32, 1}};
    pg_err err = {0};
    pg_store *s = NULL;
    const char *path = make_h5("other.h5", groups, 2, data, 1, NULL);
    assert_fails(PG_E_UNKNOWN, pg_store_open(&s, path, NULL, &err), &err);
}

/* ---- names ---- */

static void sorts_groups_before_what_is_in_them(void **state)
{
    (void)state;
    static const char *const sorted[] = {"", "a", "a/b", "a/b/c", "a b", "a.b", "a0", "aa", "b"};
    for (size_t i = 0; i < sizeof sorted / sizeof *sorted; i++)
        for (size_t k = 0; k < sizeof sorted / sizeof *sorted; k++) {
            const int c = pg__v3_path_cmp(sorted[i], sorted[k]);
            assert_int_equal(c, i < k ? -1 : i > k);
        }
}

static void names_classes_as_keras_does(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"Dense", "dense"},
        {"Conv2D", "conv2d"},
        {"Conv2DTranspose", "conv2d_transpose"},
        {"ConvLSTM2D", "conv_lstm2d"},
        {"DepthwiseConv2D", "depthwise_conv2d"},
        {"ReLU", "re_lu"},
        {"PReLU", "p_re_lu"},
        {"LSTM", "lstm"},
        {"SimpleRNN", "simple_rnn"},
        {"BatchNormalization", "batch_normalization"},
        {"GlobalAveragePooling2D", "global_average_pooling2d"},
        {"InputLayer", "input_layer"},
        {"TFOpLambda", "tf_op_lambda"},
        {"MyHTMLParser2Go", "my_html_parser2_go"},
        {"A", "a"},
        {"my-Layer", "my_layer"},
        {"already_snake", "already_snake"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pg__str s = {0};
        assert_ok(pg__v3_snake(&s, names[i][0], NULL));
        assert_string_equal(s.s, names[i][1]);
        pg__str_fini(&s);
    }
}

static void numbers_the_repeats_of_a_class(void **state)
{
    (void)state;
    static const char *const classes[] = {"InputLayer", "Dense",      "ReLU",
                                          "Dense",      "Functional", "Dense"};
    static const unsigned char weighted[] = {0, 1, 0, 1, 1, 1};
    static const char *const now[] = {"layers/input_layer", "layers/dense",      "layers/re_lu",
                                      "layers/dense_1",     "layers/functional", "layers/dense_2"};
    static const char *const then[] = {"layers/input_layer", "layers/dense",      "layers/re_lu",
                                       "layers/dense_2",     "layers/functional", "layers/dense_4"};
    pg__strs a = {0}, b = {0};
    assert_ok(pg__v3_layer_paths(&a, "layers", classes, 6, NULL, NULL));
    assert_ok(pg__v3_layer_paths(&b, "layers", classes, 6, weighted, NULL));
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(a.v[i], now[i]);
        assert_string_equal(b.v[i], then[i]);
    }
    pg__strs_fini(&a);
    pg__strs_fini(&b);
}

V3_TEST_MAIN(cmocka_unit_test(lists_groups_that_own_vars),
             cmocka_unit_test(puts_numbers_in_order_and_state_apart),
             cmocka_unit_test(a_copy_equals_the_original),
             cmocka_unit_test(a_lifted_template_equals_its_own_file),
             cmocka_unit_test(drops_the_state_when_asked),
             cmocka_unit_test(lifts_groups_that_are_there_only),
             cmocka_unit_test(a_gap_in_the_numbers_is_damage),
             cmocka_unit_test(reads_subclassed_models),
             cmocka_unit_test(lifts_a_template_with_variables_of_its_own),
             cmocka_unit_test(lifts_from_the_old_container),
             cmocka_unit_test(keeps_the_mark_of_bfloat16),
             cmocka_unit_test(names_layers_that_the_plan_made_up),
             cmocka_unit_test(knows_a_shard_by_its_name_and_its_gaps),
             cmocka_unit_test(leaves_other_hdf5_files_alone),
             cmocka_unit_test(sorts_groups_before_what_is_in_them),
             cmocka_unit_test(names_classes_as_keras_does),
             cmocka_unit_test(numbers_the_repeats_of_a_class))
