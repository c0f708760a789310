/* Mixed precision on the GPU of plain C (host.h): training runs of real Keras 2.15 come near in 16
 * bits, what is of 16 bits and what is not, and the scale of the loss. */
#include "train/golden_near.h"

#include "train/step/model_parallel.h"
#include "train/step/trainer.h"

enum { BFLOAT16 = 2, FLOAT16 = 3, FLOAT32 = 4, EMULATED = 5 }; /* pg_train_opts.precision */

/* ---- real runs ---- */

/* Of what the weights change by in the whole run, and of the loss of any batch. What was seen: 0.05
 * and 0.04 with bfloat16, 0.004 and 0.006 with float16. */
static void runs_of_keras_come_near_in_16_bits(void **state)
{
    static const char *const runs[] = {"bert_mini",  "cnn_bn",   "lstm_stateful", "lstm_stateless",
                                       "mlp_digits", "multiout", "siamese",       "unet_seg"};
    (void)state;
    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
        const distance bf16 = run_near(runs[k], "cuda:0", BFLOAT16),
                       f16 = run_near(runs[k], "cuda:0", FLOAT16);
        if (!(bf16.loss <= 0.1 && bf16.weights <= 0.08))
            fail_msg("%s: bfloat16 is off by %.2g, %.2g", runs[k], bf16.loss, bf16.weights);
        if (!(f16.loss <= 0.01 && f16.weights <= 0.012))
            fail_msg("%s: float16 is off by %.2g, %.2g", runs[k], f16.loss, f16.weights);
        assert_true(bf16.weights > 1e-5 && f16.weights > 1e-5); /* it was not float32 */
    }
}

/* ---- the scale of the loss ---- */

typedef struct a_run {
    const char *model, *rules, *devices, *loss_weights; /* the first two: NULL: as ever */
    int precision, deterministic, is_fixed;
    uint64_t growth_steps; /* 0: as ever */
    pg_fit_opts fit;
    size_t stop_after, n_batches, n_small;
    volatile int cancel;
    char told[256];
    pg__loss_scale scale; /* at the end */
    uint64_t iterations;
} a_run;

/* Gradients that are beyond float16 until the scale is some times smaller. */
static a_run large(void)
{
    return (a_run){.devices = "cuda:0",
                   .loss_weights = "400",
                   .precision = FLOAT16,
                   .deterministic = 1,
                   .fit = {.epochs = 1, .batch_size = 32, .steps_per_epoch = 8, .seed = 3}};
}

static pg_status count_batch(void *user, size_t batch, const pg_logs *own, const pg_logs *running,
                             pg_err *err)
{
    a_run *r = user;
    (void)batch, (void)own, (void)running, (void)err;
    r->cancel = ++r->n_batches == r->stop_after;
    return PG_OK;
}

static pg_status hear(void *user, const pg_event *e, pg_err *err)
{
    a_run *r = user;
    (void)err;
    if (e->kind != PG_EVENT_SKIPPED)
        return PG_OK;
    if (r->n_small++ == 0)
        snprintf(r->told, sizeof r->told, "%s", e->text);
    return PG_OK;
}

