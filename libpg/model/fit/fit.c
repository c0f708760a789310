/* fit.c - the fit test (FORMATS.md: "The fit test"): every leaf of a known class gets exactly its
 * variables, by name, inner layer and shape; the sequence of leaves descends at most once. Inside a
 * leaf, the weights are in creation order, or the trainable ones come first; taking the next unused
 * variable of its name for each weight handles both. */
#include "model/fit/fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"

int pg__dims_agree(const pg__var *v, const pg__stored *w)
{
    if (v->any_rank)
        return 1;
    if (v->rank != w->rank)
        return 0;
    for (uint32_t i = 0; i < v->rank; i++)
        if (v->dims[i] != PG_DIM_ANY && v->dims[i] != w->dims[i])
            return 0;
    return 1;
}

/* The next unused variable that o's weight names, from *cursor on and around; PG_NONE if there is
 * none. *budget bounds the cost of hostile lists with thousands of equal names. */
static size_t next_var(const pg__vars *vars, const unsigned char *used, const pg__owner *o,
                       size_t *cursor, size_t *budget)
{
    for (size_t i = 0; i<vars->n && * budget> 0; i++, --*budget) {
        const size_t k = (*cursor + i) % vars->n;
        if (!used[k] && pg__var_is_named(&vars->v[k], o->var) && pg__sub_agrees(&vars->v[k], o)) {
            *cursor = k + 1;
            return k;
        }
    }
    return PG_NONE;
}

static pg_status prepare(pg__fit *f, const pg__leaves *leaves, size_t n, pg_err *err)
{
    *f = (pg__fit){.n_leaves = leaves->n};
    f->leaf = pg__mem_array(n, sizeof *f->leaf);
    f->var = pg__mem_array(n, sizeof *f->var);
    f->misfit = pg__mem_array(n, 1);
    f->first = pg__mem_array(leaves->n + 1, sizeof *f->first);
    f->used = pg__mem_array(leaves->n_vars, 1);
    if (!f->leaf || !f->var || !f->misfit || !f->first || !f->used)
        return pg__nomem(err);
    for (size_t i = 0; i < leaves->n; i++)
        f->first[i + 1] = f->first[i] + leaves->v[i].vars.n;
    return PG_OK;
}

/* State of a leaf while its weights are assigned. */
typedef struct progress {
    size_t cursor, budget, n_unknown;
} progress;

static void fit_one(pg__fit *f, size_t i, const pg__leaf *l, progress *p, const pg__stored *w,
                    const pg__owner *o)
{
    if (!l->vars.known) {
        f->var[i] = p->n_unknown++;
        return;
    }
    unsigned char *used = f->used + f->first[o->leaf];
    const size_t k = next_var(&l->vars, used, o, &p->cursor, &p->budget);
    f->var[i] = k;
    if (k == PG_NONE) {
        f->misfit[i] = PG_FIT_EXTRA;
        f->n_extra++;
        return;
    }
    used[k] = 1;
    if (!pg__dims_agree(&l->vars.v[k], w)) {
        f->misfit[i] = PG_FIT_SHAPE;
        f->n_shape++;
    }
}

/* The weights below one top-level model that the description calls trainable, or its others. */
typedef struct part {
    size_t top;
    int trainable;
} part;

static int by_part(const void *a, const void *b)
{
    const part *x = a, *y = b;
    return x->top != y->top ? (x->top > y->top) - (x->top < y->top) : x->trainable - y->trainable;
}

/* Trainable weights come before the descent, the others after it. The list of a nested model, with
 * those of the models inside it, is kept as it is, and a loader goes by the description: it is
 * right only if all weights that the description treats alike are on the same side. (A whole model
 * may be on the side that contradicts the description: Keras does not record that a model as such
 * was frozen.) */
static pg_status find_split(pg__fit *f, const pg__leaves *leaves, size_t n, size_t descent,
                            pg_err *err)
{
    part *before = pg__mem_array(descent, sizeof *before);
    size_t n_before = 0;
    if (!before)
        return pg__nomem(err);
    for (size_t i = 0; i < n && !f->splits_model; i++) {
        const pg__leaf *l = f->leaf[i] == PG_NONE ? NULL : &leaves->v[f->leaf[i]];
        if (i == descent && n_before)
            qsort(before, n_before, sizeof *before, by_part);
        if (!l || !*l->parent || !l->vars.known || f->var[i] == PG_NONE)
            continue;
        const part one = {l->top, l->trainable && l->vars.v[f->var[i]].trainable};
        if (i < descent)
            before[n_before++] = one;
        else
            f->splits_model = n_before && bsearch(&one, before, n_before, sizeof one, by_part);
    }
    pg__mem_free(before);
    return PG_OK;
}

pg_status pg__fit_owners(pg__fit *out, const pg__leaves *leaves, const pg__stored *stored,
                         const pg__owner *owners, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__fit f = {0};
    progress *p = pg__mem_array(leaves->n, sizeof *p);
    PG_TRY(prepare(&f, leaves, n, err));
    if (!p) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < leaves->n; i++)
        p[i].budget = 64 * (leaves->v[i].vars.n + 16);
    size_t descent = n;
    for (size_t i = 0, last = 0; i < n; i++) {
        const size_t leaf = f.leaf[i] = owners[i].leaf;
        f.var[i] = PG_NONE;
        if (leaf == PG_NONE) {
            f.misfit[i] = PG_FIT_EXTRA;
            f.n_extra++;
            continue;
        }
        fit_one(&f, i, &leaves->v[leaf], &p[leaf], &stored[i], &owners[i]);
        if (leaf < last && f.n_descents++ == 0)
            descent = i;
        last = leaf;
    }
    PG_TRY(find_split(&f, leaves, n, descent, err));
    for (size_t i = 0; i < leaves->n_vars; i++)
        f.n_missing += !f.used[i];
    *out = f;
    f = (pg__fit){0};
done:
    pg__fit_fini(&f);
    pg__mem_free(p);
    return st;
}

void pg__fit_fini(pg__fit *f)
{
    pg__mem_free(f->leaf);
    pg__mem_free(f->var);
    pg__mem_free(f->misfit);
    pg__mem_free(f->first);
    pg__mem_free(f->used);
    *f = (pg__fit){0};
}

int pg__fit_holds(const pg__fit *f)
{
    return f->n_extra == 0 && f->n_shape == 0 && f->n_missing == 0 && f->n_descents <= 1 &&
           !f->splits_model;
}
