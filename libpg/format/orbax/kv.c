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

/* Bytes of a file below the folder: n of them from off on; n == UINT64_MAX: all. */
static pg_status from_file(const pg__kv *kv, const char *path, uint64_t off, uint64_t n, size_t most,
                           unsigned char **out, size_t *n_out, pg_err *err)
{
    pg_status st = PG_OK;
    pg_err e = {0};
    pg__io *io = NULL;
    unsigned char *bytes = NULL;
    st = pg__io_open_below(&io, kv->folder, path, &e);
    if (st == PG_E_IO && (e.sys == ENOENT || e.sys == ENOTDIR) && !kv->is_database)
        return PG_OK;
    if (st != PG_OK && err)
        *err = e;
    PG_TRY(st);
    n = n == UINT64_MAX ? pg__io_size(io) : n;
    if (off > pg__io_size(io) || n > pg__io_size(io) - off)
        PG_FAIL(PG_E_FORMAT, "%s: truncated: %s bytes, %s are needed", PG_SHOW(path),
                PG_NUM(pg__io_size(io)), PG_NUM(off + n));
    if (n > most)
        PG_FAIL(PG_E_LIMIT, "%s: a value of %s bytes", PG_SHOW(path), PG_NUM(n));
    bytes = pg__mem_array((size_t)n + 1, 1);
    if (!bytes)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__io_read(io, off, bytes, (size_t)n, err));
    *out = bytes;
    *n_out = (size_t)n;
    bytes = NULL;
done:
    pg__mem_free(bytes);
    pg__io_close(io);
    return st;
}

pg_status pg__kv_get(const pg__kv *kv, const char *key, size_t most, unsigned char **out, size_t *n,
                     pg_err *err)
{
    *out = NULL;
    if (!kv->is_database)
        return from_file(kv, key, 0, UINT64_MAX, most, out, n, err);
    const pg__kv_entry *e = kv->n ? bsearch(key, kv->v, kv->n, sizeof *kv->v, by_key) : NULL;
    if (!e)
        return PG_OK;
    if (e->file != PG_NONE)
        return from_file(kv, kv->files.v[e->file], e->off, e->n, most, out, n, err);
    if (e->n > most)
        return pg_fail(err, PG_E_LIMIT, "%s: a value of %s bytes", PG_SHOW(key), PG_NUM(e->n));
    *out = pg__mem_array((size_t)e->n + 1, 1);
    if (!*out)
        return pg__nomem(err);
    memcpy(*out, e->direct, (size_t)e->n);
    *n = (size_t)e->n;
    return PG_OK;
}
