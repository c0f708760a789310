/* verdict_paths.c - judges a .weights.h5 in the path layout without a config.
 *
 * Groups are named after classes there, not layers, so a wrapper has one nested model, two or more
 * lambda groups, concatenates, inputs, and nothing else. Keras 3.6 and later also store each
 * layer's name: a merge named like a layer of the nested model makes it certain; any other merge
 * may join views of one input. For earlier files only the classes are known, and the finding says
 * so. One shard of several says nothing, so its index is examined. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/fmt_keras_v3.h"
#include "io/folder.h"
#include "wrap/judge/verdict.h"

/* A direct child of a container, "lambda_1" of "layers/lambda_1", with everything below it. */
typedef struct child {
    const char *path; /* of its first layer in the store; its own part is n_path bytes */
    size_t n_path, layer;
    const char *name; /* the part after the container, n_path bytes in all */
    int nested;       /* has layers of its own */
    size_t n_weights; /* below it */
} child;

typedef struct children {
    child *v;
    size_t n, cap;
} children;

static int is_below(const char *path, const char *container, size_t n)
{
    return strncmp(path, container, n) == 0 && path[n] == '/' && path[n + 1];
}

/* The container's name ("layers") occurs again below the path of a nested model. */
static int goes_deeper(const child *c, const char *path, const char *word)
{
    const size_t n = strlen(word);
    return path[c->n_path] == '/' && strncmp(path + c->n_path + 1, word, n) == 0 &&
           path[c->n_path + 1 + n] == '/';
}

static pg_status list_children(children *out, const pg_store *s, const char *container,
                               const char *word, pg_err *err)
{
    const size_t n = strlen(container);
    for (size_t i = 0; i < pg_store_n_layers(s); i++) {
        const pg_layer *l = pg_store_layer(s, i);
        if (!is_below(l->name, container, n))
            continue;
        const size_t n_path = n + 1 + strcspn(l->name + n + 1, "/");
        child *c = out->n ? &out->v[out->n - 1] : NULL;
        if (!c || c->n_path != n_path || strncmp(c->path, l->name, n_path) != 0) {
            if (pg__mem_grow(&out->v, &out->cap, out->n + 1, sizeof *out->v))
                return pg__nomem(err);
            c = &out->v[out->n++];
            *c = (child){.path = l->name, .n_path = n_path, .layer = i, .name = l->name + n + 1};
        }
        c->nested |= goes_deeper(c, l->name, word);
        c->n_weights += l->n_weights;
    }
    return PG_OK;
}

/* "lambda" and "lambda_2" are of class lambda; the part ends where the child's path does. */
static int is_class(const child *c, const char *snake)
{
    const char *p = c->name;
    const size_t n = strlen(snake), len = (size_t)(c->path + c->n_path - p);
    if (len < n || strncmp(p, snake, n) != 0)
        return 0;
    return len == n ||
           (p[n] == '_' && len > n + 1 && strspn(p + n + 1, "0123456789") == len - n - 1);
}

static int is_slice(const child *c)
{
    const size_t len = (size_t)(c->path + c->n_path - c->name);
    return is_class(c, "lambda") || is_class(c, "tf_op_lambda") ||
           is_class(c, "slicing_op_lambda") || (len >= 5 && strncmp(c->name, "slice", 5) == 0);
}

/* 1: every merge has a stored name, found on a layer below the template; 0: one is not found there;
 * -1: no names stored. */
static int merges_are_named(const pg_store *s, const children *c, const child *t)
{
    int any = 0, all = 1;
    for (size_t i = 0; i < c->n; i++) {
        const char *name =
            is_class(&c->v[i], "concatenate") ? pg__v3_layer_name(s, c->v[i].layer) : NULL;
        int found = 0;
        if (!name)
            continue;
        any = 1;
        for (size_t k = t->layer; k < pg_store_n_layers(s) && !found; k++) {
            const char *path = pg_store_layer(s, k)->name;
            const char *inner = is_below(path, t->path, t->n_path) ? pg__v3_layer_name(s, k) : NULL;
            found = inner && strcmp(inner, name) == 0;
        }
        all &= found;
    }
    return any ? all : -1;
}

