/* The checkpoints in a folder: found at any depth, what is left out is counted. */
#include "pg_test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "pg/find.h"

static char dir[] = "/tmp/pg-test-find-XXXXXX";
static char at[4096];

static const char *in(const char *name)
{
    snprintf(at, sizeof at, "%s/%s", dir, name);
    return at;
}

static void folder(const char *name)
{
    assert_int_equal(mkdir(in(name), 0777), 0);
}

static void file(const char *name, const char *bytes, size_t n)
{
    FILE *f = fopen(in(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static int make(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int clean(void **state)
{
    char command[100];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

static void finds_checkpoints_at_any_depth(void **state)
{
    static const char ours[] = "{\"format\": \"npy\", \"layers\": [], \"tensors\": []}";
    (void)state;
    pg_found f = {0};
    pg_err err = {0};
    folder("a");
    folder("a/b");
    folder("a/.git");
    folder("a/b/split");
    folder("a/dcp");
    file("a/b/m.h5", "x", 1);
    file("a/m.ckpt", "x", 1);
    file("a/n.onnx", "x", 1);
    file("a/t.bin", "PK\3\4", 4);
    file("a/u.bin", "\x80\2\x8a\n", 4);
    file("a/v.bin", "abcd", 4);
    file("a/w.bin", "P", 1);
    file("a/.hidden.h5", "x", 1);
    file("a/.git/m.h5", "x", 1);
    file("a/b/split/manifest.json", ours, strlen(ours));
    file("a/b/split/part.npz", "x", 1);
    static const char metadata[] = "\x80\4ctorch.distributed.checkpoint.metadata";
    file("a/dcp/.metadata", metadata, sizeof metadata - 1);
    file("a/dcp/__0_0.distcp", "x", 1);
    file("a/notes.txt", "x", 1);
    assert_int_equal(symlink("..", in("a/b/up")), 0);
    assert_int_equal(symlink("m.h5", in("a/b/link.h5")), 0);
    assert_int_equal(symlink("nothing.h5", in("a/b/broken.h5")), 0);
    assert_int_equal(mkfifo(in("a/pipe.h5"), 0777), 0);
    static const char *const want[] = {"a/b/link.h5", "a/b/m.h5", "a/b/split", "a/dcp",
                                       "a/m.ckpt",    "a/n.onnx", "a/t.bin",   "a/u.bin"};
    char top[100];
    snprintf(top, sizeof top, "%s", dir);
    assert_ok(pg_find(&f, top, &err));
    assert_int_equal(f.n, sizeof want / sizeof *want);
    for (size_t i = 0; i < f.n; i++)
        assert_string_equal(f.paths[i], in(want[i]));
    assert_int_equal(f.n_others, 5); /* two .bin, the text, the broken link, the pipe */
    assert_int_equal(f.n_hidden, 2);
    assert_int_equal(f.n_links, 1);
    assert_int_equal(f.n_deep + f.n_closed, 0);
    pg_found_fini(&f);
    assert_ok(pg_find(&f, in("a/dcp/"), &err)); /* itself */
    assert_int_equal(f.n, 1);
    assert_string_equal(f.paths[0], in("a/dcp/"));
    pg_found_fini(&f);
}

static void takes_files_of_tensorflow_one_by_one(void **state)
{
    (void)state;
    pg_found f = {0};
    pg_err err = {0};
    folder("tf");
    file("tf/k.index", "x", 1);
    file("tf/k.data-00000-of-00001", "x", 1);
    file("tf/w.h5", "x", 1);
    assert_ok(pg_find(&f, in("tf"), &err));
    assert_int_equal(f.n, 2);
    assert_string_equal(f.paths[0], in("tf/k.index"));
    assert_string_equal(f.paths[1], in("tf/w.h5"));
    assert_int_equal(f.n_others, 0); /* the data belong to the index */
    pg_found_fini(&f);
}

static void goes_down_a_limited_number_of_levels(void **state)
{
    (void)state;
    pg_found f = {0};
    pg_err err = {0};
    char path[400] = "d";
    for (int i = 0; i < 34; i++) {
        folder(path);
        strcat(path, "/d");
    }
    strcpy(path + strlen(path) - 1, "m.h5");
    file(path, "x", 1);
    assert_ok(pg_find(&f, in("d"), &err));
    assert_int_equal(f.n, 0);
    assert_int_equal(f.n_deep, 1);
    pg_found_fini(&f);
    assert_ok(pg_find(&f, in("d/d"), &err));
    assert_int_equal(f.n, 1);
    pg_found_fini(&f);
}

static void says_why_a_folder_is_not_read(void **state)
{
    (void)state;
    pg_found f = {0};
    pg_err err = {0};
    assert_fails(PG_E_IO, pg_find(&f, in("nowhere"), &err), &err);
    assert_non_null(strstr(err.msg, "nowhere"));
    err = (pg_err){0};
    assert_fails(PG_E_ARG, pg_find(&f, "", &err), &err);
    pg_found_fini(NULL);
}

PG_TEST_MAIN_WITH(make, clean, cmocka_unit_test(finds_checkpoints_at_any_depth),
                  cmocka_unit_test(takes_files_of_tensorflow_one_by_one),
                  cmocka_unit_test(goes_down_a_limited_number_of_levels),
                  cmocka_unit_test(says_why_a_folder_is_not_read))
