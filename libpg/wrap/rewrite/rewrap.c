/* rewrap.c - pg_wrap_file(): puts a one-device checkpoint into the file of a wrapper.
 *
 * A loader of the wrapper pairs the one list of weights by position, so only its order matters: the
 * trainable weights of all layers, then the others. The order comes from a wrapper's file (--like)
 * or from the description in a full file; without either it is known only if nothing is frozen,
 * which the report then says. A full wrapper file needs the Python code of its slices, so only
 * --like with a full wrapper gives one: its config is used if both describe the same template. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bsd.h"
#include "base/index.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "wrap/judge/judge.h"
#include "wrap/rewrite/pairing.h"
#include "wrap/rewrite/rewrite.h"

/* ---- --like, legacy layout ---- */

/* Full to full: uses the wrapper's config unchanged, if it describes its template as IN does. */
static pg_status take_config(pg__rewrite *r, const pg_store *like, const pg__verdict *lv,
                             pg_err *err)
{
    pg_status st = PG_OK;
    pg__str training = {0};
    size_t n = 0;
    int clash = 0, same = 0;
    const char *text = pg_store_text(like, PG_TEXT_MODEL_CONFIG, &n);
    const pg__graph *g = r->v.graph;
    if (!g)
        return PG_OK;
    if (!text || !lv->tmpl)
        return pg__add_note(
            r, err, "weights only: to write a full wrapper, pass a full wrapper's file as `like`");
    const pg__json_step config[] = {PG_JKEY("config"), {0}};
    const pg__json_span own = pg__json_range(g->text, g->n_text, config);
    PG_TRY(pg__text_same(&same, g->text + own.off, own.n,
                         lv->graph->text + lv->tmpl->config_span.off, lv->tmpl->config_span.n,
                         err));
    if (!same) {
        st =
            pg__add_note(r, err, "weights only: the two files describe their template differently");
        goto done;
    }
    PG_TRY(pg__plan_set_text(&r->plan, PG_TEXT_MODEL_CONFIG, text, n, err));
    text = pg_store_text(r->s, PG_TEXT_TRAINING_CONFIG, &n);
    if (text) {
        PG_TRY(pg__text_training(&training, text, n, &lv->originals, &lv->outputs, &clash, err));
        PG_TRY(pg__plan_set_text(&r->plan, PG_TEXT_TRAINING_CONFIG, training.s, training.n, err));
        PG_TRY(pg__add_kept(r, err, "training_config"));
    }
    r->plan.keep_state = 1;
    if (pg_store_n_state(r->s))
        PG_TRY(pg__add_kept(r, err, "optimizer state (%zu tensors)", pg_store_n_state(r->s)));
done:
    pg__str_fini(&training);
    return st;
}

static pg_status wrap_like_h5(pg__rewrite *r, const pg_store *like, const pg__verdict *lv,
                              pg_err *err)
{
    pg_status st = PG_OK;
    size_t *pairs = NULL;
    int renumbered = 0;
    const pg_layer *t = pg_store_layer(like, lv->layer);
    PG_TRY(pg__pair(&pairs, &renumbered, r->s, like, t->first, t->n_weights, err));
    for (size_t i = 0; i < pg_store_n_layers(like); i++) {
        const char *name = pg_store_layer(like, i)->name;
        PG_TRY(pg__plan_add_layer(&r->plan, name, strlen(name), PG_NONE, err));
        for (size_t k = 0; i == lv->layer && k < t->n_weights; k++)
            PG_TRY(
                pg__plan_add(&r->plan, pairs[k], pg_store_weight(like, t->first + k)->name, err));
    }
    if (renumbered)
        PG_TRY(pg__add_note(r, err, "names differ in their numbers only; paired by these"));
    PG_TRY(pg__add_template(r, t->name, err));
    PG_TRY(take_config(r, like, lv, err));
done:
    pg__mem_free(pairs);
    return st;
}

/* ---- --like, path layout and PyTorch ---- */

