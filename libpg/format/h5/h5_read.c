/* h5_read.c - the bytes of a dataset: from one extent, or from decoded chunks.
 *
 * Callers read a tensor row by row. A row crosses many chunks, so all chunks of a slab (those with
 * the same first coordinate) stay decoded, as far as PG_LIMIT_DECODED_BYTES allows. */
#include <string.h>

#include "base/hash.h"
#include "base/inflate.h"
#include "base/mem.h"
#include "format/h5/h5_impl.h"

enum { DEFLATE = 1, SHUFFLE, FLETCHER32 };

/* "PATH: text" once the walk is over. */
static pg_status bad(const pg__h5 *h, uint32_t obj, pg_err *err, pg_status code, const char *text)
{
    char path[200];
    return pg_fail(err, code, "%s: %s", pg__h5_path(h, obj, path, sizeof path), text);
}

void pg__h5_decoded_fini(pg__h5_decoded *d)
{
    pg__mem_free(d->tags);
    pg__mem_free(d->bytes);
    *d = (pg__h5_decoded){.chunked = PG_H5_NONE};
}

/* ---- filters, the last one first; each takes *buf and leaves its result there */

static pg_status undo_fletcher(const uint8_t *buf, size_t *n, pg_err *err)
{
    if (*n < 4)
        return pg_fail(err, PG_E_FORMAT, "chunk without its checksum");
    *n -= 4;
    pg__h5_cur c = {.p = buf + *n, .end = buf + *n + 4};
    const uint32_t stored = pg__h5_u32(&c, 4), sum = pg__fletcher32(buf, *n);
    /* HDF5 up to 1.6.2 wrote the bytes of both halves in the other order */
    const uint32_t old = (sum & 0x00FF00FF) << 8 | (sum >> 8 & 0x00FF00FF);
    if (stored != sum && stored != old)
        return pg_fail(err, PG_E_FORMAT, "wrong checksum (fletcher32) of a chunk");
    return PG_OK;
}

static pg_status undo_shuffle(uint8_t **buf, size_t n, size_t n_elem, pg_err *err)
{
    const size_t count = n / n_elem;
    uint8_t *out = pg__mem_array(n, 1);
    if (!out)
        return pg__nomem(err);
    for (size_t b = 0; b < n_elem; b++)
        for (size_t i = 0; i < count; i++)
            out[i * n_elem + b] = (*buf)[b * count + i];
    memcpy(out + count * n_elem, *buf + count * n_elem, n - count * n_elem);
    pg__mem_free(*buf);
    *buf = out;
    return PG_OK;
}

static pg_status undo_deflate(uint8_t **buf, size_t *n, size_t n_out, pg_err *err)
{
    uint8_t *out = pg__mem_array(n_out, 1);
    if (!out)
        return pg__nomem(err);
    const pg_status st = pg__inflate(out, n_out, *buf, *n, err);
    pg__mem_free(*buf);
    *buf = out;
    *n = n_out;
    return st;
}

/* Decodes chunk k of ch into dst, ch->n_bytes long. */
static pg_status decode(pg__h5 *h, const pg__h5_chunked *ch, size_t k, uint8_t *dst, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__h5_chunk *chunk = &h->chunks[ch->first + k];
    const pg__h5_filters *f = &ch->filters;
    size_t n = chunk->n_bytes, n_in[PG_H5_MAX_FILTERS] = {0}, n_now = ch->n_bytes;
    uint8_t *buf = NULL;
    if (f->n == 0)
        return pg__io_read(h->io, h->base + chunk->addr, dst, n, err);
    for (uint32_t i = 0; i < f->n; i++) { /* sizes that each filter was given when it was written */
        n_in[i] = n_now;
        n_now += !(chunk->mask >> i & 1) && f->id[i] == FLETCHER32 ? 4 : 0;
    }
    buf = pg__mem_array(n, 1);
    if (!buf)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__io_read(h->io, h->base + chunk->addr, buf, n, err));
    for (uint32_t i = f->n; i-- > 0;) {
        if (chunk->mask >> i & 1)
            continue;
        if (f->id[i] == FLETCHER32)
            PG_TRY(undo_fletcher(buf, &n, err));
        else if (f->id[i] == SHUFFLE)
            PG_TRY(undo_shuffle(&buf, n, f->arg[i], err));
        else
            PG_TRY(undo_deflate(&buf, &n, n_in[i], err));
    }
    if (n != ch->n_bytes) /* the second check: pg__h5_chunk_check() and each filter ensure it */
        PG_FAIL(PG_E_FORMAT, "chunk of %zu bytes, not %u", n, ch->n_bytes);
    memcpy(dst, buf, n);
