/* fmt_keras_v3.c - Keras' path layout, the .weights.h5 of Keras 2.12 and later.
 *
 *     /layers/<class>[_k]/vars/<i>            the variables of a layer, in its own order
 *     /layers/functional/layers/...           a nested model
 *     /layers/lstm/cell/vars/<i>              parts of a layer have groups of their own
 *     /<attribute>/vars/<i>                   parts of a subclassed model
 *     /optimizer/vars/<i>  /metrics/...       training state, also inside a nested model
 *     /vars                                   the variables of the model itself, mostly none
 *
 * Every object that Keras visits has a `vars` group, possibly an empty one, so a layer of the store
 * is a group that owns `vars`. HDF5 sorts names, so the file does not record the order of the
 * layers: stores list groups in HDF5's order, a group before its contents. Numbers sort as text on
 * disk ("10" before "2") and are put in order here; a gap means damage, or a shard without the
 * others. Keras 2.12 and 2.13 call the group _layer_checkpoint_dependencies instead of layers.
 *
 * A dataset outside of any `vars` group does not come from Keras. It is kept as state, so that a
 * copy loses nothing. */
#include "format/fmt_keras_v3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/shards.h"

#define FORMAT        "keras-weights-h5"
#define OLD_CONTAINER "_layer_checkpoint_dependencies"

/* A `vars` group, or a dataset outside of any. */
typedef struct node {
    char *path; /* the owner's, "" for the root; for a dataset: its own */
    uint32_t part, obj;
} node;

typedef struct nodes {
    node *v;
    size_t n, cap;
} nodes;

typedef struct variable {
    const char *name;
    int64_t number; /* -1: the name is not a number */
    uint32_t part, obj;
} variable;

typedef struct reading {
    pg__v3 *v3;
    pg_store *store;
    const pg_open_opts *opts;
    nodes owners, strays;
    variable *vars; /* of the current owner */
    size_t n_vars, cap_vars;
} reading;

pg_status pg__v3_new(pg__v3 **out, pg_err *err)
{
    pg__v3 *v = pg__mem_array(1, sizeof *v);
    if (!v)
        return pg__nomem(err);
    *out = v;
    return PG_OK;
}

void pg__v3_free(pg__v3 *v)
{
    if (!v)
        return;
    for (size_t i = 0; i < v->n_parts; i++) {
        pg__h5_close(v->parts[i].h5);
        pg__io_close(v->parts[i].io);
        pg__mem_free(v->parts[i].name);
    }
    pg__mem_free(v->parts);
    pg__mem_free(v->tensors);
    pg__mem_free(v->index);
    pg__zip_close(v->zip);
    pg__mem_free(v);
}

pg_status pg__v3_add_part(pg__v3 *v, pg__h5 *h5, pg__io *io, const char *name, pg_err *err)
{
    char *copy = pg__mem_strdup(name);
    if (!copy || pg__mem_grow(&v->parts, &v->cap_parts, v->n_parts + 1, sizeof *v->parts)) {
        pg__mem_free(copy);
        return pg__nomem(err);
    }
    v->parts[v->n_parts++] = (pg__v3_part){.h5 = h5, .io = pg__io_ref(io), .name = copy};
    return PG_OK;
}

static pg_status read_raw(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    const pg__v3 *v = ctx;
    const pg__v3_place at = v->tensors[tensor];
    return pg__h5_read(v->parts[at.part].h5, at.obj, off, buf, n, err);
}

static void close_ctx(void *ctx)
{
    pg__v3_free(ctx);
}

static const pg__store_io store_io = {.read = read_raw, .close = close_ctx};

const pg__v3 *pg__v3_of(const pg_store *s)
{
    static const char *const mine[] = {FORMAT, "keras-zip", "keras-sharded"};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        if (strcmp(pg_store_format(s), mine[i]) == 0)
            return pg__store_ctx(s);
    return NULL;
}

int pg__v3_path_cmp(const char *a, const char *b)
{
    for (;; a++, b++) {
        const int x = *a == '/' ? 1 : *a ? (unsigned char)*a + 1 : 0; /* "/" before any other */
        const int y = *b == '/' ? 1 : *b ? (unsigned char)*b + 1 : 0;
        if (x != y)
            return x < y ? -1 : 1;
        if (!*a)
            return 0;
    }
}

