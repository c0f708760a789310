/* pytorch_tree.c - selects the requested tensors of a pickle, and describes the rest. Without a
 * request, it takes the only part that can be the model; if there are several, or tensors beside it
 * that training alone does not explain, the caller has to choose. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/pytorch_impl.h"

#define MAX_TEXT  40u /* of an entry's value in `others` */
#define MAX_ASKED 8u  /* parts that a question lists */

typedef struct walker {
    pg__pt_walk w;
    pg__pt_tree *out;
    pg__str path;
    int with_training; /* take the tensors of optimizers too */
} walker;

void pg__pt_tree_fini(pg__pt_tree *t)
{
    pg__str_fini(&t->names);
    pg__str_fini(&t->others);
    pg__str_fini(&t->parts.texts);
    pg__mem_free(t->parts.v);
    pg__mem_free(t->list);
    pg__mem_free(t->numbers);
    *t = (pg__pt_tree){0};
}

/* ---- tensors ---- */

static void back(walker *w, size_t n)
{
    w->path.n = n;
    if (w->path.s)
        w->path.s[n] = 0;
}

/* Appends a member's name to the path; the caller removes it again. */
static pg_status descend(walker *w, const pg__pt_entries *e)
{
    pg_status st = PG_OK;
    pg_err *err = w->w.err;
    if (w->path.n)
        PG_TRY(pg__str_puts(&w->path, ".", err));
    PG_TRY(pg__pt_add_key(&w->path, e, err));
    if (w->path.n > PG_LIMIT_NAME_BYTES)
        return pg_fail(err, PG_E_LIMIT, "a tensor name of %s bytes", PG_NUM(w->path.n));
done:
    return st;
}

/* Adds tensor v under the name in w->path. */
static pg_status add(walker *w, const pg__pk_value *v)
{
    pg__pt_tree *t = w->out;
    pg_status st = PG_OK;
    if (pg__mem_grow(&t->list, &t->cap, t->n + 1, sizeof *t->list))
        return pg__nomem(w->w.err);
    pg__pt_tensor *x = &t->list[t->n];
    *x = (pg__pt_tensor){.name = t->names.n};
    st = pg__pt_read_tensor(x, w->w.p, v, w->w.err);
    if (st != PG_OK) {
        pg_err_prefix(w->w.err, PG_SHOW(w->path.n ? w->path.s : ""));
        return st;
    }
    t->n++;
    return pg__str_add(&t->names, w->path.n ? w->path.s : "", w->path.n + 1, w->w.err);
}

/* Fails because v, at the current path, is an object that only Python can build, or a bare
 * storage. */
static pg_status refuse_object(walker *w, const pg__pk_value *v)
{
    const pg__pk_foreign *f = pg__pickle_foreign(w->w.p, v);
    const pg_status st =
        f ? pg__pt_fail_foreign(f, w->w.err)
          : pg_fail(w->w.err, PG_E_UNSUPPORTED, "a storage, or a set of tensors, not a tensor");
    pg_err_prefix(w->w.err, PG_SHOW(w->path.n ? w->path.s : "the whole"));
    return st;
}

/* An object of torch in which libpg sees no tensor, such as a parameter without a shape. Modules,
 * which a state_dict may hold as settings, show their tensors. */
static int may_be_tensor(const pg__pickle *p, const pg__pk_value *v)
{
    static const char modules[] = "torch.nn.modules";
    const size_t n = sizeof modules - 1;
    const pg__pk_foreign *f = v->kind == PG_PK_CALL ? pg__pickle_foreign(p, v) : NULL;
    return f && pg__pt_is_of_torch(f) && !(f->n_module >= n && memcmp(f->module, modules, n) == 0);
}

