/* pgfit_screen.c - shows a run in progress: Keras' bar, redrawn on a terminal; elsewhere one line
 * per epoch; for scripts one JSON object per line. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "json_out.h"
#include "pgfit.h"

static const double redraw_s = 0.1;

double fit_now(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void fit_screen_open(fit_screen *s, pg_trainer *t)
{
    const char *when = cli.progress ? cli.progress : "auto";
    *s = (fit_screen){.trainer = t,
                      .live = !cli.json && !cli.quiet && strcmp(when, "never") != 0 &&
                              (cli_on_terminal(stdout) || strcmp(when, "always") == 0)};
}

/* An interrupted run leaves its bar on a line of its own. */
void fit_screen_close(fit_screen *s)
{
    if (s->drawn) {
        fputs("\n", stdout);
        fflush(stdout);
    }
    for (size_t i = 0; i < s->n_files; i++)
        free(s->files[i]);
    free(s->files);
    free(s->history);
    *s = (fit_screen){0};
}

/* ---- one line ---- */

typedef struct line {
    char s[1024];
    size_t n;
} line;

static void put(line *l, const char *fmt, ...) PG_PRINTF(2, 3);
static void put(line *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(l->s + l->n, sizeof l->s - l->n, fmt, ap);
    va_end(ap);
    l->n = n < 0 ? l->n : l->n + (size_t)n;
    if (l->n >= sizeof l->s)
        l->n = sizeof l->s - 1;
}

static size_t n_digits(size_t n)
{
    size_t d = 1;
    for (; n > 9; n /= 10)
        d++;
    return d;
}

/* As Keras draws it: 15/23 [==================>...........] */
static void put_bar(line *l, size_t done, size_t all)
{
    enum { WIDTH = 30 };
    const size_t filled = all > 0 ? WIDTH * done / all : 0;
    put(l, "%*zu/%zu [", (int)n_digits(all), done, all);
    for (size_t k = 0; k < WIDTH; k++)
        put(l, "%s", k + 1 < filled ? "=" : k + 1 == filled ? done < all ? ">" : "=" : ".");
    put(l, "]");
}

