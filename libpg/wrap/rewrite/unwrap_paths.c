/* unwrap_paths.c - path layout (.weights.h5, .keras, shards): the template's group moves up.
 * Nothing is reordered there, because every layer has a place of its own (FORMATS.md: "Path
 * layout"). */
#include <string.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/fmt_keras_v3.h"
#include "model/lower/vars.h"
#include "wrap/rewrite/rewrite.h"

pg_status pg__layer_paths(pg__strs *out, const pg__model *m, const char *container, pg_err *err)
{
    const char **classes = pg__mem_array(m->n_layers, sizeof *classes);
    if (!classes)
        return pg__nomem(err);
    for (size_t k = 0; k < m->n_layers; k++)
        classes[k] = m->layers[k].class_name;
    const pg_status st = pg__v3_layer_paths(out, container, classes, m->n_layers, NULL, err);
    pg__mem_free(classes);
    return st;
}

/* All groups of a file by their paths. */
static pg_status index_groups(pg__index *out, const pg_store *s, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < pg_store_n_layers(s) && st == PG_OK; i++)
        st = pg__index_add(out, pg_store_layer(s, i)->name, i, err);
    pg__index_sort(out);
    return st;
}

/* 1 if a group is at path, or below it: "path/", which the caller made. */
static int has_group(const pg__index *groups, const char *path, const char *below)
{
    const size_t k = pg__index_from(groups, below);
    return pg__index_find(groups, path) != PG_NONE ||
           (k < groups->n && strncmp(groups->v[k].name, below, strlen(below)) == 0);
}

/* Path of the layer `target` of the graph, at any depth: "layers/functional/layers/functional". */
static pg_status find_path(pg__str *out, const pg_store *s, const pg__model *m,
                           const char *container, const pg__layer *target, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str prefix = {0};
    pg__strs own = {0};
    const char *word = pg__v3_container(s);
    PG_TRY(pg__str_puts(&prefix, container, err));
    while (m) {
        const pg__model *next = NULL;
        out->n = 0;
        PG_TRY(pg__layer_paths(&own, m, prefix.s, err));
        for (size_t i = 0; i < m->n_layers; i++) {
            if (!m->layers[i].model)
                continue;
            out->n = 0;
            PG_TRY(pg__str_puts(out, own.v[i], err));
            if (&m->layers[i] == target)
                goto done;
            next = next ? next : m->layers[i].model;
        }
        pg__strs_fini(&own);
        prefix.n = 0;
        PG_TRY(pg__str_printf(&prefix, err, "%s/%s", out->s ? out->s : "", word));
        m = next;
    }
    st = pg_fail(err, PG_E_NO, "no group of the file is that model");
done:
    pg__strs_fini(&own);
    pg__str_fini(&prefix);
    return st;
}

pg_status pg__template_group(pg__str *out, const pg_store *s, const pg__verdict *v, pg_err *err)
{
    if (v->tmpl)
        return find_path(out, s, v->graph->root, pg__v3_container(s), v->tmpl, err);
    out->n = 0;
    return pg__str_puts(out, v->path ? v->path : "", err);
}

static pg_status no_such_template(const char *name, const pg__strs *nested, pg_err *err)
{
    (void)pg_fail(err, PG_E_NO, "it has no nested model \"%s\"; nothing written", PG_SHOW(name));
    for (size_t i = 0; i < nested->n; i++)
        pg_err_detail(err, "nested model: %s", PG_SHOW(nested->v[i]));
    return PG_E_NO;
}

static pg_status named_by_config(pg__rewrite *r, const char *name, pg__str *path,
                                 const pg__layer **entry, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs nested = {0};
    const pg__model *m = r->v.graph->root;
    const size_t i = pg__model_find(m, name);
    if (r->v.tmpl && strcmp(r->v.tmpl->name, name) == 0)
        *entry = r->v.tmpl;
    else if (i != PG_NONE && m->layers[i].model)
        *entry = &m->layers[i];
    if (*entry)
        return find_path(path, r->s, m, pg__v3_container(r->s), *entry, err);
    for (size_t k = 0; k < m->n_layers; k++)
        if (m->layers[k].model)
            PG_TRY(pg__strs_add(&nested, m->layers[k].name, strlen(m->layers[k].name), err));
    st = no_such_template(name, &nested, err);
done:
    pg__strs_fini(&nested);
    return st;
}

