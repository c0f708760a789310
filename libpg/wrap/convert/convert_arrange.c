/* convert_arrange.c - turns tensors listed by layer (legacy files) into tensors by path, and back.
 * Neither holds what the other needs: paths name classes, lists name layers. The model's
 * description connects them: both sides are matched with its variables by the rules of unwrapping,
 * and every tensor must find its variable and every variable its tensor. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/fmt_keras_v3.h"
#include "model/fit/fit.h"
#include "wrap/convert/convert_torch.h"

/* ---- filling slots ---- */

static int dims_agree(const pg__var *v, const pg__take *t)
{
    const pg__stored w = {.rank = t->rank, .dims = t->dims};
    return v->any_rank || pg__dims_agree(v, &w);
}

/* The variables of all leaves in one array: first[leaf] + var; takes[] of those found. */
typedef struct found {
    size_t *first;
    pg__take *takes;
    unsigned char *has;
} found;

static void found_fini(found *f)
{
    pg__mem_free(f->first);
    pg__mem_free(f->takes);
    pg__mem_free(f->has);
}

static pg_status found_new(found *f, const pg__leaves *leaves, pg_err *err)
{
    f->first = pg__mem_array(leaves->n + 1, sizeof *f->first);
    f->takes = pg__mem_array(leaves->n_vars, sizeof *f->takes);
    f->has = pg__mem_array(leaves->n_vars, 1);
    if (!f->first || !f->takes || !f->has)
        return pg__nomem(err);
    for (size_t i = 0; i < leaves->n; i++)
        f->first[i + 1] = f->first[i] + leaves->v[i].vars.n;
    return PG_OK;
}

/* A variable of an unknown class: in the layer's own list, in its order. */
static pg_status add_unknown(pg__slots *s, size_t leaf, size_t k, const pg__take *t, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0}, name = {0};
    const pg__leaf *l = &s->leaves.v[leaf];
    if (*l->parent)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "layer %s of model %s: class %s is not known, so its variables have no "
                       "certain place",
                       PG_SHOW(l->layer->name), PG_SHOW(l->parent), PG_SHOW(l->layer->class_name));
    PG_TRY(pg__str_printf(&path, err, "%s/vars/%zu", s->leaf_path[leaf], k));
    PG_TRY(pg__str_printf(&name, err, "%s/param_%zu:0", l->layer->name, k));
    if (pg__mem_grow(&s->v, &s->cap, s->n + 1, sizeof *s->v)) {
        st = pg__nomem(err);
        goto done;
    }
    s->v[s->n++] = (pg__slot){.leaf = leaf,
                              .var = k,
                              .n_gates = 1,
                              .kind = "param",
                              .trainable = 1,
                              .path = path.s,
                              .name = name.s,
                              .filled = 1,
                              .take = *t};
    path = name = (pg__str){0};
done:
    pg__str_fini(&path);
    pg__str_fini(&name);
    return st;
}

static pg_status does_not_fit(const pg__strs *missing, const pg__strs *extra, pg_err *err)
{
    const pg_status st =
        pg_fail(err, PG_E_MISMATCH, "its layers do not fit the model one to one; nothing written");
    for (size_t i = 0; i < missing->n; i++)
        pg_err_detail(err, "missing: %s", missing->v[i]);
    for (size_t i = 0; i < extra->n; i++)
        pg_err_detail(err, "extra: %s", extra->v[i]);
    return st;
}

static pg_status take_slots(pg__convert *c, pg__slots *s, const found *f, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < s->n; i++) {
        pg__slot *slot = &s->v[i];
        const pg__leaf *leaf = &s->leaves.v[slot->leaf];
        const size_t at = f->first[slot->leaf];
        const char *why = NULL;
        if (slot->filled) /* of an unknown class */
            continue;
        for (uint32_t k = 0; k < slot->n_gates; k++)
            if (!f->has[at + slot->var + 3 * k])
                PG_FAIL(PG_E_MISMATCH, "layer %s of the model: the file has no %s for it",
                        PG_SHOW(leaf->layer->name), slot->kind);
        slot->take = f->takes[at + slot->var];
        if (c->keras1)
            pg__keras1_take(slot, leaf, f->takes + at, &why);
        if (why && !c->o->keep_keras1)
            PG_FAIL(PG_E_UNSUPPORTED, "layer %s (%s of Keras 1): %s", PG_SHOW(leaf->layer->name),
                    PG_SHOW(leaf->layer->class_name), why);
        slot->filled = 1;
    }
done:
    return st;
}

