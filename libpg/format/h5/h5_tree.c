/* h5_tree.c - collects the objects of a new file. What is known is encoded at once; addresses are
 * filled in by h5_tree_write.c.
 *
 * Links and attributes are found by name through one index, a crit-bit tree: a branch says which
 * bit decides, so that no choice of names makes it slower than they are long. */
#include "format/h5/h5_tree.h"

#include <stdio.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/h5/h5_encode.h"
#include "format/h5/h5_tree_impl.h"

enum { SPACE = 1, TYPE = 3, FILL = 5, LAYOUT = 8, ATTRIBUTE = 12 }; /* messages */

#define NO_NODE    UINT32_MAX
#define MOST_NODES (UINT32_MAX / 2) /* the index uses one bit */
#define MOST_NAME  (UINT32_MAX / 2) /* bytes */
#define MOST_ATTRS 65000u           /* a header counts its messages in two bytes */
#define HEAP_BYTES 4096u            /* of a global heap collection; more for a longer string */
#define HEAP_HEAD  16u              /* of a collection, and of each object in it */

static pg_status refuse(const char *path, const char *what, const char *why, pg_err *err)
{
    return pg_fail(err, PG_E_FORMAT, "%s: HDF5 cannot %s: %s", *path ? PG_SHOW(path) : "/", what,
                   why);
}

/* Appends n zeros; *at: the first. */
static pg_status add_zeros(pg__h5_bytes *b, size_t n, unsigned char **at, pg_err *err)
{
    size_t all;
    if (__builtin_add_overflow(b->n, n, &all) || pg__mem_grow(&b->p, &b->cap, all, 1))
        return pg__nomem(err);
    *at = b->p + b->n;
    memset(*at, 0, n);
    b->n = all;
    return PG_OK;
}

/* ---- the index ------------------------------------------------------------------------------- */

#define KEY_HEAD 5u

/* Whose it is, whether it is an attribute, then its name; zeros follow. */
typedef struct key {
    unsigned char head[KEY_HEAD];
    const char *name;
    size_t n;
    uint32_t near; /* found by find(): the node that agrees with it for longest; or NO_NODE */
} key;

static key key_of(uint32_t parent, int is_attr, const char *name, size_t n)
{
    key k = {.name = name, .n = n, .near = NO_NODE};
    pg__put_le(k.head, parent, 4);
    k.head[4] = is_attr != 0;
    return k;
}

static key key_at(const pg__h5_tree *t, uint32_t node)
{
    const pg__h5_node *o = &t->nodes[node];
    const char *name = (const char *)t->names.p + o->name;
    return key_of(o->parent, o->kind == PG_H5_N_ATTR, name, strlen(name));
}

static unsigned byte_of(const key *k, size_t i)
{
    if (i < KEY_HEAD)
        return k->head[i];
    return i - KEY_HEAD < k->n ? (unsigned char)k->name[i - KEY_HEAD] : 0;
}

/* mask: all bits but the one that decides. */
static unsigned side(const key *k, size_t byte, unsigned mask)
{
    return (1 + (mask | byte_of(k, byte))) >> 8;
}

/* A branch is called by twice the number of its node, plus 1; a name by twice that. */
static uint32_t nearest(const pg__h5_tree *t, const key *k)
{
    uint32_t at = t->top;
    while (at & 1) {
        const pg__h5_branch *b = &t->branches[at >> 1];
        at = b->to[side(k, b->byte, b->mask)];
    }
    return at >> 1;
}

/* The byte in which two keys differ first; 0 if they are equal. */
static int differ(const key *a, const key *b, uint32_t *byte)
{
    const size_t n = KEY_HEAD + (a->n > b->n ? a->n : b->n);
    size_t i = 0;
    while (i < n && byte_of(a, i) == byte_of(b, i))
        i++;
    *byte = (uint32_t)i;
    return i < n;
}

