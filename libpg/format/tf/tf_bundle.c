/* tf_bundle.c - the entries of a checkpoint: types, shapes, and the bytes in the data files
 * (tensorflow/core/protobuf/tensor_bundle.proto, core/util/tensor_bundle/tensor_bundle.cc). */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/proto.h"
#include "base/try.h"
#include "format/tf/tf.h"
#include "io/beside.h"

static const struct {
    int type;
    pg_dtype dtype;
    int is_complex;
} types[] = {
    {1, PG_F32, 0},      {2, PG_F64, 0},      {3, PG_I32, 0},  {4, PG_U8, 0},    {5, PG_I16, 0},
    {6, PG_I8, 0},       {8, PG_F32, 1},      {9, PG_I64, 0},  {10, PG_BOOL, 0}, {14, PG_BF16, 0},
    {17, PG_U16, 0},     {18, PG_F64, 1},     {19, PG_F16, 0}, {22, PG_U32, 0},  {23, PG_U64, 0},
    {24, PG_F8_E5M2, 0}, {25, PG_F8_E4M3, 0},
};

static pg_status damaged(const pg__tf_entry *e, const char *what, pg_err *err)
{
    return pg_fail(err, PG_E_FORMAT, "%s: %s", PG_SHOW(e->key), what);
}

/* ---- one entry ---- */

/* {repeated 2 {1 size}, 3 unknown_rank} */
static pg_status read_shape(pg__tf_entry *e, pg__proto m, pg_err *err)
{
    pg__field f, g;
    while (pg__proto_next(&m, &f)) {
        pg__proto dim = {f.bytes, f.n, 0};
        if (f.number == 3 && f.value)
            return damaged(e, "its shape is unknown", err);
        if (f.number != 2 || f.type != PG_PROTO_BYTES)
            continue;
        if (e->rank == PG_MAX_RANK)
            return pg_fail(err, PG_E_LIMIT, "%s: more than %d dimensions", PG_SHOW(e->key),
                           PG_MAX_RANK);
        e->dims[e->rank] = 0;
        while (pg__proto_next(&dim, &g))
            if (g.number == 1 && g.type == PG_PROTO_VARINT)
                e->dims[e->rank] = g.value;
        if (dim.bad || e->dims[e->rank] > INT64_MAX)
            return damaged(e, "its shape makes no sense", err);
        e->rank++;
    }
    return m.bad ? damaged(e, "its shape makes no sense", err) : PG_OK;
}

/* {repeated 1 {1 start, 2 length}}; an extent without a length is the whole dimension. */
static pg_status read_slice(pg__tf_entry *e, pg__proto m, pg__tile *p, unsigned *whole, pg_err *err)
{
    uint32_t k = 0;
    pg__field f, g;
    *p = (pg__tile){.source = PG_NONE};
    *whole = 0;
    while (pg__proto_next(&m, &f)) {
        pg__proto extent = {f.bytes, f.n, 0};
        int has_length = 0;
        if (f.number != 1 || f.type != PG_PROTO_BYTES)
            continue;
        if (k == PG_MAX_RANK)
            return damaged(e, "a slice of it has too many dimensions", err);
        while (pg__proto_next(&extent, &g)) {
            if (g.number == 1 && g.type == PG_PROTO_VARINT)
                p->start[k] = g.value;
            has_length |= g.number == 2 && g.type == PG_PROTO_VARINT;
            if (g.number == 2 && g.type == PG_PROTO_VARINT)
                p->size[k] = g.value;
        }
        if (extent.bad || p->start[k] > INT64_MAX || p->size[k] > INT64_MAX)
            return damaged(e, "a slice of it makes no sense", err);
        if (!has_length)
            *whole |= 1u << k;
        k++;
    }
    return m.bad ? damaged(e, "a slice of it makes no sense", err) : PG_OK;
}

