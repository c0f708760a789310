/* keras_v3_write.c - writes a plan in the path layout.
 *
 * Names decide everything here: a layer of the plan is a group with a `vars` group, and its items
 * have full paths. What names do not say (vars/@name, the mark dtype="bfloat16" on datasets, any
 * other attributes of groups) is copied from the groups from which, according to the plan, a layer
 * comes. Groups between layers (`layers` itself) never have attributes in Keras; they are created
 * on the way. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/copy.h"
#include "format/fmt_keras_v3.h"
#include "format/h5/h5.h"

struct pg__v3_image {
    pg__h5_out *h5;
    const pg__plan *plan;
    pg__sink *sink;   /* work is reported to it */
    pg__placed *data; /* by dataset id */
    size_t n_data, cap_data;
};

/* A group of one part of the source, "" = root. */
static uint32_t group_at(const pg__v3 *v, size_t part, const char *path)
{
    const pg__h5 *h = v->parts[part].h5;
    const uint32_t obj = *path ? pg__h5_find(h, 0, path) : 0;
    return obj != PG_H5_NONE && pg__h5_at(h, obj)->kind == PG_H5_GROUP ? obj : PG_H5_NONE;
}

static int holds_data(const pg__h5 *h, uint32_t group)
{
    for (uint32_t k = 0; k < pg__h5_at(h, group)->n_children; k++)
        if (pg__h5_at(h, pg__h5_child(h, group, k))->kind == PG_H5_DATASET)
            return 1;
    return 0;
}

/* The part whose attributes of a group are used, or n_parts. A group may be in several shards,
 * begun in one and filled in the next. The first one that holds data is used, else the first that
 * has the group. So a template joined from shards compares equal to the template's own shards. */
static size_t part_of(const pg__v3 *v, const char *path)
{
    size_t first = v->n_parts;
    for (size_t part = v->n_parts; part-- > 0;) {
        const uint32_t obj = group_at(v, part, path);
        if (obj != PG_H5_NONE && (first == v->n_parts || holds_data(v->parts[part].h5, obj) ||
                                  !holds_data(v->parts[first].h5, group_at(v, first, path))))
            first = part;
    }
    return first;
}

/* A group of the source with its n attributes; PG_H5_NONE and no attributes if there is none. */
static uint32_t attrs_of(const pg__v3 *v, const char *path, const pg__h5 **h, uint32_t *n)
{
    const size_t part = part_of(v, path);
    const uint32_t obj = part < v->n_parts ? group_at(v, part, path) : PG_H5_NONE;
    *h = part < v->n_parts ? v->parts[part].h5 : NULL;
    *n = *h ? pg__h5_at(*h, obj)->n_attrs : 0;
    return obj;
}

static pg_status copy_attrs(pg__v3_image *m, const pg__v3 *v, const char *from, const char *to,
                            pg_err *err)
{
    pg_status st = PG_OK;
    uint32_t n = 0;
    const pg__h5 *h = NULL;
    const uint32_t obj = attrs_of(v, from, &h, &n);
    for (uint32_t k = 0; k < n; k++)
        PG_TRY(pg__h5_out_attr(m->h5, to, pg__h5_attr_at(h, obj, k), err));
done:
    return st;
}

static pg_status join(pg__str *out, const char *a, const char *b, pg_err *err)
{
    out->n = 0;
    return pg__str_printf(out, err, "%s%s%s", a, *a && *b ? "/" : "", b);
}

/* vars/@name of a layer that the plan invented, as Keras 3.6 writes it. */
static pg_status name_layer(pg__v3_image *m, const char *vars, const char *name, pg_err *err)
{
    const size_t len = strlen(name);
    const pg__h5_attr a = {.name = "name",
                           .type = {.cls = PG_H5_STR_VLEN, .utf8 = 1},
                           .n_elems = 1,
                           .strs = &name,
                           .lens = &len};
    return pg__h5_out_attr(m->h5, vars, &a, err);
}

/* HDF5 has no bfloat16: Keras stores two opaque bytes and marks the dataset with the type. */
static pg_status mark_bfloat16(pg__v3_image *m, const char *path, pg_err *err)
{
    static const char *const word = "bfloat16";
    const size_t len = strlen(word);
    const char *strs[] = {word};
    const pg__h5_attr a = {.name = "dtype",
                           .type = {.cls = PG_H5_STR_VLEN, .utf8 = 1},
                           .n_elems = 1,
                           .strs = strs,
                           .lens = &len};
    return pg__h5_out_attr(m->h5, path, &a, err);
}

/* "" for the layer "/", which is the model itself. */
static const char *path_of_layer(const char *name)
{
    return strcmp(name, "/") ? name : "";
}

