/* plan.c - a plan is only data: layers, weights, and where their bytes come from. Planners (wrap/)
 * make plans, formats carry them out, so no planner touches a file. */
#include "store/plan.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"

pg_status pg__plan_add_layer(pg__plan *p, const char *name, size_t len, size_t src, pg_err *err)
{
    char *copy = pg__mem_strndup(name, len);
    if (!copy || pg__mem_grow(&p->layers, &p->cap_layers, p->n_layers + 1, sizeof *p->layers)) {
        pg__mem_free(copy);
        return pg__nomem(err);
    }
    p->layers[p->n_layers++] = (pg__plan_layer){.name = copy, .src = src, .first = p->n_items};
    return PG_OK;
}

pg_status pg__plan_add(pg__plan *p, size_t src, const char *name, pg_err *err)
{
    char *copy = pg__mem_strdup(name);
    if (!copy || pg__mem_grow(&p->items, &p->cap_items, p->n_items + 1, sizeof *p->items)) {
        pg__mem_free(copy);
        return pg__nomem(err);
    }
    p->items[p->n_items++] = (pg__plan_item){.src = src, .name = copy};
    if (p->n_layers)
        p->layers[p->n_layers - 1].n++;
    return PG_OK;
}

pg_status pg__plan_set_text(pg__plan *p, pg_text which, const char *text, size_t n, pg_err *err)
{
    if (which != PG_TEXT_MODEL_CONFIG && which != PG_TEXT_TRAINING_CONFIG)
        return pg_fail(err, PG_E_ARG, "a plan holds no such text");
    char **dst = which == PG_TEXT_MODEL_CONFIG ? &p->model_config : &p->training_config;
    char *copy = pg__mem_strndup(text, n);
    if (!copy)
        return pg__nomem(err);
    pg__mem_free(*dst);
    *dst = copy;
    *(which == PG_TEXT_MODEL_CONFIG ? &p->n_model_config : &p->n_training_config) = n;
    return PG_OK;
}

int pg__plan_keeps_state(const pg__plan *p, size_t i)
{
    static const char *const among_layers[] = {"layers/", "_layer_checkpoint_dependencies/"};
    const pg_weight *w = pg_store_state(p->src, i);
    if (!p->keep_state || !w)
        return 0;
    for (size_t k = 0; p->root && k < sizeof among_layers / sizeof *among_layers; k++)
        if (strncmp(w->name, among_layers[k], strlen(among_layers[k])) == 0)
            return 0;
    return 1;
}

size_t pg__plan_n_state(const pg__plan *p)
{
    size_t n = 0;
    for (size_t i = 0; i < pg_store_n_state(p->src); i++)
        n += (size_t)pg__plan_keeps_state(p, i);
    return n;
}

void pg__plan_fini(pg__plan *p)
{
    for (size_t i = 0; i < p->n_layers; i++) {
        pg__mem_free(p->layers[i].name);
        pg__mem_free(p->layers[i].label);
    }
    for (size_t i = 0; i < p->n_items; i++)
        pg__mem_free(p->items[i].name);
    pg__mem_free(p->layers);
    pg__mem_free(p->items);
    pg__mem_free(p->model_config);
    pg__mem_free(p->training_config);
    pg__mem_free(p->root);
    *p = (pg__plan){0};
}

static pg_status copy_text(pg__plan *out, pg_store *src, pg_text which, pg_err *err)
{
    size_t n = 0;
    const char *text = pg_store_text(src, which, &n);
    return text ? pg__plan_set_text(out, which, text, n, err) : PG_OK;
}

pg_status pg__plan_copy_of(pg__plan *out, pg_store *src, pg_err *err)
{
    pg_status st = PG_OK;
    size_t layer = 0;
    out->src = src;
    out->keep_state = 1;
    for (size_t i = 0; i < pg_store_n_weights(src); i++) {
        const pg_weight *w = pg_store_weight(src, i);
        for (; w->layer != PG_NONE && layer <= w->layer; layer++) {
            const char *name = pg_store_layer(src, layer)->name;
            PG_TRY(pg__plan_add_layer(out, name, strlen(name), layer, err));
        }
        PG_TRY(pg__plan_add(out, i, w->name, err));
    }
    for (; layer < pg_store_n_layers(src); layer++) {
        const char *name = pg_store_layer(src, layer)->name;
        PG_TRY(pg__plan_add_layer(out, name, strlen(name), layer, err));
    }
    PG_TRY(copy_text(out, src, PG_TEXT_MODEL_CONFIG, err));
    PG_TRY(copy_text(out, src, PG_TEXT_TRAINING_CONFIG, err));
done:
    return st;
}
