/* unwrap_prefix.c - PyTorch: removes the words of wrappers from names, and keeps everything
 * else. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "wrap/rewrite/rewrite.h"

/* A tensor and its new name. */
typedef struct renamed {
    size_t src;
    char *name; /* owned */
    int dropped;
} renamed;

typedef struct names {
    renamed *v, **sorted;
    size_t n;
} names;

static void names_fini(names *l)
{
    for (size_t i = 0; i < l->n; i++)
        pg__mem_free(l->v[i].name);
    pg__mem_free(l->v);
    pg__mem_free(l->sorted);
}

static pg_status strip_given(const char **out, const char *name, const char *prefix, pg_err *err)
{
    const size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0 || name[n] == 0)
        return pg_fail(err, PG_E_NO, "\"%s\" does not begin with \"%s\"; nothing written",
                       PG_SHOW(name), PG_SHOW(prefix));
    *out = name + n;
    return PG_OK;
}

/* The name of tensor i; NULL in *out: it is left out. */
static pg_status name_one(char **out, const pg__rewrite *r, pg__plain *plain, size_t i,
                          const char *prefix, pg_err *err)
{
    const char *name = pg_store_weight(r->s, i)->name, *rest = name;
    pg_status st = PG_OK;
    *out = NULL;
    if (!prefix && i == r->v.words.counter)
        return PG_OK;
    if (plain)
        return pg__plain_name(out, plain, r->s, i, err);
    if (prefix)
        PG_TRY(strip_given(&rest, name, prefix, err));
    *out = pg__mem_strdup(rest);
    if (!*out)
        return pg__nomem(err);
    if (!prefix)
        pg__words_strip(*out, &r->v.words, name);
done:
    return st;
}

static pg_status rename_all(names *l, const pg__rewrite *r, pg__plain *plain, const char *prefix,
                            pg_err *err)
{
    pg_status st = PG_OK;
    const size_t n = pg_store_n_weights(r->s);
    l->v = pg__mem_array(n, sizeof *l->v);
    l->sorted = pg__mem_array(n, sizeof *l->sorted);
    if (!l->v || !l->sorted)
        return pg__nomem(err);
    for (size_t i = 0; i < n; i++) {
        renamed *x = &l->v[l->n];
        *x = (renamed){.src = i};
        PG_TRY(name_one(&x->name, r, plain, i, prefix, err));
        if (x->name)
            l->sorted[l->n++] = x;
    }
done:
    return st;
}

static int by_name(const void *a, const void *b)
{
    const renamed *x = *(renamed *const *)a, *y = *(renamed *const *)b;
    const int c = strcmp(x->name, y->name);
    return c ? c : x->src < y->src ? -1 : x->src > y->src;
}

/* *same: both tensors have one type, shape and bytes. */
static pg_status compare(int *same, pg_store *s, size_t a, size_t b, unsigned char *buf,
                         pg_err *err)
{
    pg_status st = PG_OK;
    const pg_weight *x = pg_store_weight(s, a), *y = pg_store_weight(s, b);
    *same = x->dtype == y->dtype && x->rank == y->rank &&
            memcmp(x->dims, y->dims, x->rank * sizeof *x->dims) == 0;
    for (uint64_t off = 0; *same && off < x->n_bytes; off += PG_COPY_BYTES) {
        const uint64_t left = x->n_bytes - off;
        const size_t n = left < PG_COPY_BYTES ? (size_t)left : PG_COPY_BYTES;
        PG_TRY(pg_store_read(s, a, off, buf, n, err));
        PG_TRY(pg_store_read(s, b, off, buf + PG_COPY_BYTES, n, err));
        *same = memcmp(buf, buf + PG_COPY_BYTES, n) == 0;
    }
done:
    return st;
}

/* Of tensors that get the same name, keeps the first if all are equal. */
static pg_status merge_equal(names *l, const pg__rewrite *r, size_t *n_merged, pg_err *err)
{
    pg_status st = PG_OK;
    unsigned char *buf = pg__mem_array(2, PG_COPY_BYTES);
    if (!buf)
        return pg__nomem(err);
    if (l->n)
        qsort(l->sorted, l->n, sizeof *l->sorted, by_name);
    const renamed *first = l->n ? l->sorted[0] : NULL;
    for (size_t i = 1; i < l->n; i++) {
        renamed *x = l->sorted[i];
        int same = 0;
        if (strcmp(first->name, x->name) != 0) {
            first = x;
            continue;
        }
        PG_TRY(compare(&same, r->s, first->src, x->src, buf, err));
        if (!same)
            PG_FAIL(
                PG_E_MISMATCH,
                "\"%s\" and \"%s\" would both be \"%s\", with different values; nothing written",
                PG_SHOW(pg_store_weight(r->s, first->src)->name),
                PG_SHOW(pg_store_weight(r->s, x->src)->name), PG_SHOW(x->name));
        x->dropped = 1;
        ++*n_merged;
    }
done:
    pg__mem_free(buf);
    return st;
}

