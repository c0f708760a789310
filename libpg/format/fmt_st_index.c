/* fmt_st_index.c - safetensors, or what torch.save() wrote (.bin), in several files
 * (huggingface_hub, transformers), through their index:
 *
 *     {"metadata": {"total_size": 592},
 *      "weight_map": {"dense.weight": "model-00001-of-00002.safetensors"}}
 *
 * The store looks like that of one safetensors file with all tensors, in the order of the shards.
 * Names of shards are file names, looked up beside the index; every tensor must be in the shard
 * that the index says, and nowhere else. */
#include <stdlib.h>
#include <string.h>

#include "base/bsd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/safetensors.h"
#include "format/shards.h"
#include "io/beside.h"

typedef struct parts {
    pg_store **v;
    size_t *first; /* number of the first tensor of each, in the whole store */
    size_t n;
} parts;

typedef struct mapped {
    const char *tensor, *shard;
    int seen;
} mapped;

static int probe(const uint8_t *head, size_t n)
{
    size_t i = 0;
    while (i < n && (head[i] == ' ' || head[i] == '\t' || head[i] == '\n' || head[i] == '\r'))
        i++;
    return i < n && head[i] == '{';
}

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const mapped *)a)->tensor, ((const mapped *)b)->tensor);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static pg_status parse(pg__json **out, pg__io *io, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t n = pg__io_size(io);
    const int named = path && pg__ends_with(path, ".safetensors.index.json");
    char *text = NULL;
    if (n > PG_LIMIT_JSON_BYTES)
        return pg_fail(err, named ? PG_E_LIMIT : PG_E_UNKNOWN, "more than %llu MiB of JSON",
                       (unsigned long long)PG_LIMIT_JSON_BYTES >> 20);
    text = pg__mem_array((size_t)n + 1, 1);
    if (!text)
        return pg__nomem(err);
    PG_TRY(pg__io_read(io, 0, text, (size_t)n, err));
    if (!named && !memmem(text, (size_t)n, ".safetensors", 12) &&
        !memmem(text, (size_t)n, ".bin", 4))
        PG_FAIL(PG_E_UNKNOWN, "JSON, but not an index of shards");
    st = pg__json_parse(out, text, (size_t)n, err);
    if ((st == PG_E_FORMAT || st == PG_E_LIMIT) && !named)
        st = pg_fail(err, PG_E_UNKNOWN, "not a JSON index of shards");
done:
    pg__mem_free(text);
    return st;
}

/* Sorts the map by tensor, and the shards, without repeats. */
static pg_status read_map(mapped **map, size_t *n_map, pg__strs *shards, const pg__json *json,
                          pg_err *err)
{
    pg_status st = PG_OK;
    pg__json_iter it = {.obj = pg__json_get(json, "weight_map")};
    const size_t n = pg__json_len(it.obj);
    size_t kept = 0;
    mapped *v = NULL;
    if (pg__json_type_of(it.obj) != PG_J_OBJECT)
        PG_FAIL(PG_E_UNKNOWN, "JSON, but not an index of shards (no weight_map)");
    v = pg__mem_array(n, sizeof *v);
    if (!v)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; pg__json_next(&it); i++) {
        size_t len = 0;
        const char *shard = pg__json_bytes(it.value, &len);
        if (!shard || strlen(shard) != len ||
            (!pg__ends_with(shard, ".safetensors") && !pg__ends_with(shard, ".bin")))
            PG_FAIL(i ? PG_E_FORMAT : PG_E_UNKNOWN,
                    "weight_map: %s: not the name of a .safetensors or .bin file", PG_SHOW(it.key));
        v[i] = (mapped){.tensor = it.key, .shard = shard};
        if (shards->n == 0 || strcmp(shards->v[shards->n - 1], shard) != 0)
            PG_TRY(pg__strs_add(shards, shard, len, err));
    }
    if (n)
        qsort(v, n, sizeof *v, by_tensor);
    if (shards->n)
        qsort(shards->v, shards->n, sizeof *shards->v, by_name);
    for (size_t i = 0; i < shards->n; i++)
        if (kept && strcmp(shards->v[kept - 1], shards->v[i]) == 0)
            pg__mem_free(shards->v[i]);
        else
            shards->v[kept++] = shards->v[i];
    shards->n = kept;
    *map = v;
    *n_map = n;
    v = NULL;
done:
    pg__mem_free(v);
    return st;
}

static pg_status open_shard(pg_store **out, pg__shard_faults *f, const char *name,
                            pg__beside *folder, const pg_open_opts *opts, pg_err *err)
{
    pg_err e = {0};
    pg__io *io = NULL;
    int gone = 0;
    pg_status st = pg__beside_open(&io, folder, name, &gone, &e);
    if (st == PG_OK && pg__io_size(io) < 9)
        st = pg_fail(&e, PG_E_FORMAT, "not a safetensors file");
    if (st == PG_OK)
        st = (pg__ends_with(name, ".bin") ? &pg__fmt_pytorch : &pg__fmt_safetensors)
                 ->open(out, io, name, opts, &e);
    pg__io_close(io);
    if (st == PG_OK)
        return PG_OK;
    return st == PG_E_NOMEM ? pg__nomem(err)
           : gone           ? pg__strs_printf(&f->missing, err, "%s", PG_SHOW(name))
                            : pg__strs_printf(&f->damaged, err, "%s (%s)", PG_SHOW(name), e.msg);
}

