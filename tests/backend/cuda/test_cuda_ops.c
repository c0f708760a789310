/* Every operation on the GPU of plain C (host.h), against the plain answers in double. */
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
    n_missing = 0;
    agrees_with_double(cuda());
    assert_int_equal(n_missing, 0);
}

/* What NVIDIA's libraries have no way for is done by kernels of our own. */
static void agrees_where_libraries_refuse(void **state)
{
    (void)state;
    setenv("FAKE_CUDA_REFUSES", "bias epilogue", 1);
    agrees_with_double(cuda());
    setenv("FAKE_CUDA_REFUSES", "conv", 1);
    agrees_with_double(cuda());
    unsetenv("FAKE_CUDA_REFUSES");
}

static void gives_equal_bits_whatever_memory_held(void **state)
{
    (void)state;
    gives_equal_bits(cuda());
}

static void results_may_lie_over_operands(void **state)
{
    (void)state;
    assert_true(writes_over_operands(cuda()) > 80);
}

static void dropout_gives_the_bits_of_the_plain_answer(void **state)
{
    size_t n = 0;
    (void)state;
    for (size_t c = 0; c < N_CASES; c++) {
        built b;
        if (cases[c].kind != PG_OP_dropout)
            continue;
        build(&b, &cases[c]);
        void **plain = run_case(&b, FLOAT), **mem = run_case(&b, cuda());
        same_bits(&b, c, b.out[0], plain, mem);
        free_all(&b, mem);
        free_all(&b, plain);
        drop(&b);
        n++;
    }
    assert_true(n >= 10);
}

static int is_of_classes(const op_case *c)
{
    return c->kind == PG_OP_loss && pg__loss_takes_class(((const pg__loss_attrs *)c->attrs)->kind);
}

/* Of a row whose class does not exist; the others have theirs. */
static void a_class_beyond_the_predictions_has_no_loss(void **state)
{
    size_t n = 0;
    (void)state;
    for (size_t c = 0; c < N_CASES; c++) {
        built b;
        if (!is_of_classes(&cases[c]))
            continue;
        build(&b, &cases[c]);
        b.in_values[1][0] = 1e6;
        b.in_values[1][2] = -1;
        void **mem = run_case(&b, cuda());
        const float *loss = mem[b.out[0]];
        for (uint64_t r = 0; r < elems(&b, b.out[0]); r++)
            assert_int_equal(isnan(loss[r]) != 0, r == 0 || r == 2);
        free_all(&b, mem);
        drop(&b);
        n++;
    }
    assert_true(n >= 3);
}

static void another_interface_is_refused(void **state)
{
    (void)state;
    assert_null(pg_backend_get(PG_BACKEND_ABI + 1));
    assert_non_null(pg_backend_get(PG_BACKEND_ABI));
}

PG_TEST_MAIN(cmocka_unit_test(agrees), cmocka_unit_test(agrees_where_libraries_refuse),
             cmocka_unit_test(gives_equal_bits_whatever_memory_held),
             cmocka_unit_test(results_may_lie_over_operands),
             cmocka_unit_test(dropout_gives_the_bits_of_the_plain_answer),
             cmocka_unit_test(a_class_beyond_the_predictions_has_no_loss),
             cmocka_unit_test(another_interface_is_refused))
