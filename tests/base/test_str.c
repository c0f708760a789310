#include "pg_test.h"

#include "base/str.h"

static void groups_the_digits_of_numbers(void **state)
{
    (void)state;
    static const struct {
        uint64_t v;
        const char *text;
    } cases[] = {{0, "0"},
                 {7, "7"},
                 {999, "999"},
                 {1000, "1,000"},
                 {60000, "60,000"},
                 {100000, "100,000"},
                 {246000000, "246,000,000"},
                 {UINT64_MAX, "18,446,744,073,709,551,615"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(PG_NUM(cases[i].v), cases[i].text);
}

static void quotes_names_for_a_shell(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"run7/unet-01.h5", "run7/unet-01.h5"},
                                           {"a b.h5", "'a b.h5'"},
                                           {"it's.h5", "'it'\\''s.h5'"},
                                           {"-x.h5", "./-x.h5"},
                                           {"-x y.h5", "'./-x y.h5'"},
                                           {"$(rm).h5", "'$(rm).h5'"},
                                           {"", "''"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(PG_QUOTE(cases[i][0]), cases[i][1]);
}

static void proposes_no_command_that_is_not_whole(void **state)
{
    (void)state;
    char many[1000];
    pg_err err = {0};
    memset(many, '\'', sizeof many - 1);
    many[sizeof many - 1] = 0;
    assert_string_equal(PG_QUOTE(many), PG_UNQUOTABLE);
    assert_string_equal(PG_QUOTE("two\nlines"), PG_UNQUOTABLE);
    (void)pg_fail(&err, PG_E_ARG, "no");
    pg_err_hint(&err, "rm %s", PG_QUOTE("a"));
    assert_string_equal(err.hint, "rm a");
    pg_err_hint(&err, "rm %s", PG_QUOTE("two\nlines"));
    assert_string_equal(err.hint, "");
    pg_err_hint(&err, "%600s", "too long");
    assert_string_equal(err.hint, "");
    assert_string_equal(err.msg, "no");
}

static void says_what_would_help(void **state)
{
    (void)state;
    pg_err err = {0};
    (void)pg_fail(&err, PG_E_NO, "no");
    pg_err_arg(&err, "lost", "%d", 1); /* of no action */
    assert_string_equal(advice_of(&err), "");
    pg_err_hint(&err, "words");
    pg_err_do(&err, PG_DO_UNWRAP, "a b.h5");
    pg_err_arg(&err, "like", "%s", "m.json");
    assert_string_equal(err.hint, "");
    assert_string_equal(advice_of(&err), "unwrap file=a b.h5 like=m.json");
    assert_string_equal(pg_action_get(&err.action, "like"), "m.json");
    assert_null(pg_action_get(&err.action, "m.json"));
    pg_err_set(&err, "lanes", "%d", 4);
    pg_err_or(&err, "cpu_merge", "%s", "");
    assert_string_equal(advice_of(&err), "set lanes=4 or cpu_merge");
    pg_err_arg(&err, "file", "%700s", "too long");
    assert_int_equal(err.action.what, PG_DO_NOTHING); /* half of it must not be done */
    pg_err_do(&err, PG_DO_COPY, "a");
    (void)pg_fail(&err, PG_E_NO, "no");
    assert_int_equal(err.action.what, PG_DO_NOTHING);
    pg_err_do(NULL, PG_DO_SET, NULL);
    pg_err_or(NULL, "a", "%s", "b");
    for (int i = 1; i < PG_N_DO; i++)
        assert_string_not_equal(pg_do_name((pg_do)i), "nothing");
}

static void ends_a_message_even_where_it_must_be_cut(void **state)
{
    (void)state;
    pg_err err = {0};
    (void)pg_fail(&err, PG_E_IO, "a.h5: full");
    pg__err_append(&err, "; nothing changed");
    assert_string_equal(err.msg, "a.h5: full; nothing changed");
    (void)pg_fail(&err, PG_E_IO, "%511s", "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4");
    pg__err_append(&err, "; not");
    const size_t n = strlen(err.msg);
    assert_int_equal(n, sizeof err.msg - 2); /* half a character is cut off with it */
    assert_string_equal(err.msg + n - 7, "\xC3\xA4; not");
    pg__err_append(NULL, "; no");
}

static void ends_of_names(void **state)
{
    (void)state;
    assert_true(pg__ends_with("a.h5", ".h5") && pg__ends_with(".h5", ".h5"));
    assert_true(pg__ends_with("a", ""));
    assert_false(pg__ends_with("a.H5", ".h5") || pg__ends_with("5", ".h5"));
    assert_true(pg__has_suffix("a.H5", ".h5") && pg__has_suffix("a.h5", ".h5"));
    assert_false(pg__has_suffix(".h5", ".h5") || pg__has_suffix("a.h5x", ".h5"));
}

static void finds_the_last_byte(void **state)
{
    static const char path[] = "a/b/c";
    (void)state;
    assert_ptr_equal(pg__last_byte(path, '/', 5), path + 3);
    assert_ptr_equal(pg__last_byte(path, '/', 3), path + 1);
    assert_ptr_equal(pg__last_byte(path, 'a', 5), path);
    assert_null(pg__last_byte(path, '/', 1));
    assert_null(pg__last_byte(path, 'a', 0));
}

PG_TEST_MAIN(cmocka_unit_test(groups_the_digits_of_numbers), cmocka_unit_test(ends_of_names),
             cmocka_unit_test(finds_the_last_byte), cmocka_unit_test(quotes_names_for_a_shell),
             cmocka_unit_test(proposes_no_command_that_is_not_whole),
             cmocka_unit_test(says_what_would_help),
             cmocka_unit_test(ends_a_message_even_where_it_must_be_cut))
