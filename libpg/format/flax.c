/* flax.c - see flax.h. */
#include "format/flax.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"

#define BUFFER   4096u
#define CHUNKED  "__msgpack_chunked_array__"
#define MAX_TEXT 40u /* of a text that is shown */

typedef enum kind {
    MP_NIL,
    MP_BOOL,
    MP_INT,
    MP_FLOAT,
    MP_STR,
    MP_BIN,
    MP_ARRAY,
    MP_MAP,
    MP_EXT
} kind;

/* A value's head; what follows it is n bytes, or n members. */
typedef struct head {
    kind kind;
    uint64_t n;
    int64_t i; /* of an int; 1 for true; type of an extension */
    int wide;  /* an unsigned number beyond int64_t */
    double f;
} head;

typedef struct reader {
    pg__io *io;
    uint64_t at, end;
    unsigned char buf[BUFFER];
    uint64_t buf_off;
    size_t buf_n;
    pg__flax *out;
    pg__str path;
    char *key;           /* of PG_LIMIT_NAME_BYTES */
    uint64_t name_bytes; /* of all arrays */
    const char *part;
    size_t n_values;
    pg_err *err;
} reader;

static pg_status damaged(reader *r, const char *what)
{
    return pg_fail(r->err, PG_E_FORMAT, "damaged msgpack at byte %s: %s", PG_NUM(r->at), what);
}

/* The next n (at most 16) bytes. */
static pg_status take(reader *r, size_t n, const unsigned char **out)
{
    if (n > r->end - r->at)
        return damaged(r, "it ends too early");
    if (r->at < r->buf_off || r->at + n > r->buf_off + r->buf_n) {
        const uint64_t left = pg__io_size(r->io) - r->at;
        r->buf_n = left < BUFFER ? (size_t)left : BUFFER;
        r->buf_off = r->at;
        const pg_status st = pg__io_read(r->io, r->at, r->buf, r->buf_n, r->err);
        if (st != PG_OK)
            return st;
    }
    *out = r->buf + (r->at - r->buf_off);
    r->at += n;
    return PG_OK;
}

