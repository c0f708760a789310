/* template.c - makes the layers of a template from the one list that its wrapper stored (legacy
 * layout). The matcher assigns every weight to a leaf; a stable grouping by top-level layer is then
 * the file that Keras writes for the template: within a layer, or a sub-model, the order of the
 * list (trainable first) is right. */
#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "wrap/rewrite/rewrite.h"

pg_status pg__stored_of(pg__stored **out, const pg_store *s, size_t layer, pg_err *err)
{
    const pg_layer *l = pg_store_layer(s, layer);
    pg__stored *v = pg__mem_array(l->n_weights, sizeof *v);
    if (!v)
        return pg__nomem(err);
    for (size_t i = 0; i < l->n_weights; i++) {
        const pg_weight *w = pg_store_weight(s, l->first + i);
        v[i] = (pg__stored){.name = w->name, .rank = w->rank, .dims = w->dims};
    }
    *out = v;
    return PG_OK;
}

/* ---- names ---- */

/* Length of a component's automatic part: "conv2d" of "conv2d_5". */
static int same_kind(const char *part, size_t n, const char *name)
{
    size_t stem = n;
    while (stem && isdigit((unsigned char)part[stem - 1]))
        stem--;
    stem = stem < n && stem > 1 && part[stem - 1] == '_' ? stem - 1 : n;
    return pg__stem_len(name) == stem && strncmp(part, name, stem) == 0;
}

pg_status pg__rename_weight(pg__str *out, const char *old, const pg__leaf *leaf, const pg__var *var,
                            pg_err *err)
{
    pg_status st = PG_OK;
    const char *layer = leaf->layer->name;
    const char *last = strrchr(old, '/');
    int said = 0;
    out->n = 0;
    if (!last && strncmp(old, var->name, strlen(var->name)) == 0 &&
        strchr(":", old[strlen(var->name)])) { /* "mean:0": built before it was called */
        PG_TRY(pg__str_puts(out, old, err));
        goto done;
    }
    if (!last) { /* Keras 1: dense_5_W:0 */
        const size_t owner = pg__owner_len(old);
        PG_TRY(pg__str_printf(out, err, "%s%s", var->sub[0] ? var->sub : layer,
                              old[owner] == '_' ? old + owner : ""));
        if (old[owner] != '_')
            PG_TRY(pg__str_printf(out, err, "_%s:0", var->alt[0] ? var->alt : var->name));
        goto done;
    }
    for (const char *p = old; p < last + 1;) {
        const size_t n = strcspn(p, "/");
        if (!said && same_kind(p, n, layer)) {
            PG_TRY(pg__str_puts(out, layer, err));
            said = 1;
        } else if (var->sub[0] && same_kind(p, n, var->sub)) {
            PG_TRY(pg__str_puts(out, var->sub, err));
        } else if (!said && p == old) {
            PG_TRY(pg__str_puts(out, layer, err)); /* named by the user */
            said = 1;
        } else {
            PG_TRY(pg__str_add(out, p, n, err));
        }
        PG_TRY(pg__str_puts(out, "/", err));
        p += n + 1;
    }
    PG_TRY(pg__str_puts(out, last + 1, err));
done:
    return st;
}

/* ---- grouping ---- */

pg_status pg__plan_groups(pg__plan *plan, const pg__grouping *g,
                          const char *(*layer_name)(const void *, size_t), const void *ctx,
                          pg_err *err)
{
    pg_status st = PG_OK;
    size_t *start = pg__mem_array(g->n_layers + 1, sizeof *start);
    size_t *order = pg__mem_array(g->n_weights, sizeof *order);
    if (!start || !order) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < g->n_weights; i++)
        start[g->layer_of[i] + 1]++;
    for (size_t k = 0; k < g->n_layers; k++)
        start[k + 1] += start[k];
    for (size_t i = 0; i < g->n_weights; i++)
        order[start[g->layer_of[i]]++] = i; /* start[k] is now where layer k ends */
    size_t at = 0;
    for (size_t k = 0; k < g->n_layers; k++) {
        const char *name = layer_name(ctx, k);
        if (name)
            PG_TRY(pg__plan_add_layer(plan, name, strlen(name), PG_NONE, err));
        for (; at < start[k]; at++) {
            const size_t i = order[at];
            const char *old = pg_store_weight(plan->src, g->first + i)->name;
            PG_TRY(
                pg__plan_add(plan, g->first + i, g->names && g->names[i] ? g->names[i] : old, err));
        }
    }
