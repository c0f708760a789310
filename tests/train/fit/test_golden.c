/* Training runs of real Keras 2.15 (testdata/golden), done again on the CPU and on the reference,
 * and the same runs in genuine older versions. */
#include "train/golden_run.h"

#include "backend/cpu/isa.h"

/* ---- the same run in a genuine older Keras and its multi_gpu_model ---- */

static pg_status old_batch_end(void *user, size_t batch, const pg_logs *own, const pg_logs *running,
                               pg_err *err)
{
    golden *g = user;
    const double want = number(pg__json_at(g->expected, g->n_batches++));
    (void)batch, (void)running, (void)err;
    if (!(fabs(own->values[0] - want) <= 1e-4 * fabs(want)))
        fail_msg("%s by the rules of %s: loss of batch %zu is %.9g, that Keras has %.9g", g->folder,
                 g->rules, g->n_batches - 1, own->values[0], want);
    return PG_OK;
}

/* Adam makes steps out of the rounding of the convolutions' biases, and moving means follow them.
 * 2.0.9 applies the moves of four replicas in no fixed order. */
static double old_bound(const char *name, const char *file)
{
    const int unordered = strcmp(file, "old_keras.2.0.9.replicas4.npz") == 0;
    if (strncmp(name, "conv2d", 6) == 0 && strstr(name, "bias"))
        return 2e-3;
    if (strstr(name, "moving_"))
        return unordered ? 5e-3 : strstr(name, "mean") ? 1e-3 : 5e-6;
    return 5e-5;
}

static void check_old_weights(golden *g, const char *file)
{
    char path[600];
    pg_data *npz = NULL;
    assert_ok(pg_data_open(&npz, path_of(g, file, path), NULL));
    for (size_t i = 0; i < pg_trainer_n_weights(g->trainer); i++) {
        const char *name = pg_trainer_weight(g->trainer, i)->name;
        char key[32];
        uint64_t n;
        snprintf(key, sizeof key, "w%03zu", i);
        double *want = read_array(pg__data_find(npz, key), &n), worst = 0;
        double *got = pg__mem_array(n, sizeof *got);
        assert_ok(pg_trainer_read(g->trainer, i, got, n, NULL));
        for (uint64_t k = 0; k < n; k++)
            worst = fmax(worst, fabs(want[k] - got[k]));
        if (!(worst <= old_bound(name, file)))
            fail_msg("%s: %s is off by %.3g", file, name, worst);
        pg__mem_free(want);
        pg__mem_free(got);
    }
    pg_data_close(npz);
}

static void expect_old_run(const char *name, const char *version, const char *replicas,
                           const char *devices)
{
    golden g;
    pg_err err = {0};
    char file[64], path[600], *text;
    pg__json *old;
    size_t n;
    open_golden(&g, name, devices, version);
    snprintf(file, sizeof file, "old_keras.%s.json", version);
    text = read_text(path_of(&g, file, path), &n);
    assert_ok(pg__json_parse(&old, text, n, NULL));
    g.expected = pg__json_get(pg__json_get(pg__json_get(old, "runs"), replicas), "loss_per_batch");
    const pg_callback cb = {.user = &g, .batch_end = old_batch_end};
    const pg_fit_opts opts = {.batch_size = (size_t)number(pg__json_get(g.run, "batch_size")),
                              .epochs = (size_t)number(pg__json_get(g.run, "epochs")),
                              .no_shuffle = 1};
    if (pg_fit(g.trainer, g.data, &opts, &cb, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(g.n_batches, pg__json_len(g.expected));
    snprintf(file, sizeof file, "old_keras.%s.replicas%s.npz", version, replicas);
    if (strcmp(name, "cnn_bn") == 0) /* the other runs come without */
        check_old_weights(&g, file);
    pg__json_free(old);
    pg__mem_free(text);
    close_golden(&g);
}
/* Every replica normalises with its own part of the batch, so losses differ from one device's. */
static void cnn_bn_on_two_and_four_devices(void **state)
{
    (void)state;
    run_golden("cnn_bn", "cpu:0,cpu:1", "2");
    run_golden("cnn_bn", "ref:0,ref:0,ref:0,ref:0", "4");
}

static void cnn_bn_as_older_keras_trained_it(void **state)
{
    static const char *const versions[] = {"2.0.9", "2.2.4", "2.3.1"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        if (i < 2) /* 2.3.1 on one device drifts away from all others */
            expect_old_run("cnn_bn", versions[i], "1", "ref:0");
        expect_old_run("cnn_bn", versions[i], "2", "ref:0,ref:0");
        expect_old_run("cnn_bn", versions[i], "4", "ref:0,ref:0,ref:0,ref:0");
    }
}

/* siamese of 2.2.4 drifts away from all others on one device and on four. */
static void older_keras_trained_them_so(void **state)
{
    static const char *const runs[] = {"mlp_digits", "multiout", "siamese"};
    static const char *const versions[] = {"2.0.9", "2.2.4", "2.3.1"};
    (void)state;
    for (size_t r = 0; r < 3; r++)
        for (size_t i = 0; i < 3; i++) {
            const int drifts = r == 2 && i == 1;
            if (!drifts)
                expect_old_run(runs[r], versions[i], "1", "ref:0");
            expect_old_run(runs[r], versions[i], "2", "ref:0,ref:0");
            if (!drifts)
                expect_old_run(runs[r], versions[i], "4", "ref:0,ref:0,ref:0,ref:0");
        }
}

/* With every build of the CPU's kernels that this processor can run. */
static void expect_golden_on_each_isa(const char *name)
{
    for (int isa = 0; isa < PG_N_ISAS; isa++) {
        if (!pg__isa_present((pg__isa)isa))
            continue;
        assert_int_equal(setenv("PG_ISA", pg__isa_name((pg__isa)isa), 1), 0);
        run_golden(name, "cpu:0", "1");
    }
    assert_int_equal(unsetenv("PG_ISA"), 0);
}

/* As users get them these models are too small for Winograd's arithmetic. */
static void convolutions_agree_by_every_arithmetic(void **state)
{
    (void)state;
    for (conv_how = 2; conv_how > 0; conv_how--) {
        expect_golden_on_each_isa("cnn_bn");
        expect_golden_on_each_isa("unet_seg");
    }
}

#define GOLDEN(run)                                  \
    static void run##_on_the_reference(void **state) \
    {                                                \
        (void)state;                                 \
        run_golden(#run, "ref:0", "1");              \
    }                                                \
    static void run##_on_the_cpu(void **state)       \
    {                                                \
        (void)state;                                 \
        expect_golden_on_each_isa(#run);             \
    }
GOLDEN(bert_mini)
GOLDEN(cnn_bn)
GOLDEN(lstm_stateful)
GOLDEN(lstm_stateless)
GOLDEN(mlp_digits)
GOLDEN(multiout)
GOLDEN(siamese)
GOLDEN(unet_seg)

#define BOTH(run) cmocka_unit_test(run##_on_the_reference), cmocka_unit_test(run##_on_the_cpu)
PG_TEST_MAIN(BOTH(bert_mini), BOTH(cnn_bn), BOTH(lstm_stateful), BOTH(lstm_stateless),
             BOTH(mlp_digits), BOTH(multiout), BOTH(siamese), BOTH(unet_seg),
             cmocka_unit_test(cnn_bn_on_two_and_four_devices),
             cmocka_unit_test(convolutions_agree_by_every_arithmetic),
             cmocka_unit_test(cnn_bn_as_older_keras_trained_it),
             cmocka_unit_test(older_keras_trained_them_so))
