/* dcp_folder.c - finds the .metadata of torch.distributed.checkpoint: in the folder that people
 * name, or beside one of its files. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/dcp.h"
#include "io/folder.h"

static pg_status metadata_of(pg__str *out, const char *folder, const char *child, pg_err *err)
{
    const pg_status st = pg__folder_path(out, folder, child, err);
    return st == PG_OK ? pg__str_printf(out, err, "%s.metadata", *child ? "/" : "") : st;
}

static pg_status is_checkpoint(int *is, const char *metadata, pg_err *err)
{
    pg__io *io = NULL;
    pg_status st = pg__io_open_if(&io, metadata, err);
    if (io && (st = pg__dcp_is_metadata(is, io, err)) != PG_OK)
        pg_err_prefix(err, PG_SHOW(metadata));
    pg__io_close(io);
    return st;
}

pg_status pg__dcp_in_folder(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    int is = 0;
    PG_TRY(metadata_of(&path, folder, "", err));
    PG_TRY(is_checkpoint(&is, path.s, err));
    if (is) {
        *out = path.s;
        path = (pg__str){0};
    }
done:
    pg__str_fini(&path);
    return st;
}

pg_status pg__dcp_of_path(char **out, const char *path, pg_err *err)
{
    pg__str at = {0};
    pg_status st = PG_OK;
    int there = 0;
    if (!pg__ends_with(path, ".distcp"))
        return PG_OK;
    PG_TRY(pg__str_printf(&at, err, "%.*s.metadata", (int)(pg__base_name(path) - path), path));
    PG_TRY(pg__is_there(&there, at.s, err));
    if (there) {
        *out = at.s;
        at = (pg__str){0};
    }
done:
    pg__str_fini(&at);
    return st;
}
