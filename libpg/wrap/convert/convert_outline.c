/* convert_outline.c - the outline of an output: made from a plan, changed step by step, and finally
 * opened as a store. Tensors with the bytes of the input keep their extent there, so that formats
 * copy them directly. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/try.h"
#include "format/fmt_keras_v3.h"
#include "format/shards.h"
#include "wrap/convert/convert.h"

static void free_tensors(pg__out_tensor *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pg__mem_free(v[i].name);
    pg__mem_free(v);
}

void pg__outline_fini(pg__outline *o)
{
    for (size_t i = 0; i < o->n_layers; i++) {
        pg__mem_free(o->layers[i].name);
        pg__mem_free(o->layers[i].label);
    }
    pg__mem_free(o->layers);
    free_tensors(o->tensors, o->n_tensors);
    free_tensors(o->state, o->n_state);
    pg__str_fini(&o->model_config);
    pg__str_fini(&o->training_config);
    pg__str_fini(&o->metadata);
    pg__str_fini(&o->writer);
    *o = (pg__outline){0};
}

pg_status pg__outline_layer(pg__outline *o, const char *name, const char *label, pg_err *err)
{
    pg__out_layer l = {.name = pg__mem_strdup(name), .first = o->n_tensors};
    l.label = label ? pg__mem_strdup(label) : NULL;
    if (!l.name || (label && !l.label) ||
        pg__mem_grow(&o->layers, &o->cap_layers, o->n_layers + 1, sizeof *o->layers)) {
        pg__mem_free(l.name);
        pg__mem_free(l.label);
        return pg__nomem(err);
    }
    o->layers[o->n_layers++] = l;
    return PG_OK;
}

static pg_status add(pg__out_tensor **v, size_t *n, size_t *cap, const char *name,
                     const pg__take *t, pg_err *err)
{
    pg__out_tensor one = {.name = pg__mem_strdup(name), .take = *t};
    if (!one.name || pg__mem_grow(v, cap, *n + 1, sizeof **v)) {
        pg__mem_free(one.name);
        return pg__nomem(err);
    }
    (*v)[(*n)++] = one;
    return PG_OK;
}

pg_status pg__outline_add(pg__outline *o, const char *name, const pg__take *t, pg_err *err)
{
    const pg_status st = add(&o->tensors, &o->n_tensors, &o->cap_tensors, name, t, err);
    if (st == PG_OK && o->n_layers)
        o->layers[o->n_layers - 1].n++;
    return st;
}

pg_status pg__outline_add_state(pg__outline *o, const char *name, const pg__take *t, pg_err *err)
{
    return add(&o->state, &o->n_state, &o->cap_state, name, t, err);
}

static pg_status copy_layer(pg__outline *out, const pg__plan *p, const pg__plan_layer *l,
                            pg_err *err)
{
    pg_status st = PG_OK;
    const char *label = l->label;
    if (!label && l->src != PG_NONE && out->shape == PG_SHAPE_PATHS)
        label = pg__v3_layer_name(p->src, l->src);
    PG_TRY(pg__outline_layer(out, l->name, label, err));
    for (size_t i = l->first; i < l->first + l->n; i++) {
        pg__take t;
        pg__take_whole(&t, p->src, p->items[i].src);
        PG_TRY(pg__outline_add(out, p->items[i].name, &t, err));
    }
done:
    return st;
}

pg_status pg__outline_of(pg__outline *out, const pg__plan *p, pg_err *err)
{
    pg_status st = PG_OK;
    pg__take t;
    const size_t n_weights = pg_store_n_weights(p->src);
    const char *writer = pg_store_writer(p->src);
    out->shape = pg__store_is_legacy(p->src)  ? PG_SHAPE_LAYERS
                 : pg__store_is_paths(p->src) ? PG_SHAPE_PATHS
                 : p->n_layers                ? PG_SHAPE_LAYERS
                                              : PG_SHAPE_FLAT;
    for (size_t i = 0; i < p->n_layers; i++)
        PG_TRY(copy_layer(out, p, &p->layers[i], err));
    if (out->shape == PG_SHAPE_LAYERS && pg__names_are_paths(out)) /* shards of a .weights.h5 */
        out->shape = PG_SHAPE_PATHS;
    for (size_t i = 0; p->n_layers == 0 && i < p->n_items; i++) {
        pg__take_whole(&t, p->src, p->items[i].src);
        PG_TRY(pg__outline_add(out, p->items[i].name, &t, err));
    }
    for (size_t i = 0; i < pg_store_n_state(p->src); i++)
        if (pg__plan_keeps_state(p, i)) {
            pg__take_whole(&t, p->src, n_weights + i);
            PG_TRY(pg__outline_add_state(out, pg_store_state(p->src, i)->name, &t, err));
        }
    if (p->model_config)
        PG_TRY(pg__str_add(&out->model_config, p->model_config, p->n_model_config, err));
    if (p->training_config)
        PG_TRY(pg__str_add(&out->training_config, p->training_config, p->n_training_config, err));
    if (writer)
        PG_TRY(pg__str_puts(&out->writer, writer, err));
