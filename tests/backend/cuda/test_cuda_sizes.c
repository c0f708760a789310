/* Operations at the sizes of warps, teams and blocks, and one more or less, on the GPU of plain C
 * (host.h) against the plain answers in double; kernels of nothing are not launched. */
#define PG_SIZE_CASES
#include "ops/op_run.h"

#include "backend/cuda/plugin.h"

static size_t n_missing;

static engine cuda(void)
{
    return (engine){.backend = pg_backend_get(PG_BACKEND_ABI), .n_missing = &n_missing};
}

static void agrees(void **state)
{
    (void)state;
    agrees_with_double(cuda());
    assert_int_equal(n_missing, 0);
}

static void gives_equal_bits_whatever_memory_held(void **state)
{
    (void)state;
    gives_equal_bits(cuda());
}

#ifdef NVCC_LAUNCHES /* its launches, not those of kernels_host.c */
#define PGK_MAP(name)   int pgk_launch_##name(const void *args, uint64_t n, void *stream);
#define PGK_ROWS(name)  PGK_MAP(name)
#define PGK_LINES(name) PGK_MAP(name)
#include "backend/cuda/kernels.def"
#undef PGK_MAP

/* The arguments are not looked at, and there is no stream. */
static void nothing_is_launched_for_no_elements(void **state)
{
    static const uint64_t args[512];
    (void)state;
#define PGK_MAP(name) assert_int_equal(pgk_launch_##name(args, 0, NULL), 0);
#include "backend/cuda/kernels.def"
}
#define OF_LAUNCHES cmocka_unit_test(nothing_is_launched_for_no_elements),
#else
#define OF_LAUNCHES
#endif

PG_TEST_MAIN(OF_LAUNCHES cmocka_unit_test(agrees),
             cmocka_unit_test(gives_equal_bits_whatever_memory_held))
