/* zarr.c - arrays of zarr, versions 2 and 3, as TensorStore writes them for Orbax
 * (zarr-specs.readthedocs.io): C order, chunks on a regular grid, raw or compressed by Zstandard;
 * in version 3 perhaps several chunks in one value, with an index ("sharding_indexed"). */
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/orbax/orbax.h"

#define METADATA_MOST ((size_t)1 << 20) /* of one array; Orbax' are some hundred bytes */

static const struct {
    const char *v2, *v3;
    pg_dtype dtype;
    int is_complex;
} types[] = {
    {"f4", "float32", PG_F32, 0},  {"bfloat16", "bfloat16", PG_BF16, 0},
    {"f2", "float16", PG_F16, 0},  {"f8", "float64", PG_F64, 0},
    {"i1", "int8", PG_I8, 0},      {"i2", "int16", PG_I16, 0},
    {"i4", "int32", PG_I32, 0},    {"i8", "int64", PG_I64, 0},
    {"u1", "uint8", PG_U8, 0},     {"u2", "uint16", PG_U16, 0},
    {"u4", "uint32", PG_U32, 0},   {"u8", "uint64", PG_U64, 0},
    {"b1", "bool", PG_BOOL, 0},    {"c8", "complex64", PG_F32, 1},
    {"c16", "complex128", PG_F64, 1},
    {"float8_e4m3fn", "float8_e4m3fn", PG_F8_E4M3, 0},
    {"float8_e5m2", "float8_e5m2", PG_F8_E5M2, 0},
};

static pg_status damaged(const pg__zarr *a, const char *what, pg_err *err)
{
    return pg_fail(err, PG_E_FORMAT, "%s: %s", PG_SHOW(a->name), what);
}

static pg_status foreign(const pg__zarr *a, const char *what, pg_err *err)
{
    return pg_fail(err, PG_E_UNSUPPORTED, "%s: %s, which Orbax does not write", PG_SHOW(a->name),
                   what);
}

/* ---- metadata ---- */

/* "<f4" of version 2, "float32" of 3. */
static pg_status read_type(pg__zarr *a, const char *word, pg_err *err)
{
    if (!word)
        return damaged(a, "an array without a type", err);
    const int order = a->version == 2 && strchr("<>|", *word) && *word;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(word + order, a->version == 2 ? types[i].v2 : types[i].v3) == 0) {
            a->dtype = types[i].dtype;
            a->is_complex = types[i].is_complex;
            a->big_endian = *word == '>';
            return PG_OK;
        }
    return pg_fail(err, PG_E_UNSUPPORTED, "%s: type %s is not supported", PG_SHOW(a->name),
                   PG_SHOW(word));
}

static pg_status read_dims(const pg__zarr *a, uint64_t *dims, uint32_t *rank, const pg__json *list,
                           pg_err *err)
{
    const size_t n = pg__json_len(list);
    if (pg__json_type_of(list) != PG_J_ARRAY)
        return damaged(a, "a shape that is no list", err);
    if (n >= PG_MAX_RANK)
        return pg_fail(err, PG_E_LIMIT, "%s: %zu dimensions", PG_SHOW(a->name), n);
    for (size_t k = 0; k < n; k++) {
        int64_t x = 0;
        if (!pg__json_int(pg__json_at(list, k), &x) || x < 0)
            return damaged(a, "a shape that is not of numbers", err);
        dims[k] = (uint64_t)x;
    }
    *rank = (uint32_t)n;
    return PG_OK;
}

/* What TensorStore gives for no chunk: null counts as zero. */
static int is_zero(const pg__json *fill)
{
    double x = 0;
    for (size_t i = 0; pg__json_type_of(fill) == PG_J_ARRAY && i < pg__json_len(fill); i++)
        if (!pg__json_num(pg__json_at(fill, i), &x) || x != 0)
            return 0;
    switch (fill ? pg__json_type_of(fill) : PG_J_NULL) {
    case PG_J_NULL:
    case PG_J_ARRAY: return 1;
    case PG_J_STRING: return 0;
    default: return !pg__json_bool(fill, 1);
    }
}

