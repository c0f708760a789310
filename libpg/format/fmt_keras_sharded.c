/* fmt_keras_sharded.c - weights in several files (Keras 3.10 and later), through their index:
 *
 *     {"metadata": {"total_size": 592.0},
 *      "weight_map": {"/layers/dense/vars": "x_00000.weights.h5",
 *                     "/layers/conv2d/vars": ["x_00000.weights.h5", ...]}}
 *
 * All shards together are one path layout (fmt_keras_v3.c). What the index says about a group is
 * checked, and what it omits is searched for: genuine indexes name one shard for a group that is in
 * two, and their total_size counts optimizer variables that Keras 3.10 did not write (it loses what
 * follows the first overflow of the last group). Names of shards are file names, looked up beside
 * the index. There is no writer: a sharded checkpoint is rewritten as one .weights.h5. */
#include "base/str.h"
#include "format/fmt_keras_v3.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/shards.h"
#include "io/beside.h"

static int probe(const uint8_t *head, size_t n)
{
    size_t i = 0;
    while (i < n && (head[i] == ' ' || head[i] == '\t' || head[i] == '\n' || head[i] == '\r'))
        i++;
    return i < n && head[i] == '{';
}

/* Keys are "/layers/.../vars" and shards are .h5 files: other indexes map tensors to .safetensors.
 */
