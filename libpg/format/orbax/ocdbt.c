/* ocdbt.c - TensorStore's "optionally-cooperative distributed B+tree", read only, its newest
 * version (google.github.io/tensorstore, kvstore/ocdbt, "Storage format"). Every process writes
 * a database of its own; the one at the top refers to nodes and values in their files. */
#include <string.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/proto.h"
#include "base/try.h"
#include "format/orbax/orbax.h"
#include "io/zstd.h"

#define MANIFEST       "manifest.ocdbt"
#define MAGIC_MANIFEST 0x0cdb3a2au
#define MAGIC_NODE     0x0cdb20deu
#define HEADER_BYTES   14u /* magic, length, version, compression */
#define MAX_HEIGHT     16u
#define MAX_PATH       65535u
#define NODE_COSTS     4096u /* at least: TensorStore's have up to 8 MiB, so real ones are few */

typedef struct reader {
    pg__kv *kv;
    pg_err *err;
    pg__str key;
    pg__io *io;    /* the file that was read last: many nodes lie in few files */
    uint64_t left; /* bytes that may still be read, decoded, or become names */
} reader;

/* What is left of a decoded body. */
typedef struct body {
    unsigned char *bytes; /* owned */
    const unsigned char *p, *end;
} body;

static pg_status damaged(pg_err *err, const char *what)
{
    return pg_fail(err, PG_E_FORMAT, "damaged OCDBT database: %s", what);
}

/* Nodes may refer to each other and names are shortened, so a small database can say a lot. */
static pg_status spend(reader *r, uint64_t n)
{
    if (n > r->left)
        return pg_fail(r->err, PG_E_LIMIT,
                       "an OCDBT database whose nodes and names take more than %s bytes",
                       PG_NUM(PG_LIMIT_NAMES_BYTES));
    r->left -= n;
    return PG_OK;
}

static int number(body *b, uint64_t *out)
{
    return pg__varint(&b->p, b->end, out);
}

static int byte(body *b, uint64_t *out)
{
    if (b->p == b->end)
        return 0;
    *out = *b->p++;
    return 1;
}

static int skip(body *b, uint64_t n)
{
    if (n > (uint64_t)(b->end - b->p))
        return 0;
    b->p += n;
    return 1;
}

/* n numbers, each of which takes at least a byte. */
static pg_status numbers(uint64_t **out, body *b, uint64_t n, pg_err *err)
{
    if (n > (uint64_t)(b->end - b->p))
        return damaged(err, "a list is longer than its node");
    *out = pg__mem_array((size_t)n, sizeof **out);
    if (!*out)
        return pg__nomem(err);
    for (uint64_t i = 0; i < n; i++)
        if (!number(b, &(*out)[i]))
            return damaged(err, "a list ends too early");
    return PG_OK;
}

/* ---- frames ---- */

/* Header, body, CRC-32C: the body is decoded. */
static pg_status open_frame(body *b, reader *r, const unsigned char *p, size_t n, uint32_t magic)
{
    pg_status st = PG_OK;
    pg_err *err = r->err;
    uint64_t version = 0, compression = 0;
    size_t size = 0;
    *b = (body){0};
    if (n < HEADER_BYTES + 4 ||
        ((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]) != magic ||
        pg__le64(p + 4) != n)
        return damaged(err, "a node or the manifest does not begin as one");
    if (pg__crc32c(0, p, n - 4) != pg__le32(p + n - 4))
        return damaged(err, "a checksum is wrong");
    const unsigned char *at = p + 12, *end = p + n - 4;
    if (!pg__varint(&at, end, &version) || !pg__varint(&at, end, &compression) || version != 0 ||
        compression > 1)
        return pg_fail(err, PG_E_UNSUPPORTED, "an OCDBT database of a later version");
    size = (size_t)(end - at);
    if (compression) {
        PG_TRY(pg__zstd_load(&b->bytes, &size, at, size, (size_t)r->left, err));
    } else {
        b->bytes = pg__mem_array(size, 1);
        if (!b->bytes)
            return pg__nomem(err);
        memcpy(b->bytes, at, size);
    }
    b->p = b->bytes;
    b->end = b->bytes + size;
    st = spend(r, size < NODE_COSTS ? NODE_COSTS : size);
done:
    return st;
}

/* ---- the table of data files ---- */

/* A file, and how much of its path is also that of the files below it. */
typedef struct files {
    pg__strs paths;
    uint64_t *base; /* bytes of the base, that of the parent included */
    size_t *number; /* among the files that hold values; PG_NONE: not yet */
} files;

static void files_fini(files *f)
{
    pg__strs_fini(&f->paths);
    pg__mem_free(f->base);
    pg__mem_free(f->number);
}

