/* CSVLogger: bytes as Keras 2.15 writes them, interruptions, and files that cannot be written. */
#include "train/callbacks.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern const pg__cb_type pg__cb_csv_logger;
#define TYPE &pg__cb_csv_logger

static char folder[64], path[96], text[160];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/pg-csv-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log.csv", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)chmod(folder, 0700);
    (void)unlink(path);
    return rmdir(folder);
}

static const char *with(const char *more)
{
    snprintf(text, sizeof text, "CSVLogger:filename=%s%s", path, more);
    return text;
}

static void assert_file(const char *want)
{
    char got[1024];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(got, 1, sizeof got - 1, f);
    fclose(f);
    got[n] = '\0';
    assert_string_equal(got, want);
}

static void write_file(const char *s)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(s, f);
    fclose(f);
}

#define HEADER "epoch,accuracy,loss,lr,val_accuracy,val_loss\r\n"

static void rows_are_as_Keras_writes_them(void **state)
{
    bench b;
    (void)state;
    write_file("epochs of old\n");
    bench_trainer(&b, NULL, NULL);
    bench_begin(&b, TYPE, with(""));
    bench_epoch(&b, 0, 0.3);
    bench_epoch(&b, 1, NAN);
    assert_ok(pg__fit_set_rate(&b.fit, 0.0001, NULL));
    bench_epoch(&b, 2, 1e-5);
    assert_ok(b.type->train_end(b.self, &b.fit, NULL));
    assert_file(HEADER "0,0.5,1.0,0.1,0.30000001192092896,0.30000001192092896\r\n"
                       "1,0.5,1.0,0.1,NA,NA\r\n"
                       "2,0.5,1.0,1e-04,9.999999747378752e-06,9.999999747378752e-06\r\n");
    assert_ok(b.fit.missing);
    assert_int_equal(b.n_events, 0);
    bench_close(&b);
}

/* Keras 3 makes a Python float of it. */
static void the_rate_is_a_column_of_its_Keras(void **state)
{
    bench b;
    (void)state;
    bench_trainer(&b, "3.6", NULL);
    bench_begin(&b, TYPE, with(",separator=;"));
    bench_epoch(&b, 0, 2);
    assert_file("epoch;accuracy;loss;lr;val_accuracy;val_loss\r\n"
                "0;0.5;1.0;0.10000000149011612;2.0;2.0\r\n");
    bench_close(&b);
}

static void validation_has_columns_before_it_has_values(void **state)
{
    bench b;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    bench_begin(&b, TYPE, with(""));
    bench_epoch(&b, 0, NAN);
    bench_epoch(&b, 1, 2);
    assert_file("epoch,accuracy,loss,lr,val_accuracy,val_loss,val_lr\r\n"
                "0,0.5,1.0,0.1,NA,NA,NA\r\n"
                "1,0.5,1.0,0.1,2.0,2.0,NA\r\n");
    bench_close(&b);
}

static void append_goes_on_without_a_header(void **state)
{
    bench b;
    (void)state;
    for (int run = 0; run < 2; run++) {
        bench_trainer(&b, NULL, NULL);
        bench_begin(&b, TYPE, with(",append=true"));
        bench_epoch(&b, 0, 2);
        bench_close(&b);
    }
    assert_file(HEADER "0,0.5,1.0,0.1,2.0,2.0\r\n"
                       "0,0.5,1.0,0.1,2.0,2.0\r\n");
}

static void a_resumed_run_cuts_the_file_back(void **state)
{
    bench b;
    FILE *f;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    bench_begin(&b, TYPE, with(""));
    bench_epoch(&b, 0, 2);
    assert_non_null(f = fopen(path, "ab"));
    fputs("1,0.5,of a run that was killed\r\n2,", f);
    fclose(f);
    bench_resume(&b, with(""));
    bench_epoch(&b, 1, 3);
    assert_file(HEADER "0,0.5,1.0,0.1,2.0,2.0\r\n"
                       "1,0.5,1.0,0.1,3.0,3.0\r\n");
    bench_close(&b);
}

static void a_resumed_run_may_find_no_file(void **state)
{
    bench b;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    bench_begin(&b, TYPE, with(""));
    bench_epoch(&b, 0, 2);
    assert_int_equal(unlink(path), 0);
    bench_resume(&b, with(""));
    assert_int_equal(b.kind, PG_EVENT_WARNING);
    bench_epoch(&b, 1, 3);
    assert_file(HEADER "1,0.5,1.0,0.1,3.0,3.0\r\n");
    bench_close(&b);
}

