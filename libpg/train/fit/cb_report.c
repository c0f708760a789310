/* cb_report.c - the run as one page for a browser (class "Report", parameter filename): curves,
 * settings, checkpoints, warnings. Rewritten atomically after every epoch, so that however the run
 * ends, the page of the last epoch is there. If epochs are so short that writing would take more
 * than a fiftieth of the time, some are skipped.
 *
 * It remembers a row per epoch: the logs and the seconds that the epoch took. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "io/folder.h"
#include "io/sink.h"
#include "train/fit/report_page.h"
#include "train/step/step.h"

#define SHARE 50 /* at most 1 / SHARE of the time is spent writing */

typedef struct report {
    char *path;
    pg__story story;
    size_t cap, cap_events; /* rows, events */
    double epoch_began, run_began;
    double before, spent; /* seconds of the resumed run, and of its last epoch */
    double written, cost; /* time and duration of the last write */
    int is_outdated;      /* the file is out of date */
    int failed;
    pg_err why;
} report;

/* Replaces an existing file only if it is such a page. */
static pg_status check_path(const char *path, pg_err *err)
{
    static const char mark[] = "<meta name=generator content=\"pgfit ";
    char head[1024] = "";
    pg__io *io = NULL;
    pg_err why = {0};
    pg_status st = pg__io_open(&io, path, &why);
    if (st != PG_OK && why.sys == ENOENT)
        return PG_OK;
    if (st == PG_OK) {
        const uint64_t size = pg__io_size(io);
        st =
            pg__io_read(io, 0, head, size < sizeof head - 1 ? (size_t)size : sizeof head - 1, &why);
    }
    pg__io_close(io);
    if (st == PG_OK && !strstr(head, mark))
        return pg_fail(err, PG_E_ARG, "Report: %s exists and is not a report; choose another name",
                       PG_SHOW(path));
    if (st != PG_OK && err)
        *err = why;
    return st;
}

/* A missing folder is created when training begins. */
static pg_status check_place(const char *path, pg_err *err)
{
    pg_err why = {0};
    const pg_status st = pg__sink_check(path, &(pg__sink_opts){.force = 1}, &why);
    if (st == PG_OK || why.sys == ENOENT)
        return PG_OK;
    if (err)
        *err = why;
    return st;
}

static pg_status open(void *self, pg__fit *f, pg__settings *s, pg_err *err)
{
    report *r = self;
    const char *path = NULL;
    pg_status st = PG_OK;
    (void)f;
    r->run_began = pg__now();
    PG_TRY(pg__settings_text(s, "filename", &path, err));
    if (!path || !*path)
        PG_FAIL(PG_E_ARG, "Report: no filename given");
    PG_TRY(check_place(path, err));
    PG_TRY(check_path(path, err));
    r->path = pg__mem_strdup(path);
    if (!r->path)
        PG_TRY(pg__nomem(err));
done:
    return st;
}

/* ---- writing ---- */

static pg_status write_page(report *r, const pg__fit *f, int sync, pg_err *err)
{
    const pg_file_opts opts = {.force = 1, .no_sync = !sync};
    pg_page p = {0};
    const double began = pg__now();
    r->story.fit = f;
    r->story.seconds = r->before + began - r->run_began;
    p.st = pg_file_create(&p.file, r->path, &opts, &p.err);
    if (p.st == PG_OK)
        pg__story_put(&p, &r->story);
    if (p.st == PG_OK)
        p.st = pg_file_commit(p.file, NULL, &p.err);
    pg_file_close(p.file);
    r->written = pg__now();
    r->cost = r->written - began;
    r->is_outdated = p.st != PG_OK;
    if (p.st != PG_OK && err)
        *err = p.err;
    return p.st;
}

/* A page that cannot be written does not end the run; it is reported once and tried again. */
static pg_status give(report *r, pg__fit *f, int sync, pg_err *err)
{
    const int again = r->failed;
    r->failed = write_page(r, f, sync, &r->why) != PG_OK;
    if (!r->failed || again)
        return PG_OK;
    return pg__fit_event(f, PG_EVENT_WARNING, r->path, err,
                         "Report: %s; will retry after the next epoch", r->why.msg);
}

static pg_status train_begin(void *self, pg__fit *f, pg_err *err)
{
    report *r = self;
    pg_status st = PG_OK;
    PG_TRY(pg__folder_make_for(r->path, err));
    r->epoch_began = pg__now() - r->spent; /* if the epoch had begun before */
    if (f->resumed && r->story.n_rows > 0)
        return PG_OK;
    r->story.first = f->first_epoch;
    PG_TRY(give(r, f, 0, err));
done:
    return st;
}

static pg_status epoch_begin(void *self, pg__fit *f, pg_err *err)
{
    report *r = self;
    (void)f;
    (void)err;
    r->epoch_began = pg__now();
    return PG_OK;
}

