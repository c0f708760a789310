/* io.c - positioned reads over a regular file, a window of one, memory, or several in a row.
 *
 * pread() rather than mmap(): a file that shrinks while it is read must give an error, not SIGBUS.
 * The size is read once, at opening, and every range is checked against it before a system call, so
 * that a lying offset never reaches the system. */
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/irregular.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/try.h"
#include "base/watch.h"
#include "io/folder.h"
#include "io/system.h"

#define MAX_READ_BYTES ((size_t)1 << 30) /* Linux moves at most 2 GiB - 4 KiB per call */

struct pg__io {
    size_t n_refs;
    int fd;                   /* of a file, else -1 */
    int folder;               /* of a file that is open only while it is read, else -1; borrowed */
    const unsigned char *mem; /* of memory, else NULL */
    pg__io *parent;           /* of a window, else NULL */
    uint64_t off;             /* of a window: in the parent */
    pg__io **parts;           /* of several, else NULL */
    size_t n_parts;
    uint64_t size;
    struct timespec mtime; /* of a file, when it was opened */
    char *name;
};

/* NULL if there is no memory. */
static pg__io *new_io(const char *name)
{
    pg__io *io = pg__mem_array(1, sizeof *io);
    char *copy = pg__mem_strdup(name);
    if (!io || !copy) {
        pg__mem_free(io);
        pg__mem_free(copy);
        return NULL;
    }
    io->n_refs = 1;
    io->fd = -1;
    io->folder = -1;
    io->name = copy;
    return io;
}

/* Only regular files are read: a FIFO would block, a device has no size. */
static pg_status check_kind(const struct stat *sb, const char *name, pg_err *err)
{
    if (S_ISREG(sb->st_mode))
        return PG_OK;
    if (S_ISDIR(sb->st_mode))
        return pg_fail_sys(err, PG_E_IO, EISDIR, "%s", name);
    return pg_fail(err, PG_E_ARG, "%s: not a regular file (a %s); copy its contents to a file",
                   name, pg__irregular(sb));
}

pg_status pg__io_open_fd(pg__io **out, int fd, const char *name, pg_err *err)
{
    struct stat sb;
    char shown[400];
    pg__printable(shown, sizeof shown, name, strlen(name));
    const pg_status st = fstat(fd, &sb) ? pg_fail_sys(err, PG_E_IO, errno, "%s", shown)
                                        : check_kind(&sb, shown, err);
    pg__io *io = st == PG_OK ? new_io(name) : NULL;
    if (!io) {
        close(fd);
        return st == PG_OK ? pg__nomem(err) : st;
    }
    io->fd = fd;
    io->size = (uint64_t)sb.st_size;
    io->mtime = PG_MTIME(sb);
    *out = io;
    return PG_OK;
}

pg_status pg__io_open(pg__io **out, const char *path, pg_err *err)
{
    char shown[400];
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    if (fd >= 0)
        return pg__io_open_fd(out, fd, path, err);
    const int sys = errno;
    pg__printable(shown, sizeof shown, path, strlen(path));
    if (sys == ENXIO) /* sockets, devices without a driver */
        return pg_fail(err, PG_E_ARG, "%s: not a regular file", shown);
    return pg_fail_sys(err, PG_E_IO, sys, "%s", shown);
}

pg_status pg__io_open_if(pg__io **out, const char *path, pg_err *err)
{
    int is = 0;
    const pg_status st = pg__is_file(&is, path, err);
    return is ? pg__io_open(out, path, err) : st;
}

pg_status pg__io_folder_of(int *out, const char *path, const char *name, pg_err *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == path ? pg__mem_strdup("/")
                   : slash       ? pg__mem_strndup(path, (size_t)(slash - path))
                                 : pg__mem_strdup(".");
    if (!folder)
        return pg__nomem(err);
    *out = pg__folder_open(folder, PG_O_PATH);
    const int sys = errno;
    pg__mem_free(folder);
    return *out < 0 ? pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(name)) : PG_OK;
}

