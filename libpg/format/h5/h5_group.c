/* h5_group.c - the links of a group. Old groups keep them in a B-tree of symbol table nodes with
 * the names in a local heap (sections III.A.1, III.B, III.C, III.D), new ones in link messages of
 * their own header (IV.A.2.g). Only hard links are followed: Keras writes no soft or external links
 * into weight files, and an external one would read a file that nobody named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "format/h5/h5_impl.h"

enum { LINK_INFO = 2, LINK = 6 };
enum { HARD = 0, SOFT = 1, EXTERNAL = 64 };

/* "GROUP/NAME: text" */
static pg_status bad_link(const pg__h5 *h, pg_err *err, pg_status code, const char *name,
                          const char *text)
{
    char path[200];
    if (h->walk->obj == 0)
        return pg_fail(err, code, "%s: %s", PG_SHOW(name), text);
    return pg_fail(err, code, "%s/%s: %s", pg__h5_path(h, h->walk->obj, path, sizeof path),
                   PG_SHOW(name), text);
}

pg_status pg__h5_link_refuse(const pg__h5 *h, const char *name, const char *kind,
                             const char *target, pg_err *err)
{
    char text[220];
    snprintf(text, sizeof text, "%s link to \"%s\" is not followed", kind, PG_SHOW(target));
    return bad_link(h, err, PG_E_FORMAT, name, text);
}

pg_status pg__h5_link_add(pg__h5 *h, const char *name, uint64_t addr, uint32_t depth, pg_err *err)
{
    pg__h5_walk *w = h->walk;
    pg_status st = PG_OK;
    PG_H5_NEED(name[0] && !strchr(name, '/') && strcmp(name, ".") != 0,
               "link with the invalid name \"%s\"", PG_SHOW(name));
    if (depth >= PG_LIMIT_GROUP_DEPTH)
        PG_TRY(bad_link(h, err, PG_E_LIMIT, name, "groups are nested more than 64 deep"));
    if (h->n_objs + w->n_links >= PG_LIMIT_OBJECTS)
        PG_H5_FAIL(PG_E_LIMIT, "more than %u objects in the file", PG_LIMIT_OBJECTS);
    if (pg__mem_grow(&w->links, &w->cap_links, w->n_links + 1, sizeof *w->links))
        PG_TRY(pg__nomem(err));
    w->links[w->n_links++] =
        (pg__h5_link){.name = name, .addr = addr, .parent = w->obj, .depth = depth + 1};
done:
    return st;
}

/* Puts the links from `first` on into their places as children of walk.obj and reverses them, so
 * that the first of them is the next to be visited. */
static pg_status place(pg__h5 *h, size_t first, pg_err *err)
{
    pg__h5_walk *w = h->walk;
    const size_t n = w->n_links - first;
    if (pg__mem_grow(&h->children, &h->cap_children, h->n_children + n, sizeof *h->children))
        return pg__nomem(err);
    h->objs[w->obj].first_child = (uint32_t)h->n_children;
    h->objs[w->obj].n_children = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        w->links[first + i].slot = (uint32_t)h->n_children++;
    for (size_t i = 0; i < n / 2; i++) {
        const pg__h5_link swap = w->links[first + i];
        w->links[first + i] = w->links[first + n - 1 - i];
        w->links[first + n - 1 - i] = swap;
    }
    return PG_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pg__h5_link *)a)->name, ((const pg__h5_link *)b)->name);
}

pg_status pg__h5_links_end(pg__h5 *h, size_t first, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_walk *w = h->walk;
    if (w->n_links > first) /* the second check: qsort() must not get NULL, even with no elements */
        qsort(w->links + first, w->n_links - first, sizeof *w->links, by_name);
    for (size_t i = first + 1; i < w->n_links; i++)
        PG_H5_NEED(strcmp(w->links[i - 1].name, w->links[i].name), "two links with the name \"%s\"",
                   PG_SHOW(w->links[i].name));
    PG_TRY(place(h, first, err));
done:
    return st;
}

/* ---- old groups */

typedef struct names {
    pg__h5 *h;
    uint8_t *bytes; /* the local heap's data */
    size_t n;
    size_t n_used;    /* by names so far: they must not share bytes */
    size_t n_set;     /* nonzero bytes of what is in use: names, heads of free blocks */
    const char *prev; /* name, to check that they ascend */
    uint32_t depth;
} names;

/* The name at a heap offset, or NULL. */
static const char *name_at(const names *s, uint64_t off)
{
    if (off >= s->n || !memchr(s->bytes + off, 0, s->n - (size_t)off))
        return NULL;
    return (const char *)s->bytes + off;
}

static const char *key_name(const names *s, const uint8_t *key)
{
    pg__h5_cur c = {.p = key, .end = key + s->h->len_size};
    return name_at(s, pg__h5_len(s->h, &c));
}

static int key_order(void *ctx, const uint8_t *a, const uint8_t *b)
{
    const char *x = key_name(ctx, a), *y = key_name(ctx, b);
    const int cmp = x && y ? strcmp(y, x) : -1;
    return (cmp > 0) - (cmp < 0);
}

