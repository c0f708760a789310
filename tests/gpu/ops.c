/* ops PRECISION: every operation on a real device, PG_GPU_DEVICE or cuda:0, against the plain
 * answers in double; what is float32 within the bounds of ops.def, tf32 within those of products of
 * numbers with 10 bits, bfloat16 and float16 within those of op_compact.h. PG_ONLY_OP names one
 * operation that is looked at alone; "ops list" prints the names of all. */
#include "ops/attend_cases.h"
#include "ops/op_compact.h"

static engine on;
static size_t n_missing, ordinal;

/* Those that a case begins with. */
static void list_operations(void)
{
    for (size_t c = 0; c < N_CASES; c++) {
        size_t before = 0;
        while (before < c && cases[before].kind != cases[c].kind)
            before++;
        if (before == c)
            puts(pg__op_of(cases[c].kind)->name);
    }
}

static int open_device(void **state)
{
    const char *name = getenv("PG_GPU_DEVICE") ? getenv("PG_GPU_DEVICE") : "cuda:0";
    pg__dev_opts opts = {.n_threads = 1, .deterministic = 1};
    pg_err err = {0};
    (void)state;
    on.n_missing = &n_missing;
    only_op = getenv("PG_ONLY_OP");
    if (strcmp(pg_testdata, "list") == 0) {
        list_operations();
        exit(0);
    }
    if (strcmp(pg_testdata, "tf32") == 0) { /* the argument, for this test */
        opts.precision = PG_TF32;
        on.slack = 3e-3;
    }
    if (pg__backend_of(&on.backend, &ordinal, name, &err) != PG_OK ||
        on.backend->open(&on.dev, ordinal, &opts, &err) != PG_OK) {
        print_error("%s\n", err.msg);
        return -1;
    }
    print_message("%s, %s\n", on.backend->kind(on.dev), pg_testdata);
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    on.backend->close(on.dev);
    return 0;
}

static void agrees(void **state)
{
    (void)state;
    if (strcmp(pg_testdata, "bfloat16") == 0)
        agrees_in_16_bits(on, PG_ELEM_BF16);
    else if (strcmp(pg_testdata, "float16") == 0)
        agrees_in_16_bits(on, PG_ELEM_F16);
    else
        agrees_with_double(on);
    assert_int_equal(n_missing, 0);
}

/* By a library where that is better, which is tried where it is asked for. */
static void attention_agrees_whoever_does_it(void **state)
{
    const pg__elem elem = strcmp(pg_testdata, "bfloat16") == 0  ? PG_ELEM_BF16
                          : strcmp(pg_testdata, "float16") == 0 ? PG_ELEM_F16
                                                                : PG_ELEM_REAL;
    const pg__dev_opts opts = {.n_threads = 1, .tune = getenv("PG_TUNE") != NULL};
    engine e = on;
    (void)state;
    const int is_wanted_too = !only_op || strcmp(only_op, "attention") == 0;
    for (size_t c = 0; is_wanted_too && elem != PG_ELEM_REAL && c < N_OWN; c++) {
        built b;
        build_case(&b, &own[c], elem, 1);
        assert_ok(e.backend->open(&e.dev, ordinal, &opts, NULL));
        void **exact = run_case(&b, DOUBLE), **mem = run_case(&b, e);
        compare(&b, c, slack_of(elem), exact, mem);
        e.backend->close(e.dev);
        free_all(&b, mem);
        free_all(&b, exact);
        drop(&b);
    }
}

static void gives_equal_bits_whatever_memory_held(void **state)
{
    (void)state;
    gives_equal_bits(on);
}

static void results_may_lie_over_operands(void **state)
{
    (void)state;
    const size_t n = writes_over_operands(on);
    assert_true(only_op || n > 80);
}

PG_TEST_MAIN_WITH(open_device, close_device, cmocka_unit_test(agrees),
                  cmocka_unit_test(attention_agrees_whoever_does_it),
                  cmocka_unit_test(gives_equal_bits_whatever_memory_held),
                  cmocka_unit_test(results_may_lie_over_operands))
