/* The folder of a split: proven before it counts, and removed as a whole or not at all. */
#include "wrap/files.h"

#include <sys/stat.h>

#include "pg/shard.h"

typedef struct judge {
    pg_status verdict;
    int n_asked, was_whole;
} judge;

static pg_status ask(void *user, const char *path, pg_err *err)
{
    judge *j = user;
    pg_store *s = NULL;
    j->n_asked++;
    j->was_whole = pg_store_open(&s, path, NULL, NULL) == PG_OK;
    pg_store_close(s);
    return j->verdict == PG_OK ? PG_OK : pg_fail(err, j->verdict, "not this one");
}

static pg_status split(const char *dir, judge *j, int force, pg_err *err)
{
    const pg_split_opts opts = {.write = {.force = force, .prove = ask, .user = j}};
    return pg_split_file(data(K224 "cnn4-g2/template_model.h5"), dir, &opts, NULL, err);
}

static void a_folder_that_is_not_proven_replaces_nothing(void **state)
{
    pg_err err = {0};
    judge j = {.verdict = PG_OK};
    struct stat before, after;
    char index[200];
    (void)state;
    const char *dir = tmp("shards");
    snprintf(index, sizeof index, "%s/manifest.json", dir);
    assert_ok(split(dir, &j, 0, &err));
    assert_int_equal(j.n_asked, 1);
    assert_true(j.was_whole);
    assert_int_equal(stat(index, &before), 0);
    j.verdict = PG_E_MISMATCH;
    assert_fails(PG_E_MISMATCH, split(dir, &j, 1, &err), &err);
    assert_true(j.was_whole); /* beside the old one */
    assert_int_equal(stat(index, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    j.verdict = PG_OK;
    assert_ok(split(dir, &j, 1, &err)); /* the next one takes its place */
    assert_int_equal(stat(index, &after), 0);
    assert_true(before.st_ino != after.st_ino);
    assert_ok(pg_shards_remove(dir, &err));
    assert_int_not_equal(stat(dir, &after), 0);
}

static void nothing_foreign_is_removed(void **state)
{
    pg_err err = {0};
    judge j = {.verdict = PG_OK};
    char own[200];
    struct stat sb;
    (void)state;
    const char *dir = tmp("more");
    assert_fails(PG_E_UNKNOWN, pg_shards_remove(dir, &err), &err);
    assert_ok(split(dir, &j, 0, &err));
    snprintf(own, sizeof own, "%s/mine.txt", dir);
    FILE *f = fopen(own, "w");
    assert_non_null(f);
    fclose(f);
    assert_fails(PG_E_IO, pg_shards_remove(dir, &err), &err);
    assert_int_equal(stat(own, &sb), 0);
    assert_int_equal(unlink(own), 0);
    assert_int_equal(rmdir(dir), 0);
    rmdir(tmp_dir);
}

static void a_file_that_is_not_proven_replaces_nothing(void **state)
{
    pg_err err = {0};
    judge j = {.verdict = PG_OK};
    struct stat before, after;
    const char *out = tmp("w.h5");
    const pg_convert_opts opts = {.write = {.force = 1, .prove = ask, .user = &j}};
    (void)state;
    assert_ok(pg_convert_file(data(K224 "cnn4-g2/template_model.h5"), out, &opts, NULL, &err));
    assert_true(j.was_whole);
    assert_int_equal(stat(out, &before), 0);
    j.verdict = PG_E_MISMATCH;
    assert_fails(PG_E_MISMATCH,
                 pg_convert_file(data(K224 "cnn4-g2/template_model.h5"), out, &opts, NULL, &err),
                 &err);
    assert_int_equal(stat(out, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(j.n_asked, 2);
    forget(out);
}

PG_TEST_MAIN(cmocka_unit_test(a_folder_that_is_not_proven_replaces_nothing),
             cmocka_unit_test(a_file_that_is_not_proven_replaces_nothing),
             cmocka_unit_test(nothing_foreign_is_removed))
