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

PG_TEST_MAIN(cmocka_unit_test(groups_the_digits_of_numbers))