/* Every tensor below v. */
static pg_status add_all(walker *w, const pg__pk_value *v, unsigned depth)
{
    pg_err *err = w->w.err;
    const size_t n = w->path.n;
    pg_status st = PG_OK;
    if (pg__pt_is_tensor(w->w.p, v))
        return add(w, v);
    if (depth > PG_LIMIT_PICKLE_DEPTH)
        PG_FAIL(PG_E_LIMIT, "containers inside containers, more than %u deep",
                PG_LIMIT_PICKLE_DEPTH);
    for (pg__pt_entries e = pg__pt_entries_of(w->w.p, v); pg__pt_next(&e);) {
        PG_TRY(pg__pt_step(&w->w));
        uint64_t held = 1;
        pg__pt_kind kind;
        const int tensor = pg__pt_is_tensor(w->w.p, e.value);
        if (!tensor && !w->with_training && pg__pt_is_training(&kind, &w->w, e.value))
            continue;
        if (!tensor)
            PG_TRY(pg__pt_count(&w->w, e.value, &held));
        if (held == 0 && !may_be_tensor(w->w.p, e.value))
            continue;
        if (tensor && e.key && e.key->kind != PG_PK_STR)
            PG_FAIL(PG_E_UNSUPPORTED, "a key of its state_dict is not a text");
        PG_TRY(descend(w, &e));
        if (!tensor && pg__pt_entries_of(w->w.p, e.value).next >= e.value->n)
            PG_TRY(refuse_object(w, e.value));
        PG_TRY(add_all(w, e.value, depth + 1));
        back(w, n);
    }
done:
    return st;
}

static pg_status take(walker *w, const pg__pk_value *v, const char *path)
{
    const char *dot = strrchr(path, '.');
    pg_status st = PG_OK;
    if (pg__pt_is_tensor(w->w.p, v)) {
        const char *name = strcmp(path, ".") == 0 ? "tensor" : dot && dot[1] ? dot + 1 : path;
        PG_TRY(pg__str_puts(&w->path, name, w->w.err));
        return add(w, v);
    }
    if (pg__pt_entries_of(w->w.p, v).next >= v->n && !pg__pickle_is_dict(w->w.p, v)) {
        PG_TRY(pg__str_puts(&w->path, path, w->w.err));
        return refuse_object(w, v);
    }
    st = add_all(w, v, 0);
done:
    return st;
}

/* ---- the rest ---- */

/* A tensor of one number: its value is not available here, so the store inserts it. */
static pg_status note_number(walker *w, const pg__pk_value *v, int *done_so)
{
    pg__pt_tree *t = w->out;
    pg__pt_aside x = {.at = t->others.n};
    *done_so = pg__pt_is_tensor(w->w.p, v) && pg__pt_read_tensor(&x.t, w->w.p, v, NULL) == PG_OK &&
               !x.t.cut && pg__pt_is_number(&x.t);
    if (!*done_so)
        return PG_OK;
    if (pg__mem_grow(&t->numbers, &t->cap_numbers, t->n_numbers + 1, sizeof *t->numbers))
        return pg__nomem(w->w.err);
    t->numbers[t->n_numbers++] = x;
    return PG_OK;
}

static pg_status note_value(walker *w, const pg__pk_value *v)
{
    char shown[MAX_TEXT];
    double number = 0;
    uint64_t n = 0;
    pg__str *s = &w->out->others;
    pg_err *err = w->w.err;
    int noted = 0;
    const pg__pk_foreign *f = pg__pickle_foreign(w->w.p, v);
    pg_status st = note_number(w, v, &noted);
    if (st == PG_OK && !noted)
        st = pg__pt_count(&w->w, v, &n);
    if (st != PG_OK || noted)
        return st;
    if (n)
        return pg__str_printf(s, err, " (%s tensor%s%s%s)", PG_NUM(n), n == 1 ? "" : "s",
                              f ? " in " : "", f ? pg__pt_class_of(f).s : "");
    if (f)
        return pg__str_printf(s, err, " (%s, not read)", pg__pt_class_of(f).s);
    if (pg__pt_scalar(&number, w->w.p, v))
        return pg__str_printf(s, err, " %.6g", number);
    switch (v->kind) {
    case PG_PK_BOOL: return pg__str_puts(s, v->u.i ? " True" : " False", err);
    case PG_PK_INT: return pg__str_printf(s, err, " %" PRId64, v->u.i);
    case PG_PK_FLOAT: return pg__str_printf(s, err, " %.6g", v->u.f);
    case PG_PK_STR:
        return pg__str_printf(s, err, " \"%s\"",
                              pg__printable(shown, sizeof shown, v->u.text, v->n));
    default: return PG_OK;
    }
}

