/* LearningRateScheduler: a rate for every epoch, by the rules that this library has for it. */
#include "train/callbacks.h"

#include <unistd.h>

extern const pg__cb_type pg__cb_learning_rate_scheduler;
#define TYPE &pg__cb_learning_rate_scheduler

static const char *write_table(const char *text)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/pg-rates-XXXXXX");
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

/* want: of the epochs from 0 on; the optimizer's own is 0.1. */
static void assert_rates(const char *text, const double *want, size_t n)
{
    bench b;
    bench_trainer(&b, NULL, NULL);
    b.opts.epochs = 6;
    bench_begin(&b, TYPE, text);
    for (size_t e = 0; e < n; e++) {
        bench_epoch(&b, e, 1);
        if (!(fabs(pg__fit_rate(&b.fit) - want[e]) < 1e-8))
            fail_msg("%s, epoch %zu: %.9g, not %.9g", text, e, pg__fit_rate(&b.fit), want[e]);
        if (e == 1)
            bench_resume(&b, text);
    }
    assert_int_equal(b.n_events, 0);
    bench_close(&b);
}

#define RATES(text, ...)                                         \
    do {                                                         \
        const double want_[] = {__VA_ARGS__};                    \
        assert_rates(text, want_, sizeof want_ / sizeof *want_); \
    } while (0)

static void rates_follow_the_epochs(void **state)
{
    (void)state;
    RATES("LearningRateScheduler:schedule=epoch,rate=0.5", 0.1, 0.05, 0.025, 0.0125);
    RATES("LearningRateScheduler:schedule=exponential,rate=0.5", 0.1, 0.05);
    RATES("LearningRateScheduler:schedule=step,rate=0.1,epochs=2", 0.1, 0.1, 0.01, 0.01, 0.001);
    RATES("LearningRateScheduler:schedule=cosine,epochs=4", 0.1, 0.085355339, 0.05, 0.014644661, 0,
          0);
    RATES("LearningRateScheduler:schedule=cosine,min_lr=0.02", 0.1, 0.0946410162, 0.08, 0.06, 0.04);
}

static void warm_up_comes_before(void **state)
{
    (void)state;
    RATES("LearningRateScheduler:schedule=constant,warmup_epochs=4", 0.025, 0.05, 0.075, 0.1, 0.1);
    RATES("LearningRateScheduler:schedule=epoch,rate=0.5,warmup_epochs=2", 0.05, 0.1, 0.1, 0.05);
    RATES("LearningRateScheduler:schedule=cosine,warmup_epochs=2", 0.05, 0.1, 0.1, 0.085355339,
          0.05, 0.014644661);
}

static void a_table_gives_one_for_each(void **state)
{
    const char *path = write_table("# warm\n0.5\r\n\n 1e-1 # then\n.25");
    char text[160];
    (void)state;
    snprintf(text, sizeof text, "LearningRateScheduler:schedule=table,file=%s", path);
    RATES(text, 0.5, 0.1, 0.25, 0.25);
    unlink(path);
}

static void assert_refused(pg_status code, const char *text, const char *message)
{
    bench b;
    pg_err err;
    bench_trainer(&b, NULL, NULL);
    assert_fails(code, bench_open(&b, TYPE, text, &err), &err);
    if (message)
        assert_string_equal(err.msg, message);
    bench_close(&b);
}

static void what_is_wrong_is_named(void **state)
{
    const char *path = write_table("0.1\nfast\n");
    char text[160], message[160];
    (void)state;
    assert_refused(PG_E_ARG, "LearningRateScheduler",
                   "LearningRateScheduler: schedule is not given (epoch, step, cosine, constant, "
                   "table)");
    assert_refused(PG_E_ARG, "LearningRateScheduler:schedule=linear",
                   "LearningRateScheduler: schedule is linear (epoch, step, cosine, constant, "
                   "table)");
    assert_refused(PG_E_ARG, "LearningRateScheduler:schedule=epoch",
                   "LearningRateScheduler: schedule \"epoch\" needs rate, a factor from 0 on");
    assert_refused(PG_E_ARG, "LearningRateScheduler:schedule=step,rate=0.1",
                   "LearningRateScheduler: schedule \"step\" needs epochs, their number");
    assert_refused(PG_E_ARG, "LearningRateScheduler:schedule=cosine,rate=1",
                   "LearningRateScheduler has no parameter \"rate\"");
    assert_refused(PG_E_IO, "LearningRateScheduler:schedule=table,file=/nowhere/rates", NULL);
    snprintf(text, sizeof text, "LearningRateScheduler:schedule=table,file=%s", path);
    snprintf(message, sizeof message, "%s: line 2: \"fast\" is not a learning rate", path);
    assert_refused(PG_E_FORMAT, text, message);
    unlink(path);
}

static void rates_are_told_where_it_is_asked_for(void **state)
{
    bench b;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    bench_begin(&b, TYPE, "LearningRateScheduler:schedule=epoch,rate=0.1,verbose=1");
    bench_epoch(&b, 0, 1);
    bench_epoch(&b, 1, 1);
    assert_int_equal(b.n_events, 2);
    assert_int_equal(b.kind, PG_EVENT_RATE);
    assert_string_equal(b.text, "learning rate 0.01");
    bench_close(&b);
}

PG_TEST_MAIN(cmocka_unit_test(rates_follow_the_epochs), cmocka_unit_test(warm_up_comes_before),
             cmocka_unit_test(a_table_gives_one_for_each), cmocka_unit_test(what_is_wrong_is_named),
             cmocka_unit_test(rates_are_told_where_it_is_asked_for))
