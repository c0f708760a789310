/* cb_tensorboard.c - Keras' TensorBoard callback: curves, histograms and the graph as event files.
 *
 *   log_dir/train        epoch_NAME of each epoch (counted from 0), epoch_steps_per_second;
 *                        batch_NAME every update_freq batches, at the number of batches so far:
 *                        means since the epoch began; LAYER/WEIGHT_0/histogram every histogram_freq
 *                        epochs; the model's description as "keras"
 *   log_dir/validation   evaluation_NAME_vs_iterations at the optimizer's steps; epoch_NAME
 *
 * The rate of a schedule is epoch_learning_rate, any other has its name in the logs.
 *
 * Source: keras/src/callbacks.py (2.15.0), and the content of its files as read back.
 * Differences: the learning rate is always there; batches are written whenever update_freq asks for
 * them (2.15 does so only if something makes it handle single batches); weights with the same name
 * in nested models get different tags.
 *
 * Records that cannot be written are kept and tried again, at the latest at the end of the next
 * epoch. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/events.h"
#include "train/fit/callback.h"
#include "train/fit/histogram.h"
#include "train/step/step.h"

#define MOST_PENDING ((size_t)16 << 20) /* bytes kept if a file cannot be written */
#define FLUSH_EVERY  1.0                /* minimal seconds between writes within an epoch */

/* One event file. */
typedef struct log {
    const char *folder; /* below log_dir */
    pg__append file;
    int fails; /* the last write failed */
    int lost;  /* records were dropped: too much was pending */
    pg_err why;
} log;

typedef struct board {
    char *log_dir;
    size_t histogram_freq, update_freq; /* 0: never; 0: epochs only */
    int write_graph, write_steps_per_second;
    pg__str ignored; /* parameters that ask for unsupported output */
    log train, validation;
    pg__strs tags;      /* of histograms, per weight; made when first needed */
    uint64_t n_batches; /* since training began */
    uint64_t steps_before;
    double epoch_began, batch_began, flushed;
} board;

/* ---- parameters ---- */

/* Is the value other than null, 0 or false? */
static int asks(const pg__json *v)
{
    double n = 1;
    if (!v || pg__json_type_of(v) == PG_J_NULL)
        return 0;
    if (pg__json_type_of(v) == PG_J_BOOL)
        return pg__json_bool(v, 0);
    (void)pg__json_num(v, &n);
    return n != 0;
}

/* Parameters for features that only Keras has, or that Keras itself ignores by now. */
static pg_status read_others(board *b, pg__settings *s, pg_err *err)
{
    static const char *const missing[] = {"write_images", "profile_batch", "embeddings_freq",
                                          "write_grads"};
    static const char *const unused[] = {"embeddings_metadata", "batch_size",
                                         "embeddings_layer_names", "embeddings_data"};
    pg_status st = PG_OK;
    int has;
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        PG_TRY(pg__settings_has(s, missing[i], &has, err));
        if (asks(pg__json_get(s->of, missing[i])))
            PG_TRY(pg__str_printf(&b->ignored, err, "%s%s", b->ignored.n ? ", " : "", missing[i]));
    }
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        PG_TRY(pg__settings_has(s, unused[i], &has, err));
done:
    return st;
}

/* "batch" means every batch. */
static pg_status read_update_freq(board *b, pg__settings *s, pg_err *err)
{
    const char *word = pg__json_str(pg__json_get(s->of, "update_freq"));
    int has;
    if (!word || strcmp(word, "batch") != 0)
        return pg__settings_freq(s, "update_freq", &b->update_freq, err);
    b->update_freq = 1;
    return pg__settings_has(s, "update_freq", &has, err);
}

