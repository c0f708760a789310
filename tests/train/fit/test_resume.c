/* A run that was interrupted ends as one that was not: bitwise, wherever it was cut and on however
 * many devices it goes on. What does not belong to it is refused by name. */
#include "pg_test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "pg/train.h"
#include "train/fit/resume_lock.h"
#include "train/model/resume_file.h"

typedef struct a_run {
    const char *name, *loss, *optimizer, *metrics, *devices, *settings;
    const char *data; /* NULL: the golden run's */
    int conv;
    const char *loss_weights, *rules;
    pg_fit_opts fit;
    size_t stop_after; /* turns of training, 0: never */
    int in_validation; /* cut at the first validation batch behind them */
    size_t n_batches;  /* that were made */
    volatile int cancel;
    double logs[16]; /* of the last epoch */
    size_t n_logs;
    char event[1024]; /* text of the last one of that kind */
    pg_event_kind listens;
} a_run;

static char folder[] = "/tmp/pg-resume-XXXXXX";
static char file[64], older[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/sub/resume.pg", folder);
    snprintf(older, sizeof older, "%s/sub/resume.pg.1", folder);
    return 0;
}

static int remove_folder(void **state)
{
    char sub[64], before[80];
    (void)state;
    snprintf(before, sizeof before, "%s.before", file);
    unlink(before);
    unlink(file);
    unlink(older);
    snprintf(sub, sizeof sub, "%s/sub", folder);
    rmdir(sub);
    return rmdir(folder);
}

static pg_status count_batch(void *user, size_t batch, const pg_logs *own, const pg_logs *running,
                             pg_err *err)
{
    a_run *r = user;
    (void)batch;
    (void)own;
    (void)running;
    (void)err;
    r->cancel = ++r->n_batches == r->stop_after;
    return PG_OK;
}

static pg_status keep_logs(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    a_run *r = user;
    (void)epoch;
    (void)err;
    r->n_logs = logs->n;
    memcpy(r->logs, logs->values, logs->n * sizeof *logs->values);
    return PG_OK;
}

static pg_status hear(void *user, const pg_event *e, pg_err *err)
{
    a_run *r = user;
    (void)err;
    if (e->kind == r->listens)
        snprintf(r->event, sizeof r->event, "%s", e->text);
    return PG_OK;
}

/* Trains; *out, if not NULL, is the weights that came of it. */
static pg_status run(a_run *r, double **out, size_t *n_out, pg_err *err)
{
    char model[512], data[512], weights[512];
    pg_trainer *t = NULL;
    pg_data *d = NULL;
    size_t n = 0;
    snprintf(model, sizeof model, "%s/golden/%s/model.json", pg_testdata, r->name);
    snprintf(data, sizeof data, "%s/golden/%s/data.npz", pg_testdata, r->name);
    snprintf(weights, sizeof weights, "%s/golden/%s/init_weights.h5", pg_testdata, r->name);
    const pg_train_opts opts = {.model = model,
                                .weights = weights,
                                .loss = r->loss,
                                .optimizer = r->optimizer,
                                .metrics = r->metrics,
                                .loss_weights = r->loss_weights,
                                .rules = r->rules,
                                .devices = r->devices,
                                .conv = r->conv,
                                .deterministic = 1,
                                .threads = 2};
    const pg_callback cb = {
        .user = r, .batch_end = count_batch, .epoch_end = keep_logs, .event = hear};
    r->n_batches = 0;
    r->cancel = 0;
    r->fit.cancel = &r->cancel;
    r->fit.settings = r->settings;
    assert_ok(pg_trainer_open(&t, &opts, err));
    assert_ok(pg_data_open(&d, r->data ? r->data : data, err));
    const pg_status st = pg_fit(t, d, &r->fit, &cb, err);
    for (size_t i = 0; out && i < pg_trainer_n_weights(t); i++)
        n += (size_t)pg_trainer_weight(t, i)->n_bytes / 4;
    if (out) {
        *out = malloc(n * sizeof **out);
        *n_out = n;
        n = 0;
        for (size_t i = 0; i < pg_trainer_n_weights(t); i++) {
            const size_t k = (size_t)pg_trainer_weight(t, i)->n_bytes / 4;
            assert_ok(pg_trainer_read(t, i, *out + n, k, err));
            n += k;
        }
    }
    pg_data_close(d);
    pg_trainer_close(t);
    return st;
}