static pg_trainer *open_digits(const a_run *r)
{
    char model[600], weights[600];
    pg_trainer *t = NULL;
    pg_err err = {0};
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    snprintf(weights, sizeof weights, "%s/golden/mlp_digits/init_weights.h5", pg_testdata);
    const pg_train_opts opts = {.model = r->model ? r->model : model,
                                .weights = weights,
                                .rules = r->rules,
                                .loss = "categorical_crossentropy",
                                .loss_weights = r->loss_weights,
                                .optimizer = "adam",
                                .devices = r->devices,
                                .precision = r->precision,
                                .deterministic = r->deterministic,
                                .gpu_tune = tune_how()};
    if (pg_trainer_open(&t, &opts, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return t;
}

static double *weights_of(const pg_trainer *t, pg_trainer *from, size_t *n)
{
    *n = (size_t)t->vars.offsets[t->vars.n_params];
    double *v = pg__mem_array(*n, sizeof *v), *at = v;
    for (size_t i = 0; i < pg_trainer_n_weights(t); i++) {
        const size_t some = (size_t)(pg_trainer_weight(t, i)->n_bytes / sizeof(float));
        assert_ok(pg_trainer_read(from, i, at, some, NULL));
        at += some;
    }
    return v;
}

/* The weights, for pg__mem_free(). */
static double *train(a_run *r, pg_status expected, size_t *n)
{
    char path[600];
    pg_data *data = NULL;
    pg_err err = {0};
    pg_trainer *t = open_digits(r);
    if (r->growth_steps || r->is_fixed)
        t->compiled.scale.growth_steps = r->growth_steps;
    snprintf(path, sizeof path, "%s/golden/mlp_digits/data.npz", pg_testdata);
    assert_ok(pg_data_open(&data, path, &err));
    const pg_callback cb = {.user = r, .batch_end = count_batch, .event = hear};
    r->fit.cancel = &r->cancel;
    if (pg_fit(t, data, &r->fit, &cb, &err) != expected)
        fail_msg("%s", err.msg);
    r->scale = t->compiled.scale;
    r->iterations = t->compiled.optimizer.iterations;
    double *v = weights_of(t, t, n);
    pg_data_close(data);
    pg_trainer_close(t);
    return v;
}

static void check_skipped(const char *rules, uint64_t iterations)
{
    size_t n, m;
    a_run one = large();
    one.rules = rules;
    one.fit.steps_per_epoch = 1;
    pg_trainer *fresh = open_digits(&one);
    double *before = weights_of(fresh, fresh, &n), *after = train(&one, PG_OK, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n * sizeof *before);
    assert_int_equal(one.iterations, iterations);
    assert_int_equal(one.scale.n_skipped, 1);
    assert_true(one.scale.now == 16384);
    assert_int_equal(one.n_small, 1);
    assert_string_equal(
        one.told, "batch 1: gradients overflowed float16; weights unchanged; loss scale now 16384");
    pg__mem_free(before);
    pg__mem_free(after);
    pg_trainer_close(fresh);
}

/* Keras 2 counts the step, Keras 3 does not. */
static void a_step_that_overflows_changes_the_scale_alone(void **state)
{
    (void)state;
    check_skipped("2.15", 1);
    check_skipped("3.6", 0);
}

static void a_fixed_scale_skips_nothing(void **state)
{
    size_t n, n_nan = 0;
    a_run r = large();
    (void)state;
    r.fit.steps_per_epoch = 1;
    r.is_fixed = 1;
    double *w = train(&r, PG_OK, &n);
    for (size_t k = 0; k < n; k++)
        n_nan += isfinite(w[k]) ? 0 : 1;
    assert_true(n_nan > 0);
    assert_int_equal(r.iterations, 1);
    assert_int_equal(r.scale.n_skipped, 0);
    assert_true(r.scale.now == 32768);
    pg__mem_free(w);
}

static void training_goes_on_behind_it(void **state)
{
    size_t n;
    a_run r = large();
    (void)state;
    double *w = train(&r, PG_OK, &n);
    for (size_t k = 0; k < n; k++)
        assert_true(isfinite(w[k]));
    assert_true(r.scale.n_skipped >= 2 && r.scale.n_good >= 2);
    assert_int_equal(r.scale.n_skipped + r.scale.n_good, 8);
    assert_int_equal(r.iterations, 8);
    assert_true(r.scale.now == 32768 / pow(2, (double)r.scale.n_skipped));
    assert_int_equal(r.n_small, r.scale.n_skipped);
    pg__mem_free(w);
}

static void good_steps_raise_the_scale(void **state)
{
    size_t n;
    a_run r = large();
    (void)state;
    r.loss_weights = NULL;
    r.growth_steps = 3;
    pg__mem_free(train(&r, PG_OK, &n));
    assert_int_equal(r.scale.n_skipped, 0);
    assert_true(r.scale.now == 4 * 32768);
    assert_int_equal(r.scale.n_good, 2);
}

/* With bfloat16 nothing is scaled: its numbers are as large as float32's. */
static void bfloat16_needs_no_scale(void **state)
{
    size_t n;
    a_run r = large();
    (void)state;
    r.precision = BFLOAT16;
    pg__mem_free(train(&r, PG_OK, &n));
    assert_false(r.scale.is_used);
    assert_int_equal(r.iterations, 8);
}

static void a_run_that_was_cut_ends_with_the_same_bits(void **state)
{
    char folder[] = "/tmp/pg-mixed-XXXXXX", file[64], older[80];
    size_t n, m;
    a_run whole = large();
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/resume.pg", folder);
    snprintf(older, sizeof older, "%s.1", file);
    double *want = train(&whole, PG_OK, &n);
    for (size_t cut = 1; cut <= 7; cut += 3) {
        a_run first = large(), second = large();
        first.fit.resume_file = second.fit.resume_file = file;
        first.stop_after = cut;
        second.fit.resume = 1;
        pg__mem_free(train(&first, PG_E_CANCELLED, &m));
        double *got = train(&second, PG_OK, &m);
        assert_int_equal(n, m);
        assert_memory_equal(got, want, n * sizeof *got);
        assert_true(second.scale.now == whole.scale.now);
        assert_int_equal(second.scale.n_good, whole.scale.n_good);
        assert_int_equal(second.scale.n_skipped, whole.scale.n_skipped);
        pg__mem_free(got);
    }
    pg__mem_free(want);
    unlink(file);
    unlink(older);
    rmdir(folder);
}

static void only_trained_variables_are_judged(void **state)
{
    const a_run r = large();
    pg_trainer *t = open_digits(&r);
    pg__flat f = {0};
    int finite;
    (void)state;
    assert_ok(pg__flat_alloc(t, &f, NULL));
    assert_ok(pg__flat_fill(t, &f, 1));
    assert_ok(t->devs.backend->put(t->devs.dev, f.at[1], &(float){NAN}, sizeof(float)));
    for (t->vars.trained[1] = 0; t->vars.trained[1] < 2; t->vars.trained[1]++) {
        assert_ok(pg__grads_finite(t, t->devs.dev, &f, &finite));
        assert_int_equal(finite, !t->vars.trained[1]);
    }
    pg__flat_free(&t->devs, &f);
    pg_trainer_close(t);
}

/* Of this machine; tests/gpu/run.sh runs this on real ones. */
static size_t n_gpus(void)
{
    const pg__backend *b;
    size_t ordinal, n = 0;
    assert_ok(pg__backend_of(&b, &ordinal, "cuda:0", NULL));
    assert_ok(b->count(&n, NULL));
    return n;
}

/* All skip the same steps. */
static void devices_agree(void **state)
{
    static const char *const devices[] = {"cuda:0,cuda:0", "cuda:0,cuda:1"};
    (void)state;
    for (int precision = BFLOAT16; precision <= FLOAT16; precision++) {
        size_t n, m;
        a_run one = large();
        one.precision = precision;
        double *want = train(&one, PG_OK, &n);
        for (size_t k = 0; k < (n_gpus() > 1 ? 2 : 1); k++) {
            a_run some = large(), loose;
            some.precision = precision;
            some.devices = devices[k];
            double *got = train(&some, PG_OK, &m);
            assert_memory_equal(got, want, n * sizeof *got);
            loose = some;
            loose.deterministic = 0;
            loose.n_batches = 0;
            pg__mem_free(train(&loose, PG_OK, &m));
            assert_int_equal(loose.scale.n_skipped, one.scale.n_skipped);
            pg__mem_free(got);
        }
        pg__mem_free(want);
    }
}

/* ---- who computes with what ---- */

static const char mixed_model[] =
    "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"s\", \"layers\": ["
    "{\"class_name\": \"InputLayer\", \"config\": {\"batch_input_shape\": [null, 4], "
    "\"dtype\": \"float32\", \"name\": \"in\"}}, "
    "{\"class_name\": \"Dense\", \"config\": {\"name\": \"a\", \"units\": 8, \"dtype\": "
    "{\"class_name\": \"Policy\", \"config\": {\"name\": \"mixed_bfloat16\"}}}}, "
    "{\"class_name\": \"Dense\", \"config\": {\"name\": \"b\", \"units\": 8, \"dtype\": "
    "{\"module\": \"keras\", \"class_name\": \"DTypePolicy\", \"config\": {\"name\": "
    "\"mixed_float16\"}}}}, "
    "{\"class_name\": \"Dense\", \"config\": {\"name\": \"c\", \"units\": 3, \"dtype\": "
    "\"float32\"}}]}, \"keras_version\": \"2.15.0\", \"backend\": \"tensorflow\"}";

static pg_status open_mixed(pg_trainer **out, const char *devices, int precision, pg_err *err)
{
    char path[] = "/tmp/pg-mixed-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, mixed_model, strlen(mixed_model)), strlen(mixed_model));
    close(fd);
    const pg_train_opts opts = {
        .model = path, .loss = "mse", .devices = devices, .precision = precision};
    const pg_status st = pg_trainer_open(out, &opts, err);
    unlink(path);
    return st;
}

static void assert_elems(int precision, pg__elem a, pg__elem b, pg__elem c, int scaled)
{
    pg_trainer *t = NULL;
    pg_err err = {0};
    if (open_mixed(&t, "cuda:0", precision, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(t->net.leaves.n, 3);
    assert_int_equal(t->net.elems ? t->net.elems[0] : PG_ELEM_REAL, a);
    assert_int_equal(t->net.elems ? t->net.elems[1] : PG_ELEM_REAL, b);
    assert_int_equal(t->net.elems ? t->net.elems[2] : PG_ELEM_REAL, c);
    assert_int_equal(t->compiled.scale.is_used, scaled);
    pg_trainer_close(t);
}

static void policies_of_layers_count_where_nothing_else_is_asked_for(void **state)
{
    (void)state;
    assert_elems(0, PG_ELEM_BF16, PG_ELEM_F16, PG_ELEM_REAL, 1);
    assert_elems(BFLOAT16, PG_ELEM_BF16, PG_ELEM_BF16, PG_ELEM_REAL, 0);
    assert_elems(FLOAT16, PG_ELEM_F16, PG_ELEM_F16, PG_ELEM_REAL, 1);
    assert_elems(FLOAT32, PG_ELEM_REAL, PG_ELEM_REAL, PG_ELEM_REAL, 0);
    assert_elems(1, PG_ELEM_REAL, PG_ELEM_REAL, PG_ELEM_REAL, 0);
}

static void the_cpu_says_what_it_does_instead(void **state)
{
    pg_trainer *t = NULL;
    pg_err err = {0};
    int n = 0;
    (void)state;
    assert_int_equal(setenv("PG_ISA", "base", 1), 0); /* no CPU has products of bfloat16 there */
    assert_ok(open_mixed(&t, "cpu:0", 0, &err));
    for (size_t i = 0; i < pg_trainer_n_notes(t); i++)
        n += strcmp(pg_trainer_note(t, i), "layers of 16 bits (mixed precision) compute with "
                                           "float32 on the CPU") == 0;
    assert_int_equal(n, 1);
    pg_trainer_close(t);
    t = NULL;
    assert_int_equal(open_mixed(&t, "cpu:0", BFLOAT16, &err), PG_E_UNSUPPORTED);
    assert_string_equal(err.msg, "bfloat16: cpu computes with float32");
    assert_int_equal(unsetenv("PG_ISA"), 0);
    assert_int_equal(open_mixed(&t, "cuda:0", EMULATED, &err), PG_E_UNSUPPORTED);
    assert_string_equal(err.msg, "bfloat16, emulated: cuda computes with bfloat16 itself");
    assert_null(t);
}

/* ---- what is of 16 bits ---- */

static char letter_of(const pg__tape *t, pg__val v)
{
    if (v == PG_NO_VAL)
        return '-';
    switch (t->values[v].elem) {
    case PG_ELEM_REAL: return 'f';
    case PG_ELEM_INT: return 'i';
    default: return 'h';
    }
}

/* "dense hhf>h" */
static void describe(char out[64], const pg__tape *t, const pg__inst *i)
{
    size_t n = (size_t)snprintf(out, 40, "%s ", i->op->name);
    for (uint32_t k = 0; k < i->n_in && n < 60; k++)
        out[n++] = letter_of(t, pg__in(t, i, k));
    out[n++] = '>';
    for (uint32_t k = 0; k < i->n_out && n < 63; k++)
        out[n++] = letter_of(t, pg__out(t, i, k));
    out[n] = '\0';
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

#define MAX_LINES 400

/* The kinds of instructions of a training program, each once. */
static void check_tape(const char *name, const char *want)
{
    static char lines[MAX_LINES][64];
    golden g;
    char text[8192];
    size_t n = 0;
    const pg__program *p = NULL;
    precision_how = BFLOAT16;
    open_golden(&g, name, "cuda:0", NULL);
    precision_how = 0;
    assert_ok(pg__trainer_program(g.trainer, 4, PG_TRAINS, &p, NULL));
    const pg__tape *t = &pg__program_model(p)->tape;
    for (uint32_t at = 0; at < t->n_insts && n < MAX_LINES; at++)
        describe(lines[n++], t, &t->insts[at]);
    qsort(lines, n, sizeof *lines, by_text);
    text[0] = '\0';
    for (size_t k = 0; k < n; k++)
        if (k == 0 || strcmp(lines[k], lines[k - 1]) != 0)
            strcat(strcat(text, lines[k]), "\n");
    assert_string_equal(text, want);
    close_golden(&g);
}

static void convolutions(void **state)
{
    (void)state;
    check_tape("cnn_bn", "act h>h\n"
                         "act_grad hh>h\n"
                         "bn_apply hfffff->h\n"
                         "bn_dx hhffffff->h\n"
                         "bn_stats h->fff\n"
                         "bn_sums hhff>hff\n"
                         "bn_var ff>f\n"
                         "cast f>h\n"
                         "conv hff>h\n"
                         "conv_dw hh>ff\n"
                         "conv_dx hf>h\n"
                         "dense hhf>f\n"
                         "dense_dw hh>ff\n"
                         "dense_dx hh>h\n"
                         "loss ffff>f\n"
                         "loss_grad ffff>f\n"
                         "reshape h>h\n"
                         "softmax f>f\n");
}
static void recurrent(void **state)
{
    (void)state;
    check_tape("lstm_stateful", "cast f>h\n"
                                "cast h>f\n"
                                "dense hhf>f\n"
                                "dense hhf>h\n"
                                "dense_dw hh>ff\n"
                                "dense_dx hh>h\n"
                                "loss ffff>f\n"
                                "loss_grad ffff>f\n"
                                "lstm hh-hf-->hhhhhhh\n"
                                "lstm_grad hh-hf---h--hhh>fhhh\n");
}
static void transformer(void **state)
{
    (void)state;
    check_tape("bert_mini", "act h>h\n"
                            "act_grad hh>h\n"
                            "add hh>h\n"
                            "attention hhh----->hh\n"
                            "attention_grad hhh-hh->hhhh\n"
                            "cast f>h\n"
                            "dense hhf>f\n"
                            "dense hhf>h\n"
                            "dense_dw hh>ff\n"
                            "dense_dx hh>h\n"
                            "embedding if>h\n"
                            "embedding_dw ihf>f\n"
                            "layer_norm hff>hff\n"
                            "layer_norm_grad hhfff>hff\n"
                            "loss fiff>f\n"
                            "loss_grad fiff>f\n"
                            "pool h>h\n"
                            "pool_grad -h>h\n"
                            "reshape f>f\n"
                            "reshape h>h\n"
                            "softmax f>f\n");
}

/* Activations take half of the memory; staged inputs stay float32. */
static void memory_is_halved(void **state)
{
    uint64_t bytes[2];
    (void)state;
    for (int k = 0; k < 2; k++) {
        golden g;
        pg_forecast f;
        const pg_fit_opts opts = {.batch_size = 32, .epochs = 1};
        precision_how = k ? BFLOAT16 : FLOAT32;
        open_golden(&g, "unet_seg", "cuda:0", NULL);
        precision_how = 0;
        assert_ok(pg_fit_forecast(&f, g.trainer, g.data, &opts, NULL));
        bytes[k] = f.activations;
        close_golden(&g);
    }
    assert_true((double)bytes[1] <= 0.6 * (double)bytes[0]);
}

PG_TEST_MAIN(cmocka_unit_test(convolutions), cmocka_unit_test(recurrent),
             cmocka_unit_test(transformer), cmocka_unit_test(memory_is_halved),
             cmocka_unit_test(policies_of_layers_count_where_nothing_else_is_asked_for),
             cmocka_unit_test(the_cpu_says_what_it_does_instead),
             cmocka_unit_test(a_step_that_overflows_changes_the_scale_alone),
             cmocka_unit_test(a_fixed_scale_skips_nothing),
             cmocka_unit_test(training_goes_on_behind_it),
             cmocka_unit_test(good_steps_raise_the_scale),
             cmocka_unit_test(bfloat16_needs_no_scale),
             cmocka_unit_test(a_run_that_was_cut_ends_with_the_same_bits),
             cmocka_unit_test(only_trained_variables_are_judged), cmocka_unit_test(devices_agree),
             cmocka_unit_test(runs_of_keras_come_near_in_16_bits))
