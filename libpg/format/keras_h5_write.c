/* keras_h5_write.c - a plan as a legacy .h5, as the Keras that wrote the source would have written
 * it.
 *
 * Names, order and types come from the plan and the source's tensors, everything else from
 * keras_h5_keep.c. Once all is known, the file is laid out; then the metadata and, range by range,
 * the tensors go to the sink. HDF5 decides the order of links: old groups always sort them by
 * name. */
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/copy.h"
#include "format/h5/h5.h"
#include "format/keras_h5_keep.h"
#include "format/keras_h5_relink.h"

/* The longest list that one attribute of an object header can hold, for names like weight_names. Up
 * to 7 bytes more, libhdf5 takes it and writes a header whose size has overflowed. */
#define WHOLE_LIST_BYTES 65472u

typedef struct writing {
    pg__h5_out *h5;
    pg__sink *sink;   /* work is reported to it; NULL: only links are made, which is quick */
    pg__links *links; /* tensors are linked where they are; NULL: they get a new place */
    const pg__plan *plan;
    const pg__keras_h5 *src; /* NULL: the source has another format */
    pg__keep keep;
    pg__placed *placed; /* by dataset id of the plan's tensors; off is set after finish */
    size_t n_placed, n_wanted;
    size_t *keep_ids; /* dataset ids of keep.data */
    pg__str path;
} writing;

/* Keras before 2.1.5 neither cuts lists nor reads cut ones. */
static int never_cuts(const pg__keras_h5 *src)
{
    unsigned v[3] = {0};
    const pg__h5_attr *a = src ? pg__h5_attr_find(src->h5, src->w, "keras_version") : NULL;
    if (!src)
        return 0;
    if (!a || !a->strs || a->n_elems != 1)
        return 1; /* Keras 1 */
    const char *p = a->strs[0];
    for (size_t i = 0; i < 3 && *p; i++) {
        for (; *p >= '0' && *p <= '9' && v[i] < 1000; p++)
            v[i] = v[i] * 10 + (unsigned)(*p - '0');
        p += *p == '.';
    }
    return v[0] < 2 || (v[0] == 2 && (v[1] < 1 || (v[1] == 1 && v[2] < 5)));
}

static pg_status write_list(writing *w, const char *path, const char *key, const char *const *names,
                            size_t n, pg__h5_class cls, pg_err *err)
{
    size_t width = 1, bytes = 0;
    for (size_t i = 0; i < n; i++)
        width = strlen(names[i]) > width ? strlen(names[i]) : width;
    if (n == 0 || cls == PG_H5_STR_VLEN || __builtin_mul_overflow(n, width, &bytes) ||
        bytes > WHOLE_LIST_BYTES || !never_cuts(w->src))
        return pg__h5_out_names(w->h5, path, key, names, n, cls, err);
    const char **strs = pg__mem_array(n, sizeof *strs);
    if (!strs)
        return pg__nomem(err);
    memcpy(strs, names, n * sizeof *strs);
    const pg__h5_attr a = {.name = key,
                           .type = {.cls = PG_H5_STR_FIXED, .size = (uint32_t)width, .pad = 1},
                           .rank = 1,
                           .dims = {n},
                           .n_elems = n,
                           .strs = strs};
    const pg_status st = pg__h5_out_attr(w->h5, path, &a, err);
    pg__mem_free(strs);
    return st;
}

/* How list `key` of a source group stores its strings; if that list is empty, cut or missing, as
 * the file's writer does elsewhere. */
static pg__h5_class class_of(const writing *w, uint32_t obj, const char *key)
{
    if (!w->src)
        return PG_H5_STR_VLEN;
    const pg__h5_attr *a = obj == PG_H5_NONE ? NULL : pg__h5_attr_find(w->src->h5, obj, key);
    return a && a->strs && a->n_elems ? a->type.cls : w->src->names;
}

/* Creates the dataset base/name for a tensor of the source. */
static pg_status place(writing *w, const char *base, const char *name, size_t tensor, pg_err *err)
{
    const pg_weight *t = pg__store_tensor(w->plan->src, tensor);
    size_t id = 0;
    pg_status st = pg__keep_path(&w->path, base, name, err);
    if (st != PG_OK || !t)
        return st != PG_OK ? st : pg_fail(err, PG_E_ARG, "the plan names tensor %zu", tensor);
    const pg__h5_dtype type = {.cls = PG_H5_NUMBER,
                               .dtype = t->dtype,
                               .size = (uint32_t)pg_dtype_bytes(t->dtype),
                               .big_endian = pg__store_big_endian(w->plan->src, tensor)};
    PG_TRY(pg__sink_tick(w->sink, err));
    PG_TRY(pg__h5_out_dataset(w->h5, w->path.s, &type, t->rank, t->dims, &id, err));
    w->placed[w->n_placed++] = (pg__placed){.tensor = tensor, .off = id};
done:
    return st;
}