static pg_status add_slice(pg__tf_entry *e, const pg__field *f, size_t *cap, pg_err *err)
{
    unsigned whole = 0;
    pg__tile p;
    const pg_status st = read_slice(e, (pg__proto){f->bytes, f->n, 0}, &p, &whole, err);
    if (st != PG_OK)
        return st;
    if (pg__mem_grow(&e->tiled.v, cap, e->tiled.n + 1, sizeof p))
        return pg__nomem(err);
    p.source = whole; /* until find_pieces() */
    e->tiled.v[e->tiled.n++] = p;
    return PG_OK;
}

/* The shape comes before the slices in every file, but need not. */
static pg_status read_entry(pg__tf_entry *e, const pg__tf_pair *pair, pg_err *err)
{
    pg_status st = PG_OK;
    size_t cap = 0;
    pg__field f;
    pg__proto m = {(const unsigned char *)pair->value, pair->n_value, 0};
    *e = (pg__tf_entry){.key = pair->key};
    while (pg__proto_next(&m, &f)) {
        const int bytes = f.type == PG_PROTO_BYTES;
        if (bytes && f.number == 2)
            PG_TRY(read_shape(e, (pg__proto){f.bytes, f.n, 0}, err));
        else if (bytes && f.number == 7)
            PG_TRY(add_slice(e, &f, &cap, err));
        else if (f.number == 1)
            e->type = f.value > 1000 ? -1 : (int)f.value;
        else if (f.number == 3)
            e->shard = f.value > UINT32_MAX ? UINT32_MAX : (uint32_t)f.value;
        else if (f.number == 4)
            e->off = f.value;
        else if (f.number == 5)
            e->size = f.value;
        else if (f.number == 6)
            e->crc = (uint32_t)f.value;
    }
    if (m.bad)
        return damaged(e, "its entry makes no sense", err);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == e->type) {
            e->known = 1;
            e->dtype = types[i].dtype;
            e->is_complex = types[i].is_complex;
        }
    if (e->is_complex && (e->tiled.n || e->rank == PG_MAX_RANK))
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: complex numbers in pieces, or in %d dimensions",
                       PG_SHOW(e->key), PG_MAX_RANK);
    if (e->is_complex)
        e->dims[e->rank++] = 2;
done:
    return st;
}

/* Bytes that type and shape need. */
static pg_status check_size(const pg__tf_entry *e, pg_err *err)
{
    uint64_t n = e->known ? pg_dtype_bytes(e->dtype) : 0;
    for (uint32_t k = 0; k < e->rank; k++)
        if (__builtin_mul_overflow(n, e->dims[k], &n) || n > INT64_MAX)
            return pg_fail(err, PG_E_LIMIT, "%s: shape is too large", PG_SHOW(e->key));
    if (e->known && e->tiled.n == 0 && n != e->size)
        return pg_fail(err, PG_E_FORMAT, "%s: type and shape need %s bytes, the index has %s",
                       PG_SHOW(e->key), PG_NUM(n), PG_NUM(e->size));
    return PG_OK;
}

/* ---- pieces ---- */

/* OrderedCode (core/lib/strings/ordered_code.cc), whose bytes compare as the values do: a number as
 * its length and its bytes, the high ones first. */
static pg_status put_number(pg__str *out, uint64_t v, pg_err *err)
{
    unsigned char b[9];
    size_t n = 0;
    for (uint64_t x = v; x; x >>= 8)
        n++;
    b[0] = (unsigned char)n;
    for (size_t i = 0; i < n; i++)
        b[1 + i] = (unsigned char)(v >> 8 * (n - 1 - i));
    return pg__str_add(out, (const char *)b, n + 1, err);
}

/* Text: 0 and 255 are followed by the other one, and 0 1 ends it. */
static pg_status put_text(pg__str *out, const char *s, pg_err *err)
{
    pg_status st = PG_OK;
    for (; *s; s++)
        PG_TRY(pg__str_add(out, *s == '\xff' ? "\xff\0" : s, *s == '\xff' ? 2 : 1, err));
    st = pg__str_add(out, "\0\1", 2, err);
done:
    return st;
}

/* A number with a sign, of which only -1 is below 0: as many bits as bytes are set at the front,
 * then a 0, then the number's 7 bits for each byte, two's complement. */
