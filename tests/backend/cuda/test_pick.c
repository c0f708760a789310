/* Which of a library's ways is taken (pick.h), on the GPU of plain C (host.h), which is told by
 * FAKE_CUDA_PLANS how fast they are and writes down what is run. */
#include "fake_log.h"

#include "backend/cuda/pick.h"
#include "backend/cuda/plugin.h"
#include "base/mem.h"
#include "ops/attrs.h"

/* A device, and one tape of which each instruction is one operation on operands of its own. */
typedef struct bench {
    const pg__backend *on;
    pg__dev *dev;
    pg__tape tape;
    fake_log log;
    pg_err err;
} bench;

/* Of the devices that are opened from here on. */
static int is_tuned = 1;

static void open_bench(bench *b, const char *plans, int deterministic)
{
    *b = (bench){.on = pg_backend_get(PG_BACKEND_ABI)};
    log_open(&b->log);
    assert_int_equal(setenv("FAKE_CUDA_PLANS", plans, 1), 0);
    assert_ok(b->on->open(
        &b->dev, 0,
        &(pg__dev_opts){.n_threads = 1, .deterministic = deterministic, .tune = is_tuned}, NULL));
}

static void close_bench(bench *b)
{
    b->on->close(b->dev);
    pg__tape_fini(&b->tape);
    log_close(&b->log);
    (void)unsetenv("FAKE_CUDA_PLANS");
}

static pg__val operand(bench *b, const pg__dims *shape)
{
    pg__val v;
    assert_ok(pg__tape_value(&b->tape, shape, PG_ELEM_REAL, PG_INPUT, 0, 0, &v, NULL));
    return v;
}

/* An image of 8 x 8 with `channels`, and 4 filters. */
static void emit_conv(bench *b, uint64_t channels)
{
    const pg__conv_attrs a = {.rank = 2,
                              .kernel = {3, 3},
                              .stride = {1, 1},
                              .dilation = {1, 1},
                              .before = {1, 1},
                              .after = {1, 1},
                              .groups = 1};
    const pg__dims x = pg__dims_of(4, (const uint64_t[]){2, 8, 8, channels});
    const pg__dims w = pg__dims_of(4, (const uint64_t[]){3, 3, channels, 4});
    const pg__val in[] = {operand(b, &x), operand(b, &w), PG_NO_VAL};
    pg__val out;
    assert_ok(pg__emit(&b->tape, PG_OP_conv, &a, in, 3, &out, NULL));
}

static void emit_dense(bench *b)
{
    const pg__dims x = pg__dims_of(2, (const uint64_t[]){5, 6});
    const pg__dims w = pg__dims_of(2, (const uint64_t[]){6, 7});
    const pg__val in[] = {operand(b, &x), operand(b, &w), PG_NO_VAL};
    pg__val out;
    assert_ok(pg__emit(&b->tape, PG_OP_dense, NULL, in, 3, &out, NULL));
}

/* Prepares instruction `at` and runs it on memory of its own. */
static pg_status go(bench *b, uint32_t at)
{
    const pg__inst *i = &b->tape.insts[at];
    const pg__val v[] = {pg__in(&b->tape, i, 0), pg__in(&b->tape, i, 1), pg__out(&b->tape, i, 0)};
    void *args[4] = {NULL}, *scratch = NULL;
    pg__kernel *k = NULL;
    pg__needs needs;
    pg_status st = b->on->prepare(&k, b->dev, &b->tape, i, &needs, &b->err);
    for (size_t n = 0; st == PG_OK && n < 3; n++)
        st = b->on->alloc(b->dev, &args[n == 2 ? 3 : n],
                          (size_t)pg__dims_elems(&b->tape.values[v[n]].shape) * sizeof(float),
                          &b->err);
    if (st == PG_OK)
        st = b->on->alloc(b->dev, &scratch, needs.scratch_bytes + 1, &b->err);
    if (st == PG_OK)
        st = b->on->run(b->dev, k, args, scratch, NULL);
    if (st == PG_OK)
        st = b->on->sync(b->dev);
    if (st != PG_OK && !b->err.msg[0] && b->on->failure(b->dev))
        b->err = *b->on->failure(b->dev);
    for (size_t n = 0; n < 4; n++)
        b->on->free(b->dev, args[n]);
    b->on->free(b->dev, scratch);
    b->on->release(k);
    return st;
}

#define CONV    "queue conv, "
#define PRODUCT "queue matmul, "

static void check(const char *plans, int deterministic, const char *taken, size_t n_runs)
{
    static const char *const what[] = {CONV, PRODUCT};
    for (size_t k = 0; k < 2; k++) {
        bench b;
        char last[16] = "";
        open_bench(&b, plans, deterministic);
        if (k == 0)
            emit_conv(&b, 3);
        else
            emit_dense(&b);
        assert_ok(go(&b, 0));
        assert_int_equal(log_count(&b.log, what[k], last), n_runs);
        assert_string_equal(last, taken);
        close_bench(&b);
    }
}

/* Each is run twice, then the one that was taken. */
static void takes_the_fastest(void **state)
{
    (void)state;
    check("slow fast slow", 0, "fast", 7);
    check("fast slow", 0, "fast", 5);
}

static void passes_over_what_fails_when_it_is_run(void **state)
{
    (void)state;
    check("fails slow fails", 0, "slow", 3);
}

static void passes_over_what_cannot_be_made(void **state)
{
    (void)state;
    check("none slow none fast", 0, "fast", 5);
    check("none fast", 1, "fast", 1);
}

static void tries_the_first_few_only(void **state)
{
    (void)state;
    check("slow slow slow slow fast", 0, "slow", 9);
}