static pg_status named_by_paths(pg__rewrite *r, const char *name, pg__str *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs nested = {0};
    pg__index groups = {0};
    pg__str inside = {0}, below = {0};
    const char *word = pg__v3_container(r->s);
    PG_TRY(index_groups(&groups, r->s, err));
    for (size_t i = 0; word && i < pg_store_n_layers(r->s); i++) {
        const char *group = pg_store_layer(r->s, i)->name, *own = pg__v3_layer_name(r->s, i);
        const char *last = strrchr(group, '/');
        inside.n = below.n = 0;
        PG_TRY(pg__str_printf(&inside, err, "%s/%s", group, word));
        PG_TRY(pg__str_printf(&below, err, "%s/", inside.s));
        if (!has_group(&groups, inside.s, below.s))
            continue;
        if ((own && strcmp(own, name) == 0) || (last && strcmp(last + 1, name) == 0)) {
            st = pg__str_puts(path, group, err);
            goto done;
        }
        own = own ? own : last ? last + 1 : group;
        PG_TRY(pg__strs_add(&nested, own, strlen(own), err));
    }
    st = no_such_template(name, &nested, err);
done:
    pg__strs_fini(&nested);
    pg__index_fini(&groups);
    pg__str_fini(&inside);
    pg__str_fini(&below);
    return st;
}

/* By config: a top-level nested model of that name. By paths: a group, or a stored layer name. */
static pg_status find_named(pg__rewrite *r, const char *name, pg__str *path,
                            const pg__layer **entry, pg_err *err)
{
    return r->v.graph ? named_by_config(r, name, path, entry, err)
                      : named_by_paths(r, name, path, err);
}

static pg_status refuse(pg__rewrite *r, pg_err *err)
{
    const pg_finding *f = &r->v.f;
    const int unclear = f->verdict == PG_V_AMBIGUOUS;
    const pg_status st =
        pg_fail(err, unclear ? PG_E_AMBIGUOUS : PG_E_NO, "%s; nothing written", f->reason);
    if (f->index && unclear) /* it does not exist */
        return st;
    if (f->index) {
        pg_err_do(err, PG_DO_UNWRAP, f->index);
        pg_err_arg(err, "suffix", ".weights.h5");
    } else if (f->template_name) {
        pg_err_do(err, PG_DO_UNWRAP, r->in);
        pg_err_arg(err, "template", "%s", f->template_name);
    }
    return st;
}

/* Compares the shapes below group with the model, leaf by leaf: each leaf's variables must exist,
 * and no group may be left over. */
typedef struct check {
    const pg_store *s;
    const char *word;
    int dialect;
    size_t n_found; /* weights that belong to a leaf */
    pg__path_misfit *misfit;
    pg__index groups;
} check;

static int has_shape(const pg__var *v, const pg_weight *w)
{
    int same = v->any_rank || v->rank == w->rank;
    for (uint32_t d = 0; same && !v->any_rank && d < w->rank; d++)
        same = v->dims[d] == PG_DIM_ANY || v->dims[d] == w->dims[d];
    return same;
}

/* The weights of one group of a leaf. below: the group is inside the leaf's own (a cell, one
 * direction); the file does not show its order among the leaf's variables, so each weight must have
 * the shape of one of them. */
static pg_status check_group(const check *c, const pg__layer *l, const pg_layer *g,
                             const pg__vars *vars, int below, size_t *held, pg_err *err)
{
    for (size_t k = 0; k < g->n_weights; k++, ++*held) {
        const pg_weight *w = pg_store_weight(c->s, g->first + k);
        const size_t first = below ? 0 : *held,
                     end = below || first >= vars->n ? vars->n : first + 1;
        int same = first >= end;
        for (size_t i = first; i < end && !same; i++)
            same = has_shape(&vars->v[i], w);
        if (!same)
            return pg_fail(err, PG_E_MISMATCH, "layer \"%s\" of the model: %s has another shape",
                           PG_SHOW(l->name), PG_SHOW(w->name));
    }
    return PG_OK;
}