static uint32_t find(const pg__h5_tree *t, key *k)
{
    uint32_t byte;
    if (t->top == NO_NODE)
        return NO_NODE;
    k->near = nearest(t, k);
    const key other = key_at(t, k->near);
    return differ(k, &other, &byte) ? NO_NODE : k->near;
}

/* Node `node` has the key k, which find() did not find. */
static void put(pg__h5_tree *t, uint32_t node, const key *k)
{
    if (k->near == NO_NODE) {
        t->top = node << 1;
        return;
    }
    pg__h5_branch *o = &t->branches[node];
    const key other = key_at(t, k->near);
    (void)differ(k, &other, &o->byte);
    unsigned bit = byte_of(k, o->byte) ^ byte_of(&other, o->byte);
    while (bit & (bit - 1))
        bit &= bit - 1;
    o->mask = (unsigned char)~bit;
    uint32_t *from = &t->top;
    while (*from & 1) {
        pg__h5_branch *b = &t->branches[*from >> 1];
        if (b->byte > o->byte || (b->byte == o->byte && b->mask > o->mask))
            break;
        from = &b->to[side(k, b->byte, b->mask)];
    }
    const unsigned mine = side(k, o->byte, o->mask);
    o->to[mine] = node << 1;
    o->to[!mine] = *from;
    *from = node << 1 | 1;
}

static pg_status add_node(uint32_t *out, pg__h5_tree *t, pg__h5_node_kind kind, const key *k,
                          pg_err *err)
{
    unsigned char *name = NULL;
    pg_status st = PG_OK;
    if (t->n_nodes >= MOST_NODES || k->n > MOST_NAME)
        return pg_fail(err, PG_E_LIMIT, "more objects, or a longer name, than a file may have");
    if (pg__mem_grow(&t->nodes, &t->cap_nodes, t->n_nodes + 1, sizeof *t->nodes) ||
        pg__mem_grow(&t->branches, &t->cap_branches, t->n_nodes + 1, sizeof *t->branches))
        return pg__nomem(err);
    const uint32_t node = (uint32_t)t->n_nodes;
    t->nodes[node] =
        (pg__h5_node){.kind = kind, .parent = (uint32_t)pg__le(k->head, 4), .name = t->names.n};
    PG_TRY(add_zeros(&t->names, k->n + 1, &name, err));
    memcpy(name, k->name, k->n);
    if (node)
        put(t, node, k);
    t->n_nodes++;
    *out = node;
done:
    return st;
}

pg_status pg__h5_tree_new(pg__h5_tree **out, pg_err *err)
{
    uint32_t root;
    const key k = {.name = ""};
    pg__h5_tree *t = pg__mem_array(1, sizeof *t);
    if (!t)
        return pg__nomem(err);
    t->top = NO_NODE;
    const pg_status st = add_node(&root, t, PG_H5_N_GROUP, &k, err);
    if (st == PG_OK)
        *out = t;
    else
        pg__h5_tree_free(t);
    return st;
}

void pg__h5_tree_free(pg__h5_tree *t)
{
    if (!t)
        return;
    pg__mem_free(t->nodes);
    pg__mem_free(t->branches);
    pg__mem_free(t->names.p);
    pg__mem_free(t->text.p);
    pg__mem_free(t->heaps.p);
    pg__mem_free(t->kids);
    pg__mem_free(t->places);
    pg__mem_free(t);
}

/* ---- groups and datasets --------------------------------------------------------------------- */

/* A path and what shall be done there, for messages. */
typedef struct way {
    const char *path, *what;
    int make; /* groups that are missing */
} way;

static pg_status add_object(uint32_t *out, pg__h5_tree *t, pg__h5_node_kind kind, const key *k,
                            pg_err *err)
{
    const pg_status st = add_node(out, t, kind, k, err);
    if (st == PG_OK)
        t->nodes[t->nodes[*out].parent].n_kids++;
    return st;
}

