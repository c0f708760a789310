/* convert_flat.c - tensors without layers: safetensors. Names are LAYER/VARIABLE. The order of
 * layers and the weights' own names, which safetensors cannot hold, are JSON in the metadata (whose
 * values are strings), so that the way back needs nothing else. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "wrap/convert/convert.h"

/* "conv1/kernel:0" of conv1 is conv1/kernel; "conv/kernel:0" of model_1 model_1/conv/kernel. */
pg_status pg__flat_name(pg__str *out, const char *layer, const char *weight, pg_err *err)
{
    const size_t n_layer = pg__layer_len(layer);
    size_t n = strlen(weight);
    if (n > 2 && strcmp(weight + n - 2, ":0") == 0)
        n -= 2;
    if (strncmp(weight, layer, n_layer) != 0 || weight[n_layer] != '/') {
        const pg_status st = pg__str_printf(out, err, "%s/", layer);
        if (st != PG_OK)
            return st;
    }
    return pg__str_add(out, weight, n, err);
}

/* ---- metadata ---- */

/* "key": "value"; the value is always a string. */
static pg_status add_member(pg__str *out, const char *key, const char *value, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    if (n == 0)
        return PG_OK;
    PG_TRY(pg__str_puts(out, out->n > 1 ? "," : "", err));
    PG_TRY(pg__json_quote(out, key, strlen(key), err));
    PG_TRY(pg__str_puts(out, ":", err));
    PG_TRY(pg__json_quote(out, value, n, err));
done:
    return st;
}

/* [["conv1",["conv1/kernel:0",...]],...] */
static pg_status list_layers(pg__str *out, const pg__outline *o, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(out, "[", err));
    for (size_t i = 0; i < o->n_layers; i++) {
        const pg__out_layer *l = &o->layers[i];
        PG_TRY(pg__str_puts(out, i ? ",[" : "[", err));
        PG_TRY(pg__json_quote(out, l->name, strlen(l->name), err));
        PG_TRY(pg__str_puts(out, ",[", err));
        for (size_t k = l->first; k < l->first + l->n; k++) {
            const char *name = o->tensors[k].name;
            PG_TRY(pg__str_puts(out, k > l->first ? "," : "", err));
            PG_TRY(pg__json_quote(out, name, strlen(name), err));
        }
        PG_TRY(pg__str_puts(out, "]]", err));
    }
    PG_TRY(pg__str_puts(out, "]", err));
done:
    return st;
}

/* "keras 2.15.0, tensorflow" in two. */
static pg_status add_writer(pg__str *out, const char *writer, pg_err *err)
{
    pg_status st = PG_OK;
    const char *version = writer && strncmp(writer, "keras ", 6) == 0 ? writer + 6 : NULL;
    if (!version)
        return PG_OK;
    const size_t n = strcspn(version, ",");
    PG_TRY(add_member(out, "keras_version", version, n, err));
    if (version[n] == ',' && version[n + 1] == ' ')
        PG_TRY(add_member(out, "backend", version + n + 2, strlen(version + n + 2), err));
done:
    return st;
}

/* plain: names of another framework, whose metadata stay: libraries check "format", and other keys
 * name tensors. */
static pg_status make_metadata(pg__convert *c, const pg__str *layers, int plain, pg_err *err)
{
    pg_status st = PG_OK;
    pg__outline *o = &c->at;
    pg__str *out = &o->metadata;
    const int pytorch = c->o->layout == PG_LAYOUT_PYTORCH;
    out->n = 0;
    PG_TRY(pg__str_puts(out, "{", err));
    if (plain)
        PG_TRY(pg__keep_metadata(out, c->r.s, !c->o->rename && !c->o->unwrap, err));
    else
        PG_TRY(add_member(out, "format", pytorch ? "pt" : "keras", pytorch ? 2 : 5, err));
    PG_TRY(add_writer(out, o->writer.s, err));
    PG_TRY(add_member(out, "layers", layers->s, layers->n, err));
    PG_TRY(add_member(out, "model_config", o->model_config.s, o->model_config.n, err));
    PG_TRY(add_member(out, "training_config", o->training_config.s, o->training_config.n, err));
    if (!c->o->write.dry_run)
        PG_TRY(pg__add_provenance(out, c->r.s, &c->o->write, err));
    PG_TRY(pg__str_puts(out, "}", err));
done:
    return st;
}

