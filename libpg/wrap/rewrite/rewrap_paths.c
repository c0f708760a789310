/* rewrap_paths.c - path layout: puts a one-device file into the groups of a wrapper's file. Every
 * variable has a place of its own there, so nothing is reordered: layers/dense moves to
 * layers/functional/layers/dense, and the wrapper's own groups, all empty, come from --like. */
#include <string.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/fmt_keras_v3.h"
#include "store/store_impl.h"
#include "wrap/rewrite/pairing.h"
#include "wrap/rewrite/rewrite.h"

/* The group of IN that fills group l of the wrapper; "" is the model itself. */
static pg_status fill(pg__rewrite *r, const pg__index *groups, const pg_store *like,
                      const pg_layer *l, const char *own, size_t *n_used, pg_err *err)
{
    pg_status st = PG_OK;
    const size_t from = pg__index_find(groups, *own ? own : "/");
    const pg_layer *mine = from == PG_NONE ? NULL : pg_store_layer(r->s, from);
    PG_TRY(pg__plan_add_layer(&r->plan, l->name, strlen(l->name), from, err));
    if ((mine ? mine->n_weights : 0) != l->n_weights)
        PG_FAIL(PG_E_MISMATCH,
                "does not fit the template: %s has %zu variables there, %zu here; nothing written",
                PG_SHOW(own), l->n_weights, mine ? mine->n_weights : 0);
    for (size_t i = 0; i < l->n_weights; i++) {
        const pg_weight *want = pg_store_weight(like, l->first + i),
                        *w = pg_store_weight(r->s, mine->first + i);
        if (!pg__same_shape(want, w))
            PG_FAIL(PG_E_MISMATCH, "does not fit the template: %s is %s, not %s; nothing written",
                    PG_SHOW(w->name), pg__shape_text(w).s, pg__shape_text(want).s);
        PG_TRY(pg__plan_add(&r->plan, mine->first + i, want->name, err));
        ++*n_used;
    }
done:
    return st;
}

static pg_status label(pg__rewrite *r, const char *name, pg_err *err)
{
    pg__plan_layer *l = &r->plan.layers[r->plan.n_layers - 1];
    if (!name)
        return PG_OK;
    l->label = pg__mem_strdup(name);
    return l->label ? PG_OK : pg__nomem(err);
}

/* .keras: the wrapper's config.json, compiled as IN was. */
static pg_status config(pg__rewrite *r, const pg__verdict *lv, pg_err *err)
{
    pg_status st = PG_OK;
    int same = 0;
    pg__str text = {0};
    const pg__graph *g = r->v.graph;
    const pg__json_step path[] = {PG_JKEY("config"), {0}};
    if (!g || !lv->tmpl)
        return pg_fail(err, PG_E_MISMATCH,
                       "a .keras file is wrapped only like another .keras file");
    const pg__json_span own = pg__json_range(g->text, g->n_text, path);
    const pg__json_span theirs = lv->tmpl->config_span;
    PG_TRY(pg__text_same(&same, g->text + own.off, own.n, lv->graph->text + theirs.off, theirs.n,
                         err));
    if (!same)
        PG_FAIL(PG_E_MISMATCH,
                "the wrapper describes its template \"%s\" differently; nothing written",
                PG_SHOW(lv->tmpl->name));
    PG_TRY(pg__text_zip(&text, lv->graph->text, (pg__json_span){0, lv->graph->n_text}, g,
                        &lv->originals, &lv->outputs, err));
    PG_TRY(pg__plan_set_text(&r->plan, PG_TEXT_MODEL_CONFIG, text.s, text.n, err));
    PG_TRY(pg__add_kept(r, err, "compile_config"));
done:
    pg__str_fini(&text);
    return st;
}

pg_status pg__wrap_paths(pg__rewrite *r, const pg_store *like, const pg__verdict *lv, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n_used = 0;
    pg__str group = {0};
    pg__index groups = {0};
    for (size_t i = 0; i < pg_store_n_layers(r->s); i++)
        PG_TRY(pg__index_add(&groups, pg_store_layer(r->s, i)->name, i, err));
    pg__index_sort(&groups);
    if (strcmp(pg_store_format(r->s), "keras-zip") == 0)
        PG_TRY(config(r, lv, err));
    PG_TRY(pg__template_group(&group, like, lv, err));
    const size_t n = group.n;
    for (size_t i = 0; i < pg_store_n_layers(like); i++) {
        const pg_layer *l = pg_store_layer(like, i);
        const int inside =
            strncmp(l->name, group.s, n) == 0 && (l->name[n] == '/' || l->name[n] == 0);
        if (inside) {
            PG_TRY(fill(r, &groups, like, l, l->name + n + (l->name[n] == '/'), &n_used, err));
        } else {
            PG_TRY(pg__plan_add_layer(&r->plan, l->name, strlen(l->name), PG_NONE, err));
        }
        PG_TRY(label(r, pg__v3_layer_name(like, i), err));
    }
    if (n_used != pg_store_n_weights(r->s))
        PG_FAIL(
            PG_E_MISMATCH,
            "does not fit the template: it holds %zu tensors, the template %zu; nothing written",
            pg_store_n_weights(r->s), n_used);
    r->plan.keep_state = 1;
    PG_TRY(pg__add_template(r, lv->f.template_name, err));
done:
    pg__str_fini(&group);
    pg__index_fini(&groups);
    return st;
}