static pg_status add_name(char ***list, size_t *n, const pg_store *s, const child *c, pg_err *err)
{
    pg__str own = {0};
    const char *name = pg__v3_layer_name(s, c->layer);
    pg_status st = PG_OK;
    if (!name) {
        PG_TRY(pg__str_add(&own, c->name, (size_t)(c->path + c->n_path - c->name), err));
        name = own.s;
    }
    st = pg__finding_add(list, n, name, err);
done:
    pg__str_fini(&own);
    return st;
}

static pg_status set_template(pg__verdict *v, const pg_store *s, const child *t, pg_err *err)
{
    const char *name = pg__v3_layer_name(s, t->layer);
    /* The layer of the store must be the model itself, not a layer below it. */
    if (name && pg_store_layer(s, t->layer)->name[t->n_path])
        name = NULL;
    pg__mem_free(v->f.template_name);
    pg__mem_free(v->path);
    v->f.template_name = name ? pg__mem_strdup(name)
                              : pg__mem_strndup(t->name, (size_t)(t->path + t->n_path - t->name));
    v->path = pg__mem_strndup(t->path, t->n_path);
    return v->f.template_name && v->path ? PG_OK : pg__nomem(err);
}

typedef struct level {
    const child *t;
    size_t n_nested, n_slices, n_inputs, n_merges, n_others, n_weighted;
} level;

static level count(const children *c)
{
    level l = {0};
    for (size_t i = 0; i < c->n; i++) {
        const child *x = &c->v[i];
        l.n_weighted += x->n_weights > 0;
        if (x->nested) {
            l.n_nested++;
            l.t = x;
        } else if (is_slice(x)) {
            l.n_slices++;
        } else if (is_class(x, "input_layer")) {
            l.n_inputs++;
        } else if (is_class(x, "concatenate")) {
            l.n_merges++;
        } else {
            l.n_others++;
        }
    }
    return l;
}

static int is_wrapper(const level *l)
{
    return l->n_nested == 1 && l->n_slices >= 2 && l->n_merges >= 1 && l->n_others == 0 &&
           l->n_weighted == 1 && l->t->n_weights > 0 &&
           (l->n_inputs == 0 || l->n_slices % l->n_inputs == 0) &&
           (l->n_inputs == 0 || l->n_slices / l->n_inputs >= 2);
}

static pg_status fill(pg__verdict *v, const pg_store *s, const children *c, const level *l,
                      pg_err *err)
{
    pg_status st = PG_OK;
    v->f.replicas = l->n_inputs ? l->n_slices / l->n_inputs : l->n_slices;
    for (size_t i = 0; i < c->n; i++) {
        if (is_slice(&c->v[i]))
            PG_TRY(add_name(&v->f.slices, &v->f.n_slices, s, &c->v[i], err));
        else if (is_class(&c->v[i], "concatenate"))
            PG_TRY(add_name(&v->f.merges, &v->f.n_merges, s, &c->v[i], err));
    }
    PG_TRY(pg__evidence(v, err,
                        "one nested model (group %s) holds all weights; around it are %zu slices, "
                        "%zu inputs, %zu merges",
                        PG_SHOW(v->path), l->n_slices, l->n_inputs, l->n_merges));
done:
    return st;
}

static pg_status not_a_wrapper(pg__verdict *v, const pg_store *s, const level *l, pg_err *err)
{
    pg_status st = PG_OK;
    if (l->n_nested == 0)
        return pg__verdict_set(v, PG_V_SINGLE, err,
                               "not a parallel wrapper, loads as it is (%zu layers with weights, "
                               "none is a nested model)",
                               l->n_weighted);
    PG_TRY(set_template(v, s, l->t, err));
    const int alone = l->n_weighted == 1 && l->t->n_weights > 0;
    st = pg__verdict_set(v, alone || l->n_nested == l->n_weighted ? PG_V_NESTED : PG_V_SINGLE, err,
                         "nested model \"%s\" (%zu weights), not a parallel wrapper: %s",
                         PG_SHOW(v->f.template_name), l->t->n_weights,
                         alone ? "no slices and merges stand around it"
                               : "other layers hold weights too");
done:
    return st;
}

