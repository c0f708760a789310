/* relinked.c - the old file with a new beginning and a new end, read and written.
 *
 * A copy gets those old bytes that its objects own, and zeros for the rest: a new file does not
 * contain an old description, a dropped tensor, or anything else that nothing points to any
 * more. */
#include "format/h5/relinked.h"

#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"

void pg__relinked_fini(pg__relinked *r)
{
    pg__mem_free(r->tail);
    pg__mem_free(r->kept);
    pg__mem_free(r->sums);
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
        return pg_fail(err, PG_E_ARG, "a tail far beyond the end of the file");
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

pg_status pg__relinked_keep_sums(pg__relinked *r, pg_err *err)
{
    r->sums = pg__mem_array((size_t)(r->end / PG_COPY_BYTES + 1), sizeof *r->sums);
    return r->sums ? PG_OK : pg__nomem(err);
}

/* The first run that ends after off, or n_kept. */
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

pg_status pg__relinked_read(const pg__relinked *r, uint64_t off, unsigned char *buf, size_t n,
                            pg_err *err)
{
    const pg_status st = pg__io_read(r->base, off, buf, n, err);
    uint64_t at = off;
    for (size_t i = run_behind(r, off); st == PG_OK && at < off + n; i++) {
        const uint64_t start = i < r->n_kept ? r->kept[i].start : off + n;
        const uint64_t end = start < off + n ? start : off + n;
        if (at < end)
            memset(buf + (at - off), 0, (size_t)(end - at));
        at = i < r->n_kept ? r->kept[i].end : end;
    }
    return st;
}

uint64_t pg__bytes_between(const pg__run *runs, size_t n, uint64_t end)
{
    uint64_t rest = end;
    for (size_t i = 0; i < n && runs[i].start < end; i++)
        rest -= (runs[i].end < end ? runs[i].end : end) - runs[i].start;
    return rest;
}

typedef enum share { NOTHING, SOME, ALL } share;

/* How many of n bytes are kept. */
static share kept_of(const pg__relinked *r, uint64_t off, uint64_t n)
{
    const size_t i = run_behind(r, off);
    if (i == r->n_kept || r->kept[i].start >= off + n)
        return NOTHING;
    return r->kept[i].start <= off && r->kept[i].end >= off + n ? ALL : SOME;
}

/* Goes piece by piece: a piece that is kept completely is copied, or shared if the file system can;
 * one that is completely a gap is skipped, and reads as zeros. */
static pg_status write_pieces(pg__sink *sink, const pg__relinked *r, unsigned char *buf,
                              pg_progress *progress, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t whole = 0; /* bytes before off that are still to be copied */
    for (uint64_t off = 0, n; off < r->end; off += n) {
        n = r->end - off < PG_COPY_BYTES ? r->end - off : PG_COPY_BYTES;
        const share kept = kept_of(r, off, n);
        if (kept == ALL)
            whole += n;
        if (whole && (kept != ALL || off + n == r->end)) {
            const uint64_t end = kept == ALL ? off + n : off;
            PG_TRY(pg__sink_copy(sink, end - whole, r->base, end - whole, whole, err));
            whole = 0;
        }
        if (kept == SOME) {
            PG_TRY(pg__relinked_read(r, off, buf, (size_t)n, err));
            PG_TRY(pg__sink_write(sink, off, buf, (size_t)n, err));
        } else if (kept == NOTHING) {
            pg__progress_add(progress, n);
        }
    }
done:
    return st;
}

/* The same, each piece with its checksum. */
static pg_status write_and_sum(pg__sink *sink, const pg__relinked *r, unsigned char *buf,
                               pg_progress *progress, pg_err *err)
{
    pg_status st = PG_OK;
    for (uint64_t off = 0, n; off < r->end; off += n) {
        pg__xxh64 sum;
        n = r->end - off < PG_COPY_BYTES ? r->end - off : PG_COPY_BYTES;
        pg__xxh64_start(&sum);
        const share kept = kept_of(r, off, n);
        if (kept == ALL) {
            PG_TRY(pg__sink_copy_sum(sink, off, r->base, off, n, &sum, err));
        } else if (kept == SOME) {
            PG_TRY(pg__relinked_read(r, off, buf, (size_t)n, err));
            PG_TRY(pg__sink_write(sink, off, buf, (size_t)n, err));
            pg__xxh64_add(&sum, buf, (size_t)n);
        } else {
            memset(buf, 0, (size_t)n);
            pg__xxh64_add(&sum, buf, (size_t)n);
            pg__progress_add(progress, n);
        }
        r->sums[off / PG_COPY_BYTES] = pg__xxh64_end(&sum);
    }
done:
    return st;
}

pg_status pg__relinked_write(pg__sink *sink, const pg__relinked *r, pg_progress *progress,
                             pg_err *err)
{
    pg_status st = PG_OK;
    unsigned char *buf = pg__mem_array(PG_COPY_BYTES, 1);
    if (!buf)
        return pg__nomem(err);
    if (r->sums || !pg__sink_clones(sink, r->base)) /* shared blocks need no space of their own */
        PG_TRY(pg__sink_reserve(sink, r->tail_at + r->n_tail, err));
    PG_TRY(r->sums ? write_and_sum(sink, r, buf, progress, err)
                   : write_pieces(sink, r, buf, progress, err));
    PG_TRY(pg__sink_write(sink, r->tail_at, r->tail, r->n_tail, err));
    PG_TRY(pg__sink_write(sink, 0, r->head, r->n_head, err));
done:
    pg__mem_free(buf);
    return st;
}
