/* Tests of wrap/shard/shard_names.c. */
#include "pg_test.h"

#include <strings.h>

#include "format/manifest.h"
#include "wrap/shard/shard_names.h"

typedef struct made {
    pg__shard_names *names;
    pg__strs paths;
} made;

static void start(made *m)
{
    pg_err err;
    *m = (made){0};
    assert_ok(pg__shard_names_new(&m->names, &err));
}

static const char *add(made *m, const char *raw)
{
    pg_err err;
    assert_ok(pg__shard_names_add(m->names, &m->paths, raw, 1, ".npy", &err));
    return m->paths.v[m->paths.n - 1];
}

static void finish(made *m)
{
    pg__shard_names_free(m->names);
    pg__strs_fini(&m->paths);
}

static void keeps_names_readable(void **state)
{
    (void)state;
    made m;
    start(&m);
    assert_string_equal(add(&m, "conv1/kernel:0"), "conv1/kernel.npy");
    assert_string_equal(add(&m, "layers/dense_1/vars/0"), "layers/dense_1/vars/0.npy");
    assert_string_equal(add(&m, "model.layers.0.weight"), "model.layers.0.weight.npy");
    assert_string_equal(add(&m, "conv1/bias:1"), "conv1/bias%3A1.npy");
    finish(&m);
}

static void lets_no_name_leave_the_folder(void **state)
{
    (void)state;
    static const char *const hostile[] = {"../../etc/passwd",
                                          "/etc/passwd",
                                          "a/../../b",
                                          ".",
                                          "..",
                                          "",
                                          "//",
                                          "a//b",
                                          "a\nb",
                                          "a\\b",
                                          "~/x",
                                          "-rf",
                                          " ",
                                          "a ",
                                          "a.",
                                          ".hidden",
                                          "CON",
                                          "lpt1.npy",
                                          "nul",
                                          "\x80\xff",
                                          "\342\200\256txt",
                                          "*?<>|\"",
                                          "a/./b",
                                          "$(reboot)",
                                          "%2e%2e/x"};
    made m;
    start(&m);
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        const char *path = add(&m, hostile[i]);
        assert_true(pg__manifest_is_safe_path(path));
        for (const char *p = path; *p; p++) /* plain ASCII, fit for every file system */
            assert_non_null(strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "_-+=@,()[].%~/",
                                   *p));
        assert_true(path[0] != '.' && path[0] != '-' && path[0] != '/');
    }
    finish(&m);
}

static void keeps_names_different_where_case_does_not_count(void **state)
{
    (void)state;
    static const char *const raw[] = {
        "Dense/kernel", "dense/kernel", "DENSE/Kernel", "dense/KERNEL", "dense",
        "dense.npy/x",  "a:b",          "a%3Ab",        "kernel:0",     "kernel"};
    made m;
    start(&m);
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++)
        (void)add(&m, raw[i]);
    for (size_t i = 0; i < m.paths.n; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(strcasecmp(m.paths.v[i], m.paths.v[k]), 0);
    assert_string_equal(m.paths.v[1], "dense~2/kernel.npy");
    finish(&m);
}

/* Numbered without a gap, and not by trying all that are taken. */
static void numbers_many_names_of_one_spelling(void **state)
{
    (void)state;
    enum { N = 1 << 16 };
    made m;
    start(&m);
    for (unsigned i = 0; i < N; i++) {
        char raw[] = "abcdefghijklmnop", want[40];
        for (unsigned k = 0; k < 16; k++)
            if (i >> k & 1)
                raw[k] = (char)(raw[k] - 'a' + 'A');
        (void)snprintf(want, sizeof want, i ? "%s~%u.npy" : "%s.npy", raw, i + 1);
        assert_string_equal(add(&m, raw), want);
    }
    finish(&m);
}

static void numbers_pieces_and_avoids_a_tensor_named_like_one(void **state)
{
    (void)state;
    pg_err err;
    made m;
    start(&m);
    (void)add(&m, "kernel-00002-of-00003");
    assert_ok(pg__shard_names_add(m.names, &m.paths, "kernel:0", 3, ".npy", &err));
    assert_int_equal(m.paths.n, 4);
    assert_string_equal(m.paths.v[1], "kernel~2-00001-of-00003.npy");
    assert_string_equal(m.paths.v[3], "kernel~2-00003-of-00003.npy");
    finish(&m);
}

static void shortens_long_names_without_mixing_them_up(void **state)
{
    (void)state;
    made m;
    char name[3000];
    start(&m);
    for (int last = 'a'; last <= 'c'; last++) {
        memset(name, 'x', sizeof name);
        name[sizeof name - 2] = (char)last;
        name[sizeof name - 1] = 0;
        assert_in_range(strlen(add(&m, name)), 1, 200);
        memset(name, 0xFF, sizeof name - 2); /* three letters each */
        assert_in_range(strlen(add(&m, name)), 1, 200);
    }
    for (size_t i = 0; i + 1 < sizeof name; i++)
        name[i] = i % 2 ? '/' : 'd';
    name[sizeof name - 1] = 0;
    assert_in_range(strlen(add(&m, name)), 1, 200);
    for (size_t i = 0; i < m.paths.n; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(m.paths.v[i], m.paths.v[k]);
    finish(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_names_readable),
        cmocka_unit_test(lets_no_name_leave_the_folder),
        cmocka_unit_test(keeps_names_different_where_case_does_not_count),
        cmocka_unit_test(numbers_many_names_of_one_spelling),
        cmocka_unit_test(numbers_pieces_and_avoids_a_tensor_named_like_one),
        cmocka_unit_test(shortens_long_names_without_mixing_them_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
