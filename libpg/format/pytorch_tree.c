/* pytorch_tree.c - which of a pickle's tensors are the model's.
 *
 * torch.save() takes any object, so checkpoints are dictionaries that everyone lays out in their
 * own way. In this order: a dictionary of tensors is the state_dict; else one of the usual keys
 * leads to it; else the only entry that is one; else all entries that are (a generator and a
 * discriminator), with their keys before the names; else every tensor, under its path. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/pytorch_impl.h"

#define MAX_TEXT 40u /* of an entry's value in `others` */

typedef struct walker {
    const pg__pickle *p;
    pg__pt_tree *out;
    pg__str path;
    size_t steps; /* left; a pickle can name one container on very many paths */
    pg_err *err;
} walker;

void pg__pt_tree_fini(pg__pt_tree *t)
{
    pg__str_fini(&t->names);
    pg__str_fini(&t->others);
    pg__mem_free(t->list);
    *t = (pg__pt_tree){0};
}

/* ---- containers ---- */

static int is_dict(const pg__pickle *p, const pg__pk_value *v)
{
    return v->kind == PG_PK_DICT ||
           (v->kind == PG_PK_CALL && p->globals[p->v[v->u.items[0]].u.i].is_dict);
}

/* Members of a dict or list, one after the other; key is NULL in a list. */
typedef struct entries {
    const pg__pickle *p;
    const pg__pk_value *of, *key, *value;
    uint32_t next, step;
} entries;

static entries entries_of(const pg__pickle *p, const pg__pk_value *v)
{
    const int dict = is_dict(p, v), list = v->kind == PG_PK_LIST || v->kind == PG_PK_TUPLE;
    return (entries){.p = p,
                     .of = v,
                     .next = !dict && !list          ? v->n
                             : v->kind == PG_PK_CALL ? 2
                                                     : 0,
                     .step = dict ? 2 : 1};
}

static int next(entries *e)
{
    if (e->next >= e->of->n)
        return 0;
    e->key = e->step == 2 ? &e->p->v[e->of->u.items[e->next]] : NULL;
    e->value = &e->p->v[e->of->u.items[e->next + e->step - 1]];
    e->next += e->step;
    return 1;
}

static int has_tensors(const pg__pickle *p, const pg__pk_value *v)
{
    if (!is_dict(p, v))
        return 0;
    for (entries e = entries_of(p, v); next(&e);)
        if (pg__pt_is_tensor(p, e.value))
            return 1;
    return 0;
}

/* ---- tensors ---- */

/* Adds a member's name to the path; the caller sets path.n back. */
static pg_status descend(walker *w, const entries *e)
{
    const pg__pk_value *k = e->key;
    pg_status st = PG_OK;
    if (w->path.n)
        PG_TRY(pg__str_puts(&w->path, ".", w->err));
    if (!k)
        return pg__str_printf(&w->path, w->err, "%u", e->next - 1);
    if (k->kind == PG_PK_INT)
        return pg__str_printf(&w->path, w->err, "%" PRId64, k->u.i);
    if (k->kind != PG_PK_STR)
        return pg_fail(w->err, PG_E_UNSUPPORTED, "a key of its dictionaries is no text");
    if (memchr(k->u.text, 0, k->n))
        return pg_fail(w->err, PG_E_FORMAT, "a tensor name with a zero byte");
    PG_TRY(pg__str_add(&w->path, k->u.text, k->n, w->err));
    if (w->path.n > PG_LIMIT_NAME_BYTES)
        return pg_fail(w->err, PG_E_LIMIT, "a tensor name of %s bytes", PG_NUM(w->path.n));
done:
    return st;
}

/* The tensor v under the name in w->path. */
static pg_status add(walker *w, const pg__pk_value *v)
{
    pg__pt_tree *t = w->out;
    pg_status st = PG_OK;
    if (pg__mem_grow(&t->list, &t->cap, t->n + 1, sizeof *t->list))
        return pg__nomem(w->err);
    pg__pt_tensor *x = &t->list[t->n];
    *x = (pg__pt_tensor){.name = t->names.n};
    st = pg__pt_read_tensor(x, w->p, v, w->err);
    if (st != PG_OK) {
        pg_err_prefix(w->err, PG_SHOW(w->path.s));
        return st;
    }
    t->n++;
    return pg__str_add(&t->names, w->path.s, w->path.n + 1, w->err);
}

