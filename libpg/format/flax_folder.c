/* flax_folder.c - the newest of the files that flax.training.checkpoints keeps in a folder:
 * checkpoint_100, checkpoint_200. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/flax.h"
#include "io/folder.h"

static const char prefix[] = "checkpoint_";

/* The number of a step in a name; 0 if it is none. */
static int read_step(unsigned long long *out, const char *name)
{
    const size_t n = strncmp(name, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
    const size_t n_digits = n ? strspn(name + n, "0123456789") : 0;
    if (n_digits == 0 || n_digits > 18 || name[n + n_digits])
        return 0;
    *out = strtoull(name + n, NULL, 10);
    return 1;
}

pg_status pg__flax_in_folder(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    int sys = 0, is = 0;
    unsigned long long step = 0, most = 0;
    pg__str path = {0}, newest = {0};
    *out = NULL;
    DIR *d = pg__folder_list(*folder ? folder : ".");
    if (!d)
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(folder));
    for (const struct dirent *e; (e = pg__folder_next(d, &sys));) {
        if (!read_step(&step, e->d_name) || (newest.s && step < most))
            continue;
        PG_TRY(pg__folder_path(&path, folder, e->d_name, err));
        PG_TRY(pg__is_file(&is, path.s, err));
        if (!is) /* Orbax makes folders of such names */
            continue;
        pg__str_fini(&newest);
        newest = path;
        path = (pg__str){0};
        most = step;
    }
    if (sys)
        st = pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(folder));
    if (st == PG_OK) {
        *out = newest.s;
        newest = (pg__str){0};
    }
done:
    closedir(d);
    pg__str_fini(&path);
    pg__str_fini(&newest);
    return st;
}
