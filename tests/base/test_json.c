#include "pg_test.h"

#include "base/json.h"
#include "base/limits.h"

static pg__json *parse(const char *text)
{
    pg_err err = {0};
    pg__json *j = NULL;
    if (pg__json_parse(&j, text, strlen(text), &err) != PG_OK)
        fail_msg("%s: %s", text, err.msg);
    return j;
}

static void values_come_out_with_their_types(void **state)
{
    (void)state;
    pg__json *j = parse("{\"s\": \"x\\u0000y\", \"i\": -7, \"r\": 1.5, \"b\": true, \"n\": null,"
                        " \"a\": [1, [2], \"\\u5c42\"]}");
    int64_t i = 0;
    size_t n = 0;
    assert_int_equal(pg__json_len(j), 6);
    assert_memory_equal(pg__json_bytes(pg__json_get(j, "s"), &n), "x\0y", 3);
    assert_int_equal(n, 3);
    assert_true(pg__json_int(pg__json_get(j, "i"), &i));
    assert_int_equal(i, -7);
    assert_false(pg__json_int(pg__json_get(j, "r"), &i));
    assert_int_equal(pg__json_type_of(pg__json_get(j, "r")), PG_J_REAL);
    assert_int_equal(pg__json_bool(pg__json_get(j, "b"), 0), 1);
    assert_int_equal(pg__json_bool(pg__json_get(j, "i"), 5), 1);
    assert_int_equal(pg__json_bool(pg__json_get(j, "s"), 5), 5);
    assert_int_equal(pg__json_type_of(pg__json_get(j, "n")), PG_J_NULL);
    assert_int_equal(pg__json_type_of(pg__json_get(j, "none")), PG_J_NONE);
    assert_string_equal(pg__json_str(pg__json_at(pg__json_get(j, "a"), 2)), "\xe5\xb1\x82");
    assert_null(pg__json_at(pg__json_get(j, "a"), 3));
    assert_null(pg__json_get(pg__json_get(j, "a"), "x"));
    assert_null(pg__json_get_str(NULL, "x"));
    pg__json_free(j);
    pg__json_free(NULL);
}

static void what_python_writes_is_read(void **state)
{
    (void)state;
    int64_t i = 0;
    pg__json *j = parse("\xef\xbb\xbf[NaN, Infinity, -Infinity, \"NaN\", \"\\ud800\", "
                        "\"\\ud83d\\ude00\", 18446744073709551616, 9223372036854775807]");
    for (size_t k = 0; k < 3; k++)
        assert_int_equal(pg__json_type_of(pg__json_at(j, k)), PG_J_REAL);
    assert_string_equal(pg__json_str(pg__json_at(j, 3)), "NaN");
    assert_string_equal(pg__json_str(pg__json_at(j, 4)), "\xef\xbf\xbd");
    assert_string_equal(pg__json_str(pg__json_at(j, 5)), "\xf0\x9f\x98\x80");
    assert_int_equal(pg__json_type_of(pg__json_at(j, 6)), PG_J_REAL);
    assert_true(pg__json_int(pg__json_at(j, 7), &i));
    assert_true(i == INT64_MAX);
    pg__json_free(j);
}

static void syntax_errors_name_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text, *say;
    } bad[] = {
        {"", "line 1, column 1"},
        {"{\"a\": 1,\n  }", "line 2, column 3"},
        {"[1 2]", "line 1, column 4"},
        {"{'a': 1}", "line 1, column 2"},
        {"[1]x", "line 1, column 4"},
        {"[1][1]", "line 1, column 4"},
        {"// c\n[]", "line 1"},
        {"[01]", "line 1, column 2"},
        {"[1.]", "expected a digit"},
        {"[1e]", "expected a digit"},
        {"[-]", "expected a value"},
        {"[nul]", "expected a value"},
        {"[\"a]", "without an end"},
        {"[\"\\x\"]", "unknown escape"},
        {"[\"\\u12\"]", "hex digits"},
        {"[\"\xff\"]", "not UTF-8"},
        {"[\"\t\"]", "control"},
        {"{\"a\" 1}", "expected \":\""},
        {"[1}", "line 1, column 3"},
        {"{\"a\": 1]", "line 1, column 8"},
        {"{\"a\": 1, 2}", "a key"},
        {"[,]", "expected a value"},
        {"[1,]", "expected a value"},
        {"\xff\xfe[\0]", "expected a value"},
        {"[1e400]", "line 1, column "},
        {"{\"a\": 1, \"\\u0061\": 2}", "the key"},
        {"{\"a\": 1, \"a\": 2}", "the key \"a\" occurs twice"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pg_err err = {0};
        pg__json *j = NULL;
        assert_fails(PG_E_FORMAT, pg__json_parse(&j, bad[i].text, strlen(bad[i].text), &err), &err);
        if (!strstr(err.msg, bad[i].say))
            fail_msg("%s: \"%s\" does not say \"%s\"", bad[i].text, err.msg, bad[i].say);
        assert_null(j);
    }
}

/* text = `open` n times, then `close` n times. */
static pg_status check_nested(size_t n, const char *open, const char *close, pg_err *err)
{
    const size_t a = strlen(open), b = strlen(close);
    char *text = malloc(n * (a + b) + 1);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        memcpy(text + i * a, open, a);
        memcpy(text + n * a + i * b, close, b);
    }
    const pg_status st = pg__json_check(text, n * (a + b), err);
    free(text);
    return st;
}

