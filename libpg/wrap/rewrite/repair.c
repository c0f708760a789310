/* repair.c - a plain legacy file made to fit a model (FORMATS.md: "Repair").
 *
 *   one layer of the file is the whole model     taken apart, as from a wrapper
 *   the model's only layer is the file           put together, as into a wrapper
 *   layers agree one to one                      renamed and reordered
 *   some are missing or extra                    listed; written with --partial
 *   names and order contradict each other        refused
 */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "wrap/rewrite/rewrite.h"

/* Assigns the weights of a plain file to a model. */
typedef struct fit {
    pg__leaves leaves;
    pg__alignment align;
    pg__location at;
} fit;

static void fit_fini(fit *f)
{
    pg__location_fini(&f->at);
    pg__alignment_fini(&f->align);
    pg__leaves_fini(&f->leaves);
}

void pg__location_fini(pg__location *l)
{
    pg__mem_free(l->leaf);
    pg__mem_free(l->var);
    *l = (pg__location){0};
}

/* The leaves of one top-level layer, as a view. */
static pg__leaves leaves_below(const pg__leaves *all, size_t top, size_t *first)
{
    pg__leaves some = {.all_known = 1};
    for (size_t i = 0; i < all->n; i++) {
        if (all->v[i].top != top)
            continue;
        if (some.n == 0) {
            *first = i;
            some.v = &all->v[i];
        }
        some.n++;
        some.n_vars += all->v[i].vars.n;
        some.all_known &= all->v[i].vars.known;
    }
    return some;
}

static pg_status locate_layer(pg__location *out, const pg_store *s, size_t layer,
                              const pg__leaves *all, size_t top, pg_err *err)
{
    pg_status st = PG_OK;
    size_t first = 0;
    pg__stored *stored = NULL;
    pg__placing p = {0};
    const pg__leaves some = leaves_below(all, top, &first);
    const pg_layer *l = pg_store_layer(s, layer);
    PG_TRY(pg__stored_of(&stored, s, layer, err));
    PG_TRY(pg__place(&p, &some, stored, l->n_weights, err));
    for (size_t i = 0; i < l->n_weights; i++) {
        out->leaf[l->first + i] = first + p.leaf[i];
        out->var[l->first + i] = p.var[i];
    }
done:
    pg__placing_fini(&p);
    pg__mem_free(stored);
    return st;
}

pg_status pg__locate(pg__location *out, const pg_store *s, const pg__alignment *align,
                     const pg__leaves *leaves, pg_err *err)
{
    pg_status st = PG_OK;
    pg__location l = {.n = pg_store_n_weights(s)};
    l.leaf = pg__mem_array(l.n, sizeof *l.leaf);
    l.var = pg__mem_array(l.n, sizeof *l.var);
    if (!l.leaf || !l.var) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < l.n; i++)
        l.leaf[i] = l.var[i] = PG_NONE;
    for (size_t top = 0; top < align->n; top++)
        if (align->file_layer[top] != PG_NONE)
            PG_TRY(locate_layer(&l, s, align->file_layer[top], leaves, top, err));
    *out = l;
    l = (pg__location){0};
done:
    pg__location_fini(&l);
    return st;
}

static size_t n_weighted(const pg_store *s, size_t *only)
{
    size_t n = 0;
    for (size_t i = 0; i < pg_store_n_layers(s); i++)
        if (pg_store_layer(s, i)->n_weights && n++ == 0)
            *only = i;
    return n;
}

/* The model's only layer with weights, if that is a model itself; otherwise PG_NONE. */
static size_t only_nested(const pg__model *m, const pg__leaves *leaves)
{
    size_t only = PG_NONE;
    for (size_t i = 0; i < leaves->n; i++) {
        if (leaves->v[i].vars.known && leaves->v[i].vars.n == 0)
            continue;
        if (only != PG_NONE && leaves->v[i].top != only)
            return PG_NONE;
        only = leaves->v[i].top;
    }
    return only != PG_NONE && m->layers[only].model ? only : PG_NONE;
}

/* ---- one to one ---- */

static int any_fits(const pg__alignment *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->file_layer[i] != PG_NONE)
            return 1;
    return 0;
}

