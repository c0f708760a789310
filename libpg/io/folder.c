/* folder.c - folders that are made where they are missing, one component after the other. */
#include "io/folder.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/str.h"

pg_status pg__folder_make(const char *path, size_t fixed, pg_err *err)
{
    pg_status st = PG_OK;
    char *copy = pg__mem_strdup(path);
    if (!copy)
        return pg__nomem(err);
    for (char *p = copy + fixed;; p++) {
        if (*p && *p != '/')
            continue;
        const char end = *p;
        *p = 0;
        if (*copy && mkdir(copy, 0777) && errno != EEXIST)
            st = pg_fail_sys(err, PG_E_IO, errno, "%s: cannot make this folder", PG_SHOW(copy));
        *p = end;
        if (!end || st != PG_OK)
            break;
    }
    pg__mem_free(copy);
    return st;
}