static void depth_and_count_are_limited(void **state)
{
    (void)state;
    pg_err err = {0};
    assert_ok(check_nested(PG_LIMIT_JSON_DEPTH, "[", "]", &err));
    assert_fails(PG_E_LIMIT, check_nested(PG_LIMIT_JSON_DEPTH + 1, "[", "]", &err), &err);
    assert_fails(PG_E_LIMIT, check_nested(1000000, "{\"a\":", "}", &err), &err);

    const size_t n = 2 * ((size_t)PG_LIMIT_JSON_TOKENS + 2);
    char *text = malloc(n);
    assert_non_null(text);
    for (size_t i = 0; i < n; i += 2)
        text[i] = i ? ',' : '[', text[i + 1] = '1';
    assert_fails(PG_E_LIMIT, pg__json_check(text, n, &err), &err);
    memcpy(text, "[{}", 3); /* PG_LIMIT_JSON_MEMORY: they take more than numbers */
    for (size_t i = 3; i + 3 <= n; i += 3)
        memcpy(text + i, ",{}", 3);
    assert_fails(PG_E_LIMIT, pg__json_check(text, n, &err), &err);
    assert_non_null(strstr(err.msg, "memory"));
    free(text);
    assert_fails(PG_E_LIMIT, pg__json_check("", (size_t)PG_LIMIT_JSON_BYTES + 1, &err), &err);
}

static void members_come_in_file_order(void **state)
{
    (void)state;
    char got[64] = "";
    pg__json *j = parse("{\"z\": 1, \"a\": 2, \"m\": 3}");
    for (pg__json_iter it = {.obj = j}; pg__json_next(&it);)
        strcat(got, it.key);
    assert_string_equal(got, "zam");
    pg__json_iter none = {.obj = NULL};
    assert_false(pg__json_next(&none));
    pg__json_free(j);
}

static void assert_range(const char *text, const pg__json_step *path, const char *want)
{
    const pg__json_span r = pg__json_range(text, strlen(text), path);
    char got[64] = "";
    assert_in_range(r.n, 0, sizeof got - 1);
    memcpy(got, text + r.off, r.n);
    assert_string_equal(got, want);
}

static void byte_ranges_are_those_of_the_text(void **state)
{
    (void)state;
    const char *t =
        " {\"x\": \"]}\\\"\", \"c\\u006fnfig\" : [1.50, {\"a\" : NaN } ,\"q\"], \"e\": {}} ";
    assert_range(t, (pg__json_step[]){PG_JKEY("x"), {0}}, "\"]}\\\"\"");
    assert_range(t, (pg__json_step[]){PG_JKEY("config"), PG_JINDEX(0), {0}}, "1.50");
    assert_range(t, (pg__json_step[]){PG_JKEY("config"), PG_JINDEX(1), {0}}, "{\"a\" : NaN }");
    assert_range(t, (pg__json_step[]){PG_JKEY("config"), PG_JINDEX(1), PG_JKEY("a"), {0}}, "NaN");
    assert_range(t, (pg__json_step[]){PG_JKEY("e"), {0}}, "{}");
    assert_range(t, (pg__json_step[]){PG_JKEY("config"), PG_JINDEX(3), {0}}, "");
    assert_range(t, (pg__json_step[]){PG_JKEY("x"), PG_JKEY("x"), {0}}, "");
    assert_range(t, (pg__json_step[]){PG_JKEY("e"), PG_JINDEX(0), {0}}, "");
    assert_range("", (pg__json_step[]){PG_JKEY("e"), {0}}, "");
    assert_range("{\"e\"", (pg__json_step[]){PG_JKEY("e"), {0}}, "");
}

static void strings_are_quoted_as_python_quotes_them(void **state)
{
    (void)state;
    pg__str out = {0};
    assert_ok(pg__json_quote(&out, "a\"\\\n\t\xe5\xb1\x82\xf0\x9f\x98\x80\xff", 13, NULL));
    assert_string_equal(out.s, "\"a\\\"\\\\\\n\\u0009\\u5c42\\ud83d\\ude00\\ufffd\"");
    pg__str_fini(&out);
}

static void a_large_table_is_read_in_linear_time(void **state)
{
    (void)state;
    pg__str text = {0};
    pg__json *j = NULL;
    size_t n = 0;
    assert_ok(pg__str_puts(&text, "{", NULL));
    for (unsigned i = 0; i < 100000; i++)
        assert_ok(pg__str_printf(&text, NULL, "%s\"block.%u.weight\":{\"shape\":[%u,3]}",
                                 i ? "," : "", i, i));
    assert_ok(pg__str_puts(&text, "}", NULL));
    assert_ok(pg__json_parse(&j, text.s, text.n, NULL));
    for (pg__json_iter it = {.obj = j}; pg__json_next(&it); n++)
        assert_int_equal(it.key[0], 'b');
    assert_int_equal(n, 100000);
    pg__json_free(j);
    pg__str_fini(&text);
}

PG_TEST_MAIN(cmocka_unit_test(values_come_out_with_their_types),
             cmocka_unit_test(what_python_writes_is_read),
             cmocka_unit_test(syntax_errors_name_line_and_column),
             cmocka_unit_test(depth_and_count_are_limited),
             cmocka_unit_test(members_come_in_file_order),
             cmocka_unit_test(byte_ranges_are_those_of_the_text),
             cmocka_unit_test(strings_are_quoted_as_python_quotes_them),
             cmocka_unit_test(a_large_table_is_read_in_linear_time))
