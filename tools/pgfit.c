/* pgfit - trains a model that Keras describes, on one or several devices.
 *
 * pgfit_options.c holds the options, pgfit_screen.c the display of a run. */
#include <stdlib.h>
#include <string.h>

#include "pgfit.h"

typedef struct things {
    pg_trainer *trainer;
    pg_data *rows, *held_out, *asked; /* asked: the rows of --predict */
    pg_save_opts save;
    size_t n_notes; /* shown so far */
} things;

static pg_status open_things(things *t, pg_err *err)
{
    size_t n_ranks;
    const int writes = pg_job_rank(&n_ranks) == 0; /* rank 0 checks before the model is read */
    const char *output = writes ? fit_args.output : NULL;
    pg_status st =
        output && n_ranks == 1 ? pg_trainer_check_output(NULL, output, &t->save, err) : PG_OK;
    if (st == PG_OK)
        st = pg_trainer_open(&t->trainer, &fit_args.train, err);
    if (st == PG_OK && output)
        st = pg_trainer_check_output(t->trainer, output, &t->save, err);
    if (st == PG_OK)
        fit_show_notes(t->trainer, &t->n_notes);
    if (st == PG_OK && fit_args.data)
        st = fit_open_data(&t->rows, fit_args.data, err);
    if (st == PG_OK && fit_args.validation)
        st = fit_open_validation(&t->held_out, err);
    if (st == PG_OK && fit_args.predict) /* fail before hours of training, not after */
        st = fit_open_asked(&t->asked, t->trainer, err);
    if (t->trainer)
        st = pg_trainer_agree(t->trainer, st, err);
    fit_args.fit.validation = t->held_out;
    fit_args.fit.cancel = cli_cancel();
    return st;
}

/* Scripts look for the name that they gave, so another name is an error. */
static pg_status report_saved(const things *t, pg_err *err)
{
    const char *name = fit_args.output, *saved = pg_trainer_saved(t->trainer);
    if (!saved || !name)
        return PG_OK;
    if (strcmp(saved, name) == 0)
        fit_print_saved(saved);
    if (strncmp(saved, name, strlen(name)) == 0) /* the file, or its shards */
        return PG_OK;
    fit_print_saved(saved);
    return pg_fail(
        err, PG_E_IO,
        "%s: another program created this file meanwhile, so it stays; the model is in %s",
        cli_name(name).s, cli_name(saved).s);
}

/* Does what the options ask for with a trainer that is open. */
static pg_status use_trainer(things *t, pg_err *err)
{
    pg_err why = {0};
    pg_status st = PG_OK, printed = PG_OK;
    if (fit_args.output) {
        t->save.force = fit_owns_output();
        st = pg_trainer_save(t->trainer, fit_args.output, &t->save, err);
        st = pg_trainer_agree(t->trainer, st, err);
    }
    if (st == PG_OK) {
        printed = report_saved(t, &why);
        fit_show_notes(t->trainer, &t->n_notes);
    }
    if (st == PG_OK && fit_args.predict)
        st = fit_predict(t->trainer, t->asked, err);
    if (st == PG_OK && printed != PG_OK)
        *err = why;
    return st == PG_OK ? printed : st;
}

/* If only a checkpoint failed, the trained model is still used; an error of that is reported
 * together with the first. */
static pg_status train(things *t, pg_err *err)
{
    fit_screen s;
    const pg_callback cb = fit_screen_callback(&s);
    pg_status st = PG_OK;
    fit_screen_open(&s, t->trainer);
    s.rows = t->rows;
    if (fit_args.data)
        st = pg_fit(t->trainer, t->rows, &fit_args.fit, &cb, err);
    if (st == PG_OK && fit_args.data && fit_args.fit.profile)
        st = fit_print_profile(t->trainer, err);
    if (st == PG_OK || s.ended) {
        pg_err why = {0};
        const pg_status used = use_trainer(t, st == PG_OK ? err : &why);
        if (st != PG_OK && used != PG_OK)
            pg_err_detail(err, "and %s", why.msg);
        st = st == PG_OK ? used : st;
    }
    fit_screen_close(&s);
    return st;
}

/* Warns before a long training whose result nothing keeps. A program that reads --json knows what
 * it asked for. */
