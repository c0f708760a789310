#include "pg_test.h"

#include <unistd.h>

#include "pg/config.h"

static char path[64];

static pg_config *read_text(const char *text, size_t n, pg_status want, pg_err *err)
{
    pg_config *root = NULL;
    strcpy(path, "/tmp/pg-config-XXXXXX");
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, n) == (ssize_t)n && close(fd) == 0);
    const pg_status st = pg_config_open(&root, path, err);
    unlink(path);
    assert_int_equal(st, want);
    return root;
}

static void keeps_the_order_and_the_digits(void **state)
{
    static const char text[] =
        "{\"b\": 1.50, \"a\": [true, null, \"x\\u00e9\\n\"], \"o\": {\"k\": {}} }\n";
    pg_err err = {0};
    pg_config *root = read_text(text, sizeof text - 1, PG_OK, &err);
    (void)state;
    assert_int_equal(root->n, 3);
    assert_string_equal(root->items[0].key, "b");
    assert_string_equal(root->items[0].text, "1.50");
    assert_int_equal(root->items[0].type, PG_CONFIG_NUMBER);
    assert_int_equal(root->items[1].type, PG_CONFIG_LIST);
    assert_int_equal(root->items[1].n, 3);
    assert_int_equal(root->items[1].items[0].type, PG_CONFIG_BOOL);
    assert_int_equal(root->items[1].items[1].type, PG_CONFIG_NULL);
    assert_string_equal(root->items[1].items[2].text, "x\xC3\xA9\n");
    assert_null(root->items[1].items[2].key);
    assert_string_equal(root->items[2].text, "{\"k\": {}}");
    assert_string_equal(root->items[2].items[0].key, "k");
    assert_int_equal(root->items[2].items[0].n, 0);
    pg_config_close(root);
}

static void refuses_what_is_no_object(void **state)
{
    static const char *const bad[] = {"",
                                      "[1]",
                                      "{",
                                      "{\"a\": 1, \"a\": 2}",
                                      "{\"a\": \"\\u0000\"}",
                                      "{\"a\" 1}",
                                      "{\"a\": 1} x",
                                      "{\"\\u0000\": 1}"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pg_err err = {0};
        assert_null(read_text(bad[i], strlen(bad[i]), PG_E_FORMAT, &err));
        assert_non_null(strstr(err.msg, path));
    }
}

static void nests_to_a_limit(void **state)
{
    char text[2 * 33 + 8];
    pg_err err = {0};
    (void)state;
    for (size_t deep = 32; deep <= 33; deep++) { /* the object is the first level */
        const size_t n = (size_t)snprintf(text, sizeof text, "{\"a\":%.*s%.*s}", (int)deep - 1,
                                          "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", (int)deep - 1,
                                          "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
        pg_config_close(read_text(text, n, deep == 32 ? PG_OK : PG_E_LIMIT, &err));
    }
    assert_non_null(strstr(err.msg, ": nested more than 32 deep"));
}

static void names_the_file_that_is_not_there(void **state)
{
    pg_config *root = NULL;
    pg_err err = {0};
    (void)state;
    assert_fails(PG_E_IO, pg_config_open(&root, "nowhere.json", &err), &err);
    assert_non_null(strstr(err.msg, "nowhere.json"));
    pg_config_close(NULL);
}

PG_TEST_MAIN(cmocka_unit_test(keeps_the_order_and_the_digits),
             cmocka_unit_test(refuses_what_is_no_object), cmocka_unit_test(nests_to_a_limit),
             cmocka_unit_test(names_the_file_that_is_not_there))