pg_status pg__v3_object_path(pg__str *out, const pg__h5 *h, uint32_t obj, pg_err *err)
{
    pg_status st = PG_OK;
    const char *names[PG_LIMIT_GROUP_DEPTH + 2];
    size_t n = 0;
    for (; obj != 0; obj = pg__h5_at(h, obj)->parent) {
        if (n == sizeof names / sizeof *names)
            return pg_fail(err, PG_E_LIMIT, "groups are nested more than %u deep",
                           PG_LIMIT_GROUP_DEPTH);
        names[n++] = pg__h5_at(h, obj)->name;
    }
    out->n = 0;
    PG_TRY(pg__str_puts(out, "", err));
    while (n) {
        PG_TRY(pg__str_puts(out, names[--n], err));
        PG_TRY(pg__str_puts(out, n ? "/" : "", err));
    }
done:
    return st;
}

static int is_vars(const pg__h5_object *o)
{
    return o->kind == PG_H5_GROUP && strcmp(o->name, "vars") == 0;
}

static pg_status add_node(nodes *l, const pg__h5 *h, uint32_t part, uint32_t obj, uint32_t named,
                          pg_err *err)
{
    pg__str path = {0};
    pg_status st = pg__v3_object_path(&path, h, named, err);
    if (st == PG_OK && pg__mem_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v))
        st = pg__nomem(err);
    if (st != PG_OK) {
        pg__str_fini(&path);
        return st;
    }
    l->v[l->n++] = (node){.path = path.s, .part = part, .obj = obj};
    return PG_OK;
}

static int by_path(const void *a, const void *b)
{
    const node *x = a, *y = b;
    const int c = pg__v3_path_cmp(x->path, y->path);
    return c ? c : x->part < y->part ? -1 : x->part > y->part;
}

static void free_nodes(nodes *l)
{
    for (size_t i = 0; i < l->n; i++)
        pg__mem_free(l->v[i].path);
    pg__mem_free(l->v);
}

static pg_status collect(reading *r, pg_err *err)
{
    pg_status st = PG_OK;
    for (uint32_t part = 0; part < r->v3->n_parts; part++) {
        const pg__h5 *h = r->v3->parts[part].h5;
        for (uint32_t obj = 1; obj < pg__h5_n(h); obj++) {
            const pg__h5_object *o = pg__h5_at(h, obj);
            if (is_vars(o))
                PG_TRY(add_node(&r->owners, h, part, obj, o->parent, err));
            else if (o->kind == PG_H5_DATASET && o->type.cls == PG_H5_NUMBER &&
                     !is_vars(pg__h5_at(h, o->parent)))
                PG_TRY(add_node(&r->strays, h, part, obj, obj, err));
        }
    }
    if (r->owners.n)
        qsort(r->owners.v, r->owners.n, sizeof *r->owners.v, by_path);
    if (r->strays.n)
        qsort(r->strays.v, r->strays.n, sizeof *r->strays.v, by_path);
done:
    return st;
}

/* "0", "1", ... without leading zeros; -1 for every other name. */
static int64_t number_of(const char *name)
{
    int64_t n = 0;
    const size_t len = strlen(name);
    if (len == 0 || len > 9 || (len > 1 && name[0] == '0'))
        return -1;
    for (; *name; name++) {
        if (*name < '0' || *name > '9')
            return -1;
        n = n * 10 + (*name - '0');
    }
    return n;
}

/* Numbers first, in order; layers that save under names of their own follow, sorted by name. */
static int by_number(const void *a, const void *b)
{
    const variable *x = a, *y = b;
    if (x->number >= 0 && y->number >= 0)
        return x->number < y->number ? -1 : x->number > y->number;
    if (x->number >= 0 || y->number >= 0)
        return x->number >= 0 ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The datasets of one owner, from every part that holds any: r->owners.v[first .. end). */
static pg_status gather(reading *r, size_t first, size_t end, pg_err *err)
{
    r->n_vars = 0;
    for (size_t i = first; i < end; i++) {
        const node *g = &r->owners.v[i];
        const pg__h5 *h = r->v3->parts[g->part].h5;
        const uint32_t n = pg__h5_at(h, g->obj)->n_children;
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t obj = pg__h5_child(h, g->obj, k);
            const pg__h5_object *o = pg__h5_at(h, obj);
            if (o->kind != PG_H5_DATASET)
                continue;
            if (pg__mem_grow(&r->vars, &r->cap_vars, r->n_vars + 1, sizeof *r->vars))
                return pg__nomem(err);
            r->vars[r->n_vars++] = (variable){o->name, number_of(o->name), g->part, obj};
        }
    }
    if (r->n_vars)
        qsort(r->vars, r->n_vars, sizeof *r->vars, by_number);
    return PG_OK;
}

static const char *shown_owner(const char *path)
{
    return *path ? path : "/";
}

