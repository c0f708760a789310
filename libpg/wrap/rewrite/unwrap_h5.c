/* unwrap_h5.c - legacy layout: which model to take out, what determines the order of its layers,
 * and the texts of a full model.
 *
 *   config in the file     its nested config decides; a --like that contradicts it does not fit
 *   --like MODEL           the one list of weights must fit the model exactly
 *   neither                names must leave one order (order.c), else nothing is written
 */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "wrap/judge/judge.h"
#include "wrap/rewrite/rewrite.h"

pg_status pg__like_template(const pg__layer **tmpl, const pg__graph *like, pg_err *err)
{
    *tmpl = NULL;
    pg_store *none = NULL;
    pg__verdict v = {0};
    pg_status st = pg__store_new(&none, "model", NULL, NULL, err);
    if (st != PG_OK)
        return st;
    v.graph = (pg__graph *)(uintptr_t)like; /* borrowed: removed again before the release */
    st = pg__judge_config(&v, none, err);
    if (st == PG_OK && v.f.verdict == PG_V_WRAPPER)
        *tmpl = v.tmpl;
    v.graph = NULL;
    pg__verdict_fini(&v);
    pg_store_close(none);
    return st;
}

/* ---- what the report says ---- */

pg_status pg__report_wrapper(pg__rewrite *r, const char *name, pg_err *err)
{
    pg_status st = PG_OK;
    const pg_finding *f = &r->v.f;
    r->rep.action = "unwrapped";
    PG_TRY(pg__add_template(r, name, err));
    if (f->verdict != PG_V_WRAPPER && f->verdict != PG_V_AMBIGUOUS)
        goto done;
    r->rep.replicas = f->replicas;
    for (size_t i = 0; i < f->n_slices; i++)
        PG_TRY(pg__add_removed(
            r, err, "%s%s", PG_SHOW(f->slices[i]),
            r->v.graph && i + 1 == f->n_slices ? " (Python bytecode, not executed)" : ""));
    for (size_t i = 0; i < f->n_merges; i++)
        PG_TRY(pg__add_removed(r, err, "%s (merge)", PG_SHOW(f->merges[i])));
    if (f->verdict == PG_V_WRAPPER && !f->certain)
        PG_TRY(pg__add_note(r, err, "likely a wrapper: its %s",
                            r->v.graph ? "slices do not say which part of the batch they take"
                                       : "merge does not carry the name of a layer inside"));
done:
    return st;
}

/* ---- texts ---- */

static pg_status training_config(pg__rewrite *r, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    int clash = 0;
    pg__str text = {0};
    const char *training = pg_store_text(r->s, PG_TEXT_TRAINING_CONFIG, &n);
    if (!training)
        return PG_OK;
    PG_TRY(pg__text_training(&text, training, n, &r->v.outputs, &r->v.originals, &clash, err));
    PG_TRY(pg__plan_set_text(&r->plan, PG_TEXT_TRAINING_CONFIG, text.s, text.n, err));
    PG_TRY(pg__add_kept(r, err, "training_config"));
    if (clash)
        PG_TRY(pg__add_note(
            r, err,
            "training_config still names the wrapper's outputs: two outputs of the template "
            "have one name"));
done:
    pg__str_fini(&text);
    return st;
}

/* Only the template of a wrapper was trained by the training_config; a model inside another one was
 * not. */
pg_status pg__full_texts(pg__rewrite *r, const pg__layer *entry, int trained,
                         const pg_unwrap_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    if (o->weights_only)
        return PG_OK;
    PG_TRY(pg__text_model(&text, r->v.graph, entry, err));
    PG_TRY(pg__plan_set_text(&r->plan, PG_TEXT_MODEL_CONFIG, text.s, text.n, err));
    if (!trained)
        goto done;
    PG_TRY(training_config(r, err));
    r->plan.keep_state = !o->no_optimizer;
    if (r->plan.keep_state && pg_store_n_state(r->s))
        PG_TRY(pg__add_kept(r, err, "optimizer state (%zu tensors)", pg_store_n_state(r->s)));
done:
    pg__str_fini(&text);
    return st;
}

