/* ModelCheckpoint: which files there are after a run, what they hold, and what is told. */
#include "pg_test.h"

#include "train/checkpoint_run.h"

/* ---- names and moments ---- */

static void saves_after_every_epoch(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/c/{epoch:02d}.weights.h5"}, .epochs = 3};
    (void)state;
    go(&c);
    assert_done(&c);
    assert_files("/c", "01.weights.h5 02.weights.h5 03.weights.h5 last>03.weights.h5");
    assert_int_equal(n_events(&c, PG_EVENT_CHECKPOINT), 3);
    assert_int_equal(n_events(&c, PG_EVENT_WARNING), 0);
    end(&c);
}

static void the_last_file_is_the_trained_model(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/{epoch}.keras,verify=all"}, .epochs = 2};
    pg_err err = {0};
    (void)state;
    go(&c);
    assert_done(&c);
    const test_path path = in_dir("2.keras");
    pg_trainer *again = opened(path.s, NULL);
    assert_non_null(strstr(pg_trainer_note(again, 0), "continues after"));
    for (size_t i = 0; i < pg_trainer_n_weights(c.t); i++) {
        const size_t n = (size_t)(pg_trainer_weight(c.t, i)->n_bytes / sizeof(float));
        double *x = calloc(n, sizeof *x), *y = calloc(n, sizeof *y);
        assert_ok(pg_trainer_read(c.t, i, x, n, &err));
        assert_ok(pg_trainer_read(again, i, y, n, &err));
        assert_memory_equal(x, y, n * sizeof *x);
        free(x);
        free(y);
    }
    pg_trainer_close(again);
    end(&c);
}

/* Keras 2.15 restores before the file is written. */
static void a_restored_best_is_not_in_the_last_epochs_file(void **state)
{
    course c = {.callbacks = {"EarlyStopping:monitor=loss,mode=max,patience=1,restore_best_weights",
                              "ModelCheckpoint:filepath=@/{epoch}.h5,save_weights_only"},
                .epochs = 5};
    char command[400];
    (void)state;
    go(&c);
    assert_done(&c);
    assert_ok(pg_trainer_save(c.t, in_dir("end.h5").s, NULL, &c.err));
    snprintf(command, sizeof command,
             "cd '%s' && cmp 1.h5 end.h5 && test -e 2.h5 && ! cmp -s 1.h5 2.h5", here);
    assert_int_equal(system(command), 0);
    end(&c);
}

static void names_hold_the_logs(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/{epoch}-{val_loss:.4f}-{lr}.h5"},
                .epochs = 2,
                .has_val = 1};
    char want[200];
    (void)state;
    go(&c);
    assert_done(&c);
    snprintf(want, sizeof want, "1-%.4f-0.3.h5 2-%.4f-0.3.h5 best>2-%.4f-0.3.h5 last>2-%.4f-0.3.h5",
             c.val_loss[0], c.val_loss[1], c.val_loss[1], c.val_loss[1]);
    assert_files("", want);
    end(&c);
}

static void a_name_without_keys_is_one_file_and_no_links(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/w.h5,save_weights_only"}, .epochs = 3};
    (void)state;
    go(&c);
    assert_done(&c);
    assert_files("", "w.h5");
    assert_int_equal(n_events(&c, PG_EVENT_CHECKPOINT), 3);
    end(&c);
}

static void period_counts_epochs(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/{epoch}.h5,period=2"}, .epochs = 5};
    (void)state;
    go(&c);
    assert_done(&c);
    assert_files("", "2.h5 4.h5 last>4.h5");
    end(&c);
}

/* 2 batches an epoch: after the 3rd and the 6th. */
static void save_freq_counts_batches_across_epochs(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/{epoch}-{batch:02d}.h5,save_freq=3"},
                .epochs = 3,
                .batch_size = 384};
    (void)state;
    go(&c);
    assert_done(&c);
    assert_files("", "2-01.h5 3-02.h5 last>3-02.h5");
    end(&c);
}

/* ---- the best ---- */

static void keeps_only_improvements(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/{epoch}.h5,monitor=loss,save_best_only,"
                              "verbose=1"},
                .epochs = 3};
    (void)state;
    go(&c);
    assert_done(&c);
    for (size_t i = 1; i < 3; i++) /* the golden data train well */
        assert_true(c.loss[i] < c.loss[i - 1]);
    assert_files("", "1.h5 2.h5 3.h5 best>3.h5 last>3.h5");
    assert_non_null(strstr(text_of(&c, PG_EVENT_NOTE), "Epoch 1: loss improved from inf to "));
    end(&c);
}