static pg_status put_signed(pg__str *out, int64_t v, pg_err *err)
{
    unsigned char b[11] = {0};
    size_t n = 1;
    while (n < 10 && v >= INT64_C(1) << (7 * n - 1))
        n++;
    if (v < 0) { /* -1 */
        b[0] = 0x7F;
        return pg__str_add(out, (const char *)b, 1, err);
    }
    for (size_t i = 0; i < n && i < 8; i++)
        b[n - 1 - i] = (unsigned char)((uint64_t)v >> 8 * i);
    for (size_t i = 0; i < n; i++)
        b[i / 8] |= (unsigned char)(0x80 >> i % 8);
    return pg__str_add(out, (const char *)b, n, err);
}

/* The key under which a piece has its entry. */
static pg_status piece_key(pg__str *out, const pg__tf_entry *e, const pg__tile *p, unsigned whole,
                           pg_err *err)
{
    pg_status st = PG_OK;
    out->n = 0;
    PG_TRY(put_number(out, 0, err));
    PG_TRY(put_text(out, e->key, err));
    PG_TRY(put_number(out, e->rank, err));
    for (uint32_t k = 0; k < e->rank; k++) {
        PG_TRY(put_signed(out, (int64_t)p->start[k], err));
        PG_TRY(put_signed(out, whole >> k & 1 ? -1 : (int64_t)p->size[k], err));
    }
done:
    return st;
}

static pg_status add_entry(pg__tf_bundle *b, const pg__tf_pair *pair, pg_err *err)
{
    if (pg__mem_grow(&b->v, &b->cap, b->n_all + 1, sizeof *b->v))
        return pg__nomem(err);
    pg__tf_entry *e = &b->v[b->n_all++]; /* counted first: a failure releases it, too */
    pg_status st = read_entry(e, pair, err);
    if (st == PG_OK)
        st = check_size(e, err);
    return st;
}

/* The entry of one piece of b->v[of], which may move. */
static pg_status find_piece(pg__tf_bundle *b, size_t of, size_t i, pg__str *key, pg_err *err)
{
    pg_status st = PG_OK;
    pg__tile *p = &b->v[of].tiled.v[i];
    const unsigned whole = (unsigned)p->source;
    PG_TRY(piece_key(key, &b->v[of], p, whole, err));
    const pg__tf_pair *pair = pg__tf_table_find(&b->table, key->s, key->n);
    if (!pair)
        return damaged(&b->v[of], "the index lacks one of its pieces", err);
    PG_TRY(add_entry(b, pair, err));
    pg__tf_entry *x = &b->v[b->n_all - 1], *e = &b->v[of];
    x->key = e->key; /* for messages */
    p = &e->tiled.v[i];
    p->source = b->n_all - 1;
    int same = x->type == e->type && x->rank == e->rank && x->tiled.n == 0;
    for (uint32_t k = 0; k < e->rank && same; k++) {
        if (whole >> k & 1)
            p->size[k] = e->dims[k];
        same = x->dims[k] == p->size[k];
    }
    if (!same)
        return damaged(e, "a piece of it has another type or shape", err);
done:
    return st;
}

static pg_status find_pieces(pg__tf_bundle *b, size_t of, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str key = {0};
    const size_t n = b->v[of].tiled.n;
    if (!b->v[of].known)
        return damaged(&b->v[of], "a partitioned variable of a type without a size", err);
    for (size_t i = 0; i < n; i++)
        PG_TRY(find_piece(b, of, i, &key, err));
done:
    pg__str_fini(&key);
    return st;
}

/* TensorFlow 1 gives the slot of one part the shape of the whole, and stores the one piece. */
static int is_partial(const pg__tiled *t)
{
    int less = 0;
    for (uint32_t k = 0; k < t->rank; k++) {
        if (t->v->start[k] > t->dims[k] || t->v->size[k] > t->dims[k] - t->v->start[k])
            return 0;
        less |= t->v->size[k] < t->dims[k];
    }
    return t->n == 1 && less;
}

