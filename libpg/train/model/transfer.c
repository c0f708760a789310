/* transfer.c - weights by name, as far as they fit. Keras' load_weights(by_name=True,
 * skip_mismatch=True) does this, but says nothing if nothing fits; here every layer is accounted
 * for. Names are compared without the models that contain them: a base model saved alone fits one
 * that is a layer of another model, and vice versa. */
#include "train/model/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/fit/owner.h"
#include "model/graph/edit.h"
#include "train/rules/rules.h"

#define MAX_UNITS    100000000
#define NAMES_IN_ALL 12 /* names shown of a list */

/* ---- the description ---- */

/* "10" or "10:softmax". */
static pg_status read_head(uint64_t *units, char name[64], const pg__piece_of *p, pg_err *err)
{
    char text[96] = "", *end = NULL;
    if (p->n < sizeof text)
        memcpy(text, p->s, p->n);
    const size_t len = strcspn(text, ":");
    *units = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || end != text + len || *units == 0 || *units > MAX_UNITS ||
        strlen(text + len) == 1 || strlen(text + len) > 63) {
        (void)pg_fail(err, PG_E_ARG, "replace head: \"%.*s\": write a number of classes", (int)p->n,
                      p->s);
        pg_err_set(err, "replace_head", "10");
        pg_err_or(err, "replace_head", "1:sigmoid");
        return PG_E_ARG;
    }
    memcpy(name, text[len] ? text + len + 1 : "", strlen(text + len) + !text[len]);
    return PG_OK;
}

/* The part of o->replace_head for each output; the caller frees *pieces. */
static pg_status pieces_of(pg__piece_of **pieces, const pg__graph *g, const pg_train_opts *o,
                           pg_err *err)
{
    const pg__model *m = g->root;
    const char **names = pg__mem_array(m->n_outputs, sizeof *names);
    pg_status st = PG_OK;
    *pieces = pg__mem_array(m->n_outputs, sizeof **pieces);
    if (!names || !*pieces)
        PG_TRY(pg__nomem(err));
    for (size_t k = 0; k < m->n_outputs; k++)
        names[k] = m->layers[m->outputs[k].layer].name;
    if (m->n_outputs > 1 && !strpbrk(o->replace_head, "=,")) {
        st = pg_fail(err, PG_E_ARG, "replace head: the model has %zu outputs: say which",
                     m->n_outputs);
        pg_err_set(err, "replace_head", "%s=%.64s", names[0], o->replace_head);
        goto done;
    }
    PG_TRY(pg__per_output(*pieces, m->n_outputs, names, "replace head", o->replace_head, err));
done:
    pg__mem_free(names);
    return st;
}

static pg_status edit_heads(const pg__graph *g, pg__edits *edits, const pg_train_opts *o,
                            pg_err *err)
{
    pg__piece_of *pieces = NULL;
    pg_status st = PG_OK;
    PG_TRY(pieces_of(&pieces, g, o, err));
    for (size_t k = 0; k < g->root->n_outputs; k++) {
        uint64_t units;
        char name[64];
        if (pieces[k].n == 0)
            continue;
        PG_TRY(read_head(&units, name, &pieces[k], err));
        PG_TRY(pg__edit_head(edits, g, k, units, name[0] ? name : NULL, err));
    }
done:
    pg__mem_free(pieces);
    return st;
}

pg_status pg__transfer_edit(pg__graph **g, const pg_train_opts *o, pg_err *err)
{
    pg__edits edits = {0};
    pg_status st = PG_OK;
    if (o->replace_head)
        PG_TRY(edit_heads(*g, &edits, o, err));
    if (o->freeze)
        PG_TRY(pg__edit_freeze(&edits, *g, o->freeze, err));
    PG_TRY(pg__edits_apply(g, &edits, err));
done:
    pg__edits_fini(&edits);
    return st;
}

pg_status pg__transfer_note(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    uint64_t n = 0, frozen = 0;
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->vars.n_params && o->freeze; i++) {
        const int could = t->net.built_params.params[i].var->trainable; /* excludes statistics */
        n += could ? t->vars.n_elems[i] : 0;
        frozen += could && !t->vars.trained[i] ? t->vars.n_elems[i] : 0;
    }
    if (o->freeze && frozen == n)
        PG_TRY(pg__strs_printf(&t->report.notes, err, "freeze: no layer is left to train"));
    else if (o->freeze)
        PG_TRY(pg__strs_printf(&t->report.notes, err, "freeze: %s of %s parameters are not trained",
                               PG_NUM(frozen), PG_NUM(n)));