static pg_status add_group(pg__v3_image *m, const pg__v3 *v, const char *from, const char *to,
                           pg_err *err)
{
    pg_status st = PG_OK;
    pg__str src = {0}, dst = {0};
    PG_TRY(join(&dst, to, "vars", err));
    PG_TRY(pg__h5_out_group(m->h5, dst.s, err));
    if (v && from) {
        PG_TRY(join(&src, from, "vars", err));
        if (*to) /* the root's own attributes come from the root */
            PG_TRY(copy_attrs(m, v, from, to, err));
        PG_TRY(copy_attrs(m, v, src.s, dst.s, err));
    }
done:
    pg__str_fini(&src);
    pg__str_fini(&dst);
    return st;
}

/* A layer: its groups, and its name if the plan has one or the source has names at all (Keras 3.6
 * and later). */
static pg_status add_layer(pg__v3_image *m, const pg__v3 *v, const pg__plan_layer *l, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str vars = {0};
    const pg_layer *src = l->src == PG_NONE ? NULL : pg_store_layer(m->plan->src, l->src);
    const char *to = path_of_layer(l->name);
    if (!*to)
        goto done; /* add_root() did it */
    PG_TRY(add_group(m, v, src ? path_of_layer(src->name) : NULL, to, err));
    if ((src && v) || (!l->label && !(v && pg__v3_model_name(m->plan->src))))
        goto done;
    const char *slash = strrchr(to, '/');
    PG_TRY(join(&vars, to, "vars", err));
    PG_TRY(name_layer(m, vars.s, l->label ? l->label : slash ? slash + 1 : to, err));
done:
    pg__str_fini(&vars);
    return st;
}

/* The root, its `vars`, and the group of the layers, which exist in every file. */
static pg_status add_root(pg__v3_image *m, const pg__v3 *v, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__plan *p = m->plan;
    const char *container = pg__v3_container(p->src);
    if (v)
        PG_TRY(copy_attrs(m, v, "", "", err));
    PG_TRY(pg__h5_out_group(m->h5, container ? container : "layers", err));
    if (!v || p->root || group_at(v, 0, "vars") != PG_H5_NONE)
        PG_TRY(add_group(m, v, p->root ? p->root : "", "", err));
done:
    return st;
}

static pg_status add_dataset(pg__v3_image *m, const pg__v3 *v, size_t tensor, const char *name,
                             pg_err *err)
{
    pg_status st = PG_OK;
    pg_store *s = m->plan->src;
    const pg_weight *w = pg__store_tensor(s, tensor);
    const pg__h5_dtype type = {.cls = PG_H5_NUMBER,
                               .dtype = w->dtype,
                               .size = (uint32_t)pg_dtype_bytes(w->dtype),
                               .big_endian = pg__store_big_endian(s, tensor)};
    size_t id = 0;
    if (strstr(name, "//")) /* HDF5 takes it for a single one: another name */
        return pg_fail(err, PG_E_FORMAT, "%s: no name that HDF5 can hold", PG_SHOW(name));
    if (pg__mem_grow(&m->data, &m->cap_data, m->n_data + 1, sizeof *m->data))
        return pg__nomem(err);
    PG_TRY(pg__sink_tick(m->sink, err));
    PG_TRY(pg__h5_out_dataset(m->h5, name, &type, w->rank, w->dims, &id, err));
    m->data[m->n_data++] = (pg__placed){.tensor = tensor};
    if (!v && w->dtype == PG_BF16)
        PG_TRY(mark_bfloat16(m, name, err));
    if (!v)
        goto done;
    const pg__v3_place at = v->tensors[tensor];
    const pg__h5 *h = v->parts[at.part].h5;
    for (uint32_t k = 0; k < pg__h5_at(h, at.obj)->n_attrs; k++)
        PG_TRY(pg__h5_out_attr(m->h5, name, pg__h5_attr_at(h, at.obj, k), err));
done:
    return st;
}

/* Groups of the training state, including empty ones, with their attributes. */
static pg_status add_state_groups(pg__v3_image *m, const pg__v3 *v, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    const char *container = pg__v3_container(m->plan->src);
    for (size_t part = 0; part < v->n_parts; part++) {
        const pg__h5 *h = v->parts[part].h5;
        for (uint32_t obj = 1; obj < pg__h5_n(h); obj++) {
            if (pg__h5_at(h, obj)->kind != PG_H5_GROUP)
                continue;
            PG_TRY(pg__v3_object_path(&path, h, obj, err));
            const int inner = container && strncmp(path.s, container, strlen(container)) == 0;
            if (!pg__v3_is_state(path.s) || (inner && m->plan->root))
                continue;
            size_t before = 0;
            while (before < part && group_at(v, before, path.s) == PG_H5_NONE)
                before++;
            if (before < part)
                continue;
            PG_TRY(pg__h5_out_group(m->h5, path.s, err));
            PG_TRY(copy_attrs(m, v, path.s, path.s, err));
        }
    }
done:
    pg__str_fini(&path);
    return st;
}