/* Every variable once, numbers from 0 without a gap. */
static pg_status check_numbers(reading *r, const char *owner, pg_err *err)
{
    const pg__v3 *v = r->v3;
    int64_t next = 0;
    for (size_t i = 0; i < r->n_vars; i++) {
        const variable *x = &r->vars[i], *before = i ? x - 1 : NULL;
        if (before && strcmp(before->name, x->name) == 0)
            return pg_fail(err, PG_E_FORMAT, "%s: variable %s is both in %s and in %s",
                           PG_SHOW(shown_owner(owner)), PG_SHOW(x->name),
                           PG_SHOW(v->parts[before->part].name), PG_SHOW(v->parts[x->part].name));
        if (x->number < 0 || v->index)
            continue;
        if (x->number != next) {
            const pg_status st =
                pg_fail(err, PG_E_FORMAT,
                        "%s: variable %lld is missing, though there is a %lld: damaged, or one of "
                        "several shards",
                        PG_SHOW(shown_owner(owner)), (long long)next, (long long)x->number);
            if (!r->opts || !r->opts->salvage)
                return st;
            pg__str what = {0};
            pg_status set = pg__str_printf(&what, err, "%s: variable %lld is missing",
                                           PG_SHOW(shown_owner(owner)), (long long)next);
            if (set == PG_OK && !pg_store_damage(r->store))
                set = pg__store_set_damage(r->store, what.s, err);
            pg__str_fini(&what);
            if (set != PG_OK)
                return set;
        }
        next = x->number + 1;
    }
    return PG_OK;
}

static pg_status add_tensor(reading *r, const char *name, uint32_t part, uint32_t obj, int state,
                            pg_err *err)
{
    pg__v3 *v = r->v3;
    const pg__h5_object *o = pg__h5_at(v->parts[part].h5, obj);
    if (o->type.cls == PG_H5_OTHER)
        return pg_fail(err, PG_E_UNSUPPORTED, "%s", o->type.unread);
    if (pg__mem_grow(&v->tensors, &v->cap_tensors, v->n_tensors + 1, sizeof *v->tensors))
        return pg__nomem(err);
    const pg__tensor_desc d = {.name = name,
                               .dtype = o->type.dtype,
                               .big_endian = o->type.big_endian,
                               .rank = o->rank,
                               .dims = o->dims,
                               .extent = {o->contiguous ? v->parts[part].io : NULL, o->off_bytes}};
    const pg_status st =
        state ? pg__store_add_state(r->store, &d, err) : pg__store_add_weight(r->store, &d, err);
    if (st == PG_OK)
        v->tensors[v->n_tensors++] = (pg__v3_place){part, obj};
    return st;
}

/* State is what lies in an `optimizer` or `metrics` attribute of a model: under a path component of
 * that name, unless it is a layer of a class with that name, which has `layers` before it. */
int pg__v3_is_state(const char *path)
{
    const char *before = "";
    size_t n_before = 0;
    for (const char *p = path; *p;) {
        const size_t n = strcspn(p, "/");
        const int hit =
            (n == 9 && memcmp(p, "optimizer", 9) == 0) || (n == 7 && memcmp(p, "metrics", 7) == 0);
        const int in_layers =
            (n_before == 6 && memcmp(before, "layers", 6) == 0) ||
            (n_before == strlen(OLD_CONTAINER) && memcmp(before, OLD_CONTAINER, n_before) == 0);
        if (hit && !in_layers)
            return 1;
        before = p;
        n_before = n;
        p += n + (p[n] == '/');
    }
    return 0;
}

/* One owner with its variables: a layer and its weights, or state. */
static pg_status add_owner(reading *r, size_t first, size_t end, int state, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    const char *owner = r->owners.v[first].path;
    PG_TRY(gather(r, first, end, err));
    PG_TRY(check_numbers(r, owner, err));
    if (!state && (*owner || r->n_vars)) /* a model without variables of its own is not a layer */
        PG_TRY(pg__store_add_layer(r->store, shown_owner(owner), err));
    for (size_t i = 0; i < r->n_vars; i++) {
        const variable *x = &r->vars[i];
        name.n = 0;
        PG_TRY(pg__str_printf(&name, err, "%s%svars/%s", owner, *owner ? "/" : "", x->name));
        PG_TRY(add_tensor(r, name.s, x->part, x->obj, state, err));
    }
done:
    pg__str_fini(&name);
    return st;
}

