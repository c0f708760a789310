/* store.c - the form of a checkpoint that all formats are read into: descriptions in memory, bytes
 * left in the file and read through a function. */
#include "store/store_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"

typedef struct tensor {
    pg_weight w;
    int big_endian, has_sum;
    uint64_t sum;
    pg__extent extent;
} tensor;

typedef struct text {
    char *s;
    size_t n;
} text;

struct pg_store {
    const char *format;
    const pg__store_io *io;
    void *ctx;
    pg_layer *layers;
    size_t n_layers, cap_layers;
    tensor *tensors; /* weights, then state */
    size_t n_weights, n_tensors, cap_tensors;
    text texts[3];
    char *writer, *ranks, *damage, *others, *beside, *path, *asked;
    size_t n_beside;
    pg__io *source;
    pg_part *parts;
    size_t n_parts, cap_parts;
    pg_rank_count rank_counts[PG_MAX_RANK_COUNTS];
    size_t n_rank_counts;
    size_t n_threads;
    int keeps_sums;
};

const char *pg_dtype_name(pg_dtype dtype)
{
    static const char *const names[] = {
        "float16", "bfloat16", "float32", "float64", "int8", "int16",         "int32",      "int64",
        "uint8",   "uint16",   "uint32",  "uint64",  "bool", "float8_e4m3fn", "float8_e5m2"};
    const size_t i = (size_t)dtype;
    return i < sizeof names / sizeof *names ? names[i] : "?";
}

size_t pg_dtype_bytes(pg_dtype dtype)
{
    switch (dtype) {
    case PG_I8:
    case PG_U8:
    case PG_BOOL:
    case PG_F8_E4M3:
    case PG_F8_E5M2: return 1;
    case PG_F16:
    case PG_BF16:
    case PG_I16:
    case PG_U16: return 2;
    case PG_F32:
    case PG_I32:
    case PG_U32: return 4;
    case PG_F64:
    case PG_I64:
    case PG_U64: return 8;
    }
    return 0;
}

pg_status pg__store_new(pg_store **out, const char *format, const pg__store_io *io, void *ctx,
                        pg_err *err)
{
    pg_store *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    s->format = format;
    s->io = io;
    s->ctx = ctx;
    *out = s;
    return PG_OK;
}

void pg_store_close(pg_store *s)
{
    if (!s)
        return;
    if (s->io)
        s->io->close(s->ctx);
    for (size_t i = 0; i < s->n_layers; i++)
        pg__mem_free((void *)(uintptr_t)s->layers[i].name);
    for (size_t i = 0; i < s->n_tensors; i++)
        pg__mem_free((void *)(uintptr_t)s->tensors[i].w.name);
    for (size_t i = 0; i < sizeof s->texts / sizeof *s->texts; i++)
        pg__mem_free(s->texts[i].s);
    pg__mem_free(s->layers);
    pg__mem_free(s->tensors);
    pg__mem_free(s->writer);
    pg__mem_free(s->damage);
    pg__mem_free(s->ranks);
    pg__mem_free(s->asked);
    pg__mem_free(s->others);
    pg__mem_free(s->beside);
    pg__mem_free(s->path);
    for (size_t i = 0; i < s->n_parts; i++)
        pg__mem_free((void *)(uintptr_t)s->parts[i].path);
    pg__mem_free(s->parts);
    pg__io_close(s->source);
    pg__mem_free(s);
}

void pg__store_own(pg_store *s, const pg__store_io *io, void *ctx)
{
    s->io = io;
    s->ctx = ctx;
}

void *pg__store_ctx(const pg_store *s)
{
    return s->ctx;
}

pg_status pg__store_add_layer(pg_store *s, const char *name, pg_err *err)
{
    char *copy = pg__mem_strdup(name);
    if (!copy || pg__mem_grow(&s->layers, &s->cap_layers, s->n_layers + 1, sizeof *s->layers)) {
        pg__mem_free(copy);
        return pg__nomem(err);
    }
    s->layers[s->n_layers++] = (pg_layer){.name = copy, .first = s->n_weights};
    return PG_OK;
}