static pg_status flatten_names(pg__outline *o, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    for (size_t i = 0; i < o->n_layers; i++)
        for (size_t k = o->layers[i].first; k < o->layers[i].first + o->layers[i].n; k++) {
            name.n = 0;
            PG_TRY(pg__flat_name(&name, o->layers[i].name, o->tensors[k].name, err));
            char *copy = pg__mem_strdup(name.s);
            if (!copy) {
                st = pg__nomem(err);
                goto done;
            }
            pg__mem_free(o->tensors[k].name);
            o->tensors[k].name = copy;
        }
done:
    pg__str_fini(&name);
    return st;
}

static void drop_layers(pg__outline *o)
{
    for (size_t i = 0; i < o->n_layers; i++) {
        pg__mem_free(o->layers[i].name);
        pg__mem_free(o->layers[i].label);
    }
    o->n_layers = 0;
    o->shape = PG_SHAPE_FLAT;
}

/* Does it have metadata other than those that we write for a Keras model? */
static int is_of_others(const pg_store *s)
{
    size_t n = 0;
    const char *text = pg_store_text(s, PG_TEXT_METADATA, &n);
    const pg__json_span format =
        text ? pg__json_member(text, (pg__json_span){0, n}, "format") : (pg__json_span){0};
    return text && !(format.n == 7 && memcmp(text + format.off, "\"keras\"", 7) == 0);
}

pg_status pg__flatten(pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str layers = {0};
    pg__outline *o = &c->at;
    const int plain = o->shape == PG_SHAPE_FLAT && c->from == PG_SHAPE_FLAT &&
                      c->o->layout != PG_LAYOUT_PYTORCH && is_of_others(c->r.s);
    if (o->shape == PG_SHAPE_LAYERS && !c->o->rename) /* after renaming, the list would not fit */
        PG_TRY(list_layers(&layers, o, err));
    if (o->shape == PG_SHAPE_LAYERS)
        PG_TRY(flatten_names(o, err));
    drop_layers(o);
    if (c->o->rename)
        PG_TRY(pg__rename(c, err));
    PG_TRY(make_metadata(c, &layers, plain, err));
done:
    pg__str_fini(&layers);
    return st;
}

/* ---- the way back ---- */

/* Text of a metadata member into out. */
static pg_status member(pg__str *out, const pg_store *s, const char *key, pg_err *err)
{
    size_t n = 0;
    const char *text = pg_store_text(s, PG_TEXT_METADATA, &n);
    const pg__json_step path[] = {PG_JKEY(key), {0}};
    if (!text || text[0] != '{')
        return PG_OK;
    const pg__json_span v = pg__json_range(text, n, path);
    return v.n && text[v.off] == '"' ? pg__json_unquote(out, text, v, err) : PG_OK;
}

