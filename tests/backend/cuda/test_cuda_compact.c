/* Every operation in 16 bits on the GPU of plain C (host.h), against the plain answers in double of
 * the same operands. */
#include "ops/op_compact.h"

#include "backend/cuda/plugin.h"

static engine cuda(size_t *n_missing)
{
    return (engine){.backend = pg_backend_get(PG_BACKEND_ABI), .n_missing = n_missing};
}

static void bfloat16_agrees_with_double(void **state)
{
    size_t n_missing = 0;
    (void)state;
    agrees_in_16_bits(cuda(&n_missing), PG_ELEM_BF16);
}

static void float16_agrees_with_double(void **state)
{
    size_t n_missing = 0;
    (void)state;
    agrees_in_16_bits(cuda(&n_missing), PG_ELEM_F16);
}

PG_TEST_MAIN(cmocka_unit_test(bfloat16_agrees_with_double),
             cmocka_unit_test(float16_agrees_with_double))
