/* Recurrent layers by a library, on the GPU of plain C (host.h), whose library has cuDNN's order of
 * gates, layout of weights and memory of what is kept: every case of tests/ops/op_cases.h against
 * the plain answers in double, and who does it. */
#include "ops/op_run.h"

#include "fake_log.h"

#include "backend/cuda/plugin.h"
#include "ops/rnn_room.h"

/* An open device with a library of that kind. */
typedef struct bench {
    engine e;
    fake_log log;
    size_t n_missing;
} bench;

/* Of the devices that are opened from here on. */
static int is_tuned = 1;

static void open_bench(bench *b, const char *how, int deterministic)
{
    *b = (bench){.e = {.backend = pg_backend_get(PG_BACKEND_ABI)}};
    b->e.n_missing = &b->n_missing;
    log_open(&b->log);
    assert_int_equal(setenv("FAKE_CUDA_RNN", how, 1), 0);
    assert_ok(b->e.backend->open(
        &b->e.dev, 0,
        &(pg__dev_opts){.n_threads = 1, .deterministic = deterministic, .tune = is_tuned}, NULL));
}

static void close_bench(bench *b)
{
    b->e.backend->close(b->e.dev);
    log_close(&b->log);
    (void)unsetenv("FAKE_CUDA_RNN");
}

static int is_recurrent(const op_case *c)
{
    return c->kind == PG_OP_lstm || c->kind == PG_OP_gru || c->kind == PG_OP_rnn;
}

static void build_case(built *b, size_t c, int trains)
{
    build(b, &cases[c]);
    if (trains)
        add_backward(b);
    pg__rnn_make_room(&b->tape);
}

#define FORWARD  "queue rnn_forward"
#define BACKWARD "queue rnn_backward"

/* Who did it. */
typedef struct count {
    size_t forward, backward;
} count;

static count go(size_t c, const char *how, int deterministic, int trains)
{
    built b;
    bench with;
    build_case(&b, c, trains);
    void **exact = run_case(&b, DOUBLE);
    open_bench(&with, how, deterministic);
    void **mem = run_case(&b, with.e);
    const count n = {log_count(&with.log, FORWARD, NULL), log_count(&with.log, BACKWARD, NULL)};
    compare(&b, c, 0, exact, mem);
    close_bench(&with);
    free_all(&b, mem);
    free_all(&b, exact);
    drop(&b);
    return n;
}

/* Twice on trial, then the run itself. */
static void agrees_with_the_plain_answers(void **state)
{
    size_t n_by_library[3] = {0}, n_by_us = 0;
    (void)state;
    for (size_t c = 0; c < N_CASES; c++) {
        if (!is_recurrent(&cases[c]))
            continue;
        const count n = go(c, "fast", 0, 1);
        assert_int_equal(n.forward, n.backward);
        assert_true(n.forward == 0 || n.forward == 3);
        n_by_us += n.forward == 0;
        n_by_library[cases[c].kind == PG_OP_lstm  ? 0
                     : cases[c].kind == PG_OP_gru ? 1
                                                  : 2] += n.forward == 3;
    }
    for (size_t k = 0; k < 3; k++)
        assert_true(n_by_library[k] > 0);
    assert_true(n_by_us > 0); /* masks, factors, other activations */
}

static void agrees_without_a_gradient(void **state)
{
    size_t n_by_library = 0;
    (void)state;
    for (size_t c = 0; c < N_CASES; c++)
        if (is_recurrent(&cases[c])) {
            const count n = go(c, "fast", 0, 0);
            assert_int_equal(n.backward, 0);
            n_by_library += n.forward == 3;
        }
    assert_true(n_by_library > 3);
}

/* The first case that the library does, a small one. */
static size_t usual_case(void)
{
    for (size_t c = 0; c < N_CASES; c++)
        if (is_recurrent(&cases[c]) && pg__dims_elems(&cases[c].in[0].shape) < 100 &&
            go(c, "fast", 0, 1).forward > 0)
            return c;
    fail_msg("there is no case");
    return 0;
}

