/* report_page.c - the page of a run: results, curves, events, settings, and all numbers. */
#include "train/fit/report_page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "pg/version.h"
#include "train/fit/chart.h"
#include "train/rules/rules.h"
#include "train/step/step.h"

enum {
    MOST_EVENTS = 200,
    MOST_ROWS = 500,
    OPEN_EVENTS = 20
}; /* the last ones are shown; OPEN_EVENTS are unfolded */

static const char page_style[] =
    ".f{background:var(--bx);border-radius:6px;padding:.6rem .9rem;margin:1rem 0}\n"
    "summary{cursor:pointer;padding:.3rem 0}h2{font-size:1.05rem;margin:1.6rem 0 .5rem}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}\n"
    "td,th{padding:2px 1.1rem 2px 0;text-align:left;vertical-align:top}th{font-weight:500;"
    "color:var(--mu)}.n td,.n th{text-align:right}.o{overflow-x:auto}\n"
    "td,th{border-bottom:1px solid "
    "var(--ln)}th{white-space:nowrap}td{overflow-wrap:anywhere}pre{margin:.4rem "
    "0;overflow-x:auto;"
    "font:12px/1.5 ui-monospace,monospace}\n";

static size_t column_of(const pg__story *s, const char *name)
{
    for (size_t i = 0; i < s->fit->n_names; i++)
        if (strcmp(s->fit->names[i], name) == 0)
            return i;
    return PG_NONE;
}

/* The column of "val_NAME". */
static size_t twin_of(const pg__story *s, size_t column)
{
    for (size_t i = 0; i < s->fit->n_names; i++)
        if (strncmp(s->fit->names[i], "val_", 4) == 0 &&
            strcmp(s->fit->names[i] + 4, s->fit->names[column]) == 0)
            return i;
    return PG_NONE;
}

static double number(const pg__story *s, size_t row, size_t column)
{
    return s->rows[row * s->n_columns + column];
}

static double last_number(const pg__story *s, size_t column)
{
    for (size_t i = s->n_rows; i-- > 0 && column != PG_NONE;)
        if (!isnan(number(s, i, column)))
            return number(s, i, column);
    return NAN;
}

/* The row with the lowest loss; validation loss if there is one. */
static size_t best_row(const pg__story *s, size_t column)
{
    size_t best = PG_NONE;
    for (size_t i = 0; i < s->n_rows && column != PG_NONE; i++)
        if (isfinite(number(s, i, column)) &&
            (best == PG_NONE || number(s, i, column) < number(s, best, column)))
            best = i;
    return best;
}

static size_t watched(const pg__story *s)
{
    const size_t val = column_of(s, "val_loss");
    return best_row(s, val) != PG_NONE ? val : column_of(s, "loss");
}

typedef struct words {
    char s[64];
} words;

