/* sink.c - durable, atomic output: temporary file, fsync, rename, fsync of the folder.
 *
 * An existing output stays as it was until the rename: a failure, a kill or a power loss leaves the
 * old file or the new one, never a mixture. A killed run leaves its temporary behind; its flock()
 * ends with the process, so the next run that writes the same output recognises the temporary as
 * stale and removes it. */
#include "io/sink_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#ifdef __APPLE__
#include <sys/random.h>
#endif
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "io/folder.h"
#include "io/system.h"

#define RANDOM_CHARS 6

/* --- the destination ------------------------------------------------------------------------- */

/* Splits path into its folder, opened, and the last component. */
static pg_status open_folder(pg__sink *s, const char *path, pg_err *err)
{
    char *folder = s->folder;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (!*path)
        return pg_fail(err, PG_E_ARG, "the output has an empty name");
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return pg_fail(err, PG_E_ARG, "%s: is a folder; give a file name", s->shown);
    if (strlen(name) > PG_SINK_NAME || strlen(path) >= sizeof s->folder)
        return pg_fail_sys(err, PG_E_IO, ENAMETOOLONG, "%s", s->shown);
    snprintf(s->name, sizeof s->name, "%s", name);
    if (!slash)
        strcpy(folder, ".");
    else
        snprintf(folder, sizeof s->folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    s->dir = pg__folder_open(folder, 0);
    if (s->dir >= 0)
        return PG_OK;
    if (errno != ENOENT)
        return pg_fail_sys(err, PG_E_IO, errno, "%s: cannot open the folder", s->shown);
    (void)pg_fail_sys(err, PG_E_IO, ENOENT, "%s: the folder does not exist", s->shown);
    pg_err_hint(err, "mkdir -p %s", PG_QUOTE(folder));
    return PG_E_IO;
}

static int is_one_of(pg__io *const *ios, size_t n, const struct stat *dst)
{
    struct stat in;
    for (size_t i = 0; i < n; i++)
        if (ios[i] && fstat(pg__io_fd(ios[i], 0, NULL), &in) == 0 && in.st_dev == dst->st_dev &&
            in.st_ino == dst->st_ino)
            return 1;
    return 0;
}

static pg_status fail_exists(const pg__sink *s, pg_err *err)
{
    (void)pg_fail(err, PG_E_ARG, "%s exists", s->shown);
    pg_err_do(err, PG_DO_OVERWRITE, NULL);
    return PG_E_ARG;
}

/* Finds out what exists at path; *old_mode stays (mode_t)-1 if nothing does. */
static pg_status check_old(const pg__sink *s, const char *path, mode_t *old_mode, pg_err *err)
{
    struct stat sb;
    if (lstat(path, &sb) && (errno == ENOENT || errno == ENOTDIR))
        return PG_OK;
    if (lstat(path, &sb))
        return pg_fail_sys(err, PG_E_IO, errno, "%s", s->shown);
    if (stat(path, &sb)) /* a dangling link: writing to its target could surprise */
        return pg_fail(err, PG_E_ARG,
                       "%s: is a symbolic link to a missing file; remove it or choose another name",
                       s->shown);
    if (is_one_of(&s->opts.input, 1, &sb))
        return pg_fail(err, PG_E_ARG, "%s: output is the input; choose another name", s->shown);
    if (is_one_of(s->opts.also, s->opts.n_also, &sb))
        return pg_fail(err, PG_E_ARG, "%s: output is read too; choose another name", s->shown);
    if (!S_ISREG(sb.st_mode))
        return pg_fail(err, PG_E_ARG, "%s: %s", s->shown,
                       S_ISDIR(sb.st_mode) ? "is a folder; give a file name"
                                           : "is not a regular file; choose another name");
    if (!s->opts.force)
        return fail_exists(s, err);
    *old_mode = sb.st_mode & 0777;
    return PG_OK;
}

/* Checks everything that can be known before a file is created, and opens the folder. A symbolic
 * link is followed: the file that it points to is replaced, and the link stays. */
static pg_status prepare(pg__sink *s, const char *path, const pg__sink_opts *opts, pg_err *err)
{
    char resolved[PATH_MAX];
    struct stat sb;
    pg_status st = PG_OK;
    *s = (pg__sink){.dir = -1, .fd = -1, .mode = (mode_t)-1};
    if (opts)
        s->opts = *opts;
    pg__printable(s->shown, sizeof s->shown, path, strlen(path));
    PG_TRY(check_old(s, path, &s->mode, err));
    if (lstat(path, &sb) == 0 && S_ISLNK(sb.st_mode)) {
        path = realpath(path, resolved);
        if (!path)
            PG_FAIL(PG_E_ARG, "%s: is a symbolic link that leads nowhere", s->shown);
    }
    PG_TRY(open_folder(s, path, err));
    if (faccessat(s->dir, ".", W_OK | X_OK, AT_EACCESS) != 0) {
        st = pg_fail_sys(err, PG_E_IO, errno, "%s: cannot write to the folder", s->shown);
        goto done;
    }
done:
    return st;
}

pg_status pg__sink_check(const char *path, const pg__sink_opts *opts, pg_err *err)
{
    pg__sink s;
    const pg_status st = prepare(&s, path, opts, err);
    if (s.dir >= 0)
        close(s.dir);
    return st;
}

/* --- the temporary --------------------------------------------------------------------------- */

/* ".NAME.pg-" of this output; a NAME too long for the rest is cut. */
static size_t temp_prefix(const pg__sink *s, char *out, size_t cap)
{
    const int room = PG_SINK_NAME - (int)sizeof "..pg-" + 1 - RANDOM_CHARS;
    return (size_t)snprintf(out, cap, ".%.*s.pg-", room, s->name);
}

/* Removes one temporary whose run has ended: its lock is free. */
static void remove_if_stale(int dir, const char *name)
{
    struct stat open_sb, sb;
    const int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &open_sb) == 0 && S_ISREG(open_sb.st_mode) && open_sb.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 && fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
        sb.st_dev == open_sb.st_dev && sb.st_ino == open_sb.st_ino)
        unlinkat(dir, name, 0);
    close(fd);
}

