/* pgfit_events.c - prints events between the steps; at the end, lists the checkpoints and how to
 * use them. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json_out.h"
#include "pgfit.h"

enum { MAX_SHOWN = 6 }; /* checkpoints in the last lines */

/* ---- events ---- */

static const char *word_of(pg_event_kind kind)
{
    switch (kind) {
    case PG_EVENT_NOTE: return "note";
    case PG_EVENT_WARNING: return "warning";
    case PG_EVENT_CHECKPOINT: return "checkpoint";
    case PG_EVENT_RATE: return "rate";
    case PG_EVENT_STOP: return "stop";
    case PG_EVENT_RESUME: return "resume";
    case PG_EVENT_SKIPPED: return "skipped";
    }
    return "note";
}

static void print_json(const pg_event *e)
{
    printf("{\"event\": \"%s\"", word_of(e->kind));
    if (e->file)
        json_member("file", e->file);
    printf(", \"epoch\": %zu", e->epoch + 1);
    if (e->text && *e->text)
        json_member("text", e->text);
    puts("}");
    fflush(stdout);
}

/* Erases the bar; the next batch redraws it. */
static void clear_bar(fit_screen *s)
{
    if (s->live && s->drawn)
        fputs("\r\033[K", stdout);
    s->drawn = 0;
    s->next = 0;
}

static void print_text(const fit_screen *s, const pg_event *e)
{
    FILE *f = e->kind == PG_EVENT_WARNING ? stderr : stdout;
    switch (e->kind) {
    case PG_EVENT_NOTE: cli_printf(f, "note: %s\n", e->text); break;
    case PG_EVENT_CHECKPOINT:
        cli_printf(f, "%s %s\n", s->live ? "  \xE2\x80\xA6" : "saved", cli_name(e->file).s);
        break;
    case PG_EVENT_RATE:
    case PG_EVENT_SKIPPED:
    case PG_EVENT_STOP: cli_printf(f, "Epoch %zu: %s\n", e->epoch + 1, e->text); break;
    case PG_EVENT_RESUME: cli_printf(f, "resuming %s: %s\n", cli_name(e->file).s, e->text); break;
    case PG_EVENT_WARNING:
        fflush(stdout);
        cli_color(f, CLI_WARN);
        cli_printf(f, "warning:");
        cli_color(f, CLI_PLAIN);
        cli_printf(f, " epoch %zu: %s\n", e->epoch + 1, e->text);
    }
    fflush(f);
}

/* A file that was written again moves to the end. The best one is marked with a word. */
static pg_status remember(fit_screen *s, const char *file, int is_best, pg_err *err)
{
    char *copy = strdup(file);
    if (copy && is_best)
        s->best = copy;
    for (size_t i = 0; copy && i < s->n_files; i++) {
        if (strcmp(s->files[i], file) != 0)
            continue;
        s->best = s->best == s->files[i] ? copy : s->best;
        free(s->files[i]);
        memmove(&s->files[i], &s->files[i + 1], (s->n_files - i - 1) * sizeof *s->files);
        s->n_files--;
    }
    char **more = copy ? realloc(s->files, (s->n_files + 1) * sizeof *more) : NULL;
    if (!more) {
        s->best = NULL;
        free(copy);
        return pg_fail(err, PG_E_NOMEM, "out of memory");
    }
    s->files = more;
    s->files[s->n_files++] = copy;
    return PG_OK;
}

pg_status fit_show_event(void *user, const pg_event *e, pg_err *err)
{
    fit_screen *s = user;
    if (cli.json) {
        print_json(e);
    } else if (!cli.quiet && (cli.verbose || e->kind != PG_EVENT_SKIPPED)) {
        clear_bar(s);
        print_text(s, e);
    }
    if (e->kind != PG_EVENT_CHECKPOINT || !e->file)
        return PG_OK;
    return remember(s, e->file, e->text && *e->text, err);
}

/* ---- the end of the run ---- */

static void drop_removed(fit_screen *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_files; i++)
        if (access(s->files[i], F_OK) == 0) {
            s->files[n++] = s->files[i];
        } else {
            s->best = s->best == s->files[i] ? NULL : s->best;
            free(s->files[i]);
        }
    s->n_files = n;
}

static void print_how(const char *file)
{
    const size_t n = strlen(file);
    const char *only = fit_callback_text("ModelCheckpoint", "save_weights_only");
    const int weights = (n > 11 && strcmp(file + n - 11, ".weights.h5") == 0) ||
                        (only && strcmp(only, "true") == 0);
    if (n > 7 && strcmp(file + n - 7, ".shards") == 0)
        cli_printf(stdout, "put it together:  pgjoin %s model.h5", cli_quote(file).s);
    else
        cli_printf(stdout, "load it:  %s(\"%s\")",
                   weights ? "model.load_weights" : "model = keras.models.load_model",
                   cli_name(file).s);
}

/* A resumed run does not write the best one again: the link beside the last one leads to it. */
static void find_best(fit_screen *s)
{
    char link[PATH_MAX], to[PATH_MAX], path[2 * PATH_MAX];
    const char *last = s->n_files > 0 ? s->files[s->n_files - 1] : "";
    const char *slash = strrchr(last, '/');
    const int dir = slash ? (int)(slash - last) + 1 : 0;
    pg_err err;
    snprintf(link, sizeof link, "%.*sbest", dir, last);
    const ssize_t len = *last && !s->best ? readlink(link, to, sizeof to - 1) : -1;
    if (len <= 0)
        return;
    to[len] = '\0';
    snprintf(path, sizeof path, "%.*s%s", dir, last, to);
    if (access(path, F_OK) != 0 || remember(s, path, 1, &err) != PG_OK)
        return;
    char *best = s->files[s->n_files - 1]; /* to the front: it is older than all others */
    if (strcmp(best, last) != 0) {
        memmove(&s->files[1], &s->files[0], (s->n_files - 1) * sizeof *s->files);
        s->files[0] = best;
    }
}

void fit_print_kept(fit_screen *s)
{
    drop_removed(s);
    find_best(s);
    fputs(s->n_files > 0 ? "kept:" : "", stdout);
    for (size_t i = 0; i < s->n_files; i++) {
        const int is_best = s->files[i] == s->best, is_last = i + 1 == s->n_files;
        if (is_best || is_last || s->n_files - i < MAX_SHOWN)
            cli_printf(stdout, "%s %s%s", i > 0 ? " " : "", cli_name(s->files[i]).s,
                       is_best && is_last ? " (best, last)"
                       : is_best          ? " (best)"
                       : is_last          ? " (last)"
                                          : "");
    }
    fputs(s->n_files > 0 ? "\n" : "", stdout);
}

void fit_print_use(const fit_screen *s)
{
    const char *logs = fit_callback_text("TensorBoard", "log_dir");
    const int some = s->n_files > 0 && !fit_args.output; /* printed later */
    if (some)
        print_how(s->best ? s->best : s->files[s->n_files - 1]);
    if (logs)
        cli_printf(stdout, "%scurves:  tensorboard --logdir %s", some ? "        " : "",
                   cli_quote(logs).s);
    if (logs || some)
        putchar('\n');
}
