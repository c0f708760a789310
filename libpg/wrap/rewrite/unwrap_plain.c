/* unwrap_plain.c - PyTorch: names without those words that leave a name of the bare model. Where
 * "module" may be a DataParallel's or a child, a file of the bare model says which. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "store/store_impl.h"
#include "wrap/rewrite/rewrite.h"

#define MAX_WORDS 8u /* in one name: each may go or stay */

void pg__plain_fini(pg__plain *p)
{
    pg__mem_free(p->sorted);
    pg__mem_free(p->used);
    pg_store_close(p->s);
    *p = (pg__plain){0};
}

typedef struct by {
    const char *name;
    size_t i;
} by;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const by *)a)->name, ((const by *)b)->name);
}

static pg_status sort(pg__plain *p, pg_err *err)
{
    const size_t n = pg_store_n_weights(p->s);
    by *v = pg__mem_array(n, sizeof *v);
    p->sorted = pg__mem_array(n, sizeof *p->sorted);
    p->used = pg__mem_array(n, 1);
    if (v && p->sorted && p->used) {
        for (size_t i = 0; i < n; i++)
            v[i] = (by){pg_store_weight(p->s, i)->name, i};
        if (n)
            qsort(v, n, sizeof *v, by_name);
        for (size_t i = 0; i < n; i++)
            p->sorted[i] = v[i].i;
    }
    pg__mem_free(v);
    return v && p->sorted && p->used ? PG_OK : pg__nomem(err);
}

pg_status pg__plain_open(pg__plain *p, const pg_unwrap_opts *o, pg_err *err)
{
    if (o->like_text)
        return pg_fail(err, PG_E_ARG,
                       "this file has no layers: like takes a .pt or .safetensors with the names "
                       "of the bare model");
    p->path = o->like;
    const pg_status st = pg_store_open(&p->s, o->like, NULL, err);
    if (st == PG_E_UNKNOWN)
        return pg_fail(err, PG_E_ARG,
                       "%s is not a .pt or .safetensors with the names of the bare model, which a "
                       "file without layers needs",
                       PG_SHOW(o->like));
    if (st != PG_OK)
        return st;
    if (pg_store_n_layers(p->s))
        return pg_fail(err, PG_E_ARG,
                       "%s has layers, as Keras writes them; a file without layers needs a .pt or "
                       ".safetensors with the names of the bare model",
                       PG_SHOW(o->like));
    return sort(p, err);
}

/* The bare model's tensor of that name, or PG_NONE. */
static size_t find(const pg__plain *p, const char *name)
{
    size_t lo = 0, hi = pg_store_n_weights(p->s);
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2, i = p->sorted[mid];
        const int c = strcmp(pg_store_weight(p->s, i)->name, name);
        if (c == 0)
            return i;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return PG_NONE;
}

/* name without those of its words whose bit is set in `go`; *n: how many words it has. */
static void without(char *out, const char *name, unsigned go, unsigned *n)
{
    size_t len = 0;
    *n = 0;
    while (*name) {
        const size_t word = pg__word_at(name, &len);
        if (word == PG_NONE) {
            len = strcspn(name, ".");
            len += name[len] == '.';
        }
        if (word == PG_NONE || *n >= MAX_WORDS || !(go >> *n & 1)) {
            memcpy(out, name, len);
            out += len;
        }
        *n += word != PG_NONE;
        name += len;
    }
    *out = 0;
}

static void note_gone(pg__plain *p, const char *name, unsigned gone)
{
    size_t len = 0;
    for (; *name && gone; name += len) {
        const size_t word = pg__word_at(name, &len);
        if (word == PG_NONE) {
            len = strcspn(name, ".") + 1;
            continue;
        }
        p->gone |= (gone & 1) << word;
        gone >>= 1;
    }
}

pg_status pg__plain_words(pg__str *out, const pg__plain *p, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t k = 0; k < PG_N_WORDS; k++)
        if (p->gone >> k & 1)
            PG_TRY(pg__str_printf(out, err, "%s%s", out->n ? ", " : "", pg__word(k)));
done:
    return st;
}

pg_status pg__plain_name(char **out, pg__plain *p, const pg_store *s, size_t i, pg_err *err)
{
    const pg_weight *w = pg_store_weight(s, i);
    pg_status st = PG_OK;
    unsigned n = 0, all = 0, gone = 0;
    size_t found = PG_NONE, unlike = PG_NONE;
    char *name = pg__mem_array(strlen(w->name) + 1, 1);
    if (!name)
        return pg__nomem(err);
    without(name, w->name, 0, &n);
    all = 1u << (n < MAX_WORDS ? n : MAX_WORDS);
    for (unsigned go = 0; go < all; go++) {
        without(name, w->name, go, &n);
        const size_t at = find(p, name);
        if (at == PG_NONE || at == found)
            continue;
        if (!pg__same_shape(pg_store_weight(p->s, at), w)) {
            unlike = at;
            continue;
        }
        if (found != PG_NONE)
            PG_FAIL(PG_E_AMBIGUOUS, "\"%s\" may be \"%s\" or \"%s\" of %s; nothing written",
                    PG_SHOW(w->name), PG_SHOW(pg_store_weight(p->s, found)->name), PG_SHOW(name),
                    PG_SHOW(p->path));
        found = at;
        gone = go;
    }
    if (found == PG_NONE && unlike != PG_NONE)
        PG_FAIL(PG_E_MISMATCH, "\"%s\" has another shape than \"%s\" of %s; nothing written",
                PG_SHOW(w->name), PG_SHOW(pg_store_weight(p->s, unlike)->name), PG_SHOW(p->path));
    if (found == PG_NONE)
        PG_FAIL(PG_E_MISMATCH,
                "\"%s\" is not a name in %s, with or without words of wrappers; nothing written",
                PG_SHOW(w->name), PG_SHOW(p->path));
    p->used[found] = 1;
    note_gone(p, w->name, gone);
    *out = pg__mem_strdup(pg_store_weight(p->s, found)->name);
    if (!*out)
        st = pg__nomem(err);
done:
    pg__mem_free(name);
    return st;
}

pg_status pg__plain_check(const pg__plain *p, pg_err *err)
{
    for (size_t i = 0; i < pg_store_n_weights(p->s); i++)
        if (!p->used[i])
            return pg_fail(err, PG_E_MISMATCH, "\"%s\" of %s is missing here; nothing written",
                           PG_SHOW(pg_store_weight(p->s, i)->name), PG_SHOW(p->path));
    if (!p->gone)
        return pg_fail(err, PG_E_NO, "its names are those of %s already; nothing written",
                       PG_SHOW(p->path));
    return PG_OK;
}
