#include "pg_test.h"

#include "base/philox.h"

static void assert_random(pg__random got, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const uint32_t want[] = {a, b, c, d};
    assert_memory_equal(got.v, want, sizeof want);
}

/* Random123's kat_vectors. */
static void gives_the_published_answers(void **state)
{
    (void)state;
    assert_random(pg__philox(0, 0, 0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
    assert_random(pg__philox(UINT64_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX),
                  0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
    assert_random(pg__philox(0x299f31d0a4093822u, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344),
                  0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

static void uniform_numbers_fill_their_range(void **state)
{
    double sum = 0;
    unsigned tenths[10] = {0};
    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        const float u = pg__uniform(42, i, 7, 3);
        assert_true(u >= 0 && u < 1);
        tenths[(int)(u * 10)]++;
        sum += u;
    }
    assert_true(sum > 49500 && sum < 50500);
    for (int k = 0; k < 10; k++)
        assert_true(tenths[k] > 9700 && tenths[k] < 10300);
}

PG_TEST_MAIN(cmocka_unit_test(gives_the_published_answers),
             cmocka_unit_test(uniform_numbers_fill_their_range))