/* Missing and extra layers go into the report; without --partial they are the error. */
static pg_status list_gaps(pg__rewrite *r, const pg__alignment *a, const pg_unwrap_opts *o,
                           pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < a->missing.n; i++)
        PG_TRY(pg__add_missing(r, err, "%s", a->missing.v[i]));
    for (size_t i = 0; i < a->extra.n; i++)
        PG_TRY(pg__add_extra(r, err, "%s", a->extra.v[i]));
    if ((a->missing.n || a->extra.n) && !o->partial) {
        st = pg_fail(err, PG_E_MISMATCH,
                     "does not fit %s: %zu layer%s missing, %zu extra; nothing written",
                     PG_SHOW(r->like_name), a->missing.n, a->missing.n == 1 ? "" : "s", a->extra.n);
        if (any_fits(a)) {
            pg__do_like(r, PG_DO_UNWRAP, o->like, err);
            pg_err_arg(err, "partial", "true");
        }
        goto done;
    }
    if (a->missing.n || a->extra.n)
        PG_TRY(pg__add_note(r, err, "a partial file loads with by_name=True only"));
done:
    return st;
}

/* One layer of the output: the file's weights in their order, with the model's names if the layer
 * had another name. */
static pg_status plan_layer(pg__rewrite *r, const pg__layer *to, size_t file_layer, const fit *f,
                            pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    const pg_layer *l = pg_store_layer(r->s, file_layer);
    const int renamed = strcmp(l->name, to->name) != 0;
    PG_TRY(pg__plan_add_layer(&r->plan, to->name, strlen(to->name), file_layer, err));
    for (size_t i = l->first; i < l->first + l->n_weights; i++) {
        const char *old = pg_store_weight(r->s, i)->name;
        const pg__leaf *leaf = &f->leaves.v[f->at.leaf[i]];
        static const pg__var none = {.name = "", .alt = "", .sub = ""};
        if (renamed)
            PG_TRY(pg__rename_weight(
                &name, old, leaf, f->at.var[i] < leaf->vars.n ? &leaf->vars.v[f->at.var[i]] : &none,
                err));
        PG_TRY(pg__plan_add(&r->plan, i, renamed ? name.s : old, err));
    }
done:
    pg__str_fini(&name);
    return st;
}

static int has_variables(const pg__leaves *leaves, size_t top)
{
    for (size_t i = 0; i < leaves->n; i++)
        if (leaves->v[i].top == top && (leaves->v[i].vars.n || !leaves->v[i].vars.known))
            return 1;
    return 0;
}

static pg_status one_to_one(pg__rewrite *r, const pg__model *m, const fit *f, pg_err *err)
{
    pg_status st = PG_OK;
    int changed = 0;
    size_t last = 0;
    for (size_t i = 0; i < m->n_layers; i++) {
        const size_t from = f->align.file_layer[i];
        if (from == PG_NONE) { /* a missing layer must not be listed without its weights */
            if (pg__layer_is_listed(m, i) && !has_variables(&f->leaves, i))
                PG_TRY(pg__plan_add_layer(&r->plan, m->layers[i].name, strlen(m->layers[i].name),
                                          PG_NONE, err));
            continue;
        }
        changed |= strcmp(pg_store_layer(r->s, from)->name, m->layers[i].name) != 0 || from < last;
        last = from;
        PG_TRY(plan_layer(r, &m->layers[i], from, f, err));
    }
    if (f->align.by_order)
        PG_TRY(pg__add_note(
            r, err,
            "layers paired by position: names differ from the model's, kinds and shapes agree"));
    if (!changed && !f->align.missing.n && !f->align.extra.n)
        PG_TRY(pg__add_note(r, err, "it fits the model as it is"));
done:
    return st;
}

/* ---- texts ---- */

/* The output of a full model describes the model that it now fits. Optimizer state is stored by
 * position among the trainable weights, which is only known to hold if no layer moved. */
static pg_status full_texts(pg__rewrite *r, const pg__graph *like, const pg_unwrap_opts *o,
                            int whole, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    size_t last = 0;
    int moved = 0;
    const char *training = pg_store_text(r->s, PG_TEXT_TRAINING_CONFIG, &n);
    if (!pg_store_text(r->s, PG_TEXT_MODEL_CONFIG, NULL))
        return PG_OK;
    if (o->weights_only || !whole)
        return o->weights_only
                   ? PG_OK
                   : pg__add_note(r, err, "weights only: no model config describes this output");
    PG_TRY(pg__plan_set_text(&r->plan, PG_TEXT_MODEL_CONFIG, like->text, like->n_text, err));
    for (size_t i = 0; i < r->plan.n_items; i++) {
        moved |= r->plan.items[i].src < last;
        last = r->plan.items[i].src;
    }
    if (training) {
        PG_TRY(pg__plan_set_text(&r->plan, PG_TEXT_TRAINING_CONFIG, training, n, err));
        PG_TRY(pg__add_kept(r, err, "training_config"));
    }
    r->plan.keep_state = !moved && !o->no_optimizer;
    if (moved && pg_store_n_state(r->s))
        PG_TRY(pg__add_note(r, err, "optimizer state left out: layers were reordered"));
done:
    return st;
}

