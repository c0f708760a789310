#include "pg_test.h"
#include "wrap/wrapper_json.h"

#include "pg/inspect.h"

static const char *verdict_of(char *buf, size_t n, const char *text)
{
    pg_finding f = {0};
    pg_store *s = pg_test_store(text);
    assert_ok(pg_inspect(&f, s, NULL));
    assert_non_null(f.reason);
    snprintf(buf, n, "%s %zu", pg_verdict_name(f.verdict), f.replicas);
    pg_finding_fini(&f);
    pg_store_close(s);
    return buf;
}

#define assert_verdict(want, text)                                          \
    do {                                                                    \
        char got_[64];                                                      \
        assert_string_equal(verdict_of(got_, sizeof got_, (text)), (want)); \
    } while (0)

static void knows_a_wrapper_by_the_names_of_its_merges(void **state)
{
    (void)state;
    assert_verdict("wrapper 2",
                   "input_1 lambda_1 lambda_2 model_1[conv/kernel:0 dense_2/kernel:0] dense_2");
    assert_verdict("wrapper 4",
                   "a b lambda_1 lambda_2 lambda_3 lambda_4 lambda_5 lambda_6 lambda_7 lambda_8 "
                   "m[x/kernel:0 y/kernel:0] x y");
    assert_verdict("wrapper 2",
                   "input_1 lambda_1 lambda_2 model_1[conv_1/kernel:0 dense_2_1/kernel:0] dense_2");
    assert_verdict("wrapper 2",
                   "input_1 slice_1 slice_2 model_1[conv1/bn/gamma:0 out/kernel:0] out");
}

static void knows_the_two_outputs_of_one_layer(void **state)
{
    (void)state;
    assert_verdict("wrapper 2",
                   "a b lambda_1 lambda_2 lambda_3 lambda_4 m[enc/kernel:0] enc_1 enc_2");
}