static pg_status add_same(pg__rewrite *r, const pg__index *own, const pg_weight *want,
                          const char *own_name, unsigned char *used, pg_err *err)
{
    const size_t i = pg__index_find(own, own_name);
    const pg_weight *w = i == PG_NONE ? NULL : pg_store_weight(r->s, i);
    if (!w)
        return pg_fail(err, PG_E_MISMATCH,
                       "does not fit the template: \"%s\" is missing; nothing written",
                       PG_SHOW(own_name));
    if (w->rank != want->rank || memcmp(w->dims, want->dims, w->rank * sizeof *w->dims) != 0)
        return pg_fail(err, PG_E_MISMATCH,
                       "does not fit the template: \"%s\" is %s, not %s; nothing written",
                       PG_SHOW(own_name), pg__shape_text(w).s, pg__shape_text(want).s);
    used[i] = 1; /* a template of copies takes each several times */
    return pg__plan_add(&r->plan, i, want->name, err);
}

static pg_status all_used(const pg__rewrite *r, const unsigned char *used, pg_err *err)
{
    for (size_t i = 0; i < pg_store_n_weights(r->s); i++)
        if (!used[i])
            return pg_fail(err, PG_E_MISMATCH,
                           "does not fit the template: it has no place for \"%s\"; nothing written",
                           PG_SHOW(pg_store_weight(r->s, i)->name));
    return PG_OK;
}

static pg_status wrap_like_prefix(pg__rewrite *r, const pg_store *like, const pg__verdict *lv,
                                  pg_err *err)
{
    pg_status st = PG_OK;
    pg__index own = {0};
    pg__str own_name = {0};
    unsigned char *used = pg__mem_array(pg_store_n_weights(r->s), 1);
    if (!used)
        return pg__nomem(err);
    if (lv->words.counter != PG_NONE)
        PG_FAIL(
            PG_E_UNSUPPORTED,
            "the template holds n_averaged, which counts the models that AveragedModel averaged: "
            "a single model has no such number; nothing written");
    for (size_t i = 0; i < pg_store_n_weights(r->s); i++)
        PG_TRY(pg__index_add(&own, pg_store_weight(r->s, i)->name, i, err));
    pg__index_sort(&own);
    for (size_t i = 0; i < pg_store_n_weights(like); i++) {
        const char *name = pg_store_weight(like, i)->name;
        own_name.n = 0;
        PG_TRY(pg__str_puts(&own_name, name, err));
        pg__words_strip(own_name.s, &lv->words, name);
        PG_TRY(add_same(r, &own, pg_store_weight(like, i), own_name.s, used, err));
    }
    PG_TRY(all_used(r, used, err));
    PG_TRY(pg__add_template(r, lv->f.template_name, err));
    r->plan.keep_state = 1;
done:
    pg__mem_free(used);
    pg__str_fini(&own_name);
    pg__index_fini(&own);
    return st;
}

/* ---- --gpus N ---- */

/* A layer named name, or name_k if k is not 0. */
static pg_status add_layer(pg__rewrite *r, const char *name, size_t k, pg_err *err)
{
    pg__str s = {0};
    pg_status st = k ? pg__str_printf(&s, err, "%s_%zu", name, k) : pg__str_puts(&s, name, err);
    if (st == PG_OK)
        st = pg__plan_add_layer(&r->plan, s.s, s.n, PG_NONE, err);
    pg__str_fini(&s);
    return st;
}

/* Inputs and outputs of the template as far as they are known. */
typedef struct ends {
    pg__strs inputs, outputs;
    const char *own_name; /* of the template, from its config; or NULL */
    int sequential;
} ends;

static pg_status ends_of_config(ends *e, const pg__model *m, pg_err *err)
{
    pg_status st = PG_OK;
    e->own_name = m->name;
    e->sequential = m->sequential;
    for (size_t i = 0; i < m->n_inputs; i++) {
        const pg__layer *l = &m->layers[m->inputs[i].layer];
        const int is_input = strcmp(l->class_name, "InputLayer") == 0;
        PG_TRY(pg__strs_printf(&e->inputs, err, "%s%s", l->name, is_input ? "" : "_input"));
    }
    for (size_t i = 0; i < m->n_outputs; i++) {
        const char *name = m->layers[m->outputs[i].layer].name;
        PG_TRY(pg__strs_add(&e->outputs, name, strlen(name), err));
    }
done:
    return st;
}

