/* dcp_metadata.c - .metadata of torch.distributed.checkpoint: a pickle of dataclasses
 * (torch/distributed/checkpoint/metadata.py, filesystem.py), read as data.
 *
 *     Metadata{state_dict_metadata: name -> TensorStorageMetadata{properties, size, chunks}
 *                                         | BytesStorageMetadata,
 *              planner_data: name -> keys of the containers around it,
 *              storage_data: MetadataIndex{fqn, offset} -> _StorageInfo{relative_path, offset,
 *                                                                       length}}
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bsd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/dcp.h"

enum { OTHER = 1, TENSOR, BYTES, SIZE, DTYPE };

#define META    "torch.distributed.checkpoint.metadata"
#define LOOK    256u /* the first class that .metadata names comes within these bytes */
#define COMPLEX 0x80
#define TYPE(name, d)                      \
    {                                      \
        "torch", name, 0, DTYPE | (d) << 8 \
    }

static const pg__pk_global globals[] = {
    {META, "Metadata", PG_PK_ATTRIBUTES, OTHER},
    {META, "TensorStorageMetadata", PG_PK_ATTRIBUTES, TENSOR},
    {META, "BytesStorageMetadata", PG_PK_ATTRIBUTES, BYTES},
    {META, "TensorProperties", PG_PK_ATTRIBUTES, OTHER},
    {META, "ChunkStorageMetadata", PG_PK_ATTRIBUTES, OTHER},
    {META, "MetadataIndex", PG_PK_ATTRIBUTES, OTHER},
    {META, "StorageMeta", PG_PK_ATTRIBUTES, OTHER},
    {META, "_MEM_FORMAT_ENCODING", 0, OTHER},
    {"torch.distributed.checkpoint.filesystem", "_StorageInfo", PG_PK_ATTRIBUTES, OTHER},
    {"torch", "Size", 0, SIZE},
    {"collections", "OrderedDict", PG_PK_ENTRIES, OTHER},
    TYPE("float16", PG_F16),
    TYPE("bfloat16", PG_BF16),
    TYPE("float32", PG_F32),
    TYPE("float64", PG_F64),
    TYPE("int8", PG_I8),
    TYPE("int16", PG_I16),
    TYPE("int32", PG_I32),
    TYPE("int64", PG_I64),
    TYPE("uint8", PG_U8),
    TYPE("uint16", PG_U16),
    TYPE("uint32", PG_U32),
    TYPE("uint64", PG_U64),
    TYPE("bool", PG_BOOL),
    TYPE("float8_e4m3fn", PG_F8_E4M3),
    TYPE("float8_e5m2", PG_F8_E5M2),
    TYPE("complex32", COMPLEX | PG_F16),
    TYPE("complex64", COMPLEX | PG_F32),
    TYPE("complex128", COMPLEX | PG_F64),
    {0},
};

/* Values are shared by reference, so a short text could name one list, or one name, without end.
 * What a real .metadata becomes is a fraction of its length. */
#define TIMES_TEXT    4u
#define TENSOR_CHARGE 64u
#define CHUNK_CHARGE  64u

static pg_status damaged(pg_err *err, const char *what)
{
    return pg_fail(err, PG_E_FORMAT, "damaged .metadata: %s", what);
}

static pg_status charge(pg__dcp *d, uint64_t n, pg_err *err)
{
    if (n > d->budget)
        return pg_fail(err, PG_E_LIMIT, "damaged .metadata: its parts are shared too often");
    d->budget -= n;
    return PG_OK;
}

static const pg__pk_value *item(const pg__pickle *p, const pg__pk_value *v, uint32_t i)
{
    return &p->v[v->u.items[i]];
}

/* What an object was restored from: the value that was put into it last. */
static const pg__pk_value *state_of(const pg__pickle *p, const pg__pk_value *v)
{
    return v->kind == PG_PK_CALL && v->n > 2 ? item(p, v, v->n - 1) : NULL;
}

static const pg__pk_value *attribute(const pg__pickle *p, const pg__pk_value *v, const char *name)
{
    const pg__pk_value *state = state_of(p, v);
    return state && state->kind == PG_PK_DICT ? pg__pickle_get(p, state, name) : NULL;
}

static int use_of(const pg__pickle *p, const pg__pk_value *v)
{
    if (v->kind == PG_PK_CALL)
        v = item(p, v, 0);
    return v->kind == PG_PK_GLOBAL ? globals[v->u.i].use : 0;
}