/* From a legacy list, by pg__align() and pg__locate(). */
static pg_status fill_from_layers(pg__slots *s, pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg_store *view = NULL;
    pg__alignment align = {0};
    pg__location at = {0};
    found f = {0};
    PG_TRY(pg__outline_store(&view, NULL, &c->at, c->r.s, err));
    PG_TRY(found_new(&f, &s->leaves, err));
    PG_TRY(pg__align(&align, c->graph->root, &s->leaves, view, err));
    if (align.missing.n || align.extra.n) {
        st = does_not_fit(&align.missing, &align.extra, err);
        goto done;
    }
    PG_TRY(pg__locate(&at, view, &align, &s->leaves, err));
    for (size_t i = 0; i < at.n; i++) {
        const pg__take *t = &c->at.tensors[i].take;
        const size_t leaf = at.leaf[i];
        if (leaf == PG_NONE)
            PG_FAIL(PG_E_MISMATCH, "%s belongs to no layer of the model",
                    PG_SHOW(c->at.tensors[i].name));
        const pg__vars *vars = &s->leaves.v[leaf].vars;
        if (!vars->known) {
            const size_t first = c->at.layers[pg_store_weight(view, i)->layer].first;
            PG_TRY(add_unknown(s, leaf, i - first, t, err));
            continue;
        }
        f.takes[f.first[leaf] + at.var[i]] = *t;
        f.has[f.first[leaf] + at.var[i]] = 1;
    }
    PG_TRY(take_slots(c, s, &f, err));
done:
    found_fini(&f);
    pg__location_fini(&at);
    pg__alignment_fini(&align);
    pg_store_close(view);
    return st;
}

/* Variables of an unknown class, which must all be its own. */
static pg_status fill_unknown(pg__slots *s, const pg__outline *o, size_t *n_used, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t leaf = 0; leaf < s->leaves.n; leaf++) {
        const size_t n = strlen(s->leaf_path[leaf]);
        if (s->leaves.v[leaf].vars.known)
            continue;
        for (size_t i = 0; i < o->n_layers; i++) {
            const pg__out_layer *l = &o->layers[i];
            if (strncmp(l->name, s->leaf_path[leaf], n) != 0 || (l->name[n] && l->name[n] != '/'))
                continue;
            if (l->name[n] && l->n)
                PG_FAIL(PG_E_UNSUPPORTED,
                        "layer %s: class %s is not known, and %s shows that it holds other layers",
                        PG_SHOW(s->leaves.v[leaf].layer->name),
                        PG_SHOW(s->leaves.v[leaf].layer->class_name), PG_SHOW(l->name));
            for (size_t k = 0; k < l->n; k++, ++*n_used)
                PG_TRY(add_unknown(s, leaf, k, &o->tensors[l->first + k].take, err));
        }
    }
done:
    return st;
}

static pg_status fill_from_paths(pg__slots *s, const pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    size_t *index = NULL, n_used = 0;
    const pg__outline *o = &c->at;
    PG_TRY(pg__outline_index(&index, o, err));
    for (size_t i = 0; i < s->n; i++, n_used++) {
        pg__slot *slot = &s->v[i];
        const pg__leaf *leaf = &s->leaves.v[slot->leaf];
        const size_t at = pg__outline_find(o, index, slot->path);
        if (at == PG_NONE)
            PG_FAIL(PG_E_MISMATCH, "layer %s of the model: the file has no %s; nothing written",
                    PG_SHOW(leaf->layer->name), PG_SHOW(slot->path));
        if (!dims_agree(&leaf->vars.v[slot->var], &o->tensors[at].take))
            PG_FAIL(PG_E_MISMATCH, "layer %s of the model: %s has another shape; nothing written",
                    PG_SHOW(leaf->layer->name), PG_SHOW(slot->path));
        slot->take = o->tensors[at].take;
        slot->filled = 1;
        n_used += slot->copy && pg__outline_find(o, index, slot->copy) != PG_NONE;
    }
    PG_TRY(fill_unknown(s, o, &n_used, err));
    if (n_used != o->n_tensors)
        PG_FAIL(PG_E_MISMATCH,
                "the model has %zu variables, the file %zu: it is another model's; nothing written",
                n_used, o->n_tensors);
done:
    pg__mem_free(index);
    return st;
}

