/* pieces.c - see pieces.h. */
#include "format/pieces.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/ranks.h"

typedef struct tensor {
    size_t first; /* piece that was added first */
    pg_dtype dtype;
    pg__tiled tiled; /* tile.source: a piece */
} tensor;

struct pg__pieces {
    int folder;
    int has_rules; /* those of pg__pieces_take_first() */
    size_t n_opened;
    pg__strs files;
    pg__strs names;    /* by piece */
    pg__strs first;    /* patterns of names whose copies may differ */
    pg_store **stores; /* by file */
    size_t cap_stores;
    pg__rank_piece *v;
    size_t n, cap;
    tensor *tensors;
    size_t n_tensors;
    pg__tile_window window;
};

pg_status pg__pieces_new(pg__pieces **out, int folder, int has_rules, pg_err *err)
{
    *out = pg__mem_array(1, sizeof **out);
    if (!*out) {
        close(folder);
        return pg__nomem(err);
    }
    (*out)->folder = folder;
    (*out)->has_rules = has_rules;
    return PG_OK;
}

void pg__pieces_free(pg__pieces *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->files.n; i++)
        pg_store_close(p->stores[i]);
    for (size_t i = 0; i < p->n_tensors; i++)
        pg__mem_free(p->tensors[i].tiled.v);
    pg__tile_window_fini(&p->window);
    pg__strs_fini(&p->files);
    pg__strs_fini(&p->names);
    pg__strs_fini(&p->first);
    pg__mem_free(p->stores);
    pg__mem_free(p->v);
    pg__mem_free(p->tensors);
    close(p->folder);
    pg__mem_free(p);
}

pg_status pg__pieces_open(pg__io **out, pg__pieces *p, const char *name, pg_err *err)
{
    const pg_status st = pg__io_open_beside(out, p->folder, name, err);
    if (st == PG_OK && ++p->n_opened > PG_RANK_FILES_OPEN)
        pg__io_rest(*out, p->folder);
    return st;
}

pg_status pg__pieces_add_file(pg__pieces *p, pg_store *s, const char *name, pg_err *err)
{
    pg_status st = PG_OK;
    if (pg__mem_grow(&p->stores, &p->cap_stores, p->files.n + 1, sizeof(pg_store *)))
        st = pg__nomem(err);
    if (st == PG_OK)
        st = pg__strs_add(&p->files, name, strlen(name), err);
    if (st == PG_OK)
        p->stores[p->files.n - 1] = s;
    else
        pg_store_close(s);
    return st;
}

size_t pg__pieces_n_files(const pg__pieces *p)
{
    return p->files.n;
}

const pg_store *pg__pieces_file(const pg__pieces *p, size_t file)
{
    return p->stores[file];
}

pg_status pg__pieces_add(pg__pieces *p, const pg__rank_piece *x, pg_err *err)
{
    if (p->n >= PG_LIMIT_OBJECTS)
        return pg_fail(err, PG_E_LIMIT, "more than %u pieces of tensors", PG_LIMIT_OBJECTS);
    if (pg__store_big_endian(p->stores[x->file], x->tensor) && pg_dtype_bytes(x->dtype) > 1)
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: a piece in big-endian order", PG_SHOW(x->name));
    if (pg__mem_grow(&p->v, &p->cap, p->n + 1, sizeof *p->v))
        return pg__nomem(err);
    const pg_status st = pg__strs_add(&p->names, x->name, strlen(x->name), err);
    if (st != PG_OK)
        return st;
    p->v[p->n] = *x;
    p->v[p->n].name = p->names.v[p->n];
    p->n++;
    return PG_OK;
}

pg_status pg__pieces_take_first(size_t *n, pg__pieces *p, const char *pattern, pg_err *err)
{
    *n = 0;
    for (size_t i = 0; i < p->n; i++)
        *n += fnmatch(pattern, p->names.v[i], 0) == 0;
    return pg__strs_add(&p->first, pattern, strlen(pattern), err);
}

static int is_first_enough(const pg__pieces *p, const char *name)
{
    for (size_t i = 0; i < p->first.n; i++)
        if (fnmatch(p->first.v[i], name, 0) == 0)
            return 1;
    return 0;
}

/* ---- pieces of one tensor ---- */

/* A piece with its number, for sorting. */
typedef struct entry {
    const pg__rank_piece *x;
    size_t i;
} entry;

static int by_box(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int c = strcmp(x->x->name, y->x->name);
    if (c)
        return c;
    const int start = memcmp(x->x->start, y->x->start, sizeof x->x->start);
    const int size = start ? 0 : memcmp(x->x->size, y->x->size, sizeof x->x->size);
    return start ? start : size ? size : (x->i > y->i) - (x->i < y->i);
}