done:
    return st;
}

/* ---- the weights ---- */

/* The file's tensor for a variable of the model. */
typedef struct found {
    size_t weight; /* PG_NONE: not found */
    int again;     /* found more than once */
} found;

typedef struct taking {
    pg_trainer *t;
    pg_store *file;
    found *v;             /* per parameter */
    unsigned char *taken; /* per leaf */
    size_t n_layers, n_elems;
    pg__strs others, missing, unfit; /* layers of the file, of the model, and of both */
} taking;

static size_t find_var(const pg__leaf *leaf, const pg__owner *o)
{
    for (size_t k = 0; k < leaf->vars.n; k++)
        if (pg__var_is_named(&leaf->vars.v[k], o->var) && pg__sub_agrees(&leaf->vars.v[k], o))
            return k;
    return PG_NONE;
}

static int read_name(const taking *g, const pg__owner_table *table, const char *name, size_t *leaf,
                     size_t *var)
{
    static const pg__placed_by readings[] = {PG_BY_NAME, PG_BY_TAIL, PG_BY_FLAT_NAME};
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) {
        const pg__owner o = pg__owner_of(table, name, readings[i]);
        if (o.leaf == PG_NONE)
            continue;
        *leaf = o.leaf;
        *var = find_var(&g->t->net.leaves.v[o.leaf], &o);
        return *var != PG_NONE;
    }
    return 0;
}

/* Files of Keras 3 have "kernel" in a group named after the layer. */
static pg_status place_weight(taking *g, const pg__owner_table *table, size_t i, int *placed,
                              pg_err *err)
{
    const pg_weight *w = pg_store_weight(g->file, i);
    const char *layer = w->layer == PG_NONE ? NULL : pg_store_layer(g->file, w->layer)->name;
    size_t leaf, var, param = 0;
    pg__str whole = {0};
    pg_status st = PG_OK;
    *placed = read_name(g, table, w->name, &leaf, &var);
    if (!*placed && layer) {
        PG_TRY(pg__str_printf(&whole, err, "%s/%s", layer, w->name));
        *placed = read_name(g, table, whole.s, &leaf, &var);
    }
    if (!*placed)
        goto done;
    for (size_t k = 0; k < leaf; k++)
        param += g->t->net.leaves.v[k].vars.n;
    g->v[param + var].again |= g->v[param + var].weight != PG_NONE;
    g->v[param + var].weight = i;
done:
    pg__str_fini(&whole);
    return st;
}

/* Names in the file without a counterpart in the model: of layers, or else of tensors. */
static pg_status add_other(taking *g, size_t i, pg_err *err)
{
    const pg_weight *w = pg_store_weight(g->file, i);
    const pg__owner o = pg__owner_split(w->name);
    const char *layer = w->layer == PG_NONE ? w->name : pg_store_layer(g->file, w->layer)->name;
    char *path = o.path.n > 0 ? pg__mem_strndup(o.path.s, o.path.n) : pg__mem_strdup(layer);
    pg_status st = PG_OK;
    if (!path)
        return pg__nomem(err);
    if (pg__strs_find(&g->others, path) == PG_NONE)
        st = pg__strs_add(&g->others, path, strlen(path), err);
    pg__mem_free(path);
    return st;
}

/* Can the leaf be taken? If not, adds the reason to g->unfit, or its name to g->missing. */
static pg_status judge(taking *g, size_t leaf, size_t first, int *fits, pg_err *err)
{
    const pg__leaf *l = &g->t->net.leaves.v[leaf];
    const char *name = l->layer->name;
    size_t n = 0;
    *fits = 0;
    for (size_t k = 0; k < l->vars.n; k++)
        n += g->v[first + k].weight != PG_NONE;
    if (n == 0)
        return pg__strs_add(&g->missing, name, strlen(name), err);
    for (size_t k = 0; k < l->vars.n; k++) {
        const found *f = &g->v[first + k];
        const char *var = l->vars.v[k].name;
        const pg__dims *want = &g->t->net.built_params.params[first + k].shape;
        if (f->weight == PG_NONE)
            return pg__strs_printf(&g->unfit, err, "%s: the file has no %s of it", PG_SHOW(name),
                                   var);
        if (f->again)
            return pg__strs_printf(&g->unfit, err, "%s: the file has more than one %s of that name",
                                   PG_SHOW(name), var);
        const pg_weight *w = pg_store_weight(g->file, f->weight);
        const pg__dims has = pg__dims_of(w->rank, w->dims);
        if (!pg__dims_equal(&has, want))
            return pg__strs_printf(&g->unfit, err, "%s: its %s is %s, the model expects %s",
                                   PG_SHOW(name), var, PG_SHAPE(&has), PG_SHAPE(want));
    }
    *fits = 1;
    return PG_OK;
}

