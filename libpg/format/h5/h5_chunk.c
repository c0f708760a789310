/* h5_chunk.c - where the bytes of a dataset are: layouts compact, contiguous and chunked (section
 * IV.A.2.i), the filter pipeline (IV.A.2.l) and the B-tree of chunks (III.A.1).
 *
 * Absent is not zero: libhdf5 returns fill values for bytes that were never written. Here every
 * byte of every dataset must be stored, or the file is refused with both numbers. */
#include <string.h>

#include "base/mem.h"
#include "format/h5/h5_impl.h"

enum { COMPACT, CONTIGUOUS, CHUNKED, VIRTUAL };
enum { DEFLATE = 1, SHUFFLE, FLETCHER32, SZIP, NBIT, SCALEOFFSET };

/* ---- filters */

pg_status pg__h5_filter_refuse(const pg__h5 *h, unsigned id, pg_err *err)
{
    const char *name = id == SZIP          ? " (szip)"
                       : id == NBIT        ? " (nbit)"
                       : id == SCALEOFFSET ? " (scaleoffset)"
                                           : "";
    return pg__h5_bad(h, err, PG_E_UNSUPPORTED,
                      "filter %u%s is not supported, only deflate, shuffle and fletcher32", id,
                      name);
}

static pg_status read_filter(const pg__h5 *h, unsigned version, pg__h5_cur *c, pg__h5_filters *f,
                             pg_err *err)
{
    pg_status st = PG_OK;
    const uint32_t id = pg__h5_u32(c, 2);
    PG_H5_NEED(!c->cut, "filter pipeline is cut short");
    if (id < DEFLATE || id > FLETCHER32)
        return pg__h5_filter_refuse(h, id, err);
    const uint32_t n_name = version == 1 ? pg__h5_u32(c, 2) : 0;
    pg__h5_span(c, 2); /* optional or not: we implement them all */
    const uint32_t n_args = pg__h5_u32(c, 2);
    pg__h5_span(c, (n_name + 7) / 8 * 8);
    const uint32_t arg = n_args ? pg__h5_u32(c, 4) : 0;
    if (n_args > 1)
        pg__h5_span(c, 4 * ((uint64_t)n_args - 1));
    if (version == 1 && n_args % 2)
        pg__h5_span(c, 4);
    PG_H5_NEED(!c->cut && n_args <= 8, "filter pipeline is cut short");
    /* libhdf5 checks the level in reading, too, and takes exactly one argument */
    PG_H5_NEED(id == FLETCHER32 || n_args == 1, "filter %u has %u arguments, not 1", id, n_args);
    PG_H5_NEED(id != DEFLATE || arg <= 9, "deflate level %u is above 9", arg);
    for (uint32_t i = 0; i < f->n; i++)
        if (f->id[i] == id)
            PG_H5_FAIL(PG_E_UNSUPPORTED, "filter %u occurs twice", id);
    f->id[f->n] = (uint16_t)id;
    f->arg[f->n++] = arg;
done:
    return st;
}

pg_status pg__h5_filters_read(const pg__h5 *h, pg__h5_cur *c, pg__h5_filters *f, pg_err *err)
{
    pg_status st = PG_OK;
    const unsigned version = pg__h5_u32(c, 1), n = pg__h5_u32(c, 1);
    if (version == 1)
        pg__h5_span(c, 6);
    PG_H5_NEED(!c->cut && (version == 1 || version == 2) && n <= 32,
               "filter pipeline of version %u with %u filters is not valid", version, n);
    *f = (pg__h5_filters){0};
    for (unsigned i = 0; i < n; i++) /* a fourth one would repeat one of the three */
        PG_TRY(read_filter(h, version, c, f, err));
done:
    return st;
}

/* ---- chunks */

typedef struct chunks {
    pg__h5 *h;
    pg__h5_chunked *ch;
    const pg__h5_object *o;
    uint64_t want, n_seen; /* chunks */
} chunks;

static int key_order(void *ctx, const uint8_t *a, const uint8_t *b)
{
    const chunks *s = ctx;
    pg__h5_cur x = {.p = a + 8, .end = a + 8 + 8 * (s->o->rank + 1)};
    pg__h5_cur y = {.p = b + 8, .end = b + 8 + 8 * (s->o->rank + 1)};
    for (uint32_t i = 0; i <= s->o->rank; i++) {
        const uint64_t u = pg__h5_uint(&x, 8), v = pg__h5_uint(&y, 8);
        if (u != v)
            return u < v ? 1 : -1;
    }
    return 0;
}