/* The layers as the metadata lists them; PG_E_FORMAT if they are not this file's. */
static pg_status regroup(pg__outline *to, const pg__outline *from, const pg__json *list,
                         pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    size_t *index = NULL;
    unsigned char *used = pg__mem_array(from->n_tensors, 1);
    if (!used)
        return pg__nomem(err);
    PG_TRY(pg__outline_index(&index, from, err));
    for (size_t i = 0; i < pg__json_len(list); i++) {
        const pg__json *pair = pg__json_at(list, i), *weights = pg__json_at(pair, 1);
        const char *layer = pg__json_str(pg__json_at(pair, 0));
        if (!layer || !*layer)
            PG_FAIL(PG_E_FORMAT, "metadata: entry %zu of \"layers\" names no layer", i);
        PG_TRY(pg__outline_layer(to, layer, NULL, err));
        for (size_t k = 0; k < pg__json_len(weights); k++) {
            const char *weight = pg__json_str(pg__json_at(weights, k));
            name.n = 0;
            if (weight && *weight)
                PG_TRY(pg__flat_name(&name, layer, weight, err));
            const size_t at = name.n ? pg__outline_find(from, index, name.s) : PG_NONE;
            if (at == PG_NONE)
                PG_FAIL(PG_E_FORMAT, "metadata: \"layers\" lists %s, which is missing",
                        weight ? PG_SHOW(weight) : "something that is not a name");
            if (used[at]++)
                PG_FAIL(PG_E_FORMAT, "metadata: \"layers\" lists %s twice", PG_SHOW(name.s));
            PG_TRY(pg__outline_add(to, weight, &from->tensors[at].take, err));
        }
    }
    if (to->n_tensors != from->n_tensors)
        PG_FAIL(PG_E_FORMAT, "metadata: \"layers\" lists %zu tensors, the file has %zu",
                to->n_tensors, from->n_tensors);
    PG_TRY(pg__outline_check_layers(to, err));
done:
    pg__mem_free(used);
    pg__mem_free(index);
    pg__str_fini(&name);
    return st;
}

/* Paths as names: a group's tensors stand together once names are sorted as paths are. */
static pg_status regroup_paths(pg__outline *to, const pg__outline *from, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str owner = {0};
    for (size_t i = 0; i < from->n_tensors; i++) {
        const char *name = from->tensors[i].name, *vars = strrchr(name, '/') - strlen("/vars");
        const size_t n = (size_t)(vars - name);
        if (owner.n != n || memcmp(owner.s, name, n) != 0) {
            owner.n = 0;
            PG_TRY(pg__str_add(&owner, name, n, err));
            PG_TRY(pg__outline_layer(to, owner.s, NULL, err));
        }
        PG_TRY(pg__outline_add(to, name, &from->tensors[i].take, err));
    }
done:
    pg__str_fini(&owner);
    return st;
}

/* layers/.../vars/<k>, every one of them, in a file's order. */
int pg__names_are_paths(const pg__outline *o)
{
    for (size_t i = 0; i < o->n_tensors; i++) {
        const char *name = o->tensors[i].name, *tail = strrchr(name, '/');
        if (strncmp(name, "layers/", 7) != 0 || !tail || tail - name < 12 ||
            strncmp(tail - 5, "/vars", 5) != 0 || !tail[1] ||
            tail[1 + strspn(tail + 1, "0123456789")])
            return 0;
    }
    return o->n_tensors > 0;
}

pg_status pg__unflatten(pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0}, version = {0}, backend = {0};
    pg__json *list = NULL;
    pg__outline next = {0};
    PG_TRY(member(&c->at.model_config, c->r.s, "model_config", err));
    PG_TRY(member(&c->at.training_config, c->r.s, "training_config", err));
    PG_TRY(member(&version, c->r.s, "keras_version", err));
    PG_TRY(member(&backend, c->r.s, "backend", err));
    if (version.n) {
        c->at.writer.n = 0;
        PG_TRY(pg__str_printf(&c->at.writer, err, "keras %s%s%s", version.s, backend.n ? ", " : "",
                              backend.n ? backend.s : ""));
    }
    PG_TRY(member(&text, c->r.s, "layers", err));
    if (text.n) {
        PG_TRY(pg__json_parse(&list, text.s, text.n, err));
        PG_TRY(regroup(&next, &c->at, list, err));
        next.shape = PG_SHAPE_LAYERS;
    } else if (pg__names_are_paths(&c->at)) {
        PG_TRY(regroup_paths(&next, &c->at, err));
        next.shape = PG_SHAPE_PATHS;
    } else {
        goto done;
    }
    pg__outline_replace(&c->at, &next);
done:
    pg__json_free(list);
    pg__str_fini(&text);
    pg__str_fini(&version);
    pg__str_fini(&backend);
    pg__outline_fini(&next);
    return st;
}
