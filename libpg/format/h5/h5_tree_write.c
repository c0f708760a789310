/* h5_tree_write.c - addresses of all objects of a new file, and its metadata as bytes.
 *
 * Nothing grows while it is written: a group's B-tree (File Format Specification, section III.A.1)
 * has as few nodes as its links need, all nearly equally full. libhdf5 splits full ones when links
 * are added. An object header has room left as libhdf5 leaves it, so that an attribute can be added
 * to a dataset without a second block. */
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/h5/h5_tree.h"
#include "format/h5/h5_tree_impl.h"

#define UNDEFINED   UINT64_MAX
#define SUPER_BYTES 96u
#define HEADER      16u  /* of an object header, before its messages */
#define STAB_BYTES  24u  /* the message of a group */
#define ROOM        256u /* for the messages of a dataset, at least */
#define LEAF_K      4u   /* half the entries of a symbol node, */
#define GROUP_K     16u  /* ... of a node of a B-tree */
#define ENTRY_BYTES 40u
#define SNOD_BYTES  (8u + 2 * LEAF_K * ENTRY_BYTES)
#define TREE_BYTES  (24u + 2 * GROUP_K * 16 + 8)
#define NAMES_HEAD  32u
#define NAMES_BYTES 88u /* for the names of a group, at least: as libhdf5 begins */
#define FREE_BYTES  16u /* of a free piece among the names, at least */
#define LEVELS      9u  /* enough for 2^32 links */

/* How the links of a group lie behind its header: the B-tree from its root down, the names, the
 * symbol nodes. n[0] counts symbol nodes, n[1] the lowest nodes of the B-tree ... n[top]: 1. */
typedef struct shape {
    uint64_t n[LEVELS], at[LEVELS]; /* level by level; at: of the first */
    unsigned top;
    uint64_t names_at, n_names, used_names, end;
} shape;

static uint64_t header_bytes(const pg__h5_node *o)
{
    if (o->kind == PG_H5_N_GROUP)
        return HEADER + STAB_BYTES + o->attr_bytes;
    const uint64_t n = o->n_text + o->attr_bytes;
    return HEADER + (n < ROOM ? ROOM : n);
}

static uint64_t bytes_of_names(const pg__h5_tree *t, const pg__h5_node *o)
{
    if (o->n_kids == 0)
        return 8;
    const pg__h5_kid *last = &t->kids[o->first_kid + o->n_kids - 1];
    return t->nodes[last->node].heap_at + pg__h5_pad8(strlen(last->name) + 1);
}

static shape shape_of(const pg__h5_tree *t, const pg__h5_node *o)
{
    shape s = {.n = {(o->n_kids + 2 * LEAF_K - 1) / (2 * LEAF_K)}};
    do {
        const uint64_t below = s.n[s.top++];
        s.n[s.top] = below ? (below + 2 * GROUP_K - 1) / (2 * GROUP_K) : 1;
    } while (s.n[s.top] > 1);
    s.end = o->at + header_bytes(o);
    for (unsigned l = s.top; l > 0; l--) {
        s.at[l] = s.end;
        s.end += s.n[l] * TREE_BYTES;
    }
    s.names_at = s.end;
    s.used_names = bytes_of_names(t, o);
    s.n_names = s.used_names + FREE_BYTES > NAMES_BYTES ? s.used_names : NAMES_BYTES;
    s.at[0] = s.names_at + NAMES_HEAD + s.n_names;
    s.end = s.at[0] + s.n[0] * SNOD_BYTES;
    return s;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pg__h5_kid *)a)->name, ((const pg__h5_kid *)b)->name);
}

/* Lists the links of every group, and gives their names places. */
static pg_status sort_kids(pg__h5_tree *t, pg_err *err)
{
    uint32_t n = 0;
    t->kids = pg__mem_array(t->n_nodes, sizeof *t->kids);
    if (!t->kids)
        return pg__nomem(err);
    for (size_t i = 0; i < t->n_nodes; i++) {
        t->nodes[i].first_kid = n;
        n += t->nodes[i].n_kids;
        t->nodes[i].n_kids = 0;
    }
    for (size_t i = 1; i < t->n_nodes; i++) {
        pg__h5_node *group = &t->nodes[t->nodes[i].parent];
        if (t->nodes[i].kind == PG_H5_N_ATTR)
            continue;
        const char *name = (const char *)t->names.p + t->nodes[i].name;
        t->kids[group->first_kid + group->n_kids++] = (pg__h5_kid){name, (uint32_t)i};
    }
    for (size_t i = 0; i < t->n_nodes; i++) {
        const pg__h5_node *o = &t->nodes[i];
        uint64_t at = 8; /* an empty name comes first */
        if (o->n_kids > 1)
            qsort(t->kids + o->first_kid, o->n_kids, sizeof *t->kids, by_name);
        for (uint32_t k = o->first_kid; k < o->first_kid + o->n_kids; k++) {
            t->nodes[t->kids[k].node].heap_at = at;
            at += pg__h5_pad8(strlen(t->kids[k].name) + 1);
        }
    }
    return PG_OK;
}