static int is_same_box(const pg__rank_piece *x, const pg__rank_piece *y)
{
    return memcmp(x->start, y->start, sizeof x->start) == 0 &&
           memcmp(x->size, y->size, sizeof x->size) == 0;
}

/* As far as the pieces reach, if their files do not say the shape. */
static pg_status find_dims(tensor *t, const entry *e, size_t n, pg_err *err)
{
    const pg__rank_piece *first = e[0].x;
    t->tiled.rank = first->rank;
    memcpy(t->tiled.dims, first->dims, sizeof first->dims);
    for (size_t i = 0; i < n; i++) {
        const pg__rank_piece *x = e[i].x;
        for (uint32_t k = 0; k < t->tiled.rank; k++) {
            uint64_t end = 0;
            if (__builtin_add_overflow(x->start[k], x->size[k], &end))
                return pg_fail(err, PG_E_FORMAT, "%s: the end of a piece overflows",
                               PG_SHOW(x->name));
            if (!first->dims[k] && end > t->tiled.dims[k])
                t->tiled.dims[k] = end;
        }
    }
    return PG_OK;
}

static pg_status check_size(const tensor *t, pg_err *err)
{
    uint64_t n = t->tiled.elem;
    for (uint32_t k = 0; k < t->tiled.rank; k++)
        if (__builtin_mul_overflow(n, t->tiled.dims[k], &n) || n > INT64_MAX)
            return pg_fail(err, PG_E_LIMIT, "%s: shape is too large", PG_SHOW(t->tiled.name));
    return PG_OK;
}

static pg_status check_alike(const pg__pieces *p, const entry *e, size_t n, pg_err *err)
{
    const pg__rank_piece *first = e[0].x;
    for (size_t i = 1; i < n; i++) {
        const pg__rank_piece *x = e[i].x;
        if (x->dtype != first->dtype || x->rank != first->rank ||
            memcmp(x->dims, first->dims, sizeof x->dims) != 0)
            return pg_fail(err, PG_E_FORMAT, "%s: %s and %s disagree about its type or shape",
                           PG_SHOW(x->name), PG_SHOW(p->files.v[first->file]),
                           PG_SHOW(p->files.v[x->file]));
    }
    return PG_OK;
}

/* The n sorted pieces of one name. */
static pg_status assemble(pg__pieces *p, const entry *e, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    const int first_only = is_first_enough(p, e[0].x->name);
    tensor *t = &p->tensors[p->n_tensors++];
    *t = (tensor){.first = e[0].i, .dtype = e[0].x->dtype};
    t->tiled.name = e[0].x->name;
    t->tiled.elem = pg_dtype_bytes(t->dtype);
    PG_TRY(check_alike(p, e, n, err));
    PG_TRY(find_dims(t, e, n, err));
    PG_TRY(check_size(t, err));
    t->tiled.v = pg__mem_array(n, sizeof *t->tiled.v);
    if (!t->tiled.v)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < n; i++) {
        const pg__rank_piece *x = e[i].x;
        t->first = e[i].i < t->first ? e[i].i : t->first;
        if (i && is_same_box(e[i - 1].x, x)) {
            p->v[e[i - 1].i].next = first_only ? 0 : 1 + e[i].i;
            continue;
        }
        pg__tile *tile = &t->tiled.v[t->tiled.n++];
        memcpy(tile->start, x->start, sizeof x->start);
        memcpy(tile->size, x->size, sizeof x->size);
        tile->source = e[i].i;
    }
    st = pg__tiles_check(&t->tiled, err);
done:
    return st;
}

static int by_first(const void *a, const void *b)
{
    const tensor *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static pg_status assemble_all(pg__pieces *p, pg_err *err)
{
    pg_status st = PG_OK;
    entry *e = pg__mem_array(p->n, sizeof *e);
    p->tensors = pg__mem_array(p->n, sizeof *p->tensors);
    if (!e || !p->tensors)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < p->n; i++)
        e[i] = (entry){&p->v[i], i};
    if (p->n)
        qsort(e, p->n, sizeof *e, by_box);
    for (size_t i = 0, k = 0; i < p->n; i = k) {
        while (k < p->n && strcmp(e[i].x->name, e[k].x->name) == 0)
            k++;
        PG_TRY(assemble(p, e + i, k - i, err));
    }
    if (p->n_tensors)
        qsort(p->tensors, p->n_tensors, sizeof *p->tensors, by_first);
done:
    pg__mem_free(e);
    return st;
}

