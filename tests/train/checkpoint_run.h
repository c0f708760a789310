/* checkpoint_run.h - a small training with callbacks in a folder of its own, and what it told. */
#ifndef TESTS_CHECKPOINT_RUN_H
#define TESTS_CHECKPOINT_RUN_H

#include <dirent.h>
#include <errno.h>

#include "data_files.h"
#include "pg/train.h"
#include "train/step/trainer.h"

#define MOST_EVENTS 64

/* A run, and what its program saw. */
typedef struct course {
    const char *callbacks[3];
    size_t epochs, batch_size, validation_freq;
    int has_val;
    const volatile int *cancel;
    const char *resume_file;
    void (*epoch_end)(size_t epoch);
    const char *optimizer;
    /* what came of it */
    pg_status st;
    pg_err err;
    pg_trainer *t;
    struct {
        pg_event_kind kind;
        size_t epoch;
        char file[200], text[300];
    } events[MOST_EVENTS];
    size_t n_events;
    double val_loss[32], loss[32];
} course;

static char here[128]; /* of the test in hand */

static inline const char *golden(const char *file)
{
    static char path[4][600];
    static unsigned n;
    char *p = path[n++ % 4];
    snprintf(p, sizeof path[0], "%s/golden/mlp_digits/%s", pg_testdata, file);
    return p;
}

static inline int in_fresh_folder(void **state)
{
    (void)state;
    if (make_test_dir(NULL) != 0)
        return -1;
    snprintf(here, sizeof here, "%s", test_dir);
    return 0;
}

static inline pg_status see_event(void *user, const pg_event *e, pg_err *err)
{
    course *c = user;
    (void)err;
    if (c->n_events == MOST_EVENTS)
        return PG_OK;
    c->events[c->n_events].kind = e->kind;
    c->events[c->n_events].epoch = e->epoch;
    snprintf(c->events[c->n_events].file, 200, "%s", e->file ? e->file : "");
    snprintf(c->events[c->n_events].text, 300, "%.290s", e->text);
    c->n_events++;
    return PG_OK;
}

static inline pg_status see_epoch(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    course *c = user;
    (void)err;
    for (size_t i = 0; i < logs->n && epoch < 32; i++) {
        if (strcmp(logs->names[i], "loss") == 0)
            c->loss[epoch] = logs->values[i];
        if (strcmp(logs->names[i], "val_loss") == 0)
            c->val_loss[epoch] = logs->values[i];
    }
    if (c->epoch_end)
        c->epoch_end(epoch);
    return PG_OK;
}

static inline pg_trainer *opened(const char *model, const char *optimizer)
{
    pg_trainer *t = NULL;
    pg_err err = {0};
    const int is_json = strstr(model, ".json") != NULL;
    const pg_train_opts opts = {.model = model,
                                .weights = is_json ? golden("init_weights.h5") : NULL,
                                .optimizer = is_json ? optimizer : NULL,
                                .loss = is_json ? "categorical_crossentropy" : NULL,
                                .metrics = is_json ? "accuracy" : NULL,
                                .threads = 1,
                                .deterministic = 1};
    if (pg_trainer_open(&t, &opts, &err) != PG_OK)
        fail_msg("%s: %s", model, err.msg);
    return t;
}

/* %s in a callback's text is the test's folder. */
static inline void go(course *c)
{
    pg_data *train = NULL, *val = NULL;
    char texts[3][400];
    const char *callbacks[3];
    size_t n = 0;
    for (; n < 3 && c->callbacks[n]; n++) {
        const char *dir = strstr(c->callbacks[n], "@");
        if (dir)
            snprintf(texts[n], sizeof texts[n], "%.*s%s%s", (int)(dir - c->callbacks[n]),
                     c->callbacks[n], here, dir + 1);
        else
            snprintf(texts[n], sizeof texts[n], "%s", c->callbacks[n]);
        callbacks[n] = texts[n];
    }
    c->t = opened(golden("model.json"), c->optimizer ? c->optimizer : "sgd:learning_rate=0.3");
    assert_ok(pg_data_open(&train, golden("data.npz"), NULL));
    if (c->has_val)
        assert_ok(pg_data_open(&val, golden("data.npz"), NULL));
    const pg_fit_opts fit = {.batch_size = c->batch_size ? c->batch_size : 60,
                             .epochs = c->epochs,
                             .no_shuffle = 1,
                             .validation = val,
                             .validation_freq = c->validation_freq,
                             .cancel = c->cancel,
                             .resume_file = c->resume_file,
                             .callbacks = callbacks,
                             .n_callbacks = n};
    const pg_callback cb = {.user = c, .event = see_event, .epoch_end = see_epoch};
    c->st = pg_fit(c->t, train, &fit, &cb, &c->err);
    pg_data_close(train);
    pg_data_close(val);
}

static inline void end(course *c)
{
    pg_trainer_close(c->t);
    c->t = NULL;
}

static inline int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names in a folder, sorted, links as "name>target". */
static inline void assert_files(const char *folder, const char *want)
{
    char *names[64], path[700], to[300];
    size_t n = 0;
    pg__str got = {0};
    snprintf(path, sizeof path, "%s%s", here, folder);
    DIR *d = opendir(path);
    if (!d)
        fail_msg("%s: %s", path, strerror(errno));
    for (const struct dirent *e = readdir(d); e && n < 64; e = readdir(d)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s%s/%s", here, folder, e->d_name);
        const ssize_t len = readlink(path, to, sizeof to - 1);
        char *name = calloc(1, 600);
        snprintf(name, 600, "%s%s%.*s", e->d_name, len > 0 ? ">" : "", len > 0 ? (int)len : 0, to);
        names[n++] = name;
    }
    closedir(d);
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        assert_ok(pg__str_printf(&got, NULL, "%s%s", i ? " " : "", names[i]));
        free(names[i]);
    }
    assert_string_equal(got.s ? got.s : "", want);
    pg__str_fini(&got);
}

static inline size_t n_events(const course *c, pg_event_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_events; i++)
        n += c->events[i].kind == kind;
    return n;
}

static inline const char *text_of(const course *c, pg_event_kind kind)
{
    for (size_t i = 0; i < c->n_events; i++)
        if (c->events[i].kind == kind)
            return c->events[i].text;
    return "(none)";
}

static inline void assert_done(const course *c)
{
    if (c->st != PG_OK)
        fail_msg("%s", c->err.msg);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, in_fresh_folder, remove_test_dir)

#endif
