/* pgfit_data.c - opens the data, and does --evaluate and --predict. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "pgfit.h"

/* The names of --x and --y must be in the file of --data; other files may lack them. */
static pg_status select_arrays(pg_data *d, const char *path, pg_err *err)
{
    const int must = path == fit_args.data || !fit_args.data;
    const char *x = fit_args.x, *y = fit_args.y;
    if (!must && ((x && !pg_data_holds(d, x)) || (y && !pg_data_holds(d, y))))
        return PG_OK;
    return x || y ? pg_data_select(d, x, y, err) : PG_OK;
}

static pg_status open_as_wanted(pg_data **out, const char *path, const char *set, pg_err *err)
{
    pg_data *d = NULL;
    pg_status st = pg_data_open(&d, path, err);
    if (st == PG_OK)
        st = set ? pg_data_set(d, set, err) : select_arrays(d, path, err);
    if (st == PG_OK)
        pg_data_allow_classes(d, fit_args.any_classes);
    if (st == PG_OK && fit_args.reshape)
        st = pg_data_reshape(d, fit_args.reshape, err);
    if (st == PG_OK && fit_args.interpolation)
        st = pg_data_interpolate(d, fit_args.interpolation, err);
    if (st != PG_OK) {
        pg_data_close(d);
        return st;
    }
    *out = d;
    return PG_OK;
}

pg_status fit_open_data(pg_data **out, const char *path, pg_err *err)
{
    return open_as_wanted(out, path, NULL, err);
}

/* Decides whether the word names a set of the file of --data, or a file. */
static pg_status is_own_set(int *yes, const char *word, pg_err *err)
{
    struct stat sb;
    pg_data *d = NULL;
    *yes = fit_args.data && (strcmp(word, "test") == 0 || strcmp(word, "val") == 0);
    if (!*yes || stat(word, &sb) != 0)
        return PG_OK;
    const pg_status st = pg_data_open(&d, fit_args.data, err);
    *yes = st == PG_OK && pg_data_has_set(d, word);
    pg_data_close(d);
    if (*yes) {
        char note[128];
        (void)snprintf(note, sizeof note,
                       "--val %s is the %s set of the file of --data; --val ./%s takes the %s of "
                       "that name here",
                       word, word, word, S_ISDIR(sb.st_mode) ? "folder" : "file");
        fit_show_note(note);
    }
    return st;
}

pg_status fit_open_validation(pg_data **out, pg_err *err)
{
    const char *val = fit_args.validation;
    int own = 0;
    const pg_status st = is_own_set(&own, val, err);
    if (st != PG_OK)
        return st;
    return own ? open_as_wanted(out, fit_args.data, val, err) : open_as_wanted(out, val, NULL, err);
}

void fit_show_data_notes(const pg_data *d)
{
    for (size_t i = 0; d && i < pg_data_n_notes(d); i++)
        fit_show_note(pg_data_note(d, i));
}

static pg_predict_opts predict_options(int is_profiled)
{
    return (pg_predict_opts){.batch_size = fit_args.fit.batch_size,
                             .force = fit_may_replace("out"),
                             .profile = is_profiled,
                             .cancel = cli_cancel()};
}

/* Predictions of an untrained model mean nothing, but look as if they did. */
static void note_untrained(const pg_trainer *t)
{
    if (pg_trainer_is_untrained(t))
        fit_show_note("the weights are untrained, as the initializers drew them: --weights FILE "
                      "loads trained ones");
}

static void print_logs(const pg_logs *logs, const char *event, const char *before)
{
    if (cli.json)
        printf("{\"event\": \"%s\"", event);
    else
        fputs(before, stdout);
    for (size_t i = 0; i < logs->n; i++)
        if (cli.json)
            printf(isfinite(logs->values[i]) ? ", \"%s\": %.9g" : ", \"%s\": null", logs->names[i],
                   logs->values[i]);
        else
            printf("%s%s=%.4f", i > 0 ? " " : "", logs->names[i], logs->values[i]);
    puts(cli.json ? "}" : "");
}

/* What int8 changes: loss and metrics without it. */
static pg_status evaluate_unquantized(pg_trainer *t, pg_data *data, pg_err *err)
{
    pg_predict_opts opts = predict_options(0);
    pg_logs logs;
    pg_status st = PG_OK;
    opts.unquantized = 1;
    if (pg_trainer_n_quantized(t) == 0) {
        fit_note_unquantized();
        return PG_OK;
    }
    st = pg_trainer_reset_states(t, err);
    if (st == PG_OK)
        st = pg_evaluate(t, data, &opts, &logs, err);
    if (st == PG_OK)
        print_logs(&logs, "evaluate_unquantized", "not quantized: ");
    return st;
}

pg_status fit_evaluate(pg_trainer *t, pg_data *data, pg_err *err)
{
    const pg_predict_opts opts = predict_options(fit_args.fit.profile);
    pg_logs logs;
    note_untrained(t);
    pg_status st = pg_evaluate(t, data, &opts, &logs, err);
    if (st != PG_OK)
        return st;
    fit_show_data_notes(data);
    fit_show_compared(t);
    print_logs(&logs, "evaluate", "");
    if (opts.profile)
        st = fit_print_profile(t, err);
    return st == PG_OK && fit_args.tells_quantized ? evaluate_unquantized(t, data, err) : st;
}

pg_status fit_open_asked(pg_data **out, const pg_trainer *t, pg_err *err)
{
    const pg_predict_opts opts = predict_options(0);
    const pg_status st = pg_predict_check_file(t, fit_args.out, &opts, err);
    return st == PG_OK ? fit_open_data(out, fit_args.predict, err) : st;
}

#define FEW 16 /* rows: a comparison should not take longer than the predictions */

static pg_status show_quantized(pg_trainer *t, pg_data *data, pg_err *err)
{
    pg_predict_opts opts = predict_options(0);
    pg_quantized q;
    if (!fit_args.tells_quantized)
        return PG_OK;
    opts.steps = 1;
    if (opts.batch_size == 0 || opts.batch_size > FEW)
        opts.batch_size = FEW;
    const pg_status st = pg_predict_quantized(t, data, &opts, &q, err);
    if (st == PG_OK && q.n_rows > 0)
        fit_print_quantized(&q);
    return st;
}

pg_status fit_predict(pg_trainer *t, pg_data *data, pg_err *err)
{
    /* with --data, the profile is that of training */
    const pg_predict_opts opts = predict_options(fit_args.fit.profile && !fit_args.data);
    note_untrained(t);
    pg_status st = pg_predict_file(t, data, fit_args.out, &opts, err);
    if (st == PG_OK) {
        fit_show_data_notes(data);
        fit_show_compared(t);
        fit_print_predicted(fit_args.out);
        st = show_quantized(t, data, err);
    }
    if (st == PG_OK && opts.profile)
        st = fit_print_profile(t, err);
    return st;
}
