/* kv.c - values under keys, whether they are files or entries of a database. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/orbax/orbax.h"

void pg__kv_fini(pg__kv *kv)
{
    for (size_t i = 0; i < kv->n; i++) {
        pg__mem_free(kv->v[i].key);
        pg__mem_free(kv->v[i].direct);
    }
    pg__mem_free(kv->v);
    pg__strs_fini(&kv->files);
    *kv = (pg__kv){0};
}

static int by_key(const void *key, const void *entry)
{
    return strcmp(key, ((const pg__kv_entry *)entry)->key);
}

/* n bytes from off on of a file below the folder; n == UINT64_MAX: all. */
static pg_status open_file(const pg__kv *kv, const char *path, uint64_t off, uint64_t *n,
                           pg__io **out, pg_err *err)
{
    pg_err e = {0};
    pg__io *io = NULL;
    const pg_status st = pg__io_open_below(&io, kv->folder, path, &e);
    if (st == PG_E_IO && (e.sys == ENOENT || e.sys == ENOTDIR) && !kv->is_database)
        return PG_OK;
    if (st != PG_OK && err)
        *err = e;
    if (st != PG_OK)
        return st;
    *n = *n == UINT64_MAX ? pg__io_size(io) : *n;
    if (off > pg__io_size(io) || *n > pg__io_size(io) - off) {
        pg_fail(err, PG_E_FORMAT, "%s: truncated: %s bytes, %s are needed", PG_SHOW(path),
                PG_NUM(pg__io_size(io)), PG_NUM(off + *n));
        pg__io_close(io);
        return PG_E_FORMAT;
    }
    *out = io;
    return PG_OK;
}

pg_status pg__kv_open(const pg__kv *kv, const char *key, pg__io **io, uint64_t *off, uint64_t *n,
                      pg_err *err)
{
    *io = NULL;
    *off = 0;
    *n = UINT64_MAX;
    if (!kv->is_database)
        return open_file(kv, key, 0, n, io, err);
    const pg__kv_entry *e = kv->n ? bsearch(key, kv->v, kv->n, sizeof *kv->v, by_key) : NULL;
    if (!e)
        return PG_OK;
    *n = e->n;
    if (e->file == PG_NONE)
        return pg__io_open_mem(io, e->direct, (size_t)e->n, err);
    *off = e->off;
    return open_file(kv, kv->files.v[e->file], e->off, n, io, err);
}

pg_status pg__kv_get(const pg__kv *kv, const char *key, size_t most, unsigned char **out, size_t *n,
                     pg_err *err)
{
    pg_status st = PG_OK;
    pg__io *io = NULL;
    uint64_t off = 0, size = 0;
    *out = NULL;
    PG_TRY(pg__kv_open(kv, key, &io, &off, &size, err));
    if (!io)
        goto done;
    if (size > most)
        PG_FAIL(PG_E_LIMIT, "%s: a value of %s bytes", PG_SHOW(key), PG_NUM(size));
    *out = pg__mem_array((size_t)size + 1, 1);
    if (!*out)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__io_read(io, off, *out, (size_t)size, err));
    *n = (size_t)size;
done:
    if (st != PG_OK) {
        pg__mem_free(*out);
        *out = NULL;
    }
    pg__io_close(io);
    return st;
}
