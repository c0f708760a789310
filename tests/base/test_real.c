/* Numbers as text: as Python and NumPy write them, in any locale. */
#include "pg_test.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "base/real.h"

static const struct {
    double v;
    const char *text, *text32; /* repr(v), str(numpy.float32(v)) */
} known[] = {
    {0.0, "0.0", "0.0"},
    {-0.0, "-0.0", "-0.0"},
    {1.0, "1.0", "1.0"},
    {-12.5, "-12.5", "-12.5"},
    {0.1, "0.1", "0.1"},
    {0.30000001192092896, "0.30000001192092896", "0.3"},
    {0.05000000074505806, "0.05000000074505806", "0.05"},
    {0.0001, "0.0001", "1e-04"},
    {0.00011, "0.00011", "0.00011"},
    {0.00001, "1e-05", "1e-05"},
    {0.000012345, "1.2345e-05", "1.2345e-05"},
    {123456789.0, "123456789.0", "123456790.0"},
    {1e15, "1000000000000000.0", "1000000000000000.0"},
    {1e16, "1e+16", "1e+16"},
    {5e-324, "5e-324", "0.0"},
    {1.7976931348623157e308, "1.7976931348623157e+308", "inf"},
    {2.2250738585072014e-308, "2.2250738585072014e-308", "0.0"},
    {9007199254740993.0, "9007199254740992.0", "9007199000000000.0"},
};

static void the_shortest_text_that_reads_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_string_equal(PG_REAL(known[i].v), known[i].text);
        assert_string_equal(pg__real_as_numpy((float)known[i].v).s, known[i].text32);
    }
    assert_string_equal(PG_REAL32(0.0001), "0.0001");
    assert_string_equal(PG_REAL(NAN), "nan");
    assert_string_equal(PG_REAL(INFINITY), "inf");
    assert_string_equal(PG_REAL(-INFINITY), "-inf");
}

static void every_text_reads_back(void **state)
{
    uint64_t bits = 88172645463325252u;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        double v, again;
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v))
            continue;
        const pg__real r = pg__real_of(v);
        assert_true(pg__real_read(&again, r.s, strlen(r.s)));
        assert_true(again == v);
    }
}

static void only_plain_numbers_are_read(void **state)
{
    static const char *const bad[] = {"",   "nan", "inf",   "0x10", "1,5", "1.5 ",
                                      " 1", "1e",  "1.2.3", "e5",   "-",   "1_000"};
    double v = 7;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(pg__real_read(&v, bad[i], strlen(bad[i])));
    assert_true(v == 7);
    assert_true(pg__real_read(&v, "-.5e1/3", 5) && v == -5);
    assert_false(pg__real_read(&v, "1\0", 2));
}

/* Where such a locale is installed. */
static void the_locale_changes_nothing(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "ps_AF.UTF-8"};
    const char *set = NULL;
    double v = 0;
    (void)state;
    for (size_t i = 0; i < 4 && !set; i++)
        set = setlocale(LC_NUMERIC, names[i]);
    assert_string_equal(PG_REAL(1234.5), "1234.5");
    assert_string_equal(PG_REAL32(0.1), "0.1");
    assert_true(pg__real_read(&v, "2.5", 3) && v == 2.5);
    assert_non_null(setlocale(LC_NUMERIC, "C"));
    if (!set)
        skip();
}

PG_TEST_MAIN(cmocka_unit_test(the_shortest_text_that_reads_back),
             cmocka_unit_test(every_text_reads_back), cmocka_unit_test(only_plain_numbers_are_read),
             cmocka_unit_test(the_locale_changes_nothing))