static words duration(double seconds)
{
    words w;
    const unsigned long s = seconds > 0 ? (unsigned long)(seconds + 0.5) : 0;
    if (s < 100)
        (void)snprintf(w.s, sizeof w.s, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
    else if (s < 3600)
        (void)snprintf(w.s, sizeof w.s, "%lu:%02lu min", s / 60, s % 60);
    else
        (void)snprintf(w.s, sizeof w.s, "%lu:%02lu h", s / 3600, s / 60 % 60);
    return w;
}

/* ---- the head ---- */

static const char *state_word(const pg__story *s)
{
    switch (s->state) {
    case PG_STORY_RUNS: return "running";
    case PG_STORY_DONE: return "finished";
    case PG_STORY_STOPPED: return "stopped before its last epoch";
    case PG_STORY_BROKEN: return "ended before its last epoch";
    }
    return "";
}

static void put_figures(pg_page *p, const pg__story *s)
{
    const pg__fit *f = s->fit;
    const pg_fit_report speed = pg__report_of(&f->t->report, 0);
    const size_t rate = column_of(s, f->rate_name), key = watched(s), best = best_row(s, key);
    words w;
    pg_page_put(p, "<div class=k>");
    (void)snprintf(w.s, sizeof w.s, "%zu of %zu", s->first + s->n_rows, f->run->n_epochs);
    pg_page_figure(p, w.s, "epochs", 0);
    if (best != PG_NONE) {
        (void)snprintf(w.s, sizeof w.s, "lowest %s (epoch %zu)", f->names[key],
                       s->first + best + 1);
        pg_page_figure(p, pg__figure_of(number(s, best, key)).s, w.s, 0);
    }
    if (s->n_rows > 0)
        pg_page_figure(p, pg__figure_of(last_number(s, rate)).s, "learning rate", 0);
    if (speed.rows_per_second > 0)
        pg_page_figure(p, PG_NUM((uint64_t)speed.rows_per_second), "samples per second", 0);
    pg_page_figure(p, duration(s->seconds).s, "of time", 0);
    pg_page_figure(p, PG_NUM(f->run->n_params), "parameters", 0);
    (void)snprintf(w.s, sizeof w.s, "%s, %zu core%s", f->run->n_devices == 1 ? "device" : "devices",
                   f->run->n_cores, f->run->n_cores == 1 ? "" : "s");
    pg_page_figure(p, PG_NUM(f->run->n_devices), w.s, 0);
    pg_page_put(p, "</div>\n");
}

static const pg__story_event *last_event(const pg__story *s, pg_event_kind kind)
{
    for (size_t i = s->n_events; i-- > 0;)
        if (s->events[i].kind == (int)kind)
            return &s->events[i];
    return NULL;
}

/* The best one, which has a text, else the last one. */
static void put_checkpoint(pg_page *p, const pg__story *s)
{
    const pg__story_event *e = last_event(s, PG_EVENT_CHECKPOINT);
    int is_best = 0;
    for (size_t i = 0; i < s->n_events; i++)
        if (s->events[i].kind == PG_EVENT_CHECKPOINT && *s->events[i].text) {
            e = &s->events[i];
            is_best = 1;
        }
    if (!e || !e->file)
        return;
    pg_page_put(p, "<div class=\"v g\"><b>");
    pg_page_put(p, is_best ? "Best checkpoint" : "Last checkpoint");
    pg_page_put(p, "</b> <code>");
    pg_page_text(p, e->file, PG_PAGE_ALL);
    pg_page_put(p, "</code></div>\n");
}

static void put_warnings(pg_page *p, const pg__story *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_events; i++)
        n += s->events[i].kind == PG_EVENT_WARNING;
    const pg__story_event *last = last_event(s, PG_EVENT_WARNING);
    if (!last)
        return;
    pg_page_putf(p, "<div class=\"v w\"><b>%zu warning%s</b>, the last one in epoch %zu: ", n,
                 n == 1 ? "" : "s", last->epoch + 1);
    pg_page_text(p, last->text, PG_PAGE_ALL);
    pg_page_put(p, "</div>\n");
}

static void put_head(pg_page *p, const pg__story *s)
{
    const char *name = s->fit->t->net.graph->root->name;
    char style[4096];
    (void)snprintf(style, sizeof style, "%s%s", page_style, pg__chart_style);
    pg_page_begin(p, name && *name ? name : "training", "pgfit", style);
    if (s->state == PG_STORY_RUNS) /* reloads the page */
        pg_page_put(p, "<meta http-equiv=refresh content=30>\n");
    pg_page_putf(p, "<p class=m>training run \xC2\xB7 <b class=%s>%s</b> \xC2\xB7 libpg %s</p>\n",
                 s->state == PG_STORY_BROKEN ? "w" : "g", state_word(s), pg_version());
}

/* ---- curves ---- */