done:
    return st;
}

pg_status pg__outline_dtype(pg__outline *o, const char *word, pg_err *err)
{
    static const pg_dtype types[] = {PG_F32, PG_F16, PG_BF16};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        if (strcmp(word, pg_dtype_name(types[k])) != 0)
            continue;
        for (size_t i = 0; i < o->n_tensors; i++)
            if (pg__dtype_is_float(o->tensors[i].take.from))
                o->tensors[i].take.to = types[k];
        return PG_OK;
    }
    return pg_fail(err, PG_E_ARG, "no such type to convert to: %s", PG_SHOW(word));
}

void pg__outline_replace(pg__outline *o, pg__outline *with)
{
    pg__outline old = *o;
    o->shape = with->shape;
    o->layers = with->layers;
    o->n_layers = with->n_layers;
    o->cap_layers = with->cap_layers;
    o->tensors = with->tensors;
    o->n_tensors = with->n_tensors;
    o->cap_tensors = with->cap_tensors;
    *with = (pg__outline){.layers = old.layers,
                          .n_layers = old.n_layers,
                          .tensors = old.tensors,
                          .n_tensors = old.n_tensors};
}

/* ---- names ---- */

static int by_name(const void *a, const void *b, void *names)
{
    const pg__out_tensor *v = names;
    return strcmp(v[*(const size_t *)a].name, v[*(const size_t *)b].name);
}

pg_status pg__outline_index(size_t **out, const pg__outline *o, pg_err *err)
{
    size_t *index = pg__mem_array(o->n_tensors, sizeof *index);
    if (!index)
        return pg__nomem(err);
    for (size_t i = 0; i < o->n_tensors; i++)
        index[i] = i;
    if (o->n_tensors)
        pg__sort(index, o->n_tensors, sizeof *index, by_name, o->tensors);
    *out = index;
    return PG_OK;
}

