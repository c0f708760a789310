/* compare_model.c - pairs tensors by the variables of their model. One layout lists them by class
 * and number, another by layer and name. If names do not match, the description in one of the two
 * files says which variable each tensor is. It must fit both files one to one; otherwise names
 * decide. */
#include "base/mem.h"
#include "base/try.h"
#include "wrap/compare/view.h"
#include "wrap/convert/convert.h"

/* The view's tensor for each variable of the model; PG_E_MISMATCH if it does not fit. */
static pg_status tensors_of(size_t **out, const pg__view *v, pg__graph *g, pg_err *err)
{
    static const pg_convert_opts none = {0};
    pg_status st = PG_OK;
    pg__slots s = {0};
    size_t *index = NULL, *of_slot = NULL;
    const size_t n_stored = pg_store_n_weights(v->r.s);
    pg__convert c = {.o = &none, .graph = g, .dialect = g->dialect == 3 ? 3 : 2};
    c.r.s = v->r.s; /* borrowed, as is the verdict */
    c.r.v = v->r.v;
    PG_TRY(pg__outline_of(&c.at, &v->r.plan, err));
    if (c.at.shape == PG_SHAPE_FLAT)
        PG_TRY(pg__unflatten(&c, err));
    PG_TRY(pg__fill_slots(&s, &c, err));
    index = pg__mem_array(n_stored, sizeof *index);
    of_slot = pg__mem_array(v->n, sizeof *of_slot);
    if (!index || !of_slot) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < n_stored; i++)
        index[i] = PG_NONE;
    for (size_t i = 0; i < v->n; i++)
        if (v->v[i].src < n_stored)
            index[v->v[i].src] = i;
    if (s.n != v->n)
        PG_FAIL(PG_E_MISMATCH, "%zu variables, %zu tensors", s.n, v->n);
    for (size_t i = 0; i < s.n; i++) {
        const size_t src = s.v[i].take.block[0].src;
        of_slot[i] = s.v[i].n_gates == 1 && src < n_stored ? index[src] : PG_NONE;
        if (of_slot[i] == PG_NONE)
            PG_FAIL(PG_E_MISMATCH, "%s is not one tensor", PG_SHOW(s.v[i].name));
    }
    *out = of_slot;
    of_slot = NULL;
done:
    pg__mem_free(index);
    pg__mem_free(of_slot);
    pg__slots_fini(&s);
    pg__outline_fini(&c.at);
    return st;
}

/* The description that a safetensors file has in its metadata. NULL if there is none. */
static pg_status graph_of_flat(pg__graph **out, const pg__view *v, pg_err *err)
{
    static const pg_convert_opts none = {0};
    pg_status st = PG_OK;
    pg__convert c = {.o = &none};
    c.r.s = v->r.s;
    if (pg_store_n_layers(v->r.s) > 0)
        return PG_OK;
    PG_TRY(pg__outline_of(&c.at, &v->r.plan, err));
    PG_TRY(pg__unflatten(&c, err));
    if (c.at.model_config.n)
        PG_TRY(pg__graph_parse(out, c.at.model_config.s, c.at.model_config.n, err));
done:
    pg__outline_fini(&c.at);
    return st;
}

/* The description in a file of the model that the view shows; a wrapper's has it inside. out is a
 * view of it, whose root is NULL if there is none. */
static void graph_of_view(pg__graph *out, const pg__view *v)
{
    const pg__layer *tmpl = v->r.v.tmpl;
    if (v->r.v.graph)
        *out = *v->r.v.graph;
    if (v->r.v.graph && v->unwrapped)
        out->root = tmpl ? tmpl->model : NULL;
}

/* The description in one of two files; *owned is to be freed. */
static pg_status find_graph(pg__graph *out, pg__graph **owned, const pg__view *a, const pg__view *b,
                            pg_err *err)
{
    pg_status st = PG_OK;
    graph_of_view(out, a);
    if (!out->root)
        graph_of_view(out, b);
    if (!out->root)
        st = graph_of_flat(owned, a, err);
    if (st == PG_OK && !out->root && !*owned)
        st = graph_of_flat(owned, b, err);
    if (*owned)
        *out = **owned;
    return st;
}

pg_status pg__view_pair_by_model(int *paired, size_t *of_a, size_t *of_b, const pg__view *a,
                                 const pg__view *b, pg_err *err)
{
    pg_err why = {0};
    size_t *x = NULL, *y = NULL;
    pg__graph g = {0}, *owned = NULL;
    *paired = 0;
    if (a->unwrapped > a->planned || b->unwrapped > b->planned || a->n != b->n)
        return PG_OK;
    pg_status st = find_graph(&g, &owned, a, b, &why);
    if (st == PG_OK && g.root)
        st = tensors_of(&x, a, &g, &why);
    if (st == PG_OK && g.root)
        st = tensors_of(&y, b, &g, &why);
    for (size_t i = 0; st == PG_OK && g.root && i < a->n; i++) {
        of_a[x[i]] = y[i];
        of_b[y[i]] = x[i];
        *paired = 1;
    }
    pg__mem_free(x);
    pg__mem_free(y);
    pg__graph_free(owned);
    if (st == PG_E_NOMEM && err)
        *err = why;
    return st == PG_E_NOMEM ? st : PG_OK;
}
