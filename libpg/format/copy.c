/* copy.c - copies tensor bytes from a store to a sink.
 *
 * Tensors are sorted by their place in the source, so that a disk reads forward and neighbours
 * become one call: otherwise a model of 20,000 tensors of a few bytes takes 20,000 system calls.
 * Bytes are never converted. */
#include "format/copy.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "store/read_ahead.h"

typedef struct piece {
    pg__io *io; /* NULL: only through the store */
    uint64_t from, to, n;
    size_t tensor;
    int has_sum; /* a tensor whose checksum is to be kept */
} piece;

static int by_source(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    if (x->io != y->io)
        return (uintptr_t)x->io < (uintptr_t)y->io ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static size_t join_neighbours(piece *p, size_t n)
{
    size_t last = 0;
    for (size_t i = 1; i < n; i++) {
        piece *a = &p[last];
        const piece *b = &p[i];
        if (a->io && a->io == b->io && !a->has_sum && !b->has_sum && a->from + a->n == b->from &&
            a->to + a->n == b->to)
            a->n += b->n;
        else
            p[++last] = *b;
    }
    return n ? last + 1 : 0;
}

/* Takes the block of a tensor, and keeps its checksum once it was the last. */
static void add_to_sum(pg__xxh64 *sum, pg_store *src, const piece *p, const pg__block *b)
{
    if (!p->has_sum)
        return;
    if (b->off == 0)
        pg__xxh64_start(sum);
    pg__xxh64_add(sum, b->bytes, b->n);
    if (b->off + b->n == p->n)
        pg__store_set_sum(src, p->tensor, pg__xxh64_end(sum));
}

/* Of pieces that only the store can read. */
static pg_status copy_decoded(pg__sink *sink, pg_store *src, const piece *p, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__read_ahead *ahead = NULL;
    pg__xxh64 sum;
    pg__to_read *v = pg__mem_array(n, sizeof *v);
    if (!v)
        return pg__nomem(err);
    for (size_t i = 0; i < n; i++)
        v[i].tensor = p[i].tensor;
    PG_TRY(pg__read_ahead_start(&ahead, src, v, n, err));
    for (pg__block b = {.n = 1}; b.n;) {
        PG_TRY(pg__read_ahead_next(ahead, &b, err));
        if (!b.n)
            break;
        add_to_sum(&sum, src, &p[b.item], &b);
        PG_TRY(pg__sink_write(sink, p[b.item].to + b.off, b.bytes, b.n, err));
    }
done:
    pg__read_ahead_close(ahead);
    pg__mem_free(v);
    return st;
}

static pg_status copy_extent(pg__sink *sink, pg_store *src, const piece *p, pg_err *err)
{
    pg__xxh64 sum;
    if (!p->has_sum)
        return pg__sink_copy(sink, p->to, p->io, p->from, p->n, err);
    pg__xxh64_start(&sum);
    const pg_status st = pg__sink_copy_sum(sink, p->to, p->io, p->from, p->n, &sum, err);
    if (st == PG_OK)
        pg__store_set_sum(src, p->tensor, pg__xxh64_end(&sum));
    return st;
}

pg_status pg__copy_tensors(pg__sink *sink, pg_store *src, const pg__placed *v, size_t n,
                           pg_err *err)
{
    pg_status st = PG_OK;
    size_t n_pieces = 0, n_decoded = 0;
    piece *p = pg__mem_array(n, sizeof *p);
    if (!p)
        return pg__nomem(err);
    for (size_t i = 0; pg__store_copies(src) && i < n; i++)
        PG_TRY(pg__store_copy(src, v[i].tensor, sink, v[i].off, err));
    for (size_t i = 0; !pg__store_copies(src) && i < n; i++) {
        const pg__extent e = pg__store_extent(src, v[i].tensor);
        const uint64_t n_bytes = pg__store_tensor(src, v[i].tensor)->n_bytes;
        if (n_bytes)
            p[n_pieces++] = (piece){.io = e.io,
                                    .from = e.io ? e.off : 0,
                                    .to = v[i].off,
                                    .n = n_bytes,
                                    .tensor = v[i].tensor,
                                    .has_sum = pg__store_keeps_sum(src, v[i].tensor)};
    }
    if (n_pieces)
        qsort(p, n_pieces, sizeof *p, by_source);
    n_pieces = join_neighbours(p, n_pieces);
    while (n_decoded < n_pieces && !p[n_decoded].io)
        n_decoded++;
    if (n_decoded)
        PG_TRY(copy_decoded(sink, src, p, n_decoded, err));
    for (size_t i = n_decoded; i < n_pieces; i++)
        PG_TRY(copy_extent(sink, src, &p[i], err));
done:
    pg__mem_free(p);
    return st;
}

pg_status pg__crc_written(uint32_t *crc, pg__sink *sink, uint64_t off, uint64_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__io *io = NULL;
    unsigned char *buf = pg__mem_array(PG_COPY_BYTES, 1);
    if (!buf)
        return pg__nomem(err);
    *crc = 0;
    PG_TRY(pg__sink_reopen(sink, &io, err));
    for (uint64_t at = 0; at < n;) {
        const size_t k = n - at < PG_COPY_BYTES ? (size_t)(n - at) : PG_COPY_BYTES;
        PG_TRY(pg__io_read(io, off + at, buf, k, err));
        *crc = pg__crc32(*crc, buf, k);
        at += k;
    }
done:
    pg__io_close(io);
    pg__mem_free(buf);
    return st;
}
