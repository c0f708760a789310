/* split_image.c - shards whose parts are not written in order: HDF5 files, and archives, whose
 * headers hold checksums of the bytes after them. An interrupted run leaves only whole files
 * (io/sink.c), but their input and options are unknown. So the same command makes each file again
 * without writing it: metadata goes to memory, tensor bytes are compared with the file as they are
 * read, and the bytes between tensors afterwards. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "wrap/shard/split.h"

typedef pg_status (*fill_fn)(pg__split *, pg__split_image *, void *, pg_err *);

/* ---- writing or comparing --------------------------------------------------------------------
 */

static pg_status add_range(pg__split_image *f, uint64_t off, uint64_t n, pg_err *err)
{
    if (pg__mem_grow(&f->data, &f->cap, f->n + 1, sizeof *f->data))
        return pg__nomem(err);
    f->data[f->n++] = (pg__split_range){off, n};
    return PG_OK;
}

static pg_status put(pg__split *s, pg__split_image *f, uint64_t off, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    if (!f->old)
        return pg__sink_write(f->sink, off, s->buf, n, err);
    if (pg__cancelled(s->o->write.cancel))
        PG_FAIL(PG_E_CANCELLED, "%s: interrupted", PG_SHOW(s->dir));
    if (off + n > pg__io_size(f->old)) {
        f->same = 0;
        goto done;
    }
    PG_TRY(pg__io_read(f->old, off, s->room, n, err));
    f->same = memcmp(s->room, s->buf, n) == 0;
    pg__progress_add(s->o->write.progress, n);
done:
    return st;
}

pg_status pg__split_put_tensor(pg__split *s, pg__split_image *f, size_t i, uint64_t off,
                               uint32_t *crc, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t n_bytes = s->v[i].w.n_bytes;
    if (f->old)
        PG_TRY(add_range(f, off, n_bytes, err));
    for (uint64_t at = 0; at < n_bytes && (!f->old || f->same);) {
        const size_t n = n_bytes - at < PG_COPY_BYTES ? (size_t)(n_bytes - at) : PG_COPY_BYTES;
        PG_TRY(pg__split_read(s, i, at, s->buf, n, err));
        PG_TRY(put(s, f, off + at, n, err));
        if (crc)
            *crc = pg__crc32(*crc, s->buf, n);
        at += n;
    }
done:
    return st;
}

/* ---- comparing what is between the tensors ---------------------------------------------------
 */

static int by_offset(const void *a, const void *b)
{
    const pg__split_range *x = a, *y = b;
    return x->off < y->off ? -1 : x->off > y->off;
}

static pg_status compare_gap(pg__split *s, pg__split_image *f, pg__io *made, uint64_t at,
                             uint64_t end, pg_err *err)
{
    pg_status st = PG_OK;
    while (at < end && f->same) {
        const size_t n = end - at < PG_COPY_BYTES ? (size_t)(end - at) : PG_COPY_BYTES;
        PG_TRY(pg__io_read(made, at, s->buf, n, err));
        PG_TRY(put(s, f, at, n, err));
        at += n;
    }
done:
    return st;
}

static pg_status compare_rest(pg__split *s, pg__split_image *f, pg_err *err)
{
    pg_status st = PG_OK;
    pg__io *made = NULL;
    uint64_t at = 0, size = pg__sink_size(f->sink);
    if (f->n)
        qsort(f->data, f->n, sizeof *f->data, by_offset);
    for (size_t i = 0; i < f->n; i++)
        if (f->data[i].off + f->data[i].n > size)
            size = f->data[i].off + f->data[i].n;
    f->same = size == pg__io_size(f->old);
    if (!f->same)
        return PG_OK;
    PG_TRY(pg__sink_extend(f->sink, size, err));
    PG_TRY(pg__sink_reopen(f->sink, &made, err));
    for (size_t i = 0; i < f->n; i++) {
        PG_TRY(compare_gap(s, f, made, at, f->data[i].off, err));
        at = f->data[i].off + f->data[i].n;
    }
    PG_TRY(compare_gap(s, f, made, at, size, err));
done:
    pg__io_close(made);
    return st;
}

/* ---- one file --------------------------------------------------------------------------------
 */

/* *kept: `path` existed and is correct. */
static pg_status try_old(pg__split *s, const char *path, const char *full, size_t n_tensors,
                         fill_fn fill, void *ctx, uint32_t *crc, int *kept, pg_err *err)
{
    pg_status st = PG_OK;
    pg__split_image f = {.same = 1};
    *kept = 0;
    if (pg__io_open(&f.old, full, NULL) != PG_OK)
        return PG_OK; /* not there, or nothing to keep */
    PG_TRY(pg__sink_open_memory(&f.sink, err));
    PG_TRY(fill(s, &f, ctx, err));
    if (f.same)
        PG_TRY(compare_rest(s, &f, err));
    if (f.same)
        PG_TRY(pg__split_keep(s, path, f.old, n_tensors, crc, err));
    *kept = f.same;
done:
    pg__sink_close(f.sink);
    pg__io_close(f.old);
    pg__mem_free(f.data);
    return st;
}

pg_status pg__split_build(pg__split *s, const char *path, size_t n_tensors, fill_fn fill, void *ctx,
                          uint32_t *crc, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str full = {0};
    pg__split_image f = {0};
    int kept = 0;
    PG_TRY(pg__split_path(&full, s, path, err));
    PG_TRY(try_old(s, path, full.s, n_tensors, fill, ctx, crc, &kept, err));
    if (kept)
        goto done;
    st = pg__split_open(s, path, &f.sink, err);
    if (st == PG_OK)
        st = fill(s, &f, ctx, err);
    if (st == PG_OK)
        st = pg__split_close(s, path, f.sink, n_tensors, crc, err);
    st = pg__split_kept(s, st, err);
done:
    pg__sink_close(f.sink);
    pg__str_fini(&full);
    return st;
}
