/* Which builds of the kernels there are, and who chooses; and what all do alike. */
#include "pg_test.h"

#include "backend/backend.h"
#include "backend/cpu/isa.h"

#include "backend/shares.h"

static void the_best_one_present_is_taken(void **state)
{
    pg__isa isa, best = PG_ISA_BASE;
    (void)state;
    for (int i = 0; i < PG_N_ISAS; i++)
        best = pg__isa_present((pg__isa)i) ? (pg__isa)i : best;
    assert_ok(pg__isa_named(&isa, NULL, NULL));
    assert_int_equal(isa, best);
    assert_ok(pg__isa_named(&isa, "", NULL));
    assert_int_equal(isa, best);
}

static void each_one_has_every_function(void **state)
{
    (void)state;
    for (int i = 0; i < PG_N_ISAS; i++) {
        pg__isa isa;
        if (!pg__isa_present((pg__isa)i))
            continue;
        assert_ok(pg__isa_named(&isa, pg__isa_name((pg__isa)i), NULL));
        assert_int_equal(isa, i);
        for (size_t k = 0; k < PG_N_OPS; k++)
            assert_non_null(pg__isa_fns_of(isa)->ops[k]);
        for (size_t k = 0; k < PG_N_OPTIMIZERS; k++)
            assert_non_null(pg__isa_fns_of(isa)->updates[k]);
        for (int other = 0; other < i; other++)
            if (pg__isa_present((pg__isa)other))
                assert_ptr_not_equal(pg__isa_fns_of(isa), pg__isa_fns_of((pg__isa)other));
    }
}

static void refuses_what_is_not_there(void **state)
{
    pg_err err = {0};
    pg__dev *dev = NULL;
    (void)state;
    const pg__dev_opts opts = {.n_threads = 1, .isa = "sse9"};
    assert_int_equal(pg__backend_cpu.open(&dev, 0, &opts, &err), PG_E_ARG);
    assert_string_equal(err.msg, "PG_ISA: sse9 is not base, avx2 or avx512");
    assert_null(dev);
    for (int i = 0; i < PG_N_ISAS; i++)
        if (!pg__isa_present((pg__isa)i)) {
            const pg__dev_opts absent = {.n_threads = 1, .isa = pg__isa_name((pg__isa)i)};
            assert_int_equal(pg__backend_cpu.open(&dev, 0, &absent, &err), PG_E_UNSUPPORTED);
        }
}

static void what_is_not_kept_is_not_read(void **state)
{
    (void)state;
    check_shares_of_nothing(&pg__backend_cpu);
    check_shares_of_nothing(&pg__backend_ref);
}

PG_TEST_MAIN(cmocka_unit_test(what_is_not_kept_is_not_read),
             cmocka_unit_test(the_best_one_present_is_taken),
             cmocka_unit_test(each_one_has_every_function),
             cmocka_unit_test(refuses_what_is_not_there))