static pg_status read_files(files *f, reader *r, body *b, const char *parent)
{
    pg_status st = PG_OK;
    pg_err *err = r->err;
    uint64_t n = 0, *prefix = NULL, *suffix = NULL, *base = NULL;
    pg__str path = {0}, full = {0};
    const size_t n_parent = strlen(parent);
    if (!number(b, &n) || n > PG_LIMIT_OBJECTS)
        return damaged(err, "its list of files makes no sense");
    PG_TRY(numbers(&prefix, b, n ? n - 1 : 0, err));
    PG_TRY(numbers(&suffix, b, n, err));
    PG_TRY(numbers(&base, b, n, err));
    f->number = pg__mem_array((size_t)n, sizeof *f->number);
    if (!f->number)
        PG_TRY(pg__nomem(err));
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t keep = i ? prefix[i - 1] : 0;
        const unsigned char *at = b->p;
        f->number[i] = PG_NONE;
        if (keep > path.n || suffix[i] > MAX_PATH - keep || !skip(b, suffix[i]) ||
            memchr(at, 0, (size_t)suffix[i]) || base[i] > keep + suffix[i]) {
            st = damaged(err, "the path of a file makes no sense");
            goto done;
        }
        path.n = (size_t)keep;
        PG_TRY(pg__str_add(&path, (const char *)at, (size_t)suffix[i], err));
        full.n = 0;
        PG_TRY(pg__str_printf(&full, err, "%s%s", parent, path.n ? path.s : ""));
        PG_TRY(spend(r, full.n));
        PG_TRY(pg__strs_add(&f->paths, full.s, full.n, err));
        base[i] += n_parent;
    }
    f->base = base;
    base = NULL;
done:
    pg__mem_free(prefix);
    pg__mem_free(suffix);
    pg__mem_free(base);
    pg__str_fini(&path);
    pg__str_fini(&full);
    return st;
}

/* ---- nodes ---- */

/* Where a node or a value is. */
typedef struct place {
    const char *path;
    uint64_t off, n;
} place;

static pg_status open_file(reader *r, const char *path)
{
    if (r->io && strcmp(pg__io_name(r->io), path) == 0)
        return PG_OK;
    pg__io_close(r->io);
    r->io = NULL;
    return pg__io_open_below(&r->io, r->kv->folder, path, r->err);
}

static pg_status load(unsigned char **out, reader *r, place at)
{
    pg_status st = PG_OK;
    pg_err *err = r->err;
    PG_TRY(open_file(r, at.path));
    const uint64_t n = pg__io_size(r->io);
    if (at.off > n || at.n > n - at.off)
        PG_FAIL(PG_E_FORMAT, "%s: truncated: %s bytes, %s are needed", PG_SHOW(at.path), PG_NUM(n),
                PG_NUM(at.off + at.n));
    PG_TRY(spend(r, at.n));
    *out = pg__mem_array((size_t)at.n, 1);
    if (!*out)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__io_read(r->io, at.off, *out, (size_t)at.n, err));
done:
    return st;
}

/* The columns that leaf and inner nodes have in common. */
typedef struct columns {
    uint64_t n, *prefix, *suffix, *shared; /* shared: inner nodes alone */
    const unsigned char *keys;
} columns;

static void columns_fini(columns *c)
{
    pg__mem_free(c->prefix);
    pg__mem_free(c->suffix);
    pg__mem_free(c->shared);
}

static pg_status read_columns(columns *c, body *b, int inner, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t all = 0;
    if (!number(b, &c->n) || c->n == 0 || c->n > PG_LIMIT_OBJECTS)
        return damaged(err, "a node without entries");
    PG_TRY(numbers(&c->prefix, b, c->n - 1, err));
    PG_TRY(numbers(&c->suffix, b, c->n, err));
    if (inner)
        PG_TRY(numbers(&c->shared, b, c->n, err));
    c->keys = b->p;
    for (uint64_t i = 0; i < c->n; i++)
        if (c->suffix[i] > MAX_PATH || __builtin_add_overflow(all, c->suffix[i], &all))
            return damaged(err, "a key is too long");
    if (!skip(b, all))
        return damaged(err, "its keys end too early");
done:
    return st;
}

/* The key of entry i, behind the n_parent bytes that are the node's own. */
static pg_status next_key(reader *r, columns *c, uint64_t i, size_t n_parent)
{
    const uint64_t keep = i ? c->prefix[i - 1] : 0;
    if (keep > r->key.n - n_parent || n_parent + keep + c->suffix[i] > MAX_PATH ||
        memchr(c->keys, 0, (size_t)c->suffix[i]))
        return damaged(r->err, "a key makes no sense");
    r->key.n = n_parent + (size_t)keep;
    const pg_status st = pg__str_add(&r->key, (const char *)c->keys, (size_t)c->suffix[i], r->err);
    c->keys += c->suffix[i];
    return st;
}

