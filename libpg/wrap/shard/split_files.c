/* split_files.c - the files of a split: written front to back, with their checksums in the same
 * pass, or compared with the files of an interrupted run. */
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "io/folder.h"
#include "io/system.h"
#include "wrap/shard/split.h"

/* Writes what the file does not share with the input already. */
static pg_status write_rest(pg__split *s, pg__split_out *f, const unsigned char *p, size_t n,
                            pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t end = f->at + n;
    const uint64_t before = f->shared < end ? f->shared : end;
    const uint64_t after = f->shared_end > f->at ? f->shared_end : f->at;
    uint64_t written = 0;
    if (f->at < before) {
        written = before - f->at;
        PG_TRY(pg__sink_write(f->sink, f->at, p, (size_t)written, err));
    }
    if (after < end) {
        written += end - after;
        PG_TRY(pg__sink_write(f->sink, after, p + (after - f->at), (size_t)(end - after), err));
    }
    pg__progress_add(s->o->write.progress, n - written);
done:
    return st;
}

pg_status pg__split_put(pg__split *s, pg__split_out *f, const void *p, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    if (pg__cancelled(s->o->write.cancel))
        PG_FAIL(PG_E_CANCELLED, "%s: interrupted", PG_SHOW(s->dir));
    if (f->sink) {
        PG_TRY(write_rest(s, f, p, n, err));
    } else if (f->same) {
        PG_TRY(pg__io_read(f->old, f->at, f->room, n, err)); /* n <= PG_COPY_BYTES */
        f->same = memcmp(f->room, p, n) == 0;
        pg__progress_add(s->o->write.progress, n);
    }
    f->at += n;
    if (f->sink || f->same)
        f->crc = pg__crc32(f->crc, p, n);
    if (s->o->sha256 && (f->sink || f->same))
        pg__sha256_add(&f->sha, p, n);
done:
    return st;
}

pg_status pg__split_share(pg__split *s, pg__split_out *f, uint64_t off, size_t tensor,
                          uint64_t from, uint64_t n, pg_err *err)
{
    const pg__extent e = pg__split_extent(s, tensor);
    uint64_t n_shared = 0;
    pg_status st = PG_OK;
    if (!f->sink || !e.io)
        return PG_OK;
    PG_TRY(pg__sink_share(f->sink, off, e.io, e.off + from, n, &f->shared, &n_shared, err));
    f->shared_end = f->shared + n_shared;
done:
    return st;
}

/* Compares with an older file of the right size; *same is the result. */
static pg_status compare(pg__split *s, pg__split_out *f, const char *path, uint64_t n_bytes,
                         pg__split_filler fill, void *ctx, pg_err *err)
{
    pg_status st = PG_OK;
    if (pg__io_open(&f->old, path, NULL) != PG_OK)
        return PG_OK; /* not there, or nothing to keep */
    if (pg__io_size(f->old) == n_bytes) {
        f->same = 1;
        pg__sha256_init(&f->sha);
        st = fill(s, f, ctx, err);
    }
    pg__io_close(f->old);
    f->old = NULL;
    return st;
}

static pg_status add_sum(pg__split *s, const char *path, const char hex[65], pg_err *err)
{
    return s->o->sha256 ? pg__strs_printf(&s->sums, err, "%s  %s", hex, path) : PG_OK;
}

pg_status pg__split_open(pg__split *s, const char *path, pg__sink **out, pg_err *err)
{
    const pg__sink_opts o = {.force = 1,
                             .no_sync = PG_SYNCS_ALL || s->o->write.no_sync,
                             .fresh = s->fresh,
                             .cancel = s->o->write.cancel,
                             .progress = s->o->write.progress};
    pg__str full = {0};
    pg_status st = pg__split_path(&full, s, path, err);
    if (st == PG_OK)
        st = pg__sink_open(out, full.s, &o, err);
    if (st == PG_E_IO && full.s && strchr(path, '/')) { /* its folder is not there yet */
        char *slash = strrchr(full.s, '/');
        *slash = 0;
        st = pg__folder_make(full.s, strlen(s->into), err);
        *slash = '/';
        if (st == PG_OK)
            st = pg__sink_open(out, full.s, &o, err);
    }
    pg__str_fini(&full);
    return st;
}

