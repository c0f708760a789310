/* The page of a run is there after every epoch, whole, and ends no run where it cannot be. */
#include "pg_test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "pg/train.h"

static char folder[64], page[128], state_file[128];
static volatile int cancelled;

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/pg-report-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(page, sizeof page, "%s/run.html", folder);
    snprintf(state_file, sizeof state_file, "%s/resume.pg", folder);
    cancelled = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(page);
    unlink(state_file);
    rmdir(folder);
    return 0;
}

static char *text_of(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *s = calloc(1, 1 << 20);
    assert_non_null(f);
    assert_non_null(s);
    s[fread(s, 1, (1 << 20) - 1, f)] = '\0';
    fclose(f);
    return s;
}

static size_t count(const char *s, const char *what)
{
    size_t n = 0;
    for (; (s = strstr(s, what)); s++)
        n++;
    return n;
}

static int resumes; /* keeps its state; 2: goes on from it */

static pg_status fit(size_t epochs, const pg_callback *cb, pg_err *err)
{
    char model[512], data[512], callback[256];
    const char *callbacks = callback;
    pg_trainer *t = NULL;
    pg_data *d = NULL;
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    snprintf(data, sizeof data, "%s/golden/mlp_digits/data.npz", pg_testdata);
    snprintf(callback, sizeof callback, "Report:filename=%s", page);
    const pg_train_opts opts = {.model = model, .loss = "mse", .metrics = "mae", .threads = 1};
    const pg_fit_opts o = {.epochs = epochs,
                           .validation_split = 0.2,
                           .callbacks = &callbacks,
                           .n_callbacks = 1,
                           .resume_file = resumes ? state_file : NULL,
                           .resume = resumes == 2,
                           .cancel = &cancelled,
                           .settings = "{\"a\": \"<script>\"}\n"};
    assert_ok(pg_trainer_open(&t, &opts, err));
    assert_ok(pg_data_open(&d, data, err));
    const pg_status st = pg_fit(t, d, &o, cb, err);
    pg_data_close(d);
    pg_trainer_close(t);
    return st;
}

static void draws_a_chart_of_each_number(void **state)
{
    pg_err err;
    (void)state;
    assert_ok(fit(3, NULL, &err));
    char *s = text_of(page);
    assert_int_equal(count(s, "<svg"), 4); /* loss, mae, learning rate, time */
    assert_int_equal(count(s, "<title>epoch 3\n"), 4);
    assert_non_null(strstr(s, "validation"));
    assert_non_null(strstr(s, "finished"));
    assert_null(strstr(s, "http-equiv=refresh"));
    assert_null(strstr(s, "<script>"));
    assert_non_null(strstr(s, "&lt;script&gt;"));
    assert_non_null(strstr(s, "<th>model<td>mlp_digits\n"));
    assert_non_null(strstr(s, "<th>data<td>"));
    assert_non_null(strstr(s, "<th>loss<td>MeanSquaredError\n"));
    assert_non_null(strstr(s, "<th>metrics<td>mae\n"));
    assert_int_equal(count(s, "src="), 0);
    assert_int_equal(count(s, "href="), 0);
    free(s);
}

static pg_status stop_in_epoch_2(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    (void)user;
    (void)logs;
    return epoch == 2 ? pg_fail(err, PG_E_CANCELLED, "enough") : PG_OK;
}

static void a_run_that_fails_leaves_the_page_of_its_last_epoch(void **state)
{
    const pg_callback cb = {.epoch_end = stop_in_epoch_2};
    pg_err err;
    (void)state;
    assert_fails(PG_E_CANCELLED, fit(5, &cb, &err), &err);
    char *s = text_of(page);
    assert_non_null(strstr(s, "ended before its last epoch"));
    assert_int_equal(count(s, "<title>epoch 2\n"), 4);
    assert_int_equal(count(s, "<title>epoch 3\n"), 0);
    assert_non_null(strstr(s, "2 of 5"));
    free(s);
}

static void replaces_reports_only(void **state)
{
    pg_err err;
    (void)state;
    assert_ok(fit(1, NULL, &err));
    assert_ok(fit(1, NULL, &err));
    FILE *f = fopen(page, "w");
    assert_non_null(f);
    fputs("my own page", f);
    fclose(f);
    assert_fails(PG_E_ARG, fit(1, NULL, &err), &err);
    assert_non_null(strstr(err.msg, "is not a report"));
    char *s = text_of(page);
    assert_string_equal(s, "my own page");
    free(s);
}

static pg_status lose_the_folder(void *user, size_t epoch, pg_err *err)
{
    (void)user;
    (void)err;
    if (epoch == 1) {
        unlink(page);
        rmdir(folder);
    }
    return PG_OK;
}

static pg_status count_warnings(void *user, const pg_event *e, pg_err *err)
{
    (void)err;
    *(size_t *)user += e->kind == PG_EVENT_WARNING;
    return PG_OK;
}

static void a_folder_that_is_lost_ends_no_run_but_is_told(void **state)
{
    size_t n_warnings = 0;
    const pg_callback cb = {
        .user = &n_warnings, .epoch_begin = lose_the_folder, .event = count_warnings};
    pg_err err;
    (void)state;
    assert_fails(PG_E_IO, fit(4, &cb, &err), &err);
    assert_non_null(strstr(err.msg, "run.html"));
    assert_int_equal(n_warnings, 1);
}

static pg_status cancel_in_epoch_2(void *user, size_t batch, const pg_logs *own,
                                   const pg_logs *running, pg_err *err)
{
    size_t *n = user;
    (void)own;
    (void)running;
    (void)err;
    *n += batch == 3;
    cancelled = *n == 2;
    return PG_OK;
}

/* The seconds of every epoch are those of training, not of the clock. */
static void a_resumed_run_goes_on_with_its_page(void **state)
{
    size_t n = 0;
    const pg_callback cb = {.user = &n, .batch_end = cancel_in_epoch_2};
    pg_err err;
    (void)state;
    resumes = 1;
    assert_fails(PG_E_CANCELLED, fit(4, &cb, &err), &err);
    resumes = 2;
    cancelled = 0;
    assert_ok(fit(4, NULL, &err));
    resumes = 0;
    char *s = text_of(page);
    assert_non_null(strstr(s, "4 of 4"));
    for (int epoch = 1; epoch <= 4; epoch++) {
        char title[32];
        snprintf(title, sizeof title, "<title>epoch %d\n", epoch);
        assert_int_equal(count(s, title), 4);
        const char *at = s;
        for (int chart = 0; chart < 4; chart++) /* the last one is the time's */
            at = strstr(at + 1, title);
        assert_true(strtod(strstr(at, "seconds ") + 8, NULL) < 60);
    }
    assert_non_null(strstr(s, "resumed"));
    free(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
PG_TEST_MAIN(TEST(draws_a_chart_of_each_number),
             TEST(a_run_that_fails_leaves_the_page_of_its_last_epoch), TEST(replaces_reports_only),
             TEST(a_folder_that_is_lost_ends_no_run_but_is_told),
             TEST(a_resumed_run_goes_on_with_its_page))