static a_run digits(void)
{
    static const char *const callbacks[] = {"TerminateOnNaN"};
    return (a_run){.name = "mlp_digits",
                   .loss = "categorical_crossentropy",
                   .optimizer = "adam:learning_rate=0.01",
                   .metrics = "accuracy",
                   .fit = {.epochs = 3,
                           .batch_size = 32,
                           .seed = 5,
                           .validation_split = 0.2,
                           .callbacks = callbacks,
                           .n_callbacks = 1,
                           .resume_file = file}};
}

static void expect_bitwise_end(const a_run *base, const size_t *cuts, size_t n_cuts)
{
    static const char *const devices[] = {"cpu:0,cpu:0", "cpu:0", "cpu:0,cpu:0,cpu:0"};
    double *want = NULL;
    size_t n_want = 0;
    pg_err err = {0};
    a_run whole = *base;
    whole.fit.resume_file = NULL;
    assert_ok(run(&whole, &want, &n_want, &err));
    for (size_t i = 0; i < n_cuts; i++) {
        a_run first = *base, second = *base;
        double *got = NULL;
        size_t n_got = 0;
        first.stop_after = cuts[i];
        first.devices = devices[i % 3];
        assert_int_equal(run(&first, NULL, NULL, &err), PG_E_CANCELLED);
        assert_non_null(strstr(err.msg, file));
        second.devices = devices[(i + 1) % 3];
        second.fit.resume = 1;
        second.listens = PG_EVENT_RESUME;
        if (run(&second, &got, &n_got, &err) != PG_OK)
            fail_msg("%s", err.msg);
        assert_int_equal(first.n_batches + second.n_batches, whole.n_batches);
        assert_int_equal(second.n_logs, whole.n_logs);
        assert_memory_equal(second.logs, whole.logs, whole.n_logs * sizeof *whole.logs);
        assert_int_equal(n_got, n_want);
        assert_memory_equal(got, want, n_want * sizeof *want);
        free(got);
    }
    free(want);
}

static void a_cut_anywhere_changes_nothing(void **state)
{
    const size_t cuts[] = {1, 7, 12, 13, 14, 26, 38};
    a_run r = digits();
    (void)state;
    expect_bitwise_end(&r, cuts, sizeof cuts / sizeof *cuts);
    r.fit.steps_per_epoch = 5;
    r.fit.epochs = 6;
    r.fit.shuffle_batches = 1;
    expect_bitwise_end(&r, (const size_t[]){3, 13, 29}, 3);
}

static void moving_averages_and_dropout_go_on(void **state)
{
    const a_run r = {.name = "cnn_bn",
                     .loss = "categorical_crossentropy",
                     .optimizer = "SGD:learning_rate=0.05,momentum=0.9",
                     .metrics = "accuracy",
                     .fit = {.epochs = 2, .batch_size = 32, .resume_file = file}};
    (void)state;
    expect_bitwise_end(&r, (const size_t[]){2, 5}, 2);
}

static void rows_of_stateful_layers_go_on(void **state)
{
    const a_run r = {.name = "lstm_stateful",
                     .loss = "mse",
                     .fit = {.epochs = 3, .batch_size = 8, .no_shuffle = 1, .resume_file = file}};
    (void)state;
    expect_bitwise_end(&r, (const size_t[]){1, 2, 4}, 3);
}

/* The last batch is smaller than the others. */
static void losses_of_outputs_go_on(void **state)
{
    a_run r = {.name = "multiout",
               .loss = "main_output=categorical_crossentropy,aux_output=binary_crossentropy",
               .loss_weights = "main_output=1,aux_output=0.3",
               .fit = {.epochs = 2, .batch_size = 48, .resume_file = file}};
    (void)state;
    r.rules = "3.6.0";
    expect_bitwise_end(&r, (const size_t[]){3, 9, 14}, 3);
    r.rules = "2.15.0";
    expect_bitwise_end(&r, (const size_t[]){3, 9, 14}, 3);
}