static pg_status open(void *self, pg__fit *f, pg__settings *s, pg_err *err)
{
    board *b = self;
    const char *log_dir = "logs";
    size_t n;
    pg_status st = PG_OK;
    (void)f;
    b->train.folder = "train";
    b->validation.folder = "validation";
    b->write_graph = 1;
    PG_TRY(pg__settings_text(s, "log_dir", &log_dir, err));
    PG_TRY(pg__settings_count(s, "histogram_freq", &b->histogram_freq, err));
    PG_TRY(pg__settings_flag(s, "write_graph", &b->write_graph, err));
    PG_TRY(pg__settings_flag(s, "write_steps_per_second", &b->write_steps_per_second, err));
    PG_TRY(read_update_freq(b, s, err));
    PG_TRY(read_others(b, s, err));
    if (!*log_dir)
        PG_FAIL(PG_E_ARG, "TensorBoard: log_dir is empty");
    for (n = strlen(log_dir); n > 1 && log_dir[n - 1] == '/'; n--)
        ;
    b->log_dir = pg__mem_strndup(log_dir, n);
    if (!b->log_dir)
        PG_TRY(pg__nomem(err));
done:
    return st;
}

static void close(void *self, pg__fit *f)
{
    board *b = self;
    (void)f;
    if (b->train.file.path) /* of an interrupted run: as much as possible */
        (void)pg__append_flush(&b->train.file, NULL);
    if (b->validation.file.path)
        (void)pg__append_flush(&b->validation.file, NULL);
    pg__append_fini(&b->train.file);
    pg__append_fini(&b->validation.file);
    pg__strs_fini(&b->tags);
    pg__str_fini(&b->ignored);
    pg__mem_free(b->log_dir);
}

/* ---- files ---- */

static double wall_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static pg_status create(board *b, log *l, pg_err *err)
{
    pg__str folder = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&folder, err, "%s/%s", b->log_dir, l->folder));
    PG_TRY(pg__events_create(&l->file, folder.s, wall_time(), err));
done:
    pg__str_fini(&folder);
    return st;
}

/* Writes pending records. A file that was removed is begun anew: *renewed. */
static pg_status flush(board *b, log *l, int *renewed, pg_err *err)
{
    pg_status st = PG_OK;
    pg_err why = {0};
    *renewed = 0;
    if (l->file.pending.n == 0)
        return PG_OK;
    if (!l->file.path)
        return create(b, l, err);
    st = pg__append_flush(&l->file, &why);
    if (st != PG_OK && why.sys == ENOENT) {
        *renewed = 1;
        return create(b, l, err);
    }
    if (st != PG_OK && err)
        *err = why;
    return st;
}

/* Flushes, and reports a failure, which does not end the run. */
static pg_status give(board *b, log *l, pg__fit *f, pg_err *err)
{
    int renewed;
    const int failed = l->fails;
    l->fails = flush(b, l, &renewed, &l->why) != PG_OK;
    if (l->file.pending.n > MOST_PENDING) {
        l->file.pending.n = 0;
        l->lost = 1;
    }
    if (l->fails && failed) /* reported already */
        return PG_OK;
    if (l->fails)
        return pg__fit_event(f, PG_EVENT_WARNING, l->file.path, err,
                             "TensorBoard: %s; will retry at the end of the next epoch",
                             l->why.msg);
    if (renewed)
        return pg__fit_event(f, PG_EVENT_WARNING, l->file.path, err,
                             "TensorBoard: the event file was removed; continuing in a new one");
    return PG_OK;
}

/* ---- the graph ---- */

/* The model as to_json() writes it, from the text it was read from. Lists of layers take the form
 * that Keras writes since 2.2.3, which TensorBoard reads. */
static pg_status put_model(board *b, const pg_trainer *t, pg_err *err)
{
    const pg__graph *g = t->net.graph;
    const pg__model *m = g->root;
    const int is_list = g->text[m->config_span.off] == '[';
    pg__str text = {0};
    pg_status st = PG_OK;
    if (g->dialect == 1 && !is_list)
        return PG_OK; /* TensorBoard cannot read calls in the form of Keras 1 */
    PG_TRY(pg__str_puts(&text, "{\"class_name\": ", err));
    PG_TRY(pg__json_quote(&text, m->class_name, strlen(m->class_name), err));
    PG_TRY(pg__str_puts(&text, ", \"config\": ", err));
    if (is_list)
        PG_TRY(pg__str_puts(&text, "{\"name\": \"sequential\", \"layers\": ", err));
    PG_TRY(pg__str_add(&text, g->text + m->config_span.off, m->config_span.n, err));
    PG_TRY(pg__str_puts(&text, is_list ? "}" : "", err));
    if (t->net.keras_version) {
        PG_TRY(pg__str_puts(&text, ", \"keras_version\": ", err));
        PG_TRY(pg__json_quote(&text, t->net.keras_version, strlen(t->net.keras_version), err));
    }
    PG_TRY(pg__str_puts(&text, "}", err));
    PG_TRY(pg__events_model(&b->train.file, &(pg__event){wall_time(), 0, "keras"}, text.s, text.n,
                            err));
done:
    pg__str_fini(&text);
    return st;
}