/* By the names that safetensors get, if only the description shows the layers. */
static pg_status fill_from_names(pg__slots *s, const pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    size_t *index = NULL;
    PG_TRY(pg__outline_index(&index, &c->at, err));
    for (size_t i = 0; i < s->n; i++) {
        pg__slot *slot = &s->v[i];
        const pg__leaf *leaf = &s->leaves.v[slot->leaf];
        name.n = 0;
        PG_TRY(pg__flat_name(&name, c->graph->root->layers[leaf->top].name, slot->name, err));
        size_t at = pg__outline_find(&c->at, index, name.s);
        if (at == PG_NONE) { /* Keras' own names do not tell of a model around the layer */
            name.n = 0;
            PG_TRY(pg__str_add(&name, slot->name, strcspn(slot->name, ":"), err));
            at = pg__outline_find(&c->at, index, name.s);
        }
        if (at == PG_NONE || !dims_agree(&leaf->vars.v[slot->var], &c->at.tensors[at].take))
            PG_FAIL(PG_E_MISMATCH, "layer %s of the model: the file has no tensor %s of its shape",
                    PG_SHOW(leaf->layer->name), PG_SHOW(name.s));
        slot->take = c->at.tensors[at].take;
        slot->filled = 1;
    }
    if (s->n != c->at.n_tensors)
        PG_FAIL(PG_E_MISMATCH, "the model has %zu variables, the file %zu tensors", s->n,
                c->at.n_tensors);
done:
    pg__mem_free(index);
    pg__str_fini(&name);
    return st;
}

/* By the graph of objects that wrote the file, as TensorFlow itself restores it; within: the object
 * that is the model, "" or "layer-3/". */
static pg_status fill_from(pg__slots *s, const pg__convert *c, const char *within, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__outline *o = &c->at;
    const size_t n_src = pg__store_n_tensors(c->r.s);
    unsigned char *used = pg__mem_array(o->n_tensors, 1);
    size_t *by_src = pg__mem_array(n_src, sizeof *by_src); /* 1 + the tensor of the outline */
    size_t n_used = 0;
    pg__str path = {0};
    if (!used || !by_src)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < o->n_tensors; i++)
        by_src[o->tensors[i].take.block[0].src] = i + 1;
    for (size_t i = 0; i < s->n; i++) {
        pg__slot *slot = &s->v[i];
        const pg__leaf *leaf = &s->leaves.v[slot->leaf];
        path.n = 0;
        PG_TRY(pg__str_printf(&path, err, "%s%s", within, slot->object));
        const size_t src = pg__store_find_object(c->r.s, path.s);
        const size_t at = src < n_src ? by_src[src] - 1 : PG_NONE;
        if (at >= o->n_tensors)
            PG_FAIL(PG_E_MISMATCH, "layer %s of the model: the checkpoint has no %s for it",
                    PG_SHOW(leaf->layer->name), PG_SHOW(slot->object));
        if (!dims_agree(&leaf->vars.v[slot->var], &o->tensors[at].take))
            PG_FAIL(PG_E_MISMATCH, "layer %s of the model: %s of the checkpoint has another shape",
                    PG_SHOW(leaf->layer->name), PG_SHOW(slot->object));
        slot->take = o->tensors[at].take;
        slot->filled = 1;
        n_used += !used[at];
        used[at] = 1;
    }
    for (size_t i = 0; n_used < o->n_tensors && i < o->n_tensors; i++)
        if (!used[i])
            PG_FAIL(PG_E_MISMATCH, "%s of the checkpoint belongs to no layer of the model",
                    PG_SHOW(o->tensors[i].name));
done:
    pg__mem_free(used);
    pg__mem_free(by_src);
    pg__str_fini(&path);
    return st;
}

/* A wrapper's checkpoint fits its template, too, whose objects stand below one of its layers. */
static pg_status fill_from_objects(pg__slots *s, pg__convert *c, pg_err *err)
{
    pg__str within = {0};
    pg_err why = {0};
    const char *inner = pg__store_inner_object(c->r.s);
    pg_status st = fill_from(s, c, "", &why);
    if (st != PG_E_MISMATCH || !inner)
        goto done;
    PG_TRY(pg__str_printf(&within, err, "%s/", inner));
    st = fill_from(s, c, within.s, NULL);
    if (st == PG_OK && !c->o->unwrap)
        PG_TRY(pg__add_note(&c->r, err, "unwrapped: the model is \"%s\" of the checkpoint's",
                            PG_SHOW(inner)));
    else if (st != PG_OK)
        st = PG_E_MISMATCH; /* of the model as it is */
done:
    if (st != PG_OK && why.code == st && err)
        *err = why;
    pg__str_fini(&within);
    return st;
}

static int by_leaf(const void *a, const void *b)
{
    const pg__slot *x = a, *y = b;
    if (x->leaf != y->leaf)
        return x->leaf < y->leaf ? -1 : 1;
    return (x->var > y->var) - (x->var < y->var);
}

