/* shards_tree.c - writes the HDF5 file (or .keras archive) that was split again, from its manifest:
 * every group, every attribute as it was, every dataset. Nothing here knows Keras' layouts, except
 * that lists of names must fit an object header and, if only some tensors are wanted, must name
 * those. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/copy.h"
#include "format/fmt_keras_h5.h"
#include "format/h5/h5.h"
#include "format/shards.h"
#include "io/zip.h"

#define HDF5_ALIGN     512u   /* where HDF5 looks for its signature inside an archive */
#define HEADER_BYTES   65000u /* what one attribute of an object header can hold, roughly */
#define HEADER_VLEN    4090u  /* variable strings that it may hold */
#define WEIGHTS_MEMBER "model.weights.h5"

typedef struct entry {
    const char *path;
    size_t tensor;
} entry;

typedef struct tree {
    pg__shards *s;
    const pg__manifest *m;
    pg__sink *sink;
    pg__h5_out *h5;
    size_t *ids;   /* dataset by tensor */
    entry *sorted; /* all datasets by path */
    size_t n_chunked;
    int only;
} tree;

static int by_path(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->path, ((const entry *)b)->path);
}

static int is_dataset(const tree *t, const char *path)
{
    const entry key = {.path = path};
    return t->m->n_tensors &&
           bsearch(&key, t->sorted, t->m->n_tensors, sizeof *t->sorted, by_path) != NULL;
}

/* 1 if dataset k of the sorted ones is below group `path` of n bytes. */
static int is_below(const tree *t, size_t k, const char *path, size_t n)
{
    return k < t->m->n_tensors &&
           (n == 0 || (strncmp(t->sorted[k].path, path, n) == 0 && t->sorted[k].path[n] == '/'));
}

/* The first dataset that does not sort before the contents of group `path`. */
static size_t first_below(const tree *t, const char *path)
{
    const size_t n = strlen(path);
    size_t lo = 0, hi = n ? t->m->n_tensors : 0;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const int c = strncmp(t->sorted[mid].path, path, n);
        if (c < 0 || (c == 0 && (unsigned char)t->sorted[mid].path[n] < '/'))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static const char *list_key(const char *attr)
{
    return pg__keras_is_part(attr, "layer_names")    ? "layer_names"
           : pg__keras_is_part(attr, "weight_names") ? "weight_names"
                                                     : NULL;
}

static int fits_header(const pg__h5_attr *a)
{
    if (a->type.cls == PG_H5_STR_VLEN)
        return a->n_elems <= HEADER_VLEN;
    return a->type.size == 0 || a->n_elems <= HEADER_BYTES / a->type.size;
}

/* The names in list `key` of a group when only some tensors are left. */
static pg_status put_list(tree *t, const pg__shard_object *o, const char *key, pg__h5_class cls,
                          pg_err *err)
{
    pg_status st = PG_OK;
    const pg__manifest *m = t->m;
    const size_t n_path = strlen(o->path);
    const size_t cap = m->n_tensors > m->layers.n ? m->n_tensors : m->layers.n;
    size_t n = 0, last = PG_NONE;
    const char **names = pg__mem_array(cap, sizeof *names);
    if (!names)
        return pg__nomem(err);
    for (size_t i = 0; i < m->n_tensors; i++) {
        const pg__shard_tensor *s = &m->tensors[i];
        if (strcmp(key, "layer_names") == 0) {
            if (s->layer != PG_NONE && s->layer != last)
                names[n++] = m->layers.v[s->layer];
            last = s->layer;
        } else if (strncmp(s->h5, o->path, n_path) == 0 && s->h5[n_path] == '/' &&
                   strcmp(s->h5 + n_path + 1, s->name) == 0) {
            names[n++] = s->name;
        }
    }
    st = pg__h5_out_names(t->h5, o->path, key, names, n, cls, err);
    pg__mem_free(names);
    return st;
}

static pg_status put_attrs(tree *t, const pg__shard_object *o, pg_err *err)
{
    pg_status st = PG_OK;
    const char *done_key = NULL;
    for (size_t i = o->first; i < o->first + o->n; i++) {
        const pg__h5_attr *a = &t->m->attrs[i];
        const char *key = a->strs || a->n_elems == 0 ? list_key(a->name) : NULL;
        const int whole = key && strcmp(key, a->name) == 0;
        if (t->only && key) {
            if (!done_key || strcmp(done_key, key) != 0)
                PG_TRY(put_list(t, o, key, whole ? a->type.cls : PG_H5_STR_FIXED, err));
            done_key = key;
        } else if (whole && a->rank == 1 && !fits_header(a)) {
            PG_TRY(pg__h5_out_names(t->h5, o->path, key, a->strs, (size_t)a->n_elems, a->type.cls,
                                    err));
            t->n_chunked++;
        } else {
            PG_TRY(pg__h5_out_attr(t->h5, o->path, a, err));
            t->n_chunked += key && !whole && strcmp(a->name + strlen(key), "0") == 0;
        }
    }
done:
    return st;
}

static pg_status put_dataset(tree *t, size_t i, pg_err *err)
{
    const pg__shard_tensor *s = &t->m->tensors[i];
    const pg__h5_dtype type = {.cls = PG_H5_NUMBER,
                               .dtype = s->dtype,
                               .size = (uint32_t)pg_dtype_bytes(s->dtype),
                               .big_endian = pg__shards_big_endian(t->s, i)};
    const pg_status st = pg__sink_tick(t->sink, err);
    return st == PG_OK ? pg__h5_out_dataset(t->h5, s->h5, &type, s->rank, s->dims, &t->ids[i], err)
                       : st;
}

/* The datasets directly in a group: HDF5 closes a group once the next one is opened. */
static pg_status put_datasets(tree *t, const char *group, pg_err *err)
{
    pg_status st = PG_OK;
    const size_t n = strlen(group);
    for (size_t k = first_below(t, group); is_below(t, k, group, n); k++)
        if (!strchr(t->sorted[k].path + n + (n > 0), '/'))
            PG_TRY(put_dataset(t, t->sorted[k].tensor, err));
done:
    return st;
}

static pg_status sort_datasets(tree *t, pg_err *err)
{
    const pg__manifest *m = t->m;
    for (size_t i = 0; i < m->n_tensors; i++) {
        if (!m->tensors[i].h5)
            return pg_fail(err, PG_E_FORMAT, "%s: h5 is missing", PG_SHOW(m->tensors[i].name));
        t->sorted[i] = (entry){m->tensors[i].h5, i};
        t->ids[i] = PG_NONE;
    }
    if (m->n_tensors)
        qsort(t->sorted, m->n_tensors, sizeof *t->sorted, by_path);
    for (size_t i = 1; i < m->n_tensors; i++)
        if (strcmp(t->sorted[i - 1].path, t->sorted[i].path) == 0)
            return pg_fail(err, PG_E_FORMAT, "h5 /%s comes twice", PG_SHOW(t->sorted[i].path));
    return PG_OK;
}

static pg_status lay_out(tree *t, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__manifest *m = t->m;
    PG_TRY(sort_datasets(t, err));
    PG_TRY(pg__h5_out_new(&t->h5, err));
    for (size_t i = 0; i < m->n_objects; i++) {
        const pg__shard_object *o = &m->objects[i];
        if (is_dataset(t, o->path) ||
            (t->only && !is_below(t, first_below(t, o->path), o->path, strlen(o->path))))
            continue;
        PG_TRY(pg__sink_tick(t->sink, err));
        PG_TRY(pg__h5_out_group(t->h5, o->path, err));
        PG_TRY(put_attrs(t, o, err));
        PG_TRY(put_datasets(t, o->path, err));
    }
    for (size_t i = 0; i < m->n_tensors; i++) /* whose group is not listed */
        if (t->ids[i] == PG_NONE)
            PG_TRY(put_dataset(t, i, err));
    for (size_t i = 0; i < m->n_objects; i++)
        if (is_dataset(t, m->objects[i].path))
            PG_TRY(put_attrs(t, &m->objects[i], err));
    PG_TRY(pg__h5_out_finish(t->h5, err));
done:
    return st;
}

static pg_status put_data(const tree *t, pg__sink *sink, uint64_t base, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__h5_out_flush(t->h5, sink, base, err));
    for (size_t i = 0; i < t->m->n_tensors; i++)
        PG_TRY(pg__shards_copy(t->s, i, sink, base + pg__h5_out_offset(t->h5, t->ids[i]), err));
done:
    return st;
}