static pg_status add_owners(reading *r, int state, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0, end; i < r->owners.n; i = end) {
        const char *path = r->owners.v[i].path;
        for (end = i + 1; end < r->owners.n && strcmp(r->owners.v[end].path, path) == 0;)
            end++;
        if (pg__v3_is_state(path) == state)
            PG_TRY(add_owner(r, i, end, state, err));
    }
done:
    return st;
}

/* Datasets outside of any `vars` group, and what to call them. */
static pg_status add_strays(reading *r, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str names = {0}, text = {0};
    size_t n = 0;
    for (size_t i = 0; i < r->strays.n; i++) {
        const node *x = &r->strays.v[i];
        if (i && strcmp(x[-1].path, x->path) == 0)
            PG_FAIL(PG_E_FORMAT, "%s: in more than one shard", PG_SHOW(x->path));
        PG_TRY(add_tensor(r, x->path, x->part, x->obj, 1, err));
        if (pg__v3_is_state(x->path)) /* Keras 2.12's optimizers may have groups of their own */
            continue;
        if (n++ < PG_H5_BESIDE)
            PG_TRY(pg__str_printf(&names, err, "%s%s", n > 1 ? ", " : "", PG_SHOW(x->path)));
    }
    if (n) {
        PG_TRY(pg__hdf5_say_beside(&text, n, names.s, err));
        PG_TRY(pg__store_set_beside(r->store, text.s, n, err));
    }
done:
    pg__str_fini(&names);
    pg__str_fini(&text);
    return st;
}

pg_status pg__v3_store(pg_store **out, const char *format, pg__v3 *v, const pg_open_opts *opts,
                       pg_err *err)
{
    pg_status st = PG_OK;
    reading r = {.v3 = v, .opts = opts};
    v->n_tensors = 0;
    PG_TRY(pg__store_new(&r.store, format, NULL, NULL, err));
    PG_TRY(collect(&r, err));
    PG_TRY(add_owners(&r, 0, err));
    PG_TRY(add_owners(&r, 1, err));
    PG_TRY(add_strays(&r, err));
    for (size_t i = 0; i < v->n_parts; i++)
        PG_TRY(pg__hdf5_note_unread(r.store, v->parts[i].h5, err));
    pg__store_own(r.store, &store_io, v);
    *out = r.store;
    r.store = NULL;
done:
    pg_store_close(r.store);
    free_nodes(&r.owners);
    free_nodes(&r.strays);
    pg__mem_free(r.vars);
    return st;
}

/* vars/@name below a path, from the first part that has it. */
static const char *name_at(const pg__v3 *v, const char *path)
{
    for (size_t i = 0; v && i < v->n_parts; i++) {
        const pg__h5 *h = v->parts[i].h5;
        const uint32_t owner = *path ? pg__h5_find(h, 0, path) : 0;
        const uint32_t vars = owner == PG_H5_NONE ? PG_H5_NONE : pg__h5_find(h, owner, "vars");
        const pg__h5_attr *a = vars == PG_H5_NONE ? NULL : pg__h5_attr_find(h, vars, "name");
        if (a && a->strs && a->n_elems == 1)
            return a->strs[0];
    }
    return NULL;
}

