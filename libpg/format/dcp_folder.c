/* dcp_folder.c - a checkpoint of torch.distributed.checkpoint in a folder of the folder that people
 * name: Accelerate's checkpoint-100/pytorch_model_fsdp_0, torchtitan's checkpoint/step-100. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/dcp.h"
#include "io/folder.h"

#define MAX_LOOKED 4096u /* folders */
#define MAX_ASKED  8u

static pg_status metadata_of(pg__str *out, const char *folder, const char *child, pg_err *err)
{
    const size_t n = strlen(folder);
    out->n = 0;
    return pg__str_printf(out, err, "%s%s%s/.metadata", folder,
                          n && folder[n - 1] == '/' ? "" : "/", child);
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

pg_status pg__dcp_in_folder(char **out, const char *folder, pg_err *err)
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