/* Leaves a file that was made after that many batches, and the one of the batch before. */
static void leave_files(size_t after)
{
    pg_err err = {0};
    a_run r = digits();
    unlink(file);
    unlink(older);
    r.stop_after = after;
    r.fit.resume_every = 1e-9;
    assert_int_equal(run(&r, NULL, NULL, &err), PG_E_CANCELLED);
    assert_int_equal(access(older, F_OK), 0);
}

static void spoil(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    const int c = fgetc(f);
    assert_int_equal(fseek(f, -1, SEEK_CUR), 0);
    assert_int_not_equal(fputc(c ^ 1, f), EOF);
    assert_int_equal(fclose(f), 0);
}

static void of_a_damaged_file_the_one_before_is_taken(void **state)
{
    static const long places[] = {0, 9, 13, 17, 30, 50, 200, -1, -5000};
    pg_err err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        a_run r = digits();
        leave_files(5);
        spoil(file, places[i]);
        r.fit.resume = 1;
        r.listens = PG_EVENT_WARNING;
        if (run(&r, NULL, NULL, &err) != PG_OK)
            fail_msg("%ld: %s", places[i], err.msg);
        assert_int_equal(r.n_batches, 39 - 4);
        assert_non_null(strstr(r.event, older));
        assert_ok(access(older, F_OK) == 0 ? PG_OK : PG_E_IO);
    }
    leave_files(5);
    spoil(file, -1);
    spoil(older, -1);
    a_run r = digits();
    r.fit.resume = 2; /* auto does not begin again over what is there */
    assert_fails(PG_E_FORMAT, run(&r, NULL, NULL, &err), &err);
    assert_non_null(strstr(err.msg, file));
}

static void one_run_at_a_time_keeps_its_state_in_a_file(void **state)
{
    pg__resume_lock lock = {0};
    char path[80];
    struct stat sb;
    pg_err err = {0};
    a_run r = digits();
    (void)state;
    snprintf(path, sizeof path, "%s.lock", file);
    leave_files(5);
    assert_int_equal(stat(path, &sb), -1); /* it ended */
    assert_ok(pg__resume_lock_take(&lock, file, 0, &err));
    assert_int_equal(stat(path, &sb), 0);
    r.fit.resume_every = 1e-9;
    for (r.fit.resume = 0; r.fit.resume <= 2; r.fit.resume++) {
        assert_fails(PG_E_IO, run(&r, NULL, NULL, &err), &err);
        assert_non_null(strstr(err.msg, "another run keeps its state here: process "));
        assert_int_equal(r.n_batches, 0);
    }
    assert_int_equal(stat(file, &sb), 0);
    r.fit.resume = 0;
    r.fit.resume_every = 0; /* only an interruption would write it */
    assert_ok(run(&r, NULL, NULL, &err));
    r.n_batches = 0;
    close(lock.fd); /* as of a process that was killed: the name stays */
    lock.is_held = 0;
    pg__resume_lock_release(&lock);
    assert_int_equal(stat(path, &sb), 0);
    r.fit.resume = 1;
    assert_ok(run(&r, NULL, NULL, &err));
    assert_int_equal(r.n_batches, 39 - 5);
    assert_int_equal(stat(path, &sb), -1);
}

