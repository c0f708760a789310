/* chunk.c - the elements of a chunk, a stretch at a time. A tensor's elements meet those of every
 * chunk in order, however it was cut, so a chunk is decoded once and as far as it is wanted; only
 * small ones are kept whole. */
#include <string.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/orbax/orbax.h"

#define SMALL      ((uint64_t)1 << 20) /* decoded at once, and kept while it is wanted */
#define MOST_INDEX 65536u              /* chunks in a value: its index is read for each of them */

static pg_status damaged(const pg__zarr *a, const char *what, pg_err *err)
{
    return pg_fail(err, PG_E_FORMAT, "%s: %s", PG_SHOW(a->name), what);
}

/* ---- where it is ---- */

/* "NAME/0.1", "NAME/c/0/1" */
static pg_status key_of(pg__str *out, const pg__zarr *a, const pg__tile *tile, pg_err *err)
{
    pg_status st = PG_OK;
    const uint32_t rank = a->tiled.rank - (uint32_t)a->is_complex;
    out->n = 0;
    PG_TRY(pg__str_printf(out, err, "%s/%s", a->name, a->version == 3 ? "c" : rank ? "" : "0"));
    for (uint32_t k = 0; k < rank; k++) {
        const char between[2] = {a->separator, 0};
        PG_TRY(pg__str_printf(out, err, "%s%llu", k || a->version == 3 ? between : "",
                              (unsigned long long)(tile->start[k] / a->shard[k])));
    }
done:
    return st;
}

/* Which of a value's chunks it is. */
static uint64_t within(const pg__zarr *a, const pg__tile *tile)
{
    uint64_t i = 0;
    for (uint32_t k = 0; k < a->tiled.rank; k++)
        i = i * (a->shard[k] / a->tiled.step[k]) + tile->start[k] % a->shard[k] / a->tiled.step[k];
    return i;
}

/* From a value that holds several chunks to the one that is wanted. */
static pg_status in_shard(pg__chunk *c, const pg__zarr *a, const pg__tile *tile, pg_err *err)
{
    pg_status st = PG_OK;
    unsigned char *index = NULL;
    const uint64_t n_index = 16 * a->in_shard + 4;
    if (a->in_shard > MOST_INDEX)
        return pg_fail(err, PG_E_LIMIT, "%s: %s chunks in one value", PG_SHOW(a->name),
                       PG_NUM(a->in_shard));
    if (c->n < n_index)
        return damaged(a, "a value is too short for the index of its chunks", err);
    index = pg__mem_array((size_t)n_index, 1);
    if (!index)
        return pg__nomem(err);
    PG_TRY(pg__io_read(c->io, c->off + (a->index_first ? 0 : c->n - n_index), index, (size_t)n_index,
                       err));
    if (pg__crc32c(0, index, (size_t)n_index - 4) != pg__le32(index + n_index - 4)) {
        st = damaged(a, "the checksum of an index of chunks is wrong", err);
        goto done;
    }
    const unsigned char *at = index + 16 * within(a, tile);
    const uint64_t off = pg__le64(at), n = pg__le64(at + 8);
    c->missing = off == UINT64_MAX && n == UINT64_MAX;
    if (!c->missing && (off > c->n || n > c->n - off))
        st = damaged(a, "a chunk lies outside of its value", err);
    c->off += off;
    c->n = n;
done:
    pg__mem_free(index);
    return st;
}

static uint64_t bytes_of(const pg__zarr *a)
{
    uint64_t n = a->tiled.elem;
    for (uint32_t k = 0; k < a->tiled.rank; k++)
        n *= a->tiled.step[k];
    return n;
}

pg_status pg__chunk_open(pg__chunk *out, const pg__zarr *a, const pg__kv *kv, const pg__tile *tile,
                         pg_err *err)
{
    pg_status st = PG_OK;
    pg__str key = {0};
    pg__chunk c = {.n_all = bytes_of(a)};
    PG_TRY(key_of(&key, a, tile, err));
    PG_TRY(pg__kv_open(kv, key.s, &c.io, &c.off, &c.n, err));
    c.missing = !c.io;
    if (!c.missing && a->is_sharded)
        PG_TRY(in_shard(&c, a, tile, err));
    if (c.missing && !(a->missing_is_fill && a->fill_is_zero))
        PG_FAIL(PG_E_FORMAT, "%s: chunk %s is missing%s", PG_SHOW(a->name), PG_SHOW(key.s),
                a->missing_is_fill ? ", and what fills it is not zero" : "");
    if (!c.missing && !a->compressed && c.n != c.n_all)
        PG_FAIL(PG_E_FORMAT, "%s: chunk %s has %s bytes, its shape needs %s", PG_SHOW(a->name),
                PG_SHOW(key.s), PG_NUM(c.n), PG_NUM(c.n_all));
    c.label = pg__mem_strdup(key.s);
    if (!c.label)
        PG_TRY(pg__nomem(err));
    *out = c;
    c = (pg__chunk){0};
done:
    pg__chunk_fini(&c);
    pg__str_fini(&key);
    return st;
}