pg_status pg__h5_chunk_check(const pg__h5 *h, const pg__h5_chunked *ch, uint32_t stored,
                             uint32_t mask, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__h5_filters *f = &ch->filters;
    uint64_t exact = ch->n_bytes;
    int deflate = 0;
    PG_H5_NEED(mask >> f->n == 0, "chunk leaves out filter 0x%x of %u", mask, f->n);
    for (uint32_t i = 0; i < f->n; i++) {
        if (mask >> i & 1)
            continue;
        deflate |= f->id[i] == DEFLATE;
        exact += f->id[i] == FLETCHER32 ? 4 : 0;
    }
    PG_H5_NEED(deflate || stored == exact, "chunk of %u bytes, not %s", stored, PG_H5_NUM(exact));
    if (deflate && (uint64_t)stored * PG_LIMIT_DEFLATE_RATIO + PG_LIMIT_DEFLATE_SLACK < exact)
        PG_H5_FAIL(PG_E_LIMIT, "chunk of %s bytes cannot fit in %u stored ones", PG_H5_NUM(exact),
                   stored);
done:
    return st;
}

static pg_status add_chunk(void *ctx, const uint8_t *key, const uint8_t *next, uint64_t child,
                           pg_err *err)
{
    (void)next;
    pg_status st = PG_OK;
    chunks *s = ctx;
    pg__h5 *h = s->h;
    const uint32_t rank = s->o->rank;
    pg__h5_cur c = {.p = key, .end = key + 8 + 8 * (rank + 1)};
    const uint32_t stored = pg__h5_u32(&c, 4), mask = pg__h5_u32(&c, 4);
    int good = 1;
    for (uint32_t i = 0; i < rank; i++) {
        const uint64_t at = pg__h5_uint(&c, 8);
        good &= at % s->ch->dims[i] == 0 && at < s->o->dims[i];
    }
    good &= pg__h5_uint(&c, 8) == 0;
    PG_H5_NEED(good, "chunk %s of %s is in the wrong place", PG_H5_NUM(s->n_seen + 1),
               PG_H5_NUM(s->want));
    PG_TRY(pg__h5_chunk_check(h, s->ch, stored, mask, err));
    PG_TRY(pg__h5_own(h, child, stored, PG_H5_P_CHUNK, err));
    if (pg__mem_grow(&h->chunks, &h->cap_chunks, h->n_chunks + 1, sizeof *h->chunks))
        PG_TRY(pg__nomem(err));
    h->chunks[h->n_chunks++] = (pg__h5_chunk){.addr = child, .n_bytes = stored, .mask = mask};
    s->n_seen++;
done:
    return st;
}

/* The tree's keys ascend, so if as many chunks as wanted are in their places, those are all of
 * them, in row-major order, and there can be no more. */
static pg_status read_index(chunks *s, uint64_t root, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5 *h = s->h;
    const pg__h5_btree tree = {.node_type = 1,
                               .k = h->chunk_k,
                               .n_key = 8 + 8 * (s->o->rank + 1),
                               .ctx = s,
                               .order = key_order,
                               .leaf = add_chunk};
    if (root != PG_H5_UNDEF)
        PG_TRY(pg__h5_btree_walk(h, &tree, root, err));
    if (s->n_seen < s->want)
        PG_H5_FAIL(PG_E_FORMAT,
                   "%s of its %s chunks are stored (%s bytes declared), the rest was "
                   "never written",
                   PG_H5_NUM(s->n_seen), PG_H5_NUM(s->want), PG_H5_NUM(s->o->n_bytes));
    s->ch->n_chunks = (size_t)s->n_seen;
done:
    return st;
}

static pg_status read_chunked(pg__h5 *h, pg__h5_cur *c, const pg__h5_filters *f, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_object *o = &h->objs[h->walk->obj];
    pg__h5_chunked ch = {.first = h->n_chunks, .filters = *f};
    chunks s = {.h = h, .ch = &ch, .o = o, .want = 1};
    const uint32_t rank = pg__h5_u32(c, 1);
    const uint64_t root = pg__h5_addr(h, c);
    uint64_t n_bytes = o->type.size;
    PG_H5_NEED(rank == o->rank + 1, "chunks have %u dimensions, not %u", rank, o->rank + 1);
    for (uint32_t i = 0; i < o->rank; i++) {
        const uint64_t dim = ch.dims[i] = pg__h5_u32(c, 4);
        PG_H5_NEED(dim, "chunks of size 0");
        n_bytes *= dim; /* 32 bits each, or less */
        if (n_bytes > PG_LIMIT_CHUNK_BYTES)
            PG_H5_FAIL(PG_E_LIMIT, "chunks of more than %s bytes are not supported",
                       PG_H5_NUM(PG_LIMIT_CHUNK_BYTES));
        if (o->n_bytes) /* then no product can exceed the number of elements */
            s.want *= o->dims[i] / dim + (o->dims[i] % dim != 0);
    }
    const uint32_t size = pg__h5_u32(c, 4);
    /* 0 if the message is cut */
    PG_H5_NEED(size == o->type.size, "chunks of elements of %u bytes, not %u", size, o->type.size);
    for (uint32_t i = 0; i < f->n; i++)
        PG_H5_NEED(f->id[i] != SHUFFLE || f->arg[i] == size, "shuffle by %u bytes, not %u",
                   f->arg[i], size);
    ch.n_bytes = (uint32_t)n_bytes;
    s.want = o->n_bytes ? s.want : 0;
    PG_TRY(read_index(&s, root, err));
    if (pg__mem_grow(&h->chunked, &h->cap_chunked, h->n_chunked + 1, sizeof *h->chunked))
        PG_TRY(pg__nomem(err));
    h->more[h->walk->obj].chunked = (uint32_t)h->n_chunked;
    h->chunked[h->n_chunked++] = ch;
done:
    return st;
}

