/* align.c - pairs the layers of a plain file with those of a model (FORMATS.md: "Repair"): in
 * order, if they are equal in number and fit, or by exact name. Both ways are tried; if both fit
 * and differ, automatic names ("dense_2") prove nothing and the user must decide. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/try.h"
#include "model/fit/fit.h"

/* A top-level layer of the model that holds weights. */
typedef struct row {
    const pg__layer *layer;
    size_t top;
    pg__leaves leaves; /* a view */
    size_t by_name;    /* file layer of the same name, or PG_NONE */
    int name_fits, order_fits;
    char *why; /* why the file layer of that name does not fit; owned */
} row;

typedef struct align {
    const pg_store *file;
    size_t *layers; /* file layers that hold weights, in file order */
    size_t n_layers;
    size_t *sorted; /* the same, by name */
    row *rows;
    size_t n_rows;
    pg_err *err;
} align;

static const char *file_name(const align *a, size_t layer)
{
    return pg_store_layer(a->file, layer)->name;
}

static int compare_layers(const void *x, const void *y, void *file)
{
    const pg_store *s = file;
    return strcmp(pg_store_layer(s, *(const size_t *)x)->name,
                  pg_store_layer(s, *(const size_t *)y)->name);
}

static size_t find_file_layer(const align *a, const char *name)
{
    for (size_t lo = 0, hi = a->n_layers; lo < hi;) {
        const size_t mid = lo + (hi - lo) / 2;
        const int c = strcmp(name, file_name(a, a->sorted[mid]));
        if (c == 0)
            return a->sorted[mid];
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return PG_NONE;
}

static pg_status read_file(align *a)
{
    const size_t n = pg_store_n_layers(a->file);
    a->layers = pg__mem_array(n, sizeof *a->layers);
    a->sorted = pg__mem_array(n, sizeof *a->sorted);
    if (!a->layers || !a->sorted)
        return pg__nomem(a->err);
    for (size_t i = 0; i < n; i++)
        if (pg_store_layer(a->file, i)->n_weights > 0)
            a->sorted[a->n_layers] = i, a->layers[a->n_layers++] = i;
    union {
        const pg_store *in;
        void *out;
    } file = {.in = a->file}; /* pg__sort() passes it through unchanged */
    pg__sort(a->sorted, a->n_layers, sizeof *a->sorted, compare_layers, file.out);
    return PG_OK;
}

/* A layer of an unknown class counts if the file has weights under its name. */
static pg_status read_model(align *a, const pg__model *m, const pg__leaves *leaves)
{
    a->rows = pg__mem_array(m->n_layers, sizeof *a->rows);
    if (!a->rows)
        return pg__nomem(a->err);
    for (size_t i = 0; i < m->n_layers; i++) {
        row r = {.layer = &m->layers[i], .top = i, .leaves = pg__leaves_below(leaves, i)};
        r.by_name = find_file_layer(a, r.layer->name);
        if (r.leaves.n_vars > 0 || (!r.leaves.all_known && r.by_name != PG_NONE))
            a->rows[a->n_rows++] = r;
    }
    return PG_OK;
}

/* The first line of detail without its label; what follows is cut off. */
static const char *first_reason(char *detail)
{
    detail[strcspn(detail, "\n")] = 0;
    char *text = strchr(detail, ':');
    const int is_labelled = strncmp(detail, "shape:", 6) == 0 || strncmp(detail, "order:", 6) == 0;
    return is_labelled && text ? text + 1 + strspn(text + 1, " ") : detail;
}

/* Does this file layer hold the weights of this row? If not, why (may be NULL) gets the first line
 * of detail. */
static pg_status fits(int *out, const align *a, const row *r, size_t file_layer, char **why)
{
    const pg_layer *l = pg_store_layer(a->file, file_layer);
    pg__placing p = {0};
    pg_err why_not = {0};
    *out = 0;
    pg__stored *w = pg__mem_array(l->n_weights, sizeof *w);
    if (!w)
        return pg__nomem(a->err);
    for (size_t i = 0; i < l->n_weights; i++) {
        const pg_weight *s = pg_store_weight(a->file, l->first + i);
        w[i] = (pg__stored){.name = s->name, .rank = s->rank, .dims = s->dims};
    }
    const pg_status st = pg__place(&p, &r->leaves, w, l->n_weights, &why_not);
    /* A custom layer accepts anything, so it must at least have the same name. */
    if (st == PG_OK)
        *out = p.how != PG_BY_ORDER || r->leaves.all_known || strcmp(l->name, r->layer->name) == 0;
    else if (why && st == PG_E_MISMATCH && !*why)
        *why = pg__mem_strdup(first_reason(why_not.detail));
    pg__placing_fini(&p);
    pg__mem_free(w);
    return st == PG_OK || st == PG_E_MISMATCH ? PG_OK : pg_fail(a->err, st, "%s", why_not.msg);
}

static pg_status test_rows(align *a)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < a->n_rows; i++) {
        row *r = &a->rows[i];
        if (r->by_name != PG_NONE)
            PG_TRY(fits(&r->name_fits, a, r, r->by_name, &r->why));
        if (a->n_rows != a->n_layers)
            continue;
        if (r->by_name == a->layers[i])
            r->order_fits = r->name_fits;
        else
            PG_TRY(fits(&r->order_fits, a, r, a->layers[i], NULL));
    }