static pg_status add_tensor(pg_store *s, const pg__tensor_desc *d, size_t layer, pg_err *err)
{
    tensor t = {.big_endian = d->big_endian, .extent = d->extent};
    t.w.dtype = d->dtype;
    t.w.rank = d->rank;
    t.w.layer = layer;
    t.w.n_bytes = pg_dtype_bytes(d->dtype);
    if (d->rank > PG_MAX_RANK)
        return pg_fail(err, PG_E_LIMIT, "%s: %u dimensions, at most %u are supported",
                       PG_SHOW(d->name), d->rank, PG_MAX_RANK);
    for (uint32_t k = 0; k < d->rank; k++) {
        t.w.dims[k] = d->dims[k];
        if (__builtin_mul_overflow(t.w.n_bytes, d->dims[k], &t.w.n_bytes) ||
            t.w.n_bytes > INT64_MAX)
            return pg_fail(err, PG_E_LIMIT, "%s: shape is too large", PG_SHOW(d->name));
    }
    char *copy = pg__mem_strdup(d->name);
    if (!copy || pg__mem_grow(&s->tensors, &s->cap_tensors, s->n_tensors + 1, sizeof *s->tensors)) {
        pg__mem_free(copy);
        return pg__nomem(err);
    }
    t.w.name = copy;
    s->tensors[s->n_tensors++] = t;
    return PG_OK;
}

pg_status pg__store_add_weight(pg_store *s, const pg__tensor_desc *d, pg_err *err)
{
    if (s->n_tensors != s->n_weights)
        return pg_fail(err, PG_E_ARG, "weights come before state");
    const size_t layer = s->n_layers ? s->n_layers - 1 : PG_NONE;
    const pg_status st = add_tensor(s, d, layer, err);
    if (st != PG_OK)
        return st;
    s->n_weights++;
    if (layer != PG_NONE)
        s->layers[layer].n_weights++;
    return PG_OK;
}

pg_status pg__store_add_state(pg_store *s, const pg__tensor_desc *d, pg_err *err)
{
    return add_tensor(s, d, PG_NONE, err);
}

static pg_status replace(char **dst, const char *s, size_t n, pg_err *err)
{
    char *copy = pg__mem_strndup(s, n);
    if (!copy)
        return pg__nomem(err);
    pg__mem_free(*dst);
    *dst = copy;
    return PG_OK;
}