/* Copies are the same model several times: all names must occur equally often. */
static pg_status check_copies(const names *l, pg_err *err)
{
    size_t want = 0, run = 1;
    for (size_t i = 1; i <= l->n; i++) {
        if (i < l->n && strcmp(l->sorted[i]->name, l->sorted[i - 1]->name) == 0) {
            run++;
            continue;
        }
        if (want && run != want)
            return pg_fail(err, PG_E_MISMATCH,
                           "\"%s\" occurs %zu times, other tensors %zu times: not copies of one "
                           "model; nothing written",
                           PG_SHOW(l->sorted[i - 1]->name), run, want);
        want = run;
        run = 1;
    }
    return PG_OK;
}

static pg_status check_asked(const pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err)
{
    if (o->template_name)
        return pg_fail(err, PG_E_ARG,
                       "a template's name is for Keras files; this one has no layers");
    if (o->like && o->strip_prefix)
        return pg_fail(err, PG_E_ARG, "like and strip_prefix both say what the names become");
    if (o->strip_prefix && *o->strip_prefix)
        return PG_OK;
    if (r->v.words.odd != PG_NONE)
        return pg_fail(err, PG_E_UNSUPPORTED, "%s; nothing written", r->v.f.reason);
    if (o->like || (r->v.f.verdict == PG_V_WRAPPER && !o->strip_prefix))
        return PG_OK;
    (void)pg_fail(err, PG_E_NO, "%s; nothing written", r->v.f.reason);
    if (r->v.f.unsettled && !o->strip_prefix) {
        pg_err_do(err, PG_DO_UNWRAP, r->in);
        pg_err_arg(err, "needs_names", "true");
    }
    return PG_E_NO;
}

/* another "module.": a child of that name, or a wrapper in a wrapper. */
static int begin_with_module(const names *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (strncmp(l->v[i].name, "module.", 7) != 0)
            return 0;
    return l->n > 0;
}

static pg_status add_notes(pg__rewrite *r, const names *l, const pg_unwrap_opts *o,
                           const char *words, size_t n_merged, pg_err *err)
{
    const pg__words *w = &r->v.words;
    const char *prefix = o->strip_prefix;
    pg_status st = PG_OK;
    r->rep.action = prefix || (w->prefix && !o->like) ? "prefix removed" : "words removed";
    PG_TRY(pg__add_template(r, prefix ? prefix : o->like ? words : r->v.f.template_name, err));
    if (prefix)
        return PG_OK;
    if (!o->like && begin_with_module(l))
        PG_TRY(pg__add_note(r, err,
                            "every name still begins with \"module.\": a child of that name is "
                            "left alone; the option strip-prefix takes more"));
    if (!o->like && w->inner != PG_NONE)
        PG_TRY(pg__add_note(
            r, err,
            "\"module\" is left in \"%s\": a child of that name, or a DataParallel within the "
            "model; the option like, with a file of the bare model's names, settles it",
            PG_SHOW(pg_store_weight(r->s, w->inner)->name)));
    if (w->counter != PG_NONE)
        PG_TRY(pg__add_note(r, err,
                            "left out: n_averaged, which counts the models that "
                            "AveragedModel averaged"));
    if (n_merged)
        PG_TRY(pg__add_note(r, err,
                            "%zu tensor%s that would have the name of another one %s equal to "
                            "it: one of each is kept",
                            n_merged, n_merged == 1 ? "" : "s", n_merged == 1 ? "is" : "are"));
done:
    return st;
}

/* What the ranks of a job left becomes safetensors, which hold no optimizer. */
static pg_status keep_state(pg__rewrite *r, pg_err *err)
{
    const size_t n = pg_store_n_state(r->s);
    r->plan.keep_state = !pg__format_of(r->s)->of_ranks;
    return n && !r->plan.keep_state
               ? pg__add_note(r, err, "left out: %zu tensor%s of the optimizer and other training",
                              n, n == 1 ? "" : "s")
               : PG_OK;
}

pg_status pg__unwrap_prefix(pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    pg__plain plain = {0};
    names l = {0};
    pg__str words = {0};
    size_t n_merged = 0;
    PG_TRY(check_asked(r, o, err));
    if (o->like)
        PG_TRY(pg__plain_open(&plain, o, err));
    PG_TRY(rename_all(&l, r, o->like ? &plain : NULL, o->strip_prefix, err));
    PG_TRY(merge_equal(&l, r, &n_merged, err));
    if (!o->strip_prefix && pg__words_are_copies(&r->v.words))
        PG_TRY(check_copies(&l, err));
    if (o->like)
        PG_TRY(pg__plain_check(&plain, err));
    if (o->like)
        PG_TRY(pg__plain_words(&words, &plain, err));
    for (size_t i = 0; i < l.n; i++)
        if (!l.v[i].dropped)
            PG_TRY(pg__plan_add(&r->plan, l.v[i].src, l.v[i].name, err));
    PG_TRY(keep_state(r, err));
    PG_TRY(add_notes(r, &l, o, words.s, n_merged, err));
done:
    pg__str_fini(&words);
    pg__plain_fini(&plain);
    names_fini(&l);
    return st;
}
