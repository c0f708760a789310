#include "pg_test.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/pg-file-XXXXXX";

static int enter(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    (void)unlink("a");
    return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1; /* fails if a test left something */
}

static size_t n_entries(void)
{
    size_t n = 0;
    DIR *d = opendir(".");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void joins_pieces_of_every_size(void **state)
{
    (void)state;
    pg_file *f = NULL;
    uint64_t n_bytes = 0;
    char piece[5000];
    assert_ok(pg_file_create(&f, "a", NULL, NULL));
    for (size_t k = 0; k + 7 < sizeof piece; k += 7) {
        memset(piece, 'a' + (int)(k % 26), sizeof piece);
        assert_ok(pg_file_write(f, piece, k + 7, NULL));
    }
    assert_ok(pg_file_commit(f, &n_bytes, NULL));
    pg_file_close(f);
    FILE *in = fopen("a", "rb");
    assert_non_null(in);
    for (size_t k = 0; k + 7 < sizeof piece; k += 7)
        for (size_t i = 0; i < k + 7; i++)
            assert_int_equal(fgetc(in), 'a' + (int)(k % 26));
    assert_int_equal(fgetc(in), EOF);
    fclose(in);
    struct stat sb;
    assert_int_equal(stat("a", &sb), 0);
    assert_int_equal((uint64_t)sb.st_size, n_bytes);
    unlink("a");
}

static void leaves_nothing_without_a_commit(void **state)
{
    (void)state;
    pg_file *f = NULL;
    assert_ok(pg_file_create(&f, "a", NULL, NULL));
    assert_ok(pg_file_write(f, "x", 1, NULL));
    pg_file_close(f);
    assert_int_equal(n_entries(), 0);
}

static void replaces_only_what_it_may(void **state)
{
    (void)state;
    pg_file *f = NULL;
    pg_err err = {0};
    FILE *old = fopen("a", "w");
    assert_non_null(old);
    fclose(old);
    assert_fails(PG_E_ARG, pg_file_create(&f, "a", NULL, &err), &err);
    assert_fails(PG_E_ARG,
                 pg_file_create(&f, "a", &(pg_file_opts){.force = 1, .input = "./a"}, &err), &err);
    assert_non_null(strstr(err.msg, "output is the input"));
    assert_fails(PG_E_ARG, pg_file_create(&f, NULL, NULL, &err), &err);
    assert_null(f);
    assert_ok(pg_file_create(&f, "a", &(pg_file_opts){.force = 1}, NULL));
    assert_ok(pg_file_commit(f, NULL, NULL));
    pg_file_close(f);
    assert_int_equal(n_entries(), 1);
}

PG_TEST_MAIN_WITH(enter, leave, cmocka_unit_test(joins_pieces_of_every_size),
                  cmocka_unit_test(leaves_nothing_without_a_commit),
                  cmocka_unit_test(replaces_only_what_it_may))