static void another_run_is_refused_by_name(void **state)
{
    pg_err err = {0};
    (void)state;
    leave_files(5);
    for (int i = 0; i < 9; i++) {
        static const char *const named[] = {"learning_rate", "loss",      "metrics",
                                            "batch size",    "seed",      "epochs",
                                            "training rows", "callbacks", "convolutions"};
        a_run r = digits();
        r.fit.resume = 1;
        r.optimizer = i == 0 ? "adam:learning_rate=0.02" : r.optimizer;
        r.loss = i == 1 ? "mse" : r.loss;
        r.metrics = i == 2 ? "mae" : r.metrics;
        r.fit.batch_size = i == 3 ? 16 : r.fit.batch_size;
        r.fit.seed = i == 4 ? 6 : r.fit.seed;
        r.fit.epochs = i == 5 ? 4 : r.fit.epochs; /* may be others */
        r.fit.validation_split = i == 6 ? 0.3 : r.fit.validation_split;
        r.fit.n_callbacks = i == 7 ? 0 : r.fit.n_callbacks;
        r.conv = i == 8;
        const pg_status st = run(&r, NULL, NULL, &err);
        assert_int_equal(st, i == 5 ? PG_OK : PG_E_MISMATCH);
        if (i == 5) {
            assert_int_equal(r.n_batches, 52 - 5);
            leave_files(5);
        } else if (!strstr(err.msg, named[i]) || !strstr(err.msg, file)) {
            fail_msg("%s: %s", named[i], err.msg);
        }
    }
    a_run other = digits();
    other.name = "callbacks_mlp_digits";
    other.optimizer = "SGD";
    other.fit.resume = 1;
    assert_fails(PG_E_MISMATCH, run(&other, NULL, NULL, &err), &err);
}

/* 64 rows of one number each, as often as the model wants it. */
static void write_rows(const char *path, size_t width, float last)
{
    char head[128];
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    const int n = snprintf(head, sizeof head,
                           "\x93NUMPY%c%cv%c{'descr': '<f4', 'fortran_order': False, 'shape': (64, "
                           "%zu)}",
                           1, 1, 1, width);
    memset(head + n, ' ', sizeof head - (size_t)n);
    memcpy(head + 6, "\1\0\166\0", 4);
    head[127] = '\n';
    assert_int_equal(fwrite(head, 1, sizeof head, f), sizeof head);
    for (size_t i = 0; i < 64 * width; i++) {
        const float v = i + width < 64 * width ? (float)(i % 7) / 7 : last;
        assert_int_equal(fwrite(&v, sizeof v, 1, f), 1);
    }
    assert_int_equal(fclose(f), 0);
}

static void data_that_changed_are_noticed(void **state)
{
    char x[64], y[64], both[130];
    pg_err err = {0};
    a_run r = digits();
    (void)state;
    unlink(file);
    snprintf(x, sizeof x, "%s/x.npy", folder);
    snprintf(y, sizeof y, "%s/y.npy", folder);
    snprintf(both, sizeof both, "%s,%s", x, y);
    write_rows(x, 64, 0.5f);
    write_rows(y, 10, 0.5f);
    r.data = both;
    r.fit.validation_split = 0;
    r.stop_after = 1;
    assert_int_equal(run(&r, NULL, NULL, &err), PG_E_CANCELLED);
    r.fit.resume = 1;
    r.stop_after = 2;
    assert_int_equal(run(&r, NULL, NULL, &err), PG_E_CANCELLED);
    write_rows(y, 10, 0.25f);
    assert_fails(PG_E_MISMATCH, run(&r, NULL, NULL, &err), &err);
    assert_non_null(strstr(err.msg, "was made with other data"));
    unlink(x);
    unlink(y);
}

static void a_finished_run_has_nothing_to_do(void **state)
{
    pg_err err = {0};
    a_run r = digits();
    (void)state;
    leave_files(5);
    r.fit.resume = 1;
    assert_ok(run(&r, NULL, NULL, &err));
    assert_ok(run(&r, NULL, NULL, &err));
    assert_int_equal(r.n_batches, 0);
    r.listens = PG_EVENT_RESUME;
    r.fit.epochs = 4; /* but it may go on */
    assert_ok(run(&r, NULL, NULL, &err));
    assert_int_equal(r.n_batches, 13);
    assert_string_equal(r.event, "epoch 4");
}

