/* sink_copy.c - bytes from a file into a sink: blocks shared between files where the file system
 * can (XFS, btrfs), else through a buffer. Without sharing, copy_file_range() goes page by page:
 * into allocated blocks of ext4 it took 1.2 to 1.8 times the buffer's processor time. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/sink_impl.h"
#include "io/system.h"

#define BLOCK_BYTES 4096u
#define CLONE_BYTES ((uint64_t)1 << 30) /* per call: a cancel is noticed in between */

/* The source of a copy: fd and fd_off of the file that holds it; for memory fd is -1. */
typedef struct source {
    pg__io *io;
    uint64_t off;
    int fd;
    uint64_t fd_off;
    pg__xxh64 *sum; /* of what is copied, or NULL */
} source;

/* How many of the next n bytes may be shared with the source, after *skip bytes that must be
 * copied: clones need whole blocks of both files. */
static uint64_t clonable(const pg__sink *s, uint64_t off, const source *src, uint64_t n,
                         uint64_t *skip)
{
    *skip = (BLOCK_BYTES - off % BLOCK_BYTES) % BLOCK_BYTES;
    if (s->no_clone || src->fd < 0 || off % BLOCK_BYTES != src->fd_off % BLOCK_BYTES || n < *skip)
        return 0;
    return (n - *skip) / BLOCK_BYTES * BLOCK_BYTES;
}

/* Shares blocks with the source; 0 if the file system cannot, so that they must be copied. */
static uint64_t share(pg__sink *s, uint64_t off, const source *src, uint64_t n)
{
    const uint64_t some = n < CLONE_BYTES ? n : CLONE_BYTES;
    do
        s->no_clone = pg__sys_share(s->fd, off, src->fd, src->fd_off, some) ? errno : 0;
    while (s->no_clone == EINTR);
    return s->no_clone ? 0 : some;
}

int pg__sink_clones(pg__sink *s, pg__io *io)
{
    source src = {.io = io, .fd = -1};
    src.fd = pg__io_fd(io, 0, &src.fd_off);
    if (s->no_clone || s->size || src.fd < 0 || src.fd_off % BLOCK_BYTES ||
        pg__io_size(io) < BLOCK_BYTES || !share(s, 0, &src, BLOCK_BYTES))
        return 0;
    s->late = pg__sink_resize(s->fd, 0); /* the block must not stay in a fresh file */
    return !s->late;
}

static pg_status copy_plain(pg__sink *s, uint64_t off, const source *src, size_t n, pg_err *err)
{
    char shown[200];
    if (!s->buf && !(s->buf = pg__mem_array(PG_COPY_BYTES, 1)))
        return pg__nomem(err);
    const pg_status st = pg__io_read(src->io, src->off, s->buf, n, err);
    if (st == PG_OK && src->sum)
        pg__xxh64_add(src->sum, s->buf, n);
    if (st == PG_OK)
        return pg__sink_put(s, off, s->buf, n, err);
    const char *name = pg__io_name(src->io);
    pg_err_prefix(err, pg__printable(shown, sizeof shown, name, strlen(name)));
    return st;
}

/* Copies the next piece of n bytes, of which *done are done, in the best way that still works.
 * Pieces end where buffers of the output's page cache end. */
static pg_status copy_piece(pg__sink *s, uint64_t off, const source *src, uint64_t n,
                            uint64_t *done, pg_err *err)
{
    uint64_t skip = 0;
    const uint64_t whole = src->sum ? 0 : clonable(s, off, src, n, &skip);
    *done = whole && skip == 0 ? share(s, off, src, whole) : 0;
    if (*done)
        return PG_OK;
    if (whole && skip)
        n = skip;
    *done = PG_COPY_BYTES - off % PG_COPY_BYTES;
    *done = n < *done ? n : *done;
    return copy_plain(s, off, src, (size_t)*done, err);
}

static pg_status check_source(pg__io *io, uint64_t off, uint64_t n, pg_err *err)
{
    const uint64_t size = pg__io_size(io);
    if (off <= size && n <= size - off)
        return PG_OK;
    return pg_fail(err, PG_E_FORMAT,
                   "%s: truncated: %" PRIu64 " bytes at byte %" PRIu64
                   " are wanted, it holds %" PRIu64 " bytes",
                   PG_SHOW(pg__io_name(io)), n, off, size);
}

pg_status pg__sink_share(pg__sink *s, uint64_t off, pg__io *io, uint64_t src_off, uint64_t n,
                         uint64_t *first, uint64_t *n_shared, pg_err *err)
{
    source src = {.io = io, .off = src_off};
    uint64_t skip = 0, done = 0;
    pg_status st = check_source(io, src_off, n, err);
    if (st == PG_OK)
        st = pg__sink_begin(s, off, n, err);
    src.fd = pg__io_fd(io, src_off, &src.fd_off);
    const uint64_t whole = st == PG_OK ? clonable(s, off, &src, n, &skip) : 0;
    src.fd_off += skip;
    while (st == PG_OK && done < whole) {
        const uint64_t k = share(s, off + skip + done, &src, whole - done);
        if (k == 0)
            break;
        done += k;
        src.fd_off += k;
        st = pg__sink_check_cancel(s, err);
    }
    *first = off + skip;
    *n_shared = done;
    return st;
}

pg_status pg__sink_copy_sum(pg__sink *s, uint64_t off, pg__io *io, uint64_t src_off, uint64_t n,
                            pg__xxh64 *sum, pg_err *err)
{
    source src = {.io = io, .off = src_off, .sum = sum};
    pg_status st = pg__sink_begin(s, off, n, err);
    if (st == PG_OK)
        st = check_source(io, src_off, n, err);
    src.fd = pg__io_fd(io, src_off, &src.fd_off);
    while (st == PG_OK && n) {
        uint64_t done = 0;
        st = copy_piece(s, off, &src, n, &done, err);
        off += done;
        src.off += done;
        src.fd_off += done;
        n -= done;
        if (st == PG_OK)
            pg__progress_add(s->opts.progress, done);
        if (st == PG_OK && n)
            st = pg__sink_check_cancel(s, err);
    }
    if (st != PG_OK)
        s->broken = 1;
    return st;
}

pg_status pg__sink_copy(pg__sink *s, uint64_t off, pg__io *io, uint64_t src_off, uint64_t n,
                        pg_err *err)
{
    return pg__sink_copy_sum(s, off, io, src_off, n, NULL, err);
}