/* The members of the containers on the way to the part, and those of the part without tensors. */
static pg_status list_others(walker *w, const pg__pt_way *way, size_t at)
{
    char shown[80];
    const pg__pickle *p = w->w.p;
    pg__str *s = &w->out->others;
    pg_err *err = w->w.err;
    const int is_part = at + 1 == way->n;
    const size_t n = w->path.n;
    pg_status st = PG_OK;
    for (pg__pt_entries e = pg__pt_entries_of(p, way->at[at]); pg__pt_next(&e); back(w, n)) {
        uint64_t held = 0;
        pg__pt_kind kind;
        if (is_part && (!e.key || pg__pt_is_tensor(p, e.value)))
            continue;
        if (!is_part && e.value == way->at[at + 1]) {
            PG_TRY(descend(w, &e));
            PG_TRY(list_others(w, way, at + 1));
            continue;
        }
        PG_TRY(pg__pt_count(&w->w, e.value, &held));
        if (is_part && held && (w->with_training || !pg__pt_is_training(&kind, &w->w, e.value)))
            continue;
        PG_TRY(pg__str_puts(s, s->n ? ", " : "", err));
        if (!is_part && n)
            PG_TRY(pg__str_printf(s, err, "%s.", PG_SHOW(w->path.s)));
        if (!e.key)
            PG_TRY(pg__str_printf(s, err, "%u", e.index));
        else if (e.key->kind == PG_PK_STR)
            PG_TRY(
                pg__str_puts(s, pg__printable(shown, sizeof shown, e.key->u.text, e.key->n), err));
        else if (e.key->kind == PG_PK_INT)
            PG_TRY(pg__str_printf(s, err, "%" PRId64, e.key->u.i));
        else
            PG_TRY(pg__str_puts(s, "?", err));
        PG_TRY(note_value(w, e.value));
    }
done:
    return st;
}

/* ---- which part ---- */

static const char *path_of(const pg__pt_parts *l, const pg__pt_part *x)
{
    return l->texts.s + x->path;
}

/* Could the user mean this part? */
static int is_asked(const pg__pt_part *x)
{
    return x->kind == PG_PT_MODEL || x->kind == PG_PT_LOOSE || x->kind == PG_PT_OBJECT;
}

/* The likeliest model first. */
static int by_standing(const void *a, const void *b)
{
    const pg__pt_part *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->whole != y->whole)
        return x->whole < y->whole ? -1 : 1;
    if (x->by_name != y->by_name)
        return y->by_name - x->by_name;
    if (x->n_params != y->n_params && x->kind == PG_PT_MODEL)
        return x->n_params > y->n_params ? -1 : 1;
    return x->path < y->path ? -1 : x->path > y->path;
}

static pg_status ask(const pg__pickle *p, const pg__pt_parts *l, size_t n_models, pg_err *err)
{
    size_t n = 0;
    if (n_models > 1)
        (void)pg_fail(err, PG_E_AMBIGUOUS, "%zu parts could be the model", n_models);
    else
        (void)pg_fail(err, PG_E_AMBIGUOUS, "tensors beside \"%s\" could belong to the model",
                      PG_SHOW(path_of(l, &l->v[l->v[0].whole != 0])));
    for (size_t i = 0; i < l->n; i++) {
        const pg__pt_part *x = &l->v[i];
        const pg__pk_foreign *f = pg__pickle_foreign(p, &p->v[x->value]);
        if (!is_asked(x) || n++ >= MAX_ASKED)
            continue;
        if (x->whole)
            pg_err_detail(err, "%s: all %s tensors, %s parameters", path_of(l, x),
                          PG_NUM(x->n_tensors), PG_NUM(x->n_params));
        else if (x->kind == PG_PT_OBJECT)
            pg_err_detail(err, "%s: %s tensor%s in %s, which only Python can build",
                          PG_SHOW(path_of(l, x)), PG_NUM(x->n_tensors),
                          x->n_tensors == 1 ? "" : "s", f ? pg__pt_class_of(f).s : "an object");
        else
            pg_err_detail(err, "%s: %s tensor%s, %s parameters", PG_SHOW(path_of(l, x)),
                          PG_NUM(x->n_tensors), x->n_tensors == 1 ? "" : "s", PG_NUM(x->n_params));
    }
    if (n > MAX_ASKED)
        pg_err_detail(err, "and %zu more", n - MAX_ASKED);
    pg_err_do(err, PG_DO_CHOOSE_PART, NULL);
    pg_err_arg(err, "part", "%s", path_of(l, &l->v[0]));
    return PG_E_AMBIGUOUS;
}

