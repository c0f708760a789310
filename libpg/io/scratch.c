/* scratch.c - unlinked temporary files: nothing is left of them, whatever happens. */
#include "io/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/env.h"
#include "base/inflate.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "io/system.h"

pg_status pg__scratch_open(int *fd, const char **where, pg_err *err)
{
    char path[4096];
    const char *dir = pg__env("TMPDIR");
    *where = dir && *dir ? dir : "/tmp";
    *fd = pg__sys_unnamed_file(*where);
    if (*fd >= 0)
        return PG_OK;
    if ((size_t)snprintf(path, sizeof path, "%s/pg-XXXXXX", *where) >= sizeof path)
        return pg_fail_sys(err, PG_E_IO, ENAMETOOLONG, "cannot unpack to TMPDIR");
    *fd = pg__sys_named_file(path);
    if (*fd < 0)
        return pg_fail_sys(err, PG_E_IO, errno, "cannot unpack to %s", PG_SHOW(*where));
    unlink(path);
    return PG_OK;
}

pg_status pg__scratch_write(int fd, const char *p, size_t n)
{
    while (n) {
        const ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return PG_E_IO;
        p += k;
        n -= (size_t)k;
    }
    return PG_OK;
}

/* Inflates one piece of input after the other, each until no more output comes. */
static pg_status unpack(int fd, const char *where, pg__gzip *z, pg__io *in, char *buf, pg_err *err)
{
    char *from = buf, *to = buf + PG_COPY_BYTES;
    pg_status st = PG_OK;
    for (uint64_t at = 0; at < pg__io_size(in);) {
        const uint64_t left = pg__io_size(in) - at;
        const size_t n = left < PG_COPY_BYTES ? (size_t)left : PG_COPY_BYTES;
        PG_TRY(pg__io_read(in, at, from, n, err));
        pg__gzip_give(z, from, n);
        at += n;
        for (size_t got = PG_COPY_BYTES; got == PG_COPY_BYTES;) {
            PG_TRY(pg__gzip_take(z, to, PG_COPY_BYTES, &got, err));
            if (pg__scratch_write(fd, to, got) != PG_OK)
                return pg_fail_sys(err, PG_E_IO, errno, "cannot unpack to %s", PG_SHOW(where));
        }
    }
    if (!pg__gzip_is_done(z))
        PG_FAIL(PG_E_FORMAT, "compressed data ends too early");
done:
    return st;
}

pg_status pg__gunzip(pg__io **out, pg__io *in, pg_err *err)
{
    pg__gzip *z = NULL;
    const char *where = NULL;
    int fd = -1;
    pg_status st = PG_OK;
    char *buf = pg__mem_array(2, PG_COPY_BYTES);
    if (!buf)
        return pg__nomem(err);
    PG_TRY(pg__gzip_new(&z, err));
    PG_TRY(pg__scratch_open(&fd, &where, err));
    PG_TRY(unpack(fd, where, z, in, buf, err));
    st = pg__io_open_fd(out, fd, pg__io_name(in), err);
    fd = -1;
done:
    if (fd >= 0)
        close(fd);
    pg__gzip_free(z);
    pg__mem_free(buf);
    return st;
}