/* ---- reading ---- */

static pg_status read_piece(const pg__pieces *p, const pg__rank_piece *x, uint64_t off, void *buf,
                            size_t n, pg_err *err)
{
    const pg_status st = pg__store_read_raw(p->stores[x->file], x->tensor, off, buf, n, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(p->files.v[x->file]));
    return st;
}

/* Compares another copy with the n bytes at `want`. */
static pg_status check_copy(const pg__pieces *p, const pg__rank_piece *x,
                            const pg__rank_piece *copy, uint64_t off, const unsigned char *want,
                            size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    unsigned char *got = pg__mem_bare(n < PG_COPY_BYTES ? n : PG_COPY_BYTES);
    if (!got)
        return pg__nomem(err);
    for (size_t at = 0, step; at < n; at += step) {
        step = n - at < PG_COPY_BYTES ? n - at : PG_COPY_BYTES;
        PG_TRY(read_piece(p, copy, off + at, got, step, err));
        if (memcmp(got, want + at, step) != 0) {
            (void)pg_fail(err, PG_E_FORMAT, "%s: %s and %s hold copies that differ",
                          PG_SHOW(x->name), PG_SHOW(p->files.v[x->file]),
                          PG_SHOW(p->files.v[copy->file]));
            if (p->has_rules)
                pg_err_set(err, "rules", "%s=first", x->name);
            st = PG_E_FORMAT;
            goto done;
        }
    }
done:
    pg__mem_free(got);
    return st;
}

static pg_status fetch(void *ctx, const pg__tile *tile, uint64_t off, void *buf, size_t n,
                       pg_err *err)
{
    pg_status st = PG_OK;
    const pg__pieces *p = ctx;
    const pg__rank_piece *x = &p->v[tile->source];
    PG_TRY(read_piece(p, x, off, buf, n, err));
    for (const pg__rank_piece *copy = x; copy->next;) {
        copy = &p->v[copy->next - 1];
        PG_TRY(check_copy(p, x, copy, off, buf, n, err));
    }
done:
    return st;
}

static pg_status read_data(void *ctx, size_t i, uint64_t off, void *buf, size_t n, pg_err *err)
{
    pg__pieces *p = ctx;
    return pg__tiles_read(&p->window, &p->tensors[i].tiled, fetch, p, off, buf, n, err);
}

size_t pg__pieces_most_ranks(const pg__pieces *p)
{
    size_t most = PG_NONE;
    uint32_t axes = 0;
    for (size_t i = 0; i < p->n_tensors; i++) {
        const pg__tiled *t = &p->tensors[i].tiled;
        uint32_t k = 0;
        axes |= pg__tiles_pieces(t).axes;
        while (k < t->rank && !(axes >> k & 1))
            k++;
        if (k == t->rank || t->n < 2)
            continue;
        uint64_t step = 0, last = UINT64_MAX;
        for (size_t j = 0; j < t->n; j++) {
            step = t->v[j].size[k] > step ? t->v[j].size[k] : step;
            last = t->v[j].size[k] < last ? t->v[j].size[k] : last;
        }
        if (last == step)
            continue;
        const uint64_t n = (t->dims[k] + step - 2) / (step - 1) - 1; /* ceil(dims / n) == step */
        most = n < most ? (size_t)n : most;
    }
    return axes & (axes - 1) ? PG_NONE : most; /* a mesh of several axes: each has its number */
}

static pg_pieces pieces_of(const void *ctx, size_t i)
{
    return pg__tiles_pieces(&((const pg__pieces *)ctx)->tensors[i].tiled);
}

static void close_data(void *ctx)
{
    pg__pieces_free(ctx);
}

pg_status pg__pieces_store(pg_store **out, pg__pieces *p, const char *format, pg_err *err)
{
    static const pg__store_io data = {.read = read_data, .close = close_data, .pieces = pieces_of};
    pg_status st = PG_OK;
    pg_store *s = NULL;
    PG_TRY(assemble_all(p, err));
    PG_TRY(pg__store_new(&s, format, NULL, NULL, err));
    for (size_t i = 0; i < p->n_tensors; i++) {
        const tensor *t = &p->tensors[i];
        const pg__tensor_desc d = {
            .name = t->tiled.name, .dtype = t->dtype, .rank = t->tiled.rank, .dims = t->tiled.dims};
        PG_TRY(pg__store_add_weight(s, &d, err));
    }
    pg__store_own(s, &data, p);
    *out = s;
    s = NULL;
done:
    pg_store_close(s);
    return st;
}
