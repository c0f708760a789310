/* cb_model_checkpoint.c - Keras' ModelCheckpoint: when a file is written, its name, and which one
 * is the best. checkpoint.c writes it, in the writer's thread, from a snapshot.
 *
 * Source: keras/src/callbacks.py (2.15.0). There: auto is max if the monitor contains "acc" or
 * starts with "fmeasure", else min; an improvement is strict; period and save_freq count from one
 * attempt to the next. Differences: an unknown key or monitor is an error before training; an epoch
 * without a needed value (validation_freq) is skipped; a file that cannot be written does not end
 * the run: the next save tries again, and the best value is again that of the best file. Keras has
 * no keep, verify and max_shard_size. */
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/try.h"
#include "io/folder.h"
#include "train/fit/checkpoint_impl.h"
#include "train/fit/monitor.h"

typedef pg__checkpoints checkpoint;

/* A file being written, and the callback that wants it. */
typedef struct task {
    pg__checkpoint *file;
    checkpoint *self;
    pg__fit *f;
    size_t epoch; /* whose weights it holds */
} task;

static pg_status open_checkpoint(void *self, pg__fit *f, pg__settings *s, pg_err *err)
{
    return pg__checkpoints_open(self, f, s, err);
}

static void set_values(checkpoint *c, const pg__fit *f, const pg_logs *logs)
{
    for (size_t i = 0; i < c->n_keys; i++) {
        pg__pattern_key *k = &c->keys[i];
        if (i == 0)
            k->value.v = (double)(f->epoch + 1);
        else if (i == 1 && c->every)
            k->value.v = (double)(f->batch + 1);
        else
            k->is_absent = !pg__logs_get(logs, k->name, &k->value.v);
    }
}

/* The file that was being written when the state was saved either exists, complete, or does not. */
static pg_status settle_pending(checkpoint *c, pg_err *err)
{
    pg__str shards = {0};
    pg_status st = PG_OK;
    if (!c->pending)
        return PG_OK;
    PG_TRY(pg__str_printf(&shards, err, "%s.shards", c->pending));
    const int whole = access(c->pending, F_OK) == 0, split = access(shards.s, F_OK) == 0;
    if (!whole && !split)
        c->best = c->best_before;
    PG_TRY(pg__kept_add(&c->files, c->pending,
                        whole   ? c->pending
                        : split ? shards.s
                                : NULL,
                        whole || split ? NULL : "the run was interrupted",
                        c->pending_is_best && (whole || split), err));
    pg__mem_free(c->pending);
    c->pending = NULL;
done:
    pg__str_fini(&shards);
    return st;
}

/* If no key is part of the folder's name: a folder that cannot be made had better fail now. */
static pg_status make_folder(const checkpoint *c, pg_err *err)
{
    const char *slash = strrchr(c->pattern, '/');
    const size_t n = slash ? (size_t)(slash - c->pattern) : 0;
    if (n == 0 || strcspn(c->pattern, "{}") < n)
        return PG_OK;
    return pg__folder_make_for(c->pattern, err);
}

static int goes_on_nowhere(const checkpoint *c, const pg__fit *f)
{
    const size_t n = strlen(c->pattern);
    return f->t->net.rules->keras3 && !c->weights_only && n > 3 &&
           strcasecmp(c->pattern + n - 3, ".h5") == 0 &&
           !(n > 11 && strcasecmp(c->pattern + n - 11, ".weights.h5") == 0);
}

static pg_status train_begin(void *self, pg__fit *f, pg_err *err)
{
    checkpoint *c = self;
    pg_status st = PG_OK;
    PG_TRY(make_folder(c, err));
    if (goes_on_nowhere(c, f) && !f->resumed)
        PG_TRY(pg__fit_event(f, PG_EVENT_NOTE, NULL, err,
                             "ModelCheckpoint: Keras 3 loads a full .h5 and predicts with it, but "
                             "its fit() cannot resume from one; from .keras it can"));
    if (f->resumed)
        PG_TRY(settle_pending(c, err));
    if (c->has_monitor)
        PG_TRY(pg__monitor_note(
            &(pg__monitor){"ModelCheckpoint", c->monitor, c->wants_max, c->is_guessed}, f, err));
    if (c->has_monitor && c->keep == 1 && !c->best_only)
        PG_TRY(pg__fit_event(f, PG_EVENT_NOTE, NULL, err,
                             "ModelCheckpoint: keep=1 leaves only the best one, by %s; with keep=2 "
                             "the last one stays too",
                             PG_SHOW(c->monitor)));
done:
    return st;
}

