/* shards_archive.c - shards that hold several tensors, read member by member.
 *
 * A split has few of them, so they stay open; an index finds their members by name. */
#include "format/shards_archive.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/index.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/format.h"
#include "format/h5/h5.h"
#include "io/zip.h"

struct pg__archive {
    pg__io *io;
    pg__zip *zip;    /* .npz */
    pg__h5 *h5;      /* .weights.h5 */
    pg_store *store; /* .safetensors */
    pg__index names; /* of its tensors */
};

static pg_status open_safetensors(pg__archive *a, pg_err *err)
{
    static const pg_open_opts opts = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__fmt_safetensors.open(&a->store, a->io, NULL, &opts, err));
    for (size_t i = 0; i < pg__store_n_tensors(a->store); i++)
        PG_TRY(pg__index_add(&a->names, pg__store_tensor(a->store, i)->name, i, err));
    pg__index_sort(&a->names);
done:
    return st;
}

pg_status pg__archive_open(pg__archive **out, pg__io *io, pg__archive_kind kind, pg_err *err)
{
    pg_status st = PG_OK;
    pg__archive *a = pg__mem_array(1, sizeof *a);
    if (!a)
        return pg__nomem(err);
    a->io = pg__io_ref(io);
    switch (kind) {
    case PG_ARCHIVE_NPZ: PG_TRY(pg__zip_open(&a->zip, a->io, err)); break;
    case PG_ARCHIVE_SAFETENSORS: PG_TRY(open_safetensors(a, err)); break;
    case PG_ARCHIVE_H5: PG_TRY(pg__h5_open(&a->h5, a->io, err)); break;
    }
    *out = a;
    a = NULL;
done:
    pg__archive_close(a);
    return st;
}

void pg__archive_close(pg__archive *a)
{
    if (!a)
        return;
    pg__zip_close(a->zip);
    pg__h5_close(a->h5);
    pg_store_close(a->store);
    pg__io_close(a->io);
    pg__index_fini(&a->names);
    pg__mem_free(a);
}

static pg_status no_member(const char *name, pg_err *err)
{
    (void)pg_fail_sys(err, PG_E_IO, ENOENT, "%s", PG_SHOW(name));
    if (err)
        (void)snprintf(err->msg, sizeof err->msg, "holds no %s", PG_SHOW(name));
    return PG_E_IO;
}

static pg_status zip_member(pg__io **out, pg__member *what, pg__archive *a, const char *name,
                            pg_err *err)
{
    pg_status st = PG_OK;
    pg__io *io = NULL;
    const size_t i = pg__zip_find(a->zip, name);
    if (i == (size_t)-1)
        return no_member(name, err);
    const pg__zip_member *m = pg__zip_at(a->zip, i);
    PG_TRY(m->deflated ? pg__zip_open_member(a->zip, i, &io, err)
                       : pg__io_open_window(&io, a->io, m->data_off, m->n, err));
    if (what) {
        what->crc = m->crc32;
        PG_TRY(pg__npy_read_header(&what->head, io, err));
    }
    *out = io;
    io = NULL;
done:
    pg__io_close(io);
    return st;
}

static pg_status safetensors_member(pg__io **out, pg__member *what, pg__archive *a,
                                    const char *name, pg_err *err)
{
    const size_t i = pg__index_find(&a->names, name);
    if (i == PG_NONE)
        return no_member(name, err);
    const pg_weight *w = pg__store_tensor(a->store, i);
    if (what) {
        *what = (pg__member){.head = {.dtype = w->dtype, .rank = w->rank, .n_bytes = w->n_bytes}};
        memcpy(what->head.dims, w->dims, sizeof w->dims);
    }
    return pg__io_open_window(out, a->io, pg__store_extent(a->store, i).off, w->n_bytes, err);
}

static pg_status h5_member(pg__io **out, pg__member *what, pg__archive *a, const char *name,
                           pg_err *err)
{
    const uint32_t obj = pg__h5_find(a->h5, 0, name);
    const pg__h5_object *o = obj == PG_H5_NONE ? NULL : pg__h5_at(a->h5, obj);
    if (!o || o->kind != PG_H5_DATASET)
        return no_member(name, err);
    if (o->type.cls != PG_H5_NUMBER || !o->contiguous)
        return pg_fail(err, PG_E_FORMAT,
                       "%s: stored with compression or in another way than shards are",
                       PG_SHOW(name));
    if (what) {
        *what = (pg__member){.head = {.dtype = o->type.dtype,
                                      .big_endian = o->type.big_endian,
                                      .rank = o->rank,
                                      .n_bytes = o->n_bytes}};
        memcpy(what->head.dims, o->dims, sizeof o->dims);
    }
    return pg__io_open_window(out, a->io, o->off_bytes, o->n_bytes, err);
}

pg_status pg__archive_member(pg__io **out, pg__member *what, pg__archive *a, const char *name,
                             pg_err *err)
{
    return a->zip  ? zip_member(out, what, a, name, err)
           : a->h5 ? h5_member(out, what, a, name, err)
                   : safetensors_member(out, what, a, name, err);
}

pg_status pg__archive_sum(uint32_t *crc, const pg__archive *a, unsigned char *buf, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t size = pg__io_size(a->io);
    *crc = 0;
    for (uint64_t at = 0; at < size;) {
        const size_t n = size - at < PG_COPY_BYTES ? (size_t)(size - at) : PG_COPY_BYTES;
        PG_TRY(pg__io_read(a->io, at, buf, n, err));
        *crc = pg__crc32(*crc, buf, n);
        at += n;
    }
done:
    return st;
}
