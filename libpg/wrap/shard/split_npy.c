/* split_npy.c - one .npy file per tensor, those beyond max_shard_bytes cut along axis 0, and
 * manifest.json.
 *
 * Headers of large files are padded so that the data begin at the offset modulo 4096 that they have
 * in the input (any reader takes that): file systems that can then share the blocks of both. */
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/try.h"
#include "format/npy.h"
#include "wrap/shard/shard_names.h"
#include "wrap/shard/split.h"

#define NPY_ALIGN   64u /* of the data in its file, as numpy has it */
#define BLOCK_ALIGN 4096u
#define SHARE_BYTES 65536u /* from this size on, a padded header is small compared with the data \
                            */

/* One file: rows of a tensor after their header. */
typedef struct piece {
    size_t tensor;
    uint64_t off, n; /* bytes of the tensor */
    pg__str head;
} piece;

static uint64_t row_bytes(const pg_weight *w)
{
    return w->rank && w->dims[0] ? w->n_bytes / w->dims[0] : w->n_bytes;
}

/* Rows of the largest piece. */
static uint64_t rows_per_piece(const pg__split *s, const pg_weight *w)
{
    const uint64_t max = s->o->max_shard_bytes, row = row_bytes(w);
    const uint64_t all = w->rank ? w->dims[0] : 1;
    if (max == 0 || w->rank == 0 || w->n_bytes <= max || row == 0)
        return all;
    return row >= max ? 1 : max / row;
}

static pg_status add_pieces(pg__manifest *m, pg__split *s, size_t i, pg__shard_names *names,
                            pg__strs *files, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str raw = {0};
    const pg_weight *w = &s->v[i].w;
    const uint64_t all = w->rank ? w->dims[0] : 1, most = rows_per_piece(s, w);
    const uint64_t n = most ? (all + most - 1) / most : 1;
    const size_t first = files->n;
    if (n > PG_LIMIT_OBJECTS) {
        st = pg_fail(err, PG_E_LIMIT, "%s: would be cut into %s files", PG_SHOW(s->v[i].name),
                     PG_NUM(n));
        pg_err_do(err, PG_DO_LARGER_SHARDS, NULL);
        goto done;
    }
    PG_TRY(pg__split_raw_name(&raw, s, i, err));
    PG_TRY(pg__shard_names_add(names, files, raw.s, (size_t)n, ".npy", err));
    PG_TRY(pg__split_add(m, s, i, err));
    for (uint64_t k = 0; k < n; k++) {
        const pg__piece p = {.path = files->v[first + k],
                             .off_rows = k * most,
                             .rows = all - k * most < most ? all - k * most : most};
        PG_TRY(pg__manifest_add_piece(m, &p, err));
    }
done:
    pg__str_fini(&raw);
    return st;
}

static pg_status start_piece(piece *p, const pg__split *s, const pg__manifest *m, size_t tensor,
                             size_t k, pg_err *err)
{
    uint64_t dims[PG_MAX_RANK], align = NPY_ALIGN, phase = 0;
    const pg_weight *w = &s->v[tensor].w;
    const pg__piece *at = &m->pieces[k];
    const pg__extent e = pg__split_extent(s, tensor);
    memcpy(dims, w->dims, sizeof dims);
    if (w->rank)
        dims[0] = at->rows;
    p->tensor = tensor;
    p->off = at->off_rows * row_bytes(w);
    p->n = w->rank ? (w->dims[0] ? row_bytes(w) * at->rows : 0) : w->n_bytes;
    if (p->n >= SHARE_BYTES && e.io && pg__io_fd(e.io, e.off + p->off, &phase) >= 0)
        align = BLOCK_ALIGN;
    return pg__npy_add_header(&p->head, w->dtype, s->v[tensor].big_endian, w->rank, dims, align,
                              align == BLOCK_ALIGN ? phase % align : 0, err);
}

/* Header and data in one buffer, so that a small tensor is one write. */
static pg_status fill(pg__split *s, pg__split_out *f, void *ctx, pg_err *err)
{
    pg_status st = PG_OK;
    const piece *p = ctx;
    size_t held = p->head.n;
    if (p->n >= SHARE_BYTES)
        PG_TRY(pg__split_share(s, f, held, p->tensor, p->off, p->n, err));
    if (f->sink && f->shared_end == f->shared && p->n > PG_COPY_BYTES)
        PG_TRY(pg__sink_reserve(f->sink, held + p->n, err));
    memcpy(f->buf, p->head.s, held); /* at most some thousand bytes */
    for (uint64_t at = 0; at < p->n || held;) {
        const size_t room = PG_COPY_BYTES - held;
        const size_t n = p->n - at < room ? (size_t)(p->n - at) : room;
        PG_TRY(pg__split_read(s, p->tensor, p->off + at, f->buf + held, n, err));
        PG_TRY(pg__split_put(s, f, f->buf, held + n, err));
        held = 0;
        at += n;
    }
done:
    return st;
}