/* ---- one file ---- */

static pg_status write_file(void *ctx, pg_err *err)
{
    return pg__checkpoint_write(((task *)ctx)->file, err);
}

/* Reports failures that are not of the file itself, each once. */
static pg_status report_others(checkpoint *c, pg__fit *f, const pg__strs *failures, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < failures->n; i++) {
        if (pg__strs_find(&c->reported, failures->v[i]) != (size_t)-1)
            continue;
        PG_TRY(pg__strs_add(&c->reported, failures->v[i], strlen(failures->v[i]), err));
        PG_TRY(pg__fit_event(f, PG_EVENT_WARNING, NULL, err, "%s", failures->v[i]));
    }
done:
    return st;
}

static pg_status take_in(const task *k, pg_err *err)
{
    const pg__checkpoint *file = k->file;
    checkpoint *c = k->self;
    pg_status st = PG_OK;
    PG_TRY(pg__kept_add(&c->files, file->name, file->saved.path, NULL, file->is_best, err));
    for (size_t i = 0; i < file->surplus.n; i++)
        pg__kept_remove(&c->files, file->surplus.v[i]);
    if (file->folder_was_gone)
        PG_TRY(pg__fit_event(k->f, PG_EVENT_WARNING, file->saved.path, err,
                             "%s: its folder had disappeared and was recreated",
                             PG_SHOW(file->name)));
    PG_TRY(pg__fit_event(k->f, PG_EVENT_CHECKPOINT, file->saved.path, err, "%s",
                         file->is_best ? "the best so far" : ""));
    for (size_t i = 0; i < file->saved.notes.n; i++)
        PG_TRY(pg__fit_event(k->f, PG_EVENT_NOTE, file->saved.path, err, "%s",
                             file->saved.notes.v[i]));
    PG_TRY(report_others(c, k->f, &file->reported, err));
done:
    return st;
}

static pg_status report_failure(const task *k, const pg_err *why, pg_err *err)
{
    checkpoint *c = k->self;
    const pg__kept *old = pg__kept_find(&c->files, k->file->name);
    const char *stays = old ? old->path : NULL;
    pg_status st = PG_OK;
    c->best = c->best_before;
    PG_TRY(pg__fit_event(k->f, PG_EVENT_WARNING, k->file->name, err, "not saved: %s%s", why->msg,
                         stays ? "; the previous file stays" : ""));
    PG_TRY(pg__kept_add(&c->files, k->file->name, stays, why->msg, old && old->is_best, err));
done:
    return st;
}

/* The next epoch may have begun; reports are about the file's own. */
static pg_status file_done(void *ctx, pg_status result, const pg_err *why, pg_err *err)
{
    const task *k = ctx;
    checkpoint *c = k->self;
    const size_t now = k->f->epoch;
    pg__mem_free(c->pending);
    c->pending = NULL;
    k->f->epoch = k->epoch;
    const pg_status st = result == PG_OK ? take_in(k, err) : report_failure(k, why, err);
    k->f->epoch = now;
    return st;
}

static void free_task(void *ctx)
{
    task *k = ctx;
    pg__checkpoint_free(k->file);
    pg__mem_free(k);
}

/* The length of the links' folder: the part of the name without keys. */
static size_t linked_from(const checkpoint *c, const char *name)
{
    size_t n = pg__pattern_fixed(c->pattern);
    if (n >= strlen(name)) /* the name never changes */
        return PG_NONE;
    while (n > 0 && name[n - 1] != '/')
        n--;
    return n;
}