/* The object at the first n bytes of a path. */
static pg_status follow(uint32_t *out, pg__h5_tree *t, const way *w, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    uint32_t at = 0;
    for (const char *p = w->path, *end = p + n; p < end; p += strspn(p, "/")) {
        const size_t len = strcspn(p, "/");
        key k = key_of(at, 0, p, len);
        if (t->nodes[at].kind != PG_H5_N_GROUP)
            return refuse(w->path, w->what, "not a group", err);
        const uint32_t next = find(t, &k);
        if (next != NO_NODE)
            at = next;
        else if (w->make)
            PG_TRY(add_object(&at, t, PG_H5_N_GROUP, &k, err));
        else
            return refuse(w->path, w->what, "object doesn't exist", err);
        p += len;
    }
    *out = at;
done:
    return st;
}

pg_status pg__h5_tree_group(pg__h5_tree *t, const char *path, pg_err *err)
{
    const way w = {path, "create this group", 1};
    uint32_t at;
    const pg_status st = follow(&at, t, &w, strlen(path), err);
    if (st == PG_OK && t->nodes[at].kind != PG_H5_N_GROUP)
        return refuse(path, w.what, "not a group", err);
    return st;
}

/* The message at p; its body follows. */
static void head(unsigned char *p, unsigned type, size_t n, unsigned flags)
{
    pg__put_le(p, type, 2);
    pg__put_le(p + 2, n, 2);
    p[4] = (unsigned char)flags;
}

/* Space, type, fill value, layout. Whoever creates a dataset allocates it, and writes no fill
 * values. */
static pg_status encode_dataset(pg__h5_tree *t, pg__h5_node *o, const pg__h5_dtype *type,
                                uint32_t rank, const uint64_t *dims, uint64_t n_bytes, pg_err *err)
{
    enum { CONSTANT = 1, FILL_BYTES = 8, LAYOUT_BYTES = 24 };
    static const unsigned char fill[4] = {2, 1, 1, 1}; /* version; early; never; it has one */
    unsigned char space[PG_H5_SPACE_BYTES] = {0}, kind[PG_H5_TYPE_BYTES] = {0}, *p = NULL;
    const size_t n_space = pg__h5_pad8(pg__h5_encode_space(space, rank, dims));
    const size_t n_type = pg__h5_pad8(pg__h5_encode_type(kind, type));
    o->text = t->text.n;
    o->n_text = 4 * PG_H5_MSG_HEAD + n_space + n_type + FILL_BYTES + LAYOUT_BYTES;
    const pg_status st = add_zeros(&t->text, o->n_text, &p, err);
    if (st != PG_OK)
        return st;
    head(p, SPACE, n_space, 0);
    memcpy(p + PG_H5_MSG_HEAD, space, n_space);
    p += PG_H5_MSG_HEAD + n_space;
    head(p, TYPE, n_type, CONSTANT);
    memcpy(p + PG_H5_MSG_HEAD, kind, n_type);
    p += PG_H5_MSG_HEAD + n_type;
    head(p, FILL, FILL_BYTES, CONSTANT);
    memcpy(p + PG_H5_MSG_HEAD, fill, sizeof fill);
    p += PG_H5_MSG_HEAD + FILL_BYTES;
    head(p, LAYOUT, LAYOUT_BYTES, n_bytes ? CONSTANT : 0);
    p += PG_H5_MSG_HEAD;
    p[0] = 3; /* version */
    p[1] = 1; /* contiguous */
    pg__put_le(p + 2, UINT64_MAX, 8);
    pg__put_le(p + 10, n_bytes, 8);
    return PG_OK;
}