/* ---- the run ---- */

/* Is it a file of this log_dir? A resumed run may have another one. */
static int is_here(const board *b, const log *l)
{
    const size_t n = strlen(b->log_dir), k = strlen(l->folder);
    const char *path = l->file.path;
    return strncmp(path, b->log_dir, n) == 0 && path[n] == '/' &&
           strncmp(path + n + 1, l->folder, k) == 0 && path[n + 1 + k] == '/';
}

/* Continues the file of an interrupted run or, if it is gone, a new one. */
static pg_status resume(board *b, log *l, pg__fit *f, pg_err *err)
{
    pg_err why = {0};
    pg_status st = PG_OK;
    if (!l->file.path)
        return PG_OK;
    if (is_here(b, l)) {
        st = pg__append_resume(&l->file, &why);
        if (st == PG_OK)
            return PG_OK;
        if (why.sys == ENOENT)
            st = pg__fit_event(f, PG_EVENT_WARNING, NULL, err,
                               "TensorBoard: %s; continuing in a new file", why.msg);
        else if (err)
            *err = why;
    }
    pg__mem_free(l->file.path);
    l->file.path = NULL;
    return st;
}

static void begin_epoch(board *b, const pg__fit *f)
{
    b->steps_before = f->t->compiled.optimizer.iterations;
    b->epoch_began = b->batch_began = pg__now();
}

static pg_status train_begin(void *self, pg__fit *f, pg_err *err)
{
    board *b = self;
    pg_status st = PG_OK;
    if (b->ignored.n)
        PG_TRY(pg__fit_event(f, PG_EVENT_WARNING, NULL, err, "TensorBoard: not supported: %s",
                             b->ignored.s));
    PG_TRY(resume(b, &b->train, f, err));
    PG_TRY(resume(b, &b->validation, f, err));
    if (!b->train.file.path) {
        if (b->write_graph)
            PG_TRY(put_model(b, f->t, err));
        PG_TRY(create(b, &b->train, err));
    }
    b->flushed = pg__now();
    begin_epoch(b, f); /* a resumed run may start within one */
done:
    return st;
}

static pg_status epoch_begin(void *self, pg__fit *f, pg_err *err)
{
    (void)err;
    begin_epoch(self, f);
    return PG_OK;
}

/* Writes a number under the tag before + name + after. */
static pg_status put(log *l, const char *before, const char *name, const char *after,
                     uint64_t step, double value, pg_err *err)
{
    pg__str tag = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&tag, err, "%s%s%s", before, name, after));
    PG_TRY(pg__events_scalar(&l->file, &(pg__event){wall_time(), step, tag.s}, (float)value, err));
done:
    pg__str_fini(&tag);
    return st;
}

static pg_status batch_end(void *self, pg__fit *f, const pg_logs *running, pg_err *err)
{
    board *b = self;
    const double now = pg__now(), took = now - b->batch_began;
    pg_status st = PG_OK;
    b->n_batches++;
    if (b->update_freq && b->n_batches % b->update_freq == 0) {
        if (b->write_steps_per_second && took > 0)
            PG_TRY(put(&b->train, "batch_", "steps_per_second", "", b->n_batches, 1 / took, err));
        for (size_t i = 0; i < running->n; i++)
            PG_TRY(put(&b->train, "batch_", running->names[i], "", b->n_batches, running->values[i],
                       err));
    }
    if (b->train.file.pending.n && !b->train.fails && now - b->flushed > FLUSH_EVERY) {
        PG_TRY(give(b, &b->train, f, err));
        b->flushed = now;
    }
    b->batch_began = pg__now();
done:
    return st;
}