static pg_status add_state(pg__v3_image *m, const pg__v3 *v, pg_err *err)
{
    pg_status st = PG_OK;
    pg_store *s = m->plan->src;
    const size_t first = pg_store_n_weights(s);
    if (v && m->plan->keep_state)
        PG_TRY(add_state_groups(m, v, err));
    for (size_t i = 0; i < pg_store_n_state(s); i++)
        if (pg__plan_keeps_state(m->plan, i))
            PG_TRY(add_dataset(m, v, first + i, pg_store_state(s, i)->name, err));
done:
    return st;
}

pg_status pg__v3_image_new(pg__v3_image **out, const pg__plan *plan, pg__sink *sink, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__v3 *v = pg__v3_of(plan->src);
    pg__v3_image *m = pg__mem_array(1, sizeof *m);
    if (!m)
        return pg__nomem(err);
    m->plan = plan;
    m->sink = sink;
    PG_TRY(pg__h5_out_new(&m->h5, err));
    PG_TRY(add_root(m, v, err));
    for (size_t i = 0; i < plan->n_layers; i++)
        PG_TRY(add_layer(m, v, &plan->layers[i], err));
    for (size_t i = 0; i < plan->n_items; i++)
        PG_TRY(add_dataset(m, v, plan->items[i].src, plan->items[i].name, err));
    PG_TRY(add_state(m, v, err));
    PG_TRY(pg__h5_out_finish(m->h5, err));
    *out = m;
    m = NULL;
done:
    pg__v3_image_free(m);
    return st;
}

void pg__v3_image_free(pg__v3_image *m)
{
    if (!m)
        return;
    pg__h5_out_free(m->h5);
    pg__mem_free(m->data);
    pg__mem_free(m);
}

uint64_t pg__v3_image_bytes(const pg__v3_image *m)
{
    return pg__h5_out_bytes(m->h5);
}

pg_status pg__v3_image_write(pg__v3_image *m, pg__sink *sink, uint64_t base, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t id = 0; id < m->n_data; id++)
        m->data[id].off = base + pg__h5_out_offset(m->h5, id);
    PG_TRY(pg__h5_out_flush(m->h5, sink, base, err));
    if (m->plan->layout_only)
        PG_TRY(pg__sink_extend(sink, base + pg__v3_image_bytes(m), err));
    else
        PG_TRY(pg__copy_tensors(sink, m->plan->src, m->data, m->n_data, err));
done:
    return st;
}

/* ---- proof: the attributes of a layer's groups have arrived ---- */

static int same_attr(const pg__h5_attr *a, const pg__h5_attr *b)
{
    if (!b || a->type.cls != b->type.cls || a->rank != b->rank || a->n_elems != b->n_elems)
        return 0;
    if (!a->strs)
        return a->type.size == b->type.size &&
               memcmp(a->raw, b->raw, (size_t)a->n_elems * a->type.size) == 0;
    for (uint64_t i = 0; i < a->n_elems; i++)
        if (a->lens[i] != b->lens[i] || memcmp(a->strs[i], b->strs[i], a->lens[i]) != 0)
            return 0;
    return 1;
}

static pg_status check_group(const pg__v3 *in, const char *from, const pg__v3 *out, const char *to,
                             pg_err *err)
{
    uint32_t n = 0;
    const pg__h5 *h = NULL, *written = out->parts[0].h5;
    const uint32_t obj = attrs_of(in, from, &h, &n), there = group_at(out, 0, to);
    if (obj != PG_H5_NONE && there == PG_H5_NONE)
        return pg_fail(err, PG_E_IO, "%s: this group is missing from the output", PG_SHOW(to));
    for (uint32_t k = 0; k < n; k++) {
        const pg__h5_attr *a = pg__h5_attr_at(h, obj, k);
        if (!same_attr(a, pg__h5_attr_find(written, there, a->name)))
            return pg_fail(err, PG_E_IO, "%s: attribute %s differs from the plan", PG_SHOW(to),
                           PG_SHOW(a->name));
    }
    return PG_OK;
}

pg_status pg__v3_verify(pg_store *out, const pg__plan *plan, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str from = {0}, to = {0};
    const pg__v3 *a = pg__v3_of(plan->src), *b = pg__v3_of(out);
    for (size_t i = 0; a && b && i < plan->n_layers; i++) {
        const pg__plan_layer *l = &plan->layers[i];
        if (l->src == PG_NONE)
            continue;
        PG_TRY(join(&from, path_of_layer(pg_store_layer(plan->src, l->src)->name), "vars", err));
        PG_TRY(join(&to, path_of_layer(l->name), "vars", err));
        PG_TRY(check_group(a, from.s, b, to.s, err));
    }
done:
    pg__str_fini(&from);
    pg__str_fini(&to);
    return st;
}
