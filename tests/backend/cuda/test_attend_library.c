/* Attention by a library, on the GPU of plain C (host.h): against the plain answers in double, of
 * the same operands of 16 bits, and who does it. */
#include "ops/attend_cases.h"
#include "ops/op_compact.h"

#include "fake_log.h"

#include "backend/cuda/plugin.h"

/* And what it does not: numbers by which it cannot move them, of features or of masks, a mask
 * for each head, no room. */
static const op_case others[] = {
    {PG_OP_attention,
     ATTEND(.heads = 2, .scale = 0.3),
     {{NORMAL, S(2, 33, 24)}, {NORMAL, S(2, 33, 24)}, {NORMAL, S(2, 33, 16)}, NO_MASKS, ABSENT},
     8,
     3},
    {PG_OP_attention,
     ATTEND(.heads = 2, .scale = 0.3),
     {{NORMAL, S(2, 33, 16)},
      {NORMAL, S(2, 32, 16)},
      {NORMAL, S(2, 32, 16)},
      ABSENT,
      ABSENT,
      ABSENT,
      {MASK, S(2, 2, 1, 32)},
      ABSENT},
     8,
     3},
    {PG_OP_attention,
     ATTEND(.heads = 4, .scale = 0.3),
     {{NORMAL, S(2, 32, 32)},
      {NORMAL, S(2, 33, 32)},
      {NORMAL, S(2, 33, 32)},
      ABSENT,
      {MASK, S(2, 33)},
      ABSENT,
      ABSENT,
      ABSENT},
     8,
     3},
    {PG_OP_attention,
     ATTEND(.heads = 2, .scale = 0.3),
     {{NORMAL, S(2, 33, 16)}, {NORMAL, S(2, 17, 16)}, {NORMAL, S(2, 17, 32)}, NO_MASKS, ABSENT},
     8,
     3},
};

#define N_OTHERS (sizeof others / sizeof *others)

/* An open device with a library of that kind. */
typedef struct bench {
    engine e;
    fake_log log;
    size_t n_missing;
} bench;

/* Of the devices that are opened from here on. */
static int is_tuned = 1;

static void open_bench(bench *b, const char *library, int deterministic)
{
    *b = (bench){.e = {.backend = pg_backend_get(PG_BACKEND_ABI)}};
    b->e.n_missing = &b->n_missing;
    log_open(&b->log);
    assert_int_equal(setenv("FAKE_CUDA_ATTEND", library, 1), 0);
    assert_ok(b->e.backend->open(
        &b->e.dev, 0,
        &(pg__dev_opts){.n_threads = 1, .deterministic = deterministic, .tune = is_tuned}, NULL));
}

static void close_bench(bench *b)
{
    b->e.backend->close(b->e.dev);
    log_close(&b->log);
    (void)unsetenv("FAKE_CUDA_ATTEND");
}

#define FORWARD  "queue attend_forward"
#define BACKWARD "queue attend_backward"

/* Who did it. */
typedef struct count {
    size_t forward, backward;
} count;

static count counted(const bench *with)
{
    return (count){log_count(&with->log, FORWARD, NULL), log_count(&with->log, BACKWARD, NULL)};
}

static count run_as_built(built *b, size_t c, const char *library, int deterministic, double slack)
{
    bench with;
    void **exact = run_case(b, DOUBLE);
    open_bench(&with, library, deterministic);
    void **mem = run_case(b, with.e);
    const count n = counted(&with);
    assert_int_equal(with.n_missing, 0);
    compare(b, c, slack, exact, mem);
    close_bench(&with);
    free_all(b, mem);
    free_all(b, exact);
    return n;
}

static count go(const op_case *c, pg__elem elem, const char *library, int deterministic, int trains)
{
    built b;
    build_case(&b, c, elem, trains);
    const count n = run_as_built(&b, 0, library, deterministic, slack_of(elem));
    drop(&b);
    return n;
}

/* Twice on trial, then the run itself. */
static void agrees_with_the_plain_answers(void **state)
{
    (void)state;
    for (size_t c = 0; c < N_OWN; c++)
        for (int k = 0; k < 2; k++) {
            const count n = go(&own[c], k ? PG_ELEM_F16 : PG_ELEM_BF16, "fast", 0, 1);
            assert_int_equal(n.forward, 3);
            assert_int_equal(n.backward, 3);
        }
}