static void max_of_what_falls_is_the_first(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/{epoch}.h5,monitor=loss,save_best_only,"
                              "mode=max,verbose=1"},
                .epochs = 3};
    (void)state;
    go(&c);
    assert_done(&c);
    assert_files("", "1.h5 best>1.h5 last>1.h5");
    assert_non_null(strstr(c.events[c.n_events - 1].text, "Epoch 3: loss did not improve from "));
    end(&c);
}

static void a_threshold_is_to_be_beaten(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/{epoch}.h5,monitor=loss,save_best_only,"
                              "initial_value_threshold=0.000001"},
                .epochs = 2};
    (void)state;
    go(&c);
    assert_done(&c);
    assert_files("", "");
    end(&c);
}

static void epochs_without_the_monitor_are_skipped(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/{epoch}.h5,save_best_only"},
                .epochs = 4,
                .has_val = 1,
                .validation_freq = 2};
    (void)state;
    go(&c);
    assert_done(&c);
    assert_files("", "2.h5 4.h5 best>4.h5 last>4.h5");
    assert_int_equal(n_events(&c, PG_EVENT_WARNING), 0);
    end(&c);
    course named = {.callbacks = {"ModelCheckpoint:filepath=@/n/{epoch}-{val_loss:.0f}.h5"},
                    .epochs = 3,
                    .has_val = 1,
                    .validation_freq = 2};
    go(&named);
    assert_done(&named);
    assert_int_equal(n_events(&named, PG_EVENT_CHECKPOINT), 1);
    assert_non_null(strstr(text_of(&named, PG_EVENT_WARNING), "without val_loss"));
    end(&named);
}

/* ---- keep ---- */

static void keep_counts_the_best_one_in(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/{epoch}.h5,monitor=loss,mode=max,keep=3"},
                .epochs = 6};
    (void)state;
    go(&c);
    assert_done(&c);
    assert_files("", "1.h5 5.h5 6.h5 best>1.h5 last>6.h5");
    end(&c);
}

static void keep_one_keeps_the_best(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/{epoch}.h5,monitor=loss,mode=max,keep=1"},
                .epochs = 3};
    course last = {.callbacks = {"ModelCheckpoint:filepath=@/l/{epoch}.h5,keep=1"}, .epochs = 3};
    (void)state;
    go(&c);
    assert_done(&c);
    assert_files("", "1.h5 best>1.h5 last>1.h5");
    end(&c);
    go(&last);
    assert_done(&last);
    assert_files("/l", "3.h5 last>3.h5");
    end(&last);
}

static void only_own_files_are_removed(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/{epoch}.h5,keep=2"}, .epochs = 3};
    FILE *f = fopen(in_dir("0.h5").s, "w");
    (void)state;
    assert_non_null(f);
    fclose(f);
    go(&c);
    assert_done(&c);
    assert_files("", "0.h5 2.h5 3.h5 last>3.h5");
    end(&c);
}

/* ---- shards ---- */

static void what_is_too_large_becomes_shards(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/{epoch}.h5,max_shard_size=1kB,keep=2,"
                              "verify=all"},
                .epochs = 3};
    (void)state;
    go(&c);
    assert_done(&c);
    assert_files("", "2.h5.shards 3.h5.shards last>3.h5.shards");
    assert_string_equal(c.events[0].file, in_dir("1.h5.shards").s);
    end(&c);
    course fixed = {.callbacks = {"ModelCheckpoint:filepath=@/f/w.h5,max_shard_size=1kB"},
                    .epochs = 2};
    go(&fixed); /* the second replaces the first */
    assert_done(&fixed);
    assert_files("/f", "w.h5.shards");
    end(&fixed);
}

/* ---- before training ---- */

static void assert_refused(const char *callback, pg_status code, const char *message)
{
    course c = {.callbacks = {callback}, .epochs = 1};
    go(&c);
    if (c.st != code || !strstr(c.err.msg, message))
        fail_msg("%s: %s, %s", callback, pg_status_name(c.st), c.err.msg);
    assert_files("", "file");
    end(&c);
}