/* ---- its bytes ---- */

static void stop(pg__chunk *c)
{
    pg__zstd_close(c->z);
    c->z = NULL;
    c->at = 0;
}

/* Decodes n bytes from byte `at` on, from where the decoder is if that is not behind it. */
static pg_status decode(pg__chunk *c, uint64_t at, void *buf, uint64_t n, pg_err *err)
{
    pg_status st = PG_OK;
    if (c->z && at < c->at) {
        stop(c);
        c->n_restarts++;
    }
    if (!c->z)
        PG_TRY(pg__zstd_open(&c->z, c->io, c->off, c->n, err));
    PG_TRY(pg__zstd_read(c->z, NULL, at - c->at, err));
    PG_TRY(pg__zstd_read(c->z, buf, n, err));
    c->at = at + n;
    if (c->at == c->n_all)
        st = pg__zstd_end(c->z, err);
done:
    if (st != PG_OK)
        stop(c);
    return st;
}

/* Keeps all of it, if it is small or if somebody goes back and forth. */
static pg_status keep(pg__chunk *c, pg_err *err)
{
    const int again = c->n_restarts > 1 && c->n_all <= PG_LIMIT_DECODED_BYTES;
    if (c->whole || (c->n_all > SMALL && !again))
        return PG_OK;
    unsigned char *whole = pg__mem_array((size_t)c->n_all, 1);
    if (!whole)
        return pg__nomem(err);
    stop(c);
    const pg_status st = decode(c, 0, whole, c->n_all, err);
    stop(c);
    if (st == PG_OK)
        c->whole = whole;
    else
        pg__mem_free(whole);
    return st;
}

static pg_status read_bytes(pg__chunk *c, const pg__zarr *a, uint64_t at, void *buf, size_t n,
                            pg_err *err)
{
    if (c->missing) {
        memset(buf, 0, n);
        return PG_OK;
    }
    if (!a->compressed)
        return pg__io_read(c->io, c->off + at, buf, n, err);
    const pg_status st = keep(c, err);
    if (st != PG_OK)
        return st;
    if (!c->whole)
        return decode(c, at, buf, n, err);
    memcpy(buf, c->whole + at, n);
    return PG_OK;
}

/* ---- its elements ---- */

/* Where in the chunk, which is stored whole, row i of what the tensor has of it begins. */
static uint64_t row_at(const pg__zarr *a, const pg__tile *tile, uint32_t axes, uint64_t i)
{
    uint64_t at = 0, stride = 1;
    for (uint32_t k = axes - 1; k-- > 0; i /= tile->size[k]) {
        at += i % tile->size[k] * stride;
        stride *= a->tiled.step[k];
    }
    return at;
}

static pg_status read_rows(pg__chunk *c, const pg__zarr *a, const pg__tile *tile, uint64_t off,
                           unsigned char *buf, size_t n, pg_err *err)
{
    uint64_t run = a->tiled.elem;
    uint32_t axes = a->tiled.rank;
    while (axes > 0 && tile->size[axes - 1] == a->tiled.step[axes - 1])
        run *= a->tiled.step[--axes];
    if (axes == 0)
        return read_bytes(c, a, off, buf, n, err);
    const uint64_t row = tile->size[axes - 1] * run, stored = a->tiled.step[axes - 1] * run;
    while (n) {
        const uint64_t skip = off % row, len = row - skip < n ? row - skip : n;
        const uint64_t at = row_at(a, tile, axes, off / row) * stored + skip;
        const pg_status st = read_bytes(c, a, at, buf, (size_t)len, err);
        if (st != PG_OK)
            return st;
        buf += len;
        off += len;
        n -= (size_t)len;
    }
    return PG_OK;
}

pg_status pg__chunk_read(pg__chunk *c, const pg__zarr *a, const pg__tile *tile, uint64_t off,
                         void *buf, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t all = a->tiled.elem;
    for (uint32_t k = 0; k < a->tiled.rank; k++)
        all *= tile->size[k];
    PG_TRY(read_rows(c, a, tile, off, buf, n, err));
    c->read_to_end = off + n == all;
    if (c->read_to_end && c->z) { /* what lies outside of the tensor is checked, too */
        PG_TRY(decode(c, c->at, NULL, c->n_all - c->at, err));
        stop(c);
    }
done:
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(c->label));
    return st;
}

size_t pg__chunk_memory(const pg__chunk *c)
{
    return (c->whole ? (size_t)c->n_all : 0) + (c->z ? pg__zstd_memory(c->z) : 0);
}

void pg__chunk_fini(pg__chunk *c)
{
    stop(c);
    pg__mem_free(c->whole);
    pg__mem_free(c->label);
    pg__io_close(c->io);
    *c = (pg__chunk){0};
}
