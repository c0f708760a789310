/* A run of real Keras 2.15 with ReduceLROnPlateau, EarlyStopping and ModelCheckpoint
 * (testdata/golden/callbacks_mlp_digits), done again: what is decided after each epoch, the
 * learning rates, the files, the weights. */
#include "train/golden.h"

/* {"class_name", "config"} of a member of run.json, which has the config alone. */
static char *callback_of(const golden *g, const char *class_name, const char *more)
{
    const pg__json_span all = {0, strlen(g->text)};
    const pg__json_span config = pg__json_member(g->text, all, class_name);
    pg__str s = {0};
    assert_true(config.n > 2);
    assert_ok(pg__str_printf(&s, NULL, "{\"class_name\": \"%s\", \"config\": %.*s%s}}", class_name,
                             (int)config.n - 1, g->text + config.off, more));
    return s.s;
}

static pg_status callbacks_epoch_end(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    golden *g = user;
    pg__json_iter it = {.obj = pg__json_get(g->run, "history_per_epoch")};
    size_t i = 0;
    (void)err;
    g->n_epochs++;
    for (; pg__json_next(&it); i++) {
        const double want = number(pg__json_at(it.value, epoch));
        const double allowed = strcmp(it.key, "lr") == 0 ? 0 : 1e-4 * fabs(want);
        assert_string_equal(logs->names[i], it.key);
        if (!(fabs(logs->values[i] - want) <= allowed))
            fail_msg("%s: %s of epoch %zu is %.9g, Keras has %.9g", g->device, it.key, epoch,
                     logs->values[i], want);
    }
    assert_int_equal(i, logs->n);
    return PG_OK;
}

/* Of the model, or of a file that is one. */
static void check_weights(golden *g, const char *got_file, const char *file)
{
    char path[600];
    pg_store *s = NULL, *got_store = NULL;
    assert_ok(pg_store_open(&s, path_of(g, file, path), NULL, NULL));
    if (got_file)
        assert_ok(pg_store_open(&got_store, got_file, NULL, NULL));
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const pg_weight *w = pg_store_weight(s, i);
        const size_t n = (size_t)(w->n_bytes / sizeof(float));
        float *want = pg__mem_array(n, sizeof *want), *read = pg__mem_array(n, sizeof *read);
        double *got = pg__mem_array(n, sizeof *got);
        assert_ok(pg_store_read(s, i, 0, want, (size_t)w->n_bytes, NULL));
        if (got_file)
            assert_ok(pg_store_read(got_store, i, 0, read, (size_t)w->n_bytes, NULL));
        else
            assert_ok(pg_trainer_read(g->trainer, i, got, n, NULL));
        for (size_t k = 0; k < n; k++)
            got[k] = got_file ? (double)read[k] : got[k];
        for (size_t k = 0; k < n; k++)
            if (!(fabs(want[k] - got[k]) <= 2e-5))
                fail_msg("%s: %s is %.9g, Keras has %.9g", g->device, w->name, got[k], want[k]);
        pg__mem_free(want);
        pg__mem_free(read);
        pg__mem_free(got);
    }
    pg_store_close(got_store);
    pg_store_close(s);
}

/* Files of those epochs, and no others; the last one is the best. */
static void check_checkpoints(golden *g, const char *folder)
{
    const pg__json *list = pg__json_get(g->run, "checkpoint_written_at_epochs");
    char path[600], best[600] = "";
    for (size_t epoch = 0, i = 0; epoch < 40; epoch++) {
        const int want = (size_t)number(pg__json_at(list, i)) == epoch && i < pg__json_len(list);
        snprintf(path, sizeof path, "%s/%02zu.h5", folder, epoch + 1);
        assert_int_equal(access(path, F_OK) == 0, want);
        if (want)
            memcpy(best, path, sizeof best);
        i += (size_t)want;
    }
    check_weights(g, best, "best_weights.h5");
}

static void remove_checkpoints(const char *folder)
{
    char path[600];
    for (size_t epoch = 1; epoch <= 40; epoch++) {
        snprintf(path, sizeof path, "%s/%02zu.h5", folder, epoch);
        (void)unlink(path);
    }
    snprintf(path, sizeof path, "%s/best", folder);
    (void)unlink(path);
    snprintf(path, sizeof path, "%s/last", folder);
    (void)unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

static void expect_golden_callbacks(const char *device)
{
    char folder[] = "/tmp/pg-golden-XXXXXX", more[200];
    golden g;
    pg_err err = {0};
    assert_non_null(mkdtemp(folder));
    open_golden(&g, "callbacks_mlp_digits", device, NULL);
    snprintf(more, sizeof more,
             ", \"save_weights_only\": true, \"filepath\": \"%s/{epoch:02d}.h5\"", folder);
    char *callbacks[] = {callback_of(&g, "ReduceLROnPlateau", ""),
                         callback_of(&g, "EarlyStopping", ""),
                         callback_of(&g, "ModelCheckpoint", more)};
    const pg_callback cb = {.user = &g, .epoch_end = callbacks_epoch_end};
    const pg_fit_opts opts = {.batch_size = (size_t)number(pg__json_get(g.run, "batch_size")),
                              .epochs = (size_t)number(pg__json_get(g.run, "epochs_asked")),
                              .no_shuffle = 1,
                              .validation = g.data,
                              .callbacks = (const char *const *)callbacks,
                              .n_callbacks = 3};
    if (pg_fit(g.trainer, g.data, &opts, &cb, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(g.n_epochs, number(pg__json_get(g.run, "epochs_run")));
    check_weights(&g, NULL, "final_weights.h5");
    check_checkpoints(&g, folder);
    remove_checkpoints(folder);
    for (size_t i = 0; i < 3; i++)
        pg__mem_free(callbacks[i]);
    close_golden(&g);
}

static void callbacks_decide_as_Keras_does(void **state)
{
    (void)state;
    expect_golden_callbacks("ref:0");
    expect_golden_callbacks("cpu:0");
    expect_golden_callbacks("cpu:0,cpu:0");
}

PG_TEST_MAIN(cmocka_unit_test(callbacks_decide_as_Keras_does))
