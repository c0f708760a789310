/* append.c - files that grow record by record: opened, added to and closed each time. */
#include "io/append.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/try.h"

static int open_retrying(const char *path, int flags)
{
    int fd;
    do
        fd = open(path, flags | O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static pg_status size_of(uint64_t *out, int fd, const char *path, pg_err *err)
{
    struct stat sb;
    if (fstat(fd, &sb))
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(path));
    if (!S_ISREG(sb.st_mode))
        return pg_fail(err, PG_E_IO, "%s: is not a regular file; choose another name",
                       PG_SHOW(path));
    *out = (uint64_t)sb.st_size;
    return PG_OK;
}

pg_status pg__append_open(pg__append *a, const char *path, pg__append_how how, pg_err *err)
{
    static const int flags[] = {O_CREAT | O_EXCL, O_CREAT | O_TRUNC, O_CREAT};
    uint64_t n_bytes = 0;
    char *copy = NULL;
    pg_status st = PG_OK;
    const int fd = open_retrying(path, flags[how]);
    if (fd < 0)
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(path));
    PG_TRY(size_of(&n_bytes, fd, path, err));
    copy = pg__mem_strdup(path);
    if (!copy)
        PG_TRY(pg__nomem(err));
    pg__mem_free(a->path);
    a->path = copy;
    a->n_bytes = n_bytes;
done:
    close(fd);
    return st;
}

static int cut(int fd, uint64_t n_bytes)
{
    int rc;
    do
        rc = ftruncate(fd, (off_t)n_bytes);
    while (rc && errno == EINTR);
    return rc;
}

/* Opens the file, cut to its whole records: what a torn write left after them goes. */
static pg_status open_again(int *out, const pg__append *a, pg_err *err)
{
    uint64_t n_bytes = 0;
    pg_status st = PG_OK;
    const int fd = open_retrying(a->path, 0);
    if (fd < 0)
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(a->path));
    PG_TRY(size_of(&n_bytes, fd, a->path, err));
    if (n_bytes < a->n_bytes) {
        st = pg_fail(err, PG_E_IO, "%s: is shorter than it was written", PG_SHOW(a->path));
        if (err)
            err->sys = ENOENT;
        goto done;
    }
    if (n_bytes > a->n_bytes && cut(fd, a->n_bytes)) {
        st = pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(a->path));
        goto done;
    }
    *out = fd;
    return PG_OK;
done:
    close(fd);
    return st;
}

pg_status pg__append_flush(pg__append *a, pg_err *err)
{
    int fd = -1, failed = 0;
    pg_status st = PG_OK;
    if (a->pending.n == 0)
        return PG_OK;
    PG_TRY(open_again(&fd, a, err));
    for (size_t at = 0; at < a->pending.n && !failed;) {
        const ssize_t n =
            pwrite(fd, a->pending.s + at, a->pending.n - at, (off_t)(a->n_bytes + at));
        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || errno != EINTR)
            failed = n == 0 ? ENOSPC : errno;
    }
    if (failed)
        (void)cut(fd, a->n_bytes); /* if this fails too, the next try does it */
    if (close(fd) && !failed && errno != EINTR)
        failed = errno;
    if (failed)
        return pg_fail_sys(err, PG_E_IO, failed, "%s", PG_SHOW(a->path));
    a->n_bytes += a->pending.n;
    a->pending.n = 0;
done:
    return st;
}

pg_status pg__append_resume(pg__append *a, pg_err *err)
{
    int fd = -1;
    const pg_status st = open_again(&fd, a, err);
    if (st == PG_OK)
        close(fd);
    return st;
}

void pg__append_fini(pg__append *a)
{
    pg__mem_free(a->path);
    pg__str_fini(&a->pending);
    *a = (pg__append){0};
}