/* Walks the free list: offset of the next block and size of this one, 1 = the end. Blocks of a
 * sound heap do not overlap, so together they are no larger than it; a loop is. */
static pg_status check_free(const pg__h5 *h, names *s, uint64_t off, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t n_head = 2 * h->len_size;
    uint64_t total = 0;
    while (off != 1) {
        PG_H5_NEED(off % 8 == 0 && off < s->n && n_head <= s->n - off,
                   "misplaced free block of a local heap at %s", PG_H5_NUM(off));
        pg__h5_cur c = {.p = s->bytes + off, .end = s->bytes + s->n};
        const uint64_t next = pg__h5_len(h, &c), size = pg__h5_len(h, &c);
        PG_H5_NEED(size >= n_head && size <= s->n - off,
                   "free block of %s bytes does not fit its local heap", PG_H5_NUM(size));
        s->n_set += pg__h5_n_set(s->bytes + off, (size_t)n_head);
        total += size;
        PG_H5_NEED(total <= s->n, "free blocks of a local heap overlap (a loop?)");
        off = next;
    }
done:
    return st;
}

static pg_status read_heap(pg__h5 *h, uint64_t addr, names *s, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_cur c;
    const uint64_t n_head = (8 + 2 * h->len_size + h->off_size + 7) / 8 * 8;
    PG_TRY(pg__h5_load(h, addr, n_head, PG_H5_P_HEAP, &c, err));
    const uint8_t *sig = pg__h5_span(&c, 8);
    const uint64_t n = pg__h5_len(h, &c), free_list = pg__h5_len(h, &c);
    const uint64_t data = pg__h5_addr(h, &c);
    PG_H5_NEED(!memcmp(sig, "HEAP\0", 5), "no local heap at byte %s", PG_H5_NUM(addr));
    PG_H5_NEED(n, "local heap at byte %s holds nothing", PG_H5_NUM(addr));
    PG_TRY(pg__h5_own(h, data, n, PG_H5_P_NAMES, err));
    s->bytes = pg__mem_array((size_t)n, 1);
    if (!s->bytes)
        PG_TRY(pg__nomem(err));
    s->n = (size_t)n;
    PG_TRY(pg__h5_fetch(h, data, s->bytes, s->n, PG_H5_P_NAMES, err));
    PG_TRY(check_free(h, s, free_list, err));
done:
    return st;
}

/* One entry of a symbol table node: name, object header, cached data of the object. */
static pg_status read_entry(names *s, pg__h5_cur *c, const char *lo, const char *hi, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5 *h = s->h;
    const char *name = name_at(s, pg__h5_len(h, c)); /* libhdf5's width of it, not that in the
                                                        text */
    const uint64_t addr = pg__h5_addr(h, c);
    const unsigned cached = pg__h5_u32(c, 4);
    pg__h5_span(c, 4);
    const unsigned target = pg__h5_u32(c, 4);
    pg__h5_span(c, 12);
    PG_H5_NEED(name, "name of a link leaves its heap");
    const size_t n = strlen(name);
    s->n_used += n + 1;
    s->n_set += n;
    if (n > PG_LIMIT_NAME_BYTES)
        PG_H5_FAIL(PG_E_LIMIT, "name of %zu bytes is too long", n);
    PG_H5_NEED(s->n_used <= s->n, "names of links overlap");
    PG_H5_NEED((!s->prev || strcmp(s->prev, name) < 0) && strcmp(lo, name) < 0 &&
                   strcmp(name, hi) <= 0,
               "links are out of order at \"%s\"", PG_SHOW(name));
    PG_H5_NEED(cached <= 2, "link \"%s\" of unknown type %u", PG_SHOW(name), cached);
    if (cached == 2) {
        const char *to = name_at(s, target);
        PG_TRY(pg__h5_link_refuse(h, name, "soft", to ? to : "?", err));
    }
    s->prev = pg__h5_text(h, name, n);
    if (!s->prev)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__h5_link_add(h, s->prev, addr, s->depth, err));
done:
    return st;
}

static pg_status read_leaf(void *ctx, const uint8_t *key, const uint8_t *next, uint64_t child,
                           pg_err *err)
{
    pg_status st = PG_OK;
    names *s = ctx;
    pg__h5 *h = s->h;
    pg__h5_cur c;
    const uint64_t n_entry = h->len_size + h->off_size + 24;
    PG_TRY(pg__h5_load(h, child, 8 + 2 * h->leaf_k * n_entry, PG_H5_P_SNOD, &c, err));
    const uint8_t *sig = pg__h5_span(&c, 6);
    const unsigned n = pg__h5_u32(&c, 2);
    PG_H5_NEED(!memcmp(sig, "SNOD\1", 5), "no symbol table node at byte %s", PG_H5_NUM(child));
    PG_H5_NEED(n && n <= 2 * h->leaf_k, "symbol table node at byte %s has %u of %u entries",
               PG_H5_NUM(child), n, 2 * h->leaf_k);
    for (unsigned i = 0; i < n; i++) /* they have names, because the tree compared the keys */
        PG_TRY(read_entry(s, &c, key_name(s, key), key_name(s, next), err));
done:
    return st;
}

