/* pgfit - trains a model that Keras describes, on one or several devices.
 *
 * pgfit_options.c has the options, pgfit_screen.c what is shown while it runs. */
#include <string.h>

#include "pgfit.h"

static pg_status run(pg_err *err)
{
    pg_trainer *trainer = NULL;
    pg_data *rows = NULL, *held_out = NULL;
    fit_screen s;
    const pg_callback cb = fit_screen_callback(&s);
    const pg_save_opts save = {.force = fit_args.force, .full_model = fit_args.full_model};
    size_t n_notes = 0;
    fit_screen_open(&s);
    pg_status st =
        fit_args.output ? pg_trainer_check_output(NULL, fit_args.output, &save, err) : PG_OK;
    if (st == PG_OK)
        st = pg_trainer_open(&trainer, &fit_args.train, err);
    if (st == PG_OK && fit_args.output)
        st = pg_trainer_check_output(trainer, fit_args.output, &save, err);
    if (st == PG_OK)
        fit_show_notes(trainer, &n_notes);
    if (st == PG_OK && fit_args.data)
        st = fit_open_data(&rows, fit_args.data, err);
    if (st == PG_OK && fit_args.validation)
        st = fit_open_data(&held_out, fit_args.validation, err);
    fit_args.fit.validation = held_out;
    fit_args.fit.cancel = cli_cancel();
    if (st == PG_OK && fit_args.evaluate)
        st = fit_evaluate(trainer, rows, err);
    else if (st == PG_OK && fit_args.data && fit_args.dry_run)
        st = fit_plan(trainer, rows, err);
    else if (st == PG_OK && fit_args.data)
        st = pg_fit(trainer, rows, &fit_args.fit, &cb, err);
    if (st == PG_OK && fit_args.output && !fit_args.dry_run)
        st = pg_trainer_save(trainer, fit_args.output, &save, err);
    if (st == PG_OK && pg_trainer_saved(trainer) &&
        strcmp(pg_trainer_saved(trainer), fit_args.output) == 0)
        fit_print_saved(fit_args.output);
    if (st == PG_OK)
        fit_show_notes(trainer, &n_notes);
    if (st == PG_OK && fit_args.predict && !fit_args.dry_run)
        st = fit_predict(trainer, err);
    fit_screen_close(&s);
    pg_data_close(held_out);
    pg_data_close(rows);
    pg_trainer_close(trainer);
    return st;
}

/* From the command line and --config to what the library takes. */
static pg_status read_arguments(pg_err *err)
{
    pg_status st = fit_read_config(err);
    if (st == PG_OK)
        st = fit_take_demo(err);
    if (st == PG_OK)
        st = fit_read_resume(err);
    if (st == PG_OK)
        st = fit_make_callbacks(err);
    if (st == PG_OK) {
        fit_read_arguments();
        fit_set_resume();
    }
    return st;
}

int main(int argc, char **argv)
{
    pg_err err = {0};
    fit_args.train.model = cli_parse(&fit_tool, argc, argv) ? argv[1] : NULL;
    pg_status st = read_arguments(&err);
    if (st == PG_OK && fit_args.list_layers)
        fit_print_layers();
    else if (st == PG_OK && fit_args.print_config)
        fputs(fit_config_text(), stdout);
    else if (st == PG_OK && !fit_check_arguments(&err))
        st = err.code;
    else if (st == PG_OK && fit_args.summary)
        st = fit_print_summary(fit_args.train.model, &err);
    else if (st == PG_OK)
        st = run(&err);
    fit_name_option(&err);
    return cli_finish(st == PG_OK ? CLI_OK : cli_fail(&err));
}