/* A link in place of a folder is ENOTDIR with O_DIRECTORY | O_NOFOLLOW. */
static int is_link(int dir, const char *name)
{
    struct stat sb;
    return fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(sb.st_mode);
}

/* Opens component `name` of `shown` in dir; it is a folder or the file itself. */
static pg_status open_component(int *out, int dir, const char *name, int folder, const char *shown,
                                pg_err *err)
{
    const int how = folder ? PG_O_PATH | O_DIRECTORY : O_RDONLY | O_NONBLOCK | O_NOCTTY;
    int fd;
    do
        fd = openat(dir, name, how | O_CLOEXEC | O_NOFOLLOW);
    while (fd < 0 && errno == EINTR);
    const int sys = errno, linked = fd < 0 && is_link(dir, name);
    if (linked)
        return pg_fail(err, PG_E_FORMAT, "%s: a symbolic link, which is not followed here",
                       PG_SHOW(shown));
    if (fd < 0)
        return pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(shown));
    *out = fd;
    return PG_OK;
}

static int is_component(const char *name, size_t n)
{
    return n > 0 && !(n == 1 && name[0] == '.') && !(n == 2 && name[0] == '.' && name[1] == '.') &&
           !memchr(name, '\\', n) && !memchr(name, '/', n);
}

static int is_path_below(const char *name)
{
    for (const char *p = name;; p++) {
        const size_t n = strcspn(p, "/");
        if (!is_component(p, n) || n > NAME_MAX)
            return 0;
        p += n;
        if (!*p)
            return 1;
    }
}

/* Component by component: for old systems, and to find out what is wrong. */
static pg_status open_slowly(int *out, int folder, const char *name, pg_err *err)
{
    char part[NAME_MAX + 1];
    int dir = folder, fd = -1;
    pg_status st = PG_OK;
    for (const char *p = name; st == PG_OK; p++) {
        const size_t n = strcspn(p, "/");
        memcpy(part, p, n);
        part[n] = 0;
        p += n;
        st = open_component(&fd, dir, part, *p != 0, name, err);
        if (dir != folder)
            close(dir);
        dir = fd;
        if (!*p)
            break;
    }
    *out = fd;
    return st;
}

pg_status pg__io_open_below(pg__io **out, int folder, const char *name, pg_err *err)
{
    pg_status st = PG_OK;
    if (!is_path_below(name))
        return pg_fail(err, PG_E_FORMAT, "\"%s\" is not the name of a file below this folder",
                       PG_SHOW(name));
    int fd = pg__sys_open_beneath(folder, name);
    if (fd < 0 && errno == ENOENT && !strchr(name, '/')) /* of many shards, many may be missing */
        return pg_fail_sys(err, PG_E_IO, ENOENT, "%s", PG_SHOW(name));
    if (fd < 0)
        st = open_slowly(&fd, folder, name, err);
    return st == PG_OK ? pg__io_open_fd(out, fd, name, err) : st;
}

pg_status pg__io_open_beneath(pg__io **out, const char *path, const char *name, pg_err *err)
{
    int folder = -1;
    pg_status st = pg__io_folder_of(&folder, path, name, err);
    if (st != PG_OK)
        return st;
    st = pg__io_open_below(out, folder, name, err);
    close(folder);
    return st;
}

pg_status pg__io_open_beside(pg__io **out, int folder, const char *name, pg_err *err)
{
    if (!is_component(name, strlen(name)))
        return pg_fail(err, PG_E_FORMAT, "\"%s\" is not the name of a file beside this one",
                       PG_SHOW(name));
    return pg__io_open_below(out, folder, name, err);
}

pg_status pg__io_open_mem(pg__io **out, const void *p, size_t n, pg_err *err)
{
    pg__io *io = new_io("memory");
    if (!io)
        return pg__nomem(err);
    io->mem = n ? p : (const void *)"";
    io->size = n;
    *out = io;
    return PG_OK;
}

