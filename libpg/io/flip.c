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
#include "base/str.h"
#include "base/try.h"
#include "io/system.h"

#define SECTOR_BYTES 512u
#define WRITE_BYTES  ((size_t)4 << 20) /* per call: a cancel is noticed in between */

struct pg__flip {
    pg__sink_opts opts;
    int fd, locked;
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

static pg_status lock(pg__flip *f, pg_err *err)
{
    int rc;
    do
        rc = flock(f->fd, LOCK_EX | LOCK_NB) ? errno : 0;
    while (rc == EINTR);
    f->locked = rc == 0;
    if (rc == EWOULDBLOCK)
        return pg_fail(err, PG_E_IO, "%s: in use by another program (locked); nothing changed",
                       f->shown);
    if (rc == 0 || rc == ENOLCK || rc == ENOSYS || rc == EOPNOTSUPP || rc == EINVAL)
        return PG_OK; /* the last two: this file system has no locks */
    (void)pg_fail_sys(err, PG_E_IO, rc, "%s: cannot be locked", f->shown);
    pg__err_append(err, "; nothing changed");
    return PG_E_IO;
}

int pg__flip_is_locked(const pg__flip *f)
{
    return f->locked;
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

pg_status pg__flip_check(const pg__flip *f, pg__io *io, pg_err *err)
{
    struct stat a, b;
    if (fstat(f->fd, &a) || fstat(pg__io_fd(io, 0, NULL), &b))
        return pg_fail_sys(err, PG_E_IO, errno, "%s", f->shown);
    if (a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return PG_OK;
    return pg_fail(err, PG_E_IO, "%s: replaced by another file while it was read", f->shown);
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
        rc = pg__sys_sync_data(fd) ? errno : 0;
    while (rc == EINTR);
    return rc == EINVAL ? 0 : rc; /* the file system has nothing to sync */
}

/* ---- the change -------------------------------------------------------------------------------
 */

/* One change in progress, and what is needed to undo it. */
typedef struct change {
    const pg__flip *f;
    const pg__flip_change *c;
    uint64_t size, new_end;               /* of the file; of the new contents */
    unsigned char old_head[SECTOR_BYTES]; /* n_head bytes of it */
    unsigned char *behind;                /* what was where the new tail goes; NULL: nothing */
    size_t n_behind;
    int begun; /* the file may be longer than it was */
    int over;  /* ... and hold other bytes after its end */
    enum { HEAD_OLD, HEAD_TORN, HEAD_NEW } head;
} change;

/* Allocates the missing space before a byte is written. Checks first whether the disk has it:
 * fallocate() would fill up a nearly full one. */
static int reserve(const change *x)
{
    const uint64_t end = x->c->end, n_more = x->new_end > x->size ? x->new_end - x->size : 0;
    struct statvfs vfs;
    uint64_t n_free;
    int rc;
    if (fstatvfs(x->f->fd, &vfs) == 0 && vfs.f_blocks &&
        !__builtin_mul_overflow((uint64_t)vfs.f_bavail, (uint64_t)vfs.f_frsize, &n_free) &&
        n_free < n_more)
        return ENOSPC;
    do
        rc = pg__sys_allocate(x->f->fd, end, x->new_end - end) ? errno : 0;
    while (rc == EINTR);
    return rc == EOPNOTSUPP || rc == ENOSYS || rc == EINVAL || rc == ENODEV || rc == EPERM ? 0 : rc;
}

static pg_status cancelled(const change *x, pg_err *err)
{
    if (!pg__cancelled(x->f->opts.cancel))
        return PG_OK;
    return pg_fail(err, PG_E_CANCELLED, "%s: interrupted", x->f->shown);
}

static pg_status failed(const change *x, int sys, pg_err *err)
{
    return pg_fail_sys(err, PG_E_IO, sys, "%s", x->f->shown);
}

static pg_status check_change(change *x, pg_err *err)
{
    const pg__flip_change *c = x->c;
    struct stat sb;
    if (c->n_head > SECTOR_BYTES || c->n_head > c->end || c->tail_at < c->end ||
        __builtin_add_overflow(c->tail_at, c->n_tail, &x->new_end) || x->new_end > INT64_MAX)
        return pg_fail(err, PG_E_ARG, "%s: no change that can be made in one step", x->f->shown);
    if (fstat(x->f->fd, &sb))
        return failed(x, errno, err);
    x->size = (uint64_t)sb.st_size;
    if (x->size < c->end)
        return pg_fail(err, PG_E_FORMAT, "%s: truncated while it was read", x->f->shown);
    return cancelled(x, err);
}

static pg_status get(const change *x, unsigned char *buf, size_t n, uint64_t off, pg_err *err)
{
    while (n) {
        const ssize_t k = pread(x->f->fd, buf, n, (off_t)off);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return failed(x, k < 0 ? errno : EIO, err);
        buf += k;
        off += (uint64_t)k;
        n -= (size_t)k;
    }
    return PG_OK;
}

/* Saves what will be overwritten. */
static pg_status keep_old(change *x, pg_err *err)
{
    const uint64_t end = x->c->end, n = (x->size < x->new_end ? x->size : x->new_end) - end;
    pg_status st = get(x, x->old_head, x->c->n_head, 0, err);
    if (st != PG_OK || n == 0)
        return st;
    if (n > SIZE_MAX || !(x->behind = pg__mem_array((size_t)n, 1)))
        return pg__nomem(err);
    x->n_behind = (size_t)n;
    return get(x, x->behind, x->n_behind, end, err);
}

/* Writes zeros from the old end to the tail where the file holds something else. */
static int clear_gap(const change *x)
{
    static const unsigned char zeros[SECTOR_BYTES];
    const uint64_t to = x->size < x->c->tail_at ? x->size : x->c->tail_at;
    int rc = 0;
    for (uint64_t at = x->c->end; rc == 0 && at < to;) {
        const size_t n = to - at < sizeof zeros ? (size_t)(to - at) : sizeof zeros;
        rc = put(x->f->fd, zeros, n, at);
        at += n;
    }
    return rc;
}

static pg_status write_tail(change *x, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__flip_change *c = x->c;
    x->begun = 1;
    int rc = reserve(x);
    if (rc == 0) {
        x->over = 1;
        rc = clear_gap(x);
    }
    for (size_t at = 0; rc == 0 && at < c->n_tail;) {
        const size_t n = c->n_tail - at < WRITE_BYTES ? c->n_tail - at : WRITE_BYTES;
        PG_TRY(cancelled(x, err));
        rc = put(x->f->fd, c->tail + at, n, c->tail_at + at);
        pg__progress_add(x->f->opts.progress, n);
        at += n;
    }
    if (rc == 0)
        rc = wait_for_disk(x->f->fd);
    if (rc)
        st = failed(x, rc, err);
done:
    return st;
}

/* Reads the tail back: a disk that lies must be noticed before anything points to the tail. */
static pg_status read_back(const change *x, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__flip_change *c = x->c;
    unsigned char *buf = pg__mem_array(PG_COPY_BYTES, 1);
    if (!buf)
        return pg__nomem(err);
    for (size_t at = 0; at < c->n_tail;) {
        const size_t left = c->n_tail - at, n = left < PG_COPY_BYTES ? left : PG_COPY_BYTES;
        PG_TRY(get(x, buf, n, c->tail_at + at, err));
        if (memcmp(buf, c->tail + at, n) != 0)
            PG_FAIL(PG_E_IO, "%s: what was written reads back differently", x->f->shown);
        at += n;
    }
done:
    pg__mem_free(buf);
    return st;
}

/* The step itself. */
static pg_status write_head(change *x, pg_err *err)
{
    const pg__flip_change *c = x->c;
    int rc = put(x->f->fd, c->head, c->n_head, 0);
    if (rc) {
        if (put(x->f->fd, x->old_head, c->n_head, 0) || wait_for_disk(x->f->fd))
            x->head = HEAD_TORN;
        return failed(x, rc, err);
    }
    x->head = HEAD_NEW;
    rc = x->f->opts.no_sync ? 0 : wait_for_disk(x->f->fd);
    if (x->size > x->new_end)
        (void)cut(x->f->fd, x->new_end); /* harmless if it fails: nothing points there */
    return rc ? pg_fail_sys(err, PG_E_IO, rc,
                            "%s: changed, but the change may not have reached the disk",
                            x->f->shown)
              : PG_OK;
}

/* Restores the file, as far as the disk allows, and ends the message with how that went. */
static void undo(const change *x, pg_err *err)
{
    if (x->head == HEAD_NEW)
        return;
    const int torn = x->head == HEAD_TORN; /* the new tail may be needed */
    const int rc = x->begun && !torn ? cut(x->f->fd, x->size) : 0;
    if (torn)
        pg__err_append(err, "; its first sector could not be restored");
    else if (x->over && x->n_behind && put(x->f->fd, x->behind, x->n_behind, x->c->end))
        pg__err_append(err, "; the model is as it was, the bytes after its end are lost");
    else if (rc)
        pg__err_append(err, "; the model is as it was, with a tail that nothing leads to");
    else
        pg__err_append(err, "; nothing changed");
}

pg_status pg__flip_write(pg__flip *f, const pg__flip_change *c, pg_err *err)
{
    change x = {.f = f, .c = c};
    pg_status st = PG_OK;
    PG_TRY(check_change(&x, err));
    PG_TRY(keep_old(&x, err));
    PG_TRY(write_tail(&x, err));
    PG_TRY(read_back(&x, err));
    PG_TRY(cancelled(&x, err));
    PG_TRY(write_head(&x, err));
done:
    if (st != PG_OK)
        undo(&x, err);
    pg__mem_free(x.behind);
    return st;
}
