/* explain.c - describes why a fit fails: lines "missing:", "extra:", "shape:". */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "model/fit/fit.h"

#define MAX_LISTED 6 /* lines of one kind; the rest is counted */

/* "3×3×?×64", "scalar" or "any shape". */
static void shape_text(char *buf, size_t cap, uint32_t rank, const uint64_t *dims, int any_rank)
{
    size_t at = 0;
    snprintf(buf, cap, "%s", any_rank ? "any shape" : "scalar");
    for (uint32_t i = 0; i < rank && !any_rank && at + 24 < cap; i++) {
        const char *x = i ? "×" : "";
        if (dims[i] == PG_DIM_ANY)
            at += (size_t)snprintf(buf + at, cap - at, "%s?", x);
        else
            at += (size_t)snprintf(buf + at, cap - at, "%s%llu", x, (unsigned long long)dims[i]);
    }
}

/* A line of detail that lists things with commas until it is full. */
typedef struct list {
    char text[720];
    size_t n, n_listed;
} list;

static void list_add(list *l, const char *item)
{
    const size_t at = strlen(l->text), need = strlen(item) + 2;
    if (l->n == l->n_listed && l->n < MAX_LISTED && at + need + 24 < sizeof l->text) {
        snprintf(l->text + at, sizeof l->text - at, "%s%s", l->n ? ", " : "", item);
        l->n_listed++;
    }
    l->n++;
}

static void list_show(const list *l, const char *label, pg_err *err)
{
    if (l->n > l->n_listed)
        pg_err_detail(err, "%s%s and %zu more", label, l->text, l->n - l->n_listed);
    else if (l->n > 0)
        pg_err_detail(err, "%s%s", label, l->text);
}

static void explain_missing(const pg__fit *f, const pg__leaves *leaves, pg_err *err)
{
    list missing = {0};
    for (size_t i = 0; i < leaves->n; i++)
        for (size_t k = 0; k < leaves->v[i].vars.n; k++) {
            const pg__var *v = &leaves->v[i].vars.v[k];
            char shape[200], item[640];
            if (f->used[f->first[i] + k])
                continue;
            shape_text(shape, sizeof shape, v->rank, v->dims, v->any_rank);
            snprintf(item, sizeof item, "%s/%s%s%s (%s)", PG_SHOW(leaves->v[i].layer->name),
                     PG_SHOW(v->sub), v->sub[0] ? "/" : "", v->name, shape);
            list_add(&missing, item);
        }
    list_show(&missing, "missing: ", err);
}

static void explain_weights(const pg__fit *f, const pg__leaves *leaves, const pg__stored *stored,
                            size_t n, pg_err *err)
{
    list extra = {0};
    size_t n_shapes = 0;
    for (size_t i = 0; i < n; i++) {
        char is[200], wanted[200], item[640];
        if (f->misfit[i] == PG_FITS)
            continue;
        shape_text(is, sizeof is, stored[i].rank, stored[i].dims, 0);
        if (f->misfit[i] == PG_FIT_EXTRA) {
            snprintf(item, sizeof item, "%s (%s)", PG_SHOW(stored[i].name), is);
            list_add(&extra, item);
        } else if (n_shapes++ < MAX_LISTED) {
            const pg__leaf *l = &leaves->v[f->leaf[i]];
            const pg__var *v = &l->vars.v[f->var[i]];
            shape_text(wanted, sizeof wanted, v->rank, v->dims, v->any_rank);
            pg_err_detail(err, "shape:   %s/%s is %s, template has %s", PG_SHOW(l->layer->name),
                          v->name, is, wanted);
        }
    }
    list_show(&extra, "extra:   ", err);
}

pg_status pg__fit_explain(const pg__fit *f, const pg__leaves *leaves, const pg__stored *stored,
                          size_t n, pg_err *err)
{
    if (leaves->all_known && n != leaves->n_vars)
        (void)pg_fail(err, PG_E_MISMATCH, "the file has %zu weights where the model has %zu", n,
                      leaves->n_vars);
    else
        (void)pg_fail(
            err, PG_E_MISMATCH,
            "the weights do not fit the model: %zu missing, %zu extra, %zu of another shape",
            f->n_missing, f->n_extra, f->n_shape);
    explain_missing(f, leaves, err);
    explain_weights(f, leaves, stored, n, err);
    if (f->n_missing + f->n_extra + f->n_shape == 0 && f->splits_model)
        pg_err_detail(err,
                      "order:   the weights of a nested model are not in the order of its layers");
    else if (f->n_missing + f->n_extra + f->n_shape == 0)
        pg_err_detail(err,
                      "order:   the layers come in a different order: it steps back %zu times, at "
                      "most once is possible",
                      f->n_descents);
    return PG_E_MISMATCH;
}
