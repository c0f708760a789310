/* fmt_keras_h5.c - the legacy layout: what Keras 1.x to 2.15 and tf.keras call HDF5 weights.
 *
 *   W @layer_names               W is the root, or /model_weights of a full model
 *     /<layer> @weight_names     every "/" of a name is one more group
 *       /<weight name>           dataset
 *   / @model_config @training_config, /optimizer_weights @weight_names    full models only
 *
 * The order is that of the lists, never that of the links. A file is read to its end even if
 * something is missing, because users of a half-written file want to know what is left in it: with
 * opts.salvage that becomes the store, without it the error's detail. Keras writes such files when
 * a list of names exceeds an object header ("object header message is too large"): up to 2.1.4
 * always, later if it cuts the wrong list. Everything that it had finished by then is intact. If a
 * list is missing, the contents of the group count, in the order in which they were written. */
#include "format/fmt_keras_h5.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/keras_h5_relink.h"

/* A file that is being read. The first thing found wrong is kept; reading continues. */
typedef struct reading {
    pg_store *s;
    pg__keras_h5 *k;
    pg_err now, damage;
    size_t n_damages;
    const char *hint;         /* set if the first one was caused by Keras itself */
    size_t n_listed, n_whole; /* layers */
    size_t n_tensors;         /* in whole layers */
    size_t n_unlisted;        /* tensors in no list, found in their groups */
} reading;

static pg_status read_tensor(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n,
                             pg_err *err)
{
    const pg__keras_h5 *k = ctx;
    return pg__h5_read(k->h5, k->tensors[tensor], off, buf, n, err);
}

static void close_file(void *ctx)
{
    pg__keras_h5 *k = ctx;
    pg__h5_close(k->h5);
    pg__io_close(k->io);
    pg__mem_free(k->layers);
    pg__mem_free(k->tensors);
    pg__mem_free(k);
}

static const pg__store_io store_io = {.read = read_tensor, .close = close_file};

const pg__keras_h5 *pg__keras_h5_of(const pg_store *s)
{
    const char *format = pg_store_format(s);
    if (strcmp(format, "keras-h5-weights") != 0 && strcmp(format, "keras-h5-model") != 0)
        return NULL;
    return pg__store_ctx(s);
}

/* Records what r->now says as damage of the file; passes every other failure on to the caller. */
static pg_status note(reading *r, pg_status st)
{
    if (st != PG_E_FORMAT)
        return st;
    if (r->n_damages++ == 0)
        r->damage = r->now;
    return PG_OK;
}

/* Damage left by a failed save of Keras: the user can repair it. */
static pg_status note_half(reading *r, const char *hint, pg_status st)
{
    if (r->n_damages == 0)
        r->hint = hint;
    return note(r, st);
}

/* Damage left by a save that stopped at an attribute of `what`. */
static pg_status note_too_large(reading *r, const char *what)
{
    static const char hint[] = "save it again: the one-device model, or with Keras 2.1.5 or later";
    return note_half(r, hint,
                     pg_fail(&r->now, PG_E_FORMAT,
                             "half-written: Keras stopped at %s (\"object header message is too "
                             "large\")",
                             what));
}

static pg_status push(uint32_t **v, size_t *n, size_t *cap, uint32_t obj, pg_err *err)
{
    if (pg__mem_grow(v, cap, *n + 1, sizeof **v))
        return pg__nomem(err);
    (*v)[(*n)++] = obj;
    return PG_OK;
}

/* Adds dataset `name` of group to the store. */
static pg_status add_tensor(reading *r, uint32_t group, const char *name, int is_state)
{
    pg__keras_h5 *k = r->k;
    char where[200];
    pg_status st = PG_OK;
    const uint32_t obj = pg__h5_find(k->h5, group, name);
    (void)pg__h5_path(k->h5, group, where, sizeof where);
    if (obj == PG_H5_NONE)
        return pg_fail(&r->now, PG_E_FORMAT, "%s: weight_names lists \"%s\", which is missing",
                       where, PG_SHOW(name));
    const pg__h5_object *o = pg__h5_at(k->h5, obj);
    if (o->kind == PG_H5_DATASET && o->type.cls == PG_H5_OTHER)
        return pg_fail(&r->now, PG_E_UNSUPPORTED, "%s", o->type.unread);
    if (o->kind != PG_H5_DATASET || o->type.cls != PG_H5_NUMBER)
        return pg_fail(&r->now, PG_E_FORMAT, "%s: weight_names lists \"%s\", which is %s", where,
                       PG_SHOW(name), o->kind == PG_H5_GROUP ? "a group" : "not made of numbers");
    pg__tensor_desc d = {.name = name,
                         .dtype = o->type.dtype,
                         .big_endian = o->type.big_endian,
                         .rank = o->rank,
                         .dims = o->dims};
    if (o->contiguous)
        d.extent = (pg__extent){k->io, o->off_bytes};
    PG_TRY(push(&k->tensors, &k->n_tensors, &k->cap_tensors, obj, &r->now));
    st =
        is_state ? pg__store_add_state(r->s, &d, &r->now) : pg__store_add_weight(r->s, &d, &r->now);
    if (st != PG_OK)
        k->n_tensors--;
done:
    return st;
}