static uint64_t big_endian(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

static pg_status number(reader *r, size_t n, uint64_t *out)
{
    const unsigned char *p = NULL;
    const pg_status st = take(r, n, &p);
    if (st == PG_OK)
        *out = big_endian(p, n);
    return st;
}

static double real(uint64_t bits, size_t n)
{
    double d = 0;
    float f = 0;
    const uint32_t low = (uint32_t)bits;
    if (n == 8)
        memcpy(&d, &bits, 8);
    else
        memcpy(&f, &low, 4);
    return n == 8 ? d : (double)f;
}

/* Lengths of 1, 2 or 4 bytes follow the first of a group of codes. */
static pg_status with_length(reader *r, head *h, kind k, unsigned c, unsigned first)
{
    h->kind = k;
    return number(r, (size_t)1 << (c - first), &h->n);
}

static pg_status read_type(reader *r, head *h)
{
    uint64_t type = 0;
    const pg_status st = number(r, 1, &type);
    h->kind = MP_EXT;
    h->i = (int8_t)type;
    return st;
}

static pg_status read_scalar(reader *r, head *h, unsigned c)
{
    uint64_t v = 0;
    pg_status st = PG_OK;
    const size_t n = c == 0xCA ? 4 : c == 0xCB ? 8 : (size_t)1 << (c & 3);
    switch (c) {
    case 0xC0: h->kind = MP_NIL; return PG_OK;
    case 0xC2:
    case 0xC3:
        h->kind = MP_BOOL;
        h->i = c & 1;
        return PG_OK;
    case 0xCA:
    case 0xCB:
        h->kind = MP_FLOAT;
        st = number(r, n, &v);
        h->f = real(v, n);
        return st;
    default: break;
    }
    if (c < 0xCC || c > 0xD3)
        return damaged(r, "no value begins with this byte");
    h->kind = MP_INT;
    st = number(r, n, &v);
    h->wide = c == 0xCF && v > INT64_MAX;
    h->i = c < 0xD0 || n == 8 ? (int64_t)v : (int64_t)(v << (64 - 8 * n)) >> (64 - 8 * n);
    return st;
}

static pg_status next(reader *r, head *h)
{
    uint64_t v = 0;
    pg_status st = number(r, 1, &v);
    const unsigned c = (unsigned)v;
    *h = (head){.kind = MP_INT};
    if (st != PG_OK)
        return st;
    if (c < 0x80 || c >= 0xE0)
        h->i = (int8_t)c;
    else if (c < 0xC0) {
        h->kind = c < 0x90 ? MP_MAP : c < 0xA0 ? MP_ARRAY : MP_STR;
        h->n = c & (c < 0xA0 ? 0x0F : 0x1F);
    } else if (c >= 0xC4 && c <= 0xC6) {
        st = with_length(r, h, MP_BIN, c, 0xC4);
    } else if (c >= 0xC7 && c <= 0xC9) {
        PG_TRY(with_length(r, h, MP_EXT, c, 0xC7));
        st = read_type(r, h);
    } else if (c >= 0xD4 && c <= 0xD8) {
        h->n = UINT64_C(1) << (c - 0xD4);
        st = read_type(r, h);
    } else if (c >= 0xD9 && c <= 0xDB) {
        st = with_length(r, h, MP_STR, c, 0xD9);
    } else if (c >= 0xDC) {
        st = number(r, c & 1 ? 4 : 2, &h->n);
        h->kind = c < 0xDE ? MP_ARRAY : MP_MAP;
    } else {
        st = read_scalar(r, h, c);
    }
done:
    return st;
}

static pg_status skip(reader *r, uint64_t n)
{
    if (n > r->end - r->at)
        return damaged(r, "it ends too early");
    r->at += n;
    return PG_OK;
}

/* A text of at most cap - 1 bytes, with a NUL after it. */
static pg_status text(reader *r, const head *h, char *out, size_t cap)
{
    if ((h->kind != MP_STR && h->kind != MP_BIN) || h->n >= cap)
        return damaged(r, "a short text was expected");
    if (h->n > r->end - r->at)
        return damaged(r, "it ends too early");
    const pg_status st = pg__io_read(r->io, r->at, out, (size_t)h->n, r->err);
    out[h->n] = 0;
    r->at += h->n;
    return st == PG_OK && strlen(out) != h->n ? damaged(r, "a zero byte in a text") : st;
}

/* ---- arrays ---- */

static const struct {
    const char *name;
    pg_dtype dtype;
    int is_complex;
} types[] = {
    {"float32", PG_F32, 0},
    {"bfloat16", PG_BF16, 0},
    {"float16", PG_F16, 0},
    {"float64", PG_F64, 0},
    {"int8", PG_I8, 0},
    {"int16", PG_I16, 0},
    {"int32", PG_I32, 0},
    {"int64", PG_I64, 0},
    {"uint8", PG_U8, 0},
    {"uint16", PG_U16, 0},
    {"uint32", PG_U32, 0},
    {"uint64", PG_U64, 0},
    {"bool", PG_BOOL, 0},
    {"float8_e4m3fn", PG_F8_E4M3, 0},
    {"float8_e5m2", PG_F8_E5M2, 0},
    {"complex64", PG_F32, 1},
    {"complex128", PG_F64, 1},
};

/* What an extension says: shape, type, and where its bytes are. */
typedef struct array {
    pg_dtype dtype;
    int is_complex;
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK], off, n;
    int unread; /* of a type that libpg does not know */
} array;

static pg_status read_type_name(reader *r, array *a)
{
    head h;
    char name[32];
    pg_status st = PG_OK;
    PG_TRY(next(r, &h));
    PG_TRY(text(r, &h, name, sizeof name));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i].name) == 0) {
            a->dtype = types[i].dtype;
            a->is_complex = types[i].is_complex;
            return PG_OK;
        }
    a->unread = 1;
    if (pg__flax_wants(r->path.n ? r->path.s : "array", r->part) == 1)
        st = pg_fail(r->err, PG_E_UNSUPPORTED, "%s: type %s is not supported", PG_SHOW(r->path.s),
                     PG_SHOW(name));
done:
    return st;
}