/* Keys rise, so no node can be read into the same place twice. */
static pg_status add_value(reader *r, const pg__kv_entry *e)
{
    pg__kv *kv = r->kv;
    const char *key = r->key.n ? r->key.s : "";
    if (kv->n && strcmp(kv->v[kv->n - 1].key, key) >= 0)
        return pg_fail(r->err, PG_E_FORMAT, "damaged OCDBT database: %s is out of order",
                       PG_SHOW(key));
    if (kv->n == PG_LIMIT_OBJECTS)
        return pg_fail(r->err, PG_E_LIMIT, "a database of more than %s keys",
                       PG_NUM(PG_LIMIT_OBJECTS));
    const pg_status st = spend(r, r->key.n);
    if (st != PG_OK)
        return st;
    if (pg__mem_grow(&kv->v, &kv->cap, kv->n + 1, sizeof *kv->v))
        return pg__nomem(r->err);
    kv->v[kv->n] = *e;
    kv->v[kv->n].key = pg__mem_strdup(key);
    kv->v[kv->n].direct = NULL;
    if (!kv->v[kv->n].key)
        return pg__nomem(r->err);
    kv->n++;
    return PG_OK;
}

static pg_status file_number(size_t *out, reader *r, const files *f, size_t i)
{
    pg_status st = PG_OK;
    if (f->number[i] == PG_NONE) {
        f->number[i] = r->kv->files.n;
        st = pg__strs_add(&r->kv->files, f->paths.v[i], strlen(f->paths.v[i]), r->err);
    }
    *out = f->number[i];
    return st;
}

static pg_status read_leaf(reader *r, body *b, const files *f, size_t n_parent)
{
    pg_status st = PG_OK;
    pg_err *err = r->err;
    columns c = {0};
    uint64_t *size = NULL, *kind = NULL, *file = NULL, *off = NULL, n_far = 0;
    const size_t first = r->kv->n;
    PG_TRY(read_columns(&c, b, 0, err));
    PG_TRY(numbers(&size, b, c.n, err));
    PG_TRY(numbers(&kind, b, c.n, err));
    for (uint64_t i = 0; i < c.n; i++)
        n_far += kind[i] != 0;
    PG_TRY(numbers(&file, b, n_far, err));
    PG_TRY(numbers(&off, b, n_far, err));
    for (uint64_t i = 0, k = 0; i < c.n; i++) {
        pg__kv_entry e = {.file = PG_NONE, .n = size[i]};
        PG_TRY(next_key(r, &c, i, n_parent));
        if (kind[i] && (file[k] >= f->paths.n || size[i] > INT64_MAX)) {
            st = damaged(err, "a value in a file that is not listed");
            goto done;
        }
        if (kind[i]) {
            PG_TRY(file_number(&e.file, r, f, (size_t)file[k]));
            e.off = off[k++];
        }
        PG_TRY(add_value(r, &e));
    }
    for (uint64_t i = 0; i < c.n; i++) {
        const unsigned char *at = b->p;
        if (kind[i])
            continue;
        if (!skip(b, size[i])) {
            st = damaged(err, "its values end too early");
            goto done;
        }
        char *copy = pg__mem_array((size_t)size[i] + 1, 1);
        if (!copy)
            PG_TRY(pg__nomem(err));
        memcpy(copy, at, (size_t)size[i]);
        r->kv->v[first + i].direct = copy;
    }
done:
    columns_fini(&c);
    pg__mem_free(size);
    pg__mem_free(kind);
    pg__mem_free(file);
    pg__mem_free(off);
    return st;
}

static pg_status read_node(reader *r, place at, const char *parent, uint64_t height,
                           size_t n_parent);

static pg_status read_inner(reader *r, body *b, const files *f, uint64_t height, size_t n_parent)
{
    pg_status st = PG_OK;
    pg_err *err = r->err;
    columns c = {0};
    uint64_t *file = NULL, *off = NULL, *size = NULL;
    char *base = NULL;
    PG_TRY(read_columns(&c, b, 1, err));
    PG_TRY(numbers(&file, b, c.n, err));
    PG_TRY(numbers(&off, b, c.n, err));
    PG_TRY(numbers(&size, b, c.n, err));
    for (uint64_t i = 0; i < c.n; i++) {
        PG_TRY(next_key(r, &c, i, n_parent));
        const size_t n_key = r->key.n;
        if (file[i] >= f->paths.n || c.shared[i] > n_key - n_parent) {
            st = damaged(err, "a node in a file that is not listed");
            goto done;
        }
        const char *path = f->paths.v[file[i]];
        base = pg__mem_strndup(path, (size_t)f->base[file[i]]);
        pg__str kept = {0};
        if (!base)
            PG_TRY(pg__nomem(err));
        PG_TRY(pg__str_add(&kept, r->key.s ? r->key.s : "", n_key, err));
        st = read_node(r, (place){path, off[i], size[i]}, base, height - 1,
                       n_parent + (size_t)c.shared[i]);
        r->key.n = 0;
        if (st == PG_OK)
            st = pg__str_add(&r->key, kept.s ? kept.s : "", kept.n, err);
        pg__str_fini(&kept);
        pg__mem_free(base);
        base = NULL;
        PG_TRY(st);
    }
done:
    columns_fini(&c);
    pg__mem_free(file);
    pg__mem_free(off);
    pg__mem_free(size);
    pg__mem_free(base);
    return st;
}