static void agrees_without_a_gradient(void **state)
{
    (void)state;
    for (size_t c = 0; c < N_OWN; c++) {
        const count n = go(&own[c], PG_ELEM_BF16, "fast", 0, 0);
        assert_int_equal(n.forward, 3);
        assert_int_equal(n.backward, 0);
    }
}

static void leaves_what_it_does_not_do(void **state)
{
    (void)state;
    for (size_t c = 0; c < N_OTHERS; c++)
        assert_int_equal(go(&others[c], PG_ELEM_BF16, "fast", 0, 1).forward, 0);
    assert_int_equal(go(&own[0], PG_ELEM_REAL, "fast", 0, 1).forward, 0);
}

static void check(const char *library, int deterministic, size_t n_trials)
{
    const count n = go(&own[0], PG_ELEM_BF16, library, deterministic, 1);
    assert_int_equal(n.forward, n_trials);
    assert_int_equal(n.backward, n_trials);
}

static void leaves_a_library_that_is_slower(void **state)
{
    (void)state;
    check("slow", 0, 2);
}

static void leaves_a_library_that_says_something_else(void **state)
{
    (void)state;
    check("wrong", 0, 2);
}

static void leaves_a_library_that_says_no_number(void **state)
{
    (void)state;
    check("nan", 0, 2);
}

/* Else it would have the results that we left there, and be the fastest. */
static void leaves_a_library_that_does_nothing(void **state)
{
    (void)state;
    (void)go(&own[0], PG_ELEM_BF16, "idle", 0, 0); /* which compares what comes out */
}

static void leaves_a_library_that_fails(void **state)
{
    (void)state;
    check("fails", 0, 0);
}

static void leaves_a_library_that_has_no_gradient(void **state)
{
    (void)state;
    check("forward", 0, 0);
    assert_int_equal(go(&own[0], PG_ELEM_BF16, "forward", 0, 0).forward, 3);
}

static void leaves_the_library_where_it_has_to_be_deterministic(void **state)
{
    (void)state;
    check("fast", 1, 0);
}

static void leaves_the_library_unless_it_is_asked_for(void **state)
{
    (void)state;
    is_tuned = 0;
    check("fast", 0, 0);
    is_tuned = 1;
}

/* The probabilities are asked for, or have a gradient of their own. */
static void leaves_a_library_where_the_probabilities_are_read(void **state)
{
    pg__val unused;
    built b;
    (void)state;
    build(&b, &own[0]);
    b.n_read = 1;
    assert_ok(pg__emit(&b.tape, PG_OP_act, &(pg__act_attrs){PG_ACT_TANH, 0, 0, 0}, &b.out[1], 1,
                       &unused, NULL));
    squeeze(&b, PG_ELEM_BF16, ALL);
    round_operands(&b, PG_ELEM_BF16);
    assert_int_equal(run_as_built(&b, 0, "fast", 0, BF16_BOUND).forward, 0);
    drop(&b);
    build(&b, &own[0]);
    add_backward(&b);
    squeeze(&b, PG_ELEM_BF16, ALL);
    round_operands(&b, PG_ELEM_BF16);
    assert_int_equal(run_as_built(&b, 0, "fast", 0, BF16_BOUND).forward, 0);
    drop(&b);
}

static void tries_equal_layers_once(void **state)
{
    built b;
    bench with;
    (void)state;
    build_case(&b, &own[3], PG_ELEM_BF16, 1);
    open_bench(&with, "fast", 0);
    for (size_t k = 1; k <= 2; k++) {
        free_all(&b, run_case(&b, with.e));
        assert_int_equal(counted(&with).forward, 2 + k);
        assert_int_equal(counted(&with).backward, 2 + k);
    }
    close_bench(&with);
    drop(&b);
}

/* A program gives no memory to gradients that lead nowhere. */
static void works_where_only_one_gradient_is_read(void **state)
{
    op_case c = own[3];
    bench with;
    built b;
    (void)state;
    c.n_grads = 1;
    for (uint32_t k = 1; k < 3; k++) {
        build_case(&b, &c, PG_ELEM_BF16, 1);
        const pg__inst *gradient = &b.tape.insts[b.tape.n_insts - 1];
        b.missing = pg__out(&b.tape, gradient, k);
        void **exact = run_case(&b, DOUBLE);
        open_bench(&with, "fast", 0);
        void **mem = run_case(&b, with.e);
        assert_int_equal(counted(&with).backward, 3);
        compare_value(&b, pg__out(&b.tape, gradient, 0), gradient->op, k, BF16_BOUND, exact, mem);
        close_bench(&with);
        free_all(&b, mem);
        free_all(&b, exact);
        drop(&b);
    }
}

