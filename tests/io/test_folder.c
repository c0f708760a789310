/* Folders that outputs need. */
#include "pg_test.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/folder.h"

static char top[64];

static void assert_made(pg_status st, const char *path)
{
    struct stat sb;
    assert_ok(st);
    assert_int_equal(stat(path, &sb), 0);
    assert_true(S_ISDIR(sb.st_mode));
}

static void all_on_the_way_are_made(void **state)
{
    char path[128], file[160];
    pg_err err = {0};
    (void)state;
    strcpy(top, "/tmp/pg-test-XXXXXX");
    assert_non_null(mkdtemp(top));
    snprintf(path, sizeof path, "%s/a/b/c", top);
    assert_made(pg__folder_make_synced(path, &err), path);
    assert_made(pg__folder_make_synced(path, &err), path); /* they are there */
    snprintf(path, sizeof path, "%s/a/d//e", top);
    assert_made(pg__folder_make(path, strlen(top), &err), path);
    assert_ok(pg__folder_sync(path, &err));
    assert_ok(pg__folder_sync("", &err));
    snprintf(file, sizeof file, "%s/file", top);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fclose(f);
    snprintf(path, sizeof path, "%s/file/f", top);
    assert_fails(PG_E_IO, pg__folder_make_synced(path, &err), &err);
    assert_fails(PG_E_IO, pg__folder_sync(file, &err), &err);
    snprintf(path, sizeof path, "rm -rf '%s'", top);
    assert_int_equal(system(path), 0);
}

static int is_file(const char *name)
{
    char path[128];
    pg_err err = {0};
    int is = 1;
    snprintf(path, sizeof path, "%s/%s", top, name);
    assert_ok(pg__is_file(&is, path, &err));
    return is;
}

static void tells_what_is_absent(void **state)
{
    char path[128];
    (void)state;
    strcpy(top, "/tmp/pg-test-XXXXXX");
    assert_non_null(mkdtemp(top));
    snprintf(path, sizeof path, "cd '%s'; touch file; ln -s file link; ln -s loop loop", top);
    assert_int_equal(system(path), 0);
    assert_true(is_file("file"));
    assert_true(is_file("link"));
    assert_false(is_file("."));
    assert_false(is_file("nothing"));
    assert_false(is_file("file/x"));
    assert_false(is_file("loop"));
    snprintf(path, sizeof path, "rm -rf '%s'", top);
    assert_int_equal(system(path), 0);
}

/* What the system cannot do now says nothing about a folder. */
static void want_of_descriptors_is_no_absence(void **state)
{
    struct rlimit before, none;
    pg_err err = {0};
    DIR *d = NULL;
    (void)state;
    assert_ok(pg__folder_list_if(&d, "/nowhere/at/all", &err));
    assert_null(d);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const pg_status st = pg__folder_list_if(&d, "/", &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_fails(PG_E_IO, st, &err);
    assert_int_equal(err.sys, EMFILE);
}

PG_TEST_MAIN(cmocka_unit_test(all_on_the_way_are_made), cmocka_unit_test(tells_what_is_absent),
             cmocka_unit_test(want_of_descriptors_is_no_absence))