/* Writes the tensors of one group, with names[i] from its list. */
static pg_status place_all(writing *w, const char *base, const char *const *names,
                           const size_t *tensors, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    if (w->links)
        return pg__links_put(w->links, base, names, tensors, n, err);
    for (size_t i = 0; i < n; i++)
        PG_TRY(place(w, base, names[i], tensors[i], err));
done:
    return st;
}

/* names and tensors: room for those of the largest layer. */
static pg_status write_layer(writing *w, const pg__plan_layer *l, const char **names,
                             size_t *tensors, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str base = {0};
    const uint32_t obj = w->src && l->src != PG_NONE ? w->src->layers[l->src] : PG_H5_NONE;
    PG_TRY(pg__keep_path(&base, w->keep.w, l->name, err));
    PG_TRY(pg__h5_out_group(w->h5, base.s, err));
    for (size_t i = 0; i < l->n; i++) {
        names[i] = w->plan->items[l->first + i].name;
        tensors[i] = w->plan->items[l->first + i].src;
    }
    PG_TRY(
        write_list(w, base.s, "weight_names", names, l->n, class_of(w, obj, "weight_names"), err));
    PG_TRY(place_all(w, base.s, names, tensors, l->n, err));
done:
    pg__str_fini(&base);
    return st;
}

static pg_status write_layers(writing *w, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__plan *plan = w->plan;
    const size_t n = plan->n_layers > plan->n_items ? plan->n_layers : plan->n_items;
    const char **names = pg__mem_array(n, sizeof *names);
    size_t *tensors = pg__mem_array(plan->n_items, sizeof *tensors);
    if (!names || !tensors) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(pg__h5_out_group(w->h5, w->keep.w, err));
    for (size_t i = 0; i < plan->n_layers; i++)
        names[i] = plan->layers[i].name;
    PG_TRY(write_list(w, w->keep.w, "layer_names", names, plan->n_layers,
                      class_of(w, w->src ? w->src->w : PG_H5_NONE, "layer_names"), err));
    for (size_t i = 0; i < plan->n_layers; i++)
        PG_TRY(write_layer(w, &plan->layers[i], names, tensors, err));
done:
    pg__mem_free(names);
    pg__mem_free(tensors);
    return st;
}

static pg_status write_top(writing *w, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str base = {0};
    if (!w->keep.has_top)
        return PG_OK;
    const uint32_t obj = w->src ? w->src->top : PG_H5_NONE;
    PG_TRY(pg__keep_path(&base, w->keep.w, "top_level_model_weights", err));
    PG_TRY(pg__h5_out_group(w->h5, base.s, err));
    PG_TRY(write_list(w, base.s, "weight_names", w->keep.top.v, w->keep.top.n,
                      class_of(w, obj, "weight_names"), err));
    for (size_t i = 0; i < w->keep.n_data; i++) {
        const pg__h5_object *o = pg__h5_at(w->src->h5, w->keep.data[i].obj);
        if (w->links) {
            PG_TRY(pg__links_one(w->links, w->keep.data[i].path, w->keep.data[i].obj, err));
            continue;
        }
        PG_TRY(pg__h5_out_dataset(w->h5, w->keep.data[i].path, &o->type, o->rank, o->dims,
                                  &w->keep_ids[i], err));
    }
done:
    pg__str_fini(&base);
    return st;
}

static pg_status write_state(writing *w, pg_err *err)
{
    pg_status st = PG_OK;
    static const char base[] = "optimizer_weights";
    const size_t first = pg_store_n_weights(w->plan->src), n = pg_store_n_state(w->plan->src);
    const uint32_t obj = w->src ? w->src->optimizer : PG_H5_NONE;
    const char **names = pg__mem_array(n, sizeof *names);
    size_t *tensors = pg__mem_array(n, sizeof *tensors), k = 0;
    if (!names || !tensors) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < n; i++)
        if (pg__plan_keeps_state(w->plan, i)) {
            names[k] = pg_store_state(w->plan->src, i)->name;
            tensors[k++] = first + i;
        }
    if (k == 0 && !(obj != PG_H5_NONE && w->plan->keep_state))
        goto done;
    PG_TRY(pg__h5_out_group(w->h5, base, err));
    PG_TRY(write_list(w, base, "weight_names", names, k, class_of(w, obj, "weight_names"), err));
    PG_TRY(place_all(w, base, names, tensors, k, err));
