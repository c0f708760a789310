#include "wrap/files.h"

#include "format/h5_image.h"

#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "pg/unwrap.h"

/* Stands before the C library's: a file system without locks. */
static int flock_fails;
int flock(int fd, int operation)
{
    if (!flock_fails)
        return (int)syscall(SYS_flock, fd, operation);
    errno = flock_fails;
    return -1;
}

static const pg_unwrap_opts here = {.write = {.in_place = 1, .no_sync = 1}};
static const pg_wrap_opts two = {.write = {.in_place = 1, .no_sync = 1}, .n_replicas = 2};

static const char *copy_of(const char *rel)
{
    const char *own = tmp("own.h5");
    const image im = image_load(data(rel));
    FILE *f = fopen(own, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(im.p, 1, im.n, f), im.n);
    assert_int_equal(fclose(f), 0);
    free(im.p);
    return own;
}

static uint64_t size_of(const char *path)
{
    struct stat sb;
    assert_int_equal(stat(path, &sb), 0);
    return (uint64_t)sb.st_size;
}

static void tells_by_how_much_the_file_grows(void **state)
{
    (void)state;
    pg_rewrite_report plan = {0}, rep = {0};
    const char *own = copy_of(K224 "cnn4-g2/wrapper_weights.h5");
    const uint64_t before = size_of(own);
    pg_unwrap_opts dry = here;
    dry.write.dry_run = 1;
    assert_ok(pg_unwrap_file(own, NULL, &dry, &plan, NULL));
    assert_int_equal(size_of(own), before);
    assert_ok(pg_unwrap_file(own, NULL, &here, &rep, NULL));
    assert_int_equal(size_of(own), before + rep.added_bytes);
    assert_int_equal(size_of(own), rep.file_bytes);
    assert_int_equal(plan.added_bytes, rep.added_bytes);
    assert_int_equal(plan.file_bytes, rep.file_bytes);
    assert_true(rep.added_bytes > 0);
    pg_rewrite_report_fini(&plan);
    pg_rewrite_report_fini(&rep);
    forget(own);
}

static void notes_that_nothing_keeps_others_from_writing(void **state)
{
    (void)state;
    pg_rewrite_report rep = {0};
    const char *own = copy_of(K224 "cnn4-g2/wrapper_weights.h5");
    flock_fails = ENOLCK;
    const pg_status st = pg_unwrap_file(own, NULL, &here, &rep, NULL);
    flock_fails = 0;
    assert_ok(st);
    assert_int_equal(rep.n_notes, 2);
    assert_non_null(strstr(rep.notes[1], "this file system has no locks"));
    pg_rewrite_report_fini(&rep);
    forget(own);
}

