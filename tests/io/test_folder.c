/* Folders that outputs need. */
#include "pg_test.h"

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

PG_TEST_MAIN(cmocka_unit_test(all_on_the_way_are_made))