/* ---- what no list names -------------------------------------------------------------
 */

typedef struct stray {
    uint64_t addr;
    uint32_t obj;
} stray;

/* Object headers are allocated one after the other, so their addresses give the order of writing.
 * Names do not: "bias:0" would come before "kernel:0". */
static int by_addr(const void *a, const void *b)
{
    const stray *x = a, *y = b;
    return x->addr < y->addr ? -1 : x->addr > y->addr ? 1 : x->obj < y->obj ? -1 : x->obj > y->obj;
}

/* 1 if obj lies in group, at any depth. */
static int is_inside(const pg__h5 *h, uint32_t obj, uint32_t group)
{
    while (obj > group)
        obj = pg__h5_at(h, obj)->parent;
    return obj == group;
}

/* Path of a dataset below its layer's group, as weight_names would list it. */
static pg_status path_below(pg__str *out, const pg__h5 *h, uint32_t obj, uint32_t group,
                            pg_err *err)
{
    pg_status st = PG_OK;
    uint32_t up[PG_LIMIT_GROUP_DEPTH + 1];
    size_t n = 0;
    for (; obj != group && n <= PG_LIMIT_GROUP_DEPTH; obj = pg__h5_at(h, obj)->parent)
        up[n++] = obj;
    out->n = 0;
    while (n-- > 0)
        PG_TRY(pg__str_printf(out, err, "%s%s", pg__h5_at(h, up[n])->name, n ? "/" : ""));
done:
    return st;
}

/* Numbers of the objects in a group, in the order of their headers: its datasets of numbers at any
 * depth, or the groups directly below it. Newly allocated. */
static pg_status list_strays(stray **out, size_t *n_out, const pg__h5 *h, uint32_t group,
                             pg__h5_kind kind, pg_err *err)
{
    size_t n = 0;
    stray *v = pg__mem_array(pg__h5_n(h), sizeof *v);
    if (!v)
        return pg__nomem(err);
    for (uint32_t obj = group + 1; obj < pg__h5_n(h) && is_inside(h, obj, group); obj++) {
        const pg__h5_object *o = pg__h5_at(h, obj);
        if (o->kind == kind &&
            (kind == PG_H5_DATASET ? o->type.cls == PG_H5_NUMBER : o->parent == group))
            v[n++] = (stray){o->addr, obj};
    }
    if (n)
        qsort(v, n, sizeof *v, by_addr);
    *out = v;
    *n_out = n;
    return PG_OK;
}

/* Adds all datasets of a group whose list is missing. */
static pg_status add_unlisted(reading *r, uint32_t group, int is_state)
{
    pg_status st = PG_OK;
    stray *v = NULL;
    size_t n = 0;
    pg__str name = {0};
    PG_TRY(list_strays(&v, &n, r->k->h5, group, PG_H5_DATASET, &r->now));
    for (size_t i = 0; i < n; i++) {
        PG_TRY(path_below(&name, r->k->h5, v[i].obj, group, &r->now));
        const size_t before = r->k->n_tensors;
        PG_TRY(note(r, add_tensor(r, group, name.s, is_state)));
        r->n_unlisted += r->k->n_tensors - before;
    }
done:
    pg__mem_free(v);
    pg__str_fini(&name);
    return st;
}

/* ---- lists -----------------------------------------------------------------------------------
 */

/* Reads weight_names of a group and adds the listed tensors; *n_added counts them. PG_E_FORMAT is
 * recorded as damage. */
