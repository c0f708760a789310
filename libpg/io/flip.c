/* flip.c - tail, wait, head, wait: see flip.h. */
#include "io/flip.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"

#define SECTOR_BYTES 512u
#define WRITE_BYTES  ((size_t)4 << 20) /* per call, so that a cancel is heard in between */

struct pg__flip {
    pg__sink_opts opts;
    int fd;
    char shown[sizeof(pg__shown)]; /* path as given, for messages */
};

/* ---- the file ---------------------------------------------------------------------------------
 */

static pg_status check_file(const pg__flip *f, pg_err *err)
{
    struct stat sb;
    if (fstat(f->fd, &sb))
        return pg_fail_sys(err, PG_E_IO, errno, "%s", f->shown);
    if (!S_ISREG(sb.st_mode))
        return pg_fail(err, PG_E_ARG, "%s: is not a regular file", f->shown);
    if (sb.st_nlink > 1)
        return pg_fail(err, PG_E_ARG,
                       "%s: has %ju names (hard links), and all would change; write a new file",
                       f->shown, (uintmax_t)sb.st_nlink);
    return PG_OK;
}

static pg_status lock(const pg__flip *f, pg_err *err)
{
    if (flock(f->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return PG_OK; /* other errors: no locks on this file system */
    return pg_fail(err, PG_E_IO, "%s: in use by another program (locked); nothing changed",
                   f->shown);
}

pg_status pg__flip_open(pg__flip **out, const char *path, const pg__sink_opts *opts, pg_err *err)
{
    pg_status st = PG_OK;
    pg__flip *f = pg__mem_array(1, sizeof *f);
    if (!f)
        return pg__nomem(err);
    f->opts = *opts;
    pg__printable(f->shown, sizeof f->shown, path, strlen(path));
    do
        f->fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    while (f->fd < 0 && errno == EINTR);
    if (f->fd < 0) {
        st = errno == ENOENT ? pg_fail_sys(err, PG_E_IO, errno, "%s", f->shown)
                             : pg_fail_sys(err, PG_E_IO, errno, "%s: cannot be changed", f->shown);
        goto done;
    }
    PG_TRY(check_file(f, err));
    PG_TRY(lock(f, err));
    *out = f;
    f = NULL;
done:
    pg__flip_close(f);
    return st;
}

int pg__flip_is(const pg__flip *f, pg__io *io)
{
    struct stat a, b;
    return fstat(f->fd, &a) == 0 && fstat(pg__io_fd(io, 0, NULL), &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

void pg__flip_close(pg__flip *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    pg__mem_free(f);
}

/* ---- calls that go on after a signal; 0 or the system's number --------------------------------
 */

static int put(int fd, const unsigned char *p, size_t n, uint64_t off)
{
    while (n) {
        const ssize_t k = pwrite(fd, p, n, (off_t)off);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return k < 0 ? errno : EIO;
        p += k;
        off += (uint64_t)k;
        n -= (size_t)k;
    }
    return 0;
}

static int cut(int fd, uint64_t size)
{
    int rc;
    do
        rc = ftruncate(fd, (off_t)size) ? errno : 0;
    while (rc == EINTR);
    return rc;
}

static int wait_for_disk(int fd)
{
    int rc;
    do
        rc = fdatasync(fd) ? errno : 0;
    while (rc == EINTR);
    return rc == EINVAL ? 0 : rc; /* the file system has nothing to sync */
}

/* Takes the room of the tail before a byte of it is written. A disk that is nearly full is asked
 * first: fallocate() would fill it up. */
static int reserve(int fd, uint64_t end, uint64_t n)
{
    struct statvfs vfs;
    uint64_t n_free;
    int rc;
    if (fstatvfs(fd, &vfs) == 0 && vfs.f_blocks &&
        !__builtin_mul_overflow((uint64_t)vfs.f_bavail, (uint64_t)vfs.f_frsize, &n_free) &&
        n_free < n)
        return ENOSPC;
    do
        rc = fallocate(fd, 0, (off_t)end, (off_t)n) ? errno : 0;
    while (rc == EINTR);
    return rc == EOPNOTSUPP || rc == ENOSYS || rc == EINVAL || rc == ENODEV || rc == EPERM ? 0 : rc;
}

/* ---- the change -------------------------------------------------------------------------------
 */

static pg_status cancelled(const pg__flip *f, pg_err *err)
{
    if (!pg__cancelled(f->opts.cancel))
        return PG_OK;
    return pg_fail(err, PG_E_CANCELLED, "%s: interrupted; nothing changed", f->shown);
}

static pg_status failed(const pg__flip *f, int sys, int sure, pg_err *err)
{
    (void)pg_fail_sys(err, PG_E_IO, sys, "%s", f->shown);
    pg_err_detail(err, "%s", sure ? "nothing changed" : "its first sector could not be restored");
    return PG_E_IO;
}

static pg_status check_change(const pg__flip *f, const pg__flip_change *c, pg_err *err)
{
    struct stat sb;
    uint64_t new_end;
    if (c->n_head > SECTOR_BYTES || c->n_head > c->end || c->tail_at < c->end ||
        __builtin_add_overflow(c->tail_at, c->n_tail, &new_end) || new_end > INT64_MAX)
        return pg_fail(err, PG_E_ARG, "%s: no change that can be made in one step", f->shown);
    if (fstat(f->fd, &sb))
        return failed(f, errno, 1, err);
    if ((uint64_t)sb.st_size < c->end)
        return pg_fail(err, PG_E_FORMAT, "%s: truncated while it was read; nothing changed",
                       f->shown);
    return cancelled(f, err);
}

static pg_status write_tail(const pg__flip *f, const pg__flip_change *c, pg_err *err)
{
    pg_status st = PG_OK;
    int rc = reserve(f->fd, c->end, c->tail_at - c->end + c->n_tail);
    for (size_t at = 0; rc == 0 && at < c->n_tail;) {
        const size_t n = c->n_tail - at < WRITE_BYTES ? c->n_tail - at : WRITE_BYTES;
        PG_TRY(cancelled(f, err));
        rc = put(f->fd, c->tail + at, n, c->tail_at + at);
        pg__progress_add(f->opts.progress, n);
        at += n;
    }
    if (rc == 0)
        rc = wait_for_disk(f->fd);
    if (rc)
        st = failed(f, rc, 1, err);
done:
    return st;
}

/* A disk that lies is found out before anything leads to the tail. */
static pg_status read_back(const pg__flip *f, const pg__flip_change *c, pg_err *err)
{
    pg_status st = PG_OK;
    unsigned char *buf = pg__mem_array(PG_COPY_BYTES, 1);
    if (!buf)
        return pg__nomem(err);
    for (size_t at = 0; at < c->n_tail;) {
        const size_t left = c->n_tail - at, n = left < PG_COPY_BYTES ? left : PG_COPY_BYTES;
        const ssize_t k = pread(f->fd, buf, n, (off_t)(c->tail_at + at));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            st = failed(f, errno, 1, err);
            goto done;
        }
        if (k == 0 || memcmp(buf, c->tail + at, (size_t)k) != 0)
            PG_FAIL(PG_E_IO, "%s: what was written reads back differently; nothing changed",
                    f->shown);
        at += (size_t)k;
    }
done:
    pg__mem_free(buf);
    return st;
}

/* The step itself. *old: what the head was; *sure = 0 if it may lead to the tail now. */
static pg_status write_head(const pg__flip *f, const pg__flip_change *c, const unsigned char *old,
                            int *sure, pg_err *err)
{
    int rc = put(f->fd, c->head, c->n_head, 0);
    if (rc) {
        *sure = put(f->fd, old, c->n_head, 0) == 0 && wait_for_disk(f->fd) == 0;
        return failed(f, rc, *sure, err);
    }
    *sure = 0;
    rc = f->opts.no_sync ? 0 : wait_for_disk(f->fd);
    return rc ? pg_fail_sys(err, PG_E_IO, rc, "%s: changed, but the disk may not have it yet",
                            f->shown)
              : PG_OK;
}

pg_status pg__flip_write(pg__flip *f, const pg__flip_change *c, pg_err *err)
{
    unsigned char old[SECTOR_BYTES];
    int sure = 1, rc;
    pg_status st = check_change(f, c, err);
    if (st != PG_OK)
        return st;
    if (pread(f->fd, old, c->n_head, 0) != (ssize_t)c->n_head)
        return failed(f, EIO, 1, err);
    rc = cut(f->fd, c->end);
    if (rc)
        return failed(f, rc, 1, err);
    PG_TRY(write_tail(f, c, err));
    PG_TRY(read_back(f, c, err));
    PG_TRY(cancelled(f, err));
    PG_TRY(write_head(f, c, old, &sure, err));
done:
    if (st != PG_OK && sure)
        (void)cut(f->fd, c->end); /* where it fails, the next run does it: nothing leads there */
    return st;
}