static pg_status ends_of_names(ends *e, const pg_store *s, pg_err *err)
{
    pg_status st = PG_OK;
    const char *last = "";
    for (size_t i = 0; i < pg_store_n_layers(s); i++) {
        const pg_layer *l = pg_store_layer(s, i);
        if (l->n_weights == 0 && strcasestr(l->name, "input"))
            PG_TRY(pg__strs_add(&e->inputs, l->name, strlen(l->name), err));
        last = l->name;
    }
    if (e->inputs.n == 0) {
        e->sequential = 1;
        PG_TRY(pg__strs_printf(&e->inputs, err, "%s_input", pg_store_layer(s, 0)->name));
    }
    PG_TRY(pg__strs_add(&e->outputs, last, strlen(last), err));
done:
    return st;
}

/* Automatic numbers continue after those of the template's own Lambda layers. */
static unsigned long next_lambda(const pg_store *s, unsigned long first)
{
    unsigned long next = first;
    for (size_t i = 0; i < pg_store_n_layers(s); i++) {
        const char *name = pg_store_layer(s, i)->name;
        unsigned long k = 0;
        if (strcmp(name, "lambda") == 0)
            k = 0;
        else if (strncmp(name, "lambda_", 7) == 0 && name[7] &&
                 !name[7 + strspn(name + 7, "0123456789")])
            k = strtoul(name + 7, NULL, 10);
        else
            continue;
        if (k >= next && k < 1000000)
            next = k + 1;
    }
    return next;
}

/* A Normalization layer holds what adapt() has seen of the data: nothing of it is trained. */
static int is_adapted(const pg_store *s, const pg_layer *l)
{
    static const char *const names[] = {"mean", "variance", "count"};
    if (!l || l->n_weights != 3)
        return 0;
    for (size_t i = 0; i < 3; i++) {
        const char *name = pg_store_weight(s, l->first + i)->name;
        const char *slash = strrchr(name, '/');
        const char *var = slash ? slash + 1 : name;
        const size_t n = strlen(names[i]);
        if (strncmp(var, names[i], n) != 0 || (var[n] && var[n] != ':'))
            return 0;
    }
    return 1;
}

/* Is it a variable that every layer of Keras trains? Custom layers may have others, stored after
 * these or not: a wrong guess would load without an error. */
static int is_trained_kind(const char *weight)
{
    static const char *const names[] = {"kernel", "recurrent_kernel",    "depthwise_kernel",
                                        "bias",   "pointwise_kernel",    "gamma",
                                        "beta",   "embeddings",          "alpha",
                                        "scale",  "concat_score_weight", NULL};
    const char *slash = strrchr(weight, '/');
    const char *var = slash ? slash + 1 : weight;
    const size_t stem = strcspn(var, ":");
    if (!slash) /* Keras 1: dense_1_W, lstm_1_U_i */
        return 1;
    for (size_t i = 0; names[i]; i++) {
        const size_t n = strlen(names[i]);
        if (strncmp(var, names[i], n) != 0)
            continue;
        const size_t number = var[n] == '_' ? 1 + strspn(var + n + 1, "0123456789") : 0;
        if (n + number == stem)
            return 1;
    }
    return 0;
}

static int is_untrained(const pg_store *s, const pg_weight *w)
{
    return pg__is_statistic(w->name) || is_adapted(s, pg_store_layer(s, w->layer));
}

/* Assumes that all weights but statistics are trainable: right for every model without frozen
 * layers. */
static pg_status flat_by_names(pg__rewrite *r, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < pg_store_n_weights(r->s); i++) {
        const pg_weight *w = pg_store_weight(r->s, i);
        if (is_trained_kind(w->name) || is_untrained(r->s, w))
            continue;
        st = pg_fail(
            err, PG_E_AMBIGUOUS,
            "cannot tell whether \"%s\" is trainable; wrappers store non-trainable weights last",
            PG_SHOW(w->name));
        pg_err_do(err, PG_DO_WRAP, NULL);
        goto done;
    }
    for (int statistics = 0; statistics < 2; statistics++)
        for (size_t i = 0; i < pg_store_n_weights(r->s); i++) {
            const pg_weight *w = pg_store_weight(r->s, i);
            if (is_untrained(r->s, w) == statistics)
                PG_TRY(pg__plan_add(&r->plan, i, w->name, err));
        }
    PG_TRY(pg__add_note(r, err,
                        "assumed: nothing frozen (the file does not say; a wrapper's file passed "
                        "as `like` would)"));
done:
    return st;
}