/* A variable that stands in one place is its own only piece. */
static pg_status settle(pg__tf_bundle *b, size_t i, pg_err *err)
{
    pg__tf_entry *e = &b->v[i];
    pg__tiled *t = &e->tiled;
    t->name = e->key;
    t->elem = e->known ? pg_dtype_bytes(e->dtype) : 1;
    t->rank = e->rank;
    memcpy(t->dims, e->dims, sizeof t->dims);
    if (t->n == 0) {
        t->v = pg__mem_array(1, sizeof *t->v);
        if (!t->v)
            return pg__nomem(err);
        t->n = 1;
        t->v->source = i;
        memcpy(t->v->size, e->dims, sizeof e->dims);
        return PG_OK;
    }
    e->partial = is_partial(t);
    if (!e->partial)
        return pg__tiles_check(t, err);
    memcpy(e->whole, e->dims, sizeof e->dims);
    memcpy(e->dims, t->v->size, sizeof e->dims);
    memcpy(t->dims, t->v->size, sizeof t->dims);
    memset(t->v->start, 0, sizeof t->v->start);
    return PG_OK;
}

/* ---- files ---- */

/* PREFIX.data-00000-of-00001 for PREFIX.index, the base name of `path`. */
static pg_status shard_name(pg__str *out, const char *path, uint32_t i, uint32_t n, pg_err *err)
{
    const char *base = pg__base_name(path);
    const size_t len = strlen(base);
    pg_status st = PG_OK;
    out->n = 0;
    PG_TRY(pg__str_add(out, base, pg__ends_with(base, ".index") ? len - 6 : len, err));
    PG_TRY(pg__str_printf(out, err, ".data-%05u-of-%05u", i, n));
done:
    return st;
}

static pg_status open_shards(pg__tf_bundle *b, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    pg__strs missing = {0};
    pg__beside folder = {.folder = -1};
    int gone = 0;
    b->shards = pg__mem_array(b->n_shards, sizeof(pg__io *));
    if (!b->shards)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__beside_start(&folder, path, err));
    for (uint32_t i = 0; i < b->n_shards; i++) {
        PG_TRY(shard_name(&name, path, i, b->n_shards, err));
        st = pg__beside_open(&b->shards[i], &folder, name.s, &gone, err);
        if (gone)
            st = pg__strs_add(&missing, name.s, name.n, err);
        if (st != PG_OK)
            goto done;
    }
    if (missing.n == 1) {
        st = pg_fail(err, PG_E_FORMAT, "%s is missing, %s", PG_SHOW(missing.v[0]),
                     b->n_shards == 1 ? "its data file" : "one of its data files");
    } else if (missing.n) {
        st = pg_fail(err, PG_E_FORMAT, "%zu of its %u data files are missing", missing.n,
                     b->n_shards);
        for (size_t i = 0; i < missing.n; i++)
            pg_err_detail(err, "missing: %s", PG_SHOW(missing.v[i]));
    }
done:
    pg__beside_fini(&folder);
    pg__strs_fini(&missing);
    pg__str_fini(&name);
    return st;
}

/* {1 num_shards, 2 endianness, 3 VersionDef {1 producer, 2 min_consumer}} */
static pg_status read_header(pg__tf_bundle *b, pg_err *err)
{
    const pg__tf_pair *head = pg__tf_table_find(&b->table, "", 0);
    pg__field f;
    uint64_t n = 0, order = 0;
    if (!head)
        return pg_fail(err, PG_E_UNKNOWN, "a table of LevelDB, but not of a TensorFlow checkpoint");
    pg__proto m = {(const unsigned char *)head->value, head->n_value, 0};
    while (pg__proto_next(&m, &f)) {
        n = f.number == 1 ? f.value : n;
        order = f.number == 2 ? f.value : order;
    }
    if (m.bad || n == 0)
        return pg_fail(err, PG_E_FORMAT, "damaged index: its header makes no sense");
    if (order)
        return pg_fail(err, PG_E_UNSUPPORTED, "written on a big-endian machine");
    if (n > PG_LIMIT_TF_SHARDS)
        return pg_fail(err, PG_E_LIMIT, "%s data files, more than %u", PG_NUM(n),
                       PG_LIMIT_TF_SHARDS);
    b->n_shards = (uint32_t)n;
    return PG_OK;
}

