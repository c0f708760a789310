/* owner.c - reads the name of a stored weight (FORMATS.md: "Owners by name").
 *
 * Names of layers may contain "/" and end in numbers; variables may have numbers too. So whole
 * components are compared, the longest name wins, and a name that could belong to two leaves
 * belongs to neither. All lookups are binary searches in one sorted table; a name is cut in at most
 * MAX_CUTS ways, as hostile names may consist of separators only. */
#include "model/fit/owner.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"

#define MAX_CUTS 64

static int compare_bytes(const char *a, size_t na, const char *b, size_t nb)
{
    const int c = memcmp(a, b, na < nb ? na : nb);
    return c ? c : na < nb ? -1 : na > nb;
}

/* By name; then the leaf's own names before those of inner layers; then by parent. */
static int compare_keys(const void *x, const void *y)
{
    const pg__owner_key *a = x, *b = y;
    int c = compare_bytes(a->name, a->len, b->name, b->len);
    if (c == 0)
        c = (a->sub != NULL) - (b->sub != NULL);
    if (c == 0)
        c = compare_bytes(a->parent, a->parent_len, b->parent, b->parent_len);
    return c ? c : a->leaf < b->leaf ? -1 : a->leaf > b->leaf;
}

size_t pg__without_slashes(const char *s, size_t n)
{
    while (n > 1 && s[n - 1] == '/')
        n--;
    return n;
}

static pg_status add_key(pg__owner_table *t, const char *name, const char *parent, size_t leaf,
                         const char *sub, pg_err *err)
{
    if (pg__mem_grow(&t->v, &t->cap, t->n + 1, sizeof *t->v))
        return pg__nomem(err);
    t->v[t->n++] = (pg__owner_key){name,
                                   parent,
                                   pg__without_slashes(name, strlen(name)),
                                   pg__without_slashes(parent, strlen(parent)),
                                   leaf,
                                   sub};
    return PG_OK;
}

pg_status pg__owner_table_of(pg__owner_table *out, const pg__leaves *leaves, pg_err *err)
{
    pg_status st = PG_OK;
    *out = (pg__owner_table){0};
    for (size_t i = 0; i < leaves->n; i++) {
        const pg__leaf *l = &leaves->v[i];
        if (l->vars.known && l->vars.n == 0)
            continue;
        PG_TRY(add_key(out, l->layer->name, l->parent, i, NULL, err));
        for (size_t k = 0; k < l->vars.n; k++) {
            const char *sub = l->vars.v[k].sub;
            if (sub[0] && (k == 0 || strcmp(sub, l->vars.v[k - 1].sub) != 0))
                PG_TRY(add_key(out, sub, l->layer->name, i, sub, err));
        }
    }
    if (out->n > 0)
        qsort(out->v, out->n, sizeof *out->v, compare_keys);
done:
    return st;
}

void pg__owner_table_fini(pg__owner_table *t)
{
    pg__mem_free(t->v);
    *t = (pg__owner_table){0};
}

/* The first key that does not precede (name, is_sub, parent); after: the first key beyond all equal
 * ones. A NULL parent stands for all parents. */