static void what_callbacks_remember_is_told(void **state)
{
    static const char *const callbacks[] = {"EarlyStopping:patience=7,monitor=loss",
                                            "ReduceLROnPlateau:patience=4"};
    pg_err err = {0};
    a_run r = digits();
    (void)state;
    r.fit.callbacks = callbacks;
    r.fit.n_callbacks = 2;
    r.stop_after = 15;
    assert_int_equal(run(&r, NULL, NULL, &err), PG_E_CANCELLED);
    r.stop_after = 0;
    r.fit.resume = 1;
    r.listens = PG_EVENT_RESUME;
    assert_ok(run(&r, NULL, NULL, &err));
    assert_ptr_equal(strstr(r.event, "epoch 2, step 3; best loss "), r.event);
    assert_non_null(
        strstr(r.event, " (epoch 1), patience 0 of 7; learning rate's patience 0 of 4"));
}

static void another_instruction_set_is_told(void **state)
{
    pg_err err = {0};
    a_run r = digits();
    (void)state;
    unlink(file);
    r.stop_after = 2;
    assert_int_equal(setenv("PG_ISA", "base", 1), 0);
    assert_int_equal(run(&r, NULL, NULL, &err), PG_E_CANCELLED);
    r.stop_after = 0;
    r.fit.resume = 1;
    r.fit.epochs = 1;
    r.listens = PG_EVENT_NOTE;
    assert_ok(run(&r, NULL, NULL, &err)); /* the same: nothing is told */
    assert_string_equal(r.event, "");
    assert_int_equal(unsetenv("PG_ISA"), 0);
    r.fit.epochs = 2;
    assert_ok(run(&r, NULL, NULL, &err));
    if (strcmp(r.event, "") != 0) /* there is no other on this machine */
        assert_ptr_equal(strstr(r.event, "computed with base so far, with avx"), r.event);
}

static void without_a_file_it_begins_or_says_so(void **state)
{
    pg_err err = {0};
    a_run r = digits();
    (void)state;
    unlink(file);
    unlink(older);
    r.fit.epochs = 1;
    r.fit.resume = 1;
    assert_fails(PG_E_IO, run(&r, NULL, NULL, &err), &err);
    r.fit.resume = 2;
    assert_ok(run(&r, NULL, NULL, &err));
    assert_int_equal(r.n_batches, 13);
    r.fit.resume_file = NULL;
    assert_fails(PG_E_ARG, run(&r, NULL, NULL, &err), &err);
}

static void a_run_that_backs_up_goes_on_by_itself(void **state)
{
    char text[128];
    const char *const callbacks[] = {text};
    pg_err err = {0};
    a_run r = digits();
    (void)state;
    snprintf(text, sizeof text, "BackupAndRestore:backup_dir=%s/sub,save_freq=4", folder);
    unlink(file);
    r.fit.resume_file = NULL;
    r.fit.callbacks = callbacks;
    r.stop_after = 6;
    assert_int_equal(run(&r, NULL, NULL, &err), PG_E_CANCELLED);
    r.stop_after = 0;
    assert_ok(run(&r, NULL, NULL, &err));
    assert_int_equal(r.n_batches, 39 - 6);
    assert_int_not_equal(access(file, F_OK), 0); /* removed at the end */
    assert_int_not_equal(access(older, F_OK), 0);
}

static void the_settings_come_back(void **state)
{
    char *text = NULL;
    pg_err err = {0};
    a_run r = digits();
    (void)state;
    unlink(file);
    r.settings = "{\"epochs\": 3}";
    r.stop_after = 2;
    r.fit.resume_every = 1e-9;
    assert_int_equal(run(&r, NULL, NULL, &err), PG_E_CANCELLED);
    assert_ok(pg_resume_settings(&text, file, &err));
    assert_string_equal(text, r.settings);
    pg_text_free(text);
    text = NULL;
    spoil(file, -1);
    assert_ok(pg_resume_settings(&text, file, &err)); /* of the one before */
    pg_text_free(text);
    spoil(older, -1);
    assert_fails(PG_E_FORMAT, pg_resume_settings(&text, file, &err), &err);
}