/* Opens every shard; one error reports everything that is wrong with them. */
static pg_status open_shards(parts *p, const pg__strs *shards, const char *path,
                             const pg_open_opts *opts, pg_err *err)
{
    pg_status st = PG_OK;
    pg__shard_faults f = {0};
    pg__beside folder = {.folder = -1};
    p->v = pg__mem_array(shards->n, sizeof(pg_store *));
    p->first = pg__mem_array(shards->n, sizeof *p->first);
    if (!p->v || !p->first)
        return pg__nomem(err);
    p->n = shards->n;
    PG_TRY(pg__beside_start(&folder, path, err));
    for (size_t i = 0; i < shards->n; i++)
        PG_TRY(open_shard(&p->v[i], &f, shards->v[i], &folder, opts, err));
    st = pg__shard_faults_report(&f, shards->n, 1, err);
done:
    pg__beside_fini(&folder);
    pg__shard_faults_fini(&f);
    return st;
}

static void close_parts(void *ctx)
{
    parts *p = ctx;
    for (size_t i = 0; i < p->n; i++)
        pg_store_close(p->v[i]);
    pg__mem_free(p->v);
    pg__mem_free(p->first);
    pg__mem_free(p);
}

/* For shards whose tensors are not extents of a file. */
static pg_status read_part(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    const parts *p = ctx;
    size_t lo = 0, hi = p->n;
    while (hi - lo > 1) {
        const size_t mid = lo + (hi - lo) / 2;
        *(p->first[mid] <= tensor ? &lo : &hi) = mid;
    }
    return pg__store_read_raw(p->v[lo], tensor - p->first[lo], off, buf, n, err);
}

/* Adds the tensors of one shard; each must be mapped to it, else the shard is another file. */
static pg_status add_part(pg_store *out, const pg_store *part, const char *shard, mapped *map,
                          size_t n_map, pg__shard_faults *f, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < pg_store_n_weights(part); i++) {
        const pg_weight *w = pg_store_weight(part, i);
        const mapped key = {.tensor = w->name};
        mapped *m = n_map ? bsearch(&key, map, n_map, sizeof *map, by_tensor) : NULL;
        if (!m || strcmp(m->shard, shard) != 0)
            return pg__strs_printf(&f->damaged, err, "%s (holds %s, which the index has in %s)",
                                   PG_SHOW(shard), PG_SHOW(w->name),
                                   m ? PG_SHOW(m->shard) : "no shard");
        m->seen = 1;
        const pg__tensor_desc d = {.name = w->name,
                                   .dtype = w->dtype,
                                   .rank = w->rank,
                                   .dims = w->dims,
                                   .extent = pg__store_extent(part, i)};
        PG_TRY(pg__store_add_weight(out, &d, err));
    }
done:
    return st;
}

static pg_status add_parts(pg_store *out, const parts *p, const pg__strs *shards, mapped *map,
                           size_t n_map, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    pg__shard_faults f = {0};
    for (size_t i = 0; i < p->n; i++) {
        p->first[i] = pg_store_n_weights(out);
        PG_TRY(add_part(out, p->v[i], shards->v[i], map, n_map, &f, err));
    }
    PG_TRY(pg__shard_faults_report(&f, p->n, 1, err));
    const char *text = p->n ? pg_store_text(p->v[0], PG_TEXT_METADATA, &n) : NULL;
    const char *writer = p->n ? pg_store_writer(p->v[0]) : NULL;
    if (text)
        PG_TRY(pg__store_set_text(out, PG_TEXT_METADATA, text, n, err));
    if (writer)
        PG_TRY(pg__store_set_writer(out, writer, err));
    for (size_t i = 0; i < n_map; i++)
        if (!map[i].seen)
            PG_FAIL(PG_E_FORMAT, "%s: %s is not in it", PG_SHOW(map[i].shard),
                    PG_SHOW(map[i].tensor));
done:
    pg__shard_faults_fini(&f);
    return st;
}

static pg_status open_index(pg_store **out, pg__io *io, const char *path, const pg_open_opts *opts,
                            pg_err *err)
{
    static const pg__store_io data = {.read = read_part, .close = close_parts};
    pg_status st = PG_OK;
    pg__json *json = NULL;
    pg__strs shards = {0};
    mapped *map = NULL;
    size_t n_map = 0;
    pg_store *s = NULL;
    parts *p = NULL;
    if (!path)
        return pg_fail(err, PG_E_UNKNOWN, "an index of shards is read from a file, beside them");
    PG_TRY(parse(&json, io, path, err));
    PG_TRY(read_map(&map, &n_map, &shards, json, err));
    p = pg__mem_array(1, sizeof *p);
    if (!p)
        PG_TRY(pg__nomem(err));
    PG_TRY(open_shards(p, &shards, path, opts, err));
    PG_TRY(pg__store_new(&s, pg__fmt_safetensors.name, NULL, NULL, err));
    PG_TRY(add_parts(s, p, &shards, map, n_map, err));
    pg__store_own(s, &data, p);
    p = NULL;
    *out = s;
    s = NULL;
done:
    if (p)
        close_parts(p);
    pg_store_close(s);
    pg__mem_free(map);
    pg__strs_fini(&shards);
    pg__json_free(json);
    return st;
}

const pg__format pg__fmt_st_index = {
    .name = "safetensors-index",
    .probe = probe,
    .open = open_index,
    .suffixes = ".safetensors.index.json\0",
};
