/* fmt_keras_zip.c - reads and writes .keras: a ZIP archive of metadata.json, config.json,
 * model.weights.h5 and, for some layers, files below assets/.
 *
 * Reading: the weights have the path layout (fmt_keras_v3.c) and are opened in place, because Keras
 * stores its members uncompressed. The config is kept as text and searched once for layers that
 * make Keras run or fetch something when the file is loaded; they are refused by name. A layer of
 * an unknown class is only data for us, and passes.
 *
 * Writing: the weights come first, their data at byte 512. HDF5 looks for its signature at 0, 512,
 * 1024, 2048 ..., so that h5ls, h5py and everything else can open the .keras file itself; a fixed
 * place near the front needs the least padding, and Keras does not care about the order of
 * members. */
#include "format/copy.h"
#include "format/fmt_keras_v3.h"

#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"

#define CONFIG     "config.json"
#define METADATA   "metadata.json"
#define WEIGHTS    "model.weights.h5"
#define ASSETS     "assets/"

#define HDF5_ALIGN 512 /* first place after byte 0 where HDF5 looks for its signature */

static int probe(const uint8_t *head, size_t n)
{
    return n >= 4 && memcmp(head, "PK\3\4", 4) == 0;
}

/* ---- what Keras would do when it loads a config ---- */

typedef struct pending {
    const pg__json *value;
    int layer; /* if it stands where a layer may stand */
} pending;

typedef struct pendings {
    pending *v;
    size_t n, cap;
} pendings;

static pg_status push(pendings *todo, const pg__json *value, int layer, pg_err *err)
{
    const pg__json_type type = pg__json_type_of(value);
    if (type != PG_J_OBJECT && type != PG_J_ARRAY)
        return PG_OK;
    if (pg__mem_grow(&todo->v, &todo->cap, todo->n + 1, sizeof *todo->v))
        return pg__nomem(err);
    todo->v[todo->n++] = (pending){value, layer};
    return PG_OK;
}

static int is_one_of(const char *s, const char *const *list, size_t n)
{
    for (size_t i = 0; s && i < n; i++)
        if (strcmp(s, list[i]) == 0)
            return 1;
    return 0;
}

/* Keys of a config below which layers are found. */
static int holds_layers(const char *key)
{
    static const char *const keys[] = {"layers",         "layer", "forward_layer",
                                       "backward_layer", "cell",  "cells"};
    return is_one_of(key, keys, sizeof keys / sizeof *keys);
}

static const char *name_of_layer(const pg__json *entry)
{
    const char *name = pg__json_get_str(entry, "name");
    if (!name)
        name = pg__json_get_str(pg__json_get(entry, "config"), "name");
    return name ? name : "?";
}

static pg_status check_class(const pg__json *entry, int layer, pg_err *err)
{
    const char *class_name = pg__json_get_str(entry, "class_name");
    const char *module = pg__json_get_str(entry, "module");
    if (!class_name)
        return PG_OK;
    if (strcmp(class_name, "TFSMLayer") == 0)
        return pg_fail(err, PG_E_FORMAT,
                       "layer %s is a TFSMLayer, which loads a program from outside of the file",
                       PG_SHOW(name_of_layer(entry)));
    if (strcmp(class_name, "TorchModuleWrapper") == 0)
        return pg_fail(err, PG_E_FORMAT, "layer %s is a TorchModuleWrapper, which carries a pickle",
                       PG_SHOW(name_of_layer(entry)));
    if (!layer || strcmp(class_name, "function") != 0 || !module || strcmp(module, "keras") == 0 ||
        strncmp(module, "keras.", 6) == 0)
        return PG_OK;
    const char *function = pg__json_get_str(entry, "config");
    return pg_fail(err, PG_E_FORMAT,
                   "a layer is the Python function %s.%s, which loading this file would call",
                   PG_SHOW(module), PG_SHOW(function ? function : name_of_layer(entry)));
}

