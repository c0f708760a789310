/* Every operation in bfloat16 as the CPU emulates it, with the kernels of each instruction set,
 * against the plain answers in double of the same operands. */
#include "ops/op_compact.h"

#include "backend/cpu/isa.h"

static void emulated_bfloat16_agrees_with_double(void **state)
{
    (void)state;
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        if (pg__isa_present((pg__isa)isa))
            agrees_in_16_bits(CPU(pg__isa_name((pg__isa)isa)), PG_ELEM_AS_BF16);
}

/* The reference keeps doubles that a bfloat16 could be. */
static void the_reference_rounds_too(void **state)
{
    const pg__cast_attrs a = {.from = PG_ELEM_REAL, .to = PG_ELEM_AS_BF16};
    const pg__dims four = pg__dims_of(1, (const uint64_t[]){4});
    double x[] = {1.0, 1.00390625, -3.3, 1e-40}, y[4] = {0};
    pg__arg scratch[2];
    pg__dev *dev = NULL;
    pg__kernel *kernel = NULL;
    pg__needs needs;
    pg__tape t = {0};
    pg__val in, out;
    (void)state;
    assert_ok(pg__backend_ref.open(&dev, 0, &(pg__dev_opts){.n_threads = 1}, NULL));
    assert_ok(pg__tape_value(&t, &four, PG_ELEM_REAL, PG_INPUT, 0, 0, &in, NULL));
    assert_ok(pg__emit1(&t, PG_OP_cast, &a, in, &out, NULL));
    assert_ok(pg__backend_ref.prepare(&kernel, dev, &t, &t.insts[0], &needs, NULL));
    assert_true(needs.scratch_bytes <= sizeof scratch);
    assert_ok(pg__backend_ref.run(dev, kernel, (void *[]){x, y}, scratch, NULL));
    assert_true(y[0] == 1 && y[1] == 1 && y[2] == -3.296875 && y[3] > 0 && y[3] != 1e-40);
    pg__backend_ref.release(kernel);
    pg__backend_ref.close(dev);
    pg__tape_fini(&t);
}

PG_TEST_MAIN(cmocka_unit_test(emulated_bfloat16_agrees_with_double),
             cmocka_unit_test(the_reference_rounds_too))