static int all_known(const pg__graph *g, pg_err *err)
{
    pg__leaves leaves = {0};
    const int known = pg__leaves_of(&leaves, g->root, g->dialect, err) == PG_OK && leaves.all_known;
    pg__leaves_fini(&leaves);
    return known;
}

static pg_status template_layer(pg__rewrite *r, const ends *e, const char *name, int from_nothing,
                                pg_err *err)
{
    pg_status st = PG_OK;
    const char *automatic = e->sequential ? (from_nothing ? "sequential" : "sequential_1")
                                          : (from_nothing ? "model" : "model_1");
    const int is_guess = !name && !e->own_name;
    name = name ? name : e->own_name ? e->own_name : automatic;
    PG_TRY(pg__plan_add_layer(&r->plan, name, strlen(name), PG_NONE, err));
    PG_TRY(pg__add_template(r, name, err));
    if (r->v.graph && all_known(r->v.graph, NULL))
        PG_TRY(pg__plan_flat(r, r->v.graph->root, r->v.graph->dialect, err));
    else
        PG_TRY(flat_by_names(r, err));
    if (is_guess)
        PG_TRY(pg__add_note(r, err,
                            "assumed: the model is called \"%s\" (the file does not say; the "
                            "option `name` sets it)",
                            name));
done:
    return st;
}

/* One merge for each output; those with the same name are numbered in order. */
static pg_status merges(pg__rewrite *r, const ends *e, pg_err *err)
{
    pg_status st = PG_OK;
    pg__index names = {0};
    const size_t n = e->outputs.n;
    size_t *nth = pg__mem_array(n, sizeof *nth); /* 0: the only one of its name */
    if (!nth)
        return pg__nomem(err);
    for (size_t i = 0; i < n; i++)
        PG_TRY(pg__index_add(&names, e->outputs.v[i], i, err));
    pg__index_sort(&names);
    for (size_t k = 1; k < n; k++)
        if (strcmp(names.v[k - 1].name, names.v[k].name) == 0) {
            nth[names.v[k - 1].i] += nth[names.v[k - 1].i] == 0;
            nth[names.v[k].i] = nth[names.v[k - 1].i] + 1;
        }
    for (size_t i = 0; i < n; i++)
        PG_TRY(add_layer(r, e->outputs.v[i], nth[i], err));
done:
    pg__index_fini(&names);
    pg__mem_free(nth);
    return st;
}

/* The template, its inputs and the merges are layers of one model: Keras refuses two with the same
 * name. */
static pg_status check_name(const pg__rewrite *r, pg_err *err)
{
    pg_status st = PG_OK;
    pg__index names = {0};
    for (size_t i = 0; i < r->plan.n_layers; i++)
        PG_TRY(pg__index_add(&names, r->plan.layers[i].name, i, err));
    pg__index_sort(&names);
    for (size_t k = 1; k < names.n; k++) {
        const char *name = names.v[k].name;
        if (strcmp(names.v[k - 1].name, name) != 0)
            continue;
        st = pg_fail(err, PG_E_ARG, "\"%s\" is also the name of another layer of the wrapper",
                     PG_SHOW(name));
        if (strcmp(name, r->rep.template_name) == 0) {
            pg_err_do(err, PG_DO_GIVE, NULL);
            pg_err_arg(err, "name", "OTHER");
        } else {
            pg_err_do(err, PG_DO_WRAP, NULL);
        }
        goto done;
    }
done:
    pg__index_fini(&names);
    return st;
}

static pg_status wrap_gpus(pg__rewrite *r, const pg_wrap_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    ends e = {0};
    const int from_nothing = pg__counts_from_nothing(r->s);
    PG_TRY(r->v.graph ? ends_of_config(&e, r->v.graph->root, err) : ends_of_names(&e, r->s, err));
    for (size_t i = 0; i < e.inputs.n; i++)
        PG_TRY(add_layer(r, e.inputs.v[i], 0, err));
    const unsigned long first = next_lambda(r->s, from_nothing ? 0 : 1);
    for (size_t i = 0; i < e.inputs.n * o->n_replicas; i++)
        PG_TRY(add_layer(r, "lambda", first + i, err));
    PG_TRY(template_layer(r, &e, o->name, from_nothing, err));
    PG_TRY(merges(r, &e, err));
    PG_TRY(check_name(r, err));
    r->rep.replicas = o->n_replicas;
    if (r->v.graph)
        PG_TRY(pg__add_note(
            r, err, "weights only: to write a full wrapper, pass a full wrapper's file as `like`"));
done:
    pg__strs_fini(&e.inputs);
    pg__strs_fini(&e.outputs);
    return st;
}

