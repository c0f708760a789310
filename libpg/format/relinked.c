/* relinked.c - the old file with a new beginning and a new end, read and written.
 *
 * A copy gets what its objects own of the old bytes and zeros for the rest: an old description, a
 * dropped tensor, whatever else nothing leads to any more, is not in a new file. */
#include "format/relinked.h"

#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"

void pg__relinked_fini(pg__relinked *r)
{
    pg__mem_free(r->tail);
    pg__mem_free(r->kept);
    *r = (pg__relinked){0};
}

pg_status pg__relinked_open(pg__io **out, const pg__relinked *r, pg_err *err)
{
    static const unsigned char zeros[4096];
    pg_status st = PG_OK;
    pg__io *parts[4] = {0};
    size_t n = 0;
    const uint64_t n_zeros = r->tail_at - r->end;
    if (r->end < r->n_head || r->tail_at < r->end || n_zeros > sizeof zeros)
        return pg_fail(err, PG_E_ARG, "a tail far behind the end of the file");
    PG_TRY(pg__io_open_mem(&parts[n++], r->head, r->n_head, err));
    PG_TRY(pg__io_open_window(&parts[n++], r->base, r->n_head, r->end - r->n_head, err));
    if (n_zeros)
        PG_TRY(pg__io_open_mem(&parts[n++], zeros, (size_t)n_zeros, err));
    PG_TRY(pg__io_open_mem(&parts[n++], r->tail, r->n_tail, err));
    PG_TRY(pg__io_open_joined(out, parts, n, err));
done:
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        pg__io_close(parts[i]);
    return st;
}

pg_status pg__relinked_keep(pg__relinked *r, const pg__run *used, size_t n, pg_err *err)
{
    r->kept = pg__mem_array(n + 1, sizeof *r->kept);
    if (!r->kept)
        return pg__nomem(err);
    r->n_kept = 0;
    for (size_t i = 0; i < n && used[i].start < r->end; i++) {
        const uint64_t end = used[i].end < r->end ? used[i].end : r->end;
        r->kept[r->n_kept++] = (pg__run){used[i].start, end};
    }
    return PG_OK;
}

/* The first run that ends behind off, or n_kept. */
static size_t run_behind(const pg__relinked *r, uint64_t off)
{
    size_t lo = 0, hi = r->n_kept;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (r->kept[mid].end <= off)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The next gap at or behind *from, in [*from, *to); *from = *to: none is left before r->end. */
static void next_gap(const pg__relinked *r, uint64_t *from, uint64_t *to)
{
    const size_t i = run_behind(r, *from);
    if (i < r->n_kept && r->kept[i].start <= *from)
        *from = r->kept[i].end;
    const size_t k = run_behind(r, *from);
    *to = k < r->n_kept ? r->kept[k].start : r->end;
}

pg_status pg__relinked_read(const pg__relinked *r, uint64_t off, unsigned char *buf, size_t n,
                            pg_err *err)
{
    const pg_status st = pg__io_read(r->base, off, buf, n, err);
    if (st != PG_OK)
        return st;
    for (uint64_t from = off, to; from < off + n; from = to) {
        next_gap(r, &from, &to);
        if (from >= to || from >= off + n)
            break;
        const uint64_t end = to < off + n ? to : off + n;
        memset(buf + (from - off), 0, (size_t)(end - from));
    }
    return PG_OK;
}

/* Piece by piece; what is a gap as a whole is left out, which reads as zeros. */
static pg_status write_pieces(pg__sink *sink, const pg__relinked *r, unsigned char *buf,
                              pg_err *err)
{
    pg_status st = PG_OK;
    for (uint64_t off = 0, n; off < r->end; off += n) {
        const size_t i = run_behind(r, off);
        n = r->end - off < PG_COPY_BYTES ? r->end - off : PG_COPY_BYTES;
        if (i == r->n_kept || r->kept[i].start >= off + n)
            continue;
        PG_TRY(pg__relinked_read(r, off, buf, (size_t)n, err));
        PG_TRY(pg__sink_write(sink, off, buf, (size_t)n, err));
    }
done:
    return st;
}

/* Shares the blocks of the old file, and writes zeros where they hold what shall not come along. */
static pg_status write_shared(pg__sink *sink, const pg__relinked *r, unsigned char *buf,
                              pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__sink_copy(sink, 0, r->base, 0, r->end, err));
    memset(buf, 0, PG_COPY_BYTES);
    for (uint64_t from = 0, to; from < r->end; from = to) {
        next_gap(r, &from, &to);
        for (uint64_t n; from < to; from += n) {
            n = to - from < PG_COPY_BYTES ? to - from : PG_COPY_BYTES;
            PG_TRY(pg__sink_write(sink, from, buf, (size_t)n, err));
        }
    }
done:
    return st;
}

pg_status pg__relinked_write(pg__sink *sink, const pg__relinked *r, pg_err *err)
{
    pg_status st = PG_OK;
    unsigned char *buf = pg__mem_array(PG_COPY_BYTES, 1);
    if (!buf)
        return pg__nomem(err);
    if (pg__sink_clones(sink, r->base)) {
        PG_TRY(write_shared(sink, r, buf, err));
    } else { /* shared blocks need no room of their own */
        PG_TRY(pg__sink_reserve(sink, r->tail_at + r->n_tail, err));
        PG_TRY(write_pieces(sink, r, buf, err));
    }
    PG_TRY(pg__sink_write(sink, r->tail_at, r->tail, r->n_tail, err));
    PG_TRY(pg__sink_write(sink, 0, r->head, r->n_head, err));
done:
    pg__mem_free(buf);
    return st;
}