int pg__same_shape(const pg_weight *a, const pg_weight *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

pg_status pg__store_set_text(pg_store *s, pg_text which, const char *txt, size_t n, pg_err *err)
{
    const pg_status st = replace(&s->texts[which].s, txt, n, err);
    if (st == PG_OK)
        s->texts[which].n = n;
    return st;
}

pg_status pg__store_set_writer(pg_store *s, const char *writer, pg_err *err)
{
    return replace(&s->writer, writer, strlen(writer), err);
}

pg_status pg__store_set_damage(pg_store *s, const char *what, pg_err *err)
{
    return replace(&s->damage, what, strlen(what), err);
}

pg_status pg__store_set_ranks(pg_store *s, const char *who, pg_err *err)
{
    return replace(&s->ranks, who, strlen(who), err);
}

pg_status pg__store_set_n_ranks(pg_store *s, uint64_t n, pg_err *err)
{
    char who[48];
    snprintf(who, sizeof who, "saved by %s rank%s", PG_NUM(n), n == 1 ? "" : "s");
    pg__store_add_rank_count(s, "ranks", n);
    return pg__store_set_ranks(s, who, err);
}

void pg__store_add_rank_count(pg_store *s, const char *kind, uint64_t n)
{
    if (s->n_rank_counts < PG_MAX_RANK_COUNTS)
        s->rank_counts[s->n_rank_counts++] = (pg_rank_count){kind, n};
}

pg_status pg__store_set_others(pg_store *s, const char *what, pg_err *err)
{
    return replace(&s->others, what, strlen(what), err);
}

pg_status pg__store_set_beside(pg_store *s, const char *what, size_t n, pg_err *err)
{
    s->n_beside = n;
    return replace(&s->beside, what, strlen(what), err);
}

pg_status pg__store_add_part(pg_store *s, const pg_part *part, pg_err *err)
{
    char *path = pg__mem_strdup(part->path);
    if (!path || pg__mem_grow(&s->parts, &s->cap_parts, s->n_parts + 1, sizeof *s->parts)) {
        pg__mem_free(path);
        return pg__nomem(err);
    }
    s->parts[s->n_parts] = *part;
    s->parts[s->n_parts++].path = path;
    return PG_OK;
}

pg_status pg__store_set_path(pg_store *s, const char *path, pg_err *err)
{
    return replace(&s->path, path, strlen(path), err);
}

const char *pg__store_path(const pg_store *s)
{
    return s->path ? s->path : "";
}

pg_status pg__store_set_asked(pg_store *s, const char *path, pg_err *err)
{
    return replace(&s->asked, path, strlen(path), err);
}

const char *pg__store_asked(const pg_store *s)
{
    return s->asked ? s->asked : "";
}

void pg__store_set_threads(pg_store *s, size_t n)
{
    s->n_threads = n;
}

size_t pg__store_threads(const pg_store *s)
{
    return pg__threads(s->n_threads);
}

int pg__store_has_objects(const pg_store *s)
{
    return s->io && s->io->find_object && s->io->find_object(s->ctx, NULL) != PG_NONE;
}

size_t pg__store_find_object(const pg_store *s, const char *path)
{
    return s->io->find_object(s->ctx, path);
}

const char *pg__store_inner_object(const pg_store *s)
{
    return s->io && s->io->inner_object ? s->io->inner_object(s->ctx) : NULL;
}

void pg__store_set_source(pg_store *s, pg__io *io)
{
    pg__io_close(s->source);
    s->source = io ? pg__io_ref(io) : NULL;
}

pg__io *pg__store_source(const pg_store *s)
{
    return s->source;
}

pg_status pg_store_check_same(const pg_store *s, pg_err *err)
{
    return s->source ? pg__io_check_same(s->source, err) : PG_OK;
}

const char *pg_store_format(const pg_store *s)
{
    return s->format;
}

const char *pg_store_writer(const pg_store *s)
{
    return s->writer;
}

const char *pg_store_damage(const pg_store *s)
{
    return s->damage;
}

const char *pg_store_ranks(const pg_store *s)
{
    return s->ranks;
}

size_t pg_store_n_rank_counts(const pg_store *s)
{
    return s->n_rank_counts;
}

const pg_rank_count *pg_store_rank_count(const pg_store *s, size_t i)
{
    return i < s->n_rank_counts ? &s->rank_counts[i] : NULL;
}

pg_pieces pg_store_pieces(const pg_store *s, size_t i)
{
    return s->io && s->io->pieces ? s->io->pieces(s->ctx, i) : (pg_pieces){.n = 1};
}

const char *pg_store_others(const pg_store *s)
{
    return s->others;
}

const char *pg_store_beside(const pg_store *s, size_t *n)
{
    if (n)
        *n = s->n_beside;
    return s->beside;
}

size_t pg_store_n_parts(const pg_store *s)
{
    return s->n_parts;
}

const pg_part *pg_store_part(const pg_store *s, size_t i)
{
    return i < s->n_parts ? &s->parts[i] : NULL;
}

size_t pg_store_n_layers(const pg_store *s)
{
    return s->n_layers;
}

size_t pg_store_n_weights(const pg_store *s)
{
    return s->n_weights;
}

size_t pg_store_n_state(const pg_store *s)
{
    return s->n_tensors - s->n_weights;
}

size_t pg__store_n_tensors(const pg_store *s)
{
    return s->n_tensors;
}

const pg_layer *pg_store_layer(const pg_store *s, size_t i)
{
    return i < s->n_layers ? &s->layers[i] : NULL;
}

const pg_weight *pg_store_weight(const pg_store *s, size_t i)
{
    return i < s->n_weights ? &s->tensors[i].w : NULL;
}

const pg_weight *pg_store_state(const pg_store *s, size_t i)
{
    return i < pg_store_n_state(s) ? &s->tensors[s->n_weights + i].w : NULL;
}

const pg_weight *pg__store_tensor(const pg_store *s, size_t i)
{
    return i < s->n_tensors ? &s->tensors[i].w : NULL;
}

int pg__store_big_endian(const pg_store *s, size_t i)
{
    return s->tensors[i].big_endian;
}

pg__extent pg__store_extent(const pg_store *s, size_t i)
{
    return s->tensors[i].extent;
}

const char *pg_store_text(const pg_store *s, pg_text which, size_t *n_bytes)
{
    if ((size_t)which >= sizeof s->texts / sizeof *s->texts)
        return NULL;
    if (n_bytes)
        *n_bytes = s->texts[which].n;
    return s->texts[which].s;
}

pg_status pg__store_read_raw(pg_store *s, size_t i, uint64_t off, void *buf, size_t n, pg_err *err)
{
    const pg_weight *w = pg__store_tensor(s, i);
    if (!w || off > w->n_bytes || n > w->n_bytes - off)
        return pg_fail(err, PG_E_ARG, "read outside tensor %zu", i);
    if (n == 0)
        return PG_OK;
    const pg__extent e = s->tensors[i].extent;
    if (e.io)
        return pg__io_read(e.io, e.off + off, buf, n, err);
    if (!s->io)
        return pg_fail(err, PG_E_UNSUPPORTED, "this store has no data");
    return s->io->read(s->ctx, i, off, buf, n, err);
}

void pg__store_keep_sums(pg_store *s)
{
    s->keeps_sums = 1;
}

int pg__store_keeps_sum(const pg_store *s, size_t i)
{
    return s->keeps_sums && s->tensors[i].w.n_bytes >= PG_SUM_LEAST;
}

void pg__store_set_sum(pg_store *s, size_t i, uint64_t sum)
{
    s->tensors[i].sum = sum;
    s->tensors[i].has_sum = 1;
}

int pg__store_sum(const pg_store *s, size_t i, uint64_t *sum)
{
    *sum = s->tensors[i].sum;
    return s->tensors[i].has_sum;
}

int pg__store_copies(const pg_store *s)
{
    return s->io && s->io->copy;
}

pg_status pg__store_copy(pg_store *s, size_t i, pg__sink *sink, uint64_t off, pg_err *err)
{
    return s->io->copy(s->ctx, i, sink, off, err);
}

static void swap_elements(unsigned char *p, size_t n_bytes, size_t size)
{
    for (unsigned char *end = p + n_bytes; p < end; p += size)
        for (size_t a = 0, b = size - 1; a < b; a++, b--) {
            const unsigned char c = p[a];
            p[a] = p[b];
            p[b] = c;
        }
}

/* If a range cuts elements of the other byte order, it is read element by element. */
static pg_status read_swapped(pg_store *s, size_t i, uint64_t off, unsigned char *buf, size_t n,
                              pg_err *err)
{
    const size_t size = pg_dtype_bytes(s->tensors[i].w.dtype);
    pg_status st = PG_OK;
    while (st == PG_OK && n) {
        unsigned char element[8];
        const size_t skip = (size_t)(off % size);
        if (skip == 0 && n >= size) {
            const size_t whole = n - n % size;
            st = pg__store_read_raw(s, i, off, buf, whole, err);
            if (st == PG_OK)
                swap_elements(buf, whole, size);
            off += whole, buf += whole, n -= whole;
            continue;
        }
        const size_t take = n < size - skip ? n : size - skip;
        st = pg__store_read_raw(s, i, off - skip, element, size, err);
        if (st != PG_OK)
            break;
        swap_elements(element, size, size);
        memcpy(buf, element + skip, take);
        off += take, buf += take, n -= take;
    }
    return st;
}

static pg_status read_native(pg_store *s, size_t i, uint64_t off, void *buf, size_t n, pg_err *err)
{
    const pg_weight *w = pg__store_tensor(s, i);
    const int here_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    if (!w || off > w->n_bytes || n > w->n_bytes - off)
        return pg_fail(err, PG_E_ARG, "read outside tensor %zu", i);
    if (s->tensors[i].big_endian == here_big || pg_dtype_bytes(w->dtype) == 1)
        return pg__store_read_raw(s, i, off, buf, n, err);
    return read_swapped(s, i, off, buf, n, err);
}

pg_status pg_store_read(pg_store *s, size_t i, uint64_t off_bytes, void *buf, size_t n_bytes,
                        pg_err *err)
{
    if (i >= s->n_weights)
        return pg_fail(err, PG_E_ARG, "there is no weight %zu", i);
    return read_native(s, i, off_bytes, buf, n_bytes, err);
}

pg_status pg_store_read_state(pg_store *s, size_t i, uint64_t off_bytes, void *buf, size_t n_bytes,
                              pg_err *err)
{
    if (i >= pg_store_n_state(s))
        return pg_fail(err, PG_E_ARG, "there is no state tensor %zu", i);
    return read_native(s, s->n_weights + i, off_bytes, buf, n_bytes, err);
}

int pg__store_place(const pg_store *s, size_t i, uint64_t *off_bytes)
{
    const int here_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    const tensor *t = &s->tensors[i];
    uint64_t first, last;
    if (t->w.n_bytes == 0 || (t->big_endian != here_big && pg_dtype_bytes(t->w.dtype) > 1))
        return -1;
    if (!t->extent.io)
        return s->io && s->io->place ? s->io->place(s->ctx, i, off_bytes) : -1;
    const int fd = pg__io_fd(t->extent.io, t->extent.off, &first);
    if (fd < 0 || pg__io_fd(t->extent.io, t->extent.off + t->w.n_bytes - 1, &last) != fd ||
        last - first != t->w.n_bytes - 1)
        return -1;
    *off_bytes = first;
    return fd;
}

int pg_store_place(const pg_store *s, size_t i, uint64_t *off_bytes)
{
    return i < s->n_weights ? pg__store_place(s, i, off_bytes) : -1;
}

int pg_store_place_state(const pg_store *s, size_t i, uint64_t *off_bytes)
{
    return i < pg_store_n_state(s) ? pg__store_place(s, s->n_weights + i, off_bytes) : -1;
}
