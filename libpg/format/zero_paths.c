/* zero_paths.c - from what people name (the folder of a job, that of a step, one file) to the
 * optim_states file of the first rank. */
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/zero.h"
#include "io/folder.h"

#define LATEST      "latest"
#define LATEST_MOST 4096u
#define FIRST       "zero_pp_rank_0_mp_rank_00_optim_states.pt"
#define MODEL       "mp_rank_00_model_states.pt"

pg_status pg__zero_is_universal(int *is, const char *path, pg_err *err)
{
    char zero[PATH_MAX]; /* a longer one cannot be opened */
    const char *base = pg__base_name(path);
    *is = fnmatch("*" MODEL, base, 0) == 0 &&
          snprintf(zero, sizeof zero, "%.*szero", (int)(base - path), path) < PATH_MAX;
    return *is ? pg__is_folder(is, zero, err) : PG_OK;
}

/* folder ends with a slash or is empty. */
static pg_status first_rank(char **out, const char *folder, pg_err *err)
{
    static const char *const names[] = {FIRST, "bf16_" FIRST, "fp16_" FIRST, MODEL,
                                        "zero_pp_rank_0_" MODEL};
    pg_status st = PG_OK;
    pg__str path = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names && !*out; i++) {
        path.n = 0;
        int is = 0;
        PG_TRY(pg__str_printf(&path, err, "%s%s", folder, names[i]));
        PG_TRY(pg__is_file(&is, path.s, err));
        if (is && !pg__ends_with(names[i], FIRST))
            PG_TRY(pg__zero_is_universal(&is, path.s, err));
        if (is) {
            *out = path.s;
            path = (pg__str){0};
        }
    }
done:
    pg__str_fini(&path);
    return st;
}

/* The folder that the file `latest` or `latest_universal` names; *out stays NULL if there is no
 * such file. */
static pg_status latest(char **out, const char *folder, const char *file, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0}, step = {0};
    pg__io *io = NULL;
    char tag[LATEST_MOST + 1] = {0};
    PG_TRY(pg__str_printf(&path, err, "%s%s", folder, file));
    PG_TRY(pg__io_open_if(&io, path.s, err));
    if (!io || pg__io_size(io) > LATEST_MOST)
        goto done;
    st = pg__io_read(io, 0, tag, (size_t)pg__io_size(io), err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(path.s));
        goto done;
    }
    tag[strcspn(tag, "\r\n")] = 0;
    if (!*tag || strchr(tag, '/') || strcmp(tag, ".") == 0 || strcmp(tag, "..") == 0)
        goto done; /* of another program */
    PG_TRY(pg__str_printf(&step, err, "%s%s/", folder, tag));
    *out = step.s;
    step = (pg__str){0};
done:
    pg__io_close(io);
    pg__str_fini(&path);
    pg__str_fini(&step);
    return st;
}

/* What the step's folder lacks, if the folder around it is surely of ZeRO. */
static pg_status check_named(const char *folder, const char *file, const char *step, pg_err *err)
{
    pg_status st = PG_OK;
    int has_script = 0;
    pg__str script = {0};
    PG_TRY(pg__str_printf(&script, err, "%szero_to_fp32.py", folder));
    PG_TRY(pg__is_there(&has_script, script.s, err));
    if (has_script)
        st = pg_fail(err, PG_E_FORMAT, "%s%s names %s, where no " FIRST " is", PG_SHOW(folder),
                     file, PG_SHOW(step));
done:
    pg__str_fini(&script);
    return st;
}

pg_status pg__zero_in_folder(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    char *step = NULL, *universal = NULL;
    pg__str at = {0};
    *out = NULL;
    PG_TRY(pg__folder_path(&at, folder, "", err));
    PG_TRY(first_rank(out, at.s, err));
    if (*out)
        goto done;
    PG_TRY(latest(&universal, at.s, LATEST "_universal", err));
    PG_TRY(latest(&step, at.s, LATEST, err));
    if (step)
        PG_TRY(first_rank(out, step, err));
    if (!*out && universal)
        PG_TRY(first_rank(out, universal, err));
    if (!*out && step)
        st = check_named(at.s, LATEST, step, err);
done:
    pg__mem_free(step);
    pg__mem_free(universal);
    pg__str_fini(&at);
    return st;
}

/* The step that a file `latest` names. */
static pg_status of_latest(char **out, const char *folder, const char *file, pg_err *err)
{
    pg_status st = PG_OK;
    char *step = NULL;
    PG_TRY(latest(&step, folder, file, err));
    if (step)
        PG_TRY(first_rank(out, step, err));
    if (step && !*out)
        st = check_named(folder, file, step, err);
done:
    pg__mem_free(step);
    return st;
}

pg_status pg__zero_of_path(char **out, const char *path, pg_err *err)
{
    const char *base = pg__base_name(path);
    const int names_step = strcmp(base, LATEST) == 0 || strcmp(base, LATEST "_universal") == 0;
    int is_universal = 0;
    *out = NULL;
    if (strstr(base, FIRST) || (!names_step && fnmatch("*zero_pp_rank_*_states.pt", base, 0) != 0 &&
                                fnmatch("layer_*_states.pt", base, 0) != 0))
        return PG_OK;
    pg_status st = pg__zero_is_universal(&is_universal, path, err);
    if (st != PG_OK || is_universal)
        return st;
    char *folder = pg__mem_strndup(path, (size_t)(base - path));
    if (!folder)
        return pg__nomem(err);
    st = names_step ? of_latest(out, folder, base, err) : first_rank(out, folder, err);
    pg__mem_free(folder);
    return st;
}
