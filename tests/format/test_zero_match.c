#include "format/zero.h"
#include "pg_test.h"

static int matches(const char *pattern, const char *text)
{
    uint64_t budget = UINT64_MAX;
    return pg__zero_match(pattern, text, &budget);
}

static void matches_as_python_does(void **state)
{
    (void)state;
    assert_int_equal(matches("a.b", "a.b"), 1);
    assert_int_equal(matches("a.b", "axb"), 1);
    assert_int_equal(matches("a\\.b", "axb"), 0);
    assert_int_equal(matches("a", "abc"), 1); /* the beginning */
    assert_int_equal(matches("^a$", "abc"), 0);
    assert_int_equal(matches("^layers\\.0\\.up_proj\\.weight$", "layers.0.up_proj.weight"), 1);
    assert_int_equal(matches("\\d+.mlp.dense_4h_to_h.weight", "12.mlp.dense_4h_to_h.weight"), 1);
    assert_int_equal(matches("\\d+.mlp", "x.mlp"), 0);
    assert_int_equal(matches(".*\\.experts\\.w\\d$", "layers.1.experts.w3"), 1);
    assert_int_equal(matches("ab?c*d+", "add"), 1);
    assert_int_equal(matches("ab?c*d+", "abbd"), 0);
    assert_int_equal(matches("", "anything"), 1);
}

static void says_what_it_does_not_read(void **state)
{
    (void)state;
    static const char *const patterns[] = {"(a|b)", "[ab]", "a{2}", "a|b", "\\bx",
                                           "\\",    "*a",   "a+?",  "a^b", "a**"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        assert_int_equal(matches(patterns[i], "a"), -1);
    /* and ends, whatever the pattern */
    assert_int_equal(matches("a*a*a*a*a*a*a*a*a*a*b",
                             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
                     -1);
}

/* Python has no such limit: no answer is better than a wrong one, or than no stack. */
static void limits_what_may_repeat(void **state)
{
    (void)state;
    static char pattern[200001];
    for (size_t i = 0; i < 99; i++)
        memcpy(pattern + 2 * i, "b?", 3);
    assert_int_equal(matches(pattern, "a"), 1);
    for (size_t i = 0; i < 99999; i++)
        memcpy(pattern + 2 * i, "b?", 3);
    assert_int_equal(matches(pattern, "a"), -1);
}

static void takes_its_steps_from_a_budget(void **state)
{
    (void)state;
    uint64_t budget = 300000;
    const char *slow = "a*a*a*a*a*a*a*a*a*a*b", *text = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    assert_int_equal(pg__zero_match("abc", "abc", &budget), 1);
    assert_int_equal(budget, 300000 - 4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pg__zero_match(slow, text, &budget), -1);
    assert_int_equal(budget, 0);
    assert_int_equal(pg__zero_match("a", "a", &budget), -1);
}

PG_TEST_MAIN(cmocka_unit_test(matches_as_python_does), cmocka_unit_test(says_what_it_does_not_read),
             cmocka_unit_test(limits_what_may_repeat),
             cmocka_unit_test(takes_its_steps_from_a_budget))