static pg_status put_archive(const tree *t, pg__sink *sink, pg_err *err)
{
    pg_status st = PG_OK;
    pg__zip_out *zip = NULL;
    uint64_t off = 0;
    uint32_t crc = 0;
    const uint64_t n = pg__h5_out_bytes(t->h5);
    PG_TRY(pg__zip_out_new(&zip, sink, err));
    PG_TRY(pg__zip_out_begin(zip, WEIGHTS_MEMBER, n, HDF5_ALIGN, &off, err));
    PG_TRY(put_data(t, sink, off, err));
    PG_TRY(pg__crc_written(&crc, sink, off, n, err));
    PG_TRY(pg__zip_out_end(zip, crc, err));
    for (size_t i = 0; i < t->m->n_members; i++) {
        const pg__shard_member *v = &t->m->members[i];
        PG_TRY(pg__zip_out_begin(zip, v->name, v->n, 1, &off, err));
        PG_TRY(pg__sink_write(sink, off, v->text, v->n, err));
        PG_TRY(pg__zip_out_end(zip, pg__crc32(0, v->text, v->n), err));
    }
    PG_TRY(pg__zip_out_finish(zip, err));
done:
    pg__zip_out_free(zip);
    return st;
}

pg_status pg__shards_write_tree(pg__shards *s, pg__sink *sink, int only, size_t *n_chunked,
                                pg_err *err)
{
    pg_status st = PG_OK;
    tree t = {.s = s, .sink = sink, .m = pg__shards_manifest(s), .only = only};
    t.ids = pg__mem_array(t.m->n_tensors, sizeof *t.ids);
    t.sorted = pg__mem_array(t.m->n_tensors, sizeof *t.sorted);
    if (!t.ids || !t.sorted) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(lay_out(&t, err));
    PG_TRY(pg__sink_reserve(sink, pg__h5_out_bytes(t.h5), err));
    if (t.m->n_members) {
        PG_TRY(put_archive(&t, sink, err));
    } else {
        PG_TRY(put_data(&t, sink, 0, err));
    }
    *n_chunked = t.n_chunked;
done:
    pg__h5_out_free(t.h5);
    pg__mem_free(t.ids);
    pg__mem_free(t.sorted);
    return st;
}