static void warn_if_lost(void)
{
    if (!cli.json && !fit_args.output && !fit_args.predict && !fit_args.resume_every &&
        !fit_args.is_demo && !fit_callback_text("ModelCheckpoint", "filepath"))
        fit_show_note("nothing saves the trained model: give -o FILE or --checkpoint FILE");
}

static pg_status run(pg_err *err)
{
    things t = {.save = {.force = fit_may_replace("output"),
                         .full_model = fit_args.full_model,
                         .beside = 1}};
    pg_status st = fit_args.plan ? fit_measure_links(err) : PG_OK;
    if (fit_args.plan && pg_job_rank(NULL) > 0)
        return st;
    if (st == PG_OK)
        st = open_things(&t, err);
    if (st == PG_OK && fit_args.evaluate) {
        st = fit_evaluate(t.trainer, t.rows, err);
        if (st == PG_OK && !fit_args.dry_run)
            st = use_trainer(&t, err);
    } else if (st == PG_OK && fit_args.plan) {
        st = fit_print_scaling(t.trainer, t.rows, err);
    } else if (st == PG_OK && fit_args.dry_run) {
        st = fit_args.data ? fit_plan(t.trainer, t.rows, err) : PG_OK;
    } else if (st == PG_OK) {
        warn_if_lost();
        st = train(&t, err);
    }
    pg_data_close(t.asked);
    pg_data_close(t.held_out);
    pg_data_close(t.rows);
    pg_trainer_close(t.trainer);
    return st;
}

/* Turns the command line and --config into the options of the library. */
static pg_status read_arguments(char *const *operands, size_t n, pg_err *err)
{
    pg_status st = fit_take_operands(operands, n, err);
    if (st == PG_OK)
        st = fit_take_plan(err);
    if (st == PG_OK)
        st = fit_read_config(err);
    if (st == PG_OK)
        st = fit_take_demo(err);
    if (st == PG_OK)
        st = fit_read_resume(err);
    if (st == PG_OK)
        st = fit_take_model_text(err);
    if (st == PG_OK)
        st = fit_make_callbacks(err);
    if (st == PG_OK) {
        fit_read_arguments();
        fit_set_resume();
    }
    return st;
}

/* cli_parse() brings the operands to the front. */
static char **copy_arguments(int argc, char *const *argv)
{
    char **copy = calloc((size_t)argc + 1, sizeof *copy);
    for (int i = 0; copy && i < argc; i++)
        copy[i] = argv[i];
    return copy;
}

/* Releases the other processes of the job; rank 0 prints for all. */
void fit_refuse(pg_err *err)
{
    fit_name_option(err);
    err->code = pg_job_refuse(err);
}

int main(int argc, char **argv)
{
    pg_err err = {0};
    int has_run = 0; /* the other processes know of the error */
    char **given = copy_arguments(argc, argv);
    const size_t n = cli_parse(&fit_tool, argc, argv), rank = pg_job_rank(NULL);
    pg_status st =
        given ? read_arguments(argv + 1, n, &err) : pg_fail(&err, PG_E_NOMEM, "out of memory");
    if (st == PG_OK)
        st = fit_start_on_hosts(given, &err);
    free(given);
    if (rank > 0) { /* rank 0 prints for all */
        cli.quiet = 1;
        if (!freopen("/dev/null", "w", stdout))
            return CLI_TROUBLE;
    }
    if (st == PG_OK && fit_args.list_layers) {
        st = fit_print_layers(&err);
    } else if (st == PG_OK && fit_args.print_config) {
        fputs(fit_config_text(0), stdout);
    } else if (st == PG_OK && !fit_check_arguments(&err)) {
        st = err.code;
    } else if (st == PG_OK && fit_args.summary) {
        st = fit_print_summary(&err);
    } else if (st == PG_OK) {
        st = run(&err);
        has_run = 1;
    }
    if (st != PG_OK && has_run)
        fit_name_option(&err);
    else if (st != PG_OK)
        fit_refuse(&err);
    if (rank > 0 && st == PG_E_ARG && has_run)
        err.msg[0] = '\0';
    return cli_finish(st == PG_OK ? CLI_OK : cli_fail(&err));
}
