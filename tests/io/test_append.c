#include "pg_test.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/append.h"
#include "io/folder.h"

static char dir[64];

static int enter(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/pg-test-append-XXXXXX");
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    char cmd[192];
    snprintf(cmd, sizeof cmd, "chmod -R u+w %s; rm -rf %s", dir, dir);
    return chdir("/") || system(cmd) ? -1 : 0;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void assert_holds(const char *path, const char *text)
{
    char buf[256] = "";
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    buf[fread(buf, 1, sizeof buf - 1, f)] = 0;
    fclose(f);
    assert_string_equal(buf, text);
}

static void add(pg__append *a, const char *text)
{
    assert_ok(pg__str_puts(&a->pending, text, NULL));
}

static void grows_by_what_is_pending(void **state)
{
    (void)state;
    pg__append a = {0};
    assert_ok(pg__append_open(&a, "log", PG_APPEND_NEW, NULL));
    assert_ok(pg__append_flush(&a, NULL));
    add(&a, "one\n");
    add(&a, "two\n");
    assert_holds("log", "");
    assert_ok(pg__append_flush(&a, NULL));
    assert_holds("log", "one\ntwo\n");
    add(&a, "three\n");
    assert_ok(pg__append_flush(&a, NULL));
    assert_holds("log", "one\ntwo\nthree\n");
    assert_int_equal(a.n_bytes, 14);
    pg__append_fini(&a);
}

static void begins_anew_over_or_behind_what_is_there(void **state)
{
    (void)state;
    pg_err err = {0};
    pg__append a = {0};
    put("log", "old\n");
    assert_fails(PG_E_IO, pg__append_open(&a, "log", PG_APPEND_NEW, &err), &err);
    assert_int_equal(err.sys, EEXIST);
    assert_null(a.path);
    assert_ok(pg__append_open(&a, "log", PG_APPEND_ON, NULL));
    add(&a, "new\n");
    assert_ok(pg__append_flush(&a, NULL));
    assert_holds("log", "old\nnew\n");
    assert_ok(pg__append_open(&a, "log", PG_APPEND_OVER, NULL));
    assert_holds("log", "");
    add(&a, "fresh\n");
    assert_ok(pg__append_flush(&a, NULL));
    assert_holds("log", "fresh\n");
    pg__append_fini(&a);
}

static void refuses_what_is_no_file(void **state)
{
    (void)state;
    pg_err err = {0};
    pg__append a = {0};
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_fails(PG_E_IO, pg__append_open(&a, "fifo", PG_APPEND_ON, &err), &err);
    assert_fails(PG_E_IO, pg__append_open(&a, ".", PG_APPEND_ON, &err), &err);
    assert_fails(PG_E_IO, pg__append_open(&a, "none/log", PG_APPEND_NEW, &err), &err);
    assert_null(a.path);
}

/* A limit on file sizes stands for a full disk: the write ends half way. */
static void a_write_that_fails_leaves_whole_records_and_is_tried_again(void **state)
{
    (void)state;
    const struct rlimit little = {6, RLIM_INFINITY}, any = {RLIM_INFINITY, RLIM_INFINITY};
    pg_err err = {0};
    pg__append a = {0};
    assert_ok(pg__append_open(&a, "log", PG_APPEND_NEW, NULL));
    add(&a, "one\n");
    assert_ok(pg__append_flush(&a, NULL));
    add(&a, "two\n");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    assert_fails(PG_E_IO, pg__append_flush(&a, &err), &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &any), 0);
    assert_int_equal(err.sys, EFBIG);
    assert_holds("log", "one\n");
    add(&a, "three\n");
    assert_ok(pg__append_flush(&a, NULL));
    assert_holds("log", "one\ntwo\nthree\n");
    pg__append_fini(&a);
}

static void knows_that_its_file_is_gone_or_was_cut(void **state)
{
    (void)state;
    pg_err err = {0};
    pg__append a = {0};
    assert_ok(pg__append_open(&a, "log", PG_APPEND_NEW, NULL));
    add(&a, "one\n");
    assert_ok(pg__append_flush(&a, NULL));
    add(&a, "two\n");
    assert_int_equal(truncate("log", 2), 0);
    assert_fails(PG_E_IO, pg__append_flush(&a, &err), &err);
    assert_int_equal(err.sys, ENOENT);
    assert_int_equal(unlink("log"), 0);
    assert_fails(PG_E_IO, pg__append_flush(&a, &err), &err);
    assert_int_equal(err.sys, ENOENT);
    assert_int_not_equal(access("log", F_OK), 0);
    assert_string_equal(a.pending.s, "two\n");
    pg__append_fini(&a);
}

static void goes_on_where_it_was_when_it_is_resumed(void **state)
{
    (void)state;
    pg_err err = {0};
    pg__append a = {.path = pg__mem_strdup("log"), .n_bytes = 4};
    assert_fails(PG_E_IO, pg__append_resume(&a, &err), &err);
    assert_int_equal(err.sys, ENOENT);
    put("log", "one\ntwo\nthr");
    assert_ok(pg__append_resume(&a, NULL));
    assert_holds("log", "one\n");
    add(&a, "2\n");
    assert_ok(pg__append_flush(&a, NULL));
    assert_holds("log", "one\n2\n");
    pg__append_fini(&a);
}

static void makes_every_folder_on_the_way(void **state)
{
    (void)state;
    char path[256];
    pg_err err = {0};
    assert_ok(pg__folder_make("a/b//c/", 0, NULL));
    assert_ok(pg__folder_make("a/b/c", 0, NULL));
    assert_int_equal(rmdir("a/b/c"), 0);
    snprintf(path, sizeof path, "%s/x/y", dir);
    assert_ok(pg__folder_make(path, 0, NULL));
    assert_int_equal(rmdir("x/y"), 0);
    put("file", "");
    assert_fails(PG_E_IO, pg__folder_make("file/x", 0, &err), &err);
    assert_string_equal(err.msg, "file/x: cannot make this folder: Not a directory");
}

static int ignore_size_limits(void **state)
{
    (void)state;
    return signal(SIGXFSZ, SIG_IGN) == SIG_ERR ? -1 : 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

PG_TEST_MAIN_WITH(ignore_size_limits, NULL, TEST(grows_by_what_is_pending),
                  TEST(begins_anew_over_or_behind_what_is_there), TEST(refuses_what_is_no_file),
                  TEST(a_write_that_fails_leaves_whole_records_and_is_tried_again),
                  TEST(knows_that_its_file_is_gone_or_was_cut),
                  TEST(goes_on_where_it_was_when_it_is_resumed),
                  TEST(makes_every_folder_on_the_way))