done:
    pg__mem_free(names);
    pg__mem_free(tensors);
    return st;
}

static pg_status write_text(writing *w, const char *name, const char *text, size_t n, pg_err *err)
{
    const char *strs[] = {text};
    const size_t lens[] = {n};
    const pg__h5_attr a = {
        .name = name, .type = {.cls = PG_H5_STR_VLEN}, .n_elems = 1, .strs = strs, .lens = lens};
    return text ? pg__h5_out_attr(w->h5, "", &a, err) : PG_OK;
}

static pg_status write_metadata(writing *w, pg_err *err)
{
    const pg__plan *p = w->plan;
    pg_status st = PG_OK;
    PG_TRY(write_layers(w, err));
    PG_TRY(write_top(w, err));
    PG_TRY(write_state(w, err));
    PG_TRY(write_text(w, "model_config", p->model_config, p->n_model_config, err));
    PG_TRY(write_text(w, "training_config", p->training_config, p->n_training_config, err));
    for (size_t i = 0; i < w->keep.n_attrs; i++)
        if (!w->links || !w->keep.attrs[i].of_data)
            PG_TRY(pg__h5_out_attr(w->h5, w->keep.attrs[i].path, &w->keep.attrs[i].attr, err));
done:
    return st;
}

/* Writes the datasets of top_level_model_weights, which are not tensors of the store. */
static pg_status copy_kept(writing *w, pg__sink *sink, pg_err *err)
{
    pg_status st = PG_OK;
    unsigned char *buf = pg__mem_array(PG_COPY_BYTES, 1);
    if (!buf)
        return pg__nomem(err);
    for (size_t i = 0; i < w->keep.n_data; i++) {
        const uint32_t obj = w->keep.data[i].obj;
        const uint64_t n_bytes = pg__h5_at(w->src->h5, obj)->n_bytes;
        const uint64_t to = pg__h5_out_offset(w->h5, w->keep_ids[i]);
        for (uint64_t at = 0; at < n_bytes;) {
            const size_t n = n_bytes - at < PG_COPY_BYTES ? (size_t)(n_bytes - at) : PG_COPY_BYTES;
            PG_TRY(pg__h5_read(w->src->h5, obj, at, buf, n, err));
            PG_TRY(pg__sink_write(sink, to + at, buf, n, err));
            at += n;
        }
    }
done:
    pg__mem_free(buf);
    return st;
}

static pg_status check_plan(const pg__plan *plan, pg_err *err)
{
    if (plan->n_layers == 0 && plan->n_items)
        return pg_fail(err, PG_E_UNSUPPORTED, "tensors without layers do not fit a legacy .h5");
    return PG_OK;
}

static void end_writing(writing *w)
{
    pg__keep_fini(&w->keep);
    pg__mem_free(w->placed);
    pg__mem_free(w->keep_ids);
    pg__str_fini(&w->path);
}

pg_status pg__keras_h5_write(pg__sink *sink, const pg__plan *plan, pg_err *err)
{
    pg_status st = PG_OK;
    writing w = {.sink = sink, .plan = plan, .src = pg__keras_h5_of(plan->src)};
    PG_TRY(check_plan(plan, err));
    PG_TRY(pg__keep_of(&w.keep, plan, err));
    w.n_wanted = plan->n_items + pg__plan_n_state(plan);
    w.placed = pg__mem_array(w.n_wanted, sizeof *w.placed);
    w.keep_ids = pg__mem_array(w.keep.n_data, sizeof *w.keep_ids);
    if (!w.placed || !w.keep_ids) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(pg__h5_out_new(&w.h5, err));
    PG_TRY(write_metadata(&w, err));
    PG_TRY(pg__h5_out_finish(w.h5, err));
    if (!plan->layout_only)
        PG_TRY(pg__sink_reserve(sink, pg__h5_out_bytes(w.h5), err));
    PG_TRY(pg__h5_out_flush(w.h5, sink, 0, err));
    for (size_t i = 0; i < w.n_placed; i++)
        w.placed[i].off = pg__h5_out_offset(w.h5, (size_t)w.placed[i].off);
    if (plan->layout_only) /* the end of the file is where HDF5 says it is */
        PG_TRY(pg__sink_extend(sink, pg__h5_out_bytes(w.h5), err));
    else
        PG_TRY(pg__copy_tensors(sink, plan->src, w.placed, w.n_placed, err));
    PG_TRY(copy_kept(&w, sink, err));
done:
    pg__h5_out_free(w.h5);
    end_writing(&w);
    return st;
}

