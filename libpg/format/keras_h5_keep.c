/* keras_h5_keep.c - decides which attributes and groups of the source go into a legacy output.
 *
 * From a legacy file: everything that is not a list of names or a config stays as it was, even if
 * Keras does not know it. backend and keras_version of W decide how loaders convert kernels, so
 * they are copied as they are, absent ones included (Keras 1), and always as ASCII, because Keras 1
 * and 2 with old h5py fail on a UTF-8 tag. From any other format: what Keras 2.15 writes. */
#include "format/keras_h5_keep.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"

pg_status pg__keep_path(pg__str *out, const char *base, const char *name, pg_err *err)
{
    out->n = 0;
    return *base ? pg__str_printf(out, err, "%s/%s", base, name) : pg__str_puts(out, name, err);
}

static pg_status add_attr(pg__keep *k, const char *path, const pg__h5_attr *attr, int of_data,
                          pg_err *err)
{
    char *copy = pg__mem_strdup(path);
    if (!copy || pg__mem_grow(&k->attrs, &k->cap_attrs, k->n_attrs + 1, sizeof *k->attrs)) {
        pg__mem_free(copy);
        return pg__nomem(err);
    }
    k->attrs[k->n_attrs++] = (pg__keep_attr){copy, *attr, of_data};
    return PG_OK;
}

static int is_version(const char *name)
{
    return strcmp(name, "backend") == 0 || strcmp(name, "keras_version") == 0;
}

/* The plan writes these; they are not copied. */
static int is_planned(const char *name)
{
    return pg__keras_is_part(name, "layer_names") || pg__keras_is_part(name, "weight_names") ||
           strcmp(name, "model_config") == 0 || strcmp(name, "training_config") == 0;
}

enum { ASCII = 1, NO_VERSIONS = 2, ONLY_VERSIONS = 4 };

static int has_attr(const pg__keep *k, const char *path, const char *name)
{
    for (size_t i = 0; i < k->n_attrs; i++)
        if (strcmp(k->attrs[i].attr.name, name) == 0 && strcmp(k->attrs[i].path, path) == 0)
            return 1;
    return 0;
}

/* Keeps the attributes of a source object for the output object at path. */
static pg_status keep_attrs(pg__keep *k, const pg__h5 *h5, uint32_t obj, const char *path, int how,
                            pg_err *err)
{
    if (pg__h5_at(h5, obj)->n_attrs > PG_LIMIT_KEPT_ATTRS)
        return pg_fail(err, PG_E_LIMIT, "%s: %u attributes, at most %u are copied",
                       *path ? PG_SHOW(path) : "/", pg__h5_at(h5, obj)->n_attrs,
                       PG_LIMIT_KEPT_ATTRS);
    const int data = pg__h5_at(h5, obj)->kind == PG_H5_DATASET;
    for (uint32_t i = 0; i < pg__h5_at(h5, obj)->n_attrs; i++) {
        pg__h5_attr a = *pg__h5_attr_at(h5, obj, i);
        const int version = is_version(a.name);
        if (is_planned(a.name) || (how & (version ? NO_VERSIONS : ONLY_VERSIONS)))
            continue;
        if ((how & NO_VERSIONS) && has_attr(k, path, a.name))
            continue; /* two groups become one: W goes first */
        if (version && (how & ASCII))
            a.type.utf8 = 0;
        const pg_status st = add_attr(k, path, &a, data, err);
        if (st != PG_OK)
            return st;
    }
    return PG_OK;
}

static pg_status keep_versions(pg__keep *k, const pg__keras_h5 *src, pg_err *err)
{
    pg_status st = PG_OK;
    if (k->full && !src->full) {
        PG_TRY(keep_attrs(k, src->h5, src->w, k->w, ASCII | ONLY_VERSIONS, err));
        return keep_attrs(k, src->h5, 0, "", 0, err);
    }
    PG_TRY(keep_attrs(k, src->h5, src->w, k->w, ASCII, err));
    if (src->full && src->w != 0)
        PG_TRY(keep_attrs(k, src->h5, 0, "", k->full ? 0 : NO_VERSIONS, err));
done:
    return st;
}

static pg_status add_versions(pg__keep *k, const char *path, int utf8, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_attr a = {.name = "backend",
                     .type = {.cls = PG_H5_STR_VLEN, .utf8 = utf8},
                     .n_elems = 1,
                     .strs = k->backend};
    PG_TRY(add_attr(k, path, &a, 0, err));
    a.name = "keras_version";
    a.strs = k->version;
    PG_TRY(add_attr(k, path, &a, 0, err));
done:
    return st;
}

/* What the object at base/name of the output inherits from tensor `tensor` of the source. */
static pg_status keep_tensor_attrs(pg__keep *k, const pg__keras_h5 *src, size_t tensor,
                                   const char *base, const char *name, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    const uint32_t obj = src->tensors[tensor];
    if (pg__h5_at(src->h5, obj)->n_attrs == 0)
        return PG_OK;
    PG_TRY(pg__keep_path(&path, base, name, err));
    PG_TRY(keep_attrs(k, src->h5, obj, path.s, 0, err));
done:
    pg__str_fini(&path);
    return st;
}