pg_status pg__io_open_window(pg__io **out, pg__io *parent, uint64_t off, uint64_t n, pg_err *err)
{
    if (off > parent->size || n > parent->size - off)
        return pg_fail(err, PG_E_FORMAT,
                       "truncated: bytes %" PRIu64 " and %" PRIu64
                       " more are not in a file of %" PRIu64,
                       off, n, parent->size);
    pg__io *io = new_io(parent->name);
    if (!io)
        return pg__nomem(err);
    io->parent = pg__io_ref(parent);
    io->off = off;
    io->size = n;
    *out = io;
    return PG_OK;
}

pg_status pg__io_open_joined(pg__io **out, pg__io *const *parts, size_t n, pg_err *err)
{
    pg__io *io = new_io(n ? parts[0]->name : "memory");
    if (!io || !(io->parts = pg__mem_array(n, sizeof *io->parts))) {
        pg__io_close(io);
        return pg__nomem(err);
    }
    for (size_t i = 0; i < n; i++) {
        if (__builtin_add_overflow(io->size, parts[i]->size, &io->size) || io->size > INT64_MAX) {
            pg__io_close(io);
            return pg_fail(err, PG_E_LIMIT, "the parts are too large together");
        }
        io->parts[io->n_parts++] = pg__io_ref(parts[i]);
    }
    *out = io;
    return PG_OK;
}

pg__io *pg__io_ref(pg__io *io)
{
    io->n_refs++;
    return io;
}

void pg__io_close(pg__io *io)
{
    while (io && --io->n_refs == 0) {
        pg__io *parent = io->parent;
        if (io->fd >= 0)
            close(io->fd);
        for (size_t i = 0; i < io->n_parts; i++) /* the parts are not joined themselves, so this
                                                    ends */
            pg__io_close(io->parts[i]);
        pg__mem_free(io->parts);
        pg__mem_free(io->name);
        pg__mem_free(io);
        io = parent;
    }
}

uint64_t pg__io_size(const pg__io *io)
{
    return io->size;
}

const char *pg__io_name(const pg__io *io)
{
    return io->name;
}

/* The io that holds the bytes of a window, and where. */
static const pg__io *origin(const pg__io *io, uint64_t *off)
{
    for (; io->parent; io = io->parent)
        *off += io->off; /* cannot overflow: a window lies inside its parent */
    return io;
}

static pg_status read_file(const pg__io *io, uint64_t off, unsigned char *buf, size_t n,
                           pg_err *err)
{
    while (n) {
        const ssize_t got = pread(io->fd, buf, n < MAX_READ_BYTES ? n : MAX_READ_BYTES, (off_t)off);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return pg_fail_sys(err, PG_E_IO, errno, "cannot read at byte %" PRIu64, off);
        if (got == 0)
            return pg_fail(err, PG_E_FORMAT,
                           "truncated while it was read: it ends before byte %" PRIu64
                           ", at first it held %" PRIu64 " bytes",
                           off, io->size);
        off += (uint64_t)got;
        buf += got;
        n -= (size_t)got;
    }
    return PG_OK;
}

static pg_status check_unchanged(const pg__io *io, const struct stat *sb, pg_err *err)
{
    if ((uint64_t)sb->st_size == io->size && PG_MTIME(*sb).tv_sec == io->mtime.tv_sec &&
        PG_MTIME(*sb).tv_nsec == io->mtime.tv_nsec)
        return PG_OK;
    return pg_fail(err, PG_E_IO,
                   "%s: was changed while it was read; run this again when it is whole",
                   PG_SHOW(io->name));
}

/* Opens a file again that pg__io_rest() closed. */
static pg_status wake(pg__io **out, const pg__io *io, pg_err *err)
{
    struct stat sb;
    pg__io *now = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__io_open_below(&now, io->folder, io->name, err));
    if (fstat(now->fd, &sb))
        st = pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(io->name));
    else
        st = check_unchanged(io, &sb, err);
    if (st == PG_OK) {
        *out = now;
        now = NULL;
    }