static pg_status take_leaf(taking *g, size_t leaf, size_t first, pg_err *err)
{
    const pg__leaf *l = &g->t->net.leaves.v[leaf];
    pg_status st = PG_OK;
    for (size_t k = 0; k < l->vars.n; k++) {
        PG_TRY(pg__param_read(g->t, &g->t->vars.params, first + k, g->file, g->v[first + k].weight,
                              0, err));
        g->n_elems += g->t->vars.n_elems[first + k];
    }
    g->taken[leaf] = 1;
    g->n_layers++;
done:
    return st;
}

static void taking_fini(taking *g)
{
    pg__mem_free(g->v);
    pg__mem_free(g->taken);
    pg__strs_fini(&g->others);
    pg__strs_fini(&g->missing);
    pg__strs_fini(&g->unfit);
}

static pg_status take(taking *g, pg_trainer *t, pg_store *file, pg_err *err)
{
    pg__owner_table table = {0};
    size_t first = 0;
    pg_status st = PG_OK;
    *g = (taking){.t = t, .file = file};
    g->v = pg__mem_array(t->vars.n_params, sizeof *g->v);
    g->taken = pg__mem_array(t->net.leaves.n, 1);
    if (!g->v || !g->taken)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < t->vars.n_params; i++)
        g->v[i].weight = PG_NONE;
    PG_TRY(pg__owner_table_of(&table, &t->net.leaves, err));
    for (size_t i = 0; i < pg_store_n_weights(file); i++) {
        int placed = 0;
        PG_TRY(place_weight(g, &table, i, &placed, err));
        if (!placed)
            PG_TRY(add_other(g, i, err));
    }
    for (size_t i = 0; i < t->net.leaves.n; first += t->net.leaves.v[i++].vars.n) {
        int fits = 0;
        if (t->net.leaves.v[i].vars.n == 0)
            continue;
        PG_TRY(judge(g, i, first, &fits, err));
        if (fits)
            PG_TRY(take_leaf(g, i, first, err));
    }
done:
    pg__owner_table_fini(&table);
    return st;
}

/* "not in the file: a, b and 3 more". */
static pg_status note_list(pg_trainer *t, const char *path, const char *what, const pg__strs *names,
                           pg_err *err)
{
    pg__str line = {0};
    pg_status st = PG_OK;
    for (size_t i = 0; i < names->n && i < NAMES_IN_ALL; i++)
        PG_TRY(pg__str_printf(&line, err, "%s%s", i ? ", " : "", PG_SHOW(names->v[i])));
    if (names->n > NAMES_IN_ALL)
        PG_TRY(pg__str_printf(&line, err, " and %zu more", names->n - NAMES_IN_ALL));
    if (line.n > 0)
        PG_TRY(pg__strs_printf(&t->report.notes, err, "%s: %s: %s", PG_SHOW(path), what, line.s));
done:
    pg__str_fini(&line);
    return st;
}

static pg_status report(const taking *g, const char *path, pg_err *err)
{
    pg_trainer *t = g->t;
    pg_status st = PG_OK;
    PG_TRY(pg__strs_printf(&t->report.notes, err, "%s: %zu layer%s taken by name, %s parameters",
                           PG_SHOW(path), g->n_layers, g->n_layers == 1 ? "" : "s",
                           PG_NUM(g->n_elems)));
    for (size_t i = 0; i < g->unfit.n && i < NAMES_IN_ALL; i++)
        PG_TRY(pg__strs_printf(&t->report.notes, err, "%s: not taken: %s", PG_SHOW(path),
                               g->unfit.v[i]));
    if (g->unfit.n > NAMES_IN_ALL)
        PG_TRY(pg__strs_printf(&t->report.notes, err, "%s: %zu more layers were not taken",
                               PG_SHOW(path), g->unfit.n - NAMES_IN_ALL));
    PG_TRY(note_list(t, path, "has nothing for", &g->missing, err));
    PG_TRY(note_list(t, path, "has layers that the model lacks", &g->others, err));
done:
    return st;
}