static pg_status add_listed(reading *r, uint32_t group, const char *what, int is_state,
                            size_t *n_added)
{
    pg_status st = PG_OK;
    pg__keras_names names = {0};
    char where[200];
    const pg__h5_object *o = pg__h5_at(r->k->h5, group);
    const size_t n_damages = r->n_damages;
    PG_TRY(note(r, pg__keras_names_read(&names, r->k->h5, group, "weight_names", &r->now)));
    if (!names.present && r->n_damages == n_damages) {
        (void)pg__h5_path(r->k->h5, group, where, sizeof where);
        if (o->n_attrs == 0 && o->n_children == 0)
            PG_TRY(note_too_large(r, what));
        else
            PG_TRY(note(r, pg_fail(&r->now, PG_E_FORMAT, "%s: weight_names is missing", where)));
    }
    if (!names.present)
        PG_TRY(add_unlisted(r, group, is_state));
    if (!names.chunked && names.cls == PG_H5_STR_VLEN)
        r->k->names = PG_H5_STR_VLEN;
    for (size_t i = 0; i < names.n; i++) {
        const size_t before = r->k->n_tensors;
        PG_TRY(note(r, add_tensor(r, group, names.v[i], is_state)));
        *n_added += r->k->n_tensors - before;
    }
done:
    pg__keras_names_fini(&names);
    return st;
}

static pg_status add_layer(reading *r, const char *name)
{
    pg__keras_h5 *k = r->k;
    pg_status st = PG_OK;
    char what[200];
    size_t n_added = 0;
    const size_t n_damages = r->n_damages;
    const uint32_t obj = pg__h5_find(k->h5, k->w, name);
    if (obj == PG_H5_NONE || pg__h5_at(k->h5, obj)->kind != PG_H5_GROUP)
        return note(r, pg_fail(&r->now, PG_E_FORMAT, "layer_names lists \"%s\", which is %s",
                               PG_SHOW(name), obj == PG_H5_NONE ? "missing" : "not a group"));
    PG_TRY(push(&k->layers, &k->n_layers, &k->cap_layers, obj, &r->now));
    PG_TRY(pg__store_add_layer(r->s, name, &r->now));
    (void)snprintf(what, sizeof what, "layer \"%s\"", PG_SHOW(name));
    PG_TRY(add_listed(r, obj, what, 0, &n_added));
    if (r->n_damages == n_damages) {
        r->n_whole++;
        r->n_tensors += n_added;
    }
done:
    return st;
}

/* There is no list at all: a save failed early, or somebody edited the file. */
static pg_status note_no_layers(reading *r)
{
    const pg__keras_h5 *k = r->k;
    const pg__h5_object *w = pg__h5_at(k->h5, k->w);
    const int config = pg__h5_attr_find(k->h5, 0, "model_config") != NULL;
    if (pg__h5_n(k->h5) == 1 && w->n_attrs == 0) /* caused by Keras, or by anybody */
        return note_half(r,
                         "save it again (Keras before 2.1.5 leaves such a file where the names of "
                         "the layers are too long)",
                         pg_fail(&r->now, PG_E_FORMAT,
                                 "an HDF5 file that holds nothing: no group, no dataset, no "
                                 "attribute"));
    if (w->n_children == 0 && w->n_attrs == 0)
        return note_too_large(r, "layer_names");
    if (k->full && k->w == 0 && w->n_children == 0)
        return note_half(r, "save it again with save_weights()",
                         pg_fail(&r->now, PG_E_FORMAT,
                                 config ? "half-written: model_config without model_weights"
                                        : "half-written: Keras saved its version and stopped (as "
                                          "after \"can't pickle\"); layer_names is missing"));
    return note(r, pg_fail(&r->now, PG_E_FORMAT, "layer_names is missing"));
}

/* If no list says which groups are layers, all of them are. */
static pg_status add_unlisted_layers(reading *r)
{
    pg_status st = PG_OK;
    const pg__h5 *h = r->k->h5;
    stray *v = NULL;
    size_t n = 0;
    PG_TRY(list_strays(&v, &n, h, r->k->w, PG_H5_GROUP, &r->now));
    for (size_t i = 0; i < n; i++) {
        const char *name = pg__h5_at(h, v[i].obj)->name;
        if (v[i].obj == r->k->top || v[i].obj == r->k->optimizer)
            continue;
        PG_TRY(add_layer(r, name));
        r->n_listed++;
    }
done:
    pg__mem_free(v);
    return st;
}

static pg_status add_layers(reading *r)
{
    pg__keras_h5 *k = r->k;
    pg__keras_names names = {0};
    pg_status st = PG_OK;
    const size_t n_damages = r->n_damages;
    PG_TRY(note(r, pg__keras_names_read(&names, k->h5, k->w, "layer_names", &r->now)));
    if (!names.present && r->n_damages == n_damages)
        PG_TRY(note_no_layers(r));
    if (!names.chunked && names.cls == PG_H5_STR_VLEN)
        k->names = PG_H5_STR_VLEN;
    r->n_listed = names.n;
    for (size_t i = 0; i < names.n; i++)
        PG_TRY(add_layer(r, names.v[i]));
    if (!names.present)
        PG_TRY(add_unlisted_layers(r));
done:
    pg__keras_names_fini(&names);
    return st;
}

