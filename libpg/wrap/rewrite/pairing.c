/* pairing.c - pairs the weights of two files by name, or by name without the numbers that Keras
 * counts per process: the k-th dense layer of one is the k-th dense layer of the other. */
#include "wrap/rewrite/pairing.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "store/store_impl.h"
#include "wrap/judge/judge.h"

pg__shown pg__shape_text(const pg_weight *w)
{
    pg__shown t = {"scalar"};
    size_t n = 0;
    for (uint32_t d = 0; d < w->rank && n < sizeof t.s - 32; d++)
        n += (size_t)snprintf(t.s + n, sizeof t.s - n, "%s%llu", d ? "×" : "",
                              (unsigned long long)w->dims[d]);
    return t;
}

/* A weight with its sort keys. */
typedef struct entry {
    const char *name;
    char *kind; /* the name with every component's final number taken off; owned */
    const pg_weight *w;
    size_t i;
} entry;

/* "dense_5/kernel:0" and "dense/kernel:0" are of kind "dense/kernel". */
static char *kind_of(const char *name)
{
    char *s = pg__mem_array(strlen(name) + 1, 1);
    size_t w = 0;
    if (!s)
        return NULL;
    for (const char *p = name; *p;) {
        const size_t n = strcspn(p, "/:");
        size_t stem = n;
        while (stem && isdigit((unsigned char)p[stem - 1]))
            stem--;
        if (stem == n || stem < 2 || p[stem - 1] != '_')
            stem = n;
        else
            stem--;
        memcpy(s + w, p, stem);
        w += stem;
        p += n;
        if (*p == ':')
            break;
        if (*p == '/')
            s[w++] = *p++;
    }
    s[w] = 0;
    return s;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

/* Compares the numbers that kind_of() removed, from the left; no number is less than any. */
static int compare_numbers(const char *a, const char *b)
{
    for (;;) {
        const size_t na = strcspn(a, "/:"), nb = strcspn(b, "/:");
        size_t sa = na, sb = nb;
        while (sa && isdigit((unsigned char)a[sa - 1]))
            sa--;
        while (sb && isdigit((unsigned char)b[sb - 1]))
            sb--;
        const unsigned long x = sa < na ? strtoul(a + sa, NULL, 10) + 1 : 0;
        const unsigned long y = sb < nb ? strtoul(b + sb, NULL, 10) + 1 : 0;
        if (x != y)
            return x < y ? -1 : 1;
        a += na;
        b += nb;
        if (*a != '/' || *b != '/')
            return 0;
        a++;
        b++;
    }
}

static int by_kind(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int c = strcmp(x->kind, y->kind);
    return c ? c : compare_numbers(x->name, y->name);
}

static pg_status list(entry **out, const pg_store *s, size_t first, size_t n, pg_err *err)
{
    entry *v = pg__mem_array(n, sizeof *v);
    if (!v)
        return pg__nomem(err);
    *out = v;
    for (size_t i = 0; i < n; i++) {
        v[i] = (entry){.w = pg_store_weight(s, first + i), .i = i};
        v[i].name = v[i].w->name;
        v[i].kind = kind_of(v[i].name);
        if (!v[i].kind)
            return pg__nomem(err);
    }
    return PG_OK;
}

static void free_entries(entry *v, size_t n)
{
    for (size_t i = 0; v && i < n; i++)
        pg__mem_free(v[i].kind);
    pg__mem_free(v);
}

static int all_pair(const entry *a, const entry *b, size_t n,
                    int (*cmp)(const void *, const void *))
{
    for (size_t i = 0; i < n; i++) {
        const int same =
            cmp == by_name ? strcmp(a[i].name, b[i].name) == 0 : strcmp(a[i].kind, b[i].kind) == 0;
        if (!same || !pg__same_shape(a[i].w, b[i].w))
            return 0;
        if (i && (cmp(&a[i - 1], &a[i]) == 0 || cmp(&b[i - 1], &b[i]) == 0))
            return 0; /* two weights with the same name cannot be distinguished */
    }
    return 1;
}

typedef struct owners {
    const char *a, *b;
    size_t na, nb;
} owners;

static int by_first_owner(const void *x, const void *y)
{
    const owners *p = x, *q = y;
    const int c = strncmp(p->a, q->a, p->na < q->na ? p->na : q->na);
    return c ? c : (p->na > q->na) - (p->na < q->na);
}

/* 1 if weights of one layer stay together: pairing by number must not mix layers. */
static pg_status stay_together(const entry *a, const entry *b, size_t n, int *ok, pg_err *err)
{
    owners *v = pg__mem_array(n, sizeof *v);
    if (!v)
        return pg__nomem(err);
    for (size_t i = 0; i < n; i++)
        v[i] = (owners){a[i].name, b[i].name, pg__owner_len(a[i].name), pg__owner_len(b[i].name)};
    qsort(v, n, sizeof *v, by_first_owner);
    *ok = 1;
    for (size_t i = 1; i < n; i++)
        if (by_first_owner(&v[i - 1], &v[i]) == 0 &&
            (v[i].nb != v[i - 1].nb || strncmp(v[i].b, v[i - 1].b, v[i].nb) != 0))
            *ok = 0;
    pg__mem_free(v);
    return PG_OK;
}

enum { MAX_TOLD = 8 };

/* A weight's name for messages: without ":0". */
static pg__shown plain(const char *name)
{
    pg__shown s;
    (void)pg__printable(s.s, sizeof s.s, name, strcspn(name, ":"));
    return s;
}

/* Sorts both lists by name; adds a few lines of each kind. */
static pg_status report_difference(const entry *a, size_t na, const entry *b, size_t nb,
                                   const char *path, pg_err *err)
{
    const pg_status st =
        pg_fail(err, PG_E_MISMATCH,
                "does not fit the template of %s (%zu tensors there, %zu here); nothing written",
                PG_SHOW(path), nb, na);
    size_t i = 0, k = 0, lines = 0;
    for (; i < na || k < nb; lines++) {
        const int c = i == na ? 1 : k == nb ? -1 : strcmp(a[i].name, b[k].name);
        if (c == 0 && pg__same_shape(a[i].w, b[k].w)) {
            lines--; /* equal: no line */
        } else if (lines >= MAX_TOLD) {
            /* only counted */
        } else if (c < 0) {
            pg_err_detail(err, "extra:   %s (%s)", plain(a[i].name).s, pg__shape_text(a[i].w).s);
        } else if (c > 0) {
            pg_err_detail(err, "missing: %s (%s)", plain(b[k].name).s, pg__shape_text(b[k].w).s);
        } else {
            pg_err_detail(err, "shape:   %s is %s, the template has %s", plain(a[i].name).s,
                          pg__shape_text(a[i].w).s, pg__shape_text(b[k].w).s);
        }
        i += c <= 0;
        k += c >= 0;
    }
    if (lines > MAX_TOLD)
        pg_err_detail(err, "\xE2\x80\xA6 and %zu more", lines - MAX_TOLD);
    return st;
}

pg_status pg__pair(size_t **out, int *renumbered, const pg_store *from, const pg_store *to,
                   size_t first, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    entry *a = NULL, *b = NULL;
    size_t *pairs = pg__mem_array(n, sizeof *pairs);
    const size_t na = pg_store_n_weights(from);
    int ok = 0;
    if (!pairs) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(list(&a, from, 0, na, err));
    PG_TRY(list(&b, to, first, n, err));
    *renumbered = 0;
    qsort(a, na, sizeof *a, by_name);
    qsort(b, n, sizeof *b, by_name);
    ok = na == n && all_pair(a, b, n, by_name);
    if (!ok && na == n) {
        qsort(a, na, sizeof *a, by_kind);
        qsort(b, n, sizeof *b, by_kind);
        *renumbered = 1;
        if (all_pair(a, b, n, by_kind))
            PG_TRY(stay_together(a, b, n, &ok, err));
        if (ok)
            PG_TRY(stay_together(b, a, n, &ok, err));
    }
    if (!ok) {
        qsort(a, na, sizeof *a, by_name);
        qsort(b, n, sizeof *b, by_name);
        st = report_difference(a, na, b, n, pg__store_path(to), err);
        goto done;
    }
    for (size_t i = 0; i < n; i++)
        pairs[b[i].i] = a[i].i;
    *out = pairs;
    pairs = NULL;
done:
    free_entries(a, na);
    free_entries(b, n);
    pg__mem_free(pairs);
    return st;
}