static void put_eta(line *l, double seconds)
{
    const unsigned s = seconds < 359999 ? (unsigned)(seconds + 0.5) : 359999;
    if (s > 3600)
        put(l, " - ETA: %u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);
    else if (s > 60)
        put(l, " - ETA: %u:%02u", s / 60, s % 60);
    else
        put(l, " - ETA: %us", s);
}

static void put_pace(line *l, double seconds, size_t steps)
{
    const double each = steps > 0 ? seconds / (double)steps : 0;
    put(l, seconds < 9.95 ? " - %.1fs" : " - %.0fs", seconds);
    if (each >= 1)
        put(l, " %.0fs/step", each);
    else if (each >= 1e-3)
        put(l, " %.0fms/step", each * 1e3);
    else
        put(l, " %.0fus/step", each * 1e6);
}

static int is_rate(const char *name)
{
    return strcmp(name, "lr") == 0 || strcmp(name, "learning_rate") == 0;
}

/* Keras' rule: four decimals, or four significant digits of smaller numbers. */
static void put_value(line *l, double v)
{
    if (isnan(v)) /* without a sign */
        put(l, "nan");
    else
        put(l, fabs(v) > 1e-3 || v == 0 ? "%.4f" : "%.4e", v);
}

static void put_values(line *l, const pg_logs *logs, const char *between, const char *equals)
{
    for (size_t i = 0; i < logs->n; i++) {
        put(l, "%s%s%s", between, logs->names[i], equals);
        if (is_rate(logs->names[i]))
            put(l, "%g", logs->values[i]);
        else
            put_value(l, logs->values[i]);
    }
}

static size_t columns(void)
{
    struct winsize w = {0};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col : 1000;
}

/* Overwrites the previous line; a line that will be redrawn must not wrap. */
static void draw(line *l, int again)
{
    const size_t width = columns();
    if (again && l->n >= width)
        l->s[width - 1] = '\0';
    fputc('\r', stdout);
    cli_puts(stdout, l->s);
    fputs(again ? "\033[K" : "\033[K\n", stdout);
    fflush(stdout);
}

/* ---- JSON ---- */

static void print_json(const char *event, size_t epoch, const size_t *batch, double seconds,
                       const pg_logs *logs)
{
    printf("{\"event\": \"%s\", \"epoch\": %zu", event, epoch + 1);
    if (batch)
        printf(", \"batch\": %zu, \"ms\": %.3f", *batch + 1, seconds * 1e3);
    for (size_t i = 0; i < logs->n; i++) {
        printf(isfinite(logs->values[i]) ? ", \"%s\": %.9g" : ", \"%s\": null", logs->names[i],
               logs->values[i]);
    }
    puts("}");
    fflush(stdout);
}

/* ---- called by pg_fit() ---- */

static pg_status train_begin(void *user, const pg_run *run, pg_err *err)
{
    fit_screen *s = user;
    s->run = *run;
    s->history = calloc(run->n_epochs, sizeof *s->history);
    if (!s->history)
        return pg_fail(err, PG_E_NOMEM, "out of memory");
    fit_print_start(run);
    fit_show_data_notes(s->rows);
    fit_show_data_notes(fit_args.fit.validation);
    fit_show_compared(s->trainer);
    fflush(stdout);
    return PG_OK;
}

static pg_status epoch_begin(void *user, size_t epoch, pg_err *err)
{
    fit_screen *s = user;
    (void)err;
    s->epoch = epoch;
    s->begun = fit_now();
    s->next = 0;
    if (s->live)
        printf("Epoch %zu/%zu\n", epoch + 1, s->run.n_epochs);
    return PG_OK;
}

/* Once per run; --terminate-on-nan has a message of its own. */
static void warn_of_nan(fit_screen *s, size_t batch, const pg_logs *own)
{
    if (s->warned || own->n == 0 || isfinite(own->values[0]) || cli.quiet)
        return;
    s->warned = 1;
    if (s->live && s->drawn)
        fputs("\r\033[K", stdout);
    s->drawn = 0;
    fflush(stdout);
    cli_printf(stderr,
               "note: loss is %s since epoch %zu, batch %zu; --terminate-on-nan stops there and "
               "says where it arose\n",
               isnan(own->values[0]) ? "NaN" : "infinite", s->epoch + 1, batch + 1);
}

static pg_status batch_end(void *user, size_t batch, const pg_logs *own, const pg_logs *running,
                           pg_err *err)
{
    fit_screen *s = user;
    const double t = fit_now(), last = batch > 0 ? s->trained : s->begun;
    line l = {.n = 0};
    (void)err;
    s->trained = t;
    warn_of_nan(s, batch, own);
    fit_watch_gpus(s);
    if (fit_args.json && strcmp(fit_args.json, "batch") == 0)
        print_json("batch", s->epoch, &batch, t - last, own);
    if (!s->live || t < s->next)
        return PG_OK;
    s->next = t + redraw_s;
    put_bar(&l, batch + 1, s->run.n_batches);
    put_eta(&l, (t - s->begun) / (double)(batch + 1) * (double)(s->run.n_batches - batch - 1));
    put_values(&l, running, " - ", ": ");
    draw(&l, 1);
    s->drawn = 1;
    return PG_OK;
}

/* The name of the curve: the last validation loss in the logs, or the loss. */
static void remember(fit_screen *s, size_t epoch, const pg_logs *logs)
{
    size_t at = 0;
    for (size_t i = 0; i < logs->n; i++)
        at = strcmp(logs->names[i], "val_loss") == 0 ? i : at;
    snprintf(s->watched, sizeof s->watched, "%s", logs->n > 0 ? logs->names[at] : "loss");
    if (s->n_history == 0)
        s->first = epoch;
    if (s->n_history < s->run.n_epochs && logs->n > 0)
        s->history[s->n_history++] = logs->values[at];
}

static pg_status epoch_end(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    fit_screen *s = user;
    const double all = fit_now() - s->begun;
    line l = {.n = 0};
    (void)err;
    remember(s, epoch, logs);
    if (cli.json) {
        print_json("epoch", epoch, NULL, 0, logs);
    } else if (s->live) {
        put_bar(&l, s->run.n_batches, s->run.n_batches);
        put_pace(&l, s->trained - s->begun, s->run.n_batches);
        put_values(&l, logs, " - ", ": ");
        draw(&l, 0);
        s->drawn = 0;
    } else if (!cli.quiet) {
        put(&l, "epoch %zu/%zu", epoch + 1, s->run.n_epochs);
        put_values(&l, logs, " ", "=");
        put(&l, " %.1fs", all);
        cli_printf(stdout, "%s\n", l.s);
        fflush(stdout);
    }
    fit_print_gpus(s);
    return PG_OK;
}

static void train_end(void *user, const pg_fit_report *report)
{
    fit_screen *s = user;
    s->ended = 1;
    fit_print_end(s, report);
}

pg_callback fit_screen_callback(fit_screen *s)
{
    return (pg_callback){.user = s,
                         .train_begin = train_begin,
                         .epoch_begin = epoch_begin,
                         .batch_end = batch_end,
                         .epoch_end = epoch_end,
                         .event = fit_show_event,
                         .train_end = train_end};
}

void fit_show_note(const char *text)
{
    if (cli.json) {
        fputs("{\"event\": \"note\", \"text\": ", stdout);
        json_quoted(text);
        puts("}");
    } else if (!cli.quiet) {
        cli_printf(stdout, "note: %s\n", text);
    }
}

/* How the processes compared their data. */
void fit_show_compared(const pg_trainer *t)
{
    const char *text;
    if (!cli.verbose || cli.json || cli.quiet)
        return;
    for (size_t i = 0; (text = pg_trainer_compared(t, i)); i++)
        cli_printf(stdout, "compared %s\n", text);
}

void fit_show_notes(const pg_trainer *t, size_t *n_shown)
{
    for (; *n_shown < pg_trainer_n_notes(t); ++*n_shown)
        fit_show_note(pg_trainer_note(t, *n_shown));
}
