/* bfloat16 emulated on the CPU: training runs of real Keras 2.15 come as near as on the GPU of
 * plain C (tests/backend/cuda/test_cuda_mixed.c), in the same bits on any number of devices, and
 * who computes in bfloat16 itself does not emulate it. */
#include "train/golden_near.h"

#include "backend/cpu/isa.h"
#include "train/exec/program.h"
#include "train/step/cut.h"
#include "train/step/mixed.h"
#include "train/step/trainer.h"

enum { BFLOAT16 = 2, EMULATED = 5 }; /* pg_train_opts.precision */

/* What was seen: 0.05 of what the weights change by, 0.04 of a loss, as there. */
static void runs_of_keras_come_near(void **state)
{
    static const char *const runs[] = {"bert_mini",  "cnn_bn",   "lstm_stateful", "lstm_stateless",
                                       "mlp_digits", "multiout", "siamese",       "unet_seg"};
    (void)state;
    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
        const distance d = run_near(runs[k], "cpu:0", EMULATED);
        if (!(d.loss <= 0.1 && d.weights <= 0.08))
            fail_msg("%s: bfloat16 is off by %.2g, %.2g", runs[k], d.loss, d.weights);
        assert_true(d.weights > 1e-4); /* it was not float32 */
    }
}

/* All weights after the run's epochs. */
static double *train_in(const char *name, const char *devices, int precision, size_t *n)
{
    golden g;
    pg_err err = {0};
    double *v = NULL;
    *n = 0;
    precision_how = precision;
    deterministic_how = 1;
    open_golden(&g, name, devices, NULL);
    precision_how = deterministic_how = 0;
    const pg_fit_opts opts = {.batch_size = 24, .epochs = 1, .no_shuffle = 1};
    if (pg_fit(g.trainer, g.data, &opts, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < pg_trainer_n_weights(g.trainer); i++) {
        const pg_weight *w = pg_trainer_weight(g.trainer, i);
        const size_t some = (size_t)(w->n_bytes / sizeof(float));
        assert_int_equal(w->dtype, PG_F32);
        v = realloc(v, (*n + some) * sizeof *v);
        assert_non_null(v);
        assert_ok(pg_trainer_read(g.trainer, i, v + *n, some, NULL));
        *n += some;
    }
    close_golden(&g);
    return v;
}

static double *train(const char *name, const char *devices, size_t *n)
{
    return train_in(name, devices, EMULATED, n);
}

static void devices_give_the_same_bits(void **state)
{
    static const char *const runs[] = {"cnn_bn", "bert_mini"};
    (void)state;
    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
        size_t n, m;
        double *one = train(runs[k], "cpu:0", &n), *two = train(runs[k], "cpu:0,cpu:1", &m);
        assert_int_equal(n, m);
        assert_memory_equal(one, two, n * sizeof *one);
        free(one);
        free(two);
    }
}

/* Variables keep what a bfloat16 has no bits for. */
static void weights_stay_float32(void **state)
{
    size_t n, n_long = 0;
    (void)state;
    double *v = train("mlp_digits", "cpu:0", &n);
    for (size_t i = 0; i < n; i++) {
        const float x = (float)v[i];
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        n_long += (bits & 0xffffu) != 0;
    }
    assert_true(n_long > n / 2);
    free(v);
}

/* The operations of a program of that precision, of which the kinds are not in the other. */
static void nothing_is_fused_where_it_would_round_less(void **state)
{
    (void)state;
    for (int precision = 0; precision <= EMULATED; precision += EMULATED) {
        golden g;
        const pg__program *p = NULL;
        size_t n_apart = 0;
        precision_how = precision;
        open_golden(&g, "cnn_bn", "cpu:0", NULL);
        precision_how = 0;
        assert_ok(pg__trainer_program(g.trainer, 4, PG_TRAINS, &p, NULL));
        const pg__tape *t = &pg__program_model(p)->tape;
        for (uint32_t at = 0; at < t->n_insts; at++)
            n_apart += t->insts[at].op == pg__op_of(PG_OP_act);
        assert_true(precision == EMULATED ? n_apart > 0 : n_apart == 0);
        close_golden(&g);
    }
}