/* Both sums of a whole file. */
static pg_status sum_all(pg__split *s, pg__io *io, pg__split_made *made, pg_err *err)
{
    pg_status st = PG_OK;
    pg__sha256 sha;
    pg__sha256_init(&sha);
    made->n_bytes = pg__io_size(io);
    for (uint64_t at = 0; at < made->n_bytes;) {
        const uint64_t left = made->n_bytes - at;
        const size_t n = left < PG_COPY_BYTES ? (size_t)left : PG_COPY_BYTES;
        PG_TRY(pg__io_read(io, at, s->room, n, err));
        made->crc = pg__crc32(made->crc, s->room, n);
        if (s->o->sha256)
            pg__sha256_add(&sha, s->room, n);
        at += n;
    }
    pg__sha256_hex(&sha, made->sha256);
done:
    return st;
}

pg_status pg__split_keep(pg__split *s, const char *path, pg__io *old, size_t n_tensors,
                         uint32_t *crc, pg_err *err)
{
    pg_status st = PG_OK;
    pg__split_made made = {.reused = 1};
    PG_TRY(sum_all(s, old, &made, err));
    PG_TRY(pg__split_record(s, path, n_tensors, &made, err));
    if (crc)
        *crc = made.crc;
done:
    return st;
}

pg_status pg__split_close(pg__split *s, const char *path, pg__sink *sink, size_t n_tensors,
                          uint32_t *crc, pg_err *err)
{
    pg_status st = PG_OK;
    pg__split_made made = {.n_bytes = pg__sink_size(sink)};
    pg__io *io = NULL;
    if (crc || s->o->sha256) {
        PG_TRY(pg__sink_reopen(sink, &io, err));
        PG_TRY(sum_all(s, io, &made, err));
    }
    PG_TRY(pg__sink_commit(sink, err));
    PG_TRY(pg__split_record(s, path, n_tensors, &made, err));
    if (crc)
        *crc = made.crc;
done:
    pg__io_close(io);
    return st;
}

pg_status pg__split_kept(const pg__split *s, pg_status st, pg_err *err)
{
    if (st != PG_OK && st != PG_E_CANCELLED && s->rep.n_files > 0)
        pg_err_detail(err,
                      "%zu complete shard%s kept; run the same command again to continue, "
                      "or remove %s",
                      s->rep.n_files, s->rep.n_files == 1 ? "" : "s", PG_SHOW(s->dir));
    return st;
}

pg_status pg__split_produce(pg__split *s, size_t worker, const char *path, uint64_t n_bytes,
                            pg__split_filler fill, void *ctx, pg__split_made *made, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str full = {0};
    pg__split_out f = {.buf = s->buf + worker * PG_COPY_BYTES,
                       .room = s->room + worker * PG_COPY_BYTES};
    PG_TRY(pg__split_path(&full, s, path, err));
    if (!s->fresh)
        PG_TRY(compare(s, &f, full.s, n_bytes, fill, ctx, err));
    made->reused = f.same;
    if (!f.same) {
        f = (pg__split_out){.buf = f.buf, .room = f.room};
        pg__sha256_init(&f.sha);
        PG_TRY(pg__split_open(s, path, &f.sink, err));
        PG_TRY(fill(s, &f, ctx, err));
        if (f.at != n_bytes)
            PG_FAIL(PG_E_IO, "%s: %s bytes instead of %s", PG_SHOW(path), PG_NUM(f.at),
                    PG_NUM(n_bytes));
        PG_TRY(pg__sink_commit(f.sink, err));
    }
    made->done = 1;
    made->n_bytes = n_bytes;
    made->crc = f.crc;
    pg__sha256_hex(&f.sha, made->sha256);
done:
    pg__sink_close(f.sink);
    pg__str_fini(&full);
    return st;
}

pg_status pg__split_record(pg__split *s, const char *path, size_t n_tensors,
                           const pg__split_made *made, pg_err *err)
{
    const pg_status st = pg__split_file(s, path, n_tensors, made->n_bytes, err);
    s->rep.n_reused += (size_t)made->reused;
    return st == PG_OK ? add_sum(s, path, made->sha256, err) : st;
}

pg_status pg__split_make(pg__split *s, const char *path, size_t n_tensors, uint64_t n_bytes,
                         pg__split_filler fill, void *ctx, uint32_t *crc, pg_err *err)
{
    pg__split_made made = {0};
    const pg_status st = pg__split_produce(s, 0, path, n_bytes, fill, ctx, &made, err);
    if (st != PG_OK)
        return pg__split_kept(s, st, err);
    if (crc)
        *crc = made.crc;
    return pg__split_record(s, path, n_tensors, &made, err);
}
