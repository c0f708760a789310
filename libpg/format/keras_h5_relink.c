/* keras_h5_relink.c - decides whether a legacy file is better relinked than written afresh, and
 * makes its new links.
 *
 * Both ways give every reader the same layers, names and values. A fresh file is compact: the rule
 * for new files. Relinking leaves the tensors where they are and only adds a tree (h5_relink.c):
 * filtered tensors are not decoded, and on a file system that shares blocks nothing is copied. In
 * place it is the only way. Data that nothing
 * points to any more (such as an old description with its Python bytecode) stays there as it was;
 * in a copy it becomes zeros (relinked.c), so that it costs no more than space. */
#include "format/keras_h5_relink.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/h5/h5.h"
#include "format/keras_h5_keep.h"

#define DROPPED_SHARE 20u    /* at most one in so many bytes may remain as waste, */
#define DROPPED_BYTES 16384u /* ... not counting these */

/* ---- the choice ------------------------------------------------------------------------------ */

/* What a plan uses of its source's datasets. */
typedef struct usage {
    uint64_t used, dropped; /* bytes */
    int twice;              /* one dataset would become two */
    int filtered;           /* some of the datasets in use are chunked */
    int more;               /* some hold more than a tensor: attributes, bytes of deleted ones */
} usage;

static void use(usage *u, unsigned char *seen, const pg__h5 *h5, uint32_t obj)
{
    const pg__h5_object *o = pg__h5_at(h5, obj);
    u->twice |= seen[obj];
    seen[obj] = 1;
    u->used += o->n_bytes;
    u->filtered |= !o->contiguous;
    u->more |= o->n_attrs || o->remnants;
}

static pg_status find_usage(usage *u, const pg__plan *plan, const pg__keras_h5 *src, pg_err *err)
{
    const size_t first = pg_store_n_weights(plan->src);
    unsigned char *seen = pg__mem_array(pg__h5_n(src->h5), 1);
    pg__keep keep = {0};
    pg_status st = PG_OK;
    size_t n_used;
    if (!seen)
        return pg__nomem(err);
    for (size_t i = 0; i < plan->n_items; i++)
        use(u, seen, src->h5, src->tensors[plan->items[i].src]);
    for (size_t i = 0; i < pg_store_n_state(plan->src); i++)
        if (pg__plan_keeps_state(plan, i))
            use(u, seen, src->h5, src->tensors[first + i]);
    PG_TRY(pg__keep_of(&keep, plan, err));
    for (size_t i = 0; i < keep.n_data; i++)
        use(u, seen, src->h5, keep.data[i].obj);
    for (uint32_t obj = 0; obj < pg__h5_n(src->h5); obj++)
        if (!seen[obj] && pg__h5_at(src->h5, obj)->kind == PG_H5_DATASET)
            u->dropped += pg__h5_at(src->h5, obj)->n_bytes;
    const pg__run *used = pg__h5_used(src->h5, &n_used);
    const uint64_t end = pg__io_size(src->io) - pg__h5_trailing(src->h5);
    u->dropped += pg__bytes_between(used, n_used, end);
done:
    pg__keep_fini(&keep);
    pg__mem_free(seen);
    return st;
}

/* The only place that decides; PG_E_UNSUPPORTED with the reason against relinking. sink NULL: in
 * place, where there is no other way. */
static pg_status allowed(const pg__plan *plan, pg__sink *sink, pg__relink_when when, pg_err *err)
{
    pg_status st = PG_OK;
    usage u = {0};
    int old_head;
    const pg__keras_h5 *src = pg__keras_h5_of(plan->src);
    if (!src || plan->root)
        PG_FAIL(PG_E_UNSUPPORTED, "it is not an .h5 of the legacy layout");
    PG_TRY(pg__h5_relinkable(&old_head, src->io, pg__io_size(src->io) - pg__h5_trailing(src->h5),
                             err));
    if (pg__h5_user_block(src->h5) || !old_head)
        PG_FAIL(PG_E_UNSUPPORTED, "its superblock is not of version 0 or 1 at its first byte");
    PG_TRY(find_usage(&u, plan, src, err));
    if (u.twice)
        PG_FAIL(PG_E_UNSUPPORTED, "one tensor would become two");
    if (!sink && pg_store_others(plan->src))
        PG_FAIL(PG_E_UNSUPPORTED, "it also holds data that would become unreachable: %s",
                pg_store_others(plan->src));
    if (!sink)
        goto done;
    if (u.more)
        PG_FAIL(PG_E_UNSUPPORTED, "a tensor has attributes, which a new file does not get");
    if (u.dropped > (u.used + u.dropped) / DROPPED_SHARE + DROPPED_BYTES)
        PG_FAIL(PG_E_UNSUPPORTED, "the space of the removed data would stay in the file");
    if (when == PG_RELINK_IF_CHEAPER && !u.filtered && !pg__sink_clones(sink, src->io))
        PG_FAIL(PG_E_UNSUPPORTED, "a fresh file costs no more");
done:
    return st;
}

