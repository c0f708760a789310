/* Format specifications: what Python's own format() gives, and what it refuses. */
#include "pg_test.h"

#include <locale.h>
#include <math.h>

#include "base/spec.h"

static const struct {
    int kind;
    double v;
    const char *spec, *text; /* NULL: refused */
} table[] = {
#include "spec_table.h"
};

static void check_table(void)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        pg__str out = {0};
        pg_err err = {0};
        const pg__spec_value v = {(pg__spec_kind)table[i].kind, table[i].v};
        const pg_status st = pg__spec_format(&out, table[i].spec, strlen(table[i].spec), v, &err);
        if (!table[i].text)
            assert_fails(PG_E_ARG, st, &err);
        else if (st != PG_OK || strcmp(out.s, table[i].text) != 0)
            fail_msg("format(%g, '%s') is '%s', not '%s' %s", table[i].v, table[i].spec,
                     table[i].text, out.s, err.msg);
        pg__str_fini(&out);
    }
}

static void gives_what_python_gives(void **state)
{
    (void)state;
    check_table();
}

static void gives_it_in_any_locale(void **state)
{
    static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF.UTF-8"};
    (void)state;
    for (size_t i = 0; i < sizeof commas / sizeof *commas; i++)
        if (setlocale(LC_NUMERIC, commas[i]))
            check_table();
    setlocale(LC_NUMERIC, "C");
}

static void rates_are_float32(void **state)
{
    pg__str out = {0};
    const double rate = (double)0.001f;
    (void)state;
    assert_ok(pg__spec_format(&out, "", 0, (pg__spec_value){PG_SPEC_FLOAT32, rate}, NULL));
    assert_string_equal(out.s, "0.001");
    out.n = 0;
    assert_ok(pg__spec_format(&out, ".6f", 3, (pg__spec_value){PG_SPEC_FLOAT32, rate}, NULL));
    assert_string_equal(out.s, "0.001000");
    pg__str_fini(&out);
}

static void refuses_what_python_refuses(void **state)
{
    static const char *const bad[] = {"q",    ".",    ".f", "5.", "dd",   "s",     "!",
                                      "<=>5", ",x",   "_n", ",n", "2.3x", "_,",    "05s",
                                      "#s",   "=5%f", "c",  "z",  "201",  ".201f", "99999999999"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int kind = PG_SPEC_INT; kind <= PG_SPEC_FLOAT; kind++) {
            pg__str out = {0};
            pg_err err = {0};
            const pg__spec_value v = {(pg__spec_kind)kind, 7};
            assert_fails(PG_E_ARG, pg__spec_format(&out, bad[i], strlen(bad[i]), v, &err), &err);
            pg__str_fini(&out);
        }
}

PG_TEST_MAIN(cmocka_unit_test(gives_what_python_gives), cmocka_unit_test(gives_it_in_any_locale),
             cmocka_unit_test(rates_are_float32), cmocka_unit_test(refuses_what_python_refuses))