static int was_in_folder(const checkpoint *c, const char *name)
{
    const char *slash = strrchr(name, '/');
    for (size_t i = 0; slash && i < c->files.n; i++)
        if (c->files.v[i].path && strrchr(c->files.v[i].name, '/') &&
            strncmp(c->files.v[i].name, name, (size_t)(slash - name) + 1) == 0)
            return 1;
    return 0;
}

static pg_status plan_file(pg__checkpoint *out, checkpoint *c, pg__fit *f, const char *name,
                           int is_best, pg_err *err)
{
    const int proves =
        c->verify == PG_VERIFY_ALL || (c->verify == PG_VERIFY_BEST && (is_best || !c->has_monitor));
    pg_status st = PG_OK;
    out->t = f->t;
    out->name = pg__mem_strdup(name);
    if (!out->name)
        return pg__nomem(err);
    out->is_best = is_best;
    out->n_linked = linked_from(c, name);
    out->had_folder = was_in_folder(c, name);
    PG_TRY(pg__kept_surplus(&out->surplus, &c->files, name, is_best, c->keep, err));
    for (size_t i = 0; i < out->surplus.n; i++) {
        const pg__kept *k = pg__kept_find(&c->files, out->surplus.v[i]);
        if (k && k->path)
            PG_TRY(pg__strs_add(&out->remove, k->path, strlen(k->path), err));
    }
    PG_TRY(pg__fit_snapshot(f, !c->weights_only, &out->from, err));
    out->order = (pg__save_order){.path = out->name,
                                  .from = out->from,
                                  .force = 1,
                                  .full = !c->weights_only,
                                  .prove = proves,
                                  .unread = c->verify == PG_VERIFY_NONE,
                                  .max_shard_bytes = c->max_shard_bytes};
done:
    return st;
}

static pg_status give_file(checkpoint *c, pg__fit *f, const char *name, int is_best, double value,
                           pg_err *err)
{
    pg_status st = PG_OK;
    task *k = pg__mem_array(1, sizeof *k);
    if (!k)
        return pg__nomem(err);
    *k = (task){pg__mem_array(1, sizeof *k->file), c, f, f->epoch};
    if (!k->file)
        PG_TRY(pg__nomem(err));
    PG_TRY(plan_file(k->file, c, f, name, is_best, err));
    c->pending = pg__mem_strdup(name);
    if (!c->pending)
        PG_TRY(pg__nomem(err));
    c->pending_is_best = is_best;
    c->best_before = c->best;
    if (is_best)
        c->best = value;
    f->keeps_state = 1;
    const pg__write_job job = {.ctx = k, .work = write_file, .done = file_done, .free = free_task};
    k = NULL;
    PG_TRY(pg__writer_give(f->writer, &job, err));
done:
    if (k)
        free_task(k);
    return st;
}

/* ---- when ---- */

static pg_status print_progress(const checkpoint *c, pg__fit *f, const char *name, double value,
                                int is_best, pg_err *err)
{
    if (c->verbose == 0)
        return PG_OK;
    if (!c->best_only)
        return pg__fit_event(f, PG_EVENT_NOTE, name, err, "Epoch %zu: saving model to %s",
                             f->epoch + 1, PG_SHOW(name));
    if (!is_best)
        return pg__fit_event(f, PG_EVENT_NOTE, NULL, err, "Epoch %zu: %s did not improve from %.5f",
                             f->epoch + 1, c->monitor, c->best);
    return pg__fit_event(f, PG_EVENT_NOTE, name, err,
                         "Epoch %zu: %s improved from %.5f to %.5f, saving model to %s",
                         f->epoch + 1, c->monitor, c->best, value, PG_SHOW(name));
}

static pg_status warn_skipped(checkpoint *c, pg__fit *f, const char *absent, pg_err *err)
{
    if (c->reported_skipping)
        return PG_OK;
    c->reported_skipping = 1;
    return pg__fit_event(f, PG_EVENT_WARNING, NULL, err,
                         "nothing is saved after epochs without %s, which the file name contains",
                         absent);
}

/* With keep=1 only the best one stays: any other would be removed at once. */
static int would_go(const checkpoint *c, int is_best)
{
    for (size_t i = 0; i < c->files.n; i++)
        if (c->files.v[i].is_best && c->keep == 1 && !is_best)
            return 1;
    return 0;
}