/* ---- the links ------------------------------------------------------------------------------- */

struct pg__links {
    const pg__keras_h5 *src;
    pg__h5_out *h5;
    int singly; /* a layer may be inside another one: then no old group may be there */
    int clean;  /* nor one with bytes of deleted links */
    const volatile int *cancel;
    uint32_t *owner;      /* by object: for datasets of the current list: their place in it + 1 */
    uint32_t *unfit, run; /* by object: the last list that the group was found not to fit */
    const char **sorted;  /* the names of the current list */
    size_t n_sorted, cap_sorted;
    pg__str path, from;
};

static pg_status links_init(pg__links *l, const pg__keras_h5 *src, pg__h5_out *h5, pg_err *err)
{
    *l = (pg__links){.src = src, .h5 = h5};
    l->owner = pg__mem_array(pg__h5_n(src->h5), sizeof *l->owner);
    l->unfit = pg__mem_array(pg__h5_n(src->h5), sizeof *l->unfit);
    return l->owner && l->unfit ? PG_OK : pg__nomem(err);
}

static void links_fini(pg__links *l)
{
    pg__mem_free(l->owner);
    pg__mem_free(l->unfit);
    pg__mem_free(l->sorted);
    pg__str_fini(&l->path);
    pg__str_fini(&l->from);
}

static const pg__h5_object *at(const pg__links *l, uint32_t obj)
{
    return pg__h5_at(l->src->h5, obj);
}

pg_status pg__links_one(pg__links *l, const char *path, uint32_t obj, pg_err *err)
{
    pg_status st = PG_OK;
    uint32_t up[PG_LIMIT_GROUP_DEPTH + 2];
    size_t n = 0;
    for (; obj != 0 && n < sizeof up / sizeof *up; obj = at(l, obj)->parent)
        up[n++] = obj;
    l->from.n = 0;
    while (n-- > 0)
        PG_TRY(pg__str_printf(&l->from, err, "/%s", at(l, up[n])->name));
    PG_TRY(pg__h5_out_link(l->h5, path, l->from.s, err));
done:
    return st;
}