pg_status pg__h5_group_old(pg__h5 *h, pg__h5_cur *c, uint32_t depth, pg_err *err)
{
    pg_status st = PG_OK;
    names s = {.h = h, .depth = depth};
    const pg__h5_btree tree = {.node_type = 0,
                               .k = h->group_k,
                               .n_key = h->len_size,
                               .ctx = &s,
                               .order = key_order,
                               .leaf = read_leaf};
    const uint64_t root = pg__h5_addr(h, c), heap = pg__h5_addr(h, c);
    const size_t first = h->walk->n_links;
    PG_H5_NEED(!c->cut, "symbol table message is cut short");
    PG_TRY(read_heap(h, heap, &s, err));
    PG_TRY(pg__h5_btree_walk(h, &tree, root, err));
    h->walk->remnants |= pg__h5_n_set(s.bytes, s.n) != s.n_set;
    PG_TRY(place(h, first, err));
done:
    pg__mem_free(s.bytes);
    return st;
}

/* ---- new groups */

static pg_status read_info(pg__h5 *h, pg__h5_cur c, pg_err *err)
{
    pg_status st = PG_OK;
    const unsigned version = pg__h5_u32(&c, 1), flags = pg__h5_u32(&c, 1);
    pg__h5_span(&c, flags & 1 ? 8 : 0);
    const uint64_t heap = pg__h5_addr(h, &c);
    const uint64_t by_name = pg__h5_addr(h, &c);
    const uint64_t by_order = flags & 2 ? pg__h5_addr(h, &c) : PG_H5_UNDEF;
    PG_H5_NEED(!c.cut && version == 0 && flags <= 3, "link info: unknown version %u or flags 0x%x",
               version, flags);
    if (heap != PG_H5_UNDEF)
        PG_H5_UNCOVERED("links in dense storage are not supported");
    PG_H5_NEED(by_name == PG_H5_UNDEF && by_order == PG_H5_UNDEF,
               "index of links that are missing");
done:
    return st;
}

static pg_status refuse_other(pg__h5 *h, pg__h5_cur *c, unsigned type, const char *name,
                              pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t n = pg__h5_uint(c, 2);
    const uint8_t *value = pg__h5_span(c, n);
    char text[40], target[120] = "";
    PG_H5_NEED(value && n, "link \"%s\" is cut short", PG_SHOW(name));
    const size_t skip = type == EXTERNAL; /* version and flags come first */
    const size_t n_value = (size_t)n - skip < sizeof target ? (size_t)n - skip : sizeof target - 1;
    memcpy(target, value + skip, n_value);
    if (type == SOFT || type == EXTERNAL)
        PG_TRY(pg__h5_link_refuse(h, name, type == SOFT ? "soft" : "external", target, err));
    snprintf(text, sizeof text, "link of type %u is not followed", type);
    PG_TRY(bad_link(h, err, PG_E_FORMAT, name, text));
done:
    return st;
}

static pg_status read_link(pg__h5 *h, pg__h5_cur *c, uint32_t depth, pg_err *err)
{
    pg_status st = PG_OK;
    const unsigned version = pg__h5_u32(c, 1), flags = pg__h5_u32(c, 1);
    const unsigned type = flags & 8 ? pg__h5_u32(c, 1) : HARD;
    pg__h5_span(c, flags & 4 ? 8 : 0); /* creation order */
    const unsigned charset = flags & 16 ? pg__h5_u32(c, 1) : 0;
    const uint64_t n = pg__h5_uint(c, 1u << (flags & 3));
    const uint8_t *bytes = pg__h5_span(c, n); /* a message cannot exceed the limit for names */
    PG_H5_NEED(bytes && version == 1 && flags < 32 && charset <= 1 && n,
               "link message: unknown version %u or flags 0x%x", version, flags);
    PG_H5_NEED(!memchr(bytes, 0, (size_t)n), "name of a link holds a NUL");
    const char *name = pg__h5_text(h, bytes, (size_t)n);
    if (!name)
        PG_TRY(pg__nomem(err));
    if (type != HARD)
        PG_TRY(refuse_other(h, c, type, name, err));
    const uint64_t addr = pg__h5_addr(h, c);
    PG_H5_NEED(!c->cut, "link \"%s\" is cut short", PG_SHOW(name));
    PG_TRY(pg__h5_link_add(h, name, addr, depth, err));
done:
    return st;
}

pg_status pg__h5_group_new(pg__h5 *h, uint32_t depth, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_walk *w = h->walk;
    const size_t first = w->n_links;
    for (size_t i = 0; i < w->n_msgs; i++) {
        pg__h5_cur c = pg__h5_msg_cur(h, &w->msgs[i]);
        if (w->msgs[i].type == LINK_INFO)
            PG_TRY(read_info(h, c, err));
        else if (w->msgs[i].type == LINK)
            PG_TRY(read_link(h, &c, depth, err));
    }
    w->remnants = 1; /* not looked for */
    PG_TRY(pg__h5_links_end(h, first, err));
done:
    return st;
}
