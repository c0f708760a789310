#include "pg_test.h"
#include "wrap/files.h"

#include <stdlib.h>

#include "pg/pg.h"
#include "wrap/rewrite/rewrite.h"

static pg_rewrite_report unwrap(const char *in, const char *out, pg_unwrap_opts o)
{
    pg_err err = {0};
    pg_rewrite_report rep = {0};
    o.write.no_sync = 1;
    if (pg_unwrap_file(in, out, &o, &rep, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return rep;
}

static void refuse(pg_status code, const char *because, const char *in, pg_unwrap_opts o)
{
    pg_err err = {0};
    pg_rewrite_report rep = {0};
    const char *out = tmp("refused.h5");
    assert_fails(code, pg_unwrap_file(in, out, &o, &rep, &err), &err);
    if (!strstr(err.msg, because))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, because);
    assert_true(strncmp(err.msg, in, strlen(in)) == 0);
    assert_absent(out);
    pg_rewrite_report_fini(&rep);
    forget(out);
}

static void writes_what_keras_wrote_for_the_template(void **state)
{
    (void)state;
    static const char *const cases[] = {K224 "cnnbn-g2",
                                        K224 "nested-g2",
                                        K224 "vggfrozen-g2",
                                        K224 "vggfrozen-late-g2",
                                        K224 "relocated-cnn4-g2",
                                        K224 "bert-g2",
                                        K224 "unet-g4",
                                        "files/keras-2.0.9/rnn-g2",
                                        "files/keras-1.2.2-py3/make_parallel-rnn",
                                        "files/tf.keras-2.15/rnn-g2",
                                        K224 "wrapped-twice-cnn4",
                                        K224 "make_parallel-multiout"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char in[200], like[200], genuine[200];
        snprintf(in, sizeof in, "%s/wrapper_weights.h5", cases[i]);
        snprintf(like, sizeof like, "%s/template.json", cases[i]);
        snprintf(genuine, sizeof genuine, "%s/template_weights.h5", cases[i]);
        const char *out = tmp("out.h5");
        pg_rewrite_report r = unwrap(data(in), out, (pg_unwrap_opts){.like = data(like)});
        assert_string_equal(r.action, "unwrapped");
        assert_int_equal(r.n_verified, r.n_tensors);
        pg_rewrite_report_fini(&r);
        assert_same(out, data(genuine), 1);
        forget(out);
    }
}

static void needs_no_model_where_names_settle_it(void **state)
{
    (void)state;
    const char *out = tmp("out.h5");
    pg_rewrite_report r =
        unwrap(data(K224 "cnnbn-g2/wrapper_weights.h5"), out, (pg_unwrap_opts){0});
    assert_string_equal(r.template_name, "model_1");
    assert_int_equal(r.replicas, 2);
    assert_int_equal(r.n_weighted, 5);
    assert_int_equal(r.n_tensors, 12);
    assert_int_equal(r.n_verified, 12);
    assert_non_null(strstr(r.notes[0], "order inferred"));
    assert_non_null(strstr(r.notes[0], "assumed: no model inside"));
    pg_rewrite_report_fini(&r);
    assert_same(out, data(K224 "cnnbn-g2/template_weights.h5"), 0);
    forget(out);
}

static void refuses_where_names_leave_it_open(void **state)
{
    (void)state;
    const pg_unwrap_opts none = {0};
    refuse(PG_E_AMBIGUOUS, "does not show which", data("files/keras-2.0.9/cnn4-g2/wrapper_weights.h5"),
           none);
    refuse(PG_E_AMBIGUOUS, "frozen", data(K224 "vggfrozen-g2/wrapper_weights.h5"), none);
    refuse(PG_E_AMBIGUOUS, "input_2", data(K224 "nested-g2/wrapper_weights.h5"), none);
    refuse(PG_E_AMBIGUOUS, "2 inputs", data(K224 "bert-g2/wrapper_weights.h5"), none);
}

static void names_what_it_needs(void **state)
{
    (void)state;
    pg_err err = {0};
    const char *out = tmp("x.h5");
    assert_fails(
        PG_E_AMBIGUOUS,
        pg_unwrap_file(data(K224 "vggfrozen-g2/wrapper_weights.h5"), out, NULL, NULL, &err), &err);
    assert_non_null(pg_action_get(&err.action, "needs_model"));
    forget(out);
}

static void keeps_a_full_model_full(void **state)
{
    (void)state;
    static const char *const cases[] = {"cnn4-g2", "cnnbn-g2", "multiout-g2", "nested-g2",
                                        "rnn-g2"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char in[200], genuine[200];
        snprintf(in, sizeof in, K224 "%s/wrapper_model.h5", cases[i]);
        snprintf(genuine, sizeof genuine, K224 "%s/expected_model.h5", cases[i]);
        const char *out = tmp("out.h5");
        pg_rewrite_report r = unwrap(data(in), out, (pg_unwrap_opts){0});
        assert_int_equal(r.n_verified, r.n_tensors + r.n_state);
        assert_int_equal(r.n_verified, r.n_written);
        assert_true(r.n_kept == 2 && r.n_removed >= 3);
        pg_rewrite_report_fini(&r);
        assert_same(out, data(genuine), 1);
        pg_store *a = open_file(out), *b = open_file(data(genuine));
        assert_int_equal(pg_store_n_state(a), pg_store_n_state(b));
        for (size_t k = 0; k < pg_store_n_state(a); k++)
            assert_int_equal(pg_store_state(a, k)->n_bytes, pg_store_state(b, k)->n_bytes);
        assert_string_equal(pg_store_text(a, PG_TEXT_MODEL_CONFIG, NULL),
                            pg_store_text(b, PG_TEXT_MODEL_CONFIG, NULL));
        pg_store_close(a);
        pg_store_close(b);
        forget(out);
    }
}

static void drops_what_it_is_told_to_drop(void **state)
{
    (void)state;
    const char *in = data(K224 "cnn4-g2/wrapper_model.h5"), *out = tmp("out.h5");
    pg_rewrite_report r = unwrap(in, out, (pg_unwrap_opts){.no_optimizer = 1});
    pg_rewrite_report_fini(&r);
    pg_store *s = open_file(out);
    assert_string_equal(pg_store_format(s), "keras-h5-model");
    assert_int_equal(pg_store_n_state(s), 0);
    assert_non_null(pg_store_text(s, PG_TEXT_TRAINING_CONFIG, NULL));
    pg_store_close(s);
    r = unwrap(in, out, (pg_unwrap_opts){.weights_only = 1, .write.force = 1});
    pg_rewrite_report_fini(&r);
    s = open_file(out);
    assert_string_equal(pg_store_format(s), "keras-h5-weights");
    assert_int_equal(pg_store_n_state(s), 0);
    pg_store_close(s);
    assert_same(out, data(K224 "cnn4-g2/template_weights.h5"), 1);
    forget(out);
}

static void lets_the_config_in_the_file_decide(void **state)
{
    (void)state;
    const char *in = data(K224 "cnnbn-g2/wrapper_model.h5");
    const char *out = tmp("out.h5");
    pg_rewrite_report r =
        unwrap(in, out, (pg_unwrap_opts){.like = data(K224 "cnnbn-g2/template.json")});
    pg_rewrite_report_fini(&r);
    forget(out);
    refuse(PG_E_MISMATCH, "", in,
           (pg_unwrap_opts){.like = data(K224 "vggfrozen-g2/template.json")});
}

static void refuses_models_that_do_not_fit(void **state)
{
    (void)state;
    refuse(PG_E_MISMATCH, "", data(K224 "unet-g4/wrapper_weights.h5"),
           (pg_unwrap_opts){.like = data(K224 "cnn4-g2/template.json")});
    refuse(PG_E_MISMATCH, "", data(K224 "cnnbn-g2/wrapper_weights.h5"),
           (pg_unwrap_opts){.like = data(K224 "vggfrozen-g2/template.json")});
}

static void gives_renumbered_layers_the_names_of_the_model(void **state)
{
    (void)state;
    const char *out = tmp("out.h5");
    pg_rewrite_report r = unwrap(data(K224 "renumbered-cnnbn-g2/wrapper_weights.h5"), out,
                                 (pg_unwrap_opts){.like = data(K224 "cnnbn-g2/template.json")});
    pg_rewrite_report_fini(&r);
    pg_store *a = open_file(out), *b = open_file(data(K224 "cnnbn-g2/template_weights.h5"));
    for (size_t i = 0; i < pg_store_n_layers(b); i++)
        assert_string_equal(pg_store_layer(a, i)->name, pg_store_layer(b, i)->name);
    for (size_t i = 0; i < pg_store_n_weights(b); i++)
        assert_string_equal(pg_store_weight(a, i)->name, pg_store_weight(b, i)->name);
    pg_store_close(a);
    pg_store_close(b);
    forget(out);
}

static void leaves_look_alikes_alone(void **state)
{
    (void)state;
    const pg_unwrap_opts none = {0};
    refuse(PG_E_NO, "vgg16", data("negative/transfer_model.h5"), none);
    refuse(PG_E_NO, "vgg16", data("negative/transfer_weights.h5"), none);
    refuse(PG_E_NO, "not a parallel wrapper", data("negative/extractor_model.h5"), none);
    refuse(PG_E_NO, "not a parallel wrapper", data("negative/tta_model.h5"), none);
    refuse(PG_E_AMBIGUOUS, "views", data("negative/tta_weights.h5"), none);
    refuse(PG_E_NO, "2 nested models", data("negative/gan_model.h5"), none);
    refuse(PG_E_NO, "without weights", data("negative/weightless_wrapper_weights.h5"), none);
    refuse(PG_E_NO, "not a parallel wrapper", data(K224 "cnn4-g2/template_weights.h5"), none);
}

static void takes_a_nested_model_by_its_name(void **state)
{
    (void)state;
    const char *out = tmp("out.h5");
    pg_rewrite_report r =
        unwrap(data("negative/transfer_model.h5"), out, (pg_unwrap_opts){.template_name = "vgg16"});
    assert_string_equal(r.template_name, "vgg16");
    assert_int_equal(r.n_tensors, 4);
    assert_int_equal(r.n_state, 0); /* the optimizer trained the whole, not this part */
    pg_rewrite_report_fini(&r);
    forget(out);
    refuse(PG_E_NO, "no nested model \"nobody\"", data("negative/transfer_model.h5"),
           (pg_unwrap_opts){.template_name = "nobody"});
}

static void moves_groups_up_in_the_path_layout(void **state)
{
    (void)state;
    static const char *const cases[] = {"files/keras-3.6.0-native/nested",
                                        "files/keras-2.15.0-native/cnn4"};
    static const char *const files[] = {"wrapper.weights.h5", "wrapper.keras"};
    static const char *const wants[] = {"template.weights.h5", "template.keras"};
    for (size_t i = 0; i < 4; i++) {
        char in[200], genuine[200];
        snprintf(in, sizeof in, "%s/%s", cases[i / 2], files[i % 2]);
        snprintf(genuine, sizeof genuine, "%s/%s", cases[i / 2], wants[i % 2]);
        const char *out = tmp(files[i % 2]);
        pg_rewrite_report r = unwrap(data(in), out, (pg_unwrap_opts){0});
        pg_rewrite_report_fini(&r);
        pg_store *a = open_file(out), *b = open_file(data(genuine));
        assert_int_equal(pg_store_n_weights(a), pg_store_n_weights(b));
        for (size_t k = 0; k < pg_store_n_weights(b); k++)
            assert_same_weight(a, b, k, 1);
        pg_store_close(a);
        pg_store_close(b);
        forget(out);
    }
}

static void writes_the_weights_of_a_zip_alone(void **state)
{
    (void)state;
    const char *out = tmp("out.weights.h5");
    pg_rewrite_report r = unwrap(data("files/keras-3.6.0-native/nested/wrapper.keras"), out,
                                 (pg_unwrap_opts){.weights_only = 1});
    assert_int_equal(r.n_state, 0);
    pg_rewrite_report_fini(&r);
    pg_store *s = open_file(out);
    assert_string_equal(pg_store_format(s), "keras-weights-h5");
    assert_int_equal(pg_store_n_state(s), 0);
    pg_store_close(s);
    forget(out);
}

static void fits_path_layouts_to_a_model(void **state)
{
    (void)state;
    const char *in = data("files/keras-3.6.0-native/nested/wrapper.weights.h5"),
               *out = tmp("out.weights.h5");
    pg_rewrite_report r = unwrap(
        in, out, (pg_unwrap_opts){.like = data("files/keras-3.6.0-native/nested/template.json")});
    pg_rewrite_report_fini(&r);
    forget(out);
    refuse(PG_E_MISMATCH, "", in,
           (pg_unwrap_opts){.like = data("files/keras-3.6.0-native/cnn4/template.json")});
}

/* "dense" and "dense_1" stand for each other: groups are called by class and place and do not tell.
 */
static void refuses_a_model_whose_names_stand_elsewhere(void **state)
{
    (void)state;
    char text[16384];
    const char *like = tmp("order.json");
    FILE *in = fopen(data("files/keras-2.15.0-native/cnn4/template.json"), "r");
    assert_non_null(in);
    const size_t n = fread(text, 1, sizeof text - 1, in);
    assert_int_equal(fclose(in), 0);
    text[n] = '\0';
    FILE *out = fopen(like, "w");
    assert_non_null(out);
    for (const char *p = text; *p;) {
        const int first = strncmp(p, "\"dense\"", 7) == 0,
                  second = strncmp(p, "\"dense_1\"", 9) == 0;
        assert_true(fputs(first    ? "\"dense_1\""
                          : second ? "\"dense\""
                                   : (char[]){*p, '\0'},
                          out) >= 0);
        p += first ? 7 : second ? 9 : 1;
    }
    assert_int_equal(fclose(out), 0);
    refuse(PG_E_MISMATCH, "\"dense_1\" stands in another place",
           data("files/keras-2.15.0-native/cnn4/wrapper.keras"), (pg_unwrap_opts){.like = like});
    forget(like);
}

static void asks_for_the_index_of_a_shard(void **state)
{
    (void)state;
    const char *shard = "files/keras-3.10.0-native/cnn4/sharded_wrapper/wrapper_00000.weights.h5";
    refuse(PG_E_NO, "wrapper.weights.json", data(shard), (pg_unwrap_opts){0});
}

static void removes_prefixes(void **state)
{
    (void)state;
    const char *out = tmp("out.safetensors");
    pg_rewrite_report r =
        unwrap(data("files/pytorch/trap/dataparallel.safetensors"), out, (pg_unwrap_opts){0});
    assert_string_equal(r.action, "prefix removed");
    assert_string_equal(r.template_name, "module.");
    pg_rewrite_report_fini(&r);
    assert_same(out, data("files/pytorch/trap/single.safetensors"), 1);
    forget(out);
    refuse(PG_E_NO, "", data("files/pytorch/trap/single.safetensors"), (pg_unwrap_opts){0});
    refuse(PG_E_NO, "does not begin", data("files/pytorch/trap/single.safetensors"),
           (pg_unwrap_opts){.strip_prefix = "module."});
}

static void refuses_a_suffix_of_another_format(void **state)
{
    (void)state;
    pg_err err = {0};
    const char *in = data(K224 "cnnbn-g2/wrapper_weights.h5");
    assert_fails(PG_E_ARG, pg_unwrap_file(in, tmp("x.safetensors"), NULL, NULL, &err), &err);
    assert_fails(PG_E_ARG, pg_unwrap_file(in, tmp("x.keras"), NULL, NULL, &err), &err);
    assert_absent(tmp("x.safetensors"));
    const char *out = tmp("x.weights.h5");
    pg_rewrite_report r = unwrap(in, out, (pg_unwrap_opts){0});
    assert_non_null(strstr(r.notes[r.n_notes - 1], "another layout"));
    pg_rewrite_report_fini(&r);
    forget(out);
}

static void writes_nothing_in_a_dry_run(void **state)
{
    (void)state;
    const char *out = tmp("dry.h5");
    pg_rewrite_report r =
        unwrap(data(K224 "cnnbn-g2/wrapper_weights.h5"), out, (pg_unwrap_opts){.write.dry_run = 1});
    assert_int_equal(r.n_tensors, 12);
    assert_int_equal(r.n_verified, 0);
    assert_true(r.file_bytes > r.n_bytes);
    pg_rewrite_report_fini(&r);
    assert_absent(out);
    r = unwrap(data(K224 "cnnbn-g2/wrapper_weights.h5"), NULL,
               (pg_unwrap_opts){.write.dry_run = 1});
    pg_rewrite_report_fini(&r);
    forget(out);
}

/* ---- texts ---- */

static void copy_file(const char *to, const char *from)
{
    char buf[4096];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    assert_true(in && out);
    for (size_t n; (n = fread(buf, 1, sizeof buf, in)) > 0;)
        assert_int_equal(fwrite(buf, 1, n, out), n);
    assert_true(fclose(in) == 0 && fclose(out) == 0);
}

static void changes_the_input_itself_if_told_to(void **state)
{
    (void)state;
    static const char *const names[] = {K224 "cnn4-g2/wrapper_weights.h5",
                                        K224 "cnn4-g2/wrapper_model.h5"};
    pg_err err = {0};
    pg_rewrite_report rep = {0};
    const pg_unwrap_opts in_place = {.write = {.in_place = 1}};
    const pg_unwrap_opts plan = {.write = {.in_place = 1, .dry_run = 1}};
    for (size_t i = 0; i < 2; i++) {
        const char *own = tmp("own.h5"), *fresh = tmp("fresh.h5");
        copy_file(own, data(names[i]));
        pg_rewrite_report want = unwrap(data(names[i]), fresh, (pg_unwrap_opts){0});
        assert_fails(PG_E_ARG, pg_unwrap_file(own, fresh, &in_place, &rep, &err), &err);
        assert_ok(pg_unwrap_file(own, NULL, &plan, &rep, NULL));
        pg_rewrite_report_fini(&rep);
        assert_same(own, data(names[i]), 1);
        assert_ok(pg_unwrap_file(own, NULL, &in_place, &rep, NULL));
        assert_int_equal(rep.n_verified, want.n_verified);
        assert_int_equal(rep.n_notes, want.n_notes + i); /* what stays of a full model */
        if (i == 1)
            assert_non_null(strstr(rep.notes[rep.n_notes - 1], "bytecode of lambda_1, lambda_2"));
        assert_same(own, fresh, 1);
        assert_fails(PG_E_NO, pg_unwrap_file(own, NULL, &in_place, NULL, &err), &err);
        pg_rewrite_report_fini(&rep);
        pg_rewrite_report_fini(&want);
        forget(own);
        forget(fresh);
    }
}

static size_t n_idle;

static void count_idle(void *ctx, uint64_t n_done, uint64_t n_total)
{
    (void)ctx;
    n_idle += n_done == 0 && n_total > 0;
}

/* Thousands of headers take seconds before the first byte of a tensor. */
static void says_for_each_tensor_that_it_goes_on(void **state)
{
    (void)state;
    enum { N = 332 };
    pg_progress progress = {.tell = count_idle};
    const pg_write_opts w = {.no_sync = 1, .progress = &progress};
    const char *one = tmp("one.h5"), *v3 = tmp("v3.weights.h5"), *whole = tmp("whole.h5");
    const char *parts = tmp("parts");
    const pg_unwrap_opts unwrap_opts = {.write = w};
    const pg_convert_opts convert_opts = {.write = w};
    const pg_join_opts join_opts = {.write = w};
    const pg_split_opts split_opts = {.write = {.no_sync = 1}};
    n_idle = 0;
    assert_ok(pg_unwrap_file(data("files/keras-2.1.6/bignames/wrapper_weights.h5"), one,
                             &unwrap_opts, NULL, NULL));
    assert_true(n_idle >= N);
    n_idle = 0;
    pg_convert_report converted = {0};
    assert_ok(pg_convert_file(data(K224 "bert-g2/template_model.h5"), v3, &convert_opts, &converted,
                              NULL));
    assert_true(converted.n_tensors > 20 && n_idle >= converted.n_tensors);
    pg_convert_report_fini(&converted);
    assert_ok(pg_split_file(one, parts, &split_opts, NULL, NULL));
    n_idle = 0;
    assert_ok(pg_join_file(parts, whole, &join_opts, NULL, NULL));
    assert_true(n_idle >= N);
    char remove[300];
    snprintf(remove, sizeof remove, "rm -r '%s'", parts);
    assert_int_equal(system(remove), 0);
    forget(v3);
    forget(whole);
    forget(one);
}

static const char *training(char *buf, size_t n, const char *text, const char *from, const char *to,
                            int *clash)
{
    pg__strs a = {0}, b = {0};
    pg__str out = {0};
    for (const char *p = from; *p; p += strlen(p) + 1)
        assert_ok(pg__strs_add(&a, p, strlen(p), NULL));
    for (const char *p = to; *p; p += strlen(p) + 1)
        assert_ok(pg__strs_add(&b, p, strlen(p), NULL));
    assert_ok(pg__text_training(&out, text, strlen(text), &a, &b, clash, NULL));
    snprintf(buf, n, "%s", out.s);
    pg__str_fini(&out);
    pg__strs_fini(&a);
    pg__strs_fini(&b);
    return buf;
}

static void renames_dicts_of_outputs_and_nothing_else(void **state)
{
    (void)state;
    char got[512];
    int clash = 0;
    assert_string_equal(
        training(
            got, sizeof got,
            "{\"lr\": 0.009999999776482582, \"loss\": {\"c_1\": \"mse\", \"c_2\": {\"c_1\": NaN}}, "
            "\"metrics\": [\"c_1\"], \"loss_weights\": {\"c_2\":2.50}, \"x\": {\"c_1\": 1}}",
            "c_1\0c_2\0", "main\0aux\"\0", &clash),
        "{\"lr\": 0.009999999776482582, \"loss\": {\"main\": \"mse\", \"aux\\\"\": {\"c_1\": "
        "NaN}}, "
        "\"metrics\": [\"c_1\"], \"loss_weights\": {\"aux\\\"\": 2.50}, \"x\": {\"c_1\": 1}}");
    assert_int_equal(clash, 0);
}

static void leaves_dicts_alone_whose_keys_would_clash(void **state)
{
    (void)state;
    char got[512];
    int clash = 0;
    const char *text = "{\"loss\": {\"e_1\": \"mse\", \"e_2\": \"mae\"}}";
    assert_string_equal(training(got, sizeof got, text, "e_1\0e_2\0", "e\0e\0", &clash), text);
    assert_int_equal(clash, 1);
    assert_string_equal(
        training(got, sizeof got, "{\"loss\": {\"e_1\": 1, \"other\": 2}}", "e_1\0", "e\0", &clash),
        "{\"loss\": {\"e_1\": 1, \"other\": 2}}");
    assert_int_equal(clash, 0);
}

static int same(const char *a, const char *b)
{
    int is = 0;
    assert_ok(pg__text_same(&is, a, strlen(a), b, strlen(b), NULL));
    return is;
}

static void compares_descriptions_without_object_ids(void **state)
{
    (void)state;
    assert_true(same("{\"a\": 1, \"shared_object_id\": 4}", "{\"a\":1, \"shared_object_id\": 7}"));
    assert_true(same("{\"shared_object_id\": 4, \"a\": [\"x y\"]}", "{\"a\": [\"x y\"]}"));
    assert_false(same("{\"a\": \"x y\"}", "{\"a\": \"xy\"}"));
    assert_false(same("{\"a\": 1}", "{\"a\": 1.0}"));
    assert_true(same("", ""));
}

/* Both hold the same tensors under the same names, in whichever order. */
static void assert_equal_files(const char *a, const char *b)
{
    pg_comparison c = {0};
    pg_err err = {0};
    if (pg_compare_files(&c, a, b, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(c.n_equal, c.n_rows);
    assert_int_equal(c.through_wrapper, 0);
    pg_comparison_fini(&c);
}

static void removes_words_inside_names(void **state)
{
    (void)state;
    static const char *const cases[] = {"fsdp",     "fsdp_inside",     "checkpointed",
                                        "mixed",    "compiled_inside", "dp_module",
                                        "averaged", "copies"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char in[80];
        snprintf(in, sizeof in, "extra/wrapped/%s.pt", cases[i]);
        const char *out = tmp("out.safetensors");
        pg_rewrite_report r = unwrap(data(in), out, (pg_unwrap_opts){0});
        const int averaged = strcmp(cases[i], "averaged") == 0;
        assert_string_equal(r.action, averaged ? "prefix removed" : "words removed");
        assert_int_equal(r.n_verified, 7);
        assert_int_equal(r.n_notes, 1 + (averaged || strcmp(cases[i], "copies") == 0));
        assert_non_null(strstr(r.notes[0], "\"module\" is left in"));
        pg_rewrite_report_fini(&r);
        assert_equal_files(out, data("extra/wrapped/plain.safetensors"));
        forget(out);
    }
}

static void refuses_names_that_would_not_be_right(void **state)
{
    (void)state;
    const pg_unwrap_opts none = {0};
    refuse(PG_E_MISMATCH, "would both be \"body.0.weight\", with different values",
           data("extra/wrapped/refused_collision.pt"), none);
    refuse(PG_E_MISMATCH, "would both be \"head.bias\"", data("extra/wrapped/refused_copies.pt"),
           none);
    refuse(PG_E_UNSUPPORTED, "is a flat parameter of FSDP", data("extra/wrapped/refused_flat.pt"),
           none);
    refuse(PG_E_UNSUPPORTED, "_acme_wrapped_module", data("extra/wrapped/refused_unknown.pt"),
           none);
}

/* DataParallel within a model, alone and below another one: the bare model's names tell it from a
 * child of that name. */
static void names_tensors_as_the_bare_model_does(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "inner",          "inner_both",     "dp_inner",          "dp_inner_both",
        "compiled_inner", "inner_compiled", "compiled_in_inner", "dp_compiled_in_inner"};
    for (size_t i = 0; i <= sizeof cases / sizeof *cases; i++) {
        const int child = i == sizeof cases / sizeof *cases;
        char in[80];
        const char *out = tmp("out.safetensors");
        snprintf(in, sizeof in, "extra/within/%s.pt", child ? "child" : cases[i]);
        char *plain = strdup(
            data(child ? "extra/within/child.safetensors" : "extra/within/plain.safetensors"));
        pg_rewrite_report r = unwrap(data(in), out, (pg_unwrap_opts){.like = plain});
        assert_string_equal(r.action, "words removed");
        assert_int_equal(r.n_notes, 0);
        pg_rewrite_report_fini(&r);
        assert_equal_files(out, plain);
        forget(out);
        free(plain);
    }
    char *other = strdup(data("extra/wrapped/plain.safetensors"));
    refuse(PG_E_MISMATCH, "is not a name in", data("extra/within/inner.pt"),
           (pg_unwrap_opts){.like = other});
    free(other);
    refuse(PG_E_NO, "the names do not show which", data("extra/within/inner.pt"), (pg_unwrap_opts){0});
}

static void takes_a_part_of_a_checkpoint(void **state)
{
    (void)state;
    const pg_unwrap_opts student = {.write.part = "student"}, none = {.write.part = "pupil"};
    const char *in = data("extra/checkpoints/dino.pth"), *out = tmp("out.safetensors");
    pg_rewrite_report r = unwrap(in, out, student);
    assert_string_equal(r.template_name, "module.");
    pg_rewrite_report_fini(&r);
    assert_equal_files(out, data("extra/checkpoints/plain.safetensors"));
    forget(out);
    refuse(PG_E_AMBIGUOUS, "3 parts could be the model", in, (pg_unwrap_opts){0});
    refuse(PG_E_ARG, "no part \"pupil\"", in, none);
}

PG_TEST_MAIN(cmocka_unit_test(removes_words_inside_names),
             cmocka_unit_test(refuses_names_that_would_not_be_right),
             cmocka_unit_test(names_tensors_as_the_bare_model_does),
             cmocka_unit_test(takes_a_part_of_a_checkpoint),
             cmocka_unit_test(writes_what_keras_wrote_for_the_template),
             cmocka_unit_test(needs_no_model_where_names_settle_it),
             cmocka_unit_test(refuses_where_names_leave_it_open),
             cmocka_unit_test(names_what_it_needs), cmocka_unit_test(keeps_a_full_model_full),
             cmocka_unit_test(drops_what_it_is_told_to_drop),
             cmocka_unit_test(lets_the_config_in_the_file_decide),
             cmocka_unit_test(refuses_models_that_do_not_fit),
             cmocka_unit_test(gives_renumbered_layers_the_names_of_the_model),
             cmocka_unit_test(leaves_look_alikes_alone),
             cmocka_unit_test(takes_a_nested_model_by_its_name),
             cmocka_unit_test(moves_groups_up_in_the_path_layout),
             cmocka_unit_test(writes_the_weights_of_a_zip_alone),
             cmocka_unit_test(fits_path_layouts_to_a_model),
             cmocka_unit_test(refuses_a_model_whose_names_stand_elsewhere),
             cmocka_unit_test(asks_for_the_index_of_a_shard), cmocka_unit_test(removes_prefixes),
             cmocka_unit_test(refuses_a_suffix_of_another_format),
             cmocka_unit_test(writes_nothing_in_a_dry_run),
             cmocka_unit_test(changes_the_input_itself_if_told_to),
             cmocka_unit_test(says_for_each_tensor_that_it_goes_on),
             cmocka_unit_test(renames_dicts_of_outputs_and_nothing_else),
             cmocka_unit_test(leaves_dicts_alone_whose_keys_would_clash),
             cmocka_unit_test(compares_descriptions_without_object_ids))