/* The tensors that stand in a dictionary itself. */
static pg_status add_members(walker *w, const pg__pk_value *dict)
{
    pg_err *err = w->err;
    const size_t n = w->path.n;
    pg_status st = PG_OK;
    for (entries e = entries_of(w->p, dict); next(&e); w->path.n = n) {
        if (!pg__pt_is_tensor(w->p, e.value))
            continue;
        if (e.key->kind != PG_PK_STR)
            PG_FAIL(PG_E_UNSUPPORTED, "a key of its state_dict is no text");
        PG_TRY(descend(w, &e));
        PG_TRY(add(w, e.value));
    }
done:
    return st;
}

/* Every tensor below v. */
static pg_status add_all(walker *w, const pg__pk_value *v, unsigned depth)
{
    pg_err *err = w->err;
    const size_t n = w->path.n;
    pg_status st = PG_OK;
    if (pg__pt_is_tensor(w->p, v))
        return add(w, v);
    if (depth > PG_LIMIT_PICKLE_DEPTH)
        PG_FAIL(PG_E_LIMIT, "containers inside containers, more than %u deep",
                PG_LIMIT_PICKLE_DEPTH);
    for (entries e = entries_of(w->p, v); next(&e);) {
        if (w->steps-- == 0)
            PG_FAIL(PG_E_LIMIT, "its containers lead to too many values");
        if (!pg__pt_is_tensor(w->p, e.value) && entries_of(w->p, e.value).next >= e.value->n)
            continue;
        PG_TRY(descend(w, &e));
        PG_TRY(add_all(w, e.value, depth + 1));
        w->path.n = n;
    }
done:
    return st;
}

/* ---- the rest ---- */

static size_t count(walker *w, const pg__pk_value *v, unsigned depth)
{
    size_t n = 0;
    if (pg__pt_is_tensor(w->p, v))
        return 1;
    if (depth > PG_LIMIT_PICKLE_DEPTH)
        return 0;
    for (entries e = entries_of(w->p, v); w->steps && next(&e);) {
        w->steps--;
        n += count(w, e.value, depth + 1);
    }
    return n;
}

static pg_status tell_value(walker *w, const pg__pk_value *v)
{
    char shown[MAX_TEXT];
    pg__str *s = &w->out->others;
    const size_t n = count(w, v, 0);
    if (n)
        return pg__str_printf(s, w->err, " (%s tensor%s)", PG_NUM(n), n == 1 ? "" : "s");
    switch (v->kind) {
    case PG_PK_BOOL: return pg__str_puts(s, v->u.i ? " True" : " False", w->err);
    case PG_PK_INT: return pg__str_printf(s, w->err, " %" PRId64, v->u.i);
    case PG_PK_FLOAT: return pg__str_printf(s, w->err, " %.6g", v->u.f);
    case PG_PK_STR:
        return pg__str_printf(s, w->err, " \"%s\"",
                              pg__printable(shown, sizeof shown, v->u.text, v->n));
    default: return PG_OK;
    }
}

/* The members of dict but the tensors and `but`. */
static pg_status tell_others(walker *w, const pg__pk_value *dict, const pg__pk_value *but, int many)
{
    char shown[80];
    pg__str *s = &w->out->others;
    pg_status st = PG_OK;
    for (entries e = entries_of(w->p, dict); next(&e);) {
        if (e.value == but || !e.key || pg__pt_is_tensor(w->p, e.value) ||
            (many && has_tensors(w->p, e.value)))
            continue;
        PG_TRY(pg__str_puts(s, s->n ? ", " : "", w->err));
        if (e.key->kind == PG_PK_STR)
            PG_TRY(pg__str_puts(s, pg__printable(shown, sizeof shown, e.key->u.text, e.key->n),
                                w->err));
        else if (e.key->kind == PG_PK_INT)
            PG_TRY(pg__str_printf(s, w->err, "%" PRId64, e.key->u.i));
        else
            PG_TRY(pg__str_puts(s, "?", w->err));
        PG_TRY(tell_value(w, e.value));
    }
done:
    return st;
}

