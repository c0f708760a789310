/* Names of devices: which back end has them, and what is none. */
#include "pg_test.h"

#include "backend/backend.h"

static void a_device_is_a_back_end_and_a_number(void **state)
{
    const pg__backend *b = NULL;
    size_t ordinal = 7;
    (void)state;
    assert_ok(pg__backend_of(&b, &ordinal, "cpu", NULL));
    assert_string_equal(b->name, "cpu");
    assert_int_equal(ordinal, 0);
    assert_ok(pg__backend_of(&b, &ordinal, "ref:12", NULL));
    assert_string_equal(b->name, "ref");
    assert_int_equal(ordinal, 12);
}

static void other_words_are_refused(void **state)
{
    static const char *const bad[] = {"",      "cpu:",   "cpu:-1", "cpu:1x", "cpus",
                                      "cuda:", "cuda:x", "cudas",  "gpus:0", "all"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const pg__backend *b = NULL;
        size_t ordinal = 0;
        pg_err err = {0};
        assert_fails(PG_E_ARG, pg__backend_of(&b, &ordinal, bad[i], &err), &err);
        assert_null(b);
    }
}

static void gpus_are_known_by_their_names(void **state)
{
    (void)state;
    assert_string_equal(pg__gpu_name(), "cuda");
    assert_true(pg__begins_with_gpu("cuda:0,cpu:0") && pg__begins_with_gpu("gpu"));
    assert_false(pg__begins_with_gpu("cpu:0,cuda:0") || pg__begins_with_gpu(""));
}

PG_TEST_MAIN(cmocka_unit_test(a_device_is_a_back_end_and_a_number),
             cmocka_unit_test(other_words_are_refused),
             cmocka_unit_test(gpus_are_known_by_their_names))