/* ---- with a config ---- */

static pg_status store_layer_of(size_t *out, const pg__rewrite *r, const char *name, pg_err *err)
{
    for (size_t i = 0; i < pg_store_n_layers(r->s); i++)
        if (strcmp(pg_store_layer(r->s, i)->name, name) == 0) {
            *out = i;
            return PG_OK;
        }
    return pg_fail(err, PG_E_FORMAT,
                   "layer \"%s\" of the model config has no group among the weights",
                   PG_SHOW(name));
}

/* Where one model places the weights of the template. */
typedef struct grouped {
    const pg__model *m;
    pg__leaves leaves;
    pg__placing placing;
} grouped;

/* Layers of both models that hold the same weights are paired, both ways, and must stand in the
 * same order: Keras goes by position. */
static pg_status same_tops(const grouped *a, const grouped *b, const pg__stored *stored, size_t n,
                           pg_err *err)
{
    pg_status st = PG_OK;
    const size_t na = a->m->n_layers;
    size_t *to = pg__mem_array(na, sizeof *to);
    size_t *from = pg__mem_array(b->m->n_layers, sizeof *from);
    if (!to || !from) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < n; i++) { /* 0: not paired yet */
        const size_t x = a->leaves.v[a->placing.leaf[i]].top;
        const size_t y = b->leaves.v[b->placing.leaf[i]].top;
        if ((to[x] && to[x] != y + 1) || (from[y] && from[y] != x + 1))
            PG_FAIL(PG_E_MISMATCH,
                    "the model config in the file and the given one put %s into layers differently",
                    PG_SHOW(stored[i].name));
        to[x] = y + 1;
        from[y] = x + 1;
    }
    for (size_t x = 0, last = 0; x < na; x++) {
        if (to[x] && to[x] < last)
            PG_FAIL(PG_E_MISMATCH,
                    "layer \"%s\" stands in another place in the model config in the file than in "
                    "the given one",
                    PG_SHOW(a->m->layers[x].name));
        last = to[x] ? to[x] : last;
    }
done:
    pg__mem_free(to);
    pg__mem_free(from);
    return st;
}

/* The leaf each weight belongs to, by either model: a --like is believed only if both say the same.
 */
static pg_status same_grouping(const pg__rewrite *r, size_t layer, const pg__model *mine,
                               int my_dialect, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__graph *like = r->like;
    const pg__layer *inner = NULL;
    grouped a = {.m = mine}, b = {0};
    pg__stored *stored = NULL;
    const size_t n = pg_store_layer(r->s, layer)->n_weights;
    PG_TRY(pg__like_template(&inner, like, err));
    b.m = inner ? inner->model : like->root;
    PG_TRY(pg__leaves_of(&a.leaves, a.m, my_dialect, err));
    PG_TRY(pg__leaves_of(&b.leaves, b.m, like->dialect, err));
    PG_TRY(pg__stored_of(&stored, r->s, layer, err));
    PG_TRY(pg__place(&a.placing, &a.leaves, stored, n, err));
    PG_TRY(pg__place(&b.placing, &b.leaves, stored, n, err));
    PG_TRY(same_tops(&a, &b, stored, n, err));
done:
    pg__leaves_fini(&a.leaves);
    pg__leaves_fini(&b.leaves);
    pg__placing_fini(&a.placing);
    pg__placing_fini(&b.placing);
    pg__mem_free(stored);
    return st;
}