/* Does the shard hold what the index promises? */
static pg_status check_place(const pg__tf_bundle *b, const pg__tf_entry *e, pg_err *err)
{
    if (e->shard >= b->n_shards)
        return pg_fail(err, PG_E_FORMAT, "%s: in data file %u of %u", PG_SHOW(e->key), e->shard,
                       b->n_shards);
    const uint64_t n = pg__io_size(b->shards[e->shard]);
    if (e->off > n || e->size > n - e->off)
        return pg_fail(err, PG_E_FORMAT, "%s: data file %s is truncated: %s bytes, %s are needed",
                       PG_SHOW(e->key), PG_SHOW(pg__base_name(pg__io_name(b->shards[e->shard]))),
                       PG_NUM(n), PG_NUM(e->off + e->size));
    return PG_OK;
}

pg_status pg__tf_bundle_check(const pg__tf_bundle *b, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; st == PG_OK && i < b->n_all; i++)
        if (i >= b->n || b->v[i].tiled.n == 0 || b->v[i].tiled.v[0].source == i)
            st = check_place(b, &b->v[i], err);
    return st;
}

pg_status pg__tf_bundle_open(pg__tf_bundle *out, pg__io *io, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg__tf_bundle b = {0};
    PG_TRY(pg__tf_bundle_read(&b, io, err));
    PG_TRY(open_shards(&b, path, err));
    PG_TRY(pg__tf_bundle_check(&b, err));
    *out = b;
    b = (pg__tf_bundle){0};
done:
    pg__tf_bundle_fini(&b);
    return st;
}

pg_status pg__tf_bundle_read(pg__tf_bundle *out, pg__io *io, pg_err *err)
{
    pg_status st = PG_OK;
    pg__tf_bundle b = {0};
    PG_TRY(pg__tf_table_read(&b.table, io, err));
    PG_TRY(read_header(&b, err));
    for (size_t i = 0; i < b.table.n; i++) {
        const pg__tf_pair *p = &b.table.v[i];
        if (p->n_key == 0 || p->key[0] == 0) /* the header; pieces */
            continue;
        if (strlen(p->key) != p->n_key)
            PG_FAIL(PG_E_FORMAT, "%s: a zero byte in its name", PG_SHOW(p->key));
        PG_TRY(add_entry(&b, p, err));
    }
    b.n = b.n_all;
    for (size_t i = 0; i < b.n; i++)
        if (b.v[i].tiled.n)
            PG_TRY(find_pieces(&b, i, err));
    for (size_t i = 0; i < b.n; i++)
        PG_TRY(settle(&b, i, err));
    *out = b;
    b = (pg__tf_bundle){0};
done:
    pg__tf_bundle_fini(&b);
    return st;
}

void pg__tf_bundle_fini(pg__tf_bundle *b)
{
    for (size_t i = 0; i < b->n_all; i++)
        pg__mem_free(b->v[i].tiled.v);
    for (uint32_t i = 0; b->shards && i < b->n_shards; i++)
        pg__io_close(b->shards[i]);
    pg__mem_free(b->shards);
    pg__mem_free(b->v);
    pg__tf_table_fini(&b->table);
    *b = (pg__tf_bundle){0};
}

