#include "pg_test.h"

#include <math.h>

#include "store/values.h"

/* OCP 8-bit floating point, version 1.0, tables 1 and 2; and all values by their definition. */
static void float8_is_that_of_the_open_compute_project(void **state)
{
    (void)state;
    static const struct {
        unsigned char bits;
        pg_dtype dtype;
        double value;
    } rows[] = {
        {0x7E, PG_F8_E4M3, 448},         {0x08, PG_F8_E4M3, 0.015625},
        {0x07, PG_F8_E4M3, 0.013671875}, {0x01, PG_F8_E4M3, 0.001953125},
        {0xB8, PG_F8_E4M3, -1},          {0x7B, PG_F8_E5M2, 57344},
        {0x04, PG_F8_E5M2, 6.103515625e-05}, {0x01, PG_F8_E5M2, 1.52587890625e-05},
        {0xBC, PG_F8_E5M2, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(pg__value_at(&rows[i].bits, rows[i].dtype) == rows[i].value);
    for (unsigned c = 0; c < 256; c++) {
        const unsigned char bits = (unsigned char)c;
        const double x = pg__value_at(&bits, PG_F8_E4M3), y = pg__value_at(&bits, PG_F8_E5M2);
        assert_int_equal(isnan(x) != 0, (c & 0x7F) == 0x7F);
        assert_int_equal(isnan(y) != 0, (c & 0x7F) > 0x7C);
        assert_int_equal(isinf(y) != 0, (c & 0x7F) == 0x7C);
        assert_true(!isinf(x));
    }
}

PG_TEST_MAIN(cmocka_unit_test(float8_is_that_of_the_open_compute_project))