static pg_status by_config(pg__rewrite *r, const pg__layer *entry, size_t layer,
                           const pg_unwrap_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    const int trained = r->v.tmpl == entry;
    for (size_t i = 0; trained && i < pg_store_n_layers(r->s); i++)
        if (i != layer && pg_store_layer(r->s, i)->n_weights)
            PG_FAIL(PG_E_FORMAT, "by its config a wrapper, yet layer \"%s\" holds weights too",
                    PG_SHOW(pg_store_layer(r->s, i)->name));
    if (r->like)
        PG_TRY(same_grouping(r, layer, entry->model, r->v.graph->dialect, err));
    PG_TRY(pg__plan_template(r, layer, entry->model, r->v.graph->dialect, 0, err));
    PG_TRY(pg__report_wrapper(r, entry->name, err));
    PG_TRY(pg__full_texts(r, entry, trained, o, err));
done:
    return st;
}

/* ---- without ---- */

static const char *group_name(const void *ctx, size_t i)
{
    return ((const pg__order *)ctx)->groups[i].name;
}

static pg_status by_names(pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    pg__order order = {0};
    const size_t layer = r->v.layer;
    st = pg__order_infer(&order, &r->v, r->s, o->template_name != NULL, err);
    if (st == PG_E_AMBIGUOUS)
        pg__do_like(r, PG_DO_UNWRAP, NULL, err);
    if (st != PG_OK)
        goto done;
    const pg__grouping g = {.n_layers = order.n,
                            .n_weights = order.n_weights,
                            .first = pg_store_layer(r->s, layer)->first,
                            .layer_of = order.group_of};
    PG_TRY(pg__plan_groups(&r->plan, &g, group_name, &order, err));
    PG_TRY(pg__report_wrapper(r, pg_store_layer(r->s, layer)->name, err));
    /* A model inside whose name and inputs the user chose leaves no trace in a file of weights. */
    PG_TRY(pg__add_note(r, err, "%s; assumed: no model inside; weightless layers are unknown",
                        order.n > 1 ? "order inferred from names and shapes, no other one fits"
                                    : "all weights belong to one layer"));
    if (order.stripped)
        PG_TRY(
            pg__add_note(r, err, "layer names assumed: those of the weights without their suffix"));
done:
    pg__order_fini(&order);
    return st;
}

static pg_status by_like(pg__rewrite *r, const pg__graph *like, const pg__layer *inner, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__model *m = inner ? inner->model : like->root;
    PG_TRY(pg__plan_template(r, r->v.layer, m, like->dialect, 1, err));
    PG_TRY(pg__report_wrapper(r, pg_store_layer(r->s, r->v.layer)->name, err));
    if (inner)
        PG_TRY(pg__add_note(r, err,
                            "the given model is a wrapper itself: its template \"%s\" was used",
                            PG_SHOW(inner->name)));
done:
    return st;
}

/* ---- which ---- */

/* If several models are nested, one to propose. */
static const char *first_nested(const pg__rewrite *r)
{
    const pg__model *m = r->v.graph ? r->v.graph->root : NULL;
    for (size_t i = 0; m && i < m->n_layers; i++)
        if (m->layers[i].model)
            return m->layers[i].name;
    return NULL;
}

static pg_status refuse(const pg__rewrite *r, pg_err *err)
{
    const pg_finding *f = &r->v.f;
    pg_status st = PG_OK;
    switch (f->verdict) {
    case PG_V_AMBIGUOUS:
        st = pg_fail(err, PG_E_AMBIGUOUS, "%s; nothing written", f->reason);
        pg__do_like(r, PG_DO_UNWRAP, NULL, err);
        return st;
    case PG_V_NO_WEIGHTS:
        st = pg_fail(err, PG_E_NO, "%s; nothing written", f->reason);
        pg_err_detail(err, "Keras reports: You are trying to load a weight file containing 0 "
                           "layers into a model with ... layers.");
        pg_err_detail(err, "the training script saved the graph without its values; look for them "
                           "in files beside it");
        return st;
    case PG_V_DAMAGED: return pg_fail(err, PG_E_FORMAT, "%s", f->reason);
    default: break;
    }
    st = pg_fail(err, PG_E_NO, "%s; nothing written", f->reason);
    const char *nested = f->template_name ? f->template_name : first_nested(r);
    if (f->verdict == PG_V_NESTED && nested) {
        pg__do_again(r, PG_DO_UNWRAP, err);
        pg_err_arg(err, "template", "%s", nested);
    }
    return st;
}

