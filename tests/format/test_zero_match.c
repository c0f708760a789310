#include "format/zero.h"
#include "pg_test.h"

static void matches_as_python_does(void **state)
{
    (void)state;
    assert_int_equal(pg__zero_match("a.b", "a.b"), 1);
    assert_int_equal(pg__zero_match("a.b", "axb"), 1);
    assert_int_equal(pg__zero_match("a\\.b", "axb"), 0);
    assert_int_equal(pg__zero_match("a", "abc"), 1); /* the beginning */
    assert_int_equal(pg__zero_match("^a$", "abc"), 0);
    assert_int_equal(pg__zero_match("^layers\\.0\\.up_proj\\.weight$", "layers.0.up_proj.weight"),
                     1);
    assert_int_equal(pg__zero_match("\\d+.mlp.dense_4h_to_h.weight", "12.mlp.dense_4h_to_h.weight"),
                     1);
    assert_int_equal(pg__zero_match("\\d+.mlp", "x.mlp"), 0);
    assert_int_equal(pg__zero_match(".*\\.experts\\.w\\d$", "layers.1.experts.w3"), 1);
    assert_int_equal(pg__zero_match("ab?c*d+", "add"), 1);
    assert_int_equal(pg__zero_match("ab?c*d+", "abbd"), 0);
    assert_int_equal(pg__zero_match("", "anything"), 1);
}

static void says_what_it_does_not_read(void **state)
{
    (void)state;
    static const char *const patterns[] = {"(a|b)", "[ab]", "a{2}", "a|b", "\\bx",
                                           "\\",    "*a",   "a+?",  "a^b", "a**"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        assert_int_equal(pg__zero_match(patterns[i], "a"), -1);
    /* and ends, whatever the pattern */
    assert_int_equal(
        pg__zero_match("a*a*a*a*a*a*a*a*a*a*b",
                       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        -1);
}

PG_TEST_MAIN(cmocka_unit_test(matches_as_python_does), cmocka_unit_test(says_what_it_does_not_read))
