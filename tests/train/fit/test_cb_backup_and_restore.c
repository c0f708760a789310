/* BackupAndRestore: where and when the run keeps its state, that an interrupted run goes on from
 * there bit for bit, and what is refused. */
#include "train/callbacks.h"

#include <sys/stat.h>
#include <unistd.h>

extern const pg__cb_type pg__cb_backup_and_restore;
#define TYPE &pg__cb_backup_and_restore

static char folder[64], file[96], text[160];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/pg-backup-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/resume.pg", folder);
    return 0;
}

static int remove_folder(void **state)
{
    char older[100];
    (void)state;
    snprintf(older, sizeof older, "%s.1", file);
    unlink(file);
    unlink(older);
    return rmdir(folder);
}

static const char *with(const char *more)
{
    snprintf(text, sizeof text, "BackupAndRestore:backup_dir=%s%s", folder, more);
    return text;
}

static void end(bench *b)
{
    pg__mem_free(b->fit.resume_file);
    bench_close(b);
}

static void the_state_is_kept_in_its_folder(void **state)
{
    bench b;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    b.type = TYPE;
    bench_begin(&b, TYPE, with(""));
    assert_string_equal(b.fit.resume_file, file);
    assert_int_equal(b.fit.resume, 2); /* if there is one */
    assert_true(b.fit.resume_ends);
    assert_true(b.fit.n_copied > 0);
    end(&b);
    bench_trainer(&b, NULL, NULL);
    bench_begin(&b, TYPE, with(",delete_checkpoint=false"));
    assert_false(b.fit.resume_ends);
    end(&b);
}

static void it_asks_for_a_save_at_every_epoch(void **state)
{
    bench b;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    bench_begin(&b, TYPE, with(""));
    assert_ok(b.type->batch_end(b.self, &b.fit, NULL, NULL));
    assert_false(b.fit.keeps_state);
    bench_epoch(&b, 0, NAN);
    assert_true(b.fit.keeps_state);
    end(&b);
}

/* batches are counted over epochs, and over an interruption. */
static void or_every_so_many_batches(void **state)
{
    bench b;
    char own[160];
    (void)state;
    bench_trainer(&b, NULL, NULL);
    snprintf(own, sizeof own, "%s", with(",save_freq=3"));
    bench_begin(&b, TYPE, own);
    for (int i = 1; i <= 8; i++) {
        b.fit.keeps_state = 0;
        assert_ok(b.type->batch_end(b.self, &b.fit, NULL, NULL));
        assert_int_equal(b.fit.keeps_state, i % 3 == 0);
    }
    b.fit.keeps_state = 0;
    bench_epoch(&b, 0, NAN);
    assert_false(b.fit.keeps_state);
    pg__archive to = {.writes = 1};
    b.type->keep(b.self, &b.fit, &to);
    bench_close_callback(&b);
    pg__mem_free(b.fit.resume_file);
    b.fit.resume_file = NULL;
    bench_begin(&b, TYPE, own);
    pg__archive from = {.in = (const unsigned char *)to.out.s, .n = to.out.n};
    b.type->keep(b.self, &b.fit, &from);
    assert_ok(from.st);
    assert_ok(b.type->batch_end(b.self, &b.fit, NULL, NULL)); /* the ninth */
    assert_true(b.fit.keeps_state);
    pg__archive_fini(&to);
    end(&b);
}

static void assert_refused(const char *callback, char *resume_file)
{
    bench b;
    pg_err err = {0};
    bench_trainer(&b, NULL, NULL);
    b.fit.resume_file = resume_file;
    assert_fails(PG_E_ARG, bench_open(&b, TYPE, callback, &err), &err);
    assert_non_null(strstr(err.msg, "BackupAndRestore"));
    if (b.fit.resume_file == resume_file)
        b.fit.resume_file = NULL;
    end(&b);
}

static void no_folder_or_a_second_place_is_refused(void **state)
{
    static char other[] = "other.pg";
    (void)state;
    assert_refused("BackupAndRestore", NULL);
    assert_refused("BackupAndRestore:backup_dir=", NULL);
    assert_refused(with(""), other);
}

/* ---- runs ---- */

typedef struct a_run {
    size_t n_batches, stop_after;
    volatile int cancel;
    double loss;
} a_run;

static pg_status count_batch(void *user, size_t batch, const pg_logs *own, const pg_logs *running,
                             pg_err *err)
{
    a_run *r = user;
    (void)batch, (void)own, (void)running, (void)err;
    r->cancel = ++r->n_batches == r->stop_after;
    return PG_OK;
}

static pg_status keep_loss(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    (void)epoch, (void)err;
    ((a_run *)user)->loss = logs->values[0];
    return PG_OK;
}

static pg_status run(a_run *r, const char *callback, pg_err *err)
{
    char model[512], rows[512];
    pg_trainer *t = NULL;
    pg_data *d = NULL;
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    snprintf(rows, sizeof rows, "%s/golden/mlp_digits/data.npz", pg_testdata);
    const pg_train_opts opts = {
        .model = model, .optimizer = "adam", .loss = "categorical_crossentropy", .threads = 1};
    const pg_fit_opts fit = {
        .epochs = 2, .callbacks = &callback, .n_callbacks = callback != NULL, .cancel = &r->cancel};
    const pg_callback cb = {.user = r, .batch_end = count_batch, .epoch_end = keep_loss};
    assert_ok(pg_trainer_open(&t, &opts, err));
    assert_ok(pg_data_open(&d, rows, err));
    const pg_status st = pg_fit(t, d, &fit, &cb, err);
    pg_data_close(d);
    pg_trainer_close(t);
    return st;
}

static void an_interrupted_run_ends_as_a_whole_one(void **state)
{
    a_run whole = {0}, first = {.stop_after = 3}, second = {0};
    pg_err err = {0};
    (void)state;
    assert_ok(run(&whole, NULL, &err));
    assert_fails(PG_E_CANCELLED, run(&first, with(""), &err), &err);
    assert_int_equal(access(file, F_OK), 0);
    assert_ok(run(&second, with(""), &err));
    assert_int_equal(first.n_batches + second.n_batches, whole.n_batches);
    assert_true(second.loss == whole.loss);
    assert_int_not_equal(access(file, F_OK), 0); /* complete: nothing to restore any more */
}

PG_TEST_MAIN_WITH(make_folder, remove_folder, cmocka_unit_test(the_state_is_kept_in_its_folder),
                  cmocka_unit_test(it_asks_for_a_save_at_every_epoch),
                  cmocka_unit_test(or_every_so_many_batches),
                  cmocka_unit_test(no_folder_or_a_second_place_is_refused),
                  cmocka_unit_test(an_interrupted_run_ends_as_a_whole_one))