/* Examines every object of the config, with a work list, because the file decides how deeply it
 * nests. */
static pg_status vet_config(const pg__json *root, pg_err *err)
{
    pg_status st = PG_OK;
    pendings todo = {0};
    PG_TRY(push(&todo, root, 1, err));
    while (todo.n) {
        const pending at = todo.v[--todo.n];
        for (size_t i = 0; pg__json_type_of(at.value) == PG_J_ARRAY && i < pg__json_len(at.value);
             i++)
            PG_TRY(push(&todo, pg__json_at(at.value, i), at.layer, err));
        if (pg__json_type_of(at.value) != PG_J_OBJECT)
            continue;
        PG_TRY(check_class(at.value, at.layer, err));
        pg__json_iter it = {.obj = at.value};
        while (pg__json_next(&it))
            PG_TRY(push(&todo, it.value, holds_layers(it.key), err));
    }
done:
    pg__mem_free(todo.v);
    return st;
}

/* ---- reading ---- */

static pg_status load(pg__zip *zip, const char *name, char **text, size_t *n, pg__json **json,
                      pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__zip_load(zip, pg__zip_find(zip, name), PG_LIMIT_JSON_BYTES, text, n, err));
    st = pg__json_parse(json, *text, *n, err);
    if (st != PG_OK)
        pg_err_prefix(err, name);
done:
    return st;
}

static pg_status read_config(pg_store *s, pg__zip *zip, pg_err *err)
{
    pg_status st = PG_OK;
    char *text = NULL;
    size_t n = 0;
    pg__json *json = NULL;
    PG_TRY(load(zip, CONFIG, &text, &n, &json, err));
    st = pg__json_type_of(json) == PG_J_OBJECT
             ? vet_config(json, err)
             : pg_fail(err, PG_E_FORMAT, "holds no model description");
    if (st != PG_OK) {
        pg_err_prefix(err, CONFIG);
        goto done;
    }
    PG_TRY(pg__store_set_text(s, PG_TEXT_MODEL_CONFIG, text, n, err));
done:
    pg__json_free(json);
    pg__mem_free(text);
    return st;
}

static pg_status read_metadata(pg_store *s, pg__zip *zip, pg_err *err)
{
    pg_status st = PG_OK;
    char *text = NULL;
    size_t n = 0;
    pg__json *json = NULL;
    pg__str writer = {0};
    PG_TRY(load(zip, METADATA, &text, &n, &json, err));
    PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, text, n, err));
    const char *version = pg__json_get_str(json, "keras_version");
    if (version) {
        PG_TRY(pg__str_printf(&writer, err, "keras %s", version));
        PG_TRY(pg__store_set_writer(s, writer.s, err));
    }
done:
    pg__str_fini(&writer);
    pg__json_free(json);
    pg__mem_free(text);
    return st;
}

static int has(const pg__zip *zip, const char *name)
{
    return pg__zip_find(zip, name) != SIZE_MAX;
}

/* Whether this archive is a .keras file, and a complete one. */
static pg_status check_members(const pg__zip *zip, pg_err *err)
{
    static const char *const needed[] = {METADATA, CONFIG, WEIGHTS};
    int found = 0;
    for (size_t i = 0; i < 3; i++)
        found += has(zip, needed[i]);
    if (!found)
        return pg_fail(err, PG_E_UNKNOWN, "a ZIP archive, but not a .keras file (no %s)", CONFIG);
    for (size_t i = 0; i < 3; i++) {
        if (has(zip, needed[i]))
            continue;
        if (i == 2 && has(zip, "model.weights.npz"))
            return pg_fail(err, PG_E_UNSUPPORTED,
                           "the weights are in model.weights.npz; only " WEIGHTS " is read");
        if (i == 2 && has(zip, "model.weights.json"))
            return pg_fail(err, PG_E_UNSUPPORTED,
                           "the weights are in shards inside of the archive; unpack it and give "
                           "model.weights.json");
        return pg_fail(err, PG_E_FORMAT, "%s is missing from the archive", needed[i]);
    }
    return PG_OK;
}