static void tries_nothing_where_it_has_to_be_deterministic(void **state)
{
    (void)state;
    check("slow fast", 1, "slow", 1);
}

static void tries_nothing_unless_asked(void **state)
{
    (void)state;
    is_tuned = 0;
    check("slow fast", 0, "slow", 1);
    check("none fast", 0, "fast", 1);
    is_tuned = 1;
}

static void tries_equal_work_once(void **state)
{
    bench b;
    char last[16] = "";
    (void)state;
    open_bench(&b, "slow fast", 0);
    emit_conv(&b, 3);
    emit_conv(&b, 3);
    emit_conv(&b, 5);
    assert_ok(go(&b, 0));
    assert_int_equal(log_count(&b.log, CONV, last), 5);
    assert_ok(go(&b, 1));
    assert_int_equal(log_count(&b.log, CONV, last), 6);
    assert_ok(go(&b, 2));
    assert_int_equal(log_count(&b.log, CONV, last), 11);
    assert_string_equal(last, "fast");
    close_bench(&b);
}

#ifndef REAL_CLOCK /* what the plans take is not what passes */
/* Two runs of "ages" are more than all trials of a device may take. */
static void stops_when_its_time_is_up(void **state)
{
    bench b;
    char last[16] = "";
    (void)state;
    open_bench(&b, "ages fast", 0);
    emit_conv(&b, 3);
    emit_conv(&b, 5);
    assert_ok(go(&b, 0));
    assert_int_equal(log_count(&b.log, CONV, last), 3);
    assert_string_equal(last, "ages");
    assert_ok(go(&b, 1));
    assert_int_equal(log_count(&b.log, CONV, last), 4);
    close_bench(&b);
}
#endif

/* A convolution is then done by a kernel of ours; of a product there is none. */
static void goes_another_way_or_tells_where_all_fail(void **state)
{
    bench b;
    char last[16] = "";
    (void)state;
    open_bench(&b, "fails fails", 0);
    emit_conv(&b, 3);
    emit_dense(&b);
    assert_ok(go(&b, 0));
    assert_int_equal(log_count(&b.log, "queue conv_y", last), 1);
    assert_null(b.on->failure(b.dev));
    assert_int_equal(go(&b, 1), PG_E_UNSUPPORTED);
    assert_true(b.err.msg[0]);
    close_bench(&b);
}

/* Whichever call fails while it chooses: another way is taken, or the failure is told. */
static void survives_the_failure_of_any_call(void **state)
{
    size_t n_small = 0, n_taken = 0, n_calls = 1;
    (void)state;
    for (int done = 0; !done; n_calls++) {
        bench b;
        char text[16], last[16] = "";
        open_bench(&b, "slow fast", 0);
        emit_conv(&b, 3);
        (void)snprintf(text, sizeof text, "%zu", n_calls);
        (void)setenv("FAKE_CUDA_FAIL_AT", text, 1);
        const pg_status st = go(&b, 0);
        (void)unsetenv("FAKE_CUDA_FAIL_AT");
        assert_true(st == PG_OK || b.err.msg[0]);
        n_small += st != PG_OK;
        n_taken += st == PG_OK;
        done = log_count(&b.log, "fail", last) == 0;
        close_bench(&b);
        assert_true(n_calls < 200);
    }
    assert_true(n_small > 3 && n_taken > 3);
}

/* Work of which more is to be said than there is room for may be other work. */
static void remembers_nothing_of_work_that_it_cannot_tell(void **state)
{
    static const uint64_t numbers[PG_PICK_NUMBERS + 1] = {1};
    pg__pick_case c = {.n_key = 0}, too_long = {.n_key = 0};
    pg__picks p = {.n = 0};
    (void)state;
    pg__pick_add(&c, numbers, PG_PICK_NUMBERS);
    pg__pick_add(&too_long, numbers, PG_PICK_NUMBERS + 1);
    assert_ok(pg__picks_keep(&p, &c, 3, NULL));
    assert_ok(pg__picks_keep(&p, &too_long, 4, NULL));
    assert_true(pg__picks_find(&p, &c) == 3);
    assert_true(pg__picks_find(&p, &too_long) == PG_PICK_NONE);
    pg__picks_fini(&p);
}

static void remembers_the_last_choice(void **state)
{
    pg__pick_case c = {.n_key = 0};
    pg__picks p = {.n = 0};
    (void)state;
    pg__pick_add(&c, (const uint64_t[]){7}, 1);
    assert_ok(pg__picks_keep(&p, &c, 3, NULL));
    assert_ok(pg__picks_keep(&p, &c, 4, NULL));
    assert_true(pg__picks_find(&p, &c) == 4);
    assert_int_equal(p.n, 1);
    pg__picks_fini(&p);
}

#ifndef REAL_CLOCK
#define CLOCK_TESTS cmocka_unit_test(stops_when_its_time_is_up),
#else
#define CLOCK_TESTS
#endif
PG_TEST_MAIN(CLOCK_TESTS cmocka_unit_test(takes_the_fastest),
             cmocka_unit_test(passes_over_what_fails_when_it_is_run),
             cmocka_unit_test(passes_over_what_cannot_be_made),
             cmocka_unit_test(tries_the_first_few_only),
             cmocka_unit_test(tries_nothing_where_it_has_to_be_deterministic),
             cmocka_unit_test(tries_nothing_unless_asked), cmocka_unit_test(tries_equal_work_once),
             cmocka_unit_test(goes_another_way_or_tells_where_all_fail),
             cmocka_unit_test(survives_the_failure_of_any_call),
             cmocka_unit_test(remembers_nothing_of_work_that_it_cannot_tell),
             cmocka_unit_test(remembers_the_last_choice))
