/* pgfit.h - shared by the parts of pgfit: the arguments, and the display of a run. */
#ifndef PGFIT_H
#define PGFIT_H

#include "cli.h"

/* pgfit_options.c: the command line, as options of the library as far as possible. */
typedef struct fit_arguments {
    pg_train_opts train;
    pg_fit_opts fit;     /* without the data */
    int tells_quantized; /* what int8 changes: in all ranks, or in none */
    const char *data, *validation, *reshape, *interpolation;
    const char *x, *y; /* names of arrays or columns */
    int any_classes;
    const char *predict, *out;
    const char *output, *demo;
    const char *json;    /* "batch", or NULL */
    const char *profile; /* of --profile: "layers", "trace...", or NULL */
    const char *config, *hosts;
    const char *plan; /* devices of --plan, or NULL */
    pg_plan_opts plan_for;
    const char *resume, *resume_every;
    int force, full_model, dry_run;
    int summary, list_layers, evaluate, print_config, resumes, is_demo;
} fit_arguments;
extern fit_arguments fit_args;
extern const cli_tool fit_tool;

/* After parsing: fills in what the table cannot, and checks what no library call would refuse;
 * fit_check_arguments() returns 0 and fills in *err if something is wrong. */
void fit_read_arguments(void);
int fit_check_arguments(pg_err *err);

/* pgfit_config.c: --config, for what the command line does not give, and --print-config. */
pg_status fit_read_config(pg_err *err);
pg_status fit_take_settings(const char *text, const char *from,
                            pg_err *err); /* the same, from a text */
const char *fit_config_source(void);      /* file that is being read */
/* All options in the form of --config; for_resume: with the folder and the file of the run. NULL:
 * out of memory. */
const char *fit_config_text(int for_resume);
const char *
fit_setting(const char *key); /* a value from the text of fit_take_settings(), or NULL */
void fit_set_where_open(const char *option, const char *value);
const cli_opt *fit_option(const char *name); /* {0} if there is none */
cli_buf fit_shown(const pg_config *v);       /* for an error: strings in quotes, long ones cut */
int fit_is_number(const char *s);            /* as in JSON: "007" is not a number */

/* pgfit_callbacks.c: the callbacks from options and from the file. */
pg_status fit_take_callbacks(const pg_config *v, pg_err *err); /* from the file; call it first */
pg_status fit_make_callbacks(pg_err *err);                     /* from the options */
void fit_refuse(
    pg_err *err); /* reports to the other processes; leaves in err what this one prints */
void fit_name_option(pg_err *err); /* puts the name of the option in place of its class */
int fit_is_of_callback(const char *option);
int fit_is_by_epoch(const char *schedule); /* NULL: no */
void fit_print_callbacks(FILE *f);         /* the elements of a list */
/* A parameter of the first callback of a class, or NULL. */
const char *fit_callback_text(const char *class_name, const char *key);

/* pgfit_resume.c: --resume; options that are not given come from the file that the run resumes. */
pg_status fit_take_operands(char *const *operands, size_t n,
                            pg_err *err); /* call it before the others */
pg_status fit_read_resume(pg_err *err);
void fit_set_resume(void);               /* call it when all options are known */
int fit_may_replace(const char *option); /* option: "output" or "out" */
int fit_owns_output(void);               /* call it when writing */
void fit_print_folder(FILE *f);          /* JSON members, for the settings */

/* pgfit_hosts.c: --hosts; does not return if mpirun takes over. argv: as main() got it. */
pg_status fit_start_on_hosts(char *const *argv, pg_err *err);

/* pgfit_model.c: --summary and --list-layers. */
pg_status fit_print_summary(pg_err *err);

/* Reads the model if it is "-". */
pg_status fit_take_model_text(pg_err *err);
pg_status fit_print_layers(pg_err *err);

/* pgfit_data.c: data as the options describe them; --evaluate and --predict. */
pg_status fit_open_data(pg_data **out, const char *path, pg_err *err);
pg_status fit_open_validation(pg_data **out, pg_err *err);
void fit_show_data_notes(const pg_data *d); /* NULL: none */
pg_status fit_evaluate(pg_trainer *t, pg_data *data, pg_err *err);
pg_status fit_open_asked(pg_data **out, const pg_trainer *t, pg_err *err); /* for --predict */
pg_status fit_predict(pg_trainer *t, pg_data *data, pg_err *err);

/* pgfit_demo.c: fills in model, data and other options that are not given. */
pg_status fit_take_demo(pg_err *err);

/* pgfit_plan.c: --dry-run, the memory that training needs. */
pg_status fit_plan(pg_trainer *t, pg_data *data, pg_err *err);

/* pgfit_scaling.c: --plan. Takes the model out of the argument, checks the rest, prints the
 * plan. */
pg_status fit_take_plan(pg_err *err);
pg_status fit_check_plan(pg_err *err);
pg_status
fit_measure_links(pg_err *err); /* with the other processes; then rank 0 continues alone */
pg_status fit_print_scaling(pg_trainer *t, pg_data *data, pg_err *err);

/* pgfit_profile.c: --profile. The first reads its argument, and returns 0 with *err if it is
 * wrong. */
int fit_read_profile(int is_given, pg_err *err);
pg_status fit_print_profile(pg_trainer *t, pg_err *err);

/* pgfit_screen.c: a run in progress. */
void fit_show_note(const char *text);
void fit_show_compared(const pg_trainer *t);               /* with --verbose */
void fit_show_notes(const pg_trainer *t, size_t *n_shown); /* only those not shown yet */
#define FIT_MAX_GPUS 64                                    /* that are shown */
typedef struct fit_gpu {
    double busy; /* sum of the samples of this epoch */
    unsigned n;  /* number of samples */
} fit_gpu;
typedef struct fit_screen {
    pg_run run;
    pg_trainer *trainer;
    const pg_data *rows;
    size_t epoch;
    double begun, trained;   /* start of the epoch, end of its last step so far */
    double next;             /* time of the next drawing */
    int live;                /* on a terminal: one line is redrawn */
    int drawn;               /* that line is on the screen now */
    int warned;              /* about a loss that is NaN */
    int ended;               /* training is complete */
    double *history;         /* values of `watched`, one per epoch */
    size_t n_history, first; /* its length, the number of its first epoch */
    char **files;            /* checkpoints, in the order of writing */
    size_t n_files;
    const char *best; /* one of files; NULL: unknown */
    char watched[64];
    fit_gpu gpus[FIT_MAX_GPUS]; /* with --verbose */
    double asked;               /* when the GPUs were last asked */
} fit_screen;
void fit_screen_open(fit_screen *s, pg_trainer *t);
void fit_screen_close(fit_screen *s);
pg_callback fit_screen_callback(fit_screen *s);
double fit_now(void); /* seconds of a monotonic clock */

/* pgfit_events.c */
pg_status fit_show_event(void *screen, const pg_event *e, pg_err *err);
void fit_print_kept(fit_screen *s);      /* the checkpoints that exist */
void fit_print_use(const fit_screen *s); /* how to load the best one, where to find the curves */

/* pgfit_gpus.c: memory and work of the GPUs, with --verbose. */
void fit_watch_gpus(fit_screen *s); /* during an epoch */
void fit_print_gpus(fit_screen *s); /* at the end of an epoch */

/* pgfit_report.c: the first lines of a run, and the last ones. */
void fit_print_start(const pg_run *r);
void fit_print_end(fit_screen *s, const pg_fit_report *report);
void fit_print_saved(const char *path);
void fit_print_predicted(const char *path);
void fit_print_quantized(const pg_quantized *q);
void fit_note_unquantized(void);

#endif