static pg_status epoch_end(void *self, pg__fit *f, const pg_logs *logs, pg_err *err)
{
    report *r = self;
    pg__story *s = &r->story;
    const double now = pg__now();
    s->n_columns = f->n_names + 1;
    if (pg__mem_grow(&s->rows, &r->cap, (s->n_rows + 1) * s->n_columns, sizeof *s->rows))
        return pg__nomem(err);
    double *row = s->rows + s->n_rows++ * s->n_columns;
    for (size_t i = 0; i < f->n_names; i++)
        if (!pg__logs_get(logs, f->names[i], &row[i]))
            row[i] = NAN;
    row[f->n_names] = now - r->epoch_began;
    r->is_outdated = 1;
    return now - r->written > SHARE * r->cost ? give(r, f, 0, err) : PG_OK;
}

static pg_status train_end(void *self, pg__fit *f, pg_err *err)
{
    report *r = self;
    r->story.state = f->stops ? PG_STORY_STOPPED : PG_STORY_DONE;
    const pg_status st = give(r, f, 1, err);
    if (r->failed && f->missing == PG_OK) {
        f->missing = PG_E_IO;
        f->why = r->why;
    }
    return st;
}

static pg_status event(void *self, pg__fit *f, const pg_event *e, pg_err *err)
{
    report *r = self;
    pg__story *s = &r->story;
    (void)f;
    if (pg__mem_grow(&s->events, &r->cap_events, s->n_events + 1, sizeof *s->events))
        return pg__nomem(err);
    pg__story_event *to = &s->events[s->n_events];
    *to = (pg__story_event){.kind = (int)e->kind, .epoch = e->epoch};
    to->file = pg__mem_strdup(e->file);
    to->text = pg__mem_strdup(e->text ? e->text : "");
    s->n_events++;
    r->is_outdated = 1;
    return (e->file && !to->file) || !to->text ? pg__nomem(err) : PG_OK;
}

/* ---- state ---- */

static void keep_events(report *r, pg__archive *a)
{
    pg__story *s = &r->story;
    size_t n = s->n_events;
    pg__archive_size(a, &n);
    if (!a->writes && a->st == PG_OK && n > a->n - a->at)
        a->st = PG_E_FORMAT;
    if (!a->writes && a->st == PG_OK &&
        pg__mem_grow(&s->events, &r->cap_events, n, sizeof *s->events))
        a->st = PG_E_NOMEM;
    for (size_t i = 0; i < n && a->st == PG_OK; i++) {
        if (!a->writes)
            s->events[s->n_events++] = (pg__story_event){0};
        pg__archive_int(a, &s->events[i].kind);
        pg__archive_size(a, &s->events[i].epoch);
        pg__archive_text(a, &s->events[i].file);
        pg__archive_text(a, &s->events[i].text);
    }
}

static void keep(void *self, pg__fit *f, pg__archive *a)
{
    report *r = self;
    pg__story *s = &r->story;
    const double now = pg__now();
    double seconds = r->before + now - r->run_began, spent = now - r->epoch_began;
    (void)f;
    pg__archive_size(a, &s->first);
    pg__archive_size(a, &s->n_columns);
    pg__archive_size(a, &s->n_rows);
    pg__archive_real(a, &seconds);
    pg__archive_real(a, &spent);
    if (!a->writes) {
        size_t n = 0;
        if (a->st == PG_OK && (__builtin_mul_overflow(s->n_rows, s->n_columns, &n) ||
                               n > (a->n - a->at) / 8 || s->n_columns != f->n_names + 1))
            a->st = s->n_rows > 0 ? PG_E_FORMAT : PG_OK;
        if (a->st == PG_OK && pg__mem_grow(&s->rows, &r->cap, n, sizeof *s->rows))
            a->st = PG_E_NOMEM;
        s->n_rows = a->st == PG_OK ? s->n_rows : 0;
        r->before = seconds;
        r->spent = spent;
    }
    for (size_t i = 0; i < s->n_rows * s->n_columns; i++)
        pg__archive_real(a, &s->rows[i]);
    keep_events(r, a);
}

/* A run that an error or a signal ended leaves a page of what is known. */
static void close(void *self, pg__fit *f)
{
    report *r = self;
    if (r->path && r->story.state == PG_STORY_RUNS && f->run && r->story.n_rows > 0) {
        r->story.state = PG_STORY_BROKEN;
        (void)write_page(r, f, 0, NULL);
    }
    for (size_t i = 0; i < r->story.n_events; i++) {
        pg__mem_free(r->story.events[i].file);
        pg__mem_free(r->story.events[i].text);
    }
    pg__mem_free(r->story.events);
    pg__mem_free(r->story.rows);
    pg__mem_free(r->path);
}

const pg__cb_type pg__cb_report = {.name = "Report",
                                   .n_bytes = sizeof(report),
                                   .writes = 1,
                                   .open = open,
                                   .train_begin = train_begin,
                                   .epoch_begin = epoch_begin,
                                   .epoch_end = epoch_end,
                                   .train_end = train_end,
                                   .event = event,
                                   .keep = keep,
                                   .close = close};