/* Keras 2's words for the parts of attention, if the file uses them. */
static int words_of(const pg__outline *o)
{
    for (size_t i = 0; i < o->n_tensors; i++) {
        const char *attention = strstr(o->tensors[i].name, "/multi_head_attention");
        if (attention && strstr(attention, "/_query_dense/"))
            return 2;
    }
    return 3;
}

pg_status pg__fill_slots(pg__slots *out, pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__slots s = {0};
    const int paths = c->at.shape == PG_SHAPE_PATHS;
    if (!c->graph)
        return pg__convert_needs_model(c, "the other layout", err);
    const int dialect = c->keras1 && c->o->keep_keras1 ? 1 : c->dialect;
    PG_TRY(pg__slots_of(&s, c->graph, paths ? words_of(&c->at) : dialect, err));
    if (paths)
        PG_TRY(fill_from_paths(&s, c, err));
    else if (c->at.shape == PG_SHAPE_LAYERS)
        PG_TRY(fill_from_layers(&s, c, err));
    else if (pg__store_has_objects(c->r.s))
        PG_TRY(fill_from_objects(&s, c, err));
    else if (pg__names_are_torch(&c->at))
        PG_TRY(pg__fill_from_torch(&s, c, err));
    else
        PG_TRY(fill_from_names(&s, c, err));
    if (s.n)
        qsort(s.v, s.n, sizeof *s.v, by_leaf);
    for (size_t i = 0, k = 0; i <= s.leaves.n; i++) {
        while (k < s.n && s.v[k].leaf < i)
            k++;
        s.first[i] = k;
    }
    *out = s;
    s = (pg__slots){0};
done:
    pg__slots_fini(&s);
    return st;
}

/* ---- slots into layers ---- */

/* Trainable ones of all leaves of a layer first, then the others. */
static pg_status emit_layer(pg__outline *to, const pg__slots *s, size_t top, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__leaves part = pg__leaves_below(&s->leaves, top);
    const size_t first = part.n ? (size_t)(part.v - s->leaves.v) : 0;
    for (int trainable = 1; trainable >= 0; trainable--)
        for (size_t i = s->first[first]; i < s->first[first + part.n]; i++)
            if (part.n && s->v[i].trainable == trainable)
                PG_TRY(pg__outline_add(to, s->v[i].name, &s->v[i].take, err));
done:
    return st;
}

pg_status pg__emit_layers(pg__outline *to, const pg__slots *s, const pg__graph *g, pg_err *err)
{
    pg_status st = PG_OK;
    to->shape = PG_SHAPE_LAYERS;
    for (size_t i = 0; i < g->root->n_layers; i++) {
        if (!pg__layer_is_listed(g->root, i))
            continue;
        PG_TRY(pg__outline_layer(to, g->root->layers[i].name, NULL, err));
        PG_TRY(emit_layer(to, s, i, err));
        PG_TRY(pg__outline_unique(to, to->n_layers - 1, err));
    }
done:
    return st;
}

/* ---- slots into paths ---- */

/* A group that owns `vars`, or a variable in it. */
typedef struct entry {
    const char *path; /* a slot's ends with /vars/<k> */
    size_t n, k;      /* bytes of the owner's path; k of a variable */
    const pg__slot *slot;
    const char *label;
} entry;

/* Compares component by component, as pg__v3_path_cmp() does. */
static int by_owner(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    for (size_t i = 0;; i++) {
        const int p = i >= x->n ? 0 : x->path[i] == '/' ? 1 : (unsigned char)x->path[i] + 1;
        const int q = i >= y->n ? 0 : y->path[i] == '/' ? 1 : (unsigned char)y->path[i] + 1;
        if (p != q)
            return p < q ? -1 : 1;
        if (p == 0)
            break;
    }
    if (!x->slot || !y->slot)
        return (x->slot != NULL) - (y->slot != NULL);
    return (x->k > y->k) - (x->k < y->k);
}

static entry entry_of(const pg__slot *s, const char *path)
{
    const char *slash = strrchr(path, '/');
    return (entry){.path = path,
                   .n = (size_t)(slash - path) - strlen("/vars"),
                   .k = (size_t)strtoul(slash + 1, NULL, 10),
                   .slot = s};
}