pg_status pg__h5_tree_finish(pg__h5_tree *t, pg_err *err)
{
    uint64_t at = SUPER_BYTES;
    const pg_status st = sort_kids(t, err);
    if (st != PG_OK)
        return st;
    for (size_t i = 0; i < t->n_nodes; i++) {
        pg__h5_node *o = &t->nodes[i];
        o->at = at;
        if (o->kind == PG_H5_N_GROUP)
            at = shape_of(t, o).end;
        else if (o->kind == PG_H5_N_DATASET)
            at += header_bytes(o);
    }
    t->heaps_at = at;
    t->end_metadata = at += t->heaps.n;
    for (size_t i = 0; i < t->n_places; i++) {
        pg__h5_place *p = &t->places[i];
        if (p->n == 0)
            continue;
        p->off = (at + p->align - 1) / p->align * p->align;
        if (__builtin_add_overflow(p->off, p->n, &at) || at > INT64_MAX)
            return pg_fail(err, PG_E_LIMIT, "its datasets are too large for one file");
        pg__put_le(t->text.p + t->nodes[p->node].text + t->nodes[p->node].n_text - 22, p->off, 8);
    }
    t->bytes = at;
    return PG_OK;
}

uint64_t pg__h5_tree_bytes(const pg__h5_tree *t)
{
    return t->bytes;
}