/* parent: what precedes the paths of the files that the node lists. The first n_parent bytes of
 * r->key precede its keys. */
static pg_status read_node(reader *r, place at, const char *parent, uint64_t height,
                           size_t n_parent)
{
    pg_status st = PG_OK;
    unsigned char *bytes = NULL;
    body b = {0};
    files f = {0};
    uint64_t own = 0;
    PG_TRY(load(&bytes, r, at));
    PG_TRY(open_frame(&b, r, bytes, (size_t)at.n, MAGIC_NODE));
    if (!byte(&b, &own) || own != height) {
        st = damaged(r->err, "a node at another height than its parent says");
        goto done;
    }
    PG_TRY(read_files(&f, r, &b, parent));
    st = height ? read_inner(r, &b, &f, height, n_parent) : read_leaf(r, &b, &f, n_parent);
done:
    pg__mem_free(bytes);
    pg__mem_free(b.bytes);
    files_fini(&f);
    return st;
}

/* ---- the manifest ---- */

/* Identifier, kind, sizes, compression. */
static pg_status read_config(body *b, pg_err *err)
{
    uint64_t kind = 0, x = 0, compression = 0;
    if (!skip(b, 16) || !number(b, &kind) || !number(b, &x) || !number(b, &x) || !byte(b, &x) ||
        !number(b, &compression) || !skip(b, compression ? 4 : 0))
        return damaged(err, "its manifest makes no sense");
    if (kind || compression > 1)
        return pg_fail(err, PG_E_UNSUPPORTED, "an OCDBT database with numbered manifests");
    return PG_OK;
}

/* The newest version is the last of the list in the manifest. */
static pg_status read_versions(reader *r, body *b, const files *f)
{
    pg_status st = PG_OK;
    uint64_t n = 0, *generation = NULL, *file = NULL, *off = NULL, *size = NULL;
    const unsigned char *heights = NULL;
    if (!number(b, &n) || n == 0 || n > PG_LIMIT_OBJECTS)
        return damaged(r->err, n ? "it has too many versions" : "it has no version");
    PG_TRY(numbers(&generation, b, n, r->err));
    heights = b->p;
    if (!skip(b, n)) {
        st = damaged(r->err, "its versions end too early");
        goto done;
    }
    PG_TRY(numbers(&file, b, n, r->err));
    PG_TRY(numbers(&off, b, n, r->err));
    PG_TRY(numbers(&size, b, n, r->err));
    if (file[n - 1] >= f->paths.n || heights[n - 1] > MAX_HEIGHT) {
        st = damaged(r->err, "its newest version makes no sense");
        goto done;
    }
    const char *path = f->paths.v[file[n - 1]];
    char *base = pg__mem_strndup(path, (size_t)f->base[file[n - 1]]);
    if (!base)
        PG_TRY(pg__nomem(r->err));
    st = read_node(r, (place){path, off[n - 1], size[n - 1]}, base, heights[n - 1], 0);
    pg__mem_free(base);
done:
    pg__mem_free(generation);
    pg__mem_free(file);
    pg__mem_free(off);
    pg__mem_free(size);
    return st;
}

pg_status pg__ocdbt_read(pg__kv *out, int folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__kv kv = {.folder = folder, .is_database = 1};
    reader r = {.kv = &kv, .err = err, .left = PG_LIMIT_NAMES_BYTES};
    unsigned char *bytes = NULL;
    body b = {0};
    files f = {0};
    PG_TRY(open_file(&r, MANIFEST));
    const uint64_t n = pg__io_size(r.io);
    PG_TRY(load(&bytes, &r, (place){MANIFEST, 0, n}));
    PG_TRY(open_frame(&b, &r, bytes, (size_t)n, MAGIC_MANIFEST));
    PG_TRY(read_config(&b, err));
    PG_TRY(read_files(&f, &r, &b, ""));
    PG_TRY(read_versions(&r, &b, &f));
    *out = kv;
    kv = (pg__kv){0};
done:
    pg__io_close(r.io);
    pg__mem_free(bytes);
    pg__mem_free(b.bytes);
    files_fini(&f);
    pg__str_fini(&r.key);
    pg__kv_fini(&kv);
    return st;
}
