/* fit.c - the fit test (keras-files: "The fit test"): every leaf of a known class gets exactly its
 * variables, by name, inner layer and shape; the sequence of leaves goes down at most once.
 *
 * Inside a leaf the weights stand in creation order, or the trainable ones first; both come out by
 * taking, for each weight, the next unused variable of its name. */
#include "model/fit.h"

#include <stdio.h>
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
 * none. *budget keeps hostile lists of thousands of equal names from costing their square. */
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

/* State per leaf while its weights come by. */
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
    for (size_t i = 0, last = 0; i < n; i++) {
        const size_t leaf = f.leaf[i] = owners[i].leaf;
        f.var[i] = PG_NONE;
        if (leaf == PG_NONE) {
            f.misfit[i] = PG_FIT_EXTRA;
            f.n_extra++;
            continue;
        }
        fit_one(&f, i, &leaves->v[leaf], &p[leaf], &stored[i], &owners[i]);
        f.n_descents += leaf < last;
        last = leaf;
    }
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
    return f->n_extra == 0 && f->n_shape == 0 && f->n_missing == 0 && f->n_descents <= 1;
}