/* Whatever lies behind the end stays there, too. */
static void a_failure_says_that_nothing_changed_and_is_right(void **state)
{
    (void)state;
    pg_err err = {0};
    struct rlimit before, small;
    const char *own = copy_of(K224 "cnn4-g2/wrapper_weights.h5");
    FILE *f = fopen(own, "ab");
    assert_non_null(f);
    assert_true(fputs("somebody's own bytes", f) >= 0 && fclose(f) == 0);
    const image old = image_load(own);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){old.n + 10, before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const pg_status st = pg_unwrap_file(own, NULL, &here, NULL, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_fails(PG_E_IO, st, &err);
    assert_int_equal(err.sys, EFBIG);
    assert_int_equal(strncmp(err.msg, own, strlen(own)), 0);
    assert_string_equal(err.msg + strlen(own), ": File too large; nothing changed");
    const image now = image_load(own);
    assert_int_equal(now.n, old.n);
    assert_memory_equal(now.p, old.p, old.n);
    free(old.p);
    free(now.p);
    forget(own);
}

/* A wrapper's file with one layer inside, and too many attributes for our own reader. */
static const char *file_for_hdf5_only(void)
{
    static const char layers[5][10] = {"input_1", "lambda_1", "lambda_2", "model_1", "dense_1"};
    const char *own = tmp("own.h5");
    const hid_t f = image_begin(1), s10 = image_string(10, 0, 1), s16 = image_string(16, 0, 1);
    image_dataset(f, "model_1/dense_1/kernel:0", H5T_IEEE_F32LE, 2, (hsize_t[]){3, 4}, H5P_DEFAULT,
                  1);
    for (int i = 0; i < 5; i++) {
        if (i != 3)
            H5Gclose(image_group(f, layers[i]));
        image_attr(f, layers[i], "weight_names", i == 3 ? s16 : H5T_IEEE_F64LE, i == 3,
                   i == 3 ? "dense_1/kernel:0" : NULL);
    }
    image_attr(f, "/", "layer_names", s10, 5, layers);
    for (int i = 0; i < 20; i++) {
        char name[20];
        snprintf(name, sizeof name, "more %d", i);
        image_attr(f, "/", name, H5T_STD_I32LE, -1, &i);
    }
    H5Tclose(s10);
    H5Tclose(s16);
    assert_true(H5Fclose(f) >= 0);
    assert_int_equal(rename(image_path, own), 0);
    return own;
}

static void names_h5repack_for_what_only_hdf5_reads(void **state)
{
    (void)state;
    pg_err err = {0};
    char way[600], repack[600];
    const char *own = file_for_hdf5_only();
    snprintf(way, sizeof way, "repack file=%s", own);
    assert_fails(PG_E_UNSUPPORTED, pg_unwrap_file(own, NULL, &here, NULL, &err), &err);
    assert_string_equal(advice_of(&err), way);
    const char *older = tmp("older.h5"), *out = tmp("out.h5");
    snprintf(repack, sizeof repack, "h5repack '%s' '%s'", own, older);
    if (system(repack) == 0) { /* where the HDF5 tools are, what they write is read */
        assert_ok(pg_unwrap_file(older, out, NULL, NULL, NULL));
        forget(out);
        forget(older);
    }
    forget(own);
}

static int has_note(const pg_rewrite_report *rep, const char *words)
{
    for (size_t i = 0; i < rep->n_notes; i++)
        if (strstr(rep->notes[i], words))
            return 1;
    return 0;
}

static void tells_what_earlier_changes_left_behind(void **state)
{
    (void)state;
    pg_err err = {0};
    const char *own = copy_of(K224 "cnn4-g2/wrapper_weights.h5");
    for (int round = 0; round < 3; round++) {
        pg_rewrite_report rep = {0};
        assert_ok(pg_unwrap_file(own, NULL, &here, &rep, NULL));
        assert_int_equal(has_note(&rep, "out of reach since an earlier change"), round > 0);
        pg_rewrite_report_fini(&rep);
        if (round < 2)
            assert_ok(pg_wrap_file(own, NULL, &two, NULL, NULL));
    }
    assert_fails(PG_E_NO, pg_unwrap_file(own, NULL, &here, NULL, &err), &err);
    assert_non_null(strstr(err.detail, "out of reach since an earlier change"));
    assert_int_equal(err.action.what, PG_DO_COPY);
    forget(own);
}

static void finds_nothing_out_of_reach_in_what_keras_wrote(void **state)
{
    (void)state;
    static const char *const names[] = {K224 "cnn4-g2/template_weights.h5",
                                        K224 "cnnbn-g2/template_model.h5",
                                        K224 "longnames/template_weights.h5",
                                        "files/keras-2.0.9/bignames/template_weights.h5",
                                        "files/tf.keras-2.15/bert-g2/template_weights.h5",
                                        "extra/keras-2.15/gzip/template_model.h5",
                                        "extra/keras-3.6/not-ascii/template_model.h5"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pg_err err = {0};
        const char *own = copy_of(names[i]);
        assert_fails(PG_E_NO, pg_unwrap_file(own, NULL, &here, NULL, &err), &err);
        assert_string_equal(err.detail, "");
        forget(own);
    }
}

PG_TEST_MAIN(cmocka_unit_test(tells_by_how_much_the_file_grows),
             cmocka_unit_test(notes_that_nothing_keeps_others_from_writing),
             cmocka_unit_test(a_failure_says_that_nothing_changed_and_is_right),
             cmocka_unit_test(names_h5repack_for_what_only_hdf5_reads),
             cmocka_unit_test(tells_what_earlier_changes_left_behind),
             cmocka_unit_test(finds_nothing_out_of_reach_in_what_keras_wrote))