/* A shard is judged as part of the whole, through the index beside it. */
static pg_status judge_shard(pg__verdict *v, const pg_store *s, const char *index, pg_err *err)
{
    pg_status st = PG_OK;
    pg_store *whole = NULL;
    pg__str path = {0};
    pg__verdict of_whole = {0};
    pg_err why = {0};
    const char *mine = pg__store_path(s), *slash = strrchr(mine, '/');
    PG_TRY(pg__str_add(&path, mine, slash ? (size_t)(slash + 1 - mine) : 0, err));
    PG_TRY(pg__str_puts(&path, index, err));
    v->f.index = pg__mem_strdup(path.s);
    if (!v->f.index) {
        st = pg__nomem(err);
        goto done;
    }
    st = pg_store_open(&whole, path.s, NULL, &why);
    if (st == PG_E_NOMEM || (st == PG_E_IO && !pg__is_absence(why.sys) && why.sys != EISDIR))
        PG_TRY(pg__fail_as(err, &why));
    if (st != PG_OK) {
        st = pg__verdict_set(v, PG_V_AMBIGUOUS, err,
                             "one shard of several; its index %s is not beside it or not readable",
                             PG_SHOW(index));
        goto done;
    }
    PG_TRY(pg__judge(&of_whole, whole, err));
    v->f.replicas = of_whole.f.replicas;
    v->f.recogniser = of_whole.f.recogniser;
    v->f.template_name = of_whole.f.template_name;
    of_whole.f.template_name = NULL;
    st = pg__verdict_set(v, of_whole.f.verdict, err,
                         "one shard of several (index: %s); the whole: %s", PG_SHOW(index),
                         of_whole.f.reason);
done:
    pg__verdict_fini(&of_whole);
    pg_store_close(whole);
    pg__str_fini(&path);
    return st;
}

/* Judges one container; *more says that its template must be examined, too. */
static pg_status judge_level(pg__verdict *v, const pg_store *s, const char *container,
                             const char *word, int *more, pg_err *err)
{
    pg_status st = PG_OK;
    children c = {0};
    *more = 0;
    PG_TRY(list_children(&c, s, container, word, err));
    const level l = count(&c);
    if (!is_wrapper(&l)) {
        if (v->depth == 0)
            st = not_a_wrapper(v, s, &l, err);
        goto done;
    }
    const int named = merges_are_named(s, &c, l.t);
    if (v->depth == 0) {
        PG_TRY(set_template(v, s, l.t, err));
        PG_TRY(fill(v, s, &c, &l, err));
        if (named == 0) {
            st = pg__verdict_set(v, PG_V_AMBIGUOUS, err,
                                 "possibly a parallel wrapper of %zu replicas, possibly a model "
                                 "with several views of its input: \"%s\" does not show which",
                                 v->f.replicas, PG_SHOW(v->f.merges[0]));
            goto done;
        }
        v->f.certain = named == 1;
        PG_TRY(pg__evidence(v, err, "%s",
                            named == 1
                                ? "every merge is named like a layer of the nested model"
                                : "only class names speak: this release stores no layer names"));
    } else if (named != 0) {
        PG_TRY(set_template(v, s, l.t, err));
        PG_TRY(pg__evidence(v, err, "the template is a wrapper itself"));
    } else {
        goto done;
    }
    v->depth++;
    *more = 1;
done:
    pg__mem_free(c.v);
    return st;
}

pg_status pg__judge_paths(pg__verdict *v, const pg_store *s, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str container = {0};
    const char *word = pg__v3_container(s), *index = pg__v3_shard_index(s);
    int more = 1;
    if (index)
        return judge_shard(v, s, index, err);
    if (!word)
        return pg__verdict_set(
            v, PG_V_SINGLE, err,
            "not a parallel wrapper, loads as it is (a subclassed model, no list of layers)");
    PG_TRY(pg__str_puts(&container, word, err));
    while (more) {
        PG_TRY(judge_level(v, s, container.s, word, &more, err));
        container.n = 0;
        if (more)
            PG_TRY(pg__str_printf(&container, err, "%s/%s", v->path, word));
    }
    if (v->depth) {
        v->f.verdict = PG_V_WRAPPER;
        v->f.recogniser = pg__named_kind();
        PG_TRY(pg__describe_wrapper(
            v, v->f.certain ? "parallel wrapper" : "likely a parallel wrapper", err));
    }
done:
    pg__str_fini(&container);
    return st;
}
