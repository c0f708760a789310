/* pgfit.h - what the parts of pgfit share: the arguments, and what is shown of a run. */
#ifndef PGFIT_H
#define PGFIT_H

#include "cli.h"

/* pgfit_options.c: the command line, as the library takes it where it can. */
typedef struct fit_arguments {
    pg_train_opts train;
    pg_fit_opts fit; /* without the data */
    const char *data, *validation, *reshape, *interpolation;
    const char *predict, *out;
    const char *output;
    int batches, force, full_model, dry_run;
    int summary, list_layers, evaluate;
} fit_arguments;
extern fit_arguments fit_args;
extern const cli_tool fit_tool;

/* After parsing: fills in what the table cannot, and checks what no library call would refuse;
 * fit_check_arguments() is 0 and *err filled where something is wrong. */
void fit_read_arguments(const char *model); /* NULL: none was given */
int fit_check_arguments(pg_err *err);

/* pgfit_model.c: what is told of a model, and of the layers there are. */
pg_status fit_print_summary(const char *model, pg_err *err);
void fit_print_layers(void);

/* pgfit_data.c: data as the options want them, and what is done with them but training. */
pg_status fit_open_data(pg_data **out, const char *path, pg_err *err);
pg_status fit_evaluate(pg_trainer *t, pg_data *data, pg_err *err);
pg_status fit_predict(pg_trainer *t, pg_err *err);

/* pgfit_screen.c */
void fit_show_notes(const pg_trainer *t, size_t *n_shown); /* those that were not shown yet */
typedef struct fit_screen {
    size_t epoch, epochs;
    double begun; /* of the epoch, seconds */
    int live;     /* a terminal: one line is drawn again and again */
} fit_screen;
pg_callback fit_screen_callback(fit_screen *s);

#endif
