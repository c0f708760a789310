/* h5_gheap.c - global heap collections (section III.E): where variable-length strings lie.
 *
 * Strictness matters most here: most crashes of libhdf5 1.10 on damaged Keras files start in these,
 * and a free-space object of size 0 makes it loop for ever in every version up to 2.0.0. A
 * collection is walked once, and each object is copied at most once, no matter how many elements
 * point to it. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/h5/h5_impl.h"

#define MIN_COLLECTION 4096u
#define N_HEAD         16u /* of a collection and of an object: padded to it if lengths are short */

static int by_index(const void *a, const void *b)
{
    const pg__h5_gobj *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

/* Sorts the objects of a collection by index, unless they are sorted, and finds two with the same
 * index. */
static pg_status sort_objects(pg__h5 *h, pg__h5_gobj *o, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    int sorted = 1;
    for (size_t i = 1; i < n; i++)
        sorted &= o[i - 1].index < o[i].index;
    if (!sorted)
        qsort(o, n, sizeof *o, by_index);
    for (size_t i = 1; i < n; i++)
        PG_H5_NEED(o[i - 1].index != o[i].index, "global heap: object %u occurs twice",
                   o[i].index);
done:
    return st;
}

static pg_status read_objects(pg__h5 *h, uint64_t addr, uint64_t size, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_walk *w = h->walk;
    uint8_t head[N_HEAD];
    for (uint64_t at = N_HEAD; size - at >= N_HEAD;) { /* less than a header may be left over */
        PG_TRY(pg__h5_fetch(h, addr + at, head, N_HEAD, PG_H5_P_GHEAP, err));
        pg__h5_cur c = {.p = head, .end = head + N_HEAD};
        const uint32_t index = pg__h5_u32(&c, 2);
        pg__h5_span(&c, 6);
        const uint64_t n = pg__h5_len(h, &c), room = size - at - N_HEAD;
        if (index == 0) {
            PG_H5_NEED(n == size - at, "global heap at byte %s: wrong free space of %s bytes",
                       PG_H5_NUM(addr), PG_H5_NUM(n));
            break;
        }
        PG_H5_NEED(n <= room && (n + 7) / 8 * 8 <= room,
                   "global heap at byte %s: object of %s bytes where %s are left", PG_H5_NUM(addr),
                   PG_H5_NUM(n), PG_H5_NUM(room));
        if (pg__mem_grow(&w->gobjs, &w->cap_gobjs, w->n_gobjs + 1, sizeof *w->gobjs))
            PG_TRY(pg__nomem(err));
        w->gobjs[w->n_gobjs++] = (pg__h5_gobj){.index = index, .at = addr + at + N_HEAD, .n = n};
        at += N_HEAD + (n + 7) / 8 * 8;
    }
done:
    return st;
}

static pg_status read_collection(pg__h5 *h, uint64_t addr, uint64_t *found, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_walk *w = h->walk;
    uint8_t head[N_HEAD];
    const size_t first = w->n_gobjs;
    PG_TRY(pg__h5_fetch(h, addr, head, N_HEAD, PG_H5_P_GHEAP, err));
    pg__h5_cur c = {.p = head + 8, .end = head + N_HEAD};
    const uint64_t size = pg__h5_len(h, &c);
    PG_H5_NEED(!memcmp(head, "GCOL\1", 5), "no global heap at byte %s", PG_H5_NUM(addr));
    PG_H5_NEED(size >= MIN_COLLECTION, "global heap of %s bytes is too small", PG_H5_NUM(size));
    PG_TRY(pg__h5_own(h, addr, size, PG_H5_P_GHEAP, err));
    PG_TRY(read_objects(h, addr, size, err));
    PG_TRY(sort_objects(h, w->gobjs + first, w->n_gobjs - first, err));
    *found = (uint64_t)first << 16 | (w->n_gobjs - first); /* no more than there are indices */
    PG_TRY(pg__h5_map_put(&w->heaps, addr + 1, *found, err));
done:
    return st;
}

pg_status pg__h5_gheap_text(pg__h5 *h, uint64_t addr, uint32_t index, uint64_t n, const char **text,
                            pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_walk *w = h->walk;
    uint64_t found = 0;
    char *copy;
    if (addr == PG_H5_UNDEF || !pg__h5_map_get(&w->heaps, addr + 1, &found))
        PG_TRY(read_collection(h, addr, &found, err));
    const size_t count = (size_t)(found & 0xFFFF);
    pg__h5_gobj *o = w->gobjs + (found >> 16), *hit = NULL;
    if (index && index <= count && o[index - 1].index == index) /* only speed */
        hit = &o[index - 1];
    else if (count)
        hit = bsearch(&(pg__h5_gobj){.index = index}, o, count, sizeof *o, by_index);
    PG_H5_NEED(hit, "global heap at byte %s has no object %u", PG_H5_NUM(addr), index);
    PG_H5_NEED(hit->n == n, "string of %s bytes, its heap object has %s", PG_H5_NUM(n),
               PG_H5_NUM(hit->n));
    if (!hit->text) {
        if (n > PG_LIMIT_ATTR_BYTES)
            PG_H5_FAIL(PG_E_LIMIT, "string of %s bytes is too long", PG_H5_NUM(n));
        copy = pg__h5_take(h, (size_t)n + 1);
        if (!copy)
            PG_TRY(pg__nomem(err));
        PG_TRY(pg__h5_fetch(h, hit->at, copy, (size_t)n, PG_H5_P_GHEAP, err));
        hit->text = copy;
    }
    *text = hit->text;
done:
    return st;
}