done:
    pg__mem_free(start);
    pg__mem_free(order);
    return st;
}

static const char *listed_name(const void *ctx, size_t i)
{
    const pg__model *m = ctx;
    return pg__layer_is_listed(m, i) ? m->layers[i].name : NULL;
}

/* ---- the template ---- */

typedef struct placed {
    pg__leaves leaves;
    pg__stored *stored;
    pg__placing placing;
} placed;

static pg_status place(placed *p, const pg_store *s, size_t layer, const pg__model *m, int dialect,
                       pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__leaves_of(&p->leaves, m, dialect, err));
    PG_TRY(pg__stored_of(&p->stored, s, layer, err));
    PG_TRY(pg__place(&p->placing, &p->leaves, p->stored, pg_store_layer(s, layer)->n_weights, err));
done:
    return st;
}

static void placed_fini(placed *p)
{
    pg__leaves_fini(&p->leaves);
    pg__placing_fini(&p->placing);
    pg__mem_free(p->stored);
}

pg_status pg__fits_template(const pg_store *s, size_t layer, const pg__model *m, int dialect,
                            pg_err *err)
{
    placed p = {0};
    const pg_status st = place(&p, s, layer, m, dialect, err);
    placed_fini(&p);
    return st;
}

static pg_status rename_all(char **names, const placed *p, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    for (size_t i = 0; i < p->placing.n; i++) {
        const pg__leaf *leaf = &p->leaves.v[p->placing.leaf[i]];
        static const pg__var none = {.name = "", .alt = "", .sub = ""};
        const pg__var *var =
            p->placing.var[i] < leaf->vars.n ? &leaf->vars.v[p->placing.var[i]] : &none;
        PG_TRY(pg__rename_weight(&name, p->stored[i].name, leaf, var, err));
        names[i] = pg__mem_strndup(name.s, name.n);
        if (!names[i]) {
            st = pg__nomem(err);
            goto done;
        }
    }
done:
    pg__str_fini(&name);
    return st;
}

pg_status pg__plan_template(pg__rewrite *r, size_t layer, const pg__model *m, int dialect,
                            int rename, pg_err *err)
{
    pg_status st = PG_OK;
    placed p = {0};
    size_t *layer_of = NULL;
    char **names = NULL;
    PG_TRY(place(&p, r->s, layer, m, dialect, err));
    const size_t n = p.placing.n;
    layer_of = pg__mem_array(n, sizeof *layer_of);
    names = pg__mem_array(n, sizeof *names);
    if (!layer_of || !names) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < n; i++)
        layer_of[i] = p.leaves.v[p.placing.leaf[i]].top;
    if (p.placing.how == PG_BY_ORDER && rename) {
        PG_TRY(rename_all(names, &p, err));
        PG_TRY(pg__add_note(
            r, err,
            "placed by order: the names differ from the model's, kinds, shapes and order agree"));
    }
    const pg__grouping g = {.n_layers = m->n_layers,
                            .n_weights = n,
                            .first = pg_store_layer(r->s, layer)->first,
                            .layer_of = layer_of,
                            .names = names};
    PG_TRY(pg__plan_groups(&r->plan, &g, listed_name, m, err));
done:
    for (size_t i = 0; names && i < p.placing.n; i++)
        pg__mem_free(names[i]);
    pg__mem_free(names);
    pg__mem_free(layer_of);
    placed_fini(&p);
    return st;
}