static pg_status plan_all(pg__manifest *m, pg__split *s, pg__strs *files, pg_err *err)
{
    pg_status st = PG_OK;
    pg__shard_names *names = NULL;
    PG_TRY(pg__shard_names_new(&names, err));
    PG_TRY(pg__shard_names_reserve(names, PG_MANIFEST, err));
    PG_TRY(pg__shard_names_reserve(names, "SHA256SUMS", err));
    PG_TRY(pg__split_describe(m, s, "npy", err));
    for (size_t i = 0; i < s->n; i++)
        PG_TRY(add_pieces(m, s, i, names, files, err));
done:
    pg__shard_names_free(names);
    return st;
}

typedef struct files {
    pg__split *s;
    pg__manifest m;
    size_t *tensor;       /* by piece */
    pg__split_made *made; /* by piece */
} files;

static pg_status make_piece(void *ctx, size_t worker, size_t k, pg_err *err)
{
    pg_status st = PG_OK;
    files *f = ctx;
    piece p = {0};
    PG_TRY(start_piece(&p, f->s, &f->m, f->tensor[k], k, err));
    f->made[k].n_bytes = p.head.n + p.n;
    if (!f->s->o->write.dry_run)
        PG_TRY(pg__split_produce(f->s, worker, f->m.pieces[k].path, p.head.n + p.n, fill, &p,
                                 &f->made[k], err));
done:
    pg__str_fini(&p.head);
    return st;
}

/* Tensors without an extent are read by code that is not thread-safe. */
static size_t threads_for(const pg__split *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].w.n_bytes && !pg__split_extent(s, i).io)
            return 1;
    return s->n_threads;
}

static pg_status make_pieces(files *f, pg_err *err)
{
    pg_status st = PG_OK;
    pg__split *s = f->s;
    const int dry = s->o->write.dry_run;
    f->tensor = pg__mem_array(f->m.n_pieces, sizeof *f->tensor);
    f->made = pg__mem_array(f->m.n_pieces, sizeof *f->made);
    if (!f->tensor || !f->made)
        return pg__nomem(err);
    for (size_t i = 0; i < f->m.n_tensors; i++)
        for (size_t k = 0; k < f->m.tensors[i].n; k++)
            f->tensor[f->m.tensors[i].first + k] = i;
    st = pg__parallel(threads_for(s), f->m.n_pieces, make_piece, f, err);
    for (size_t k = 0; k < f->m.n_pieces; k++) {
        f->m.pieces[k].crc = f->made[k].crc;
        s->rep.n_bytes += f->made[k].n_bytes;
        const pg_status recorded =
            f->made[k].done ? pg__split_record(s, f->m.pieces[k].path, 1, &f->made[k], err)
            : dry           ? pg__split_file(s, f->m.pieces[k].path, 1, f->made[k].n_bytes, err)
                            : PG_OK; /* not made: st says why */
        if (recorded != PG_OK)
            return recorded;
    }
    return pg__split_kept(s, st, err);
}

pg_status pg__split_npy(pg__split *s, pg_err *err)
{
    pg_status st = PG_OK;
    files f = {.s = s};
    pg__strs paths = {0};
    pg__str text = {0};
    PG_TRY(plan_all(&f.m, s, &paths, err));
    PG_TRY(pg__split_prepare(s, PG_MANIFEST, &paths, s->n_bytes, err));
    PG_TRY(make_pieces(&f, err));
    PG_TRY(pg__manifest_print(&text, &f.m, err));
    if (s->o->write.dry_run)
        PG_TRY(pg__split_file(s, PG_MANIFEST, f.m.n_tensors, text.n, err));
    else
        PG_TRY(pg__split_finish(s, PG_MANIFEST, &text, f.m.n_tensors, err));
done:
    pg__manifest_fini(&f.m);
    pg__mem_free(f.tensor);
    pg__mem_free(f.made);
    pg__strs_fini(&paths);
    pg__str_fini(&text);
    return st;
}
