/* pytorch_walk.c - paths through the containers of a pickle. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/pytorch_impl.h"

#define STEPS_PER_VALUE 64u /* containers are looked at once for each that they lie in */

pg__pt_entries pg__pt_entries_of(const pg__pickle *p, const pg__pk_value *v)
{
    const int dict = pg__pickle_is_dict(p, v);
    const int list = v->kind == PG_PK_LIST || v->kind == PG_PK_TUPLE;
    return (pg__pt_entries){.p = p,
                            .of = v,
                            .next = !dict && !list          ? v->n
                                    : v->kind == PG_PK_CALL ? 2
                                                            : 0,
                            .step = dict ? 2 : 1};
}

int pg__pt_next(pg__pt_entries *e)
{
    if (e->next >= e->of->n)
        return 0;
    e->key = e->step == 2 ? &e->p->v[e->of->u.items[e->next]] : NULL;
    e->value = &e->p->v[e->of->u.items[e->next + e->step - 1]];
    e->index = e->next;
    e->next += e->step;
    return 1;
}

pg_status pg__pt_add_key(pg__str *out, const pg__pt_entries *e, pg_err *err)
{
    const pg__pk_value *k = e->key;
    if (!k)
        return pg__str_printf(out, err, "%u", e->index);
    if (k->kind == PG_PK_INT)
        return pg__str_printf(out, err, "%" PRId64, k->u.i);
    if (k->kind != PG_PK_STR)
        return pg_fail(err, PG_E_UNSUPPORTED, "a key of its dictionaries is not a text");
    if (memchr(k->u.text, 0, k->n))
        return pg_fail(err, PG_E_FORMAT, "a tensor name with a zero byte");
    return pg__str_add(out, k->u.text, k->n, err);
}

pg_status pg__pt_walk_begin(pg__pt_walk *w, const pg__pickle *p, pg_err *err)
{
    *w = (pg__pt_walk){.p = p, .steps = STEPS_PER_VALUE * p->n + STEPS_PER_VALUE, .err = err};
    w->seen = pg__mem_array(p->n, sizeof *w->seen);
    w->forms = pg__mem_array(p->n, 1);
    return w->seen && w->forms ? PG_OK : pg__nomem(err);
}

void pg__pt_walk_end(pg__pt_walk *w)
{
    pg__mem_free(w->seen);
    pg__mem_free(w->forms);
    w->seen = NULL;
    w->forms = NULL;
}

pg_status pg__pt_step(pg__pt_walk *w)
{
    if (w->steps == 0)
        return pg_fail(w->err, PG_E_LIMIT, "its containers lead to too many values");
    w->steps--;
    return PG_OK;
}

/* inside: of an object of a foreign class, whose NumPy arrays are ignored: logs, settings. */
static pg_status count(pg__pt_walk *w, uint32_t i, unsigned depth, int inside, uint64_t *n)
{
    const pg__pk_value *v = &w->p->v[i];
    pg_status st = PG_OK;
    if (w->seen[i] == w->turn)
        return PG_OK;
    w->seen[i] = w->turn;
    inside |= pg__pickle_foreign(w->p, v) != NULL;
    if (pg__pt_is_tensor(w->p, v) || v->kind == PG_PK_PERSID) {
        *n += !(inside && pg__pt_is_array(w->p, v));
        return PG_OK;
    }
    if (v->kind < PG_PK_TUPLE || v->kind == PG_PK_GLOBAL || v->kind == PG_PK_FOREIGN)
        return PG_OK;
    if (depth > PG_LIMIT_PICKLE_DEPTH) {
        ++*n; /* data that is not examined must not pass for nothing */
        return PG_OK;
    }
    for (uint32_t k = v->kind == PG_PK_CALL ? 1 : 0; k < v->n; k++) {
        PG_TRY(pg__pt_step(w));
        PG_TRY(count(w, v->u.items[k], depth + 1, inside, n));
    }
done:
    return st;
}

pg_status pg__pt_count(pg__pt_walk *w, const pg__pk_value *v, uint64_t *n)
{
    *n = 0;
    w->turn++;
    return count(w, (uint32_t)(v - w->p->v), 0, 0, n);
}

pg__pt_class pg__pt_class_of(const pg__pk_foreign *f)
{
    char module[80], name[80];
    pg__pt_class c;
    (void)snprintf(c.s, sizeof c.s, "%s.%s",
                   pg__printable(module, sizeof module, f->module, f->n_module),
                   pg__printable(name, sizeof name, f->name, f->n_name));
    return c;
}

int pg__pt_is_of_torch(const pg__pk_foreign *f)
{
    return f->n_module >= 5 && memcmp(f->module, "torch", 5) == 0 &&
           (f->n_module == 5 || f->module[5] == '.');
}

pg_status pg__pt_fail_foreign(const pg__pk_foreign *f, pg_err *err)
{
    (void)pg_fail(err, PG_E_UNSUPPORTED, "contains the class %s, which only Python can build",
                  pg__pt_class_of(f).s);
    pg_err_hint(err, "if you trust the file, save its state_dict alone in Python");
    return PG_E_UNSUPPORTED;
}

/* Bytes of `path` that the entry's key takes, including the dot after it; 0 for another key. */
static size_t takes(const pg__pt_entries *e, const char *path)
{
    char number[24];
    const pg__pk_value *k = e->key;
    const char *text = number;
    size_t n;
    if (k && k->kind == PG_PK_STR) {
        text = k->u.text;
        n = k->n;
    } else if (!k || k->kind == PG_PK_INT) {
        n = (size_t)snprintf(number, sizeof number, "%" PRId64, k ? k->u.i : (int64_t)e->index);
    } else {
        return 0;
    }
    if (n == 0 || strlen(path) < n || memcmp(path, text, n) != 0)
        return 0;
    return path[n] == '.' ? n + 1 : path[n] == 0 ? n : 0;
}

typedef struct search {
    pg__pt_walk *w;
    const pg__pk_value *want, *found;
    pg__pt_way at, *way; /* of the current value; of the first one found */
    int several;
} search;

/* Keys may contain dots: every way to split the path is tried. */
static pg_status find(search *s, const pg__pk_value *v, const char *path)
{
    pg_status st = PG_OK;
    if (s->at.n >= PG_PT_DEPTH)
        return PG_OK;
    s->at.at[s->at.n++] = v;
    if (*path == 0 && (!s->want || s->want == v)) {
        s->several |= s->found && s->found != v;
        if (!s->found)
            *s->way = s->at;
        s->found = s->found ? s->found : v;
    }
    for (pg__pt_entries e = pg__pt_entries_of(s->w->p, v); *path && pg__pt_next(&e);) {
        const size_t n = takes(&e, path);
        PG_TRY(pg__pt_step(s->w));
        if (n)
            PG_TRY(find(s, e.value, path + n));
    }
    s->at.n--;
done:
    return st;
}

pg_status pg__pt_find(const pg__pk_value **found, int *several, pg__pt_walk *w, const char *path,
                      const pg__pk_value *want, pg__pt_way *way)
{
    search s = {.w = w, .want = want, .way = way};
    const pg_status st = find(&s, &w->p->v[w->p->root], strcmp(path, ".") == 0 ? "" : path);
    *found = s.found;
    *several = s.several;
    return st;
}
