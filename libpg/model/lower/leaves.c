/* leaves.c - lists the layers of a model that are not models, in the order in which Keras walks
 * them, with their variables (FORMATS.md: "What is stored", "What each layer class holds"). */
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "model/lower/leaves.h"

typedef struct level {
    const pg__model *m;
    const char *name; /* of the layer that is this model; "" for the root */
    size_t next;
    int trainable; /* all models from the root down to m are */
} level;

static pg_status add_leaf(pg__leaves *out, const pg__layer *l, size_t top, const level *at,
                          int dialect, pg_err *err)
{
    if (pg__mem_grow(&out->v, &out->cap, out->n + 1, sizeof *out->v))
        return pg__nomem(err);
    pg__leaf *leaf = &out->v[out->n];
    *leaf = (pg__leaf){
        .layer = l, .top = top, .parent = at->name, .trainable = at->trainable && l->trainable};
    const pg_status st = pg__layer_vars(&leaf->vars, l, dialect, err);
    if (st != PG_OK)
        return st;
    out->n++;
    out->n_vars += leaf->vars.n;
    out->all_known = out->all_known && leaf->vars.known;
    return PG_OK;
}

pg_status pg__leaves_of(pg__leaves *out, const pg__model *m, int dialect, pg_err *err)
{
    level stack[PG_LIMIT_MODEL_DEPTH + 2]; /* graph_build.c refuses deeper models */
    size_t depth = 1;
    pg_status st = PG_OK;
    *out = (pg__leaves){.all_known = 1};
    stack[0] = (level){m, "", 0, 1};
    while (depth > 0) {
        level *at = &stack[depth - 1];
        if (at->next == at->m->n_layers) {
            depth--;
            continue;
        }
        const pg__layer *l = &at->m->layers[at->next++];
        if (l->model)
            stack[depth++] = (level){l->model, l->name, 0, at->trainable && l->trainable};
        else if (strcmp(l->class_name, "InputLayer") != 0)
            PG_TRY(add_leaf(out, l, stack[0].next - 1, at, dialect, err));
    }
    PG_TRY(pg__leaves_widths(out, m, dialect, err));
done:
    if (st != PG_OK)
        pg__leaves_fini(out);
    return st;
}

void pg__leaves_fini(pg__leaves *l)
{
    for (size_t i = 0; i < l->n; i++)
        pg__vars_fini(&l->v[i].vars);
    pg__mem_free(l->v);
    *l = (pg__leaves){0};
}

pg__leaves pg__leaves_below(const pg__leaves *l, size_t top)
{
    pg__leaves part = {.all_known = 1};
    size_t lo = 0, hi = l->n; /* depth first: the leaves of one top-level layer are neighbours */
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (l->v[mid].top < top)
            lo = mid + 1;
        else
            hi = mid;
    }
    part.v = l->v + lo;
    for (; lo < l->n && l->v[lo].top == top; lo++) {
        part.n++;
        part.n_vars += l->v[lo].vars.n;
        part.all_known = part.all_known && l->v[lo].vars.known;
    }
    return part;
}

void pg__expected_order(const pg__leaves *leaves, size_t *leaf, size_t *var)
{
    size_t n = 0;
    for (int trainable = 1; trainable >= 0; trainable--)
        for (size_t i = 0; i < leaves->n; i++)
            for (size_t k = 0; k < leaves->v[i].vars.n; k++)
                if ((leaves->v[i].trainable && leaves->v[i].vars.v[k].trainable) == trainable) {
                    leaf[n] = i;
                    var[n++] = k;
                }
}