/* ---- ends of epochs ---- */

/* The name without "val_", or NULL if it has no such prefix. */
static const char *of_validation(const char *name)
{
    return strncmp(name, "val_", 4) == 0 ? name + 4 : NULL;
}

static pg_status put_epoch(board *b, pg__fit *f, const pg_logs *logs, pg_err *err)
{
    const uint64_t steps = f->t->compiled.optimizer.iterations;
    pg_status st = PG_OK;
    for (size_t i = 0; i < logs->n; i++)
        if (of_validation(logs->names[i]))
            PG_TRY(put(&b->validation, "evaluation_", of_validation(logs->names[i]),
                       "_vs_iterations", steps, logs->values[i], err));
    for (size_t i = 0; i < logs->n; i++) {
        const char *name = logs->names[i], *val = of_validation(name);
        if (f->t->compiled.optimizer.schedule && strcmp(name, f->rate_name) == 0)
            name = "learning_rate"; /* whatever its name in the logs */
        PG_TRY(put(val ? &b->validation : &b->train, "epoch_", val ? val : name, "", f->epoch,
                   logs->values[i], err));
    }
    const double took = pg__now() - b->epoch_began;
    if (b->write_steps_per_second && took > 0)
        PG_TRY(put(&b->train, "epoch_", "steps_per_second", "", f->epoch,
                   (double)(steps - b->steps_before) / took, err));
done:
    return st;
}

/* ---- histograms ---- */

static pg_status put_histograms(board *b, pg__fit *f, pg_err *err)
{
    double rows[PG_EVENT_BUCKETS][3];
    pg_status st = PG_OK;
    if (b->tags.n == 0)
        PG_TRY(pg__histogram_tags(&b->tags, f->t, err));
    for (size_t i = 0; i < f->t->vars.n_params; i++) {
        PG_TRY(pg__param_histogram(rows, f->t, f->t->vars.order[i]));
        PG_TRY(pg__events_histogram(&b->train.file,
                                    &(pg__event){wall_time(), f->epoch, b->tags.v[i]},
                                    (const double(*)[3])rows, err));
    }
done:
    return st;
}

/* ---- ends ---- */

static pg_status epoch_end(void *self, pg__fit *f, const pg_logs *logs, pg_err *err)
{
    board *b = self;
    pg_status st = PG_OK;
    PG_TRY(put_epoch(b, f, logs, err));
    if (b->histogram_freq && f->epoch % b->histogram_freq == 0)
        PG_TRY(put_histograms(b, f, err));
    PG_TRY(give(b, &b->train, f, err));
    PG_TRY(give(b, &b->validation, f, err));
    b->flushed = pg__now();
done:
    return st;
}

static void note_missing(const log *l, pg__fit *f)
{
    if ((l->file.pending.n == 0 && !l->lost) || f->missing != PG_OK)
        return;
    f->missing = PG_E_IO;
    f->why = l->why;
}

static pg_status train_end(void *self, pg__fit *f, pg_err *err)
{
    board *b = self;
    pg_status st = PG_OK;
    PG_TRY(give(b, &b->train, f, err));
    PG_TRY(give(b, &b->validation, f, err));
    note_missing(&b->train, f);
    note_missing(&b->validation, f);
done:
    return st;
}

/* ---- state ---- */

static void keep(void *self, pg__fit *f, pg__archive *a)
{
    board *b = self;
    (void)f;
    pg__archive_u64(a, &b->n_batches);
    pg__archive_append(a, &b->train.file);
    pg__archive_int(a, &b->train.lost);
    pg__archive_append(a, &b->validation.file);
    pg__archive_int(a, &b->validation.lost);
}

const pg__cb_type pg__cb_tensorboard = {.name = "TensorBoard",
                                        .n_bytes = sizeof(board),
                                        .writes = 1,
                                        .open = open,
                                        .train_begin = train_begin,
                                        .epoch_begin = epoch_begin,
                                        .batch_end = batch_end,
                                        .epoch_end = epoch_end,
                                        .train_end = train_end,
                                        .keep = keep,
                                        .close = close};