/* Tidies up after killed runs; a failure here is not an error. */
static void remove_stale(const pg__sink *s)
{
    char prefix[PG_SINK_NAME + 1];
    const size_t n = temp_prefix(s, prefix, sizeof prefix);
    const int fd = openat(s->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        if (strncmp(e->d_name, prefix, n) == 0 && strlen(e->d_name) == n + RANDOM_CHARS)
            remove_if_stale(s->dir, e->d_name);
    closedir(d);
}

static void random_name(const pg__sink *s, char *out, size_t cap)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    unsigned char r[RANDOM_CHARS];
    size_t n = temp_prefix(s, out, cap);
    if (getentropy(r, sizeof r) != 0) { /* a name in use is noticed: any spread will do */
        const uintptr_t seed = (uintptr_t)s ^ (uintptr_t)getpid();
        for (size_t i = 0; i < sizeof r; i++)
            r[i] = (unsigned char)(seed >> (i * 5));
    }
    for (size_t i = 0; i < sizeof r; i++)
        out[n++] = alphabet[r[i] % (sizeof alphabet - 1)];
    out[n] = 0;
}

/* Gives a new output the mode that the kernel gives a file created with 0666, umask and the
 * folder's default ACL included: calling umask() would change it for other threads. Until then it
 * is 0600. */
static pg_status settle_mode(pg__sink *s, pg_err *err)
{
    struct stat sb;
    if (fstat(s->fd, &sb))
        return pg_fail_sys(err, PG_E_IO, errno, "%s", s->shown);
    if (s->mode == (mode_t)-1)
        s->mode = sb.st_mode & 0777;
    if (fchmod(s->fd, 0600) && errno != EPERM && errno != ENOTSUP && errno != ENOSYS)
        return pg_fail_sys(err, PG_E_IO, errno, "%s: cannot set its permissions", s->shown);
    return PG_OK;
}