/* A text attribute of obj, or NULL. */
static const pg__h5_attr *find_text(const pg__h5 *h5, uint32_t obj, const char *name)
{
    const pg__h5_attr *a = pg__h5_attr_find(h5, obj, name);
    return a && a->strs && a->n_elems == 1 ? a : NULL;
}

static pg_status add_text(reading *r, pg_text which, const char *name)
{
    const pg__h5_attr *a = find_text(r->k->h5, 0, name);
    if (a)
        return pg__store_set_text(r->s, which, a->strs[0], a->lens[0], &r->now);
    if (pg__h5_attr_find(r->k->h5, 0, name))
        return note(r, pg_fail(&r->now, PG_E_FORMAT, "%s is not a text", name));
    return PG_OK;
}

/* Keras 1 did not write a version into weights; loaders, too, take its absence for version 1. */
static pg_status add_writer(reading *r)
{
    const pg__keras_h5 *k = r->k;
    pg__str text = {0};
    pg_status st = PG_OK;
    if (pg__h5_at(k->h5, 0)->n_attrs == 0 && pg__h5_at(k->h5, 0)->n_children == 0)
        return PG_OK; /* an empty file gives no information */
    const pg__h5_attr *version = find_text(k->h5, k->w, "keras_version");
    const pg__h5_attr *backend = find_text(k->h5, k->w, "backend");
    if (!version)
        version = find_text(k->h5, 0, "keras_version");
    if (!backend)
        backend = find_text(k->h5, 0, "backend");
    PG_TRY(pg__str_printf(&text, &r->now, "keras %s", version ? PG_SHOW(version->strs[0]) : "1.x"));
    if (backend)
        PG_TRY(pg__str_printf(&text, &r->now, ", %s", PG_SHOW(backend->strs[0])));
    PG_TRY(pg__store_set_writer(r->s, text.s, &r->now));
done:
    pg__str_fini(&text);
    return st;
}

static uint32_t find_group(const pg__h5 *h5, uint32_t from, const char *name)
{
    const uint32_t obj = pg__h5_find(h5, from, name);
    return obj != PG_H5_NONE && pg__h5_at(h5, obj)->kind == PG_H5_GROUP ? obj : PG_H5_NONE;
}

static int has_layer_names(const pg__h5 *h5, uint32_t obj)
{
    for (uint32_t k = 0; k < pg__h5_at(h5, obj)->n_attrs; k++)
        if (pg__keras_is_part(pg__h5_attr_at(h5, obj, k)->name, "layer_names"))
            return 1;
    return 0;
}

/* The same choice that load_weights() makes. */
static void find_parts(pg__keras_h5 *k)
{
    const uint32_t w = find_group(k->h5, 0, "model_weights");
    /* keras_version comes first in a full model, and after layer_names in weights. */
    k->full = !has_layer_names(k->h5, 0) &&
              (w != PG_H5_NONE || pg__h5_attr_find(k->h5, 0, "model_config") ||
               pg__h5_attr_find(k->h5, 0, "keras_version"));
    k->w = k->full && w != PG_H5_NONE ? w : 0;
    k->top = find_group(k->h5, k->w, "top_level_model_weights");
    k->optimizer = k->full ? find_group(k->h5, 0, "optimizer_weights") : PG_H5_NONE;
    k->names = PG_H5_STR_FIXED;
}

/* Datasets beside the weights, which somebody put there: what Keras leaves aside, and so do we. */
static pg_status report_beside(reading *r)
{
    const pg__keras_h5 *k = r->k;
    pg_status st = PG_OK;
    pg__str names = {0}, text = {0};
    size_t n = 0;
    unsigned char *known = pg__mem_array(pg__h5_n(k->h5), 1);
    if (!known)
        return pg__nomem(&r->now);
    for (size_t i = 0; i < k->n_tensors; i++)
        known[k->tensors[i]] = 1;
    for (uint32_t obj = 0; obj < pg__h5_n(k->h5); obj++) {
        const pg__h5_object *o = pg__h5_at(k->h5, obj);
        char path[200];
        if (known[obj] || o->kind != PG_H5_DATASET || o->type.cls == PG_H5_OTHER)
            continue;
        if (n++ < PG_H5_BESIDE)
            PG_TRY(pg__str_printf(&names, &r->now, "%s%s", n > 1 ? ", " : "",
                                  pg__h5_path(k->h5, obj, path, sizeof path)));
    }
    if (n == 0)
        goto done;
    PG_TRY(pg__hdf5_say_beside(&text, n, names.s, &r->now));
    PG_TRY(pg__store_set_others(r->s, text.s, &r->now));
done:
    pg__mem_free(known);
    pg__str_fini(&names);
    pg__str_fini(&text);
    return st;
}

