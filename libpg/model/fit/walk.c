/* walk.c - goes through the tensors of a file that fits a model, with the variable of each. */
#include "base/mem.h"
#include "base/try.h"
#include "model/fit/match.h"

typedef struct walk {
    const pg__leaves *leaves;
    pg_store *file;
    pg__fit_visit visit;
    void *ctx;
} walk;

/* The first parameter of a leaf. */
static size_t first_param(const pg__leaves *leaves, const pg__leaf *leaf)
{
    size_t n = 0;
    for (const pg__leaf *l = leaves->v; l != leaf; l++)
        n += l->vars.n;
    return n;
}

/* Matches the file's layer with the leaves of the model's layer `top`. */
static pg_status walk_layer(const walk *w, size_t top, size_t file_layer, pg_err *err)
{
    const pg__leaves below = pg__leaves_below(w->leaves, top);
    const pg_layer *l = pg_store_layer(w->file, file_layer);
    pg__stored *stored = pg__mem_array(l->n_weights, sizeof *stored);
    pg__placing placing = {0};
    pg_status st = PG_OK;
    if (!stored)
        return pg__nomem(err);
    for (size_t i = 0; i < l->n_weights; i++) {
        const pg_weight *weight = pg_store_weight(w->file, l->first + i);
        stored[i] = (pg__stored){weight->name, weight->rank, weight->dims};
    }
    PG_TRY(pg__place(&placing, &below, stored, l->n_weights, err));
    for (size_t i = 0; i < l->n_weights; i++) {
        const size_t param = first_param(w->leaves, &below.v[placing.leaf[i]]) + placing.var[i];
        PG_TRY(w->visit(w->ctx, param, w->file, l->first + i, err));
    }
done:
    pg__placing_fini(&placing);
    pg__mem_free(stored);
    return st;
}

static void list_all(const char *what, const pg__strs *names, pg_err *err)
{
    for (size_t i = 0; i < names->n; i++)
        pg_err_detail(err, "%s: %s", what, names->v[i]);
}

pg_status pg__fit_walk(const pg__model *m, const pg__leaves *leaves, pg_store *file,
                       pg__fit_visit visit, void *ctx, pg_err *err)
{
    const walk w = {leaves, file, visit, ctx};
    pg__alignment a = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__align(&a, m, leaves, file, err));
    if (a.missing.n > 0 || a.extra.n > 0 || a.candidates.n > 0) {
        st = pg_fail(err, PG_E_MISMATCH, "does not fit the model");
        list_all("missing", &a.missing, err);
        list_all("extra", &a.extra, err);
        list_all("either", &a.candidates, err);
        goto done;
    }
    for (size_t top = 0; top < a.n; top++)
        if (a.file_layer[top] != PG_NONE)
            PG_TRY(walk_layer(&w, top, a.file_layer[top], err));
done:
    pg__alignment_fini(&a);
    return st;
}