static void check(const char *how, int deterministic, size_t n_trials)
{
    const count n = go(usual_case(), how, deterministic, 1);
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

/* Without a gradient, which would be spoilt up to its last number. */
static void leaves_a_library_that_says_no_number(void **state)
{
    (void)state;
    assert_int_equal(go(usual_case(), "nan", 0, 0).forward, 2);
}

/* Else it would have the results that we left there, and be the fastest. Without a gradient, of
 * which its weights are always its own. */
static void leaves_a_library_that_does_nothing(void **state)
{
    (void)state;
    (void)go(usual_case(), "idle", 0, 0); /* which compares what comes out */
}

static void leaves_a_library_that_fails(void **state)
{
    (void)state;
    check("fails", 0, 0);
}

static void leaves_the_library_where_it_has_to_be_deterministic(void **state)
{
    (void)state;
    check("fast", 1, 0);
}

static void leaves_the_library_unless_it_is_asked_for(void **state)
{
    const size_t c = usual_case();
    (void)state;
    is_tuned = 0;
    const count n = go(c, "fast", 0, 1);
    is_tuned = 1;
    assert_int_equal(n.forward + n.backward, 0);
}

/* A tape whose kept results are as large as the operation's own. */
static void leaves_a_library_that_has_no_room(void **state)
{
    const size_t c = usual_case();
    built b;
    bench with;
    (void)state;
    build(&b, &cases[c]);
    add_backward(&b);
    open_bench(&with, "fast", 0);
    void **mem = run_case(&b, with.e);
    assert_int_equal(log_count(&with.log, FORWARD, NULL), 0);
    close_bench(&with);
    free_all(&b, mem);
    drop(&b);
}

static void tries_equal_layers_once(void **state)
{
    const size_t c = usual_case();
    built b;
    bench with;
    (void)state;
    build_case(&b, c, 1);
    open_bench(&with, "fast", 0);
    for (size_t k = 1; k <= 2; k++) {
        free_all(&b, run_case(&b, with.e));
        assert_int_equal(log_count(&with.log, FORWARD, NULL), 2 + k);
    }
    close_bench(&with);
    drop(&b);
}

/* Gates that no library knows, or none. */
static void build_layer(built *b, size_t c, int is_usual)
{
    op_case with = cases[c];
    pg__rnn_attrs a = *(const pg__rnn_attrs *)with.attrs;
    if (!is_usual)
        a.gate = (pg__act_attrs){PG_ACT_HARD_SIGMOID, 0.2, 0.5, 0};
    with.attrs = &a;
    build(b, &with);
    add_backward(b);
    pg__rnn_make_room(&b->tape);
}

/* Whichever of them comes first. */
static void tells_a_layer_that_a_library_knows_from_another(void **state)
{
    const size_t c = usual_case();
    (void)state;
    for (int first = 0; first < 2; first++) {
        bench with;
        open_bench(&with, "fast", 0);
        for (int k = 0; k < 2; k++) {
            built b;
            build_layer(&b, c, k == first);
            free_all(&b, run_case(&b, with.e));
            drop(&b);
        }
        assert_int_equal(log_count(&with.log, FORWARD, NULL), 3);
        close_bench(&with);
    }
}

/* A tape of two equal layers. Of the second something reads what it keeps, so it goes our way, and
 * its gradient with it. */
static void a_gradient_goes_the_way_of_its_layer(void **state)
{
    const size_t c = usual_case();
    built first, second;
    bench with;
    (void)state;
    build_case(&first, c, 1);
    build_case(&second, c, 1);
    const pg__inst *layer = &second.tape.insts[0];
    const pg__val kept = pg__out(&second.tape, layer, layer->n_out - 1);
    pg__val unused;
    assert_ok(pg__emit(&second.tape, PG_OP_act, &(pg__act_attrs){PG_ACT_TANH, 0, 0, 0}, &kept, 1,
                       &unused, NULL));
    open_bench(&with, "fast", 0);
    free_all(&first, run_case(&first, with.e));
    free_all(&second, run_case(&second, with.e));
    assert_int_equal(log_count(&with.log, FORWARD, NULL), 3);
    assert_int_equal(log_count(&with.log, BACKWARD, NULL), 3);
    close_bench(&with);
    drop(&first);
    drop(&second);
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
    const size_t c = usual_case();
    size_t n_fine = 0, n_calls = 1;
    built b;
    (void)state;
    build_case(&b, c, 1);
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
             cmocka_unit_test(leaves_a_library_that_is_slower),
             cmocka_unit_test(leaves_a_library_that_says_something_else),
             cmocka_unit_test(leaves_a_library_that_says_no_number),
             cmocka_unit_test(leaves_a_library_that_does_nothing),
             cmocka_unit_test(leaves_a_library_that_fails),
             cmocka_unit_test(leaves_the_library_where_it_has_to_be_deterministic),
             cmocka_unit_test(leaves_the_library_unless_it_is_asked_for),
             cmocka_unit_test(leaves_a_library_that_has_no_room),
             cmocka_unit_test(tries_equal_layers_once),
             cmocka_unit_test(tells_a_layer_that_a_library_knows_from_another),
             cmocka_unit_test(a_gradient_goes_the_way_of_its_layer),
             cmocka_unit_test(survives_the_failure_of_any_call))