static pg_status keep_layers(pg__keep *k, const pg__keras_h5 *src, const pg__plan *plan,
                             pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    for (size_t i = 0; i < plan->n_layers; i++) {
        const pg__plan_layer *l = &plan->layers[i];
        PG_TRY(pg__keep_path(&path, k->w, l->name, err));
        if (l->src != PG_NONE)
            PG_TRY(keep_attrs(k, src->h5, src->layers[l->src], path.s, 0, err));
        for (size_t j = l->first; j < l->first + l->n; j++)
            PG_TRY(keep_tensor_attrs(k, src, plan->items[j].src, path.s, plan->items[j].name, err));
    }
done:
    pg__str_fini(&path);
    return st;
}

static pg_status keep_optimizer(pg__keep *k, const pg__keras_h5 *src, const pg__plan *plan,
                                pg_err *err)
{
    pg_status st = PG_OK;
    const size_t first = pg_store_n_weights(plan->src);
    if (src->optimizer == PG_H5_NONE || pg__plan_n_state(plan) == 0)
        return PG_OK;
    PG_TRY(keep_attrs(k, src->h5, src->optimizer, "optimizer_weights", 0, err));
    for (size_t i = 0; i < pg_store_n_state(plan->src); i++)
        if (pg__plan_keeps_state(plan, i))
            PG_TRY(keep_tensor_attrs(k, src, first + i, "optimizer_weights",
                                     pg_store_state(plan->src, i)->name, err));
done:
    return st;
}

/* Variables of the model itself (Keras 2.7 and later), which are not a layer. Nearly always
 * empty. */
static pg_status keep_top(pg__keep *k, const pg__keras_h5 *src, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str base = {0}, path = {0};
    if (src->top == PG_H5_NONE)
        return PG_OK;
    k->has_top = 1;
    PG_TRY(pg__keras_names_read(&k->top, src->h5, src->top, "weight_names", err));
    PG_TRY(pg__keep_path(&base, k->w, "top_level_model_weights", err));
    PG_TRY(keep_attrs(k, src->h5, src->top, base.s, 0, err));
    for (size_t i = 0; i < k->top.n; i++) {
        const uint32_t obj = pg__h5_find(src->h5, src->top, k->top.v[i]);
        if (obj == PG_H5_NONE || pg__h5_at(src->h5, obj)->kind != PG_H5_DATASET ||
            pg__h5_at(src->h5, obj)->type.cls != PG_H5_NUMBER)
            PG_FAIL(PG_E_FORMAT,
                    "top_level_model_weights: weight_names lists \"%s\", which is missing",
                    PG_SHOW(k->top.v[i]));
        PG_TRY(pg__keep_path(&path, base.s, k->top.v[i], err));
        char *copy = pg__mem_strdup(path.s);
        if (!copy || pg__mem_grow(&k->data, &k->cap_data, k->n_data + 1, sizeof *k->data)) {
            pg__mem_free(copy);
            st = pg__nomem(err);
            goto done;
        }
        k->data[k->n_data++] = (pg__keep_data){copy, obj};
        PG_TRY(keep_attrs(k, src->h5, obj, path.s, 0, err));
    }
done:
    pg__str_fini(&base);
    pg__str_fini(&path);
    return st;
}

/* The writer according to a store of another format ("keras 3.6.0, tensorflow"), else Keras
 * 2.15. */
static void name_writer(pg__keep *k, const char *writer)
{
    const char *version = writer && strncmp(writer, "keras ", 6) == 0 ? writer + 6 : "2.15.0";
    const size_t n = strcspn(version, ",");
    const char *backend = version[n] && version[n + 1] ? version + n + 2 : "tensorflow";
    (void)snprintf(k->version_text, sizeof k->version_text, "%.*s", (int)n, version);
    (void)snprintf(k->backend_text, sizeof k->backend_text, "%s", backend);
    k->version[0] = k->version_text;
    k->backend[0] = k->backend_text;
}

pg_status pg__keep_of(pg__keep *out, const pg__plan *plan, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__keras_h5 *src = pg__keras_h5_of(plan->src);
    out->full = plan->model_config || plan->training_config || pg__plan_n_state(plan) > 0 ||
                (src && src->full && plan->keep_state);
    out->w = out->full ? "model_weights" : "";
    if (!src) {
        out->has_top = 1;
        name_writer(out, pg_store_writer(plan->src));
        PG_TRY(add_versions(out, out->w, 0, err));
        if (out->full)
            PG_TRY(add_versions(out, "", 1, err));
        goto done;
    }
    PG_TRY(keep_versions(out, src, err));
    PG_TRY(keep_layers(out, src, plan, err));
    PG_TRY(keep_top(out, src, err));
    PG_TRY(keep_optimizer(out, src, plan, err));
done:
    return st;
}

void pg__keep_fini(pg__keep *k)
{
    for (size_t i = 0; i < k->n_attrs; i++)
        pg__mem_free(k->attrs[i].path);
    for (size_t i = 0; i < k->n_data; i++)
        pg__mem_free(k->data[i].path);
    pg__mem_free(k->attrs);
    pg__mem_free(k->data);
    pg__keras_names_fini(&k->top);
    *k = (pg__keep){0};
}
