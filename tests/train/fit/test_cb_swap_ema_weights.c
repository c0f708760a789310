/* SwapEMAWeights: validation sees the averages, training does not, and an interruption at any
 * moment changes nothing. Numbers beside Keras 3.6's: tests/interop/callbacks.py. */
#include "pg_test.h"

#include <math.h>
#include <unistd.h>

#include "train/fit/callback.h"

#define EMA       "SGD:learning_rate=0.1,use_ema,ema_momentum=0.9"
#define EACH_STEP "SGD:learning_rate=0.1,use_ema,ema_momentum=0.9,ema_overwrite_frequency=11"
#define N_BATCHES 25 /* of an epoch */

static char folder[] = "/tmp/pg-swap-XXXXXX", file[64], within[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/resume.pg", folder);
    snprintf(within, sizeof within, "%s/within.pg", folder);
    return 0;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"resume.pg",   "resume.pg.1", "within.pg",
                                        "within.pg.1", "best",        "last"};
    char path[96];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

typedef struct a_run {
    const char *optimizer, *callbacks[2], *devices;
    const char *resume_file;
    int resume, legacy;
    size_t epochs, stop_after; /* turns of training; 0: never */
    int stops_at_epoch;        /* behind the first one */
    int copies;                /* keeps a state from within the second validation */
    size_t n_batches;
    volatile int cancel;
    pg_trainer *t; /* behind the run */
    pg_data *data;
    double val_loss; /* of the last epoch */
    char resumed[200], note[300];
    float weights[8192];
    size_t n_weights;
} a_run;

static pg_status count_batch(void *user, size_t batch, const pg_logs *own, const pg_logs *running,
                             pg_err *err)
{
    a_run *r = user;
    (void)batch, (void)own, (void)running, (void)err;
    r->cancel = ++r->n_batches == r->stop_after;
    return PG_OK;
}

/* The file that is there was made some validation steps ago. */
static pg_status hear_epoch(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    a_run *r = user;
    (void)err;
    assert_true(pg__logs_get(logs, "val_loss", &r->val_loss));
    r->cancel = r->stops_at_epoch;
    if (r->copies && epoch == 1)
        assert_int_equal(link(file, within), 0);
    return PG_OK;
}

static pg_status hear(void *user, const pg_event *e, pg_err *err)
{
    a_run *r = user;
    (void)err;
    if (e->kind == PG_EVENT_RESUME)
        snprintf(r->resumed, sizeof r->resumed, "%s", e->text);
    if (e->kind == PG_EVENT_NOTE)
        snprintf(r->note, sizeof r->note, "%s", e->text);
    return PG_OK;
}

static void read_weights(a_run *r)
{
    pg_err err;
    r->n_weights = 0;
    for (size_t i = 0; i < pg_trainer_n_weights(r->t); i++) {
        const size_t n = (size_t)pg_trainer_weight(r->t, i)->n_bytes / 4;
        double values[4096];
        assert_true(n <= 4096 && r->n_weights + n <= 8192);
        assert_ok(pg_trainer_read(r->t, i, values, n, &err));
        for (size_t k = 0; k < n; k++)
            r->weights[r->n_weights++] = (float)values[k];
    }
}

static pg_status fit(a_run *r, pg_err *err)
{
    char model[512], data[512], weights[512];
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    snprintf(data, sizeof data, "%s/golden/mlp_digits/data.npz", pg_testdata);
    snprintf(weights, sizeof weights, "%s/golden/mlp_digits/init_weights.h5", pg_testdata);
    const pg_train_opts opts = {.model = model,
                                .weights = weights,
                                .loss = "categorical_crossentropy",
                                .optimizer = r->optimizer,
                                .rules = r->legacy ? "2.15" : "3.6",
                                .optimizer_rules = r->legacy,
                                .devices = r->devices,
                                .deterministic = 1,
                                .threads = 2};
    const pg_fit_opts how = {.epochs = r->epochs,
                             .batch_size = 16,
                             .validation_split = 0.2,
                             .callbacks = r->callbacks,
                             .n_callbacks = (size_t)(r->callbacks[0] != NULL) +
                                            (size_t)(r->callbacks[1] != NULL),
                             .cancel = &r->cancel,
                             .resume_file = r->resume_file,
                             .resume_every = r->copies ? 1e-9 : 0,
                             .resume = r->resume};
    const pg_callback cb = {
        .user = r, .batch_end = count_batch, .epoch_end = hear_epoch, .event = hear};
    assert_ok(pg_trainer_open(&r->t, &opts, err));
    assert_ok(pg_data_open(&r->data, data, err));
    const pg_status st = pg_fit(r->t, r->data, &how, &cb, err);
    read_weights(r);
    return st;
}

