/* h5_reader.c - the walk over a whole HDF5 file, and access to the result.
 *
 * Objects are visited depth first from a list of links still to follow, without recursion. Each
 * object header is read once: a dataset may have several names, a group may not (that would be a
 * loop, or a lattice with more paths than any limit). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "format/h5/h5_impl.h"

static pg_status add_object(pg__h5 *h, const pg__h5_link *l, pg_err *err)
{
    const uint32_t obj = (uint32_t)h->n_objs;
    if (pg__mem_grow(&h->objs, &h->cap_objs, h->n_objs + 1, sizeof *h->objs) ||
        pg__mem_grow(&h->more, &h->cap_more, h->n_objs + 1, sizeof *h->more))
        return pg__nomem(err);
    h->n_objs++;
    h->objs[obj] =
        (pg__h5_object){.name = l->name, .kind = PG_H5_GROUP, .parent = l->parent, .addr = l->addr};
    h->more[obj] = (pg__h5_more){.chunked = PG_H5_NONE};
    if (l->slot != PG_H5_NONE)
        h->children[l->slot] = obj;
    h->walk->obj = obj;
    return PG_OK;
}

/* The object of walk.obj has been met before, as `first`. */
static pg_status meet_again(pg__h5 *h, uint32_t first, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_object *o = &h->objs[h->walk->obj];
    const pg__h5_object *other = &h->objs[first];
    if (other->kind == PG_H5_DATASET) {
        const char *name = o->name;
        const uint32_t parent = o->parent;
        *o = *other;
        o->name = name;
        o->parent = parent;
        h->more[h->walk->obj] = h->more[first];
        return PG_OK;
    }
    for (uint32_t a = o->parent; a != PG_H5_NONE; a = h->objs[a].parent)
        PG_H5_NEED(a != first, "loop: it is one of the groups that contain it");
    PG_H5_FAIL(PG_E_UNSUPPORTED, "group with two names (hard links)");
done:
    return st;
}

static pg_status visit(pg__h5 *h, const pg__h5_link *l, pg__h5_read_object read, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t first = 0;
    PG_TRY(add_object(h, l, err));
    PG_H5_NEED(l->addr != PG_H5_UNDEF, "link without an address");
    if (pg__h5_map_get(&h->walk->seen, l->addr + 1, &first)) {
        PG_TRY(meet_again(h, (uint32_t)first, err));
    } else {
        PG_TRY(pg__h5_map_put(&h->walk->seen, l->addr + 1, h->walk->obj, err));
        PG_TRY(read(h, l->addr, l->depth, err));
    }
done:
    return st;
}

pg_status pg__h5_walk_all(pg__h5 *h, uint64_t root, pg__h5_read_object read, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_walk *w = h->walk;
    pg__h5_link link = {.name = "", .addr = root, .parent = PG_H5_NONE, .slot = PG_H5_NONE};
    for (;;) {
        PG_TRY(visit(h, &link, read, err));
        if (!w->n_links)
            break;
        link = w->links[--w->n_links];
    }
    PG_H5_NEED(h->objs[0].kind == PG_H5_GROUP, "the root is not a group");
done:
    return st;
}

static pg_status read_object(pg__h5 *h, uint64_t addr, uint32_t depth, pg_err *err)
{
    const uint32_t obj = h->walk->obj;
    pg_status st = pg__h5_header_read(h, addr, err);
    if (st == PG_OK)
        st = pg__h5_object_read(h, depth, err);
    h->objs[obj].remnants = h->walk->remnants;
    return st;
}

pg_status pg__h5_new(pg__h5 **out, pg__io *io, pg_err *err)
{
    pg__h5 *h = pg__mem_array(1, sizeof *h);
    if (!h)
        return pg__nomem(err);
    h->io = pg__io_ref(io);
    h->end = pg__io_size(io);
    h->decoded.chunked = PG_H5_NONE;
    const pg_status st = pg__h5_walk_new(&h->walk, h->end, err);
    if (st == PG_OK)
        *out = h;
    else
        pg__h5_close(h);
    return st;
}

static pg_status open_with(pg__h5 **out, pg__io *io, pg__h5_read_object read, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5 *h = NULL;
    PG_TRY(pg__h5_new(&h, io, err));
    PG_TRY(pg__h5_super_read(h, err));
    PG_TRY(pg__h5_walk_all(h, h->root, read, err));
    PG_TRY(pg__h5_check_extents(h, err));
    pg__h5_walk_free(h->walk);
    h->walk = NULL;
    *out = h;
    h = NULL;
done:
    if (h && h->uncovered)
        pg_err_do(err, PG_DO_REPACK, pg__io_name(io));
    pg__h5_close(h);
    return st;
}

static pg_status read_root(pg__h5 *h, uint64_t addr, uint32_t depth, pg_err *err)
{
    return h->walk->obj == 0 ? read_object(h, addr, depth, err) : PG_OK;
}

pg_status pg__h5_open_root(pg__h5 **out, pg__io *io, pg_err *err)
{
    return open_with(out, io, read_root, err);
}