static int is_index(const pg__json *json)
{
    pg__json_iter it = {.obj = pg__json_get(json, "weight_map")};
    if (pg__json_type_of(it.obj) != PG_J_OBJECT || !pg__json_next(&it) || it.key[0] != '/')
        return 0;
    const pg__json *first =
        pg__json_type_of(it.value) == PG_J_ARRAY ? pg__json_at(it.value, 0) : it.value;
    const char *shard = pg__json_str(first);
    return shard && pg__ends_with(shard, ".h5");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static pg_status add_shard(pg__strs *out, const char *key, const pg__json *value, pg_err *err)
{
    size_t n = 0;
    const char *s = pg__json_bytes(value, &n);
    if (!s || n == 0 || strlen(s) != n)
        return pg_fail(err, PG_E_FORMAT, "weight_map: %s: not the name of a shard", PG_SHOW(key));
    if (out->n && strcmp(out->v[out->n - 1], s) == 0)
        return PG_OK;
    return pg__strs_add(out, s, n, err);
}

/* The names of all shards, sorted, without repeats. */
static pg_status list_shards(pg__strs *out, const pg__json *map, pg_err *err)
{
    pg_status st = PG_OK;
    pg__json_iter it = {.obj = map};
    while (pg__json_next(&it)) {
        const int list = pg__json_type_of(it.value) == PG_J_ARRAY;
        const size_t n = list ? pg__json_len(it.value) : 1;
        for (size_t i = 0; i < n; i++)
            PG_TRY(add_shard(out, it.key, list ? pg__json_at(it.value, i) : it.value, err));
    }
    if (out->n)
        qsort(out->v, out->n, sizeof *out->v, by_name);
    size_t kept = 0;
    for (size_t i = 0; i < out->n; i++) {
        if (kept && strcmp(out->v[kept - 1], out->v[i]) == 0)
            pg__mem_free(out->v[i]);
        else
            out->v[kept++] = out->v[i];
    }
    out->n = kept;
done:
    return st;
}

/* Opens every shard; one error names all that are missing or not HDF5. */
static pg_status open_shards(pg__io **ios, pg__h5 **h5s, const pg__strs *names, const char *path,
                             pg_err *err)
{
    pg_status st = PG_OK;
    pg__shard_faults f = {0};
    pg__beside folder = {.folder = -1};
    PG_TRY(pg__beside_start(&folder, path, err));
    for (size_t i = 0; i < names->n; i++) {
        pg_err e = {0};
        int gone = 0;
        pg_status one = pg__beside_open(&ios[i], &folder, names->v[i], &gone, &e);
        if (one == PG_OK)
            one = pg__h5_open(&h5s[i], ios[i], &e);
        if (gone) {
            PG_TRY(pg__strs_printf(&f.missing, err, "%s", PG_SHOW(names->v[i])));
        } else if (one == PG_E_FORMAT || one == PG_E_LIMIT) {
            PG_TRY(pg__strs_printf(&f.damaged, err, "%s (%s)", PG_SHOW(names->v[i]), e.msg));
        } else if (one != PG_OK) {
            if (one != PG_E_IO) /* whose message has the path */
                pg_err_prefix(&e, PG_SHOW(names->v[i]));
            if (err)
                *err = e;
            st = one;
            goto done;
        }
    }
    st = pg__shard_faults_report(&f, names->n, 1, err);
done:
    pg__beside_fini(&folder);
    pg__shard_faults_fini(&f);
    return st;
}

/* The parts own the HDF5 files that they were given. */
static pg_status add_parts(pg__v3 *v, pg__io *const *ios, pg__h5 **h5s, const pg__strs *names,
                           pg_err *err)
{
    for (size_t i = 0; i < names->n; i++) {
        const pg_status st = pg__v3_add_part(v, h5s[i], ios[i], names->v[i], err);
        if (st != PG_OK) {
            pg_err_prefix(err, PG_SHOW(names->v[i]));
            return st;
        }
        h5s[i] = NULL;
    }
    return PG_OK;
}

/* Number of a shard; names are sorted, and parts have the same order. */
static size_t part_of(const pg__strs *names, const pg__json *name)
{
    const char *key = pg__json_str(name);
    char *const *at = bsearch(&key, names->v, names->n, sizeof *names->v, by_name);
    return (size_t)(at - names->v);
}

/* Every group named by the index must be in the shards named for it; else these are other files. */
static pg_status check_map(const pg__v3 *v, const pg__strs *names, const pg__json *map, pg_err *err)
{
    pg_status st = PG_OK;
    pg__json_iter it = {.obj = map};
    pg__shard_faults f = {0};
    unsigned char *reported = pg__mem_array(v->n_parts, 1);
    if (!reported)
        return pg__nomem(err);
    while (pg__json_next(&it)) {
        const int list = pg__json_type_of(it.value) == PG_J_ARRAY;
        const size_t n = list ? pg__json_len(it.value) : 1;
        if (it.key[0] != '/' || strlen(it.key) != it.key_len)
            PG_FAIL(PG_E_FORMAT, "weight_map: \"%s\" is not a path", PG_SHOW(it.key));
        for (size_t k = 0; k < n; k++) {
            const pg__json *name = list ? pg__json_at(it.value, k) : it.value;
            const size_t i = part_of(names, name);
            if (pg__h5_find(v->parts[i].h5, 0, it.key + 1) == PG_H5_NONE && !reported[i]++)
                PG_TRY(pg__strs_printf(&f.damaged, err, "%s (holds no %s)",
                                       PG_SHOW(v->parts[i].name), PG_SHOW(it.key)));
        }
    }
    st = pg__shard_faults_report(&f, v->n_parts, 1, err);
done:
    pg__shard_faults_fini(&f);
    pg__mem_free(reported);
    return st;
}

/* Parses the text. Text that is not JSON may be another format; only a file name of ours makes it
 * an error. */
static pg_status parse(pg__json **out, pg__io *io, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t n = pg__io_size(io);
    const int named = path && pg__ends_with(path, ".weights.json");
    char *text = NULL;
    if (n > PG_LIMIT_JSON_BYTES)
        return pg_fail(err, named ? PG_E_LIMIT : PG_E_UNKNOWN, "more than %llu MiB of JSON",
                       (unsigned long long)PG_LIMIT_JSON_BYTES >> 20);
    text = pg__mem_array((size_t)n + 1, 1);
    if (!text)
        return pg__nomem(err);
    PG_TRY(pg__io_read(io, 0, text, (size_t)n, err));
    st = pg__json_parse(out, text, (size_t)n, err);
    if ((st == PG_E_FORMAT || st == PG_E_LIMIT) && !named)
        st = pg_fail(err, PG_E_UNKNOWN, "not a JSON index of shards");
done:
    pg__mem_free(text);
    return st;
}

static pg_status open_index(pg_store **out, pg__io *io, const char *path, const pg_open_opts *opts,
                            pg_err *err)
{
    pg_status st = PG_OK;
    pg__json *json = NULL;
    pg__strs names = {0};
    pg__io **ios = NULL;
    pg__h5 **h5s = NULL;
    pg__v3 *v = NULL;
    PG_TRY(parse(&json, io, path, err));
    if (!is_index(json))
        PG_FAIL(PG_E_UNKNOWN,
                "JSON, but not an index of Keras shards (no weight_map with .h5 files)");
    if (!path)
        PG_FAIL(PG_E_UNSUPPORTED, "an index of shards is read from a file, beside its shards");
    const pg__json *map = pg__json_get(json, "weight_map");
    PG_TRY(list_shards(&names, map, err));
    ios = pg__mem_array(names.n, sizeof(pg__io *));
    h5s = pg__mem_array(names.n, sizeof(pg__h5 *));
    if (!ios || !h5s) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(open_shards(ios, h5s, &names, path, err));
    PG_TRY(pg__v3_new(&v, err));
    PG_TRY(add_parts(v, ios, h5s, &names, err));
    PG_TRY(check_map(v, &names, map, err));
    PG_TRY(pg__v3_store(out, "keras-sharded", v, opts, err));
    v = NULL;
done:
    for (size_t i = 0; ios && h5s && i < names.n; i++) {
        pg__h5_close(h5s[i]);
        pg__io_close(ios[i]);
    }
    pg__mem_free(ios);
    pg__mem_free(h5s);
    pg__v3_free(v);
    pg__strs_fini(&names);
    pg__json_free(json);
    return st;
}

const pg__format pg__fmt_keras_sharded = {
    .name = "keras-sharded",
    .probe = probe,
    .open = open_index,
    .suffixes = ".weights.json\0",
};