static pg_status open_weights(pg__v3 *v, pg_err *err)
{
    pg_status st = PG_OK;
    pg__io *io = NULL;
    pg__h5 *h5 = NULL;
    PG_TRY(pg__zip_open_member(v->zip, pg__zip_find(v->zip, WEIGHTS), &io, err));
    st = pg__h5_open(&h5, io, err);
    if (st == PG_OK)
        st = pg__v3_add_part(v, h5, io, "", err);
    if (st != PG_OK)
        pg_err_prefix(err, WEIGHTS);
    else
        h5 = NULL;
done:
    pg__h5_close(h5);
    pg__io_close(io);
    return st;
}

static pg_status open_zip(pg_store **out, pg__io *io, const char *path, const pg_open_opts *opts,
                          pg_err *err)
{
    (void)path;
    pg_status st = PG_OK;
    pg__v3 *v = NULL;
    pg_store *s = NULL;
    PG_TRY(pg__v3_new(&v, err));
    PG_TRY(pg__zip_open(&v->zip, io, err));
    PG_TRY(check_members(v->zip, err));
    PG_TRY(open_weights(v, err));
    st = pg__v3_store(&s, "keras-zip", v, opts, err);
    if (st != PG_OK) {
        pg_err_prefix(err, WEIGHTS);
        goto done;
    }
    pg__zip *zip = v->zip;
    v = NULL; /* owned by the store */
    PG_TRY(read_config(s, zip, err));
    PG_TRY(read_metadata(s, zip, err));
    *out = s;
    s = NULL;
done:
    pg_store_close(s);
    pg__v3_free(v);
    return st;
}

/* ---- writing ---- */

static pg_status write_weights(pg__zip_out *zip, pg__sink *sink, const pg__plan *plan, pg_err *err)
{
    pg_status st = PG_OK;
    pg__v3_image *m = NULL;
    uint64_t off = 0;
    uint32_t crc = 0;
    PG_TRY(pg__v3_image_new(&m, plan, sink, err));
    const uint64_t n = pg__v3_image_bytes(m);
    if (!plan->layout_only)
        PG_TRY(pg__sink_reserve(sink, n + HDF5_ALIGN, err));
    PG_TRY(pg__zip_out_begin(zip, WEIGHTS, n, HDF5_ALIGN, &off, err));
    PG_TRY(pg__v3_image_write(m, sink, off, err));
    /* Copies inside the kernel fill the image, so no code has seen its bytes before. */
    PG_TRY(pg__crc_written(&crc, sink, off, n, err));
    PG_TRY(pg__zip_out_end(zip, crc, err));
done:
    pg__v3_image_free(m);
    return st;
}

static pg_status write_text(pg__zip_out *zip, pg__sink *sink, const char *name, const char *text,
                            size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t off = 0;
    PG_TRY(pg__zip_out_begin(zip, name, n, 1, &off, err));
    PG_TRY(pg__sink_write(sink, off, text, n, err));
    PG_TRY(pg__zip_out_end(zip, pg__crc32(0, text, n), err));
done:
    return st;
}

/* Where a member of the source goes, into to; empty = it is dropped. Assets lie under the path of
 * their layer and move with it. */
static pg_status member_target(pg__str *to, const char *name, const char *root, pg_err *err)
{
    const size_t n = strlen(ASSETS), n_root = root ? strlen(root) : 0;
    to->n = 0;
    if (!root || strncmp(name, ASSETS, n) != 0)
        return pg__str_puts(to, name, err);
    if (strncmp(name + n, root, n_root) != 0 || name[n + n_root] != '/')
        return pg__str_puts(to, "", err);
    return pg__str_printf(to, err, ASSETS "%s", name + n + n_root + 1);
}