uint64_t pg__h5_tree_offset(const pg__h5_tree *t, size_t id)
{
    return id < t->n_places ? t->places[id].off : 0;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Collects bytes, so that the sink gets few and large writes. */
typedef struct out {
    pg__sink *sink;
    uint64_t off; /* where buf[0] goes */
    size_t n;
    unsigned char *buf; /* PG_COPY_BYTES */
} out;

static pg_status send(out *o, pg_err *err)
{
    const pg_status st = o->n ? pg__sink_write(o->sink, o->off, o->buf, o->n, err) : PG_OK;
    o->off += o->n;
    o->n = 0;
    return st;
}

/* The next n bytes, zeroed; at most PG_COPY_BYTES. */
static pg_status room(unsigned char **p, out *o, size_t n, pg_err *err)
{
    if (n > PG_COPY_BYTES - o->n) {
        const pg_status st = send(o, err);
        if (st != PG_OK)
            return st;
    }
    *p = o->buf + o->n;
    memset(*p, 0, n);
    o->n += n;
    return PG_OK;
}

static pg_status put(out *o, const unsigned char *p, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    while (n) {
        unsigned char *to = NULL;
        const size_t k = n < PG_COPY_BYTES ? n : PG_COPY_BYTES;
        PG_TRY(room(&to, o, k, err));
        memcpy(to, p, k);
        p += k;
        n -= k;
    }
done:
    return st;
}

/* A link (III.C): its name, its object; of a group, where its B-tree and its names are. */
static void entry(unsigned char *p, const pg__h5_tree *t, const pg__h5_node *o)
{
    pg__put_le(p, o->heap_at, 8);
    pg__put_le(p + 8, o->at, 8);
    if (o->kind != PG_H5_N_GROUP)
        return;
    const shape s = shape_of(t, o);
    p[16] = 1;
    pg__put_le(p + 24, s.at[s.top], 8);
    pg__put_le(p + 32, s.names_at, 8);
}

static pg_status write_super(out *o, const pg__h5_tree *t, pg_err *err)
{
    static const unsigned char first[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a,   '\n', 0,      0,
                                          0,    0,   0,   8,   8,    0,    LEAF_K, 0,    GROUP_K};
    unsigned char *p = NULL;
    const pg_status st = room(&p, o, SUPER_BYTES, err);
    if (st != PG_OK)
        return st;
    memcpy(p, first, sizeof first);
    pg__put_le(p + 32, UNDEFINED, 8); /* free space */
    pg__put_le(p + 40, t->bytes, 8);
    pg__put_le(p + 48, UNDEFINED, 8); /* driver */
    entry(p + 56, t, &t->nodes[0]);
    return PG_OK;
}

/* An attribute's message, with the addresses of its strings. */
static pg_status write_attr(out *o, const pg__h5_tree *t, const pg__h5_node *a, pg_err *err)
{
    unsigned char *p = NULL;
    const pg_status st = room(&p, o, a->n_text, err);
    if (st != PG_OK)
        return st;
    memcpy(p, t->text.p + a->text, a->n_text);
    p += a->n_text - (size_t)a->n_refs * PG_H5_VLEN + 4;
    for (uint32_t i = 0; i < a->n_refs; i++, p += PG_H5_VLEN)
        pg__put_le(p, t->heaps_at + pg__le64(p), 8);
    return PG_OK;
}

static pg_status write_attrs(out *o, const pg__h5_tree *t, const pg__h5_node *of, pg_err *err)
{
    pg_status st = PG_OK;
    for (uint32_t a = of->first_attr; a; a = t->nodes[a].next_attr)
        PG_TRY(write_attr(o, t, &t->nodes[a], err));
done:
    return st;
}

/* IV.A.1.a */
static pg_status begin_header(out *o, const pg__h5_node *of, unsigned n_messages, pg_err *err)
{
    unsigned char *p = NULL;
    const pg_status st = room(&p, o, HEADER, err);
    if (st != PG_OK)
        return st;
    p[0] = 1; /* version */
    pg__put_le(p + 2, n_messages, 2);
    p[4] = 1; /* reference count */
    pg__put_le(p + 8, header_bytes(of) - HEADER, 4);
    return PG_OK;
}

static pg_status write_dataset(out *o, const pg__h5_tree *t, const pg__h5_node *d, pg_err *err)
{
    pg_status st = PG_OK;
    unsigned char *p = NULL;
    const size_t left = (size_t)(header_bytes(d) - HEADER - d->n_text - d->attr_bytes);
    PG_TRY(begin_header(o, d, 4 + d->n_attrs + (left != 0), err));
    PG_TRY(put(o, t->text.p + d->text, d->n_text, err));
    PG_TRY(write_attrs(o, t, d, err));
    PG_TRY(room(&p, o, left, err));
    if (left)
        pg__put_le(p + 2, left - PG_H5_MSG_HEAD, 2); /* a message of no type */
done:
    return st;
}

/* The first of the n[level] nodes that node i of the level above covers. */
static uint64_t first_below(const shape *s, unsigned level, uint64_t i)
{
    return i * s->n[level] / s->n[level + 1];
}

/* The key on the left of node i of a level: the name of the last link before it. */
static uint64_t key_before(const pg__h5_tree *t, const pg__h5_node *g, const shape *s,
                           unsigned level, uint64_t i)
{
    while (level > 0)
        i = first_below(s, --level, i);
    if (i == 0)
        return 0; /* the empty name */
    const uint64_t k = i * g->n_kids / s->n[0];
    return t->nodes[t->kids[g->first_kid + k - 1].node].heap_at;
}

static pg_status write_tree_node(out *o, const pg__h5_tree *t, const pg__h5_node *g, const shape *s,
                                 unsigned level, uint64_t i, pg_err *err)
{
    unsigned char *p = NULL;
    const uint64_t first = first_below(s, level - 1, i), end = first_below(s, level - 1, i + 1);
    const uint64_t n_bytes = level == 1 ? SNOD_BYTES : TREE_BYTES, at = s->at[level];
    const pg_status st = room(&p, o, TREE_BYTES, err);
    if (st != PG_OK)
        return st;
    memcpy(p, "TREE", 4);
    p[5] = (unsigned char)(level - 1);
    pg__put_le(p + 6, end - first, 2);
    pg__put_le(p + 8, i ? at + (i - 1) * TREE_BYTES : UNDEFINED, 8);
    pg__put_le(p + 16, i + 1 < s->n[level] ? at + (i + 1) * TREE_BYTES : UNDEFINED, 8);
    p += 24;
    for (uint64_t k = first; k < end; k++, p += 16) {
        pg__put_le(p, key_before(t, g, s, level - 1, k), 8);
        pg__put_le(p + 8, s->at[level - 1] + k * n_bytes, 8);
    }
    if (end > first)
        pg__put_le(p, key_before(t, g, s, level - 1, end), 8);
    return PG_OK;
}

/* III.D */
static pg_status write_names(out *o, const pg__h5_tree *t, const pg__h5_node *g, const shape *s,
                             pg_err *err)
{
    enum { NO_FREE = 1 };
    pg_status st = PG_OK;
    unsigned char *p = NULL;
    const size_t n_free = (size_t)(s->n_names - s->used_names);
    PG_TRY(room(&p, o, NAMES_HEAD + 8, err));
    memcpy(p, "HEAP", 4);
    pg__put_le(p + 8, s->n_names, 8);
    pg__put_le(p + 16, n_free ? s->used_names : NO_FREE, 8);
    pg__put_le(p + 24, s->names_at + NAMES_HEAD, 8);
    for (uint32_t k = g->first_kid; k < g->first_kid + g->n_kids; k++) {
        static const unsigned char zeros[8];
        const size_t n = strlen(t->kids[k].name);
        PG_TRY(put(o, (const unsigned char *)t->kids[k].name, n, err));
        PG_TRY(put(o, zeros, pg__h5_pad8(n + 1) - n, err));
    }
    PG_TRY(room(&p, o, n_free, err));
    if (n_free) {
        pg__put_le(p, NO_FREE, 8);
        pg__put_le(p + 8, n_free, 8);
    }
done:
    return st;
}

/* III.B */
static pg_status write_snod(out *o, const pg__h5_tree *t, const pg__h5_node *g, const shape *s,
                            uint64_t i, pg_err *err)
{
    unsigned char *p = NULL;
    const uint64_t first = i * g->n_kids / s->n[0], end = (i + 1) * g->n_kids / s->n[0];
    const pg_status st = room(&p, o, SNOD_BYTES, err);
    if (st != PG_OK)
        return st;
    memcpy(p, "SNOD\1", 5);
    pg__put_le(p + 6, end - first, 2);
    p += 8;
    for (uint64_t k = first; k < end; k++, p += ENTRY_BYTES)
        entry(p, t, &t->nodes[t->kids[g->first_kid + k].node]);
    return PG_OK;
}

static pg_status write_group(out *o, const pg__h5_tree *t, const pg__h5_node *g, pg_err *err)
{
    enum { STAB = 17 };
    pg_status st = PG_OK;
    unsigned char *p = NULL;
    const shape s = shape_of(t, g);
    PG_TRY(begin_header(o, g, 1 + g->n_attrs, err));
    PG_TRY(room(&p, o, STAB_BYTES, err));
    pg__put_le(p, STAB, 2);
    pg__put_le(p + 2, STAB_BYTES - PG_H5_MSG_HEAD, 2);
    pg__put_le(p + 8, s.at[s.top], 8);
    pg__put_le(p + 16, s.names_at, 8);
    PG_TRY(write_attrs(o, t, g, err));
    for (unsigned level = s.top; level > 0; level--)
        for (uint64_t i = 0; i < s.n[level]; i++)
            PG_TRY(write_tree_node(o, t, g, &s, level, i, err));
    PG_TRY(write_names(o, t, g, &s, err));
    for (uint64_t i = 0; i < s.n[0]; i++)
        PG_TRY(write_snod(o, t, g, &s, i, err));
done:
    return st;
}

pg_status pg__h5_tree_flush(const pg__h5_tree *t, pg__sink *sink, uint64_t base, pg_err *err)
{
    pg_status st = PG_OK;
    out o = {.sink = sink, .off = base, .buf = pg__mem_array(PG_COPY_BYTES, 1)};
    if (!o.buf)
        return pg__nomem(err);
    PG_TRY(write_super(&o, t, err));
    for (size_t i = 0; i < t->n_nodes; i++) {
        const pg__h5_node *n = &t->nodes[i];
        if (n->kind == PG_H5_N_GROUP)
            PG_TRY(write_group(&o, t, n, err));
        else if (n->kind == PG_H5_N_DATASET)
            PG_TRY(write_dataset(&o, t, n, err));
    }
    PG_TRY(put(&o, t->heaps.p, t->heaps.n, err));
    PG_TRY(send(&o, err));
done:
    pg__mem_free(o.buf);
    return st;
}
