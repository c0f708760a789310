/* pgfit_resume.c - --resume. The state of a run is kept in resume.pg, in the folder of the
 * checkpoints or else the current one; with it the options of the run, so that none needs to be
 * given again. */
#include <stdlib.h>
#include <string.h>

#include "pgfit.h"

static char beside[4096]; /* the checkpoints */

static int is(const char *word)
{
    return fit_args.resume && strcmp(fit_args.resume, word) == 0;
}

static const char *state_file(void)
{
    const char *option = *fit_option("checkpoint")->text;
    const char *template = option ? option : fit_callback_text("ModelCheckpoint", "filepath");
    const char *slash = template ? strrchr(template, '/') : NULL;
    const size_t n = slash ? (size_t)(slash - template) + 1 : 0;
    if (fit_args.resume && !is("auto") && !is("never"))
        return fit_args.resume;
    if (n + sizeof "resume.pg" > sizeof beside || memchr(template ? template : "", '{', n))
        return "resume.pg"; /* a folder for every epoch */
    snprintf(beside, sizeof beside, "%.*sresume.pg", (int)n, template ? template : "");
    return beside;
}

pg_status fit_read_resume(pg_err *err)
{
    const char *file = state_file();
    char *settings = NULL;
    pg_err why = {0};
    if (!fit_args.resumes || is("never"))
        return PG_OK;
    pg_status st = pg_resume_settings(&settings, file, &why);
    if (st == PG_E_IO && is("auto"))
        return PG_OK; /* the run decides */
    if (st == PG_OK && settings)
        st = fit_take_settings(settings, file, &why);
    if (st != PG_OK)
        *err = why;
    pg_text_free(settings);
    return st;
}

void fit_set_resume(void)
{
    const int by_callback = fit_callback_text("BackupAndRestore", "backup_dir") != NULL;
    pg_fit_opts *o = &fit_args.fit;
    if (is("never") || (by_callback && !fit_args.resumes))
        return;
    o->resume_file = state_file();
    o->resume = !fit_args.resumes ? 0 : is("auto") ? 2 : 1;
    o->resume_every = fit_args.resume_every ? strtod(fit_args.resume_every, NULL) : 0;
    o->settings = fit_config_text();
}