static pg_status check_leaf(check *c, const pg__layer *l, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg__vars vars = {0};
    pg__str below = {0};
    size_t held = 0;
    if (!pg__stores_otherwise(l))
        PG_TRY(pg__layer_vars(&vars, l, c->dialect, err));
    PG_TRY(pg__str_printf(&below, err, "%s/", path));
    for (size_t k = pg__index_from(&c->groups, path);
         k < c->groups.n && strcmp(c->groups.v[k].name, path) == 0; k++)
        PG_TRY(check_group(c, l, pg_store_layer(c->s, c->groups.v[k].i), &vars, 0, &held, err));
    for (size_t k = pg__index_from(&c->groups, below.s);
         k < c->groups.n && strncmp(c->groups.v[k].name, below.s, below.n) == 0; k++)
        PG_TRY(check_group(c, l, pg_store_layer(c->s, c->groups.v[k].i), &vars, 1, &held, err));
    if (vars.known && held != vars.n && c->misfit)
        *c->misfit = (pg__path_misfit){l, vars.n, held};
    if (vars.known && held != vars.n)
        PG_FAIL(PG_E_MISMATCH,
                "layer \"%s\" of the model has %zu variables, the file has %zu in %s",
                PG_SHOW(l->name), vars.n, held, PG_SHOW(path));
    c->n_found += held;
done:
    pg__vars_fini(&vars);
    pg__str_fini(&below);
    return st;
}

/* Depth of models is limited by the JSON depth. */
static pg_status check_model(check *c, const pg__model *m, const char *container, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs paths = {0};
    pg__str inside = {0};
    PG_TRY(pg__layer_paths(&paths, m, container, err));
    for (size_t i = 0; i < m->n_layers; i++) {
        const pg__layer *l = &m->layers[i];
        inside.n = 0;
        PG_TRY(pg__str_printf(&inside, err, "%s/%s", paths.v[i], c->word));
        PG_TRY(l->model ? check_model(c, l->model, inside.s, err)
                        : check_leaf(c, l, paths.v[i], err));
    }
done:
    pg__strs_fini(&paths);
    pg__str_fini(&inside);
    return st;
}

pg_status pg__fits_paths(const pg_store *s, const char *group, const pg__model *m, int dialect,
                         pg__path_misfit *misfit, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str container = {0};
    size_t n_below = 0;
    check c = {.s = s, .word = pg__v3_container(s), .dialect = dialect, .misfit = misfit};
    c.word = c.word ? c.word : "layers";
    PG_TRY(pg__str_printf(&container, err, "%s%s%s", group, *group ? "/" : "", c.word));
    for (size_t i = 0; i < pg_store_n_layers(s); i++) {
        const pg_layer *l = pg_store_layer(s, i);
        if (strncmp(l->name, container.s, container.n) == 0)
            n_below += l->n_weights;
    }
    PG_TRY(index_groups(&c.groups, s, err));
    PG_TRY(check_model(&c, m, container.s, err));
    if (c.n_found != n_below)
        PG_FAIL(PG_E_MISMATCH, "the file holds %zu tensors, of which %zu have a place in the model",
                n_below, c.n_found);
done:
    pg__index_fini(&c.groups);
    pg__str_fini(&container);
    return st;
}

/* The layers of a model that hold weights: groups, and names through all models around them. */
typedef struct places {
    pg__strs paths, names;
} places;

static pg_status list_places(places *out, const pg__model *m, int dialect, const char *container,
                             const char *above, const char *word, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs paths = {0};
    pg__str inside = {0}, name = {0};
    pg__vars vars = {0};
    PG_TRY(pg__layer_paths(&paths, m, container, err));
    for (size_t i = 0; i < m->n_layers; i++) {
        const pg__layer *l = &m->layers[i];
        inside.n = name.n = 0;
        PG_TRY(pg__str_printf(&name, err, "%s%s%s", above, l->name, l->model ? "/" : ""));
        PG_TRY(pg__str_printf(&inside, err, "%s/%s", paths.v[i], word));
        if (l->model) {
            PG_TRY(list_places(out, l->model, dialect, inside.s, name.s, word, err));
            continue;
        }
        pg__vars_fini(&vars);
        PG_TRY(pg__layer_vars(&vars, l, dialect, err));
        if (vars.known && vars.n == 0)
            continue;
        PG_TRY(pg__strs_add(&out->paths, paths.v[i], strlen(paths.v[i]), err));
        PG_TRY(pg__strs_add(&out->names, name.s, name.n, err));
    }
done:
    pg__vars_fini(&vars);
    pg__strs_fini(&paths);
    pg__str_fini(&inside);
    pg__str_fini(&name);
    return st;
}