done:
    pg__io_close(now);
    return st;
}

void pg__io_rest(pg__io *io, int folder)
{
    if (io->fd >= 0)
        close(io->fd);
    io->fd = -1;
    io->folder = folder;
}

static pg_status read_resting(const pg__io *io, uint64_t off, unsigned char *buf, size_t n,
                              pg_err *err)
{
    pg__io *now = NULL;
    pg_status st = wake(&now, io, err);
    if (st == PG_OK)
        st = read_file(now, off, buf, n, err);
    pg__io_close(now);
    return st;
}

static pg_status read_parts(const pg__io *io, uint64_t off, unsigned char *buf, size_t n,
                            pg_err *err)
{
    for (size_t i = 0; i < io->n_parts && n; i++) {
        const uint64_t size = io->parts[i]->size;
        if (off >= size) {
            off -= size;
            continue;
        }
        const size_t k = size - off < n ? (size_t)(size - off) : n;
        const pg_status st = pg__io_read(io->parts[i], off, buf, k, err);
        if (st != PG_OK)
            return st;
        buf += k;
        n -= k;
        off = 0;
    }
    return PG_OK;
}

pg_status pg__io_read(pg__io *io, uint64_t off, void *buf, size_t n, pg_err *err)
{
    if (off > io->size || n > io->size - off)
        return pg_fail(err, PG_E_FORMAT,
                       "truncated: %zu bytes at byte %" PRIu64 " are wanted, it holds %" PRIu64
                       " bytes",
                       n, off, io->size);
    const pg__io *o = origin(io, &off);
    if (o->parts)
        return read_parts(o, off, buf, n, err);
    if (o->folder >= 0)
        return read_resting(o, off, buf, n, err);
    if (!o->mem)
        return read_file(o, off, buf, n, err);
    if (n)
        memcpy(buf, o->mem + off, n);
    return PG_OK;
}

pg_status pg__io_sha256(pg__io *io, char out[65], const volatile int *cancel, pg_progress *progress,
                        pg_err *err)
{
    pg_status st = PG_OK;
    pg__sha256 sum;
    unsigned char *buf = pg__mem_array(PG_COPY_BYTES, 1);
    if (!buf)
        return pg__nomem(err);
    pg__sha256_init(&sum);
    for (uint64_t off = 0, size = pg__io_size(io); off < size;) {
        const size_t n = size - off < PG_COPY_BYTES ? (size_t)(size - off) : PG_COPY_BYTES;
        if (pg__cancelled(cancel))
            PG_FAIL(PG_E_CANCELLED, "interrupted");
        PG_TRY(pg__io_read(io, off, buf, n, err));
        pg__sha256_add(&sum, buf, n);
        pg__progress_add(progress, 0);
        off += n;
    }
    pg__sha256_hex(&sum, out);
done:
    pg__mem_free(buf);
    return st;
}

pg_status pg__io_check_same(const pg__io *io, pg_err *err)
{
    struct stat sb;
    uint64_t off = 0;
    const pg__io *o = origin(io, &off);
    for (size_t i = 0; i < o->n_parts; i++) {
        const pg_status st = pg__io_check_same(o->parts[i], err);
        if (st != PG_OK)
            return st;
    }
    if (o->mem || o->parts)
        return PG_OK;
    if (o->folder >= 0) {
        pg__io *now = NULL;
        const pg_status st = wake(&now, o, err);
        pg__io_close(now);
        return st;
    }
    if (fstat(o->fd, &sb))
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(o->name));
    return check_unchanged(o, &sb, err);
}

int pg__io_fd(const pg__io *io, uint64_t off, uint64_t *fd_off)
{
    const pg__io *o = origin(io, &off);
    if (fd_off)
        *fd_off = off;
    return o->fd;
}