/* No tensor could belong to a model: says what the file is. */
static pg_status refuse(walker *w, const pg__pt_parts *l)
{
    const pg__pickle *p = w->w.p;
    const pg__pk_value *root = &p->v[p->root];
    pg_err *err = w->w.err;
    for (size_t i = 0; i < l->n; i++) {
        const pg__pt_part *x = &l->v[i];
        const char *what = pg__pt_kind_name(x->kind);
        const char *path = path_of(l, x);
        if (x->kind < PG_PT_OPTIMIZER)
            continue;
        if (strcmp(path, ".") == 0 || l->v[0].kind == l->v[l->n - 1].kind)
            return pg_fail(err, PG_E_UNSUPPORTED, "the state of %s %s, " PG_PT_NO_MODEL,
                           strchr("aeiou", *what) ? "an" : "a", what);
        return pg_fail(err, PG_E_UNSUPPORTED, "\"%s\" is the state of %s %s, " PG_PT_NO_MODEL,
                       PG_SHOW(path), strchr("aeiou", *what) ? "an" : "a", what);
    }
    if (root->kind == PG_PK_CALL && root->n > 2 && pg__pickle_foreign(p, root))
        return pg_fail(err, PG_E_UNSUPPORTED, "a pickled %s without tensors, " PG_PT_NO_MODEL,
                       pg__pt_class_of(pg__pickle_foreign(p, root)).s);
    if (p->n_foreign)
        return pg__pt_fail_foreign(&p->foreign[0], err);
    if (!pg__pickle_is_dict(p, root))
        return pg_fail(err, PG_E_UNSUPPORTED, "a PyTorch file without tensors, " PG_PT_NO_MODEL);
    return PG_OK;
}

/* The part that is the model; *part stays NULL, without an error, if nothing holds tensors. */
static pg_status choose(walker *w, const pg__pt_parts *l, const pg__pt_part **part)
{
    size_t n[PG_PT_RANDOM + 1] = {0};
    for (size_t i = 0; i < l->n; i++)
        n[l->v[i].kind] += !l->v[i].whole;
    if (n[PG_PT_MODEL] == 0 && n[PG_PT_LOOSE] == 0 && n[PG_PT_OBJECT]) {
        const pg__pt_part *x = l->v;
        while (x->kind != PG_PT_OBJECT)
            x++;
        if (strcmp(path_of(l, x), ".") != 0) {
            const pg_status st = pg__str_puts(&w->path, path_of(l, x), w->w.err);
            if (st != PG_OK)
                return st;
        }
        return refuse_object(w, &w->w.p->v[x->value]);
    }
    if (n[PG_PT_MODEL] + n[PG_PT_LOOSE] + n[PG_PT_OBJECT] > 1)
        return ask(w->w.p, l, n[PG_PT_MODEL], w->w.err);
    if (n[PG_PT_MODEL] + n[PG_PT_LOOSE] == 0 && n[PG_PT_SCALARS] > 1)
        return ask(w->w.p, l, n[PG_PT_SCALARS], w->w.err);
    if (n[PG_PT_MODEL] + n[PG_PT_LOOSE] + n[PG_PT_SCALARS] == 0)
        return refuse(w, l);
    *part = &l->v[0];
    return PG_OK;
}