static pg_status read_v2(pg__zarr *a, const pg__json *j, pg_err *err)
{
    pg_status st = PG_OK;
    uint32_t rank = 0;
    const pg__json *compressor = pg__json_get(j, "compressor");
    const pg__json *filters = pg__json_get(j, "filters");
    const char *order = pg__json_get_str(j, "order");
    const char *separator = pg__json_get_str(j, "dimension_separator");
    PG_TRY(read_type(a, pg__json_get_str(j, "dtype"), err));
    PG_TRY(read_dims(a, a->tiled.dims, &a->tiled.rank, pg__json_get(j, "shape"), err));
    PG_TRY(read_dims(a, a->tiled.step, &rank, pg__json_get(j, "chunks"), err));
    if (rank != a->tiled.rank)
        return damaged(a, "chunks of another rank", err);
    if (order && strcmp(order, "C") != 0)
        return foreign(a, "an array in Fortran order", err);
    if (filters && pg__json_type_of(filters) != PG_J_NULL && pg__json_len(filters))
        return foreign(a, "an array with filters", err);
    if (compressor && pg__json_type_of(compressor) != PG_J_NULL) {
        const char *id = pg__json_get_str(compressor, "id");
        if (!id || strcmp(id, "zstd") != 0)
            return foreign(a, "another compression than Zstandard", err);
        a->compressed = 1;
    }
    a->separator = separator && *separator == '/' ? '/' : '.';
    a->fill_is_zero = is_zero(pg__json_get(j, "fill_value"));
    memcpy(a->shard, a->tiled.step, sizeof a->shard);
done:
    return st;
}

/* A list of codecs: bytes, perhaps zstd. */
static pg_status read_codecs(pg__zarr *a, const pg__json *list, pg_err *err)
{
    for (size_t i = 0; i < pg__json_len(list); i++) {
        const pg__json *codec = pg__json_at(list, i), *c = pg__json_get(codec, "configuration");
        const char *name = pg__json_get_str(codec, "name");
        const char *endian = pg__json_get_str(c, "endian");
        if (name && strcmp(name, "bytes") == 0)
            a->big_endian = endian && strcmp(endian, "big") == 0;
        else if (name && strcmp(name, "zstd") == 0)
            a->compressed = 1;
        else
            return foreign(a, "a codec other than bytes and zstd", err);
    }
    return PG_OK;
}

static pg_status read_sharding(pg__zarr *a, const pg__json *c, pg_err *err)
{
    pg_status st = PG_OK;
    uint32_t rank = 0;
    const char *where = pg__json_get_str(c, "index_location");
    const pg__json *index = pg__json_get(c, "index_codecs");
    const char *second = pg__json_get_str(pg__json_at(index, 1), "name");
    PG_TRY(read_dims(a, a->tiled.step, &rank, pg__json_get(c, "chunk_shape"), err));
    if (rank != a->tiled.rank)
        return damaged(a, "chunks of another rank", err);
    if (pg__json_len(index) != 2 || !second || strcmp(second, "crc32c") != 0)
        return foreign(a, "an index of chunks without a CRC-32C", err);
    a->is_sharded = 1;
    a->index_first = where && strcmp(where, "start") == 0;
    st = read_codecs(a, pg__json_get(c, "codecs"), err);
done:
    return st;
}

