/* pg_test.h - first include of every unit test: cmocka and what libpg adds to it. */
#ifndef PG_TEST_H
#define PG_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pg/pg.h"
#include "store/store_impl.h"

#define assert_ok(expr)                                         \
    do {                                                        \
        const pg_status st_ = (expr);                           \
        if (st_ != PG_OK)                                       \
            fail_msg("%s gave %s", #expr, pg_status_name(st_)); \
    } while (0)

/* The code is right and the message was set. */
#define assert_fails(code_, expr, err_)                                           \
    do {                                                                          \
        const pg_status st_ = (expr);                                             \
        if (st_ != (code_))                                                       \
            fail_msg("%s gave %s (%s)", #expr, pg_status_name(st_), (err_)->msg); \
        assert_int_equal((err_)->code, (code_));                                  \
        assert_true((err_)->msg[0] != 0);                                         \
    } while (0)

extern const char *pg_testdata; /* folder testdata/, from argv[1] */

/* PG_ONLY_TEST names the tests to run, with * and ?; PG_LIST_TESTS prints all names instead. */
static inline int pg_test_chosen(const struct CMUnitTest *tests, size_t n)
{
    cmocka_set_test_filter(getenv("PG_ONLY_TEST"));
    for (size_t k = 0; k < n && getenv("PG_LIST_TESTS"); k++)
        puts(tests[k].name);
    return !getenv("PG_LIST_TESTS");
}

#define PG_TEST_MAIN_WITH(setup, teardown, ...)                    \
    const char *pg_testdata = ".";                                 \
    int main(int argc, char **argv)                                \
    {                                                              \
        const struct CMUnitTest tests[] = {__VA_ARGS__};           \
        pg_testdata = argc > 1 ? argv[1] : ".";                    \
        if (!pg_test_chosen(tests, sizeof tests / sizeof *tests))  \
            return 0;                                              \
        return cmocka_run_group_tests(tests, (setup), (teardown)); \
    }
#define PG_TEST_MAIN(...) PG_TEST_MAIN_WITH(NULL, NULL, __VA_ARGS__)

/* Builds a store without data from text: "layer layer[weight weight] ...". Every weight is a
 * float32 of 2 x 3; a shape may follow after '#': "kernel:0#3x3x1x4". */
static inline pg_store *pg_test_store(const char *text)
{
    char word[256];
    pg_store *s = NULL;
    size_t n = 0;
    int in_list = 0;
    assert_ok(pg__store_new(&s, "test", NULL, NULL, NULL));
    for (const char *p = text;; p++) {
        if (*p && !strchr(" []", *p)) {
            word[n++] = *p;
            continue;
        }
        word[n] = 0;
        if (n && in_list) {
            uint64_t dims[PG_MAX_RANK] = {2, 3};
            uint32_t rank = 2;
            char *shape = strchr(word, '#');
            if (shape) {
                *shape++ = 0;
                for (rank = 0; *shape; shape += *shape == 'x', rank++)
                    dims[rank] = strtoull(shape, &shape, 10);
            }
            assert_ok(pg__store_add_weight(
                s, &(pg__tensor_desc){.name = word, .dtype = PG_F32, .rank = rank, .dims = dims},
                NULL));
        } else if (n) {
            assert_ok(pg__store_add_layer(s, word, NULL));
        }
        in_list = *p == '[' ? 1 : *p == ']' ? 0 : in_list;
        n = 0;
        if (!*p)
            return s;
    }
}

/* What an error proposes, in one line: its action as "unwrap file=a.h5 like=m.json", else its
 * words. Until the next call. */
static inline const char *action_text(const pg_action *a)
{
    static char text[2 * sizeof a->args];
    const char *key, *value;
    size_t n = (size_t)snprintf(text, sizeof text, "%s", pg_do_name(a->what));
    for (size_t i = 0; (key = pg_action_arg(a, i, &value)) && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %s%s%s", key, *value ? "=" : "", value);
    return text;
}

static inline const char *advice_of(const pg_err *err)
{
    return err->action.what == PG_DO_NOTHING ? err->hint : action_text(&err->action);
}

#endif