/* ---- which ---- */

static pg_status wrap_like(pg__rewrite *r, pg_store *like, pg_err *err)
{
    pg_status st = PG_OK;
    pg__verdict v = {0};
    const char *path = pg__store_path(like);
    PG_TRY(pg__judge(&v, like, err));
    if (v.f.verdict == PG_V_AMBIGUOUS && pg__store_is_legacy(like) && v.layer != PG_NONE)
        PG_TRY(pg__add_note(
            r, err, "by its names, %s may not be a wrapper; its layers were taken over unchanged",
            PG_SHOW(path)));
    else if (v.f.verdict != PG_V_WRAPPER)
        PG_FAIL(PG_E_MISMATCH, "%s is not a wrapper's file (%s)", PG_SHOW(path), v.f.reason);
    r->rep.replicas = v.f.replicas;
    if (pg__store_is_legacy(r->s) && pg__store_is_legacy(like) && v.layer != PG_NONE)
        st = wrap_like_h5(r, like, &v, err);
    else if (pg__store_is_paths(r->s) && pg__store_is_paths(like))
        st = pg__wrap_paths(r, like, &v, err);
    else if (pg_store_n_layers(r->s) == 0 && pg_store_n_layers(like) == 0 && v.f.template_name)
        st = wrap_like_prefix(r, like, &v, err);
    else
        st = pg_fail(err, PG_E_MISMATCH, "its format (%s) is not that of %s (%s)",
                     pg_store_format(r->s), PG_SHOW(path), pg_store_format(like));
done:
    pg__verdict_fini(&v);
    return st;
}

static pg_status make_plan(pg__rewrite *r, pg_store *like, const pg_wrap_opts *o, pg_err *err)
{
    const pg_verdict is = r->v.f.verdict;
    r->rep.action = "wrapped";
    if (is == PG_V_WRAPPER)
        return pg_fail(err, PG_E_NO, "already the file of a wrapper (%s); nothing written",
                       r->v.f.reason);
    if (is == PG_V_NO_WEIGHTS)
        return pg_fail(err, PG_E_NO, "%s; nothing written", r->v.f.reason);
    if (is == PG_V_DAMAGED)
        return pg_fail(err, PG_E_FORMAT, "%s", r->v.f.reason);
    if (like)
        return wrap_like(r, like, err);
    if (pg__store_is_legacy(r->s))
        return wrap_gpus(r, o, err);
    const pg_status st = pg_fail(err, PG_E_UNSUPPORTED,
                                 "without a wrapper's file only the legacy layout can be wrapped");
    if (pg__store_is_paths(r->s))
        pg_err_do(err, PG_DO_WRAP, r->in);
    return st;
}

pg_status pg_wrap_file(const char *in, const char *out, const pg_wrap_opts *opts,
                       pg_rewrite_report *report, pg_err *err)
{
    pg_status st = PG_OK;
    if (!opts || !opts->like == !opts->n_replicas)
        return pg_fail(err, PG_E_ARG, "one of like and n_replicas is needed");
    if (!opts->like && (opts->n_replicas < 2 || opts->n_replicas > 1024))
        return pg_fail(err, PG_E_ARG, "a wrapper has 2 to 1024 replicas");
    if (opts->name && !*opts->name)
        return pg_fail(err, PG_E_ARG, "the name of a layer cannot be empty");
    pg__rewrite r = {.in = in,
                     .out = out,
                     .like_path = opts->like,
                     .like_name = opts->like,
                     .write = &opts->write};
    pg_store *like = NULL;
    PG_TRY(pg__rewrite_check(in, out, &opts->write, err));
    PG_TRY(pg__rewrite_open(&r, err));
    if (opts->like)
        PG_TRY(pg_store_open(&like, opts->like, NULL, err));
    PG_TRY(pg__rewrite_planned(&r, make_plan(&r, like, opts, err), err));
    PG_TRY(pg__rewrite_save(&r, err));
    if (report) {
        *report = r.rep;
        r.rep = (pg_rewrite_report){0};
    }
done:
    pg_store_close(like);
    pg__rewrite_fini(&r);
    return st;
}