static pg_status no_such_template(const pg__rewrite *r, const char *name, pg_err *err)
{
    const pg_status st =
        pg_fail(err, PG_E_NO, "it has no nested model \"%s\"; nothing written", PG_SHOW(name));
    const pg__model *m = r->v.graph ? r->v.graph->root : NULL;
    for (size_t i = 0; m && i < m->n_layers; i++)
        if (m->layers[i].model)
            pg_err_detail(err, "nested model: %s", PG_SHOW(m->layers[i].name));
    for (size_t i = 0; !m && i < pg_store_n_layers(r->s); i++)
        if (pg_store_layer(r->s, i)->n_weights)
            pg_err_detail(err, "layer with weights: %s", PG_SHOW(pg_store_layer(r->s, i)->name));
    return st;
}

static pg_status named(pg__rewrite *r, const pg__graph *like, const pg_unwrap_opts *o, pg_err *err)
{
    const char *name = o->template_name;
    size_t layer = PG_NONE;
    if (r->v.graph) {
        const pg__model *root = r->v.graph->root;
        const size_t i = pg__model_find(root, name);
        if (r->v.tmpl && strcmp(r->v.tmpl->name, name) == 0)
            return by_config(r, r->v.tmpl, r->v.layer, o, err);
        if (i == PG_NONE || !root->layers[i].model)
            return no_such_template(r, name, err);
        const pg_status st = store_layer_of(&layer, r, name, err);
        return st == PG_OK ? by_config(r, &root->layers[i], layer, o, err) : st;
    }
    if (store_layer_of(&layer, r, name, NULL) != PG_OK ||
        pg_store_layer(r->s, layer)->n_weights == 0)
        return no_such_template(r, name, err);
    if (r->v.layer !=
        layer) { /* names identify the only layer with weights; nothing is known of others */
        r->v.layer = layer;
        r->v.f.verdict = PG_V_NESTED;
    }
    return like ? by_like(r, like, NULL, err) : by_names(r, o, err);
}

/* One layer holds all weights: does it fit the model as its template? */
static pg_status try_like(pg__rewrite *r, const pg__graph *like, const pg_unwrap_opts *o,
                          pg_err *err)
{
    pg_status st = PG_OK;
    const pg__layer *inner = NULL;
    const pg_verdict is = r->v.f.verdict;
    if (r->v.names.layer == PG_NONE || is == PG_V_SINGLE)
        return pg__repair(r, like, o, err);
    PG_TRY(pg__like_template(&inner, like, err));
    r->v.layer = r->v.names.layer;
    if (is == PG_V_WRAPPER || is == PG_V_AMBIGUOUS)
        st = by_like(r, like, inner, err);
    else if (pg__fits_template(r->s, r->v.layer, like->root, like->dialect, err) == PG_OK)
        st = by_like(r, like, NULL, err);
    else
        st = pg__repair(r, like, o, err);
done:
    return st;
}

pg_status pg__unwrap_h5(pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err)
{
    const pg__graph *like = r->like;
    const pg__verdict *v = &r->v;
    const int has_data = v->f.verdict != PG_V_NO_WEIGHTS && v->f.verdict != PG_V_DAMAGED;
    const int own = v->graph != NULL && v->f.verdict == PG_V_WRAPPER;
    if (!has_data)
        return refuse(r, err);
    if (o->template_name)
        return named(r, like, o, err);
    if (own && v->layer == PG_NONE)
        return pg_fail(
            err, PG_E_FORMAT,
            "by its config a wrapper, yet its template \"%s\" has no group among the weights",
            PG_SHOW(v->f.template_name));
    if (own)
        return by_config(r, v->tmpl, v->layer, o, err);
    if (like)
        return try_like(r, like, o, err);
    return v->f.verdict == PG_V_WRAPPER ? by_names(r, o, err) : refuse(r, err);
}