static pg_status read_v3(pg__zarr *a, const pg__json *j, pg_err *err)
{
    pg_status st = PG_OK;
    uint32_t rank = 0;
    const pg__json *grid = pg__json_get(j, "chunk_grid"), *codecs = pg__json_get(j, "codecs");
    const pg__json *keys = pg__json_get(j, "chunk_key_encoding");
    const char *first = pg__json_get_str(pg__json_at(codecs, 0), "name");
    const char *encoding = pg__json_get_str(keys, "name");
    const char *separator = pg__json_get_str(pg__json_get(keys, "configuration"), "separator");
    PG_TRY(read_type(a, pg__json_get_str(j, "data_type"), err));
    PG_TRY(read_dims(a, a->tiled.dims, &a->tiled.rank, pg__json_get(j, "shape"), err));
    PG_TRY(read_dims(a, a->shard, &rank,
                     pg__json_get(pg__json_get(grid, "configuration"), "chunk_shape"), err));
    if (rank != a->tiled.rank)
        return damaged(a, "chunks of another rank", err);
    if (!encoding || strcmp(encoding, "default") != 0)
        return foreign(a, "another encoding of keys than the default", err);
    a->separator = separator && *separator == '.' ? '.' : '/';
    a->fill_is_zero = is_zero(pg__json_get(j, "fill_value"));
    memcpy(a->tiled.step, a->shard, sizeof a->shard);
    if (first && strcmp(first, "sharding_indexed") == 0 && pg__json_len(codecs) == 1)
        st = read_sharding(a, pg__json_get(pg__json_at(codecs, 0), "configuration"), err);
    else
        st = read_codecs(a, codecs, err);
done:
    return st;
}

/* ---- chunks ---- */

/* Complex numbers are a last dimension. */
static pg_status make_grid(pg__zarr *a, pg_err *err)
{
    pg__tiled *t = &a->tiled;
    uint64_t bytes = pg_dtype_bytes(a->dtype);
    if (a->is_complex) {
        t->dims[t->rank] = t->step[t->rank] = a->shard[t->rank] = 2;
        t->rank++;
    }
    t->name = a->name;
    t->elem = (size_t)bytes;
    a->in_shard = 1;
    for (uint32_t k = 0; k < t->rank; k++) {
        if (t->step[k] == 0 || a->shard[k] == 0 || a->shard[k] % t->step[k])
            return damaged(a, t->step[k] ? "chunks that do not divide a shard"
                                         : "chunks without elements", err);
        if (__builtin_mul_overflow(bytes, t->step[k], &bytes) || bytes > INT64_MAX ||
            __builtin_mul_overflow(a->in_shard, a->shard[k] / t->step[k], &a->in_shard) ||
            a->in_shard > PG_LIMIT_OBJECTS)
            return pg_fail(err, PG_E_LIMIT, "%s: its chunks are too large", PG_SHOW(a->name));
    }
    return pg__tiles_grid(t, err);
}

pg_status pg__zarr_open(pg__zarr *out, int *there, const pg__kv *kv, const char *name, pg_err *err)
{
    static const char *const files[] = {".zarray", "zarr.json"};
    pg_status st = PG_OK;
    pg__zarr a = {.name = pg__mem_strdup(name)};
    pg__str key = {0};
    pg__json *json = NULL;
    unsigned char *text = NULL;
    size_t n = 0;
    if (!a.name)
        return pg__nomem(err);
    for (int i = 0; i < 2 && !text; i++) {
        key.n = 0;
        PG_TRY(pg__str_printf(&key, err, "%s/%s", name, files[i]));
        PG_TRY(pg__kv_get(kv, key.s, METADATA_MOST, &text, &n, err));
        a.version = 2 + i;
    }
    *there = text != NULL;
    if (!text)
        goto done;
    st = pg__json_parse(&json, (const char *)text, n, err);
    if (st == PG_OK)
        st = a.version == 2 ? read_v2(&a, json, err) : read_v3(&a, json, err);
    PG_TRY(st);
    PG_TRY(make_grid(&a, err));
    *out = a;
    a = (pg__zarr){0};
done:
    pg__json_free(json);
    pg__mem_free(text);
    pg__str_fini(&key);
    pg__zarr_fini(&a);
    return st;
}

void pg__zarr_fini(pg__zarr *a)
{
    pg__mem_free(a->name);
    pg__mem_free(a->tiled.v);
    *a = (pg__zarr){0};
}
