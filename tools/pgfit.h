/* pgfit.h - what the parts of pgfit share: the arguments, and what is shown of a run. */
#ifndef PGFIT_H
#define PGFIT_H

#include "cli.h"

/* pgfit_options.c: the command line, as the library takes it where it can. */
typedef struct fit_arguments {
    pg_train_opts train;
    pg_fit_opts fit; /* without the data */
    const char *data, *validation, *reshape, *interpolation;
    const char *x, *y; /* names of arrays or columns */
    int any_classes;
    const char *predict, *out;
    const char *output, *demo;
    const char *json;    /* "batch", or NULL */
    const char *profile; /* "layers", or NULL */
    const char *config, *hosts;
    const char *plan; /* devices that a plan is made for, or NULL */
    pg_plan_opts plan_for;
    const char *resume, *resume_every;
    int force, full_model, dry_run;
    int summary, list_layers, evaluate, print_config, resumes, is_demo;
} fit_arguments;
extern fit_arguments fit_args;
extern const cli_tool fit_tool;

/* After parsing: fills in what the table cannot, and checks what no library call would refuse;
 * fit_check_arguments() is 0 and *err filled where something is wrong. */
void fit_read_arguments(void);
int fit_check_arguments(pg_err *err);

/* pgfit_config.c: --config, for what the command line left open, and --print-config. */
pg_status fit_read_config(pg_err *err);
pg_status fit_take_settings(const char *text, const char *from, pg_err *err); /* the same, given */
const char *fit_config_source(void); /* file that is being read */
/* All options, as --config takes them; for_resume: with the folder and the file of the run. NULL:
 * no memory. */
const char *fit_config_text(int for_resume);
const char *
fit_setting(const char *key); /* a text that was given to fit_take_settings(), or NULL */
void fit_set_where_open(const char *option, const char *value);
const cli_opt *fit_option(const char *name); /* {0} at last */
cli_buf fit_shown(const pg_config *v);       /* in an error: texts in quotes, long ones cut */
int fit_is_number(const char *s);            /* as JSON writes them: "007" is none */

/* pgfit_callbacks.c: the callbacks that options and the file ask for. */
pg_status fit_take_callbacks(const pg_config *v, pg_err *err); /* of the file, before: */
pg_status fit_make_callbacks(pg_err *err);                     /* of the options */
void fit_refuse(pg_err *err);      /* before anything is opened; what is left of it to print */
void fit_name_option(pg_err *err); /* instead of the class that it became */
int fit_is_of_callback(const char *option);
int fit_is_by_epoch(const char *schedule); /* NULL: no */
void fit_print_callbacks(FILE *f);         /* the elements of a list */
/* A parameter of the first callback of a class; NULL: there is none. */
const char *fit_callback_text(const char *class_name, const char *key);

/* pgfit_resume.c: --resume; what is not given is taken from the file that the run goes on from. */
pg_status fit_take_operands(char *const *operands, size_t n, pg_err *err); /* before all others */
pg_status fit_read_resume(pg_err *err);
void fit_set_resume(void);               /* when all options are known */
int fit_may_replace(const char *option); /* the file of "output" or "out" */
int fit_owns_output(void);               /* when it is written */
void fit_print_folder(FILE *f);          /* members of the settings */

/* pgfit_hosts.c: --hosts; does not return where mpirun takes over. argv: as main() was given it. */
pg_status fit_start_on_hosts(char *const *argv, pg_err *err);

/* pgfit_model.c: what is told of a model, and of the layers there are. */
pg_status fit_print_summary(pg_err *err);

/* Reads the model where it is "-". */
pg_status fit_take_model_text(pg_err *err);
pg_status fit_print_layers(pg_err *err);

/* pgfit_data.c: data as the options want them, and what is done with them but training. */
pg_status fit_open_data(pg_data **out, const char *path, pg_err *err);
pg_status fit_open_validation(pg_data **out, pg_err *err);
void fit_show_data_notes(const pg_data *d); /* NULL: none */
pg_status fit_evaluate(pg_trainer *t, pg_data *data, pg_err *err);
pg_status fit_open_asked(pg_data **out, const pg_trainer *t, pg_err *err); /* of --predict */
pg_status fit_predict(pg_trainer *t, pg_data *data, pg_err *err);

/* pgfit_demo.c: fills in model, data and what else was left open. */
pg_status fit_take_demo(pg_err *err);

/* pgfit_plan.c: what training would need. */
pg_status fit_plan(pg_trainer *t, pg_data *data, pg_err *err);

/* pgfit_scaling.c: --plan. Takes the model out of it; checks the rest; shows the plan. */
pg_status fit_take_plan(pg_err *err);
pg_status fit_check_plan(pg_err *err);
pg_status fit_measure_links(pg_err *err); /* with the other processes; rank 0 goes on alone */
pg_status fit_print_scaling(pg_trainer *t, pg_data *data, pg_err *err);

/* pgfit_profile.c: where the time of the steps went. */
pg_status fit_print_profile(pg_trainer *t, pg_err *err);

/* pgfit_screen.c: a run while it goes on. */
void fit_show_note(const char *text);
void fit_show_compared(const pg_trainer *t);               /* with --verbose */
void fit_show_notes(const pg_trainer *t, size_t *n_shown); /* those that were not shown yet */
#define FIT_MAX_GPUS 64                                    /* that are shown */
typedef struct fit_gpu {
    double busy; /* sum of what was found while the epoch went on */
    unsigned n;  /* how often */
} fit_gpu;
typedef struct fit_screen {
    pg_run run;
    pg_trainer *trainer;
    const pg_data *rows;
    size_t epoch;
    double begun, trained;   /* of the epoch: its start, the end of its last step so far */
    double next;             /* time of the next drawing */
    int live;                /* a terminal: one line is drawn again and again */
    int drawn;               /* and stands there now */
    int warned;              /* of a loss that is no number */
    int ended;               /* the training came to its end */
    double *history;         /* of `watched`, per epoch */
    size_t n_history, first; /* epochs of it, the number of the first one */
    char **files;            /* checkpoints, in the order of writing */
    size_t n_files;
    const char *best; /* of them; NULL: nobody said */
    char watched[64];
    fit_gpu gpus[FIT_MAX_GPUS]; /* with --verbose */
    double asked;               /* when they were looked at last */
} fit_screen;
void fit_screen_open(fit_screen *s, pg_trainer *t);
void fit_screen_close(fit_screen *s);
pg_callback fit_screen_callback(fit_screen *s);
double fit_now(void); /* seconds of a clock that only goes on */

/* pgfit_events.c */
pg_status fit_show_event(void *screen, const pg_event *e, pg_err *err);
void fit_print_kept(fit_screen *s);      /* checkpoints that are there */
void fit_print_use(const fit_screen *s); /* how the best one is loaded, where the curves are */

/* pgfit_gpus.c: memory and work of the GPUs, with --verbose. */
void fit_watch_gpus(fit_screen *s); /* while an epoch goes on */
void fit_print_gpus(fit_screen *s); /* at its end */

/* pgfit_report.c: the first lines of a run, and the last ones. */
void fit_print_start(const pg_run *r);
void fit_print_end(fit_screen *s, const pg_fit_report *report);
void fit_print_saved(const char *path);
void fit_print_predicted(const char *path);

#endif
