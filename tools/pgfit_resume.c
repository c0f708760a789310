/* pgfit_resume.c - --resume. The state of a run is kept in resume.pg, in the folder of the
 * checkpoints or else the current one. It includes the options of the run, so that none needs to be
 * given again, and the directory against which their relative paths are resolved. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json_out.h"
#include "pgfit.h"

static char beside[PATH_MAX]; /* the checkpoints */
static char named[PATH_MAX];  /* resume.pg in a given folder */
static int owns_output, owns_out;

static int is(const char *word)
{
    return fit_args.resume && strcmp(fit_args.resume, word) == 0;
}

static int is_folder(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0 && S_ISDIR(sb.st_mode);
}

/* Opens regular files only: a pipe would wait for its writer. */
static int is_resume_file(const char *path)
{
    char head[8] = "";
    struct stat sb;
    FILE *f = stat(path, &sb) == 0 && S_ISREG(sb.st_mode) ? fopen(path, "re") : NULL;
    const size_t n = f ? fread(head, 1, sizeof head, f) : 0;
    if (f)
        (void)fclose(f);
    return n == sizeof head && memcmp(head, "PGRESUME", n) == 0;
}

/* A folder stands for its resume.pg. */
static const char *in_folder(const char *path)
{
    const size_t n = strlen(path);
    const char *slash = n > 0 && path[n - 1] == '/' ? "" : "/";
    if (!is_folder(path))
        return path;
    const int written = snprintf(named, sizeof named, "%s%sresume.pg", path, slash);
    return written < (int)sizeof named ? named : path;
}

/* ---- which file ---- */

/* "--resume FILE": an option with an optional argument takes it only after '='. */
static int is_meant(const char *operand)
{
    return is_resume_file(in_folder(operand)) ||
           ((strcmp(operand, "auto") == 0 || strcmp(operand, "never") == 0) &&
            access(operand, F_OK) != 0);
}

pg_status fit_take_operands(char *const *operands, size_t n, pg_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (fit_args.resumes && !fit_args.resume && is_meant(operands[i])) {
            fit_args.resume = operands[i];
        } else if (fit_args.train.model) {
            (void)pg_fail(err, PG_E_ARG, "too many operands; usage: pgfit [OPTION...] [MODEL]");
            pg_err_hint(err, "pgfit --help");
            return PG_E_ARG;
        } else {
            fit_args.train.model = operands[i];
        }
    }
    const char *model = fit_args.train.model;
    if (!model || !is_resume_file(model))
        return PG_OK;
    (void)pg_fail(err, PG_E_ARG, "%s holds the state of a run, not a model", cli_name(model).s);
    pg_err_hint(err, "pgfit --resume=%s", cli_quote(model).s);
    return PG_E_ARG;
}

/* The folder that all checkpoints have in common, beside the links best and last. */
static const char *state_file(void)
{
    const char *option = *fit_option("checkpoint")->text;
    const char *template = option ? option : fit_callback_text("ModelCheckpoint", "filepath");
    size_t n = template ? strcspn(template, "{") : 0;
    if (fit_args.resume && !is("auto") && !is("never"))
        return in_folder(fit_args.resume);
    while (n > 0 && template[n - 1] != '/')
        n--;
    if (n + sizeof "resume.pg" > sizeof beside)
        return "resume.pg";
    snprintf(beside, sizeof beside, "%.*sresume.pg", (int)n, template ? template : "");
    return beside;
}

/* ---- the folder of the run ---- */

static int are_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Is `file` the run's own state, rather than a copy of it elsewhere? */
static int is_original(const char *file, const char *folder, const char *kept_as)
{
    char own[2 * PATH_MAX], given[PATH_MAX];
    snprintf(own, sizeof own, "%s%s%s", *kept_as == '/' ? "" : folder, *kept_as == '/' ? "" : "/",
             kept_as);
    snprintf(given, sizeof given, "%s", file);
    char *slash = strrchr(own, '/'), *last = strrchr(given, '/');
    slash[slash == own] = '\0';
    if (last)
        last[last == given] = '\0';
    return are_same(last ? given : ".", own);
}

/* The relative paths in its options belong to another directory. */
static pg_status refuse_folder(const char *file, const char *folder, pg_err *err)
{
    char *path = realpath(file, NULL), *from = realpath(folder, NULL);
    const size_t n = from ? strlen(from) : 0;
    const char *shown = path ? path : file;
    if (path && from && strncmp(path, from, n) == 0 && path[n] == '/')
        shown = path + n + 1;
    const cli_quoted to = cli_quote(folder), what = cli_quote(shown);
    (void)pg_fail(err, PG_E_ARG,
                  "%s: the run started in %s, and its relative paths belong to that directory",
                  cli_name(file).s, cli_name(folder).s);
    if (*to.s && *what.s)
        pg_err_hint(err, "cd %s && pgfit --resume=%s", to.s, what.s);
    free(path);
    free(from);
    return PG_E_ARG;
}

/* A resumed run may overwrite what it wrote, or was going to write. */
static int wrote(const char *option, const char *folder)
{
    const char *now = *fit_option(option)->text, *before = fit_setting(option);
    return now && before && strcmp(now, before) == 0 &&
           (*now == '/' || !folder || are_same(folder, ".") || !is_folder(folder));
}

static pg_status take_settings(const char *settings, const char *file, pg_err *err)
{
    const int force = fit_args.force; /* --force applies to one call; the run knows its own files */
    pg_status st = fit_take_settings(settings, file, err);
    fit_args.force = force;
    if (st != PG_OK)
        return st;
    const char *folder = fit_setting("folder"), *kept_as = fit_setting("file");
    if (folder && kept_as && !is("auto") && is_folder(folder) && !are_same(folder, ".") &&
        is_original(file, folder, kept_as))
        return refuse_folder(file, folder, err);
    owns_output = wrote("output", folder);
    owns_out = wrote("out", folder);
    return PG_OK;
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
        st = take_settings(settings, file, &why);
    if (st != PG_OK)
        *err = why;
    pg_text_free(settings);
    return st;
}

int fit_may_replace(const char *option)
{
    return fit_args.force || (strcmp(option, "out") == 0 ? owns_out : owns_output);
}

/* Is the file at -o still the run's own? Somebody else may have replaced it since. */
int fit_owns_output(void)
{
    return fit_args.force ||
           (owns_output && pg_resume_owns(fit_args.fit.resume_file, fit_args.output));
}

/* ---- the state that is kept ---- */

void fit_print_folder(FILE *f)
{
    char *folder = getcwd(NULL, 0);
    if (folder) {
        fputs("  \"folder\": ", f);
        json_quoted(folder);
        fputs(",\n  \"file\": ", f);
        json_quoted(fit_args.fit.resume_file);
        fputs(",\n", f);
    }
    free(folder);
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
    o->settings = fit_config_text(1);
    o->output = fit_args.output;
    o->replaces_output = fit_args.output && fit_owns_output();
}