static pg_status wrap_into(pg__rewrite *r, const pg__graph *like, size_t nested,
                           const pg_unwrap_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__model *m = like->root;
    const pg__model *t = m->layers[nested].model;
    for (size_t i = 0; i < m->n_layers; i++) {
        if (!pg__layer_is_listed(m, i))
            continue;
        PG_TRY(pg__plan_add_layer(&r->plan, m->layers[i].name, strlen(m->layers[i].name), PG_NONE,
                                  err));
        if (i == nested)
            PG_TRY(pg__plan_flat(r, t, like->dialect, err));
    }
    r->rep.action = "wrapped";
    PG_TRY(pg__add_template(r, m->layers[nested].name, err));
    PG_TRY(pg__add_note(r, err, "which weights are frozen was taken from the model's description"));
    PG_TRY(full_texts(r, like, o, 1, err));
done:
    return st;
}

pg_status pg__plan_flat(pg__rewrite *r, const pg__model *t, int dialect, pg_err *err)
{
    pg_status st = PG_OK;
    fit f = {0};
    size_t *leaf = NULL, *var = NULL, *at = NULL;
    PG_TRY(pg__leaves_of(&f.leaves, t, dialect, err));
    PG_TRY(pg__align(&f.align, t, &f.leaves, r->s, err));
    if (f.align.missing.n || f.align.extra.n) {
        st = pg_fail(err, PG_E_MISMATCH,
                     "its layers do not fit the template one to one; nothing written");
        for (size_t i = 0; i < f.align.missing.n; i++)
            pg_err_detail(err, "missing: %s", f.align.missing.v[i]);
        for (size_t i = 0; i < f.align.extra.n; i++)
            pg_err_detail(err, "extra: %s", f.align.extra.v[i]);
        goto done;
    }
    if (!f.leaves.all_known)
        PG_FAIL(PG_E_AMBIGUOUS, "a layer class of the template is not known: which of its weights "
                                "are trainable is open");
    PG_TRY(pg__locate(&f.at, r->s, &f.align, &f.leaves, err));
    const size_t n = f.leaves.n_vars;
    leaf = pg__mem_array(n, sizeof *leaf);
    var = pg__mem_array(n, sizeof *var);
    at = pg__mem_array(f.leaves.n + 1, sizeof *at); /* first variable of each leaf */
    if (!leaf || !var || !at) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < f.leaves.n; i++)
        at[i + 1] = at[i] + f.leaves.v[i].vars.n;
    size_t *source = pg__mem_array(n, sizeof *source);
    if (!source) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < f.at.n; i++)
        if (f.at.leaf[i] != PG_NONE)
            source[at[f.at.leaf[i]] + f.at.var[i]] = i;
    pg__expected_order(&f.leaves, leaf, var);
    for (size_t i = 0; i < n && st == PG_OK; i++) {
        const size_t src = source[at[leaf[i]] + var[i]];
        st = pg__plan_add(&r->plan, src, pg_store_weight(r->s, src)->name, err);
    }
    pg__mem_free(source);
done:
    pg__mem_free(at);
    pg__mem_free(leaf);
    pg__mem_free(var);
    fit_fini(&f);
    return st;
}

pg_status pg__repair(pg__rewrite *r, const pg__graph *like, const pg_unwrap_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    fit f = {0};
    size_t only = 0;
    const pg__model *m = like->root;
    const size_t n = n_weighted(r->s, &only);
    PG_TRY(pg__leaves_of(&f.leaves, m, like->dialect, err));
    if (n == 1 && pg__fits_template(r->s, only, m, like->dialect, NULL) == PG_OK) {
        PG_TRY(pg__plan_template(r, only, m, like->dialect, 1, err));
        PG_TRY(pg__add_template(r, pg_store_layer(r->s, only)->name, err));
        r->rep.action = "unwrapped";
        PG_TRY(full_texts(r, like, o, 1, err));
        goto done;
    }
    const size_t nested = only_nested(m, &f.leaves);
    if (nested != PG_NONE && n > 1) {
        st = wrap_into(r, like, nested, o, err);
        goto done;
    }
    PG_TRY(pg__align(&f.align, m, &f.leaves, r->s, err));
    PG_TRY(list_gaps(r, &f.align, o, err));
    PG_TRY(pg__locate(&f.at, r->s, &f.align, &f.leaves, err));
    PG_TRY(one_to_one(r, m, &f, err));
    if (r->plan.n_items == 0)
        PG_FAIL(PG_E_MISMATCH, "none of its layers fits %s; nothing written",
                PG_SHOW(r->like_name));
    r->rep.action = "repaired";
    PG_TRY(full_texts(r, like, o, !f.align.missing.n && !f.align.extra.n, err));
done:
    fit_fini(&f);
    return st;
}