/* 1: the file is ours; 0: a run that tidies up took it for stale in the moment before the lock. */
static int lock_temp(const pg__sink *s)
{
    struct stat sb;
    if (flock(s->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return 0; /* other errors: no locks here, so nobody removes it either */
    return fstat(s->fd, &sb) || sb.st_nlink > 0; /* if the mode cannot be known: settle_mode() sets
                                                    it */
}

static pg_status create_temp(pg__sink *s, pg_err *err)
{
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        random_name(s, s->tmp, sizeof s->tmp);
        s->fd = openat(s->dir, s->tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (s->fd >= 0 && lock_temp(s))
            return settle_mode(s, err);
        if (s->fd < 0)
            s->tmp[0] = 0; /* not ours: nothing to remove */
        if (s->fd < 0 && errno != EEXIST && errno != EINTR)
            return pg_fail_sys(err, PG_E_IO, errno, "%s: cannot create a file in the folder",
                               s->shown);
        if (s->fd >= 0)
            close(s->fd);
        s->fd = -1;
    }
    return pg_fail(err, PG_E_IO, "%s: no free name for a temporary file", s->shown);
}

pg_status pg__sink_open(pg__sink **out, const char *path, const pg__sink_opts *opts, pg_err *err)
{
    pg_status st = PG_OK;
    pg__sink *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    PG_TRY(prepare(s, path, opts, err));
    if (!s->opts.fresh)
        remove_stale(s);
    PG_TRY(create_temp(s, err));
    *out = s;
    s = NULL;
done:
    pg__sink_close(s);
    return st;
}

pg_status pg__sink_open_memory(pg__sink **out, pg_err *err)
{
    pg__sink *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    *s = (pg__sink){.dir = -1, .shown = "memory"};
    s->fd = pg__sys_memory_file();
    if (s->fd < 0) {
        pg__mem_free(s);
        return pg_fail_sys(err, PG_E_IO, errno, "cannot create a file in memory");
    }
    *out = s;
    return PG_OK;
}

void pg__sink_close(pg__sink *s)
{
    if (!s)
        return;
    while (s->tmp[0] && unlinkat(s->dir, s->tmp, 0) && errno == EINTR)
        ;
    if (s->fd >= 0)
        close(s->fd);
    if (s->dir >= 0)
        close(s->dir);
    pg__mem_free(s->buf);
    pg__mem_free(s);
}

/* --- writing --------------------------------------------------------------------------------- */

pg_status pg__sink_check_cancel(pg__sink *s, pg_err *err)
{
    if (!pg__cancelled(s->opts.cancel))
        return PG_OK;
    s->broken = 1;
    return pg_fail(err, PG_E_CANCELLED, "%s: interrupted; nothing written", s->shown);
}

pg_status pg__sink_tick(pg__sink *s, pg_err *err)
{
    if (!s)
        return PG_OK;
    pg__progress_add(s->opts.progress, 0);
    return pg__sink_check_cancel(s, err);
}

static pg_status fail_write(pg__sink *s, int sys, pg_err *err)
{
    s->broken = 1;
    return pg_fail_sys(err, PG_E_IO, sys, "%s", s->shown);
}

pg_status pg__sink_begin(pg__sink *s, uint64_t off, uint64_t n, pg_err *err)
{
    uint64_t end;
    if (__builtin_add_overflow(off, n, &end) || end > INT64_MAX) {
        s->broken = 1;
        return pg_fail_sys(err, PG_E_IO, EFBIG, "%s", s->shown);
    }
    if (s->late)
        return fail_write(s, s->late, err);
    const pg_status st = pg__sink_check_cancel(s, err);
    if (st == PG_OK && n && end > s->size)
        s->size = end;
    return st;
}

/* fallocate() fills a disk before it finds that the rest does not fit, so check first. */
static pg_status check_space(pg__sink *s, uint64_t wanted, pg_err *err)
{
    struct statvfs vfs;
    uint64_t n_free;
    if (fstatvfs(s->fd, &vfs) || vfs.f_blocks == 0 ||
        __builtin_mul_overflow((uint64_t)vfs.f_bavail, (uint64_t)vfs.f_frsize, &n_free) ||
        n_free >= wanted)
        return PG_OK;
    (void)fail_write(s, ENOSPC, err);
    pg_err_detail(err, "needs %" PRIu64 " bytes, %" PRIu64 " are free; nothing written", wanted,
                  n_free);
    return PG_E_IO;
}

pg_status pg__sink_reserve(pg__sink *s, uint64_t n_bytes, pg_err *err)
{
    int rc;
    pg_status st = pg__sink_check_cancel(s, err);
    if (st == PG_OK && n_bytes > INT64_MAX)
        st = fail_write(s, EFBIG, err);
    if (st == PG_OK)
        st = check_space(s, n_bytes, err);
    if (st != PG_OK || n_bytes == 0)
        return st;
    do
        rc = pg__sys_allocate(s->fd, 0, n_bytes) ? errno : 0;
    while (rc == EINTR && (st = pg__sink_check_cancel(s, err)) == PG_OK);
    if (st != PG_OK)
        return st;
    if (rc == 0 && n_bytes > s->allocated)
        s->allocated = n_bytes;
    if (rc == 0 || rc == EOPNOTSUPP || rc == ENOSYS || rc == EINVAL || rc == ENODEV || rc == EPERM)
        return PG_OK; /* done, or not possible on this file system */
    return fail_write(s, rc, err);
}

pg_status pg__sink_put(pg__sink *s, uint64_t off, const unsigned char *p, size_t n, pg_err *err)
{
    while (n) {
        const ssize_t put =
            pwrite(s->fd, p, n < PG_SINK_KERNEL_BYTES ? n : PG_SINK_KERNEL_BYTES, (off_t)off);
        const int sys = put < 0 ? errno : EIO; /* a count of 0 must not loop for ever */
        if (put > 0) {
            off += (uint64_t)put;
            p += put;
            n -= (size_t)put;
        } else if (sys != EINTR) {
            return fail_write(s, sys, err);
        }
        const pg_status st = n ? pg__sink_check_cancel(s, err) : PG_OK;
        if (st != PG_OK)
            return st;
    }
    return PG_OK;
}

pg_status pg__sink_write(pg__sink *s, uint64_t off, const void *p, size_t n, pg_err *err)
{
    pg_status st = pg__sink_begin(s, off, n, err);
    if (st == PG_OK)
        st = pg__sink_put(s, off, p, n, err);
    if (st == PG_OK)
        pg__progress_add(s->opts.progress, n);
    return st;
}

int pg__sink_resize(int fd, uint64_t n_bytes)
{
    int rc;
    do
        rc = ftruncate(fd, (off_t)n_bytes) ? errno : 0;
    while (rc == EINTR);
    return rc;
}

pg_status pg__sink_extend(pg__sink *s, uint64_t n_bytes, pg_err *err)
{
    struct stat sb;
    pg_status st = pg__sink_begin(s, 0, n_bytes, err);
    if (st == PG_OK && fstat(s->fd, &sb))
        return fail_write(s, errno, err);
    const int rc =
        st == PG_OK && (uint64_t)sb.st_size < n_bytes ? pg__sink_resize(s->fd, n_bytes) : 0;
    return rc ? fail_write(s, rc, err) : st;
}

/* --- the end --------------------------------------------------------------------------------- */

/* Cuts off what was reserved but not needed. */
static pg_status set_size(pg__sink *s, pg_err *err)
{
    const int rc = s->allocated > s->size ? pg__sink_resize(s->fd, s->size) : 0;
    if (rc)
        return fail_write(s, rc, err);
    s->allocated = s->size;
    return PG_OK;
}

pg_status pg__sink_reopen(pg__sink *s, pg__io **out, pg_err *err)
{
    pg_status st = pg__sink_check_cancel(s, err);
    if (st == PG_OK)
        st = set_size(s, err);
    if (st != PG_OK)
        return st;
    const int fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return pg_fail_sys(err, PG_E_IO, errno, "%s", s->shown);
    return pg__io_open_fd(out, fd, s->shown, err);
}

pg_status pg__sink_temporary(pg__sink *s, pg__str *out, pg_err *err)
{
    const pg_status st = set_size(s, err);
    return st == PG_OK ? pg__str_printf(out, err, "%s/%s", s->folder, s->tmp) : st;
}

uint64_t pg__sink_size(const pg__sink *s)
{
    return s->size;
}

/* fsync, and the errors that only close() reports: network file systems write at every close, and a
 * second descriptor keeps the lock. A failed fsync is not repeated: the kernel may have dropped
 * pages. */
static pg_status flush(pg__sink *s, pg_err *err)
{
    int rc = 0;
    if (!s->opts.no_sync) {
        do
            rc = pg__sys_sync(s->fd) ? errno : 0;
        while (rc == EINTR);
    }
    if (rc == EINVAL) /* the file system has nothing to sync */
        rc = 0;
    const int fd = rc ? -1 : fcntl(s->fd, F_DUPFD_CLOEXEC, 0);
    if (!rc && (fd < 0 || (close(fd) && errno != EINTR)))
        rc = errno;
    return rc ? fail_write(s, rc, err) : PG_OK;
}

/* Gives the temporary its name if nothing may be replaced. Old kernels and some file systems lack
 * RENAME_NOREPLACE, and some of those also lack hard links. */
static int rename_new(const pg__sink *s)
{
    struct stat sb;
    if (pg__sys_rename_new(s->dir, s->tmp, s->name) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
        return errno;
    if (linkat(s->dir, s->tmp, s->dir, s->name, 0) == 0) {
        unlinkat(s->dir, s->tmp, 0);
        return 0;
    }
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK)
        return errno;
    if (fstatat(s->dir, s->name, &sb, AT_SYMLINK_NOFOLLOW) == 0)
        return EEXIST;
    return renameat(s->dir, s->tmp, s->dir, s->name) ? errno : 0;
}

int pg__sink_is_named(const pg__sink *s)
{
    return s->fd >= 0 && !s->tmp[0];
}

pg_status pg__sink_commit(pg__sink *s, pg_err *err)
{
    pg_status st = PG_OK;
    int rc;
    if (s->broken || !s->tmp[0])
        return pg_fail(err, PG_E_ARG, "%s: incomplete; nothing written", s->shown);
    PG_TRY(pg__sink_check_cancel(s, err));
    PG_TRY(set_size(s, err));
    if (fchmod(s->fd, s->mode) && errno != EPERM && errno != ENOTSUP && errno != ENOSYS) {
        st = fail_write(s, errno, err);
        goto done;
    }
    PG_TRY(flush(s, err));
    PG_TRY(pg__sink_check_cancel(s, err));
    rc = !s->opts.force ? rename_new(s) : renameat(s->dir, s->tmp, s->dir, s->name) ? errno : 0;
    if (rc == EEXIST) {
        st = fail_exists(s, err);
        goto done;
    }
    if (rc) {
        st = fail_write(s, rc, err);
        goto done;
    }
    s->tmp[0] = 0;
    rc = s->opts.no_sync ? 0 : pg__folder_fsync(s->dir);
    if (rc)
        st = pg_fail_sys(err, PG_E_IO, rc, "%s: written, but the folder could not be synced",
                         s->shown);
done:
    return st;
}