static pg_status index_of(pg__index *out, const pg__strs *s, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < s->n && st == PG_OK; i++)
        st = pg__index_add(out, s->v[i], i, err);
    pg__index_sort(out);
    return st;
}

/* A group is named after its class and its position, so two layers of equal shape may be exchanged
 * without a trace. The names in the file's own description show it: a name of the given model at
 * another position in the file is refused. */
static pg_status same_places(const pg__rewrite *r, const char *group, const pg__model *mine,
                             const pg__model *given, pg_err *err)
{
    pg_status st = PG_OK;
    places a = {0}, b = {0};
    pg__index paths = {0}, names = {0};
    pg__str container = {0};
    PG_TRY(pg__str_printf(&container, err, "%s%slayers", group, *group ? "/" : ""));
    PG_TRY(list_places(&a, mine, r->v.graph->dialect, container.s, "", "layers", err));
    PG_TRY(list_places(&b, given, r->like->dialect, container.s, "", "layers", err));
    PG_TRY(index_of(&paths, &a.paths, err));
    PG_TRY(index_of(&names, &a.names, err));
    for (size_t i = 0; i < b.paths.n; i++) {
        const size_t k = pg__index_find(&paths, b.paths.v[i]);
        if (k != PG_NONE && strcmp(a.names.v[k], b.names.v[i]) != 0 &&
            pg__index_find(&names, b.names.v[i]) != PG_NONE)
            PG_FAIL(PG_E_MISMATCH,
                    "layer \"%s\" stands in another place in the model config in the file than in "
                    "the given one",
                    PG_SHOW(b.names.v[i]));
    }
done:
    pg__strs_fini(&a.paths);
    pg__strs_fini(&a.names);
    pg__strs_fini(&b.paths);
    pg__strs_fini(&b.names);
    pg__index_fini(&paths);
    pg__index_fini(&names);
    pg__str_fini(&container);
    return st;
}

/* mine: the file's own description of the model, or NULL. */
static pg_status check_like(pg__rewrite *r, const char *group, const pg__model *mine, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__layer *inner = NULL;
    const char *word = pg__v3_container(r->s);
    if (word && strcmp(word, "layers") != 0)
        return pg__add_note(
            r, err, "not compared with the model: Keras 2.12 and 2.13 count groups in another way");
    PG_TRY(pg__like_template(&inner, r->like, err));
    const pg__model *given = inner ? inner->model : r->like->root;
    PG_TRY(pg__fits_paths(r->s, group, given, r->like->dialect, NULL, err));
    if (mine)
        PG_TRY(same_places(r, group, mine, given, err));
done:
    return st;
}

static int is_compiled(const pg__graph *g)
{
    const pg__json_step path[] = {PG_JKEY("compile_config"), {0}};
    const pg__json_span span = pg__json_range(g->text, g->n_text, path);
    return span.n && g->text[span.off] == '{';
}

/* What becomes of the optimizer, and of datasets that somebody put beside the weights. */
static pg_status report_state(pg__rewrite *r, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0, n_beside = 0;
    const char *beside = pg_store_beside(r->s, NULL);
    for (size_t i = 0; i < pg_store_n_state(r->s); i++)
        if (pg__plan_keeps_state(&r->plan, i))
            ++*(pg__v3_is_state(pg_store_state(r->s, i)->name) ? &n : &n_beside);
    if (n)
        PG_TRY(pg__add_kept(r, err, "optimizer and metrics (%zu tensors)", n));
    if (beside && n_beside)
        PG_TRY(pg__add_kept(r, err, "%s", beside));
    else if (beside)
        PG_TRY(pg__add_note(r, err, "left out: %s", beside));
done:
    return st;
}