static size_t bound(const pg__owner_table *t, pg__name_piece name, int is_sub,
                    const pg__name_piece *parent, int after)
{
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const pg__owner_key *k = &t->v[mid];
        int c = compare_bytes(k->name, k->len, name.s, name.n);
        if (c == 0)
            c = (k->sub != NULL) - is_sub;
        if (c == 0 && parent)
            c = compare_bytes(k->parent, k->parent_len, parent->s, parent->n);
        if (c < 0 || (c == 0 && after))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The only key that the name can mean, or NULL. Keys below the parent (if given) take precedence,
 * and a leaf's own name over that of an inner layer. *known: the name exists. */
static const pg__owner_key *choose(const pg__owner_table *t, pg__name_piece name,
                                   const pg__name_piece *parent, int *known)
{
    *known = 0;
    for (int below = parent != NULL; below >= 0; below--)
        for (int is_sub = 0; is_sub <= 1; is_sub++) {
            const size_t first = bound(t, name, is_sub, below ? parent : NULL, 0);
            const size_t end = bound(t, name, is_sub, below ? parent : NULL, 1);
            if (first == end)
                continue;
            *known = 1;
            return t->v[first].leaf == t->v[end - 1].leaf ? &t->v[first] : NULL;
        }
    return NULL;
}

size_t pg__without_number(const char *s, size_t n)
{
    size_t end = n;
    while (end > 0 && s[end - 1] >= '0' && s[end - 1] <= '9')
        end--;
    return end > 1 && end < n && s[end - 1] == '_' ? end - 1 : n;
}

pg__owner pg__owner_split(const char *name)
{
    pg__owner o = {.leaf = PG_NONE};
    size_t n = strlen(name);
    size_t colon = n;
    while (colon > 0 && name[colon - 1] >= '0' && name[colon - 1] <= '9')
        colon--;
    if (colon > 0 && colon < n && name[colon - 1] == ':')
        n = colon - 1;
    const char *slash = pg__last_byte(name, '/', n);
    o.path = (pg__name_piece){name, slash ? pg__without_slashes(name, (size_t)(slash - name)) : 0};
    o.var = slash ? (pg__name_piece){slash + 1, n - (size_t)(slash + 1 - name)}
                  : (pg__name_piece){name, n};
    return o;
}

/* The longest prefix of the path that names a leaf; `strip`: without its number. */
static void read_prefix(const pg__owner_table *t, pg__owner *o, int strip)
{
    pg__name_piece p = o->path;
    for (size_t cuts = 0; p.n > 0 && cuts < MAX_CUTS; cuts++) {
        int known = 0;
        const size_t n = strip ? pg__without_number(p.s, p.n) : p.n;
        if (!strip || n < p.n) {
            const pg__owner_key *k = choose(t, (pg__name_piece){p.s, n}, NULL, &known);
            if (k)
                o->leaf = k->leaf, o->sub = k->sub;
        }
        if (known)
            return;
        const char *slash = pg__last_byte(p.s, '/', p.n);
        p.n = slash ? pg__without_slashes(p.s, (size_t)(slash - p.s)) : 0;
    }
}

/* Last component of the path that names a leaf; the one before it may select the sub-model. */
static void read_tail(const pg__owner_table *t, pg__owner *o)
{
    size_t end = o->path.n;
    for (size_t cuts = 0; end > 0 && cuts < MAX_CUTS; cuts++) {
        const char *slash = pg__last_byte(o->path.s, '/', end);
        const size_t start = slash ? (size_t)(slash - o->path.s) + 1 : 0;
        pg__name_piece parent = {o->path.s, 0};
        const size_t above = start ? pg__without_slashes(o->path.s, start - 1) : 0;
        if (slash) {
            const char *before = pg__last_byte(o->path.s, '/', above);
            parent.s = before ? before + 1 : o->path.s;
            parent.n = (size_t)(o->path.s + above - parent.s);
        }
        int known;
        const pg__owner_key *k =
            choose(t, (pg__name_piece){o->path.s + start, end - start}, &parent, &known);
        if (k)
            o->leaf = k->leaf, o->sub = k->sub;
        if (known)
            return;
        end = above;
    }
}

/* "dense_1_W": longest leaf name that "_" follows. */
static void read_flat(const pg__owner_table *t, pg__owner *o)
{
    const pg__name_piece whole = o->var;
    size_t n = whole.n;
    if (o->path.n > 0)
        return;
    for (size_t cuts = 0; cuts < MAX_CUTS; cuts++) {
        const char *bar = n > 0 ? pg__last_byte(whole.s, '_', n) : NULL;
        int known;
        if (!bar)
            return;
        n = (size_t)(bar - whole.s);
        const pg__owner_key *k = choose(t, (pg__name_piece){whole.s, n}, NULL, &known);
        if (known) {
            if (k)
                o->leaf = k->leaf, o->sub = k->sub;
            o->path.n = n;
            o->var = (pg__name_piece){bar + 1, whole.n - n - 1};
            return;
        }
    }
}

pg__owner pg__owner_of(const pg__owner_table *t, const char *name, pg__placed_by how)
{
    pg__owner o = pg__owner_split(name);
    switch (how) {
    case PG_BY_NAME: read_prefix(t, &o, 0); break;
    case PG_BY_NAME_WITHOUT_SUFFIX: read_prefix(t, &o, 1); break;
    case PG_BY_TAIL: read_tail(t, &o); break;
    case PG_BY_FLAT_NAME: read_flat(t, &o); break;
    case PG_BY_ORDER: break;
    }
    return o;
}

int pg__name_is_automatic(const pg__layer *l)
{
    const size_t n = pg__without_number(l->name, strlen(l->name));
    const char *c = l->class_name;
    for (size_t i = 0; i < n; i++) {
        if (l->name[i] == '_')
            continue;
        if (tolower((unsigned char)*c) != l->name[i])
            return 0;
        c++;
    }
    return *c == 0;
}

static int equals(const char *word, pg__name_piece p)
{
    return word[0] && strlen(word) == p.n && memcmp(word, p.s, p.n) == 0;
}

int pg__var_is_named(const pg__var *v, pg__name_piece name)
{
    const pg__name_piece base = {name.s, pg__without_number(name.s, name.n)};
    return equals(v->name, name) || equals(v->alt, name) || equals(v->name, base) ||
           equals(v->alt, base);
}

static int starts(pg__name_piece p, const char *with)
{
    const size_t n = strlen(with);
    return p.n >= n && memcmp(p.s, with, n) == 0;
}

int pg__sub_agrees(const pg__var *v, const pg__owner *o)
{
    const pg__name_piece sub = {v->sub, strlen(v->sub)};
    if (sub.n == 0)
        return 1;
    if (o->sub)
        return strcmp(v->sub, o->sub) == 0;
    /* The path shows the inner layer only among its last components, and perhaps with another
     * number. It must not show the opposite direction, or another projection. */
    static const char *const others[] = {"query", "key", "value", "attention_output", NULL};
    size_t end = o->path.n;
    for (size_t cuts = 0; end > 0 && cuts < 2; cuts++) {
        const char *slash = pg__last_byte(o->path.s, '/', end);
        const size_t start = slash ? (size_t)(slash - o->path.s) + 1 : 0;
        const pg__name_piece part = {o->path.s + start, end - start};
        if ((starts(part, "forward_") && starts(sub, "backward_")) ||
            (starts(part, "backward_") && starts(sub, "forward_")))
            return 0;
        for (size_t i = 0; others[i]; i++)
            if (equals(others[i], sub))
                for (size_t k = 0; others[k]; k++)
                    if (k != i && equals(others[k], part) && slash)
                        return 0;
        end = slash ? pg__without_slashes(o->path.s, start - 1) : 0;
    }
    return 1;
}