static void list_reasons(const taking *g, pg_err *err)
{
    for (size_t i = 0; i < g->unfit.n && i < 4; i++)
        pg_err_detail(err, "not taken: %s", g->unfit.v[i]);
    for (size_t i = 0; i < g->missing.n && i < 4; i++)
        pg_err_detail(err, "the model has: %s", PG_SHOW(g->missing.v[i]));
    for (size_t i = 0; i < g->others.n && i < 4; i++)
        pg_err_detail(err, "the file has: %s", PG_SHOW(g->others.v[i]));
}

/* A .weights.h5 without a description: "layers/dense/vars/0". */
static int has_no_names(const pg_store *file)
{
    for (size_t i = 0; i < pg_store_n_weights(file); i++) {
        const pg__owner o = pg__owner_split(pg_store_weight(file, i)->name);
        if (o.path.n < 4 || memcmp(o.path.s + o.path.n - 4, "vars", 4) != 0)
            return 0;
    }
    return 1;
}

static pg_status take_all(pg_trainer *t, pg_store *file, const char *path, int *all, pg_err *err)
{
    taking g;
    pg_status st = take(&g, t, file, err);
    if (st != PG_OK)
        goto done;
    *all = g.missing.n == 0 && g.unfit.n == 0;
    if (g.n_layers == 0) {
        st = pg_fail(err, PG_E_MISMATCH,
                     "no layer in it has the name and the shapes of one of the model's");
        if (has_no_names(file))
            pg_err_hint(err,
                        "a .weights.h5 does not store layer names: use the .keras, or a legacy "
                        ".h5");
        else
            pg_err_do(err, PG_DO_RENAME, NULL);
        list_reasons(&g, err);
        goto done;
    }
    PG_TRY(report(&g, path, err));
done:
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(path));
    taking_fini(&g);
    return st;
}

pg_status pg__transfer_start(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    pg_store *file = NULL;
    int all = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__weights_open(&file, &t->report.notes, o->init_from, o->part, NULL, err));
    PG_TRY(take_all(t, file, o->init_from, &all, err));
    t->vars.drawn = t->vars.drawn && !all;
done:
    pg_store_close(file);
    return st;
}

/* Marks the layers that got a new number of classes. */
static pg_status mark_heads(unsigned char *is_head, pg_trainer *t, const pg_train_opts *o,
                            pg_err *err)
{
    pg__piece_of *pieces = NULL;
    pg_status st = PG_OK;
    PG_TRY(pieces_of(&pieces, t->net.graph, o, err));
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        pg__head head;
        if (pieces[k].n == 0)
            continue;
        PG_TRY(pg__head_of(&head, t->net.graph, k, err));
        for (size_t i = 0; i < t->net.leaves.n; i++)
            is_head[i] |= t->net.leaves.v[i].layer == head.layer ||
                          t->net.leaves.v[i].layer->inner == head.layer;
    }
done:
    pg__mem_free(pieces);
    return st;
}

pg_status pg__transfer_load(pg_trainer *t, const pg_train_opts *o, pg_store *file, const char *path,
                            pg_err *err)
{
    unsigned char *is_head = pg__mem_array(t->net.leaves.n, 1);
    taking g = {0};
    pg_status st = PG_OK;
    if (!is_head)
        return pg__nomem(err);
    PG_TRY(mark_heads(is_head, t, o, err));
    PG_TRY(take(&g, t, file, err));
    for (size_t i = 0; i < t->net.leaves.n; i++) {
        const pg__leaf *l = &t->net.leaves.v[i];
        if (l->vars.n == 0 || g.taken[i] || is_head[i])
            continue;
        st = pg_fail(err, PG_E_MISMATCH, "does not fit the model apart from its new head: %s",
                     PG_SHOW(l->layer->name));
        list_reasons(&g, err);
        pg_err_set(err, "init_from", "%s", path);
        pg_err_arg(err, "note", "takes what fits and reports what does not");
        break;
    }
done:
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(path));
    taking_fini(&g);
    pg__mem_free(is_head);
    return st;
}
