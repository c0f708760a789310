/* compare_doubt.c - is there reason to doubt that tensors were paired rightly?
 *
 * The path layout counts layers by class in the order of creation ("dense_1"), the legacy layout by
 * their names. If no description says which layer is which, equal words are all that pairs them. A
 * tensor that differs from its partner and has exactly the values of another one shows that the
 * words mean different layers: then neither "differs" nor "equal" would be true. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "wrap/compare/compare_doubt.h"

/* A tensor without an equal partner. */
typedef struct lone {
    uint32_t crc;
    int of_b, differs; /* differs: from a partner; 0: it has none */
    size_t i;          /* in its view */
    const pg_weight *w;
} lone;

/* CRC of the values, in this machine's byte order; *same: all elements are equal, as zeros are. */
static pg_status sum(lone *t, int *same, pg__operand op, unsigned char *buf, pg_err *err)
{
    pg_status st = PG_OK;
    unsigned char first[16] = {0};
    const size_t width = pg_dtype_bytes(t->w->dtype);
    *same = 1;
    for (uint64_t at = 0; at < t->w->n_bytes;) {
        const uint64_t left = t->w->n_bytes - at;
        const size_t n = left < PG_COPY_BYTES ? (size_t)left : PG_COPY_BYTES;
        PG_TRY(pg__operand_read(op, at, buf, n, err));
        if (at == 0)
            memcpy(first, buf, width);
        for (size_t k = 0; *same && k < n; k += width)
            *same = memcmp(buf + k, first, width) == 0;
        t->crc = pg__crc32(t->crc, buf, n);
        at += n;
    }
done:
    return st;
}

static int by_values(const void *a, const void *b)
{
    const lone *x = a, *y = b;
    if (x->crc != y->crc)
        return x->crc < y->crc ? -1 : 1;
    return x->of_b - y->of_b ? x->of_b - y->of_b : (x->i > y->i) - (x->i < y->i);
}

static int same_type(const pg_weight *a, const pg_weight *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

static pg_status add_lone(lone *v, size_t *n, const pg__doubt *d, int of_b, size_t i, int differs,
                          pg_err *err)
{
    int same;
    const pg__view *view = of_b ? d->b : d->a;
    lone t = {.of_b = of_b, .differs = differs, .i = i, .w = pg__view_weight(view, i)};
    const pg__operand op = {view->r.s, view->v[i].src, of_b ? d->path_b : d->path_a};
    const pg_status st = sum(&t, &same, op, d->buf, err);
    if (st == PG_OK && !same)
        v[(*n)++] = t;
    return st;
}

static pg_status say(const pg__doubt *d, const lone *x, const lone *y, pg_err *err)
{
    const pg_status st = pg_fail(
        err, PG_E_MISMATCH,
        "%s and %s: nothing says which layer is which: %s differs, and %s of the one is %s of the "
        "other",
        PG_SHOW(d->path_a), PG_SHOW(d->path_b),
        PG_SHOW(x->differs ? d->a->v[x->i].label : d->b->v[y->i].label),
        PG_SHOW(d->a->v[x->i].label), PG_SHOW(d->b->v[y->i].label));
    pg_err_hint(err, "compare with a full model (.h5 or .keras) on one of the two sides");
    return st;
}

pg_status pg__doubt_pairs(const pg__doubt *d, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    lone *v = pg__mem_array(d->a->n + d->b->n, sizeof *v);
    if (!v)
        return pg__nomem(err);
    for (size_t i = 0; i < d->a->n; i++)
        if (!d->equal[i])
            PG_TRY(add_lone(v, &n, d, 0, i, d->of_a[i] != PG_NONE, err));
    for (size_t k = 0; k < d->b->n; k++)
        if (d->of_b[k] == PG_NONE || !d->equal[d->of_b[k]])
            PG_TRY(add_lone(v, &n, d, 1, k, d->of_b[k] != PG_NONE, err));
    if (n)
        qsort(v, n, sizeof *v, by_values);
    for (size_t i = 0; i + 1 < n; i++) {
        const lone *x = &v[i], *y = &v[i + 1];
        if (x->crc == y->crc && x->of_b != y->of_b && same_type(x->w, y->w) &&
            (x->differs || y->differs)) {
            st = say(d, x, y, err);
            goto done;
        }
    }
done:
    pg__mem_free(v);
    return st;
}