static void a_cpu_without_fast_products_has_no_bfloat16(void **state)
{
    char model[600];
    pg_err err = {0};
    pg_trainer *t = NULL;
    (void)state;
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    pg_train_opts opts = {.model = model, .loss = "mse", .precision = BFLOAT16};
    assert_int_equal(setenv("PG_ISA", "base", 1), 0);
    assert_int_equal(pg_trainer_open(&t, &opts, &err), PG_E_UNSUPPORTED);
    assert_int_equal(unsetenv("PG_ISA"), 0);
    assert_string_equal(err.msg, "bfloat16: cpu computes with float32");
    opts.precision = EMULATED + 1;
    assert_int_equal(pg_trainer_open(&t, &opts, &err), PG_E_ARG);
    assert_string_equal(err.msg, "precision: there is no kind 6");
    assert_null(t);
}

/* Where it has them, it is what is emulated, but faster. */
static void a_cpu_with_fast_products_gives_what_is_emulated(void **state)
{
    (void)state;
    if (!pg__isa_present(PG_ISA_AVX512) || !pg__isa_has_bf16(PG_ISA_AVX512))
        skip();
    static const char *const runs[] = {"cnn_bn", "bert_mini"};
    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
        size_t n, m;
        double *own = train_in(runs[k], "cpu:0", BFLOAT16, &n), *as = train(runs[k], "cpu:0", &m);
        assert_int_equal(n, m);
        assert_memory_equal(own, as, n * sizeof *own);
        free(own);
        free(as);
    }
}

static const char one_layer[] =
    "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"s\", \"layers\": ["
    "{\"class_name\": \"InputLayer\", \"config\": {\"batch_input_shape\": [null, 4], "
    "\"dtype\": \"float32\", \"name\": \"in\"}}, "
    "{\"class_name\": \"Dense\", \"config\": {\"name\": \"a\", \"units\": 8, \"dtype\": "
    "{\"class_name\": \"Policy\", \"config\": {\"name\": \"%s\"}}}}"
    "]}, \"keras_version\": \"2.15.0\", \"backend\": \"tensorflow\"}";

/* What a policy makes of the layer: computes in 16 bits or not, and the only note. */
static void check_policy(const char *policy, const char *isa, int predicts, int in_16_bits,
                         const char *note)
{
    char text[sizeof one_layer + 20];
    pg_trainer *t = NULL;
    pg_err err = {0};
    snprintf(text, sizeof text, one_layer, policy);
    const pg_train_opts opts = {
        .model = "it", .model_text = text, .loss = "mse", .for_prediction = predicts};
    assert_int_equal(isa ? setenv("PG_ISA", isa, 1) : unsetenv("PG_ISA"), 0);
    if (pg_trainer_open(&t, &opts, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(unsetenv("PG_ISA"), 0);
    assert_int_equal(t->net.elems != NULL, in_16_bits);
    assert_true(!in_16_bits || t->net.elems[0] == PG_ELEM_AS_BF16);
    assert_string_equal(pg__mixed_kind(t),
                        in_16_bits ? "avx512_bf16" : t->devs.backend->kind(t->devs.dev));
    assert_int_equal(pg_trainer_n_notes(t), 1);
    assert_string_equal(pg_trainer_note(t, 0), note);
    pg_trainer_close(t);
}

static void policies_are_followed_in_training_where_that_is_faster(void **state)
{
    static const char in_float32[] =
        "layers of 16 bits (mixed precision) compute with float32 on the CPU";
    (void)state;
    check_policy("mixed_bfloat16", "base", 0, 0, in_float32);
    check_policy("mixed_bfloat16", NULL, 1, 0, in_float32);
    check_policy("mixed_float16", NULL, 0, 0, in_float32);
    if (!pg__isa_present(PG_ISA_AVX512) || !pg__isa_has_bf16(PG_ISA_AVX512))
        skip();
    check_policy("mixed_bfloat16", NULL, 0, 1,
                 "layers of bfloat16 (mixed precision) multiply in it on this CPU");
}

PG_TEST_MAIN(cmocka_unit_test(runs_of_keras_come_near),
             cmocka_unit_test(devices_give_the_same_bits), cmocka_unit_test(weights_stay_float32),
             cmocka_unit_test(nothing_is_fused_where_it_would_round_less),
             cmocka_unit_test(a_cpu_without_fast_products_has_no_bfloat16),
             cmocka_unit_test(a_cpu_with_fast_products_gives_what_is_emulated),
             cmocka_unit_test(policies_are_followed_in_training_where_that_is_faster))