static void end(a_run *r)
{
    pg_data_close(r->data);
    pg_trainer_close(r->t);
}

static void train(a_run *r)
{
    pg_err err = {0};
    if (fit(r, &err) != PG_OK)
        fail_msg("%s", err.msg);
    end(r);
}

static void assert_same(const a_run *a, const a_run *b)
{
    assert_int_equal(a->n_weights, b->n_weights);
    assert_memory_equal(a->weights, b->weights, a->n_weights * sizeof *a->weights);
}

static a_run run_of(const char *callback)
{
    return (a_run){.optimizer = EMA, .callbacks = {callback}, .epochs = 3, .devices = "cpu:0"};
}

/* The averages, at the end of fit(), are what the last validation saw. */
static void validation_sees_the_averages(void **state)
{
    static const char *const devices[] = {"cpu:0", "cpu:0,cpu:0", "cpu:0,cpu:0,cpu:0"};
    (void)state;
    for (size_t d = 0; d < 3; d++) {
        a_run plain = run_of(NULL), swapped = run_of("SwapEMAWeights");
        a_run late = run_of("SwapEMAWeights:swap_on_epoch");
        plain.devices = swapped.devices = late.devices = devices[d];
        train(&plain), train(&swapped), train(&late);
        assert_same(&swapped, &plain);
        assert_same(&late, &plain);
        assert_true(swapped.val_loss == late.val_loss);
        assert_true(fabs(swapped.val_loss - plain.val_loss) > 1e-3);
        assert_string_equal(late.note, "");
        a_run own = run_of(NULL); /* the same by hand: they become the weights at the last step */
        own.optimizer = "SGD:learning_rate=0.1,use_ema,ema_momentum=0.9,ema_overwrite_frequency=75";
        own.devices = devices[d];
        train(&own);
        assert_true(own.val_loss == swapped.val_loss);
    }
}

static void training_goes_on_with_the_weights(void **state)
{
    a_run plain = run_of(NULL), swapped = run_of("SwapEMAWeights");
    a_run late = run_of("SwapEMAWeights:swap_on_epoch");
    (void)state;
    plain.optimizer = swapped.optimizer = late.optimizer = EACH_STEP;
    train(&plain), train(&swapped), train(&late);
    assert_same(&swapped, &plain);
    assert_same(&late, &plain);
}

/* Keras tells averages and weights apart only behind the last epoch. */
static void a_run_that_stops_ends_with_the_weights(void **state)
{
    a_run averages = run_of(NULL), stopped = run_of("SwapEMAWeights:swap_on_epoch");
    a_run best = stopped, other = run_of("SwapEMAWeights"), weights = run_of(NULL);
    (void)state;
    stopped.callbacks[1] = "EarlyStopping:min_delta=99,patience=1";
    other.callbacks[1] = stopped.callbacks[1];
    best.callbacks[1] = "EarlyStopping:min_delta=99,patience=1,restore_best_weights";
    averages.epochs = weights.epochs = 2; /* at the end of which they stop */
    weights.optimizer = "SGD:learning_rate=0.1";
    train(&averages), train(&stopped), train(&other), train(&weights), train(&best);
    assert_same(&other, &averages);
    assert_same(&stopped, &weights);
    assert_int_not_equal(memcmp(stopped.weights, averages.weights, sizeof averages.weights), 0);
    assert_ptr_equal(strstr(stopped.note, "SwapEMAWeights: stopped before the last epoch; "),
                     stopped.note);
    averages.epochs = 1; /* the best, for that min_delta, are the averages of the first */
    train(&averages);
    assert_same(&best, &averages);
}

/* ---- interruptions ---- */

static void expect_equal_after_resume(const char *callback, size_t stop_after)
{
    a_run whole = run_of(callback), first = whole, second = whole;
    pg_err err = {0};
    unlink(file);
    train(&whole);
    first.resume_file = second.resume_file = file;
    first.stop_after = stop_after;
    first.stops_at_epoch = stop_after == 0;
    first.devices = "cpu:0,cpu:0";
    assert_fails(PG_E_CANCELLED, fit(&first, &err), &err);
    end(&first);
    second.resume = 1;
    train(&second);
    assert_int_equal(first.n_batches + second.n_batches, whole.n_batches);
    assert_int_equal(whole.n_batches, 3 * N_BATCHES);
    assert_same(&second, &whole);
    assert_true(second.val_loss == whole.val_loss);
}