/* The same from a manifest, whose objects are in the order of the file that was split. */
static const char *name_in_manifest(const pg__manifest *m, const char *path)
{
    char vars[1024];
    const int n = snprintf(vars, sizeof vars, "%s%svars", path, *path ? "/" : "");
    size_t lo = 0, hi = n > 0 && (size_t)n < sizeof vars ? m->n_objects : 0;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const pg__shard_object *o = &m->objects[mid];
        const int c = pg__v3_path_cmp(vars, o->path);
        for (size_t i = o->first; c == 0 && i < o->first + o->n; i++)
            if (strcmp(m->attrs[i].name, "name") == 0 && m->attrs[i].strs &&
                m->attrs[i].n_elems == 1)
                return m->attrs[i].strs[0];
        if (c == 0)
            break;
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

const char *pg__v3_layer_name(const pg_store *s, size_t layer)
{
    const pg_layer *l = pg_store_layer(s, layer);
    const pg__shards *shards = pg__shards_of(s);
    const char *path = l && strcmp(l->name, "/") != 0 ? l->name : "";
    if (!l)
        return NULL;
    return shards ? name_in_manifest(pg__shards_manifest(shards), path)
                  : name_at(pg__v3_of(s), path);
}

const char *pg__v3_model_name(const pg_store *s)
{
    return name_at(pg__v3_of(s), "");
}

const char *pg__v3_shard_index(const pg_store *s)
{
    const pg__v3 *v = pg__v3_of(s);
    return v ? v->index : NULL;
}

const char *pg__v3_container(const pg_store *s)
{
    static const char *const names[] = {"layers", OLD_CONTAINER};
    const pg__v3 *v = pg__v3_of(s);
    for (size_t k = 0; v && k < sizeof names / sizeof *names; k++)
        for (size_t i = 0; i < v->n_parts; i++)
            if (pg__h5_find(v->parts[i].h5, 0, names[k]) != PG_H5_NONE)
                return names[k];
    for (size_t k = 0; !v && k < sizeof names / sizeof *names; k++) /* shards of such a file */
        for (size_t i = 0; i < pg_store_n_layers(s); i++) {
            const char *path = pg_store_layer(s, i)->name;
            const size_t n = strlen(names[k]);
            if (strncmp(path, names[k], n) == 0 && (path[n] == '/' || !path[n]))
                return names[k];
        }
    return NULL;
}

/* A `vars` group where Keras puts one: at the root, or in a group of the root. */
static int claims(const pg__h5 *h)
{
    static const char *const roots[] = {"layers", OLD_CONTAINER, "optimizer"};
    const uint32_t own = pg__h5_find(h, 0, "vars");
    if (own != PG_H5_NONE && pg__h5_at(h, own)->kind == PG_H5_GROUP)
        return 1;
    for (size_t k = 0; k < sizeof roots / sizeof *roots; k++) {
        const uint32_t root = pg__h5_find(h, 0, roots[k]);
        if (root == PG_H5_NONE)
            continue;
        for (uint32_t obj = root + 1; obj < pg__h5_n(h); obj++) {
            const pg__h5_object *o = pg__h5_at(h, obj);
            if (o->parent < root)
                break; /* depth first: no longer below */
            if (is_vars(o))
                return 1;
        }
    }
    return 0;
}

/* Keras 3.10 and later call shards <stem>_00000.weights.h5, <stem>_00001.weights.h5, ... and write
 * the model's own `vars` first, so only the first shard has it. People also number whole files like
 * that ("{epoch:05d}", from 1 on): all of those have it. */
static pg_status find_index(pg__v3 *v, const pg__h5 *h, const char *path, pg_err *err)
{
    static const char suffix[] = ".weights.h5";
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    const size_t n = strlen(base), n_suffix = sizeof suffix - 1;
    if (n < n_suffix + 7 || strcmp(base + n - n_suffix, suffix))
        return PG_OK;
    const char *tail = base + n - n_suffix - 6;
    if (tail[0] != '_' || strspn(tail + 1, "0123456789") != 5)
        return PG_OK;
    if (strncmp(tail, "_00000", 6) && pg__h5_find(h, 0, "vars") != PG_H5_NONE)
        return PG_OK;
    pg__str name = {0};
    pg_status st = pg__str_add(&name, base, (size_t)(tail - base), err);
    if (st == PG_OK)
        st = pg__str_puts(&name, ".weights.json", err);
    if (st != PG_OK)
        pg__str_fini(&name);
    v->index = name.s;
    return st;
}

pg_status pg__keras_v3_from(pg_store **out, pg__h5 *h5, pg__io *io, const pg_open_opts *opts,
                            pg_err *err)
{
    pg_status st = PG_OK;
    pg__v3 *v = NULL;
    if (!claims(h5))
        return pg_fail(err, PG_E_UNKNOWN, "no Keras weights (no group layers with vars in it)");
    PG_TRY(pg__v3_new(&v, err));
    PG_TRY(find_index(v, h5, pg__io_name(io), err));
    PG_TRY(pg__v3_add_part(v, h5, io, "", err));
    st = pg__v3_store(out, FORMAT, v, opts, err);
    if (st != PG_OK)
        v->parts[0].h5 = NULL; /* still the caller's */
    else
        v = NULL;
done:
    pg__v3_free(v);
    return st;
}

static pg_status write_file(pg__sink *sink, const pg__plan *plan, pg_err *err)
{
    pg_status st = PG_OK;
    pg__v3_image *m = NULL;
    PG_TRY(pg__v3_image_new(&m, plan, sink, err));
    if (!plan->layout_only)
        PG_TRY(pg__sink_reserve(sink, pg__v3_image_bytes(m), err));
    PG_TRY(pg__v3_image_write(m, sink, 0, err));
done:
    pg__v3_image_free(m);
    return st;
}

const pg__format pg__fmt_keras_v3 = {
    .name = FORMAT,
    .open = pg__hdf5_open, /* no probe: the walk of fmt_h5.c ends here */
    .write = write_file,
    .verify = pg__v3_verify,
    .suffixes = ".weights.h5\0",
};