static pg_status add_dim(array *a, reader *r, uint64_t n)
{
    if (a->rank == PG_MAX_RANK)
        return pg_fail(r->err, PG_E_LIMIT, "%s: more than %d dimensions", PG_SHOW(r->path.s),
                       PG_MAX_RANK);
    a->dims[a->rank++] = n;
    return PG_OK;
}

static pg_status check_bytes(const array *a, reader *r)
{
    uint64_t n = pg_dtype_bytes(a->dtype);
    for (uint32_t k = 0; k < a->rank; k++)
        if (__builtin_mul_overflow(n, a->dims[k], &n) || n > INT64_MAX)
            return pg_fail(r->err, PG_E_LIMIT, "%s: shape is too large", PG_SHOW(r->path.s));
    if (n != a->n)
        return pg_fail(r->err, PG_E_FORMAT, "%s: type and shape need %s bytes, it has %s",
                       PG_SHOW(r->path.s), PG_NUM(n), PG_NUM(a->n));
    return PG_OK;
}

/* (shape, name of the type, bytes), itself msgpack, within the extension's n bytes. */
static pg_status read_array(reader *r, uint64_t n, array *a)
{
    pg_status st = PG_OK;
    head h;
    const uint64_t all = r->end;
    if (n > r->end - r->at)
        return damaged(r, "it ends too early");
    r->end = r->at + n;
    *a = (array){.dtype = PG_F32};
    PG_TRY(next(r, &h));
    if (h.kind != MP_ARRAY || h.n != 3)
        return damaged(r, "an array without shape, type and bytes");
    PG_TRY(next(r, &h));
    if (h.kind != MP_ARRAY)
        return damaged(r, "an array whose shape is no list");
    for (uint64_t k = 0, rank = h.n; k < rank; k++) {
        PG_TRY(next(r, &h));
        if (h.kind != MP_INT || h.i < 0 || h.wide)
            return damaged(r, "an array whose shape is not of numbers");
        PG_TRY(add_dim(a, r, (uint64_t)h.i));
    }
    PG_TRY(read_type_name(r, a));
    PG_TRY(next(r, &h));
    if (h.kind != MP_BIN || r->at + h.n != r->end)
        return damaged(r, "an array whose bytes are not the rest of it");
    a->off = r->at;
    a->n = h.n;
    if (a->is_complex)
        PG_TRY(add_dim(a, r, 2));
    if (!a->unread)
        PG_TRY(check_bytes(a, r));
    r->at = r->end;
    r->end = all;
done:
    return st;
}

static pg_status add_array(reader *r, const array *a, size_t n_tiles)
{
    pg__flax *f = r->out;
    r->name_bytes += r->path.n;
    if (r->name_bytes > PG_LIMIT_NAMES_BYTES)
        return pg_fail(r->err, PG_E_LIMIT, "names of more than %s bytes",
                       PG_NUM(PG_LIMIT_NAMES_BYTES));
    if (pg__mem_grow(&f->v, &f->cap, f->n + 1, sizeof *f->v))
        return pg__nomem(r->err);
    pg__flax_array *x = &f->v[f->n++];
    *x = (pg__flax_array){.name = pg__mem_strdup(r->path.n ? r->path.s : "array"),
                          .dtype = a->dtype,
                          .is_complex = a->is_complex,
                          .rank = a->rank,
                          .off = pg__mem_array(n_tiles, sizeof(uint64_t)),
                          .row = {.elem = pg_dtype_bytes(a->dtype), .rank = 1, .dims = {1}}};
    memcpy(x->dims, a->dims, sizeof x->dims);
    x->row.name = x->name;
    x->row.v = pg__mem_array(n_tiles, sizeof *x->row.v);
    for (uint32_t k = 0; k < a->rank; k++)
        x->row.dims[0] *= a->dims[k];
    return x->name && x->off && x->row.v ? PG_OK : pg__nomem(r->err);
}

static void add_tile(pg__flax_array *x, const array *a)
{
    pg__tiled *t = &x->row;
    const uint64_t first = t->n ? t->v[t->n - 1].start[0] + t->v[t->n - 1].size[0] : 0;
    x->off[t->n] = a->off;
    t->v[t->n] = (pg__tile){.start = {first}, .size = {a->n / t->elem}, .source = t->n};
    t->n++;
}