static void a_cut_between_steps_changes_nothing(void **state)
{
    static const size_t cuts[] = {0, 5, N_BATCHES, N_BATCHES + 1, 2 * N_BATCHES, 3 * N_BATCHES - 1};
    (void)state;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        expect_equal_after_resume("SwapEMAWeights", cuts[i]);
        expect_equal_after_resume("SwapEMAWeights:swap_on_epoch", cuts[i]);
    }
}

static void a_cut_within_validation_changes_nothing(void **state)
{
    static const char *const callbacks[] = {"SwapEMAWeights", "SwapEMAWeights:swap_on_epoch"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        a_run whole = run_of(callbacks[i]), second = whole;
        unlink(file), unlink(within);
        whole.resume_file = file;
        whole.copies = 1;
        train(&whole);
        second.resume_file = within;
        second.resume = 1;
        train(&second);
        assert_non_null(strstr(second.resumed, "epoch 2, validation step "));
        assert_same(&second, &whole);
        assert_true(second.val_loss == whole.val_loss);
    }
}

/* A file that one callback began is of before the swap, the state of the run is of behind it. */
static void a_checkpoint_before_the_swap_spoils_no_state(void **state)
{
    char checkpoint[128], path[96];
    pg_err err = {0};
    (void)state;
    snprintf(checkpoint, sizeof checkpoint, "ModelCheckpoint:filepath=%s/{epoch}.weights.h5",
             folder);
    a_run whole = run_of(checkpoint), first, second;
    whole.callbacks[1] = "SwapEMAWeights:swap_on_epoch";
    first = second = whole;
    unlink(file);
    train(&whole);
    first.resume_file = second.resume_file = file;
    first.stop_after = N_BATCHES + 3;
    assert_fails(PG_E_CANCELLED, fit(&first, &err), &err);
    end(&first);
    snprintf(path, sizeof path, "%s.1", file); /* that of the checkpoint */
    assert_int_equal(rename(path, file), 0);
    second.resume = 1;
    train(&second);
    assert_string_equal(second.resumed, "epoch 2");
    assert_same(&second, &whole);
    for (int i = 1; i <= 3; i++) {
        snprintf(path, sizeof path, "%s/%d.weights.h5", folder, i);
        assert_int_equal(unlink(path), 0);
    }
}

static void behind_an_interruption_the_trainer_has_the_weights(void **state)
{
    a_run cut = run_of("SwapEMAWeights:swap_on_epoch"), plain = run_of(NULL);
    pg_err err = {0};
    (void)state;
    plain.optimizer = "SGD:learning_rate=0.1";
    plain.epochs = 1;
    train(&plain);
    cut.stops_at_epoch = 1;
    assert_fails(PG_E_CANCELLED, fit(&cut, &err), &err);
    end(&cut);
    assert_same(&cut, &plain);
}

/* ---- refusals ---- */

static void assert_refused(const char *optimizer, int legacy, const char *callback,
                           const char *message, const char *hint)
{
    a_run r = run_of(callback);
    pg_err err = {0};
    r.optimizer = optimizer;
    r.legacy = legacy;
    assert_fails(PG_E_ARG, fit(&r, &err), &err);
    end(&r);
    assert_string_equal(err.msg, message);
    assert_string_equal(advice_of(&err), hint);
    assert_int_equal(r.n_batches, 0);
}

static void an_optimizer_without_averages_is_refused(void **state)
{
    (void)state;
    assert_refused("adam:learning_rate=0.01", 0, "SwapEMAWeights",
                   "SwapEMAWeights: optimizer Adam keeps no averages of the weights without "
                   "use_ema",
                   "set optimizer=Adam:learning_rate=0.01,use_ema");
    assert_refused("sgd", 1, "SwapEMAWeights",
                   "SwapEMAWeights: optimizer SGD by the rules of Keras to 2.10 keeps no averages "
                   "of the weights",
                   "");
    assert_refused(EMA, 0, "SwapEMAWeights:swap_on_epochs",
                   "SwapEMAWeights has no parameter \"swap_on_epochs\"; did you mean "
                   "swap_on_epoch?",
                   "");
}

PG_TEST_MAIN_WITH(make_folder, remove_folder, cmocka_unit_test(validation_sees_the_averages),
                  cmocka_unit_test(training_goes_on_with_the_weights),
                  cmocka_unit_test(a_run_that_stops_ends_with_the_weights),
                  cmocka_unit_test(a_cut_between_steps_changes_nothing),
                  cmocka_unit_test(a_cut_within_validation_changes_nothing),
                  cmocka_unit_test(a_checkpoint_before_the_swap_spoils_no_state),
                  cmocka_unit_test(behind_an_interruption_the_trainer_has_the_weights),
                  cmocka_unit_test(an_optimizer_without_averages_is_refused))