done:
    pg__mem_free(buf);
    return st;
}

/* ---- chunks */

/* Assigns the table of decoded chunks to this dataset. */
static pg_status prepare(pg__h5 *h, uint32_t chunked, const pg__h5_object *o, pg_err *err)
{
    pg__h5_decoded *d = &h->decoded;
    const pg__h5_chunked *ch = &h->chunked[chunked];
    if (d->chunked == chunked)
        return PG_OK;
    pg__h5_decoded_fini(d);
    const uint64_t slabs = (o->dims[0] + ch->dims[0] - 1) / ch->dims[0];
    size_t n = (size_t)(ch->n_chunks / slabs);
    if (n > PG_LIMIT_DECODED_BYTES / ch->n_bytes) /* only memory */
        n = PG_LIMIT_DECODED_BYTES / ch->n_bytes;
    n = n ? n : 1;
    d->tags = pg__mem_array(n, sizeof *d->tags);
    d->bytes = pg__mem_array(n, ch->n_bytes);
    if (!d->tags || !d->bytes) {
        pg__h5_decoded_fini(d);
        return pg__nomem(err);
    }
    d->n_slots = n;
    d->chunked = chunked;
    return PG_OK;
}

/* Copies bytes from `off` of the row-major data, up to the end of a row of one chunk (*n is how
 * many are wanted, then how many were copied). */
static pg_status copy_run(pg__h5 *h, const pg__h5_object *o, uint64_t off, uint8_t *dst, size_t *n,
                          pg_err *err)
{
    pg__h5_decoded *d = &h->decoded;
    const pg__h5_chunked *ch = &h->chunked[d->chunked];
    const uint32_t last = o->rank - 1, size = o->type.size;
    uint64_t rest = off / size, k = 0, at = 0, n_chunks = 1, n_elems = 1, run = 0;
    for (uint32_t i = o->rank; i-- > 0;) {
        const uint64_t x = rest % o->dims[i];
        rest /= o->dims[i];
        k += x / ch->dims[i] * n_chunks;
        at += x % ch->dims[i] * n_elems;
        n_chunks *= (o->dims[i] + ch->dims[i] - 1) / ch->dims[i];
        n_elems *= ch->dims[i];
        if (i == last) {
            const uint64_t in_chunk = ch->dims[i] - x % ch->dims[i], in_row = o->dims[i] - x;
            run = (in_chunk < in_row ? in_chunk : in_row) * size - off % size;
        }
    }
    const size_t slot = (size_t)(k % d->n_slots);
    uint8_t *bytes = d->bytes + slot * ch->n_bytes;
    if (d->tags[slot] != k + 1) {
        d->tags[slot] = 0;
        const pg_status st = decode(h, ch, (size_t)k, bytes, err);
        if (st != PG_OK)
            return st;
        d->tags[slot] = (size_t)k + 1;
    }
    *n = run < *n ? (size_t)run : *n;
    memcpy(dst, bytes + at * size + off % size, *n);
    return PG_OK;
}

pg_status pg__h5_read(pg__h5 *h, uint32_t obj, uint64_t off, void *buf, size_t n, pg_err *err)
{
    char path[200];
    uint8_t *dst = buf;
    pg_status st = PG_OK;
    if (obj >= h->n_objs || h->objs[obj].kind != PG_H5_DATASET)
        return pg_fail(err, PG_E_ARG, "object %u is not a dataset", obj);
    const pg__h5_object *o = &h->objs[obj];
    if (off > o->n_bytes || n > o->n_bytes - off)
        return bad(h, obj, err, PG_E_ARG, "bytes outside the tensor");
    if (n == 0)
        return PG_OK;
    if (o->contiguous)
        st = pg__io_read(h->io, o->off_bytes + off, buf, n, err);
    else
        st = prepare(h, h->more[obj].chunked, o, err);
    while (st == PG_OK && !o->contiguous && n) {
        size_t part = n;
        st = copy_run(h, o, off, dst, &part, err);
        dst += part;
        off += part;
        n -= part;
    }
    if (st != PG_OK)
        pg_err_prefix(err, pg__h5_path(h, obj, path, sizeof path));
    return st;
}