/* A key of a map whose keys are "0", "1", ... */
static pg_status index_key(reader *r, uint64_t index)
{
    head h;
    char key[24], want[24];
    pg_status st = PG_OK;
    PG_TRY(next(r, &h));
    PG_TRY(text(r, &h, key, sizeof key));
    snprintf(want, sizeof want, "%" PRIu64, index);
    if (strcmp(key, want) != 0)
        st = damaged(r, "an array in chunks whose parts are not in order");
done:
    return st;
}

/* The chunks, which are rows of one type, of an array whose shape is known. */
static pg_status read_chunks(reader *r, array *whole)
{
    pg_status st = PG_OK;
    head h;
    PG_TRY(next(r, &h));
    if (h.kind != MP_MAP || h.n == 0 || h.n > PG_LIMIT_OBJECTS)
        return damaged(r, "an array in chunks without chunks");
    for (uint64_t i = 0, n = h.n; i < n; i++) {
        array a;
        PG_TRY(index_key(r, i));
        PG_TRY(next(r, &h));
        if (h.kind != MP_EXT || h.i != 1)
            return damaged(r, "a chunk that is no array");
        PG_TRY(read_array(r, h.n, &a));
        if (a.unread)
            return pg_fail(r->err, PG_E_UNSUPPORTED, "%s: chunks of a type that is not supported",
                           PG_SHOW(r->path.s));
        if (i == 0) {
            whole->dtype = a.dtype;
            whole->is_complex = a.is_complex;
            if (a.is_complex)
                PG_TRY(add_dim(whole, r, 2));
            PG_TRY(add_array(r, whole, (size_t)n));
        }
        if (a.dtype != whole->dtype || a.is_complex != whole->is_complex)
            return damaged(r, "chunks of different types");
        add_tile(&r->out->v[r->out->n - 1], &a);
    }
    st = pg__tiles_check(&r->out->v[r->out->n - 1].row, r->err);
done:
    return st;
}

/* {CHUNKED: true, "shape": {"0": n, ...}, "chunks": {"0": array, ...}}, behind the first key. */
static pg_status read_chunked(reader *r, uint64_t n_keys)
{
    pg_status st = PG_OK;
    head h;
    char key[24];
    array whole = {.dtype = PG_F32};
    if (n_keys != 3)
        return damaged(r, "an array in chunks without its shape");
    PG_TRY(next(r, &h));
    PG_TRY(next(r, &h));
    PG_TRY(text(r, &h, key, sizeof key));
    PG_TRY(next(r, &h));
    if (strcmp(key, "shape") != 0 || h.kind != MP_MAP)
        return damaged(r, "an array in chunks without its shape");
    for (uint64_t i = 0, n = h.n; i < n; i++) {
        PG_TRY(index_key(r, i));
        PG_TRY(next(r, &h));
        if (h.kind != MP_INT || h.i < 0 || h.wide)
            return damaged(r, "an array whose shape is not of numbers");
        PG_TRY(add_dim(&whole, r, (uint64_t)h.i));
    }
    PG_TRY(next(r, &h));
    PG_TRY(text(r, &h, key, sizeof key));
    if (strcmp(key, "chunks") != 0)
        return damaged(r, "an array in chunks without chunks");
    st = read_chunks(r, &whole);
done:
    return st;
}

/* ---- maps ---- */

/* Notes a value that is no array. */
static pg_status note(reader *r, const head *h)
{
    pg_status st = PG_OK;
    pg__str *s = &r->out->values;
    if (h->kind == MP_NIL || r->n_values++ >= 8)
        return h->kind == MP_STR || h->kind == MP_BIN || h->kind == MP_EXT ? skip(r, h->n) : PG_OK;
    PG_TRY(pg__str_printf(s, r->err, "%s%s", s->n ? ", " : "",
                          r->path.n ? PG_SHOW(r->path.s) : "a value"));
    if (h->kind == MP_INT && !h->wide)
        st = pg__str_printf(s, r->err, " %" PRId64, h->i);
    else if (h->kind == MP_BOOL)
        st = pg__str_puts(s, h->i ? " true" : " false", r->err);
    else if (h->kind == MP_FLOAT)
        st = pg__str_printf(s, r->err, " %.6g", h->f);
    else if (h->kind != MP_INT)
        st = skip(r, h->n);
done:
    return st;
}