/* 1 if `name` consists of the n_prefix bytes of prefix, "/", and the path from group to obj. */
static int is_named(const pg__links *l, const char *name, const char *prefix, size_t n_prefix,
                    uint32_t obj, uint32_t group)
{
    size_t n = strlen(name);
    for (; obj != group; obj = at(l, obj)->parent) {
        const char *part = at(l, obj)->name;
        const size_t k = strlen(part);
        if (n <= k || memcmp(name + n - k, part, k) != 0 || name[n - k - 1] != '/')
            return 0;
        n -= k + 1;
    }
    return n == n_prefix && memcmp(name, prefix, n) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static pg_status sort_names(pg__links *l, const char *const *names, size_t n, pg_err *err)
{
    if (pg__mem_grow(&l->sorted, &l->cap_sorted, n, sizeof *l->sorted))
        return pg__nomem(err);
    for (size_t i = 0; i < n; i++)
        l->sorted[i] = names[i];
    if (n)
        qsort(l->sorted, n, sizeof *l->sorted, by_name);
    l->n_sorted = n;
    return PG_OK;
}

/* How many names of the list sort before the n_prefix bytes of prefix followed by c. */
static size_t n_before(const pg__links *l, const char *prefix, size_t n_prefix, unsigned char c)
{
    size_t lo = 0, hi = l->n_sorted;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const int cmp = strncmp(l->sorted[mid], prefix, n_prefix);
        if (cmp < 0 || (cmp == 0 && (unsigned char)l->sorted[mid][n_prefix] < c))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* 1 if the group holds exactly what the list wants below prefix, under the same names. Objects are
 * numbered depth first, so the contents of a group follow it. */
static int fits(const pg__links *l, uint32_t group, const char *const *names, const char *prefix,
                size_t n_prefix)
{
    size_t n = 0;
    for (uint32_t o = group; o < pg__h5_n(l->src->h5) && (o == group || at(l, o)->parent >= group);
         o++) {
        const pg__h5_object *x = at(l, o);
        const uint32_t owner = l->owner[o];
        if (x->kind == PG_H5_GROUP) {
            if (x->n_attrs || !x->n_children || (l->clean && x->remnants))
                return 0;
        } else if (!owner || !is_named(l, names[owner - 1], prefix, n_prefix, o, group)) {
            return 0;
        } else {
            n++;
        }
    }
    return n == n_before(l, prefix, n_prefix, '/' + 1) - n_before(l, prefix, n_prefix, '/');
}

/* Removes the datasets of a linked group from the list. */
static void forget(pg__links *l, uint32_t group)
{
    for (uint32_t o = group; o < pg__h5_n(l->src->h5) && (o == group || at(l, o)->parent >= group);
         o++)
        l->owner[o] = 0;
}

/* The outermost old group that can serve as a group on the way to names[i]; PG_H5_NONE: none can.
 * *n_prefix: bytes of the name up to there. */
static uint32_t find_group(pg__links *l, const char *const *names, size_t i, uint32_t obj,
                           size_t *n_prefix)
{
    uint32_t best = PG_H5_NONE;
    size_t n = strlen(names[i]);
    if (l->singly)
        return best;
    for (uint32_t g = at(l, obj)->parent; g != 0; obj = g, g = at(l, g)->parent) {
        const char *part = at(l, obj)->name;
        const size_t k = strlen(part);
        if (n <= k || memcmp(names[i] + n - k, part, k) != 0 || names[i][n - k - 1] != '/')
            break;
        n -= k + 1;
        if (l->unfit[g] == l->run || !fits(l, g, names, names[i], n)) {
            l->unfit[g] = l->run; /* if the inner one does not fit, outer ones do not either */
            break;
        }
        best = g;
        *n_prefix = n;
    }
    return best;
}

pg_status pg__links_put(pg__links *l, const char *base, const char *const *names,
                        const size_t *tensors, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    l->run++;
    if (pg__cancelled(l->cancel))
        PG_FAIL(PG_E_CANCELLED, "interrupted; nothing written");
    PG_TRY(sort_names(l, names, n, err));
    for (size_t i = 0; i < n; i++)
        l->owner[l->src->tensors[tensors[i]]] = (uint32_t)i + 1;
    for (size_t i = 0; i < n; i++) {
        const uint32_t obj = l->src->tensors[tensors[i]];
        size_t n_prefix = 0;
        if (!l->owner[obj])
            continue; /* came with its group */
        const uint32_t group = find_group(l, names, i, obj, &n_prefix);
        const int len = (int)(group == PG_H5_NONE ? strlen(names[i]) : n_prefix);
        l->path.n = 0;
        PG_TRY(pg__str_printf(&l->path, err, "%s%s%.*s", base, *base ? "/" : "", len, names[i]));
        PG_TRY(pg__links_one(l, l->path.s, group == PG_H5_NONE ? obj : group, err));
        if (group == PG_H5_NONE)
            l->owner[obj] = 0;
        else
            forget(l, group);
    }
done:
    return st;
}

static pg_status make(pg__relinked *out, const pg__plan *plan, int copy, const volatile int *cancel,
                      pg_err *err)
{
    pg_status st = PG_OK;
    const pg__keras_h5 *src = pg__keras_h5_of(plan->src);
    pg__links links = {0};
    pg__h5_out *h5 = NULL;
    const uint64_t end = pg__io_size(src->io) - pg__h5_trailing(src->h5);
    PG_TRY(pg__h5_out_over(&h5, src->io, end, plan->n_layers, err));
    PG_TRY(links_init(&links, src, h5, err));
    links.clean = copy;
    links.cancel = cancel;
    for (size_t i = 0; i < plan->n_layers; i++)
        links.singly |= strchr(plan->layers[i].name, '/') != NULL;
    PG_TRY(pg__keras_h5_tree(h5, plan, &links, err));
    PG_TRY(pg__h5_out_relinked(out, h5, err));
done:
    pg__h5_out_free(h5);
    links_fini(&links);
    return st;
}

/* ---- the proof ------------------------------------------------------------------------------- */

static pg_status check_one(const pg__keras_h5 *out, size_t dst, const pg__keras_h5 *src, size_t n,
                           pg_err *err)
{
    const pg__h5_object *a = pg__h5_at(src->h5, src->tensors[n]);
    const pg__h5_object *b = dst < out->n_tensors ? pg__h5_at(out->h5, out->tensors[dst]) : NULL;
    if (b && a->addr == b->addr && a->contiguous == b->contiguous &&
        (!a->contiguous || a->n_bytes == 0 || a->off_bytes == b->off_bytes))
        return PG_OK;
    return pg_fail(err, PG_E_IO, "%s: not where it was; nothing written", PG_SHOW(a->name));
}

/* Equal headers mean equal bytes: headers point to the data, and all of it is below the old end. */
static pg_status check(const pg_store *out, const pg__plan *plan, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__keras_h5 *src = pg__keras_h5_of(plan->src), *o = pg__keras_h5_of(out);
    const size_t first = pg_store_n_weights(plan->src);
    size_t n = 0;
    if (!o)
        PG_FAIL(PG_E_IO, "read back as another format; nothing written");
    for (; n < plan->n_items; n++)
        PG_TRY(check_one(o, n, src, plan->items[n].src, err));
    for (size_t i = 0; i < pg_store_n_state(plan->src); i++)
        if (pg__plan_keeps_state(plan, i))
            PG_TRY(check_one(o, n++, src, first + i, err));
done:
    return st;
}

static const pg__run *used(const pg_store *out, size_t *n)
{
    return pg__h5_used(pg__keras_h5_of(out)->h5, n);
}

const pg__relinker pg__keras_h5_relinker = {
    .allowed = allowed, .make = make, .check = check, .used = used};