pg_status pg__keras_h5_tree(pg__h5_out *h5, const pg__plan *plan, pg__links *links, pg_err *err)
{
    pg_status st = PG_OK;
    writing w = {.h5 = h5, .links = links, .plan = plan, .src = pg__keras_h5_of(plan->src)};
    PG_TRY(check_plan(plan, err));
    PG_TRY(pg__keep_of(&w.keep, plan, err));
    PG_TRY(write_metadata(&w, err));
done:
    end_writing(&w);
    return st;
}

/* ---- the proof --------------------------------------------------------------------------------
 */

static int same_attr(const pg__h5_attr *a, const pg__h5_attr *b)
{
    if (!b || a->type.cls != b->type.cls || a->rank != b->rank)
        return 0;
    if (a->rank == PG_H5_NULL)
        return 1;
    if (a->n_elems != b->n_elems || memcmp(a->dims, b->dims, sizeof a->dims) != 0)
        return 0;
    if (a->type.cls == PG_H5_NUMBER)
        return a->type.dtype == b->type.dtype && a->type.big_endian == b->type.big_endian &&
               (a->n_elems == 0 || memcmp(a->raw, b->raw, (size_t)a->n_elems * a->type.size) == 0);
    if (a->type.utf8 != b->type.utf8)
        return 0;
    for (size_t i = 0; i < a->n_elems; i++)
        if (strcmp(a->strs[i], b->strs[i]) != 0)
            return 0;
    return 1;
}

static pg_status verify_kept_data(const pg__keras_h5 *src, uint32_t obj, const pg__keras_h5 *out,
                                  uint32_t copy, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t n_bytes = pg__h5_at(src->h5, obj)->n_bytes;
    unsigned char *a = pg__mem_array(PG_COPY_BYTES, 1), *b = pg__mem_array(PG_COPY_BYTES, 1);
    int same = copy != PG_H5_NONE && pg__h5_at(out->h5, copy)->n_bytes == n_bytes;
    if (!a || !b) {
        st = pg__nomem(err);
        goto done;
    }
    for (uint64_t at = 0; same && at < n_bytes;) {
        const size_t n = n_bytes - at < PG_COPY_BYTES ? (size_t)(n_bytes - at) : PG_COPY_BYTES;
        PG_TRY(pg__h5_read(src->h5, obj, at, a, n, err));
        PG_TRY(pg__h5_read(out->h5, copy, at, b, n, err));
        same = memcmp(a, b, n) == 0;
        at += n;
    }
    if (!same)
        PG_FAIL(PG_E_IO, "%s: differs from the plan; nothing written", PG_SHOW(path));
done:
    pg__mem_free(a);
    pg__mem_free(b);
    return st;
}

static int same_text(const pg_store *out, pg_text which, const char *want)
{
    return (pg_store_text(out, which, NULL) != NULL) == (want != NULL);
}

pg_status pg__keras_h5_verify(pg_store *out, const pg__plan *plan, pg_err *err)
{
    pg_status st = PG_OK;
    pg__keep keep = {0};
    const pg__keras_h5 *src = pg__keras_h5_of(plan->src), *o = pg__keras_h5_of(out);
    PG_TRY(pg__keep_of(&keep, plan, err));
    if (!o || o->full != keep.full || (o->top != PG_H5_NONE) != keep.has_top ||
        !same_text(out, PG_TEXT_MODEL_CONFIG, plan->model_config) ||
        !same_text(out, PG_TEXT_TRAINING_CONFIG, plan->training_config))
        PG_FAIL(PG_E_IO, "the layout differs from the plan; nothing written");
    for (size_t i = 0; i < keep.n_attrs; i++) {
        const pg__keep_attr *a = &keep.attrs[i];
        const uint32_t obj = *a->path ? pg__h5_find(o->h5, 0, a->path) : 0;
        if (obj == PG_H5_NONE || !same_attr(&a->attr, pg__h5_attr_find(o->h5, obj, a->attr.name)))
            PG_FAIL(PG_E_IO, "%s: attribute %s differs from the plan; nothing written",
                    PG_SHOW(a->path), PG_SHOW(a->attr.name));
    }
    for (size_t i = 0; i < keep.n_data; i++) {
        const uint32_t copy = pg__h5_find(o->h5, 0, keep.data[i].path);
        PG_TRY(verify_kept_data(src, keep.data[i].obj, o, copy, keep.data[i].path, err));
    }
done:
    pg__keep_fini(&keep);
    return st;
}
