#include "pg_test.h"
#include "wrap/files.h"

static pg_rewrite_report wrap(const char *in, const char *out, pg_wrap_opts o)
{
    pg_err err = {0};
    pg_rewrite_report rep = {0};
    o.write.no_sync = 1;
    if (pg_wrap_file(in, out, &o, &rep, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_string_equal(rep.action, "wrapped");
    return rep;
}

static void refuse(pg_status code, const char *because, const char *in, pg_wrap_opts o)
{
    pg_err err = {0};
    const char *out = tmp("refused.h5");
    assert_fails(code, pg_wrap_file(in, out, &o, NULL, &err), &err);
    if (!strstr(err.msg, because) && !strstr(err.detail, because))
        fail_msg("\"%s\" (%s) does not say \"%s\"", err.msg, err.detail, because);
    assert_absent(out);
    forget(out);
}

static void gives_the_wrapper_back_weight_by_weight(void **state)
{
    (void)state;
    static const char *const cases[] = {K224 "cnnbn-g2",
                                        K224 "vggfrozen-g2",
                                        K224 "vggfrozen-late-g2",
                                        K224 "nested-g2",
                                        K224 "relocated-cnn4-g2",
                                        "files/keras-1.2.2-py3/to_multi_gpu-frozen",
                                        "files/tf.keras-2.15/rnn-g2",
                                        "files/keras-2.0.9/multiout-g2"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char in[200], like[200];
        snprintf(in, sizeof in, "%s/template_weights.h5", cases[i]);
        snprintf(like, sizeof like, "%s/wrapper_weights.h5", cases[i]);
        const char *out = tmp("out.h5");
        pg_rewrite_report r = wrap(data(in), out, (pg_wrap_opts){.like = data(like)});
        assert_int_equal(r.n_verified, r.n_tensors);
        assert_int_equal(r.n_weighted, 1);
        pg_rewrite_report_fini(&r);
        assert_same(out, data(like), 1);
        forget(out);
    }
}

static void pairs_layers_that_are_numbered_differently(void **state)
{
    (void)state;
    const char *out = tmp("out.h5");
    pg_rewrite_report r =
        wrap(data(K224 "cnnbn-g2/template_weights.h5"), out,
             (pg_wrap_opts){.like = data(K224 "renumbered-cnnbn-g2/wrapper_weights.h5")});
    assert_non_null(strstr(r.notes[0], "numbers"));
    pg_rewrite_report_fini(&r);
    pg_store *a = open_file(out), *b = open_file(data(K224 "cnnbn-g2/wrapper_weights.h5"));
    for (size_t i = 0; i < pg_store_n_weights(b); i++)
        assert_same_weight(a, b, i, 0);
    pg_store_close(a);
    pg_store_close(b);
    forget(out);
}

static void makes_a_full_wrapper_out_of_two_full_files(void **state)
{
    (void)state;
    const char *out = tmp("out.h5"), *like = data(K224 "multiout-g2/wrapper_model.h5");
    pg_rewrite_report r =
        wrap(data(K224 "multiout-g2/expected_model.h5"), out, (pg_wrap_opts){.like = like});
    assert_int_equal(r.n_verified, r.n_tensors + r.n_state);
    pg_rewrite_report_fini(&r);
    assert_same(out, like, 1);
    pg_store *a = open_file(out), *b = open_file(like);
    assert_string_equal(pg_store_text(a, PG_TEXT_MODEL_CONFIG, NULL),
                        pg_store_text(b, PG_TEXT_MODEL_CONFIG, NULL));
    assert_int_equal(pg_store_n_state(a), pg_store_n_state(b));
    pg_store_close(a);
    pg_store_close(b);
    forget(out);
}

static void wraps_as_multi_gpu_model_does(void **state)
{
    (void)state;
    const char *out = tmp("out.h5");
    pg_rewrite_report r =
        wrap(data(K224 "cnnbn-g2/template_weights.h5"), out, (pg_wrap_opts){.n_replicas = 2});
    assert_int_equal(r.replicas, 2);
    assert_non_null(strstr(r.notes[0], "nothing frozen"));
    pg_rewrite_report_fini(&r);
    assert_same(out, data(K224 "cnnbn-g2/wrapper_weights.h5"), 1);
    forget(out);
    out = tmp("out.h5");
    r = wrap(data("files/tf.keras-1.15/cnnbn-g2/template_weights.h5"), out,
             (pg_wrap_opts){.n_replicas = 2});
    pg_rewrite_report_fini(&r);
    assert_same(out, data("files/tf.keras-1.15/cnnbn-g2/wrapper_weights.h5"), 1);
    forget(out);
}

static void knows_frozen_layers_from_a_config(void **state)
{
    (void)state;
    const char *out = tmp("out.h5");
    pg_rewrite_report r =
        wrap(data(K224 "multiout-g2/template_model.h5"), out, (pg_wrap_opts){.n_replicas = 2});
    for (size_t i = 0; i < r.n_notes; i++)
        assert_null(strstr(r.notes[i], "assumed"));
    pg_rewrite_report_fini(&r);
    assert_same(out, data(K224 "multiout-g2/wrapper_weights.h5"), 1);
    forget(out);
}

static void takes_a_name_and_many_devices(void **state)
{
    (void)state;
    const char *out = tmp("out.h5");
    pg_rewrite_report r = wrap(data(K224 "cnn4-g2/template_weights.h5"), out,
                               (pg_wrap_opts){.n_replicas = 8, .name = "vgg"});
    assert_string_equal(r.template_name, "vgg");
    pg_rewrite_report_fini(&r);
    pg_store *s = open_file(out);
    assert_int_equal(pg_store_n_layers(s), 1 + 8 + 1 + 1);
    assert_string_equal(pg_store_layer(s, 8)->name, "lambda_8");
    assert_string_equal(pg_store_layer(s, 9)->name, "vgg");
    pg_store_close(s);
    forget(out);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    const char *like = data(K224 "cnn4-g2/wrapper_weights.h5");
    refuse(PG_E_MISMATCH, "missing: ", data(K224 "cnnbn-g2/template_weights.h5"),
           (pg_wrap_opts){.like = like});
    refuse(PG_E_MISMATCH, "not a wrapper's file", data(K224 "cnnbn-g2/template_weights.h5"),
           (pg_wrap_opts){.like = data(K224 "cnnbn-g2/template_weights.h5")});
    refuse(PG_E_NO, "already", data(K224 "cnnbn-g2/wrapper_weights.h5"),
           (pg_wrap_opts){.n_replicas = 2});
    refuse(PG_E_ARG, "2 to 1024", data(K224 "cnnbn-g2/template_weights.h5"),
           (pg_wrap_opts){.n_replicas = 1});
    refuse(PG_E_ARG, "needed", data(K224 "cnnbn-g2/template_weights.h5"), (pg_wrap_opts){0});
}

static void puts_a_prefix_back(void **state)
{
    (void)state;
    const char *out = tmp("out.safetensors"),
               *like = data("files/pytorch/trap/dataparallel.safetensors");
    pg_rewrite_report r =
        wrap(data("files/pytorch/trap/single.safetensors"), out, (pg_wrap_opts){.like = like});
    pg_rewrite_report_fini(&r);
    assert_same(out, like, 1);
    forget(out);
}

static void puts_groups_back_in_the_path_layout(void **state)
{
    (void)state;
    const char *out = tmp("out.weights.h5"),
               *like = data("files/keras-3.6.0-native/nested/wrapper.weights.h5");
    pg_rewrite_report r = wrap(data("files/keras-3.6.0-native/nested/template.weights.h5"), out,
                               (pg_wrap_opts){.like = like});
    pg_rewrite_report_fini(&r);
    assert_same(out, like, 1);
    forget(out);
}

PG_TEST_MAIN(cmocka_unit_test(gives_the_wrapper_back_weight_by_weight),
             cmocka_unit_test(pairs_layers_that_are_numbered_differently),
             cmocka_unit_test(makes_a_full_wrapper_out_of_two_full_files),
             cmocka_unit_test(wraps_as_multi_gpu_model_does),
             cmocka_unit_test(knows_frozen_layers_from_a_config),
             cmocka_unit_test(takes_a_name_and_many_devices),
             cmocka_unit_test(refuses_what_does_not_fit), cmocka_unit_test(puts_a_prefix_back),
             cmocka_unit_test(puts_groups_back_in_the_path_layout))
