/* tf_table.c - the index of a checkpoint: a sorted table in LevelDB's format
 * (github.com/google/leveldb, doc/table_format.md), as TensorFlow keeps it (core/lib/io/table).
 *
 * A footer leads to a block that lists the data blocks. A block is entries, each with the part of
 * its key that differs from the one before; the offsets of some, for searching, which are only
 * skipped here; then a byte for the compression and a masked CRC-32C. */
#include <string.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/proto.h"
#include "base/try.h"
#include "format/tf/tf.h"

#define FOOTER_BYTES  48u
#define TRAILER_BYTES 5u /* compression, CRC */

typedef struct block {
    const unsigned char *p, *end; /* entries */
} block;

int pg__tf_is_table(const unsigned char tail[8])
{
    return memcmp(tail, "\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8) == 0;
}

static pg_status damaged(pg_err *err, const char *what)
{
    return pg_fail(err, PG_E_FORMAT, "damaged index: %s", what);
}

/* Offset and size. */
static int handle(const unsigned char **p, const unsigned char *end, uint64_t *off, uint64_t *size)
{
    return pg__varint(p, end, off) && pg__varint(p, end, size);
}

static pg_status open_block(block *b, const unsigned char *file, uint64_t n, uint64_t off,
                            uint64_t size, pg_err *err)
{
    if (n < TRAILER_BYTES || off > n - TRAILER_BYTES || size > n - TRAILER_BYTES - off || size < 4)
        return damaged(err, "a block lies outside of the file");
    const unsigned char *p = file + off;
    const uint32_t crc = pg__crc32c_masked(pg__crc32c(0, p, (size_t)size + 1));
    if (crc != pg__le32(p + size + 1))
        return damaged(err, "the checksum of a block is wrong");
    if (p[size] == 1)
        return pg_fail(err, PG_E_UNSUPPORTED, "its index is compressed (snappy)");
    if (p[size] != 0)
        return damaged(err, "a block of unknown compression");
    const uint64_t n_restarts = pg__le32(p + size - 4);
    if (n_restarts > (size - 4) / 4)
        return damaged(err, "a block has more restarts than bytes");
    *b = (block){p, p + size - 4 - 4 * n_restarts};
    return PG_OK;
}

/* The next entry of a block. key holds the one before and then this one. */
static pg_status next_entry(block *b, pg__str *key, const unsigned char **value, uint64_t *n_value,
                            pg_err *err)
{
    uint64_t shared = 0, own = 0;
    if (!pg__varint(&b->p, b->end, &shared) || !pg__varint(&b->p, b->end, &own) ||
        !pg__varint(&b->p, b->end, n_value) || shared > key->n || own > (uint64_t)(b->end - b->p) ||
        *n_value > (uint64_t)(b->end - b->p) - own)
        return damaged(err, "an entry lies outside of its block");
    key->n = (size_t)shared;
    const pg_status st = pg__str_add(key, (const char *)b->p, (size_t)own, err);
    *value = b->p + own;
    b->p += own + *n_value;
    return st;
}

/* Keys are collected in one string, which moves while it grows: settle_keys() finds them again, by
 * their lengths. */
static pg_status add_block(pg__tf_table *t, pg__str *keys, block b, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str key = {0};
    const unsigned char *value = NULL;
    uint64_t n = 0;
    while (b.p < b.end) {
        PG_TRY(next_entry(&b, &key, &value, &n, err));
        if (t->n == PG_LIMIT_OBJECTS)
            PG_FAIL(PG_E_LIMIT, "an index of more than %s entries", PG_NUM(PG_LIMIT_OBJECTS));
        if (keys->n + key.n > PG_LIMIT_TF_INDEX_BYTES)
            PG_FAIL(PG_E_LIMIT, "an index with more than %s bytes of names",
                    PG_NUM(PG_LIMIT_TF_INDEX_BYTES));
        if (pg__mem_grow(&t->v, &t->cap, t->n + 1, sizeof *t->v))
            PG_TRY(pg__nomem(err));
        t->v[t->n++] =
            (pg__tf_pair){.n_key = key.n, .value = (const char *)value, .n_value = (size_t)n};
        PG_TRY(pg__str_add(keys, key.n ? key.s : "", key.n, err));
        PG_TRY(pg__str_add(keys, "", 1, err));
    }
done:
    pg__str_fini(&key);
    return st;
}

static int compare(const char *a, size_t n_a, const char *b, size_t n_b)
{
    const int c = memcmp(a, b, n_a < n_b ? n_a : n_b);
    return c ? c : (n_a > n_b) - (n_a < n_b);
}

static pg_status settle_keys(pg__tf_table *t, pg__str *keys, pg_err *err)
{
    size_t at = 0;
    t->keys = keys->s;
    *keys = (pg__str){0};
    for (size_t i = 0; i < t->n; i++) {
        pg__tf_pair *p = &t->v[i];
        p->key = t->keys + at;
        at += p->n_key + 1;
        if (i && compare(p[-1].key, p[-1].n_key, p->key, p->n_key) >= 0)
            return damaged(err, "its names are not in order");
    }
    return PG_OK;
}

pg_status pg__tf_table_read(pg__tf_table *out, pg__io *io, pg_err *err)
{
    pg_status st = PG_OK;
    pg__tf_table t = {0};
    pg__str keys = {0}, last = {0};
    block list, data;
    uint64_t off = 0, size = 0, n_value = 0;
    const unsigned char *value = NULL;
    const uint64_t n = pg__io_size(io);
    if (n < FOOTER_BYTES)
        PG_FAIL(PG_E_FORMAT, "an index of %s bytes, too few for one", PG_NUM(n));
    if (n > PG_LIMIT_TF_INDEX_BYTES)
        PG_FAIL(PG_E_LIMIT, "an index of more than %s bytes", PG_NUM(PG_LIMIT_TF_INDEX_BYTES));
    t.blocks = pg__mem_array((size_t)n, 1);
    if (!t.blocks)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__io_read(io, 0, t.blocks, (size_t)n, err));
    const unsigned char *file = (const unsigned char *)t.blocks, *p = file + n - FOOTER_BYTES;
    if (!pg__tf_is_table(file + n - 8))
        PG_FAIL(PG_E_UNKNOWN, "not the index of a TensorFlow checkpoint");
    for (int i = 0; i < 2; i++) { /* the block of filters, which has none; the list of blocks */
        if (!handle(&p, file + n - 8, &off, &size)) {
            st = damaged(err, "its footer makes no sense");
            goto done;
        }
        PG_TRY(open_block(&list, file, n, off, size, err));
    }
    for (uint64_t least = 0; list.p < list.end; least = off + size) {
        PG_TRY(next_entry(&list, &last, &value, &n_value, err));
        const unsigned char *end = value + n_value;
        /* A block that is listed twice would be read twice, and so on. */
        if (!handle(&value, end, &off, &size) || off < least) {
            st = damaged(err, "its list of blocks makes no sense");
            goto done;
        }
        PG_TRY(open_block(&data, file, n, off, size, err));
        PG_TRY(add_block(&t, &keys, data, err));
    }
    PG_TRY(settle_keys(&t, &keys, err));
    *out = t;
    t = (pg__tf_table){0};
done:
    pg__str_fini(&keys);
    pg__str_fini(&last);
    pg__tf_table_fini(&t);
    return st;
}

void pg__tf_table_fini(pg__tf_table *t)
{
    pg__mem_free(t->keys);
    pg__mem_free(t->blocks);
    pg__mem_free(t->v);
    *t = (pg__tf_table){0};
}

const pg__tf_pair *pg__tf_table_find(const pg__tf_table *t, const char *key, size_t n)
{
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const int c = compare(t->v[mid].key, t->v[mid].n_key, key, n);
        if (c == 0)
            return &t->v[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}