pg_status pg__h5_tree_dataset(pg__h5_tree *t, const char *path, const pg__h5_dtype *type,
                              uint32_t rank, const uint64_t *dims, uint64_t n_bytes, size_t *id,
                              pg_err *err)
{
    const way w = {path, "create this dataset", 1};
    pg_status st = PG_OK;
    uint32_t group, node;
    size_t end = strlen(path), from;
    while (end && path[end - 1] == '/')
        end--;
    for (from = end; from && path[from - 1] != '/';)
        from--;
    if (end == 0)
        return refuse(path, w.what, "no name", err);
    PG_TRY(follow(&group, t, &w, from, err));
    key k = key_of(group, 0, path + from, end - from);
    if (t->nodes[group].kind != PG_H5_N_GROUP)
        return refuse(path, w.what, "not a group", err);
    if (find(t, &k) != NO_NODE)
        return refuse(path, w.what, "name already exists", err);
    if (pg__mem_grow(&t->places, &t->cap_places, t->n_places + 1, sizeof *t->places))
        return pg__nomem(err);
    PG_TRY(add_object(&node, t, PG_H5_N_DATASET, &k, err));
    PG_TRY(encode_dataset(t, &t->nodes[node], type, rank, dims, n_bytes, err));
    *id = t->n_places;
    t->places[t->n_places++] =
        (pg__h5_place){.n = n_bytes, .node = node, .align = (uint32_t)pg_dtype_bytes(type->dtype)};
done:
    return st;
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* Begins a global heap collection with room for an object of n bytes. */
static pg_status new_heap(pg__h5_tree *t, size_t n, pg_err *err)
{
    unsigned char *p = NULL;
    const size_t least = HEAP_HEAD + n, size = least < HEAP_BYTES ? HEAP_BYTES : least;
    const pg_status st = add_zeros(&t->heaps, size, &p, err);
    if (st != PG_OK)
        return st;
    memcpy(p, "GCOL\1", 5);
    pg__put_le(p + 8, size, 8);
    t->heap = t->heaps.n - size;
    t->heap_used = HEAP_HEAD;
    t->n_in_heap = 0;
    return PG_OK;
}

/* What is left of the last collection is one free object, of number 0. */
static void mark_free(pg__h5_tree *t)
{
    const size_t left = t->heaps.n - t->heap - t->heap_used;
    if (left >= HEAP_HEAD)
        pg__put_le(t->heaps.p + t->heap + t->heap_used + 8, left, 8);
}

/* Puts a string into the global heap; ref gets its length, the place of its collection, its
 * number. */
static pg_status add_string(pg__h5_tree *t, unsigned char *ref, const char *s, size_t n,
                            pg_err *err)
{
    const size_t need = HEAP_HEAD + pg__h5_pad8(n);
    if (n > UINT32_MAX)
        return pg_fail(err, PG_E_LIMIT, "a string of %zu bytes", n);
    if (!t->heaps.n || need > t->heaps.n - t->heap - t->heap_used) {
        const pg_status st = new_heap(t, need, err);
        if (st != PG_OK)
            return st;
    }
    unsigned char *p = t->heaps.p + t->heap + t->heap_used;
    pg__put_le(p, ++t->n_in_heap, 2);
    pg__put_le(p + 8, n, 8);
    memcpy(p + HEAP_HEAD, s, n);
    t->heap_used += need;
    mark_free(t);
    pg__put_le(ref, n, 4);
    pg__put_le(ref + 4, t->heap, 8);
    pg__put_le(ref + 12, t->n_in_heap, 4);
    return PG_OK;
}

/* The parts of an attribute's message. */
typedef struct attr_parts {
    unsigned char type[PG_H5_TYPE_BYTES], space[PG_H5_SPACE_BYTES];
    size_t n_name, n_type, n_space, n_data, n_all;
} attr_parts;

static pg_status measure(attr_parts *p, const char *path, const char *what, const pg__h5_attr *a,
                         const pg__h5_dtype *type, pg_err *err)
{
    const uint64_t n = a->rank == PG_H5_NULL ? 0 : a->n_elems;
    p->n_name = strlen(a->name) + 1;
    p->n_type = pg__h5_encode_type(p->type, type);
    p->n_space = pg__h5_encode_space(p->space, a->rank, a->dims);
    if (p->n_type == 0 || p->n_name == 1)
        return refuse(path, what, p->n_type ? "no name" : "no such datatype", err);
    if (p->n_name > PG_H5_MSG_MOST || n > PG_H5_MSG_MOST ||
        pg__h5_elem_bytes(type) > PG_H5_MSG_MOST)
        return refuse(path, what, "object header message is too large", err);
    p->n_data = (size_t)n * pg__h5_elem_bytes(type);
    p->n_all = 8 + pg__h5_pad8(p->n_name) + pg__h5_pad8(p->n_type) + pg__h5_pad8(p->n_space) +
               pg__h5_pad8(p->n_data);
    if (p->n_all > PG_H5_MSG_MOST)
        return refuse(path, what, "object header message is too large", err);
    return PG_OK;
}

/* Writes all but the values; returns where they go. */
static unsigned char *encode_attr(unsigned char *p, const attr_parts *parts, const char *name)
{
    head(p, ATTRIBUTE, parts->n_all, 0);
    p += PG_H5_MSG_HEAD;
    p[0] = 1; /* version */
    pg__put_le(p + 2, parts->n_name, 2);
    pg__put_le(p + 4, parts->n_type, 2);
    pg__put_le(p + 6, parts->n_space, 2);
    p += 8;
    memcpy(p, name, parts->n_name);
    p += pg__h5_pad8(parts->n_name);
    memcpy(p, parts->type, parts->n_type);
    p += pg__h5_pad8(parts->n_type);
    memcpy(p, parts->space, parts->n_space);
    return p + pg__h5_pad8(parts->n_space);
}

static void append_attr(pg__h5_tree *t, uint32_t object, uint32_t attr)
{
    pg__h5_node *o = &t->nodes[object];
    if (o->last_attr)
        t->nodes[o->last_attr].next_attr = attr;
    else
        o->first_attr = attr;
    o->last_attr = attr;
    o->n_attrs++;
    o->attr_bytes += t->nodes[attr].n_text;
}

pg_status pg__h5_tree_attr(pg__h5_tree *t, const char *path, const pg__h5_attr *a,
                           const pg__h5_dtype *type, const void *data, pg_err *err)
{
    pg_status st = PG_OK;
    char what[200];
    const way w = {path, what, 0};
    attr_parts parts = {0};
    uint32_t object, attr;
    unsigned char *p = NULL;
    (void)snprintf(what, sizeof what, "write attribute %s", PG_SHOW(a->name));
    PG_TRY(follow(&object, t, &w, strlen(path), err));
    key k = key_of(object, 1, a->name, strlen(a->name));
    if (find(t, &k) != NO_NODE)
        return refuse(path, what, "attribute already exists", err);
    if (t->nodes[object].n_attrs >= MOST_ATTRS)
        return refuse(path, what, "too many attributes", err);
    PG_TRY(measure(&parts, path, what, a, type, err));
    PG_TRY(add_node(&attr, t, PG_H5_N_ATTR, &k, err));
    t->nodes[attr].text = t->text.n;
    t->nodes[attr].n_text = PG_H5_MSG_HEAD + parts.n_all;
    PG_TRY(add_zeros(&t->text, t->nodes[attr].n_text, &p, err));
    p = encode_attr(p, &parts, a->name);
    if (data)
        memcpy(p, data, parts.n_data);
    for (size_t i = 0; !data && i < parts.n_data / PG_H5_VLEN; i++)
        PG_TRY(add_string(t, p + i * PG_H5_VLEN, a->strs[i], strlen(a->strs[i]), err));
    t->nodes[attr].n_refs = data ? 0 : (uint32_t)(parts.n_data / PG_H5_VLEN);
    append_attr(t, object, attr);
done:
    return st;
}
