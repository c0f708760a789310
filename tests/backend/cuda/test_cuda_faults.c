/* A device that fails at any of its calls while an operation is prepared or done: there is an error
 * with a message, nothing crashes, and (with a sanitizer) nothing is left behind. */
#include "ops/op_run.h"

#include <sys/wait.h>
#include <unistd.h>

#include "backend/cuda/plugin.h"

/* One tape on a device: memory of its values, and what is freed at the end. */
typedef struct work {
    const built *b;
    const pg__backend *on;
    pg__dev *dev;
    void **mem;  /* by value */
    int records; /* tries to, in vain, before it runs */
    pg_err err;
} work;

static int is_fine(work *w, pg_status st)
{
    if (st != PG_OK && !w->err.msg[0] && w->on->failure(w->dev))
        w->err = *w->on->failure(w->dev);
    return st == PG_OK;
}

/* What a failed recording left would be told as the reason of any later failure. */
static void record_in_vain(work *w, const pg__kernel *kernel, void *const *args, void *scratch,
                           void *shared)
{
    pg__graph_run *g = NULL;
    assert_int_equal(setenv("FAKE_CUDA_REFUSES", "record", 1), 0);
    assert_ok(w->on->capture.begin(w->dev));
    assert_true(w->on->run(w->dev, kernel, args, scratch, shared) != PG_OK);
    (void)w->on->capture.end(w->dev, &g);
    assert_int_equal(unsetenv("FAKE_CUDA_REFUSES"), 0);
    w->on->capture.forget(g);
    assert_null(w->on->failure(w->dev));
}

static int run_kernel_of(work *w, const pg__inst *i, const pg__kernel *kernel,
                         const pg__needs *needs, void *scratch, void *shared)
{
    void *args[2 * MAX_IN] = {NULL}, *params[2 * MAX_IN] = {NULL};
    for (uint32_t k = 0; k < i->n_in + i->n_out; k++) {
        const pg__val v = value_of(w->b, i, k);
        args[k] = v == PG_NO_VAL || v == w->b->missing ? NULL : w->mem[v];
        params[k] = args[k] && w->b->tape.values[v].role == PG_PARAM ? args[k] : NULL;
    }
    if (needs->shared_bytes && !is_fine(w, w->on->share(w->dev, kernel, params, shared)))
        return 0;
    if (w->records)
        record_in_vain(w, kernel, args, scratch, shared);
    return is_fine(w, w->on->run(w->dev, kernel, args, scratch, shared)) &&
           is_fine(w, w->on->sync(w->dev));
}

static int do_inst(work *w, const pg__inst *i)
{
    pg__kernel *kernel = NULL;
    pg__needs needs = {0};
    void *scratch = NULL, *shared = NULL;
    const pg_status st = w->on->prepare(&kernel, w->dev, &w->b->tape, i, &needs, &w->err);
    if (st == PG_E_UNSUPPORTED && !strstr(w->err.msg, "ordered")) {
        w->err = (pg_err){0}; /* not covered; that is told elsewhere */
        return 1;
    }
    int fine = is_fine(w, st) &&
               is_fine(w, w->on->alloc(w->dev, &scratch, needs.scratch_bytes + 1, &w->err)) &&
               is_fine(w, w->on->alloc(w->dev, &shared, needs.shared_bytes + 1, &w->err)) &&
               run_kernel_of(w, i, kernel, &needs, scratch, shared);
    w->on->free(w->dev, shared);
    w->on->free(w->dev, scratch);
    w->on->release(kernel);
    return fine;
}

/* 1: all went well. */
static int do_tape(work *w)
{
    const uint32_t n = w->b->tape.n_values;
    int fine =
        is_fine(w, w->on->open(&w->dev, 0, &(pg__dev_opts){.n_threads = 1, .tune = 1}, &w->err));
    if (!fine)
        return 0;
    w->mem = pg__mem_array(n, sizeof *w->mem);
    for (pg__val v = 0; fine && v < n; v++)
        fine = is_fine(
            w, w->on->alloc(w->dev, &w->mem[v], (size_t)elems(w->b, v) * sizeof(float), &w->err));
    for (uint32_t at = 0; fine && at < w->b->tape.n_insts; at++)
        fine = do_inst(w, &w->b->tape.insts[at]);
    for (pg__val v = 0; v < n; v++)
        w->on->free(w->dev, w->mem[v]);
    pg__mem_free(w->mem);
    w->on->close(w->dev);
    return fine;
}

enum { DONE, TOLD, SILENT };

/* A process of its own, whose calls are counted from 1. */
static int with_failure_at(const built *b, unsigned call)
{
    char text[16];
    int how = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        work w = {.b = b, .on = pg_backend_get(PG_BACKEND_ABI)};
        (void)snprintf(text, sizeof text, "%u", call);
        (void)setenv("FAKE_CUDA_FAIL_AT", text, 1);
        exit(do_tape(&w) ? DONE : w.err.msg[0] ? TOLD : SILENT);
    }
    assert_true(waitpid(child, &how, 0) == child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128;
}

static void expect_each_failure_reported(size_t c)
{
    built b;
    int how = TOLD;
    build(&b, &cases[c]);
    add_backward(&b);
    for (unsigned call = 1; how != DONE; call++) {
        assert_true(call < 1000);
        how = with_failure_at(&b, call);
        if (how != DONE && how != TOLD)
            fail_msg("case %zu, %s, call %u: exit status %d", c, b.tape.insts[0].op->name, call,
                     how);
    }
    drop(&b);
}

static void failures_are_told_and_leave_nothing_behind(void **state)
{
    (void)state;
    for (size_t c = 0; c < N_CASES; c++) {
        int is_first = 1;
        for (size_t k = 0; k < c; k++)
            is_first &= cases[k].kind != cases[c].kind;
        if (is_first)
            expect_each_failure_reported(c);
    }
}

static void a_recording_that_fails_is_no_failure_of_the_device(void **state)
{
    size_t c = 0;
    built b;
    (void)state;
    while (cases[c].kind != PG_OP_softmax)
        c++;
    build(&b, &cases[c]);
    assert_true(do_tape(&(work){.b = &b, .on = pg_backend_get(PG_BACKEND_ABI), .records = 1}));
    drop(&b);
}

PG_TEST_MAIN(cmocka_unit_test(failures_are_told_and_leave_nothing_behind),
             cmocka_unit_test(a_recording_that_fails_is_no_failure_of_the_device))