/* The files that pg_unwrap_file() refuses without a model, and only those. */
static void says_what_a_file_leaves_open(void **state)
{
    (void)state;
    static const struct {
        const char *file, *unsettled, *next;
    } files[] = {
        {"files/keras-2.2.4/cnn4-g2/wrapper_weights.h5", NULL, "wrapper_weights.h5 out=single.h5"},
        {"files/keras-2.2.4/vggfrozen-late-g2/wrapper_weights.h5", "some layers are frozen",
         "needs_model=true"},
        {"files/keras-2.2.4/cnn4-g2/template_weights.h5", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[4096];
        pg_store *s = NULL;
        pg_finding f = {0};
        snprintf(path, sizeof path, "%s/%s", pg_testdata, files[i].file);
        assert_ok(pg_store_open(&s, path, NULL, NULL));
        assert_ok(pg_inspect(&f, s, NULL));
        assert_true(!f.unsettled == !files[i].unsettled &&
                    (f.next.what == PG_DO_NOTHING) == !files[i].next);
        if (f.unsettled)
            assert_non_null(strstr(f.unsettled, files[i].unsettled));
        if (files[i].next)
            assert_non_null(strstr(action_text(&f.next), files[i].next));
        pg_finding_fini(&f);
        pg_store_close(s);
    }
}

static void leaves_default_merges_open(void **state)
{
    (void)state;
    assert_verdict(
        "ambiguous 2",
        "input_1 lambda_1 lambda_2 model_1[conv/kernel:0 dense_2/kernel:0] concatenate_1");
    assert_verdict("ambiguous 2",
                   "input_1 lambda_1 lambda_2 model_1[dense_1_W:0 dense_1_b:0] merge_1");
    assert_verdict("ambiguous 2",
                   "input_1 lambda_1 lambda_2 model_1[conv/kernel:0 d/kernel:0] softmax");
    assert_verdict("ambiguous 2", "input_1 lambda_1 lambda_2 model_1[conv/kernel:0] concatenate");
}

static void believes_a_name_where_nothing_can_be_misplaced(void **state)
{
    (void)state;
    assert_verdict("wrapper 2",
                   "input_1 lambda_1 lambda_2 model_1[conv/kernel:0 conv/bias:0] softmax");
}

static void refuses_merges_that_do_not_join(void **state)
{
    (void)state;
    assert_verdict("nested 2", "input_1 lambda_1 lambda_2 model_1[conv/kernel:0] average_1");
    assert_verdict("nested 2", "input_1 lambda_1 lambda_2 model_1[conv/kernel:0] dot");
}

static void knows_plain_models(void **state)
{
    (void)state;
    assert_verdict("single 0", "input_1 conv[conv/kernel:0] dense[dense/kernel:0 dense/bias:0]");
    assert_verdict("single 0", "input_1 flatten dense_1[dense_1/kernel:0 dense_1/bias:0]");
    assert_verdict("single 0", "dense_1[dense_1_W:0 dense_1_b:0]");
    assert_verdict("single 0", "d1[d1_2/kernel:0 d1_2/bias:0]");
    assert_verdict("single 0", "dense_2[dense_1/kernel:0]");
    assert_verdict("single 0", "dense[kernel bias]");
    assert_verdict("single 0", "bidirectional_1[forward_lstm_1_W_i:0 backward_lstm_1_W_i:0]");
    assert_verdict("single 0",
                   "input_1 conv[conv/kernel:0] encoder[c/kernel:0] dense[dense/kernel:0]");
}

static void knows_nested_models(void **state)
{
    (void)state;
    assert_verdict("nested 0", "vgg16[block1/kernel:0] flatten dense_1[dense_1/kernel:0]");
    assert_verdict("nested 0", "model_1[conv/kernel:0] global_pooling");
    assert_verdict("nested 0", "input_1 lambda_1 model_1[conv/kernel:0] conv");
    assert_verdict("nested 0", "input_1 lambda_1 lambda_2 model_1[conv/kernel:0]");
    assert_verdict("nested 0", "a b lambda_1 lambda_2 lambda_3 m[x/kernel:0] x");
}

static void knows_files_without_weights(void **state)
{
    (void)state;
    assert_verdict("no-weights 0", "input_1 lambda_1 lambda_2 model_1 flatten_1");
    assert_verdict("no-weights 0", "");
}

#define SLICES                                                                               \
    (const char *const[])                                                                    \
    {                                                                                        \
        "\"arguments\": {\"i\": 0, \"parts\": 2}", "\"arguments\": {\"i\": 1, \"parts\": 2}" \
    }

static void reads_the_structure_of_a_config(void **state)
{
    (void)state;
    assert_judged("wrapper multi_gpu_model certain 2", .slices = SLICES, .n = 2);
    assert_refused("called once", .slices = SLICES, .n = 1);
    assert_refused("feeds it directly", .slices = SLICES, .n = 2, .feed = "input_1");
    assert_refused("same tensor", .slices = SLICES, .n = 2, .feed = "lambda_1");
    assert_refused("batch axis", .slices = SLICES, .n = 2, .merge_config = "\"axis\": -1");
    assert_refused("batch axis", .slices = SLICES, .n = 2, .merge_config = "\"axis\": 1");
    assert_refused("not a merge", .slices = SLICES, .n = 2, .merge_class = "Average");
    assert_refused("not a merge", .slices = SLICES, .n = 2, .merge_class = "Subtract");
}

static void refuses_layers_behind_the_merge(void **state)
{
    (void)state;
    assert_refused(
        "\"act\"", .slices = SLICES, .n = 2, .output = "act",
        .after =
            ", {\"name\": \"act\", \"class_name\": \"Activation\", \"config\": {\"name\": \"act\", "
            "\"activation\": \"relu\"}, \"inbound_nodes\": [[[\"dense_1\", 0, 0, {}]]]}");
    assert_refused("\"d2\"", .slices = SLICES, .n = 2,
                   .after = ", {\"name\": \"d2\", \"class_name\": \"Dense\", \"config\": "
                            "{\"name\": \"d2\", \"units\": 2}, "
                            "\"inbound_nodes\": [[[\"model_1\", 1, 0, {}]]]}");
}

static void tells_op_layers_that_cut_from_others(void **state)
{
    (void)state;
    static const char *const split[] = {"\"function\": \"strided_slice\"",
                                        "\"function\": \"strided_slice\""};
    static const char *const flip[] = {"\"function\": \"reverse\"", "\"function\": \"reverse\""};
    assert_judged("wrapper closure likely 2", .slices = split, .n = 2, .slice_class = "TFOpLambda");
    assert_refused("not a slice", .slices = flip, .n = 2, .slice_class = "TFOpLambda");
    assert_judged("wrapper closure likely 2", .slices = split, .n = 2,
                  .slice_class = "SlicingOpLambda",
                  .call = "{\"slice_spec\": {\"start\": 0, \"stop\": 8, \"step\": null}}");
    assert_refused("not a slice", .slices = split, .n = 2, .slice_class = "SlicingOpLambda",
                   .call = "{\"slice_spec\": [{\"start\": null, \"stop\": null, \"step\": null}, "
                           "{\"start\": 0}]}");
}

static void counts_no_replicas_in_op_layers(void **state)
{
    (void)state;
    assert_verdict("wrapper 0", "x tf.shape tf.getitem tf.floordiv m[a/kernel:0 out/kernel:0] out");
}

static void believes_an_average_only_beside_certain_slices(void **state)
{
    (void)state;
    static const char *const none[] = {"", ""};
    assert_judged("wrapper multi_gpu_model certain 2", .slices = SLICES, .n = 2,
                  .merge_class = "Lambda", .merge_config = "\"x\": 0");
    assert_refused("nothing joins", .slices = none, .n = 2, .merge_class = "Lambda",
                   .merge_config = "\"x\": 0");
}

/* Keras 3 puts Cast operations between layers of different types. */
static void looks_through_casts(void **state)
{
    (void)state;
    static const char *const files[] = {
        "keras-3.6/casts/wrapper.keras", "keras-3.6/casts/wrapper_model.h5",
        "keras-3.6/bfloat16/wrapper.keras", "keras-3.6/bfloat16/wrapper_model.h5"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        pg_store *s = NULL;
        pg_finding f = {0};
        snprintf(path, sizeof path, "%s/extra/%s", pg_testdata, files[i]);
        assert_ok(pg_store_open(&s, path, NULL, NULL));
        assert_ok(pg_inspect(&f, s, NULL));
        assert_int_equal(f.verdict, PG_V_WRAPPER);
        assert_true(f.certain);
        assert_int_equal(f.replicas, 2);
        assert_int_equal(f.n_slices, 2);
        assert_int_equal(f.n_merges, 1);
        pg_finding_fini(&f);
        pg_store_close(s);
    }
}

static void names_evidence_and_layers(void **state)
{
    (void)state;
    pg_finding f = {0};
    pg_store *s = pg_test_store(
        "input_1 lambda lambda_1 model[conv/kernel:0 predictions/kernel:0] predictions");
    assert_ok(pg_inspect(&f, s, NULL));
    assert_string_equal(
        f.reason, "parallel wrapper: 2 replicas (lambda, lambda_1), merged in \"predictions\"");
    assert_string_equal(f.template_name, "model");
    assert_string_equal(f.recogniser, "multi_gpu_model");
    assert_int_equal(f.n_slices, 2);
    assert_int_equal(f.n_merges, 1);
    assert_true(f.n_evidence >= 2);
    pg_finding_fini(&f);
    pg_store_close(s);
}

static void falls_back_to_names_where_the_config_is_unusable(void **state)
{
    (void)state;
    pg_finding f = {0};
    pg_store *s =
        pg_test_store("input_1 lambda_1 lambda_2 model_1[conv/kernel:0 dense_2/kernel:0] dense_2");
    assert_ok(pg__store_set_text(s, PG_TEXT_MODEL_CONFIG, "{\"class_name\": ", 15, NULL));
    assert_ok(pg_inspect(&f, s, NULL));
    assert_int_equal(f.verdict, PG_V_WRAPPER);
    assert_non_null(strstr(f.evidence[0], "not usable"));
    pg_finding_fini(&f);
    pg_store_close(s);
}

static void calls_a_damaged_file_damaged(void **state)
{
    (void)state;
    pg_finding f = {0};
    pg_store *s = pg_test_store("input_1 lambda_1 lambda_2 model_1[dense_2/kernel:0] dense_2");
    assert_ok(pg__store_set_damage(s, "model_1 has no weight_names", NULL));
    assert_ok(pg_inspect(&f, s, NULL));
    assert_int_equal(f.verdict, PG_V_DAMAGED);
    assert_string_equal(f.reason, "model_1 has no weight_names");
    pg_finding_fini(&f);
    pg_store_close(s);
}

PG_TEST_MAIN(cmocka_unit_test(knows_a_wrapper_by_the_names_of_its_merges),
             cmocka_unit_test(knows_the_two_outputs_of_one_layer),
             cmocka_unit_test(says_what_a_file_leaves_open),
             cmocka_unit_test(leaves_default_merges_open),
             cmocka_unit_test(believes_a_name_where_nothing_can_be_misplaced),
             cmocka_unit_test(refuses_merges_that_do_not_join),
             cmocka_unit_test(knows_plain_models), cmocka_unit_test(knows_nested_models),
             cmocka_unit_test(knows_files_without_weights),
             cmocka_unit_test(reads_the_structure_of_a_config),
             cmocka_unit_test(refuses_layers_behind_the_merge),
             cmocka_unit_test(tells_op_layers_that_cut_from_others),
             cmocka_unit_test(counts_no_replicas_in_op_layers),
             cmocka_unit_test(believes_an_average_only_beside_certain_slices),
             cmocka_unit_test(looks_through_casts), cmocka_unit_test(names_evidence_and_layers),
             cmocka_unit_test(falls_back_to_names_where_the_config_is_unusable),
             cmocka_unit_test(calls_a_damaged_file_damaged))