/* torch.Size of a tuple, a tuple or a list of numbers that are not negative. */
static int read_dims(uint64_t *dims, uint32_t *rank, const pg__pickle *p, const pg__pk_value *v)
{
    if (v && v->kind == PG_PK_CALL && use_of(p, v) == SIZE) {
        const pg__pk_value *args = item(p, v, 1);
        v = args->n == 1 ? item(p, args, 0) : NULL;
    }
    if (!v || (v->kind != PG_PK_TUPLE && v->kind != PG_PK_LIST) || v->n >= PG_MAX_RANK)
        return 0;
    *rank = v->n;
    for (uint32_t k = 0; k < v->n; k++) {
        const pg__pk_value *x = item(p, v, k);
        if (x->kind != PG_PK_INT || x->u.i < 0)
            return 0;
        dims[k] = (uint64_t)x->u.i;
    }
    return 1;
}

/* ---- where chunks are ---- */

/* An entry of storage_data. */
typedef struct place {
    const char *name;
    uint32_t n_name, rank;
    int has_offset;
    uint64_t offset[PG_MAX_RANK];
    const pg__pk_value *info;
} place;

static int by_name_and_offset(const void *a, const void *b)
{
    const place *x = a, *y = b;
    const uint32_t n = x->n_name < y->n_name ? x->n_name : y->n_name;
    const int c = memcmp(x->name, y->name, n);
    if (c)
        return c;
    if (x->n_name != y->n_name)
        return x->n_name < y->n_name ? -1 : 1;
    for (uint32_t k = 0; k < x->rank && k < y->rank; k++)
        if (x->offset[k] != y->offset[k])
            return x->offset[k] < y->offset[k] ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static pg_status list_places(place **out, size_t *n, const pg__pickle *p, const pg__pk_value *dict,
                             pg_err *err)
{
    pg_status st = PG_OK;
    place *v = pg__mem_array(dict->n / 2, sizeof *v);
    if (!v)
        return pg__nomem(err);
    for (uint32_t i = 0; i + 1 < dict->n; i += 2) {
        const pg__pk_value *index = item(p, dict, i);
        const pg__pk_value *name = attribute(p, index, "fqn"), *off = attribute(p, index, "offset");
        place *x = &v[*n];
        *x = (place){.info = item(p, dict, i + 1)};
        if (!name || name->kind != PG_PK_STR) {
            st = damaged(err, "an entry of storage_data makes no sense");
            goto done;
        }
        x->name = name->u.text;
        x->n_name = name->n;
        x->has_offset = off && off->kind != PG_PK_NONE; /* an object has none */
        if (x->has_offset && !read_dims(x->offset, &x->rank, p, off)) {
            st = damaged(err, "the offset of a chunk makes no sense");
            goto done;
        }
        ++*n;
    }
    if (*n)
        qsort(v, *n, sizeof *v, by_name_and_offset);
    *out = v;
    v = NULL;
done:
    pg__mem_free(v);
    return st;
}

/* "stream.zstd/1", the one extension that torch has for use. */
static void read_transforms(pg__dcp_item *x, const pg__pickle *p, const pg__pk_value *list)
{
    static const char zstd[] = "stream.zstd/1";
    if (!list || list->kind == PG_PK_NONE)
        return;
    const int is_list = list->kind == PG_PK_LIST || list->kind == PG_PK_TUPLE;
    const pg__pk_value *only = is_list && list->n == 1 ? item(p, list, 0) : NULL;
    x->zstd = only && only->kind == PG_PK_STR && only->n >= sizeof zstd - 1 &&
              memcmp(only->u.text, zstd, sizeof zstd - 1) == 0 &&
              (only->n == sizeof zstd - 1 || only->u.text[sizeof zstd - 1] == '.');
    x->foreign = !x->zstd && !(is_list && list->n == 0);
}

static pg_status read_item(pg__dcp_item *x, const pg__pickle *p, const pg__pk_value *info,
                           pg_err *err)
{
    const pg__pk_value *file = attribute(p, info, "relative_path");
    const pg__pk_value *off = attribute(p, info, "offset"), *n = attribute(p, info, "length");
    if (!file || file->kind != PG_PK_STR || !off || off->kind != PG_PK_INT || off->u.i < 0 || !n ||
        n->kind != PG_PK_INT || n->u.i < 0)
        return damaged(err, "the place of a chunk makes no sense");
    *x = (pg__dcp_item){
        .file = file->u.text, .n_file = file->n, .off = (uint64_t)off->u.i, .n = (uint64_t)n->u.i};
    read_transforms(x, p, attribute(p, info, "transform_descriptors"));
    return PG_OK;
}

/* ---- one tensor ---- */

static pg_status read_type(pg__dcp_tensor *t, const pg__pickle *p, const pg__pk_value *properties,
                           pg_err *err)
{
    const pg__pk_value *state = properties ? state_of(p, properties) : NULL;
    const pg__pk_value *type = state && state->kind == PG_PK_TUPLE && state->n ? item(p, state, 0)
                               : state ? attribute(p, properties, "dtype")
                                       : NULL;
    if (type && use_of(p, type) % 256 == DTYPE && type->kind == PG_PK_GLOBAL) {
        const int dtype = globals[type->u.i].use >> 8;
        t->type = globals[type->u.i].name;
        t->known = 1;
        t->is_complex = (dtype & COMPLEX) != 0;
        t->dtype = (pg_dtype)(dtype & ~COMPLEX);
        return PG_OK;
    }
    const pg__pk_foreign *f = type ? pg__pickle_foreign(p, type) : NULL;
    if (!f || f->n_module != 5 || memcmp(f->module, "torch", 5) != 0)
        return damaged(err, "a tensor without a type");
    t->type = "of a type that libpg has no name for";
    return PG_OK;
}

/* The item of a chunk. */
static pg_status find_chunk(pg__dcp *d, const pg__dcp_tensor *t, pg__tile *tile, uint32_t rank,
                            const place *places, size_t n_places, pg_err *err)
{
    place key = {.name = t->name, .n_name = (uint32_t)strlen(t->name), .rank = rank};
    memcpy(key.offset, tile->start, sizeof key.offset);
    const place *found =
        n_places ? bsearch(&key, places, n_places, sizeof key, by_name_and_offset) : NULL;
    if (!found)
        return pg_fail(err, PG_E_FORMAT, "%s: .metadata does not say where one of its chunks is",
                       PG_SHOW(t->name));
    if (pg__mem_grow(&d->items, &d->cap_items, d->n_items + 1, sizeof *d->items))
        return pg__nomem(err);
    tile->source = d->n_items;
    return read_item(&d->items[d->n_items++], &d->pickle, found->info, err);
}

static pg_status read_chunks(pg__dcp *d, pg__dcp_tensor *t, const pg__pk_value *chunks,
                             const place *places, size_t n_places, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__pickle *p = &d->pickle;
    PG_TRY(charge(d, (uint64_t)chunks->n * CHUNK_CHARGE, err));
    t->tiled.v = pg__mem_array(chunks->n, sizeof *t->tiled.v);
    if (!t->tiled.v)
        return pg__nomem(err);
    for (uint32_t i = 0; i < chunks->n; i++) {
        const pg__pk_value *chunk = item(p, chunks, i);
        pg__tile *tile = &t->tiled.v[i];
        uint32_t rank = 0, rank2 = 0;
        if (!read_dims(tile->start, &rank, p, attribute(p, chunk, "offsets")) ||
            !read_dims(tile->size, &rank2, p, attribute(p, chunk, "sizes")) ||
            rank != t->tiled.rank || rank2 != rank)
            PG_FAIL(PG_E_FORMAT, "%s: one of its chunks makes no sense", PG_SHOW(t->name));
        PG_TRY(find_chunk(d, t, tile, rank, places, n_places, err));
        if (t->is_complex)
            tile->size[rank] = 2;
        t->tiled.n++;
    }
done:
    return st;
}

static pg_status check_size(const pg__dcp_tensor *t, pg_err *err)
{
    uint64_t n = t->tiled.elem;
    for (uint32_t k = 0; k < t->tiled.rank; k++)
        if (__builtin_mul_overflow(n, t->tiled.dims[k], &n) || n > INT64_MAX)
            return pg_fail(err, PG_E_LIMIT, "%s: shape is too large", PG_SHOW(t->name));
    return PG_OK;
}

static pg_status read_tensor(pg__dcp *d, const pg__pk_value *key, const pg__pk_value *v,
                             const place *places, size_t n_places, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__pickle *p = &d->pickle;
    const pg__pk_value *chunks = attribute(p, v, "chunks");
    PG_TRY(charge(d, TENSOR_CHARGE + key->n, err));
    if (pg__mem_grow(&d->v, &d->cap, d->n + 1, sizeof *d->v))
        return pg__nomem(err);
    pg__dcp_tensor *t = &d->v[d->n++]; /* counted first: a failure releases it, too */
    *t = (pg__dcp_tensor){.name = pg__mem_strndup(key->u.text, key->n)};
    if (!t->name)
        return pg__nomem(err);
    t->tiled.name = t->name;
    PG_TRY(read_type(t, p, attribute(p, v, "properties"), err));
    if (!read_dims(t->tiled.dims, &t->tiled.rank, p, attribute(p, v, "size")) || !chunks ||
        chunks->kind != PG_PK_LIST)
        PG_FAIL(PG_E_FORMAT, "%s: its shape makes no sense", PG_SHOW(t->name));
    t->tiled.elem = t->known ? pg_dtype_bytes(t->dtype) : 1;
    PG_TRY(check_size(t, err));
    PG_TRY(read_chunks(d, t, chunks, places, n_places, err));
    if (t->is_complex)
        t->tiled.dims[t->tiled.rank++] = 2;
    PG_TRY(check_size(t, err));
    PG_TRY(pg__tiles_check(&t->tiled, err));
done:
    return st;
}

/* ---- the containers around it ---- */

static pg_status add_key(pg__dcp *d, pg__dcp_tensor *t, const pg__pk_value *key, pg_err *err)
{
    const pg_status st = charge(d, sizeof(char *) + (key->kind == PG_PK_STR ? key->n : 0), err);
    char number[24];
    const int is_text = key->kind == PG_PK_STR;
    if (!is_text && key->kind != PG_PK_INT)
        return damaged(err, "a key in planner_data is neither text nor a number");
    if (st != PG_OK)
        return st;
    const int n = snprintf(number, sizeof number, "%lld", is_text ? 0 : (long long)key->u.i);
    char *copy = pg__mem_strndup(is_text ? key->u.text : number, is_text ? key->n : (size_t)n);
    if (!copy)
        return pg__nomem(err);
    t->path[t->n_path++] = copy;
    return PG_OK;
}

/* An entry of planner_data. */
typedef struct plan {
    const pg__pk_value *name, *keys;
} plan;

static int by_text(const void *a, const void *b)
{
    const pg__pk_value *x = ((const plan *)a)->name, *y = ((const plan *)b)->name;
    const int c = memcmp(x->u.text, y->u.text, x->n < y->n ? x->n : y->n);
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

static pg_status list_plans(plan **out, size_t *n, const pg__pickle *p, const pg__pk_value *dict,
                            pg_err *err)
{
    const int there = dict && dict->kind == PG_PK_DICT;
    plan *v = pg__mem_array(there ? dict->n / 2 : 0, sizeof *v);
    if (!v)
        return pg__nomem(err);
    for (uint32_t i = 0; there && i + 1 < dict->n; i += 2)
        if (item(p, dict, i)->kind == PG_PK_STR)
            v[(*n)++] = (plan){item(p, dict, i), item(p, dict, i + 1)};
    if (*n)
        qsort(v, *n, sizeof *v, by_text);
    *out = v;
    return PG_OK;
}

/* A name's keys where .metadata has none (flatten_state_dict=False, Megatron-Core) or one for all
 * (flatten_optimizer_state_dict=True): only those are taken apart that say what is no weight,
 * "optimizer" first or "exp_avg" last, where the name is cut. */
pg_status pg__dcp_guess_path(pg__dcp *d, pg__dcp_tensor *t, size_t cut, pg_err *err)
{
    const size_t n = strlen(t->name);
    const pg__pk_value first = {
        .kind = PG_PK_STR, .n = (uint32_t)(cut ? cut : n), .u.text = t->name};
    const pg__pk_value rest = {
        .kind = PG_PK_STR, .n = (uint32_t)(n - cut - 1), .u.text = t->name + cut + 1};
    t->guessed = 1;
    t->path = pg__mem_array(2, sizeof *t->path);
    if (!t->path)
        return pg__nomem(err);
    const pg_status st = add_key(d, t, &first, err);
    return st == PG_OK && cut ? add_key(d, t, &rest, err) : st;
}

static pg_status read_path(pg__dcp *d, pg__dcp_tensor *t, const plan *plans, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__pickle *p = &d->pickle;
    const pg__pk_value own = {.kind = PG_PK_STR, .n = (uint32_t)strlen(t->name), .u.text = t->name};
    const plan key = {.name = &own};
    const plan *found = n ? bsearch(&key, plans, n, sizeof key, by_text) : NULL;
    const pg__pk_value *keys = found ? found->keys : NULL;
    if (!keys || (keys->kind != PG_PK_TUPLE && keys->kind != PG_PK_LIST) || !keys->n)
        return pg__dcp_guess_path(d, t, pg__dcp_training_cut(t->name), err);
    if (keys->n == 1 && pg__dcp_slot_cut(t->name))
        return pg__dcp_guess_path(d, t, pg__dcp_slot_cut(t->name), err);
    if (keys->n > PG_LIMIT_PICKLE_DEPTH)
        return pg_fail(err, PG_E_LIMIT, "%s: more than %u containers around it", PG_SHOW(t->name),
                       PG_LIMIT_PICKLE_DEPTH);
    t->path = pg__mem_array(keys->n, sizeof *t->path);
    if (!t->path)
        return pg__nomem(err);
    for (uint32_t i = 0; i < keys->n; i++)
        PG_TRY(add_key(d, t, item(p, keys, i), err));
done:
    return st;
}

/* ---- the whole ---- */

static pg_status read_all(pg__dcp *d, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__pickle *p = &d->pickle;
    const pg__pk_value *root = &p->v[p->root];
    const pg__pk_value *tensors = attribute(p, root, "state_dict_metadata");
    const pg__pk_value *storage = attribute(p, root, "storage_data");
    place *places = NULL;
    plan *plans = NULL;
    size_t n_places = 0, n_plans = 0;
    if (!tensors || tensors->kind != PG_PK_DICT || !storage || storage->kind != PG_PK_DICT) {
        st = damaged(err, "it does not describe a checkpoint");
        goto done;
    }
    PG_TRY(list_places(&places, &n_places, p, storage, err));
    PG_TRY(list_plans(&plans, &n_plans, p, attribute(p, root, "planner_data"), err));
    for (uint32_t i = 0; i + 1 < tensors->n; i += 2) {
        const pg__pk_value *key = item(p, tensors, i), *v = item(p, tensors, i + 1);
        if (key->kind != PG_PK_STR || memchr(key->u.text, 0, key->n)) {
            st = damaged(err, "a name is not a text");
            goto done;
        }
        if (use_of(p, v) == BYTES) {
            PG_TRY(charge(d, TENSOR_CHARGE + key->n, err));
            PG_TRY(pg__strs_add(&d->objects, key->u.text, key->n, err));
            continue;
        }
        if (use_of(p, v) != TENSOR) {
            st = damaged(err, "an entry is neither a tensor nor an object");
            goto done;
        }
        PG_TRY(read_tensor(d, key, v, places, n_places, err));
        PG_TRY(read_path(d, &d->v[d->n - 1], plans, n_plans, err));
    }
done:
    pg__mem_free(places);
    pg__mem_free(plans);
    return st;
}

pg_status pg__dcp_is_metadata(int *is, pg__io *io, pg_err *err)
{
    char head[LOOK];
    const size_t n = pg__io_size(io) < LOOK ? (size_t)pg__io_size(io) : LOOK;
    const pg_status st = pg__io_read(io, 0, head, n, err);
    *is = st == PG_OK && memmem(head, n, META, sizeof META - 1);
    return st;
}

pg_status pg__dcp_read(pg__dcp *out, pg__io *io, pg_err *err)
{
    pg_status st = PG_OK;
    pg__dcp d = {0};
    const uint64_t n = pg__io_size(io);
    if (n > PG_LIMIT_PICKLE_BYTES)
        return pg_fail(err, PG_E_LIMIT, "a pickle of more than %s bytes",
                       PG_NUM(PG_LIMIT_PICKLE_BYTES));
    d.text = pg__mem_array((size_t)n, 1);
    if (!d.text)
        return pg__nomem(err);
    PG_TRY(pg__io_read(io, 0, d.text, (size_t)n, err));
    d.budget = TIMES_TEXT * n;
    PG_TRY(pg__pickle_read_stored(&d.pickle, d.text, (size_t)n, globals, err));
    PG_TRY(read_all(&d, err));
    pg__pickle_fini(&d.pickle); /* items need the text alone */
    *out = d;
    d = (pg__dcp){0};
done:
    pg__dcp_fini(&d);
    return st;
}

void pg__dcp_fini(pg__dcp *d)
{
    for (size_t i = 0; i < d->n; i++) {
        for (size_t k = 0; k < d->v[i].n_path; k++)
            pg__mem_free(d->v[i].path[k]);
        pg__mem_free(d->v[i].path);
        pg__mem_free(d->v[i].name);
        pg__mem_free(d->v[i].tiled.v);
    }
    pg__mem_free(d->v);
    pg__mem_free(d->items);
    pg__strs_fini(&d->objects);
    pg__pickle_fini(&d->pickle);
    pg__mem_free(d->text);
    *d = (pg__dcp){0};
}