static pg_status read_value(reader *r, unsigned depth);

/* key NULL: the member's index. */
static pg_status read_member(reader *r, const char *key, uint64_t index, unsigned depth)
{
    const size_t n = r->path.n;
    pg_status st = PG_OK;
    if (r->path.n > PG_LIMIT_NAME_BYTES)
        return pg_fail(r->err, PG_E_LIMIT, "a name of more than %u bytes", PG_LIMIT_NAME_BYTES);
    PG_TRY(pg__str_puts(&r->path, n ? "/" : "", r->err));
    if (key)
        PG_TRY(pg__str_puts(&r->path, key, r->err));
    else
        PG_TRY(pg__str_printf(&r->path, r->err, "%" PRIu64, index));
    PG_TRY(read_value(r, depth + 1));
    r->path.n = n;
    r->path.s[n] = 0;
done:
    return st;
}

static pg_status read_map(reader *r, uint64_t n, unsigned depth)
{
    pg_status st = PG_OK;
    head h;
    for (uint64_t i = 0; i < n; i++) {
        PG_TRY(next(r, &h));
        if (h.kind == MP_INT && !h.wide && h.i >= 0) {
            PG_TRY(read_member(r, NULL, (uint64_t)h.i, depth));
            continue;
        }
        PG_TRY(text(r, &h, r->key, PG_LIMIT_NAME_BYTES));
        if (i == 0 && strcmp(r->key, CHUNKED) == 0)
            return read_chunked(r, n);
        PG_TRY(read_member(r, r->key, 0, depth));
    }
done:
    return st;
}

static pg_status read_value(reader *r, unsigned depth)
{
    pg_status st = PG_OK;
    head h;
    array a;
    if (depth > PG_LIMIT_PICKLE_DEPTH)
        return pg_fail(r->err, PG_E_LIMIT, "maps inside maps, more than %u deep",
                       PG_LIMIT_PICKLE_DEPTH);
    PG_TRY(next(r, &h));
    if (h.kind == MP_MAP)
        return read_map(r, h.n, depth);
    if (h.kind == MP_ARRAY) {
        for (uint64_t i = 0; i < h.n; i++)
            PG_TRY(read_member(r, NULL, i, depth));
        return PG_OK;
    }
    if (h.kind != MP_EXT || (h.i != 1 && h.i != 3))
        return note(r, &h);
    if (r->out->n == PG_LIMIT_OBJECTS)
        return pg_fail(r->err, PG_E_LIMIT, "more than %s arrays", PG_NUM(PG_LIMIT_OBJECTS));
    PG_TRY(read_array(r, h.n, &a));
    if (a.unread)
        return note(r, &(head){.kind = MP_EXT});
    PG_TRY(add_array(r, &a, 1));
    add_tile(&r->out->v[r->out->n - 1], &a);
    st = pg__tiles_check(&r->out->v[r->out->n - 1].row, r->err);
done:
    return st;
}

pg_status pg__flax_read(pg__flax *out, pg__io *io, const char *part, pg_err *err)
{
    pg__flax f = {0};
    pg_status st = PG_OK;
    reader *r = pg__mem_array(1, sizeof *r);
    if (!r)
        return pg__nomem(err);
    *r = (reader){.io = io, .end = pg__io_size(io), .out = &f, .part = part, .err = err};
    r->key = pg__mem_array(PG_LIMIT_NAME_BYTES, 1);
    if (!r->key)
        PG_TRY(pg__nomem(err));
    PG_TRY(read_value(r, 0));
    if (r->at != r->end) {
        st = damaged(r, "more follows after its end");
        goto done;
    }
    *out = f;
    f = (pg__flax){0};
done:
    pg__str_fini(&r->path);
    pg__mem_free(r->key);
    pg__mem_free(r);
    pg__flax_fini(&f);
    return st;
}

void pg__flax_fini(pg__flax *f)
{
    for (size_t i = 0; i < f->n; i++) {
        pg__mem_free(f->v[i].name);
        pg__mem_free(f->v[i].off);
        pg__mem_free(f->v[i].row.v);
    }
    pg__mem_free(f->v);
    pg__str_fini(&f->values);
    *f = (pg__flax){0};
}