static pg_status attempt(checkpoint *c, pg__fit *f, const pg_logs *logs, pg_err *err)
{
    pg__str name = {0};
    const char *absent = NULL;
    double value = 0;
    pg_status st = PG_OK;
    if (c->pending) /* its outcome decides about the next one */
        PG_TRY(pg__writer_wait(f->writer, err));
    const int known = pg__logs_get(logs, c->monitor, &value);
    value = (double)(float)value; /* as Keras sees it */
    const int is_best = known && (c->wants_max ? value > c->best : value < c->best);
    if (c->best_only && !known)
        goto done;
    set_values(c, f, logs);
    PG_TRY(pg__checkpoints_name(c, &name, &absent, err));
    if (absent) {
        PG_TRY(warn_skipped(c, f, absent, err));
        goto done;
    }
    PG_TRY(print_progress(c, f, name.s, value, is_best, err));
    if ((c->best_only && !is_best) || would_go(c, is_best))
        goto done;
    PG_TRY(give_file(c, f, name.s, is_best, value, err));
done:
    pg__str_fini(&name);
    return st;
}

static pg_status batch_end(void *self, pg__fit *f, const pg_logs *running, pg_err *err)
{
    checkpoint *c = self;
    if (c->every == 0 || ++c->n_batches < c->every)
        return PG_OK;
    c->n_batches = 0;
    return attempt(c, f, running, err);
}

static pg_status epoch_end(void *self, pg__fit *f, const pg_logs *logs, pg_err *err)
{
    checkpoint *c = self;
    c->n_epochs++;
    if (c->every > 0 || c->n_epochs < c->period)
        return PG_OK;
    c->n_epochs = 0;
    return attempt(c, f, logs, err);
}

/* ---- the end ---- */

/* The reason without the leading file name. */
static const char *reason(const pg__kept *k)
{
    const size_t n = strlen(k->name);
    return strncmp(k->why, k->name, n) == 0 && strncmp(k->why + n, ": ", 2) == 0 ? k->why + n + 2
                                                                                 : k->why;
}

static pg_status train_end(void *self, pg__fit *f, pg_err *err)
{
    const checkpoint *c = self;
    const pg_status st = pg__writer_wait(f->writer, err);
    for (size_t i = 0; i < c->files.n && st == PG_OK && f->missing == PG_OK; i++) {
        const pg__kept *k = &c->files.v[i];
        const int counts = i + 1 == c->files.n || k->is_best;
        if (k->why)
            f->missing = pg_fail(&f->why, PG_E_IO, "%s is %s: %s", PG_SHOW(k->name),
                                 k->path ? "from before" : "missing", reason(k));
        else if (counts && access(k->path, F_OK) != 0)
            f->missing =
                pg_fail(&f->why, PG_E_IO, "%s is missing: it was removed", PG_SHOW(k->path));
    }
    return st;
}

static void keep(void *self, pg__fit *f, pg__archive *a)
{
    checkpoint *c = self;
    (void)f;
    pg__archive_real(a, &c->best);
    pg__archive_size(a, &c->n_epochs);
    pg__archive_size(a, &c->n_batches);
    pg__kept_archive(&c->files, a);
    pg__archive_text(a, &c->pending);
    pg__archive_int(a, &c->pending_is_best);
    pg__archive_real(a, &c->best_before);
}

static void close_checkpoint(void *self, pg__fit *f)
{
    checkpoint *c = self;
    (void)f;
    pg__mem_free(c->pattern);
    pg__mem_free(c->monitor);
    pg__mem_free(c->keys);
    pg__mem_free(c->pending);
    pg__kept_fini(&c->files);
    pg__strs_fini(&c->reported);
}

const pg__cb_type pg__cb_model_checkpoint = {.name = "ModelCheckpoint",
                                             .n_bytes = sizeof(checkpoint),
                                             .writes = 1,
                                             .open = open_checkpoint,
                                             .train_begin = train_begin,
                                             .batch_end = batch_end,
                                             .epoch_end = epoch_end,
                                             .train_end = train_end,
                                             .keep = keep,
                                             .close = close_checkpoint};
