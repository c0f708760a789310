/* A run of a model of mixed_float16 layers that was begun on the CPU, where nothing is scaled, goes
 * on with the GPU of plain C (host.h). */
#include "pg_test.h"

#include <math.h>
#include <unistd.h>

#include "base/mem.h"
#include "train/step/trainer.h"

static const char was[] = "\"trainable\": true, \"dtype\": \"float32\"";
static const char is[] = "\"trainable\": true, \"dtype\": \"mixed_float16\"";

static void write_mixed(const char *path)
{
    static char text[1 << 16];
    char from[600], *at = text;
    snprintf(from, sizeof from, "%s/golden/mlp_digits/model.json", pg_testdata);
    FILE *in = fopen(from, "r"), *out = fopen(path, "w");
    assert_true(in && out);
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    for (char *next; (next = strstr(at, was)); at = next + strlen(was)) {
        *next = '\0';
        fprintf(out, "%s%s", at, is);
    }
    assert_true(at > text);
    fputs(at, out);
    fclose(in);
    fclose(out);
}

static pg_status cancel_it(void *user, size_t batch, const pg_logs *own, const pg_logs *running,
                           pg_err *err)
{
    (void)batch, (void)own, (void)running, (void)err;
    *(volatile int *)user = 1;
    return PG_OK;
}

static pg_trainer *run_on(const char *devices, const char *model, pg_fit_opts *opts, int cancels)
{
    char path[600];
    volatile int cancel = 0;
    pg_trainer *t = NULL;
    pg_data *data = NULL;
    pg_err err = {0};
    const pg_train_opts how = {.model = model,
                               .loss = "categorical_crossentropy",
                               .optimizer = "adam",
                               .devices = devices,
                               .deterministic = 1,
                               .gpu_tune = 1};
    const pg_callback cb = {.user = (void *)(uintptr_t)&cancel,
                            .batch_end = cancels ? cancel_it : NULL};
    opts->cancel = &cancel;
    snprintf(path, sizeof path, "%s/golden/mlp_digits/data.npz", pg_testdata);
    assert_ok(pg_data_open(&data, path, &err));
    if (pg_trainer_open(&t, &how, &err) != PG_OK ||
        pg_fit(t, data, opts, &cb, &err) != (cancels ? PG_E_CANCELLED : PG_OK))
        fail_msg("%s", err.msg);
    pg_data_close(data);
    return t;
}

static void assert_finite(pg_trainer *t)
{
    for (size_t i = 0; i < pg_trainer_n_weights(t); i++) {
        const size_t n = (size_t)(pg_trainer_weight(t, i)->n_bytes / sizeof(float));
        double *v = pg__mem_array(n, sizeof *v);
        assert_ok(pg_trainer_read(t, i, v, n, NULL));
        for (size_t k = 0; k < n; k++)
            assert_true(isfinite(v[k]));
        pg__mem_free(v);
    }
}

static void a_run_begun_on_the_cpu_gets_the_first_scale(void **state)
{
    char folder[] = "/tmp/pg-mixed-XXXXXX", model[64], file[64], older[80];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(model, sizeof model, "%s/model.json", folder);
    snprintf(file, sizeof file, "%s/resume.pg", folder);
    snprintf(older, sizeof older, "%s.1", file);
    write_mixed(model);
    pg_fit_opts opts = {
        .epochs = 1, .batch_size = 32, .steps_per_epoch = 4, .seed = 3, .resume_file = file};
    pg_trainer *t = run_on("cpu:0", model, &opts, 1);
    assert_false(t->compiled.scale.is_used);
    pg_trainer_close(t);
    opts.resume = 1;
    t = run_on("cuda:0", model, &opts, 0);
    assert_true(t->compiled.scale.is_used && t->compiled.scale.now == 32768);
    assert_int_equal(t->compiled.scale.n_skipped, 0);
    assert_int_equal(t->compiled.scale.n_good, 3);
    assert_int_equal(t->compiled.optimizer.iterations, 4);
    assert_finite(t);
    pg_trainer_close(t);
    unlink(model);
    unlink(file);
    unlink(older);
    rmdir(folder);
}

PG_TEST_MAIN(cmocka_unit_test(a_run_begun_on_the_cpu_gets_the_first_scale))