done:
    return st;
}

static int all_fit(const align *a, int by_order)
{
    for (size_t i = 0; i < a->n_rows; i++)
        if (!(by_order ? a->rows[i].order_fits : a->rows[i].name_fits))
            return 0;
    return a->n_rows == a->n_layers;
}

/* Number of rows that both ways would fill from different layers, among chosen names or among
 * automatic ones. */
static size_t count_conflicts(const align *a, int automatic)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n_rows; i++) {
        const row *r = &a->rows[i];
        n += r->name_fits && r->order_fits && r->by_name != a->layers[i] &&
             pg__name_is_automatic(r->layer) == automatic;
    }
    return n;
}

static pg_status list_candidates(pg__alignment *out, const align *a)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < a->n_rows; i++) {
        const row *r = &a->rows[i];
        const pg__shown name = pg__show(r->layer->name);
        if (r->name_fits && r->order_fits && r->by_name != a->layers[i])
            PG_TRY(pg__strs_printf(&out->candidates, a->err, "%s: \"%s\" by name, \"%s\" by order",
                                   name.s, name.s, PG_SHOW(file_name(a, a->layers[i]))));
    }
done:
    return st;
}

/* Which way is right? */
static pg_status decide(pg__alignment *out, const align *a)
{
    const int order = all_fit(a, 1), names = all_fit(a, 0);
    /* a chosen name is better evidence than a position, a position than an automatic name */
    const size_t doubts = order ? count_conflicts(a, names) : 0;
    out->by_order = order && !names;
    return doubts ? list_candidates(out, a) : PG_OK;
}

static pg_status list_missing(pg__alignment *out, const align *a, const row *r)
{
    const pg__shown name = pg__show(r->layer->name);
    return r->why ? pg__strs_printf(&out->missing, a->err, "%s (%s)", name.s, r->why)
                  : pg__strs_add(&out->missing, name.s, strlen(name.s), a->err);
}

static pg_status fill(pg__alignment *out, const align *a)
{
    pg_status st = PG_OK;
    unsigned char *taken = pg__mem_array(pg_store_n_layers(a->file), 1);
    if (!taken)
        return pg__nomem(a->err);
    for (size_t i = 0; i < a->n_rows; i++) {
        const row *r = &a->rows[i];
        if (out->by_order || r->name_fits) {
            const size_t file_layer = out->by_order ? a->layers[i] : r->by_name;
            out->file_layer[r->top] = file_layer;
            taken[file_layer] = 1;
        } else {
            PG_TRY(list_missing(out, a, r));
        }
    }
    for (size_t i = 0; i < a->n_layers; i++) {
        const pg__shown name = pg__show(file_name(a, a->layers[i]));
        if (!taken[a->layers[i]])
            PG_TRY(pg__strs_add(&out->extra, name.s, strlen(name.s), a->err));
    }
done:
    pg__mem_free(taken);
    return st;
}

pg_status pg__align(pg__alignment *out, const pg__model *m, const pg__leaves *leaves,
                    const pg_store *file, pg_err *err)
{
    pg_status st = PG_OK;
    align a = {.file = file, .err = err};
    *out = (pg__alignment){0};
    PG_TRY(read_file(&a));
    PG_TRY(read_model(&a, m, leaves));
    PG_TRY(test_rows(&a));
    PG_TRY(decide(out, &a));
    out->file_layer = pg__mem_array(m->n_layers, sizeof *out->file_layer);
    if (!out->file_layer) {
        st = pg__nomem(err);
        goto done;
    }
    out->n = m->n_layers;
    for (size_t i = 0; i < out->n; i++)
        out->file_layer[i] = PG_NONE;
    PG_TRY(fill(out, &a));
done:
    if (st != PG_OK)
        pg__alignment_fini(out);
    for (size_t i = 0; i < a.n_rows; i++)
        pg__mem_free(a.rows[i].why);
    pg__mem_free(a.rows);
    pg__mem_free(a.layers);
    pg__mem_free(a.sorted);
    return st;
}

void pg__alignment_fini(pg__alignment *a)
{
    pg__mem_free(a->file_layer);
    pg__strs_fini(&a->missing);
    pg__strs_fini(&a->extra);
    pg__strs_fini(&a->candidates);
    *a = (pg__alignment){0};
}
