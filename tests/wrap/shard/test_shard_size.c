/* Sizes as people write them. */
#include "pg_test.h"

#include "pg/shard.h"

static void units_are_needed_and_exact(void **state)
{
    static const struct {
        const char *text;
        uint64_t n;
    } good[] = {
        {"1B", 1},        {"100kB", 100000},      {"100KB", 100000},       {"1.5GiB", 1610612736},
        {"2MB", 2000000}, {"2MiB", 2097152},      {"0.5TB", 500000000000}, {"5GB", 5000000000},
        {"1KiB", 1024},   {"1TiB", 1099511627776}};
    static const char *const bad[] = {"",      "GB",    "-1GB",  "0GB",           "1",
                                      "1 GB",  "1gb",   "1GBx",  "1..5GB",        ".5GB",
                                      "nanGB", "1e3GB", "9e9TB", "99999999999TB", "0x1GB"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t n = 0;
        assert_ok(pg_shard_size(&n, good[i].text, NULL));
        assert_int_equal(n, good[i].n);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t n = 7;
        pg_err err = {0};
        assert_fails(PG_E_ARG, pg_shard_size(&n, bad[i], &err), &err);
        assert_int_equal(n, 7);
    }
}

PG_TEST_MAIN(cmocka_unit_test(units_are_needed_and_exact))
