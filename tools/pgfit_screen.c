/* pgfit_screen.c - what pgfit shows of a run: lines that are drawn again on a terminal, plain ones
 * in a pipe, JSON for scripts. */
#include <time.h>

#include "json_out.h"
#include "pgfit.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void print_json(const char *event, size_t epoch, const size_t *batch, const pg_logs *logs)
{
    printf("{\"event\": \"%s\", \"epoch\": %zu", event, epoch + 1);
    if (batch)
        printf(", \"batch\": %zu", *batch + 1);
    for (size_t i = 0; i < logs->n; i++)
        printf(", \"%s\": %.9g", logs->names[i], logs->values[i]);
    puts("}");
}

static void print_values(const pg_logs *logs, const char *between, const char *equals)
{
    for (size_t i = 0; i < logs->n; i++)
        printf("%s%s%s%.4f", between, logs->names[i], equals, logs->values[i]);
}

static pg_status epoch_begin(void *user, size_t epoch, pg_err *err)
{
    fit_screen *s = user;
    (void)err;
    s->epoch = epoch;
    s->begun = now();
    if (s->live)
        printf("Epoch %zu/%zu\n", epoch + 1, s->epochs);
    return PG_OK;
}

static pg_status batch_end(void *user, size_t batch, const pg_logs *own, const pg_logs *running,
                           pg_err *err)
{
    fit_screen *s = user;
    if (*cli_cancel())
        return pg_fail(err, PG_E_CANCELLED, "interrupted");
    if (cli.json && fit_args.batches)
        print_json("batch", s->epoch, &batch, own);
    if (!s->live)
        return PG_OK;
    printf("\r%zu - %.0fs", batch + 1, now() - s->begun);
    print_values(running, " - ", ": ");
    fflush(stdout);
    return PG_OK;
}

static pg_status epoch_end(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    fit_screen *s = user;
    (void)err;
    if (cli.json) {
        print_json("epoch", epoch, NULL, logs);
    } else if (s->live) {
        printf("\r%.1fs", now() - s->begun);
        print_values(logs, " - ", ": ");
        fputs("\033[K\n", stdout);
    } else if (!cli.quiet) {
        printf("epoch %zu/%zu", epoch + 1, s->epochs);
        print_values(logs, " ", "=");
        printf(" %.1fs\n", now() - s->begun);
    }
    fflush(stdout);
    return PG_OK;
}

pg_callback fit_screen_callback(fit_screen *s)
{
    return (pg_callback){
        .user = s, .epoch_begin = epoch_begin, .batch_end = batch_end, .epoch_end = epoch_end};
}

void fit_show_notes(const pg_trainer *t, size_t *n_shown)
{
    for (; *n_shown < pg_trainer_n_notes(t); ++*n_shown) {
        const char *note = pg_trainer_note(t, *n_shown);
        if (cli.json) {
            fputs("{\"event\": \"note\", \"text\": ", stdout);
            json_string(note);
            puts("}");
        } else if (!cli.quiet) {
            cli_printf(stdout, "note: %s\n", note);
        }
    }
}
