/* beside.c - many files in the folder of another one. */
#include "io/beside.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/try.h"
#include "io/folder.h"

#define MANY_MISSING 64

pg_status pg__beside_start(pg__beside *b, const char *path, pg_err *err)
{
    b->path = path;
    return pg__io_folder_of(&b->folder, path, path, err);
}

static pg_status list(pg__beside *b, pg_err *err)
{
    pg_status st = PG_OK;
    int sys = 0;
    DIR *d = NULL;
    pg__str folder = {0};
    PG_TRY(pg__str_add(&folder, b->path, (size_t)(pg__base_name(b->path) - b->path), err));
    PG_TRY(pg__str_puts(&folder, folder.n ? "" : ".", err));
    d = pg__folder_list(folder.s);
    if (!d) {
        st = pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(folder.s));
        goto done;
    }
    for (const struct dirent *e; (e = pg__folder_next(d, &sys));)
        PG_TRY(pg__strs_add(&b->there, e->d_name, strlen(e->d_name), err));
    if (sys)
        st = pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(folder.s));
    pg__strs_sort(&b->there);
done:
    if (d)
        closedir(d);
    pg__str_fini(&folder);
    return st;
}

pg_status pg__beside_open(pg__io **out, pg__beside *b, const char *name, int *gone, pg_err *err)
{
    pg_status st = PG_OK;
    pg_err e = {0};
    *gone = 0;
    if (b->n_missing == MANY_MISSING && !b->there.n)
        st = list(b, err);
    if (st != PG_OK)
        return st;
    if (b->there.n && pg__strs_search(&b->there, name) == (size_t)-1)
        st = pg_fail_sys(&e, PG_E_IO, ENOENT, "%s", PG_SHOW(name));
    else
        st = pg__io_open_beside(out, b->folder, name, &e);
    *gone = st == PG_E_IO && e.sys == ENOENT;
    b->n_missing += (size_t)*gone;
    return st == PG_OK ? PG_OK : pg__fail_as(err, &e);
}

void pg__beside_fini(pg__beside *b)
{
    if (b->folder >= 0)
        close(b->folder);
    pg__strs_fini(&b->there);
    *b = (pg__beside){.folder = -1};
}
