/* folder.c - creates missing folders, one component after the other. */
#include "io/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/system.h"

pg_status pg__folder_path(pg__str *out, const char *folder, const char *name, pg_err *err)
{
    const size_t n = strlen(folder);
    out->n = 0;
    return pg__str_printf(out, err, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name);
}

int pg__is_absence(int sys)
{
    return sys == ENOENT || sys == ENOTDIR || sys == ELOOP || sys == ENAMETOOLONG;
}

/* *kind: of what a path leads to, 0 if it leads to nothing. */
static pg_status look(mode_t *kind, const char *path, pg_err *err)
{
    struct stat sb;
    int rc;
    do
        rc = stat(path, &sb) ? errno : 0;
    while (rc == EINTR);
    *kind = rc ? 0 : sb.st_mode;
    return rc && !pg__is_absence(rc) ? pg_fail_sys(err, PG_E_IO, rc, "%s", PG_SHOW(path)) : PG_OK;
}

pg_status pg__is_there(int *is, const char *path, pg_err *err)
{
    mode_t kind;
    const pg_status st = look(&kind, path, err);
    *is = kind != 0;
    return st;
}

pg_status pg__is_file(int *is, const char *path, pg_err *err)
{
    mode_t kind;
    const pg_status st = look(&kind, path, err);
    *is = S_ISREG(kind) != 0;
    return st;
}

pg_status pg__is_folder(int *is, const char *path, pg_err *err)
{
    mode_t kind;
    const pg_status st = look(&kind, path, err);
    *is = S_ISDIR(kind) != 0;
    return st;
}

int pg__folder_open(const char *path, int flags)
{
    int fd;
    do
        fd = open(path, flags | O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    return fd;
}

DIR *pg__folder_list(const char *path)
{
    DIR *d;
    do
        d = opendir(path);
    while (!d && errno == EINTR);
    return d;
}

pg_status pg__folder_list_if(DIR **out, const char *path, pg_err *err)
{
    *out = pg__folder_list(*path ? path : ".");
    return *out || pg__is_absence(errno) ? PG_OK
                                         : pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(path));
}

int pg__folder_fsync(int fd)
{
    int rc;
    do
        rc = pg__sys_sync(fd) ? errno : 0;
    while (rc == EINTR);
    return rc == EINVAL || rc == EBADF || rc == ENOTSUP ? 0 : rc;
}

pg_status pg__folder_sync(const char *path, pg_err *err)
{
    const int fd = pg__folder_open(*path ? path : ".", 0);
    const int rc = fd < 0 ? errno : pg__folder_fsync(fd);
    if (fd >= 0)
        close(fd);
    if (rc)
        return pg_fail_sys(err, PG_E_IO, rc, "%s: cannot sync this folder", PG_SHOW(path));
    return PG_OK;
}

pg_status pg__folder_sync_above(const char *path, pg_err *err)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return pg__folder_sync("", err);
    char *folder = pg__mem_strndup(path, slash == path ? 1 : (size_t)(slash - path));
    if (!folder)
        return pg__nomem(err);
    const pg_status st = pg__folder_sync(folder, err);
    pg__mem_free(folder);
    return st;
}

static pg_status make(const char *path, size_t fixed, int sync, pg_err *err)
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
        if (*copy && mkdir(copy, 0777) == 0)
            st = sync ? pg__folder_sync_above(copy, err) : PG_OK;
        else if (*copy && errno != EEXIST)
            st = pg_fail_sys(err, PG_E_IO, errno, "%s: cannot make this folder", PG_SHOW(copy));
        *p = end;
        if (!end || st != PG_OK)
            break;
    }
    pg__mem_free(copy);
    return st;
}

pg_status pg__folder_make(const char *path, size_t fixed, pg_err *err)
{
    return make(path, fixed, 0, err);
}

pg_status pg__folder_make_for(const char *path, pg_err *err)
{
    const char *slash = strrchr(path, '/');
    char *folder;
    pg_status st;
    if (!slash || slash == path)
        return PG_OK;
    folder = pg__mem_strndup(path, (size_t)(slash - path));
    if (!folder)
        return pg__nomem(err);
    st = pg__folder_make(folder, 0, err);
    pg__mem_free(folder);
    return st;
}

pg_status pg__folder_make_synced(const char *path, pg_err *err)
{
    return make(path, 0, 1, err);
}

const struct dirent *pg__folder_next(DIR *d, int *sys)
{
    errno = 0;
    const struct dirent *e = readdir(d);
    *sys = e ? 0 : errno;
    return e;
}