static void what_an_earlier_run_left_stays(void **state)
{
    char before[80];
    char *text = NULL;
    pg_err err = {0};
    a_run r = digits();
    (void)state;
    snprintf(before, sizeof before, "%s.before", file);
    leave_files(5);
    r.settings = "another";
    r.fit.resume_every = 1e-9; /* saves again and again */
    r.fit.epochs = 1;
    r.listens = PG_EVENT_NOTE;
    assert_ok(run(&r, NULL, NULL, &err));
    assert_non_null(strstr(r.event, before));
    assert_ok(pg_resume_settings(&text, older, &err));
    assert_string_equal(text, "another");
    pg_text_free(text);
    assert_int_equal(rename(before, file), 0);
    a_run first = digits();
    first.fit.resume = 1;
    assert_ok(run(&first, NULL, NULL, &err));
    assert_int_equal(first.n_batches, 39 - 5);
}

static void what_is_no_such_file_is_left_alone(void **state)
{
    pg_err err = {0};
    a_run r = digits();
    FILE *f = fopen(file, "w");
    (void)state;
    assert_non_null(f);
    fputs("somebody's notes", f);
    fclose(f);
    assert_fails(PG_E_ARG, run(&r, NULL, NULL, &err), &err);
    assert_non_null(strstr(err.msg, "is not a resume file"));
    assert_int_equal(r.n_batches, 0);
    unlink(file);
}

static void a_link_to_the_file_keeps_the_one_before(void **state)
{
    char there[64];
    pg_err err = {0};
    a_run r = digits();
    (void)state;
    leave_files(5);
    snprintf(there, sizeof there, "%s/there.pg", folder);
    assert_int_equal(rename(file, there), 0);
    assert_int_equal(symlink(there, file), 0);
    r.fit.resume_every = 1e-9;
    r.fit.epochs = 1;
    assert_ok(run(&r, NULL, NULL, &err));
    spoil(there, -1); /* the other is whole */
    r.fit.resume = 1;
    r.fit.epochs = 2;
    assert_ok(run(&r, NULL, NULL, &err));
    assert_true(r.n_batches >= 13);
    unlink(there);
    r.fit.resume = 0;
    assert_fails(PG_E_ARG, run(&r, NULL, NULL, &err), &err); /* it leads nowhere now */
    unlink(file);
}

static void a_file_that_cannot_be_written_is_missed_at_the_end(void **state)
{
    pg_err err = {0};
    a_run r = digits();
    (void)state;
    r.fit.resume_file = "/proc/pg/resume.pg";
    r.fit.resume_every = 1e-9;
    r.listens = PG_EVENT_WARNING;
    assert_fails(PG_E_IO, run(&r, NULL, NULL, &err), &err);
    assert_int_equal(r.n_batches, 39); /* it went on */
    assert_non_null(strstr(r.event, "training goes on"));
}

PG_TEST_MAIN_WITH(make_folder, remove_folder, cmocka_unit_test(a_cut_anywhere_changes_nothing),
                  cmocka_unit_test(moving_averages_and_dropout_go_on),
                  cmocka_unit_test(rows_of_stateful_layers_go_on),
                  cmocka_unit_test(losses_of_outputs_go_on),
                  cmocka_unit_test(of_a_damaged_file_the_one_before_is_taken),
                  cmocka_unit_test(one_run_at_a_time_keeps_its_state_in_a_file),
                  cmocka_unit_test(another_run_is_refused_by_name),
                  cmocka_unit_test(data_that_changed_are_noticed),
                  cmocka_unit_test(a_finished_run_has_nothing_to_do),
                  cmocka_unit_test(what_callbacks_remember_is_told),
                  cmocka_unit_test(another_instruction_set_is_told),
                  cmocka_unit_test(without_a_file_it_begins_or_says_so),
                  cmocka_unit_test(a_run_that_backs_up_goes_on_by_itself),
                  cmocka_unit_test(the_settings_come_back),
                  cmocka_unit_test(what_an_earlier_run_left_stays),
                  cmocka_unit_test(what_is_no_such_file_is_left_alone),
                  cmocka_unit_test(a_link_to_the_file_keeps_the_one_before),
                  cmocka_unit_test(a_file_that_cannot_be_written_is_missed_at_the_end))