pg_status pg__h5_open(pg__h5 **out, pg__io *io, pg_err *err)
{
    return open_with(out, io, read_object, err);
}

void pg__h5_close(pg__h5 *h)
{
    if (!h)
        return;
    pg__h5_walk_free(h->walk);
    pg__h5_decoded_fini(&h->decoded);
    pg__h5_arena_fini(&h->arena);
    pg__mem_free(h->objs);
    pg__mem_free(h->more);
    pg__mem_free(h->children);
    pg__mem_free(h->attrs);
    pg__mem_free(h->chunked);
    pg__mem_free(h->chunks);
    pg__mem_free(h->used);
    pg__io_close(h->io);
    pg__mem_free(h);
}

uint32_t pg__h5_n(const pg__h5 *h)
{
    return (uint32_t)h->n_objs;
}

const pg__h5_object *pg__h5_at(const pg__h5 *h, uint32_t obj)
{
    return obj < h->n_objs ? &h->objs[obj] : NULL;
}

uint32_t pg__h5_child(const pg__h5 *h, uint32_t group, uint32_t k)
{
    const pg__h5_object *o = pg__h5_at(h, group);
    return o && k < o->n_children ? h->children[o->first_child + k] : PG_H5_NONE;
}

/* The child with the name s[0, n), which contains no NUL. */
static uint32_t find_child(const pg__h5 *h, const pg__h5_object *o, const char *s, size_t n)
{
    uint32_t lo = 0, hi = o->n_children;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2, obj = h->children[o->first_child + mid];
        const char *name = h->objs[obj].name;
        int cmp = strncmp(name, s, n);
        if (cmp == 0)
            cmp = name[n] != 0;
        if (cmp == 0)
            return obj;
        if (cmp < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return PG_H5_NONE;
}

uint32_t pg__h5_find(const pg__h5 *h, uint32_t from, const char *path)
{
    uint32_t obj = from < h->n_objs ? from : PG_H5_NONE;
    do { /* no link has the name "" or "." */
        const size_t n = strcspn(path, "/");
        if (obj == PG_H5_NONE || (n == 2 && path[0] == '.' && path[1] == '.'))
            return PG_H5_NONE;
        obj = find_child(h, &h->objs[obj], path, n);
        path += n;
        path += strspn(path, "/");
    } while (*path);
    return obj;
}

int pg__h5_path_compare(const char *a, const char *b)
{
    for (;; a++, b++) {
        for (; *a == '/' && (a[1] == '/' || !a[1]); a++)
            ;
        for (; *b == '/' && (b[1] == '/' || !b[1]); b++)
            ;
        if (*a != *b || !*a)
            return (unsigned char)*a - (unsigned char)*b;
    }
}

/* The end of a path says more than its beginning, so the beginning is cut if it does not fit. */
const char *pg__h5_path(const pg__h5 *h, uint32_t obj, char *buf, size_t cap)
{
    uint32_t up[PG_LIMIT_GROUP_DEPTH + 2]; /* pg__h5_link_add() limits the depth */
    uint32_t n = 0;
    size_t at = 0, total = sizeof ".../" + 3;
    int cut = 0;
    if (cap < 16) {
        if (cap)
            buf[0] = 0;
        return buf;
    }
    for (uint32_t o = obj; o < h->n_objs && o != 0; o = h->objs[o].parent) {
        total += strlen(h->objs[o].name) + 1;
        cut = n && total > cap;
        if (!cut)
            up[n++] = o;
    }
    at = (size_t)snprintf(buf, cap, "%s", n == 0 ? "/" : cut ? ".../" : "");
    while (n-- && cap - at > 8) { /* escapes may still make it longer than expected */
        pg__printable(buf + at, cap - at - 1, h->objs[up[n]].name, strlen(h->objs[up[n]].name));
        at += strlen(buf + at);
        if (n)
            buf[at++] = '/';
        buf[at] = 0;
    }
    return buf;
}

const pg__h5_attr *pg__h5_attr_at(const pg__h5 *h, uint32_t obj, uint32_t k)
{
    const pg__h5_object *o = pg__h5_at(h, obj);
    return o && k < o->n_attrs ? &h->attrs[h->more[obj].first_attr + k] : NULL;
}

const pg__h5_attr *pg__h5_attr_find(const pg__h5 *h, uint32_t obj, const char *name)
{
    const pg__h5_attr *a = pg__h5_attr_at(h, obj, 0);
    const uint32_t n = a ? h->objs[obj].n_attrs : 0;
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(a[i].name, name))
            return &a[i];
    return NULL;
}

size_t pg__h5_unread(const pg__h5 *h, const char *names[PG_H5_UNREAD])
{
    for (size_t i = 0; i < PG_H5_UNREAD; i++)
        names[i] = i < h->n_unread ? h->unread[i] : NULL;
    return h->n_unread;
}

const pg__run *pg__h5_used(const pg__h5 *h, size_t *n)
{
    *n = h->n_used;
    return h->used;
}

uint64_t pg__h5_user_block(const pg__h5 *h)
{
    return h->base;
}

uint64_t pg__h5_trailing(const pg__h5 *h)
{
    return pg__io_size(h->io) - h->end;
}