/* A disk that is full for a while: a limit on the size of files does the same, for root too. */
static void what_cannot_be_written_waits(void **state)
{
    struct rlimit all, none;
    bench b;
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    bench_trainer(&b, NULL, NULL);
    bench_begin(&b, TYPE, with(""));
    bench_epoch(&b, 0, 2);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    none = all;
    none.rlim_cur = 100;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    bench_epoch(&b, 1, 3);
    bench_epoch(&b, 2, 4);
    assert_ok(b.type->train_end(b.self, &b.fit, NULL));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_int_equal(b.n_events, 1); /* told once */
    assert_int_equal(b.kind, PG_EVENT_WARNING);
    assert_non_null(strstr(b.text, "will retry at the end of the next epoch"));
    assert_int_equal(b.fit.missing, PG_E_IO); /* the run will say so */
    assert_non_null(strstr(b.fit.why.msg, "log.csv"));
    bench_resume(&b, with("")); /* the rows are in its state */
    bench_epoch(&b, 3, 5);
    assert_file(HEADER "0,0.5,1.0,0.1,2.0,2.0\r\n"
                       "1,0.5,1.0,0.1,3.0,3.0\r\n"
                       "2,0.5,1.0,0.1,4.0,4.0\r\n"
                       "3,0.5,1.0,0.1,5.0,5.0\r\n");
    bench_close(&b);
}

static void a_file_that_is_removed_is_begun_anew(void **state)
{
    bench b;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    bench_begin(&b, TYPE, with(""));
    bench_epoch(&b, 0, 2);
    assert_int_equal(unlink(path), 0);
    bench_epoch(&b, 1, 3);
    assert_file(HEADER "1,0.5,1.0,0.1,3.0,3.0\r\n");
    bench_close(&b);
}

/* Within the first epoch: the header is pending still. */
static void a_file_that_is_removed_at_once_has_one_header(void **state)
{
    bench b;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    bench_begin(&b, TYPE, with(""));
    assert_int_equal(unlink(path), 0);
    bench_epoch(&b, 0, 2);
    assert_file(HEADER "0,0.5,1.0,0.1,2.0,2.0\r\n");
    bench_close(&b);
}

static void only_a_table_of_epochs_is_written_over(void **state)
{
    bench b;
    pg_err err;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    write_file("x0,x1,y\n1,2,3\n");
    assert_fails(PG_E_ARG, bench_open(&b, TYPE, with(""), &err), &err);
    assert_non_null(strstr(err.msg, "not a table of epochs"));
    bench_close_callback(&b);
    assert_file("x0,x1,y\n1,2,3\n");
    write_file(HEADER);
    assert_ok(bench_open(&b, TYPE, with(""), &err));
    bench_close(&b);
}

static void what_is_wrong_is_named(void **state)
{
    bench b;
    pg_err err;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    assert_fails(PG_E_ARG, bench_open(&b, TYPE, "CSVLogger", &err), &err);
    assert_string_equal(err.msg, "CSVLogger: no filename given");
    bench_close_callback(&b);
    assert_fails(PG_E_ARG, bench_open(&b, TYPE, with(",separator=::"), &err), &err);
    bench_close_callback(&b);
    snprintf(text, sizeof text, "CSVLogger:filename=/proc/none/log.csv");
    assert_ok(bench_open(&b, TYPE, text, &err));
    assert_fails(PG_E_IO, b.type->train_begin(b.self, &b.fit, &err), &err); /* before training */
    assert_non_null(strstr(err.msg, "/proc/none"));
    bench_close(&b);
}

#define IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
PG_TEST_MAIN(IN_FOLDER(rows_are_as_Keras_writes_them), IN_FOLDER(the_rate_is_a_column_of_its_Keras),
             IN_FOLDER(validation_has_columns_before_it_has_values),
             IN_FOLDER(append_goes_on_without_a_header),
             IN_FOLDER(a_resumed_run_cuts_the_file_back), IN_FOLDER(a_resumed_run_may_find_no_file),
             IN_FOLDER(what_cannot_be_written_waits),
             IN_FOLDER(a_file_that_is_removed_at_once_has_one_header),
             IN_FOLDER(only_a_table_of_epochs_is_written_over),
             IN_FOLDER(a_file_that_is_removed_is_begun_anew), IN_FOLDER(what_is_wrong_is_named))