/* ---- the model ---- */

/* The state_dict in a checkpoint that is none itself: under a usual key, or alone. *n is how many
 * entries could be it. */
static const pg__pk_value *state_dict_in(const pg__pickle *p, const pg__pk_value *dict, size_t *n)
{
    static const char *const keys[] = {"state_dict", "model_state_dict", "model_state",
                                       "model",      "module",           "net",
                                       "network",    "weights",          "params"};
    const pg__pk_value *only = NULL;
    *n = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const pg__pk_value *v = pg__pickle_get(p, dict, keys[i]);
        if (v && has_tensors(p, v)) {
            *n = 1;
            return v;
        }
    }
    for (entries e = entries_of(p, dict); next(&e);)
        if (has_tensors(p, e.value)) {
            only = e.value;
            ++*n;
        }
    return *n == 1 ? only : NULL;
}

static pg_status add_each(walker *w, const pg__pk_value *dict)
{
    pg_status st = PG_OK;
    for (entries e = entries_of(w->p, dict); next(&e); w->path.n = 0)
        if (has_tensors(w->p, e.value)) {
            PG_TRY(descend(w, &e));
            PG_TRY(add_members(w, e.value));
        }
done:
    return st;
}

static pg_status find(walker *w, const pg__pk_value *root)
{
    pg_err *err = w->err;
    size_t n = 0;
    pg_status st = PG_OK;
    if (pg__pt_is_tensor(w->p, root)) {
        PG_TRY(pg__str_puts(&w->path, "tensor", err));
        return add(w, root);
    }
    if (has_tensors(w->p, root)) {
        PG_TRY(add_members(w, root));
        return tell_others(w, root, NULL, 0);
    }
    const pg__pk_value *model = is_dict(w->p, root) ? state_dict_in(w->p, root, &n) : NULL;
    if (model) {
        PG_TRY(add_members(w, model));
        PG_TRY(tell_others(w, root, model, 0));
        return tell_others(w, model, NULL, 0);
    }
    PG_TRY(n ? add_each(w, root) : add_all(w, root, 0));
    if (n)
        return tell_others(w, root, NULL, 1);
    if (w->out->n == 0 && !is_dict(w->p, root))
        PG_FAIL(PG_E_UNSUPPORTED, "a PyTorch file without tensors");
done:
    return st;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Two tensors of one name would be two meanings of one file. */
static pg_status check_unique(const pg__pt_tree *t, pg_err *err)
{
    pg_status st = PG_OK;
    const char **list = pg__mem_array(t->n, sizeof *list);
    if (!list)
        return pg__nomem(err);
    for (size_t i = 0; i < t->n; i++)
        list[i] = t->names.s + t->list[i].name;
    qsort(list, t->n, sizeof *list, by_text);
    for (size_t i = 1; i < t->n; i++)
        if (strcmp(list[i - 1], list[i]) == 0)
            PG_FAIL(PG_E_FORMAT, "%s: this key is there twice", PG_SHOW(list[i]));
done:
    pg__mem_free(list);
    return st;
}

pg_status pg__pt_tree_read(pg__pt_tree *out, const pg__pickle *p, pg_err *err)
{
    pg__pt_tree t = {0};
    walker w = {.p = p, .out = &t, .steps = 4 * p->n, .err = err};
    pg_status st = PG_OK;
    PG_TRY(find(&w, &p->v[p->root]));
    PG_TRY(check_unique(&t, err));
    *out = t;
    t = (pg__pt_tree){0};
done:
    pg__str_fini(&w.path);
    pg__pt_tree_fini(&t);
    return st;
}
