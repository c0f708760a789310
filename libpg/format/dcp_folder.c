/* dcp_folder.c - finds the .metadata of torch.distributed.checkpoint: in the folder that people
 * name, beside one of its files, or in a folder below: Accelerate's
 * checkpoint-100/pytorch_model_fsdp_0, torchtitan's checkpoint/step-100. */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/dcp.h"
#include "io/folder.h"

#define MAX_LOOKED 4096u /* folders */
#define MAX_ASKED  8u

static pg_status metadata_of(pg__str *out, const char *folder, const char *child, pg_err *err)
{
    const pg_status st = pg__folder_path(out, folder, child, err);
    return st == PG_OK ? pg__str_printf(out, err, "%s.metadata", *child ? "/" : "") : st;
}

pg_status pg__dcp_in_folder(char **out, const char *folder, pg_err *err)
{
    pg__str path = {0};
    pg__io *io = NULL;
    pg_err e = {0};
    pg_status st = metadata_of(&path, folder, "", err);
    if (st != PG_OK)
        return st;
    st = pg__io_open(&io, path.s, &e);
    if (st == PG_OK && pg__dcp_is_metadata(io)) {
        *out = path.s;
        path.s = NULL;
    }
    if (st == PG_E_IO && e.sys == ENOENT)
        st = PG_OK;
    if (st != PG_OK && err)
        *err = e;
    pg__io_close(io);
    pg__str_fini(&path);
    return st;
}

pg_status pg__dcp_of_path(char **out, const char *path, pg_err *err)
{
    struct stat sb;
    pg__str at = {0};
    pg_status st = PG_OK;
    if (!pg__ends_with(path, ".distcp"))
        return PG_OK;
    st = pg__str_printf(&at, err, "%.*s.metadata", (int)(pg__base_name(path) - path), path);
    if (st == PG_OK && stat(at.s, &sb) == 0) {
        *out = at.s;
        at.s = NULL;
    }
    pg__str_fini(&at);
    return st;
}

static int is_checkpoint(const char *metadata)
{
    pg__io *io = NULL;
    const int is = pg__io_open(&io, metadata, NULL) == PG_OK && pg__dcp_is_metadata(io);
    pg__io_close(io);
    return is;
}

/* Accelerate writes optimizer_0 beside the model. */
static int could_be_model(const char *name)
{
    return name[0] != '.' && strncasecmp(name, "optim", 5) != 0;
}

static pg_status list_children(pg__strs *out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    int sys = 0;
    unsigned looked = 0;
    pg__str path = {0};
    DIR *d = pg__folder_list(*folder ? folder : ".");
    if (!d)
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(folder));
    for (const struct dirent *e; (e = pg__folder_next(d, &sys));) {
        if (!could_be_model(e->d_name))
            continue;
        if (++looked > MAX_LOOKED && out->n == 0)
            break; /* of something else */
        if (looked > MAX_LOOKED)
            PG_FAIL(PG_E_LIMIT, "%s: more than %u files and folders: name the checkpoint itself",
                    PG_SHOW(folder), MAX_LOOKED);
        PG_TRY(metadata_of(&path, folder, e->d_name, err));
        if (is_checkpoint(path.s))
            PG_TRY(pg__strs_add(out, e->d_name, strlen(e->d_name), err));
    }
    if (sys)
        st = pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(folder));
    pg__strs_sort(out);
done:
    closedir(d);
    pg__str_fini(&path);
    return st;
}

pg_status pg__dcp_below_folder(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs found = {0};
    pg__str path = {0};
    *out = NULL;
    PG_TRY(list_children(&found, folder, err));
    if (found.n > 1) {
        st = pg_fail(err, PG_E_AMBIGUOUS, "%s: %zu checkpoints are in this folder: name one",
                     PG_SHOW(folder), found.n);
        for (size_t i = 0; i < found.n && i < MAX_ASKED; i++)
            pg_err_detail(err, "%s", PG_SHOW(found.v[i]));
        if (found.n > MAX_ASKED)
            pg_err_detail(err, "and %zu more", found.n - MAX_ASKED);
    } else if (found.n == 1) {
        PG_TRY(metadata_of(&path, folder, found.v[0], err));
        *out = path.s;
        path = (pg__str){0};
    }
done:
    pg__strs_fini(&found);
    pg__str_fini(&path);
    return st;
}