/* trained: it is the wrapper's template, to which compile_config and optimizer belong. */
static pg_status add_notes(pg__rewrite *r, int trained, const pg_unwrap_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    const pg_finding *f = &r->v.f;
    r->rep.action = "unwrapped";
    r->rep.replicas = f->verdict == PG_V_WRAPPER && trained ? f->replicas : 0;
    PG_TRY(pg__add_template(r, o->template_name ? o->template_name : f->template_name, err));
    for (size_t i = 0; f->verdict == PG_V_WRAPPER && i < f->n_slices; i++)
        PG_TRY(pg__add_removed(
            r, err, "%s%s", PG_SHOW(f->slices[i]),
            r->v.graph && i + 1 == f->n_slices ? " (Python bytecode, not executed)" : ""));
    for (size_t i = 0; f->verdict == PG_V_WRAPPER && i < f->n_merges; i++)
        PG_TRY(pg__add_removed(r, err, "%s (merge)", PG_SHOW(f->merges[i])));
    if (r->plan.model_config && trained && is_compiled(r->v.graph))
        PG_TRY(pg__add_kept(r, err, "compile_config"));
    PG_TRY(report_state(r, err));
    if (f->verdict == PG_V_WRAPPER && !f->certain)
        PG_TRY(pg__add_note(r, err, "likely a wrapper: %s",
                            f->n_evidence ? f->evidence[f->n_evidence - 1] : f->reason));
done:
    return st;
}

static pg_status config_for(pg__rewrite *r, const pg__layer *entry, int trained,
                            const pg_unwrap_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    if (!entry || o->weights_only)
        return PG_OK;
    PG_TRY(pg__text_zip(&text, r->v.graph->text, entry->entry, trained ? r->v.graph : NULL,
                        &r->v.outputs, &r->v.originals, err));
    PG_TRY(pg__plan_set_text(&r->plan, PG_TEXT_MODEL_CONFIG, text.s, text.n, err));
done:
    pg__str_fini(&text);
    return st;
}

/* A file that is not a wrapper, with --like: nothing to change, but it can be checked whether it
 * fits. */
static pg_status copy_checked(pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(check_like(r, "", r->v.graph ? r->v.graph->root : NULL, err));
    PG_TRY(pg__plan_copy_of(&r->plan, r->s, err));
    if (o->weights_only) {
        pg__mem_free(r->plan.model_config);
        r->plan.model_config = NULL;
    }
    r->plan.keep_state = !o->weights_only && !o->no_optimizer;
    r->rep.action = "repaired";
    PG_TRY(pg__add_note(r, err, "it fits the model as it is; copied"));
done:
    return st;
}

pg_status pg__unwrap_paths(pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    const pg__layer *entry = NULL;
    const pg_verdict is = r->v.f.verdict;
    if (pg__v3_shard_index(r->s))
        return refuse(r, err);
    if (o->template_name) {
        PG_TRY(find_named(r, o->template_name, &path, &entry, err));
    } else if (is == PG_V_WRAPPER && r->v.tmpl) {
        entry = r->v.tmpl;
        PG_TRY(find_path(&path, r->s, r->v.graph->root, pg__v3_container(r->s), entry, err));
    } else if ((is == PG_V_WRAPPER || (is == PG_V_AMBIGUOUS && o->like)) && r->v.path) {
        PG_TRY(pg__str_puts(&path, r->v.path, err));
    } else if (o->like) {
        PG_TRY(copy_checked(r, o, err));
        goto done;
    } else {
        st = refuse(r, err);
        goto done;
    }
    if (o->like)
        PG_TRY(check_like(r, path.s, entry ? entry->model : NULL, err));
    PG_TRY(pg__v3_lift(&r->plan, r->s, path.s, err));
    const int trained = entry ? entry == r->v.tmpl
                              : (is == PG_V_WRAPPER || is == PG_V_AMBIGUOUS) && r->v.path &&
                                    strcmp(path.s, r->v.path) == 0;
    PG_TRY(config_for(r, entry, trained, o, err));
    r->plan.keep_state = trained && !o->weights_only && !o->no_optimizer;
    PG_TRY(add_notes(r, trained, o, err));
done:
    pg__str_fini(&path);
    return st;
}