static void what_cannot_be_is_an_error_at_once(void **state)
{
    FILE *f = fopen(in_dir("file").s, "w");
    (void)state;
    assert_non_null(f);
    fclose(f);
    assert_refused("ModelCheckpoint:filepath=@/{epoch}-{acc:.2f}.h5", PG_E_ARG,
                   "unknown key {acc}; known: epoch, loss, accuracy, lr; did you mean accuracy?");
    assert_refused("ModelCheckpoint:filepath=@/{epoch:q}.h5", PG_E_ARG, "no type 'q'");
    assert_refused("ModelCheckpoint:filepath=@/{batch}.h5", PG_E_ARG, "unknown key {batch}");
    assert_refused("ModelCheckpoint:filepath=@/{lr}.h5,save_freq=3", PG_E_ARG, "unknown key {lr}");
    assert_refused("ModelCheckpoint:filepath=@/{epoch}.pt", PG_E_ARG, "trained models are written");
    assert_refused("ModelCheckpoint:filepath=@/w.keras,save_weights_only", PG_E_ARG, "whole model");
    assert_refused("ModelCheckpoint:filepath=@/w.h5,save_best_only", PG_E_ARG, "val_loss");
    assert_refused("ModelCheckpoint:filepath=@/w.h5,monitor=acc", PG_E_ARG, "accuracy");
    assert_refused("ModelCheckpoint:filepath=@/w.h5,mode=most", PG_E_ARG, "auto, min or max");
    assert_refused("ModelCheckpoint:filepath=@/w.h5,verify=some", PG_E_ARG, "best, all or none");
    assert_refused("ModelCheckpoint:filepath=@/w.h5,max_shard_size=7GX", PG_E_ARG, "100MB");
    assert_refused("ModelCheckpoint:filepath=@/w.h5,patience=3", PG_E_ARG, "patience");
    assert_refused("ModelCheckpoint:filepath=@/file/w.h5", PG_E_IO, "folder");
    assert_refused("ModelCheckpoint:monitor=@", PG_E_ARG, "no filepath");
}

static void what_auto_knows_is_not_told(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/{epoch}.h5,monitor=accuracy"},
                .epochs = 2};
    (void)state;
    go(&c);
    assert_done(&c);
    assert_int_equal(n_events(&c, PG_EVENT_NOTE), 0); /* "acc" is known to rise */
    end(&c);
}

/* ---- resume ---- */

static int stop_now;

static void stop_after_two(size_t epoch)
{
    stop_now = epoch == 1;
}

static void goes_on_as_if_never_interrupted(void **state)
{
    const test_path resume = in_dir("resume.pg");
    course whole = {.callbacks = {"ModelCheckpoint:filepath=@/w/{epoch}.h5,monitor=loss,mode=max,"
                                  "keep=3"},
                    .epochs = 5};
    course part = {.callbacks = {"ModelCheckpoint:filepath=@/p/{epoch}.h5,monitor=loss,mode=max,"
                                 "keep=3"},
                   .epochs = 5,
                   .resume_file = resume.s,
                   .cancel = &stop_now,
                   .epoch_end = stop_after_two};
    (void)state;
    go(&whole);
    assert_done(&whole);
    end(&whole);
    go(&part);
    assert_int_equal(part.st, PG_E_CANCELLED);
    end(&part);
    assert_files("/p", "1.h5 2.h5 best>1.h5 last>2.h5");
    stop_now = 0;
    course rest = part;
    rest.cancel = NULL;
    rest.epoch_end = NULL;
    pg_data *train = NULL;
    char text[300];
    snprintf(text, sizeof text,
             "ModelCheckpoint:filepath=%s/p/{epoch}.h5,monitor=loss,mode=max,"
             "keep=3",
             here);
    const char *callbacks[] = {text};
    rest.t = opened(golden("model.json"), "sgd:learning_rate=0.3");
    assert_ok(pg_data_open(&train, golden("data.npz"), NULL));
    const pg_fit_opts fit = {.batch_size = 60,
                             .epochs = 5,
                             .no_shuffle = 1,
                             .resume_file = resume.s,
                             .resume = 1,
                             .callbacks = callbacks,
                             .n_callbacks = 1};
    if (pg_fit(rest.t, train, &fit, NULL, &rest.err) != PG_OK)
        fail_msg("%s", rest.err.msg);
    pg_data_close(train);
    end(&rest);
    assert_files("/w", "1.h5 4.h5 5.h5 best>1.h5 last>5.h5");
    assert_files("/p", "1.h5 4.h5 5.h5 best>1.h5 last>5.h5");
    char command[400];
    snprintf(command, sizeof command, "cmp '%s/w/5.h5' '%s/p/5.h5'", here, here);
    assert_int_equal(system(command), 0);
}

PG_TEST_MAIN(TEST(saves_after_every_epoch), TEST(the_last_file_is_the_trained_model),
             TEST(a_restored_best_is_not_in_the_last_epochs_file), TEST(names_hold_the_logs),
             TEST(a_name_without_keys_is_one_file_and_no_links), TEST(period_counts_epochs),
             TEST(save_freq_counts_batches_across_epochs), TEST(keeps_only_improvements),
             TEST(max_of_what_falls_is_the_first), TEST(a_threshold_is_to_be_beaten),
             TEST(epochs_without_the_monitor_are_skipped), TEST(keep_counts_the_best_one_in),
             TEST(keep_one_keeps_the_best), TEST(only_own_files_are_removed),
             TEST(what_is_too_large_becomes_shards), TEST(what_cannot_be_is_an_error_at_once),
             TEST(what_auto_knows_is_not_told), TEST(goes_on_as_if_never_interrupted))