/* A tape of its own for each; the one with a gradient keeps what the other one does not. */
static void tells_a_layer_with_a_gradient_from_one_without(void **state)
{
    built with_one, without;
    bench with;
    (void)state;
    build_case(&with_one, &own[0], PG_ELEM_BF16, 1);
    build_case(&without, &own[0], PG_ELEM_BF16, 0);
    open_bench(&with, "fast", 0);
    free_all(&without, run_case(&without, with.e));
    free_all(&with_one, run_case(&with_one, with.e));
    assert_int_equal(counted(&with).forward, 6);
    assert_int_equal(counted(&with).backward, 3);
    close_bench(&with);
    drop(&without);
    drop(&with_one);
}

/* No more than ours works in. */
static void takes_no_more_memory(void **state)
{
    (void)state;
    for (size_t c = 0; c < N_OWN; c++) {
        built b;
        size_t scratch[2] = {0};
        build_case(&b, &own[c], PG_ELEM_BF16, 1);
        for (int k = 0; k < 2; k++) {
            bench with;
            open_bench(&with, k ? "fast" : "slow", 0);
            for (uint32_t at = 0; at < b.tape.n_insts; at++) {
                pg__kernel *kernel = NULL;
                pg__needs needs;
                assert_ok(with.e.backend->prepare(&kernel, with.e.dev, &b.tape, &b.tape.insts[at],
                                                  &needs, NULL));
                with.e.backend->release(kernel);
                scratch[k] = needs.scratch_bytes > scratch[k] ? needs.scratch_bytes : scratch[k];
            }
            close_bench(&with);
        }
        assert_true(scratch[1] <= scratch[0]);
        drop(&b);
    }
}

/* Prepares all of a tape. */
static int prepares(const built *b, const bench *with, pg_err *err)
{
    int fine = 1;
    for (uint32_t at = 0; fine && at < b->tape.n_insts; at++) {
        pg__kernel *k = NULL;
        pg__needs needs;
        fine = with->e.backend->prepare(&k, with->e.dev, &b->tape, &b->tape.insts[at], &needs,
                                        err) == PG_OK;
        with->e.backend->release(k);
    }
    return fine;
}

static void survives_the_failure_of_any_call(void **state)
{
    size_t n_fine = 0, n_calls = 1;
    built b;
    (void)state;
    build_case(&b, &own[3], PG_ELEM_BF16, 1);
    for (int done = 0; !done; n_calls++) {
        bench with;
        char text[16];
        pg_err err = {0};
        open_bench(&with, "fast", 0);
        (void)snprintf(text, sizeof text, "%zu", n_calls);
        (void)setenv("FAKE_CUDA_FAIL_AT", text, 1);
        const int fine = prepares(&b, &with, &err);
        (void)unsetenv("FAKE_CUDA_FAIL_AT");
        assert_true(fine ? !err.msg[0] && !with.e.backend->failure(with.e.dev) : !!err.msg[0]);
        n_fine += (size_t)fine;
        done = log_count(&with.log, "fail", NULL) == 0;
        close_bench(&with);
        assert_true(n_calls < 2000);
    }
    assert_true(n_fine > 10);
    drop(&b);
}

PG_TEST_MAIN(cmocka_unit_test(agrees_with_the_plain_answers),
             cmocka_unit_test(agrees_without_a_gradient),
             cmocka_unit_test(leaves_what_it_does_not_do),
             cmocka_unit_test(leaves_a_library_that_is_slower),
             cmocka_unit_test(leaves_a_library_that_says_something_else),
             cmocka_unit_test(leaves_a_library_that_says_no_number),
             cmocka_unit_test(leaves_a_library_that_does_nothing),
             cmocka_unit_test(leaves_a_library_that_fails),
             cmocka_unit_test(leaves_a_library_that_has_no_gradient),
             cmocka_unit_test(leaves_the_library_where_it_has_to_be_deterministic),
             cmocka_unit_test(leaves_the_library_unless_it_is_asked_for),
             cmocka_unit_test(leaves_a_library_where_the_probabilities_are_read),
             cmocka_unit_test(tries_equal_layers_once),
             cmocka_unit_test(works_where_only_one_gradient_is_read),
             cmocka_unit_test(tells_a_layer_with_a_gradient_from_one_without),
             cmocka_unit_test(takes_no_more_memory),
             cmocka_unit_test(survives_the_failure_of_any_call))