size_t pg__outline_find(const pg__outline *o, const size_t *index, const char *name)
{
    for (size_t lo = 0, hi = o->n_tensors; lo < hi;) {
        const size_t mid = lo + (hi - lo) / 2;
        const int c = strcmp(name, o->tensors[index[mid]].name);
        if (c == 0)
            return index[mid];
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return PG_NONE;
}

pg_status pg__outline_check_names(const pg__outline *o, pg_err *err)
{
    pg_status st = PG_OK;
    size_t *index = NULL;
    PG_TRY(pg__outline_index(&index, o, err));
    for (size_t i = 1; i < o->n_tensors; i++) {
        const char *name = o->tensors[index[i]].name;
        if (strcmp(o->tensors[index[i - 1]].name, name) == 0)
            PG_FAIL(PG_E_UNSUPPORTED, "two tensors would be called %s", PG_SHOW(name));
    }
done:
    pg__mem_free(index);
    return st;
}

static int by_layer_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

pg_status pg__outline_check_layers(const pg__outline *o, pg_err *err)
{
    pg_status st = PG_OK;
    const char **names = pg__mem_array(o->n_layers, sizeof *names);
    if (!names)
        return pg__nomem(err);
    for (size_t i = 0; i < o->n_layers; i++)
        names[i] = o->layers[i].name;
    if (o->n_layers)
        qsort(names, o->n_layers, sizeof *names, by_layer_name);
    for (size_t i = 1; i < o->n_layers; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            PG_FAIL(PG_E_FORMAT, "two layers are called %s", PG_SHOW(names[i]));
done:
    pg__mem_free(names);
    return st;
}

/* "d/kernel:0" that is taken already becomes "d_1/kernel:0", as Keras numbers second builds. */
static pg_status rename_again(pg__out_tensor *x, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    const char *tail = strrchr(x->name, '/');
    const size_t head = tail ? (size_t)(tail - x->name) : 0;
    PG_TRY(pg__str_add(&name, x->name, head, err));
    PG_TRY(pg__str_printf(&name, err, "_%zu%s", n, x->name + head));
    char *copy = pg__mem_strdup(name.s);
    if (!copy) {
        st = pg__nomem(err);
        goto done;
    }
    pg__mem_free(x->name);
    x->name = copy;
done:
    pg__str_fini(&name);
    return st;
}

static int by_name_and_place(const void *a, const void *b, void *names)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    const int c = by_name(a, b, names);
    return c ? c : (x > y) - (x < y);
}

pg_status pg__outline_unique(pg__outline *o, size_t layer, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__out_layer l = o->layers[layer];
    size_t *index = pg__mem_array(l.n, sizeof *index);
    int again = 1;
    if (!index)
        return pg__nomem(err);
    while (again && l.n) {
        again = 0;
        for (size_t i = 0; i < l.n; i++)
            index[i] = l.first + i;
        pg__sort(index, l.n, sizeof *index, by_name_and_place, o->tensors);
        for (size_t i = 1, n = 0; i < l.n; i++) {
            n = strcmp(o->tensors[index[i]].name, o->tensors[index[i - 1 - n]].name) ? 0 : n + 1;
            again |= n > 0;
            if (n)
                PG_TRY(rename_again(&o->tensors[index[i]], n, err));
        }
    }
done:
    pg__mem_free(index);
    return st;
}

/* ---- as a store ---- */

typedef struct view {
    const pg__outline *o;
    pg_store *src;
    pg__taker *taker;
    void *held; /* goes with the store */
    void (*release)(void *held);
} view;

static const pg__out_tensor *tensor_at(const pg__outline *o, size_t i)
{
    return i < o->n_tensors ? &o->tensors[i] : &o->state[i - o->n_tensors];
}

static pg_status read_view(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    const view *v = ctx;
    const pg__take *t = &tensor_at(v->o, tensor)->take;
    if (pg__take_is_copy(t, v->src))
        return pg__store_read_raw(v->src, t->block[0].src, off, buf, n, err);
    return pg__taker_read(v->taker, t, tensor, off, buf, n, err);
}

/* Of stores that check what they copy: manifests hold checksums. */
static pg_status copy_view(void *ctx, size_t tensor, pg__sink *sink, uint64_t off, pg_err *err)
{
    pg_status st = PG_OK;
    const view *v = ctx;
    const pg__take *t = &tensor_at(v->o, tensor)->take;
    const uint64_t n_bytes = pg__take_bytes(t);
    unsigned char *buf = NULL;
    if (pg__take_is_copy(t, v->src)) {
        PG_TRY(pg__store_copy(v->src, t->block[0].src, sink, off, err));
        if (strcmp(pg_store_format(v->src), pg__fmt_npy_shards.name) != 0)
            return PG_OK;
        const pg__strs *damages = pg__shards_damages(pg__store_ctx(v->src));
        if (damages->n)
            PG_FAIL(PG_E_FORMAT, "%s: damaged: %s; nothing written",
                    PG_SHOW(pg__store_path(v->src)), PG_SHOW(damages->v[0]));
        return PG_OK;
    }
    buf = pg__mem_array(PG_COPY_BYTES, 1);
    if (!buf)
        return pg__nomem(err);
    for (uint64_t at = 0; at < n_bytes;) {
        const size_t n = n_bytes - at < PG_COPY_BYTES ? (size_t)(n_bytes - at) : PG_COPY_BYTES;
        PG_TRY(read_view(ctx, tensor, at, buf, n, err));
        PG_TRY(pg__sink_write(sink, off + at, buf, n, err));
        at += n;
    }
done:
    pg__mem_free(buf);
    return st;
}

static int place_view(void *ctx, size_t tensor, uint64_t *off_bytes)
{
    const view *v = ctx;
    const pg__out_tensor *x = tensor_at(v->o, tensor);
    return pg__take_is_copy(&x->take, v->src)
               ? pg__store_place(v->src, x->take.block[0].src, off_bytes)
               : -1;
}

static void close_view(void *ctx)
{
    view *v = ctx;
    pg__taker_free(v->taker);
    if (v->release)
        v->release(v->held);
    pg__mem_free(v);
}

void pg__outline_hold(pg_store *s, void *held, void (*release)(void *held))
{
    view *v = pg__store_ctx(s);
    v->held = held;
    v->release = release;
}

static pg__tensor_desc describe(const pg__out_tensor *x, const pg_store *src, uint64_t *dims)
{
    pg__tensor_desc d = {.name = x->name,
                         .dtype = x->take.to,
                         .big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
                         .rank = pg__take_shape(&x->take, dims),
                         .dims = dims};
    if (pg__take_is_copy(&x->take, src)) {
        d.extent = pg__store_extent(src, x->take.block[0].src);
        d.big_endian = pg__store_big_endian(src, x->take.block[0].src);
    }
    return d;
}

static pg_status fill(pg_store *s, const pg__outline *o, const pg_store *src, pg_err *err)
{
    pg_status st = PG_OK;
    size_t at = 0;
    uint64_t dims[PG_MAX_RANK];
    for (size_t i = 0; i < o->n_tensors; i++) {
        for (; at < o->n_layers && o->layers[at].first <= i; at++)
            PG_TRY(pg__store_add_layer(s, o->layers[at].name, err));
        const pg__tensor_desc d = describe(&o->tensors[i], src, dims);
        PG_TRY(pg__store_add_weight(s, &d, err));
    }
    for (; at < o->n_layers; at++)
        PG_TRY(pg__store_add_layer(s, o->layers[at].name, err));
    for (size_t i = 0; i < o->n_state; i++) {
        const pg__tensor_desc d = describe(&o->state[i], src, dims);
        PG_TRY(pg__store_add_state(s, &d, err));
    }
    if (o->model_config.n)
        PG_TRY(
            pg__store_set_text(s, PG_TEXT_MODEL_CONFIG, o->model_config.s, o->model_config.n, err));
    if (o->training_config.n)
        PG_TRY(pg__store_set_text(s, PG_TEXT_TRAINING_CONFIG, o->training_config.s,
                                  o->training_config.n, err));
    if (o->metadata.n)
        PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, o->metadata.s, o->metadata.n, err));
    if (o->writer.n)
        PG_TRY(pg__store_set_writer(s, o->writer.s, err));
    PG_TRY(pg__store_set_path(s, pg__store_path(src), err));
    pg__store_set_source(s, pg__store_source(src));
    pg__store_set_threads(s, pg__store_threads(src));
done:
    return st;
}

pg_status pg__outline_store(pg_store **out, const pg__rounding **rounding, const pg__outline *o,
                            pg_store *src, pg_err *err)
{
    static const pg__store_io plain = {.read = read_view, .close = close_view, .place = place_view};
    static const pg__store_io checked = {
        .read = read_view, .close = close_view, .copy = copy_view, .place = place_view};
    pg_status st = PG_OK;
    pg_store *s = NULL;
    view *v = pg__mem_array(1, sizeof *v);
    if (!v)
        return pg__nomem(err);
    *v = (view){.o = o, .src = src};
    PG_TRY(pg__taker_new(&v->taker, src, o->n_tensors + o->n_state, err));
    PG_TRY(pg__store_new(&s, PG_CONVERTED, pg__store_copies(src) ? &checked : &plain, v, err));
    if (rounding)
        *rounding = pg__taker_rounding(v->taker);
    v = NULL; /* the store's */
    PG_TRY(fill(s, o, src, err));
    *out = s;
    s = NULL;
done:
    pg_store_close(s);
    if (v)
        close_view(v);
    return st;
}