pg__tf_entry *pg__tf_find(const pg__tf_bundle *b, const char *key, size_t n)
{
    size_t lo = 0, hi = b->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const int c = strncmp(b->v[mid].key, key, n);
        if (c == 0 && !b->v[mid].key[n])
            return &b->v[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* ---- bytes ---- */

static pg_status wrong_sum(const pg__tf_bundle *b, const pg__tf_entry *e, pg_err *err)
{
    return pg_fail(err, PG_E_FORMAT, "%s: checksum is wrong: %s is damaged", PG_SHOW(e->key),
                   PG_SHOW(pg__base_name(pg__io_name(b->shards[e->shard]))));
}

/* Reads all of it once. */
static pg_status check_all(const pg__tf_bundle *b, pg__tf_entry *e, pg_err *err)
{
    pg_status st = PG_OK;
    uint32_t sum = 0;
    unsigned char *buf = pg__mem_bare(PG_COPY_BYTES);
    if (!buf)
        return pg__nomem(err);
    for (uint64_t at = 0; at < e->size;) {
        const size_t n = e->size - at < PG_COPY_BYTES ? (size_t)(e->size - at) : PG_COPY_BYTES;
        PG_TRY(pg__io_read(b->shards[e->shard], e->off + at, buf, n, err));
        sum = pg__crc32c(sum, buf, n);
        at += n;
    }
    e->checked = pg__crc32c_masked(sum) == e->crc;
    if (!e->checked)
        st = wrong_sum(b, e, err);
done:
    pg__mem_free(buf);
    return st;
}

pg_status pg__tf_check(pg__tf_bundle *b, size_t entry, pg_err *err)
{
    pg__tf_entry *e = &b->v[entry];
    return e->checked ? PG_OK : check_all(b, e, err);
}

pg_status pg__tf_read(pg__tf_bundle *b, size_t entry, uint64_t off, void *buf, size_t n,
                      pg_err *err)
{
    pg__tf_entry *e = &b->v[entry];
    if (n == 0)
        return PG_OK;
    if (off == 0)
        e->next = e->sum = 0;
    const int in_order = off == e->next;
    pg_status st = in_order ? PG_OK : pg__tf_check(b, entry, err);
    if (st == PG_OK)
        st = pg__io_read(b->shards[e->shard], e->off + off, buf, n, err);
    if (st != PG_OK || !in_order)
        return st;
    e->sum = pg__crc32c(e->sum, buf, n);
    e->next += n;
    if (e->next < e->size)
        return PG_OK;
    e->checked = pg__crc32c_masked(e->sum) == e->crc;
    return e->checked ? PG_OK : wrong_sum(b, e, err);
}

pg_status pg__tf_fetch(void *ctx, const pg__tile *piece, uint64_t off, void *buf, size_t n,
                       pg_err *err)
{
    return pg__tf_read(ctx, piece->source, off, buf, n, err);
}

/* The lengths as varints, their masked CRC, the bytes; the entry's CRC is of the lengths as numbers
 * of 4 bytes (8 beyond 2^32), that CRC, and the bytes. */
pg_status pg__tf_string(char **out, size_t *n, pg__tf_bundle *b, const pg__tf_entry *e, pg_err *err)
{
    pg_status st = PG_OK;
    char *text = NULL;
    unsigned char head[14], four[4];
    uint64_t len = 0;
    if (e->type != PG_TF_STRING || e->rank != 0 || e->size < 5)
        return damaged(e, "not one string", err);
    if (e->size > PG_LIMIT_TF_INDEX_BYTES)
        return pg_fail(err, PG_E_LIMIT, "%s: a string of %s bytes", PG_SHOW(e->key),
                       PG_NUM(e->size));
    const size_t have = e->size < sizeof head ? (size_t)e->size : sizeof head;
    PG_TRY(pg__io_read(b->shards[e->shard], e->off, head, have, err));
    const unsigned char *p = head;
    if (!pg__varint(&p, head + have, &len) || (size_t)(head + have - p) < 4 ||
        len != e->size - 4 - (uint64_t)(p - head))
        return damaged(e, "its length is wrong", err);
    pg__put_le(four, len, 4);
    uint32_t sum = pg__crc32c(0, four, 4);
    if (pg__le32(p) != pg__crc32c_masked(sum))
        return damaged(e, "the checksum of its length is wrong", err);
    sum = pg__crc32c(sum, p, 4);
    text = pg__mem_array((size_t)len + 1, 1);
    if (!text)
        return pg__nomem(err);
    PG_TRY(pg__io_read(b->shards[e->shard], e->off + e->size - len, text, (size_t)len, err));
    if (pg__crc32c_masked(pg__crc32c(sum, text, (size_t)len)) != e->crc)
        PG_FAIL(PG_E_FORMAT, "%s: checksum is wrong", PG_SHOW(e->key));
    *out = text;
    *n = (size_t)len;
    text = NULL;
done:
    pg__mem_free(text);
    return st;
}