static void put_curves(pg_page *p, const pg__story *s)
{
    const pg__fit *f = s->fit;
    if (s->n_rows == 0)
        return;
    pg_page_put(p, "<div class=c>\n");
    for (size_t i = 0; i + 1 < f->n_names; i++) { /* the learning rate is last */
        const size_t twin = twin_of(s, i);
        if (strncmp(f->names[i], "val_", 4) == 0)
            continue;
        pg__chart c = {.title = f->names[i],
                       .first = s->first,
                       .n = s->n_rows,
                       .stride = s->n_columns,
                       .lines = {s->rows + i, twin == PG_NONE ? NULL : s->rows + twin},
                       .names = {"train", "validation"},
                       .marked = best_row(s, watched(s))};
        pg__chart_put(p, &c);
    }
    pg__chart_put(p, &(pg__chart){.title = "learning rate",
                                  .first = s->first,
                                  .n = s->n_rows,
                                  .stride = s->n_columns,
                                  .lines = {s->rows + f->n_names - 1, NULL},
                                  .names = {f->rate_name, NULL},
                                  .marked = PG_NONE});
    pg__chart_put(p, &(pg__chart){.title = "time per epoch",
                                  .first = s->first,
                                  .n = s->n_rows,
                                  .stride = s->n_columns,
                                  .lines = {s->rows + f->n_names, NULL},
                                  .names = {"seconds", NULL},
                                  .marked = PG_NONE});
    pg_page_put(p, "</div>\n<p class=m>The dashed line is the epoch of the lowest ");
    pg_page_text(p, f->names[watched(s)], PG_PAGE_ALL);
    pg_page_put(p, ".</p>\n");
}

/* ---- what happened ---- */

static const char *kind_word(int kind)
{
    switch ((pg_event_kind)kind) {
    case PG_EVENT_NOTE: return "note";
    case PG_EVENT_WARNING: return "warning";
    case PG_EVENT_CHECKPOINT: return "checkpoint";
    case PG_EVENT_RATE: return "learning rate";
    case PG_EVENT_STOP: return "stop";
    case PG_EVENT_RESUME: return "resumed";
    case PG_EVENT_SKIPPED: return "skipped";
    }
    return "";
}

static void put_events(pg_page *p, const pg__story *s)
{
    const size_t from = s->n_events > MOST_EVENTS ? s->n_events - MOST_EVENTS : 0;
    if (s->n_events == 0)
        return;
    pg_page_putf(p,
                 "<details%s><summary>What happened</summary><div class=o><table><tr><th>epoch"
                 "<th>what<th>\n",
                 s->n_events > OPEN_EVENTS ? "" : " open");
    for (size_t i = from; i < s->n_events; i++) {
        const pg__story_event *e = &s->events[i];
        pg_page_putf(p, "<tr><td>%zu<td%s>%s<td>", e->epoch + 1,
                     e->kind == PG_EVENT_WARNING ? " class=w" : "", kind_word(e->kind));
        if (e->file) {
            pg_page_text(p, e->file, PG_PAGE_ALL);
            pg_page_put(p, " ");
        }
        pg_page_text(p, e->text, PG_PAGE_ALL);
        pg_page_put(p, "\n");
    }
    pg_page_put(p, "</table></div>");
    if (from > 0)
        pg_page_putf(p, "<p class=m>%zu earlier ones are left out.</p>", from);
    pg_page_put(p, "</details>\n");
}

/* ---- settings ---- */

static void put_fact(pg_page *p, const char *what, const char *value)
{
    pg_page_putf(p, "<tr><th>%s<td>", what);
    pg_page_text(p, value, PG_PAGE_ALL);
    pg_page_put(p, "\n");
}

static void put_lines(pg_page *p, const char *text)
{
    for (const char *s = text; *s;) {
        const size_t n = strcspn(s, "\n");
        if (n > 0)
            pg_page_text(p, s, n);
        pg_page_put(p, "\n");
        s += n + (s[n] == '\n');
    }
}

