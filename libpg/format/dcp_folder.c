/* dcp_folder.c - finds the .metadata of torch.distributed.checkpoint: in the folder that people
 * name, or beside one of its files. */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/dcp.h"
#include "io/folder.h"

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