static pg_status no_such_part(const pg__pt_parts *l, const char *part, pg_err *err)
{
    (void)pg_fail(err, PG_E_ARG, "no part \"%s\" is in this file", PG_SHOW(part));
    for (size_t i = 0; i < l->n && i < MAX_ASKED; i++)
        if (is_asked(&l->v[i]))
            pg_err_detail(err, "%s: %s tensor%s", PG_SHOW(path_of(l, &l->v[i])),
                          PG_NUM(l->v[i].n_tensors), l->v[i].n_tensors == 1 ? "" : "s");
    return PG_E_ARG;
}

/* The listed part with that path: the text alone may lead elsewhere, too. */
static pg_status pick(const pg__pt_part **out, const pg__pt_parts *l, const char *part, pg_err *err)
{
    *out = NULL;
    for (size_t i = 0; strcmp(part, ".") != 0 && i < l->n; i++) {
        if (strcmp(path_of(l, &l->v[i]), part) != 0)
            continue;
        if (*out)
            return pg_fail(err, PG_E_AMBIGUOUS, "two parts are called \"%s\"", PG_SHOW(part));
        *out = &l->v[i];
    }
    return PG_OK;
}

/* The requested value; *path is its name. */
static pg_status find_value(const pg__pk_value **v, const char **path, pg__pt_way *way, walker *w,
                            const char *part)
{
    const pg__pickle *p = w->w.p;
    const pg__pt_parts *l = &w->out->parts;
    const pg__pt_part *listed = NULL;
    int several = 0;
    pg_status st = PG_OK;
    PG_TRY(part ? pick(&listed, l, part, w->w.err) : choose(w, l, &listed));
    *path = listed ? path_of(l, listed) : part ? part : ".";
    const int root = strcmp(*path, ".") == 0; /* also the path of an empty key */
    PG_TRY(
        pg__pt_find(v, &several, &w->w, *path, listed && !root ? &p->v[listed->value] : NULL, way));
    if (!*v)
        return no_such_part(l, *path, w->w.err);
    if (several)
        return pg_fail(w->w.err, PG_E_AMBIGUOUS, "\"%s\" leads to two values", PG_SHOW(*path));
done:
    return st;
}

static pg_status find(walker *w, const char *part)
{
    pg__pt_parts *l = &w->out->parts;
    const pg__pk_value *v = NULL;
    const char *path = NULL;
    pg__pt_kind kind;
    pg__pt_way way = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__pt_list_parts(l, &w->w));
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_standing);
    if (part && !*part)
        return PG_OK;
    PG_TRY(find_value(&v, &path, &way, w, part));
    w->with_training = part && (strcmp(part, ".") == 0 || pg__pt_is_training(&kind, &w->w, v));
    PG_TRY(take(w, v, path));
    if (w->out->n == 0)
        return strcmp(path, ".") == 0
                   ? pg_fail(w->w.err, PG_E_UNSUPPORTED,
                             "a PyTorch file that holds no tensors, " PG_PT_NO_MODEL)
                   : pg_fail(w->w.err, PG_E_UNSUPPORTED, "%s holds no tensors", PG_SHOW(path));
    w->path.n = 0;
    PG_TRY(list_others(w, &way, 0));
done:
    return st;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Two tensors with one name would give the file two meanings. */
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
            PG_FAIL(PG_E_FORMAT, "%s: this key occurs twice", PG_SHOW(list[i]));
done:
    pg__mem_free(list);
    return st;
}

pg_status pg__pt_tree_read(pg__pt_tree *out, const pg__pickle *p, const char *part, pg_err *err)
{
    pg__pt_tree t = {0};
    walker w = {.out = &t};
    pg_status st = PG_OK;
    PG_TRY(pg__pt_walk_begin(&w.w, p, err));
    PG_TRY(find(&w, part));
    PG_TRY(check_unique(&t, err));
    *out = t;
    t = (pg__pt_tree){0};
done:
    pg__pt_walk_end(&w.w);
    pg__str_fini(&w.path);
    pg__pt_tree_fini(&t);
    return st;
}