/* Each with its output, if there are several. */
static void put_losses(pg_page *p, const pg_trainer *t)
{
    words w;
    char room[64];
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        if (!t->compiled.objectives[k].has_loss)
            continue;
        (void)snprintf(w.s, sizeof w.s, "%s%s%s",
                       t->net.n_outputs > 1 ? t->net.output_names[k] : "",
                       t->net.n_outputs > 1 ? ": " : "",
                       pg__loss_class(t->compiled.objectives[k].loss.kind, room, sizeof room));
        put_fact(p, "loss", w.s);
    }
}

static void put_settings(pg_page *p, const pg__story *s)
{
    const pg_run *r = s->fit->run;
    const pg_fit_opts *o = s->fit->opts;
    words w;
    pg_page_put(p, "<h2>Settings</h2>\n<div class=o><table>\n");
    put_fact(p, "model", s->fit->t->net.graph->root->name);
    put_fact(p, "data", s->fit->data_path);
    put_losses(p, s->fit->t);
    for (size_t i = 0; i < s->fit->t->compiled.n_metrics; i++)
        put_fact(p, i == 0 ? "metrics" : "",
                 s->fit->t->compiled.metrics[i].given ? s->fit->t->compiled.metrics[i].given : "");
    put_fact(p, "optimizer", r->optimizer);
    put_fact(p, "first learning rate", pg__figure_of(r->learning_rate).s);
    put_fact(p, "batch size", PG_NUM(r->batch_size));
    put_fact(p, "batches per epoch", PG_NUM(r->n_batches));
    put_fact(p, "training rows", PG_NUM(r->n_train));
    put_fact(p, "validation rows", PG_NUM(r->n_val));
    put_fact(p, "layers", PG_NUM(r->n_layers));
    (void)snprintf(w.s, sizeof w.s, "%llu", (unsigned long long)o->seed);
    put_fact(p, "seed", w.s);
    for (size_t i = 0; i < o->n_callbacks; i++)
        put_fact(p, i == 0 ? "callbacks" : "", o->callbacks[i]);
    pg_page_put(p, "</table></div>\n");
    if (!o->settings)
        return;
    pg_page_put(p, "<details><summary>All options, as --config takes them</summary><pre>");
    put_lines(p, o->settings);
    pg_page_put(p, "</pre></details>\n");
}

/* ---- numbers ---- */

static void put_numbers(pg_page *p, const pg__story *s)
{
    const size_t from = s->n_rows > MOST_ROWS ? s->n_rows - MOST_ROWS : 0;
    if (s->n_rows == 0)
        return;
    pg_page_put(p, "<details><summary>All numbers</summary><div class=o><table class=n>"
                   "<tr><th>epoch");
    for (size_t k = 0; k < s->fit->n_names; k++) {
        pg_page_put(p, "<th>");
        pg_page_text(p, s->fit->names[k], PG_PAGE_ALL);
    }
    pg_page_put(p, "<th>seconds\n");
    for (size_t i = from; i < s->n_rows; i++) {
        pg_page_putf(p, "<tr><td>%zu", s->first + i + 1);
        for (size_t k = 0; k < s->n_columns; k++)
            pg_page_putf(p, "<td>%s",
                         isnan(number(s, i, k)) ? "" : pg__figure_of(number(s, i, k)).s);
        pg_page_put(p, "\n");
    }
    pg_page_put(p, "</table></div>");
    if (from > 0)
        pg_page_putf(p, "<p class=m>The first %zu epochs are left out.</p>", from);
    pg_page_put(p, "</details>\n");
}

void pg__story_put(pg_page *p, const pg__story *s)
{
    put_head(p, s);
    put_figures(p, s);
    put_warnings(p, s);
    put_checkpoint(p, s);
    put_curves(p, s);
    put_events(p, s);
    put_settings(p, s);
    put_numbers(p, s);
    pg_page_put(p, "</html>\n");
}