static pg_status emit_paths(pg__outline *to, const pg__slots *s, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str owner = {0};
    size_t n = s->n_groups;
    entry *v = pg__mem_array(s->n_groups + 2 * s->n, sizeof *v);
    if (!v)
        return pg__nomem(err);
    for (size_t i = 0; i < s->n_groups; i++)
        v[i] = (entry){
            .path = s->groups[i].path, .n = strlen(s->groups[i].path), .label = s->groups[i].label};
    for (size_t i = 0; i < s->n; i++) {
        v[n++] = entry_of(&s->v[i], s->v[i].path);
        if (s->v[i].copy)
            v[n++] = entry_of(&s->v[i], s->v[i].copy);
    }
    if (n)
        qsort(v, n, sizeof *v, by_owner);
    to->shape = PG_SHAPE_PATHS;
    for (size_t i = 0; i < n; i++) {
        const int same = i && v[i].n == v[i - 1].n && memcmp(v[i].path, v[i - 1].path, v[i].n) == 0;
        owner.n = 0;
        PG_TRY(pg__str_add(&owner, v[i].path, v[i].n, err));
        if (!same)
            PG_TRY(pg__outline_layer(to, owner.s, v[i].label, err));
        if (v[i].slot)
            PG_TRY(pg__outline_add(to, v[i].path, &v[i].slot->take, err));
    }
done:
    pg__mem_free(v);
    pg__str_fini(&owner);
    return st;
}

/* ---- the step ---- */

/* Path to path between Keras 2 and 3: attention's parts change their names and nothing else. */
static pg_status rename_attention(pg__outline *o, int dialect, pg_err *err)
{
    static const char *const words[] = {"query_dense", "key_dense", "value_dense", "output_dense"};
    pg_status st = PG_OK;
    pg__str now = {0};
    for (size_t i = 0; i < o->n_tensors + o->n_layers; i++) {
        char **name = i < o->n_tensors ? &o->tensors[i].name : &o->layers[i - o->n_tensors].name;
        const char *attention = strstr(*name, "/multi_head_attention"), *last = NULL;
        for (size_t k = 0; attention && k < 4; k++) {
            const char *hit = strstr(attention, words[k]);
            last = hit && (hit[-1] == '/' || (hit[-1] == '_' && hit[-2] == '/')) ? hit : last;
        }
        if (!last)
            continue;
        const int private = last[-1] == '_';
        now.n = 0;
        PG_TRY(pg__str_add(&now, *name, (size_t)(last - *name) - (size_t) private, err));
        PG_TRY(pg__str_printf(&now, err, "%s%s", dialect == 2 ? "_" : "", last));
        char *copy = pg__mem_strdup(now.s);
        if (!copy) {
            st = pg__nomem(err);
            goto done;
        }
        pg__mem_free(*name);
        *name = copy;
    }
done:
    pg__str_fini(&now);
    return st;
}

static int by_path(const void *a, const void *b)
{
    return pg__v3_path_cmp(((const pg__out_layer *)a)->name, ((const pg__out_layer *)b)->name);
}

/* Groups in the order in which a reader lists them. */
static pg_status sort_paths(pg__outline *o, pg_err *err)
{
    pg__out_tensor *sorted = pg__mem_array(o->n_tensors, sizeof *sorted);
    size_t n = 0;
    if (!sorted)
        return pg__nomem(err);
    if (o->n_layers)
        qsort(o->layers, o->n_layers, sizeof *o->layers, by_path);
    for (size_t i = 0; i < o->n_layers; i++) {
        pg__out_layer *l = &o->layers[i];
        for (size_t k = 0; k < l->n; k++)
            sorted[n + k] = o->tensors[l->first + k];
        l->first = n;
        n += l->n;
    }
    pg__mem_free(o->tensors);
    o->tensors = sorted;
    o->cap_tensors = o->n_tensors;
    return PG_OK;
}

pg_status pg__arrange(pg__convert *c, pg__shape to, pg_err *err)
{
    pg_status st = PG_OK;
    pg__slots s = {0};
    pg__outline next = {0};
    const int keras = c->r.v.graph && c->r.v.graph->dialect == 3 ? 3 : 2;
    if (c->at.shape == PG_SHAPE_PATHS && to == PG_SHAPE_PATHS) {
        if (c->o->keras && c->o->keras != keras)
            st = rename_attention(&c->at, c->o->keras, err);
        return st == PG_OK ? sort_paths(&c->at, err) : st;
    }
    if (c->at.shape == to && !c->keras1)
        return PG_OK;
    PG_TRY(pg__fill_slots(&s, c, err));
    if (to == PG_SHAPE_PATHS)
        PG_TRY(emit_paths(&next, &s, err));
    else
        PG_TRY(pg__emit_layers(&next, &s, c->graph, err));
    if (s.attention && to == PG_SHAPE_PATHS)
        PG_TRY(pg__add_note(&c->r, err,
                            "attention: groups named as Keras %d reads them, not Keras %d",
                            c->dialect, 5 - c->dialect));
    pg__outline_replace(&c->at, &next);
done:
    pg__slots_fini(&s);
    pg__outline_fini(&next);
    return st;
}