static pg_status read_all(reading *r)
{
    pg_status st = PG_OK;
    size_t n_state = 0;
    PG_TRY(add_writer(r));
    PG_TRY(add_text(r, PG_TEXT_MODEL_CONFIG, "model_config"));
    PG_TRY(add_text(r, PG_TEXT_TRAINING_CONFIG, "training_config"));
    PG_TRY(add_layers(r));
    if (r->k->optimizer != PG_H5_NONE)
        PG_TRY(add_listed(r, r->k->optimizer, "optimizer_weights", 1, &n_state));
    if (!r->n_damages)
        PG_TRY(report_beside(r));
    PG_TRY(pg__hdf5_note_unread(r->s, r->k->h5, &r->now));
done:
    return st;
}

/* Describes what is left, in one sentence. */
static pg_status report_rest(const reading *r, pg__str *out, pg_err *err)
{
    const int config = pg_store_text(r->s, PG_TEXT_MODEL_CONFIG, NULL) != NULL;
    const char *also = config ? "; the architecture (model_config) is whole" : "";
    const size_t n_left = pg_store_n_weights(r->s);
    if (n_left == 0)
        return pg__str_printf(out, err, "no weights inside, nothing to rescue%s", also);
    if (r->n_unlisted)
        return pg__str_printf(out, err,
                              "%zu tensor%s left, %zu of them on no list: in the order in which "
                              "they were written%s",
                              n_left, n_left == 1 ? " is" : "s are", r->n_unlisted, also);
    if (r->n_tensors == 0)
        return pg__str_printf(out, err, "%zu tensors are left, but no whole layer%s", n_left, also);
    return pg__str_printf(out, err,
                          "%zu of %zu layers are whole and can be rescued (%zu tensors)%s",
                          r->n_whole, r->n_listed, r->n_tensors, also);
}

/* Decides the consequence of damage: a refusal, or a store that reports it. */
static pg_status judge(reading *r, const pg_open_opts *opts)
{
    pg_status st = PG_OK;
    pg__str rest = {0}, text = {0};
    if (!r->n_damages)
        return PG_OK;
    PG_TRY(report_rest(r, &rest, &r->now));
    if (opts && opts->salvage) {
        PG_TRY(pg__str_printf(&text, &r->now, "%s; %s", r->damage.msg, rest.s));
        PG_TRY(pg__store_set_damage(r->s, text.s, &r->now));
        goto done;
    }
    r->now = r->damage;
    st = PG_E_FORMAT;
    if (r->hint) {
        pg_err_detail(&r->now, "%s", rest.s);
        pg_err_hint(&r->now, "%s", r->hint);
    }
done:
    pg__str_fini(&rest);
    pg__str_fini(&text);
    return st;
}

pg_status pg__keras_h5_from(pg_store **out, pg__h5 *h5, pg__io *io, const pg_open_opts *opts,
                            pg_err *err)
{
    pg_status st = PG_OK;
    reading r = {0};
    r.k = pg__mem_array(1, sizeof *r.k);
    if (!r.k)
        return pg__nomem(err);
    r.k->h5 = h5;
    find_parts(r.k);
    st =
        pg__store_new(&r.s, r.k->full ? "keras-h5-model" : "keras-h5-weights", &store_io, r.k, err);
    if (st != PG_OK) {
        pg__mem_free(r.k);
        return st;
    }
    r.k->io = pg__io_ref(io);
    PG_TRY(read_all(&r));
    PG_TRY(judge(&r, opts));
    *out = r.s;
    return PG_OK;
done:
    if (err)
        *err = r.now;
    r.k->h5 = NULL; /* owned by the caller again */
    pg_store_close(r.s);
    return st;
}

const pg__format pg__fmt_keras_h5 = {
    .name = "keras-h5",
    .words = "keras-h5-weights\0keras-h5-model\0",
    .probe = pg__hdf5_probe,
    .open = pg__hdf5_open,
    .write = pg__keras_h5_write,
    .verify = pg__keras_h5_verify,
    .relinker = &pg__keras_h5_relinker,
    .suffixes = ".h5\0.hdf5\0",
};