static int is_copied(const pg__zip_member *m)
{
    static const char *const made[] = {METADATA, CONFIG, WEIGHTS};
    const size_t n = strlen(m->name);
    return !is_one_of(m->name, made, 3) && n > 0 && m->name[n - 1] != '/'; /* no folders */
}

/* Copies assets, and whatever else people put into the archive. */
static pg_status copy_members(pg__zip_out *out, pg__sink *sink, const pg__plan *plan, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__v3 *v = pg__v3_of(plan->src);
    pg__str to = {0};
    pg__io *io = NULL;
    for (size_t i = 0; v && v->zip && i < pg__zip_n(v->zip); i++) {
        const pg__zip_member *m = pg__zip_at(v->zip, i);
        if (!is_copied(m))
            continue;
        PG_TRY(member_target(&to, m->name, plan->root, err));
        if (to.n == 0)
            continue;
        uint64_t off = 0;
        PG_TRY(pg__zip_open_member(v->zip, i, &io, err));
        PG_TRY(pg__zip_out_begin(out, to.s, m->n, 1, &off, err));
        PG_TRY(pg__sink_copy(sink, off, io, 0, m->n, err));
        PG_TRY(pg__zip_out_end(out, m->crc32, err));
        pg__io_close(io);
        io = NULL;
    }
done:
    pg__io_close(io);
    pg__str_fini(&to);
    return st;
}

static pg_status write_zip(pg__sink *sink, const pg__plan *plan, pg_err *err)
{
    pg_status st = PG_OK;
    pg__zip_out *zip = NULL;
    size_t n = 0;
    const char *metadata = pg_store_text(plan->src, PG_TEXT_METADATA, &n);
    if (!plan->model_config || !metadata)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "a .keras file needs a model description and the version of Keras, and the "
                       "input has none; write a .weights.h5");
    PG_TRY(pg__zip_out_new(&zip, sink, err));
    PG_TRY(write_weights(zip, sink, plan, err));
    PG_TRY(write_text(zip, sink, METADATA, metadata, n, err));
    PG_TRY(write_text(zip, sink, CONFIG, plan->model_config, plan->n_model_config, err));
    PG_TRY(copy_members(zip, sink, plan, err));
    PG_TRY(pg__zip_out_finish(zip, err));
done:
    pg__zip_out_free(zip);
    return st;
}

/* Compares attributes, the text that is in no plan, and the copied members. */
static pg_status verify_zip(pg_store *out, const pg__plan *plan, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str to = {0};
    const pg__v3 *a = pg__v3_of(plan->src), *b = pg__v3_of(out);
    PG_TRY(pg__v3_verify(out, plan, err));
    const char *want = pg_store_text(plan->src, PG_TEXT_METADATA, NULL);
    const char *got = pg_store_text(out, PG_TEXT_METADATA, NULL);
    if (!want || !got || strcmp(want, got) != 0)
        PG_FAIL(PG_E_IO, METADATA " differs from the plan");
    for (size_t i = 0; a && a->zip && i < pg__zip_n(a->zip); i++) {
        const pg__zip_member *m = pg__zip_at(a->zip, i);
        if (!is_copied(m))
            continue;
        PG_TRY(member_target(&to, m->name, plan->root, err));
        if (to.n == 0)
            continue;
        const pg__zip_member *w = pg__zip_at(b->zip, pg__zip_find(b->zip, to.s));
        if (!w || w->n != m->n || w->crc32 != m->crc32)
            PG_FAIL(PG_E_IO, "%s differs from the plan", PG_SHOW(to.s));
    }
done:
    pg__str_fini(&to);
    return st;
}

const pg__format pg__fmt_keras_zip = {
    .name = "keras-zip",
    .probe = probe,
    .open = open_zip,
    .write = write_zip,
    .verify = verify_zip,
    .suffixes = ".keras\0",
};
