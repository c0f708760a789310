/* pgfit_data.c - pgfit's data, and what it does with them but training: --evaluate, --predict. */
#include "pgfit.h"

pg_status fit_open_data(pg_data **out, const char *path, pg_err *err)
{
    pg_data *d = NULL;
    pg_status st = pg_data_open(&d, path, err);
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

static pg_predict_opts predict_options(int is_profiled)
{
    return (pg_predict_opts){.batch_size = fit_args.fit.batch_size,
                             .force = fit_may_replace("out"),
                             .profile = is_profiled,
                             .cancel = cli_cancel()};
}

/* What nobody trained tells nothing, and looks as if it did. */
static void note_untrained(const pg_trainer *t)
{
    if (pg_trainer_is_untrained(t))
        fit_show_note("the weights are the initializers' draw, nothing was trained: --weights FILE "
                      "gives others");
}

pg_status fit_evaluate(pg_trainer *t, pg_data *data, pg_err *err)
{
    const pg_predict_opts opts = predict_options(fit_args.fit.profile);
    pg_logs logs;
    note_untrained(t);
    const pg_status st = pg_evaluate(t, data, &opts, &logs, err);
    if (st != PG_OK)
        return st;
    fputs(cli.json ? "{\"event\": \"evaluate\"" : "", stdout);
    for (size_t i = 0; i < logs.n; i++)
        if (cli.json)
            printf(", \"%s\": %.9g", logs.names[i], logs.values[i]);
        else
            printf("%s%s=%.4f", i > 0 ? " " : "", logs.names[i], logs.values[i]);
    puts(cli.json ? "}" : "");
    return opts.profile ? fit_print_profile(t, err) : PG_OK;
}

pg_status fit_predict(pg_trainer *t, pg_err *err)
{
    /* with --data it is training that was profiled */
    const pg_predict_opts opts = predict_options(fit_args.fit.profile && !fit_args.data);
    pg_data *data = NULL;
    note_untrained(t);
    pg_status st = pg_trainer_agree(t, fit_open_data(&data, fit_args.predict, err), err);
    if (st == PG_OK)
        st = pg_predict_file(t, data, fit_args.out, &opts, err);
    pg_data_close(data);
    if (st == PG_OK)
        fit_print_predicted(fit_args.out);
    if (st == PG_OK && opts.profile)
        st = fit_print_profile(t, err);
    return st;
}