/* ---- layouts */

static pg_status read_contiguous(pg__h5 *h, pg__h5_cur *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_object *o = &h->objs[h->walk->obj];
    const uint64_t addr = pg__h5_addr(h, c), n = pg__h5_len(h, c);
    PG_H5_NEED(!c->cut, "layout message is cut short");
    if (o->n_bytes) {
        PG_H5_NEED(addr != PG_H5_UNDEF, "declares %s bytes, 0 are stored: it was never written",
                   PG_H5_NUM(o->n_bytes));
        PG_H5_NEED(n == o->n_bytes, "declares %s bytes, %s are stored", PG_H5_NUM(o->n_bytes),
                   PG_H5_NUM(n));
        PG_TRY(pg__h5_own(h, addr, n, PG_H5_P_DATA, err));
        o->off_bytes = h->base + addr;
    }
    o->contiguous = 1;
done:
    return st;
}

static pg_status refuse_index(pg__h5 *h, pg__h5_cur *c, pg_err *err)
{
    static const char *const names[] = {"?",           "single chunk",     "implicit",
                                        "fixed array", "extensible array", "version 2 B-tree"};
    pg_status st = PG_OK;
    pg__h5_span(c, 1);
    const uint32_t rank = pg__h5_u32(c, 1), n_each = pg__h5_u32(c, 1);
    pg__h5_span(c, (uint64_t)rank * n_each);
    const uint32_t type = pg__h5_u32(c, 1);
    PG_H5_UNCOVERED("chunk index of a newer kind (%s) is not supported",
                    names[type < sizeof names / sizeof *names ? type : 0]);
done:
    return st;
}

pg_status pg__h5_unread_check(const pg__h5 *h, pg__h5_cur c, uint64_t n_elems, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t n_bytes = 0;
    const pg__h5_object *o = &h->objs[h->walk->obj];
    const int old = pg__h5_u32(&c, 1) < 3; /* HDF5 before 1.6: rank, class, 5 bytes, shape, size */
    const uint32_t rank = old ? pg__h5_u32(&c, 1) : 0;
    if (pg__h5_u32(&c, 1) != COMPACT)
        return PG_OK;
    if (old)
        pg__h5_span(&c, 5 + 4 * rank);
    const uint32_t n = pg__h5_u32(&c, old ? 4 : 2);
    PG_H5_NEED(!c.cut && n <= pg__h5_left(&c), "layout message is cut short");
    if (__builtin_mul_overflow(n_elems, (uint64_t)o->type.size, &n_bytes))
        PG_H5_FAIL(PG_E_LIMIT, "shape overflows: %s elements of %u bytes", PG_H5_NUM(n_elems),
                   o->type.size);
    PG_H5_NEED(n == n_bytes, "declares %s bytes, %u are stored", PG_H5_NUM(n_bytes), n);
done:
    return st;
}

pg_status pg__h5_layout_read(pg__h5 *h, pg__h5_cur *c, uint64_t at, const pg__h5_filters *f,
                             pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_object *o = &h->objs[h->walk->obj];
    const unsigned version = pg__h5_u32(c, 1), cls = pg__h5_u32(c, 1);
    PG_H5_NEED(version, "layout message of unknown version %u", version);
    if (version > 4)
        PG_H5_UNCOVERED("written by a newer HDF5 (layout version %u)", version);
    if (version < 3)
        PG_H5_UNCOVERED("layout of HDF5 before 1.6 (version %u) is not supported", version);
    PG_H5_NEED(cls <= VIRTUAL, "layout of unknown class %u", cls);
    if (cls == VIRTUAL) /* its bytes are in other files */
        PG_H5_FAIL(PG_E_FORMAT, "virtual dataset, it points to other files and is not followed");
    PG_H5_NEED(cls == CHUNKED || f->n == 0, "filters without chunks");
    if (cls == CHUNKED) {
        PG_TRY(version == 4 ? refuse_index(h, c, err) : read_chunked(h, c, f, err));
    } else if (cls == CONTIGUOUS) {
        PG_TRY(read_contiguous(h, c, err));
    } else {
        const uint32_t n = pg__h5_u32(c, 2);
        PG_H5_NEED(!c->cut && n <= pg__h5_left(c), "layout message is cut short");
        PG_H5_NEED(n == o->n_bytes, "declares %s bytes, %u are stored", PG_H5_NUM(o->n_bytes), n);
        o->contiguous = 1;
        o->off_bytes = at + 4;
    }
done:
    return st;
}
