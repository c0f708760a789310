/* h5_impl.h - what the files of the HDF5 reader share. One file per structure of the format:
 *
 *   h5_reader.c  the walk over all objects, and the public functions
 *   h5_super.c   superblock                      h5_header.c  object headers -> messages
 *   h5_object.c  messages -> group or dataset    h5_type.c    dataspace, datatype
 *   h5_btree.c   version 1 B-trees               h5_group.c   links of a group
 *   h5_attr.c    attributes                      h5_gheap.c   global heaps behind strings
 *   h5_chunk.c   layouts, filters, chunk index   h5_read.c    bytes of a dataset
 *   h5_file.c    what they all stand on: checked reads, extents, the set of seen objects, memory
 *
 * Two rules keep hostile files harmless. Every structure is claimed with pg__h5_own() before it is
 * read, and all claims together must not exceed the file: so loops and overlaps end after work
 * linear in the file's size. And memory is allocated only for what was claimed. */
#ifndef PG_FORMAT_H5_H5_IMPL_H
#define PG_FORMAT_H5_H5_IMPL_H

#include <inttypes.h>

#include "base/limits.h"
#include "base/try.h"
#include "format/h5/h5_reader.h"

#define PG_H5_UNDEF UINT64_MAX /* the undefined address, whatever its width in the file */

/* ---- decoding bytes */

/* Reads little-endian fields; past the end it returns 0 and remembers that, so that a structure is
 * decoded first and its length checked once. */
typedef struct pg__h5_cur {
    const uint8_t *p, *end;
    int cut;
} pg__h5_cur;

static inline const uint8_t *pg__h5_span(pg__h5_cur *c, uint64_t n)
{
    const uint8_t *p = c->p;
    if (n > (uint64_t)(c->end - c->p)) {
        c->cut = 1;
        c->p = c->end;
        return NULL;
    }
    c->p += n;
    return p;
}

static inline uint64_t pg__h5_uint(pg__h5_cur *c, unsigned n_bytes)
{
    const uint8_t *p = pg__h5_span(c, n_bytes);
    uint64_t v = 0;
    for (unsigned i = 0; p && i < n_bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static inline uint32_t pg__h5_u32(pg__h5_cur *c, unsigned n_bytes)
{
    return (uint32_t)pg__h5_uint(c, n_bytes);
}

/* How many of n bytes are not zero. */
static inline size_t pg__h5_n_set(const uint8_t *p, size_t n)
{
    size_t n_set = 0;
    for (size_t i = 0; i < n; i++)
        n_set += p[i] != 0;
    return n_set;
}

static inline size_t pg__h5_left(const pg__h5_cur *c)
{
    return (size_t)(c->end - c->p);
}

/* ---- memory of the open file */

/* Names, strings and values, all freed at once. */
typedef struct pg__h5_arena {
    struct pg__h5_arena_block *top;
} pg__h5_arena;

void *pg__h5_take(pg__h5 *h, size_t n);                /* aligned, zeroed, or NULL */
char *pg__h5_text(pg__h5 *h, const void *s, size_t n); /* copy of n bytes and a NUL, or NULL */

#define PG_H5_MAX_FILTERS 3 /* each of the three at most once */

typedef struct pg__h5_chunk {
    uint64_t addr;
    uint32_t n_bytes, mask; /* stored; filters that were left out */
} pg__h5_chunk;

/* The filters of a dataset in the order of writing. */
typedef struct pg__h5_filters {
    uint32_t n;
    uint16_t id[PG_H5_MAX_FILTERS];
    uint32_t arg[PG_H5_MAX_FILTERS]; /* shuffle: bytes of an element */
} pg__h5_filters;

typedef struct pg__h5_chunked {
    size_t first; /* in chunks[]; they follow in row-major order, all of them */
    size_t n_chunks;
    uint32_t dims[PG_MAX_RANK];
    uint32_t n_bytes; /* of one decoded chunk */
    pg__h5_filters filters;
} pg__h5_chunked;

/* What the public view of an object does not show. */
typedef struct pg__h5_more {
    size_t first_attr;
    uint32_t chunked; /* in chunked[], or PG_H5_NONE */
} pg__h5_more;

/* Decoded chunks of the dataset that was read last, a direct-mapped table: chunk k is in slot
 * k % n_slots if tags[] says so. */
typedef struct pg__h5_decoded {
    uint32_t chunked; /* the dataset that they belong to, or PG_H5_NONE */
    size_t n_slots;
    size_t *tags; /* chunk + 1; 0 = empty */
    uint8_t *bytes;
} pg__h5_decoded;

/* ---- the walk */

typedef struct pg__h5_link {
    const char *name;
    uint64_t addr;
    uint32_t parent, slot, depth; /* slot: in children[] */
} pg__h5_link;

typedef enum pg__h5_part {
    PG_H5_P_SUPER,
    PG_H5_P_HEADER,
    PG_H5_P_BTREE,
    PG_H5_P_SNOD,
    PG_H5_P_HEAP,
    PG_H5_P_NAMES,
    PG_H5_P_GHEAP,
    PG_H5_P_DATA,
    PG_H5_P_CHUNK
} pg__h5_part;

typedef struct pg__h5_extent {
    uint64_t start, end;
    uint32_t obj;
    uint32_t part;
} pg__h5_extent;

typedef struct pg__h5_msg {
    uint32_t type, n;
    size_t off;  /* in walk.text */
    uint64_t at; /* in the io */
} pg__h5_msg;

typedef struct pg__h5_gobj {
    uint32_t index;
    uint64_t at, n;
    const char *text; /* decoded, once asked for */
} pg__h5_gobj;

/* Addresses -> numbers; open addressing, key 0 = empty (only the superblock is there). */
typedef struct pg__h5_map {
    struct pg__h5_map_entry {
        uint64_t key, value;
    } * e;
    size_t n, cap; /* cap: a power of two, or 0 */
} pg__h5_map;

typedef struct pg__h5_walk {
    uint32_t obj;       /* the current object, named in messages; PG_H5_NONE before the root */
    const char *attr;   /* its current attribute, also named, or NULL */
    int remnants;       /* of it, see pg__h5_object */
    pg__h5_link *links; /* still to be visited; the last one is next */
    size_t n_links, cap_links;
    pg__h5_map seen;  /* object header -> object */
    pg__h5_map heaps; /* global heap collection -> first << 16 | number in gobjs */
    pg__h5_gobj *gobjs;
    size_t n_gobjs, cap_gobjs;
    size_t n_strings; /* decoded from attributes so far */
    uint64_t n_owned; /* bytes claimed so far */
    pg__h5_extent *extents;
    size_t n_extents, cap_extents;
    uint8_t *text; /* all blocks of the current header */
    size_t n_text, cap_text;
    pg__h5_msg *msgs;
    size_t n_msgs, cap_msgs;
    uint8_t *buf; /* current node, local heap ... */
    size_t cap_buf;
    uint8_t *cache; /* n_blocks blocks of the file */
    uint64_t *tags; /* their numbers + 1; 0 = empty */
    size_t n_blocks;
} pg__h5_walk;

struct pg__h5 {
    pg__io *io;
    uint64_t base, end; /* addresses count from base; nothing is at end or beyond */
    unsigned off_size, len_size;
    uint32_t leaf_k, group_k, chunk_k; /* half the entries of a symbol node, of B-tree nodes */
    uint64_t root;
    pg__h5_object *objs;
    pg__h5_more *more;
    size_t n_objs, cap_objs, cap_more;
    uint32_t *children;
    size_t n_children, cap_children;
    pg__h5_attr *attrs;
    size_t n_attrs, cap_attrs;
    pg__h5_chunked *chunked;
    size_t n_chunked, cap_chunked;
    pg__h5_chunk *chunks;
    size_t n_chunks, cap_chunks;
    pg__h5_arena arena;
    pg__h5_decoded decoded;
    pg__run *used;
    size_t n_used;
    size_t n_unread;
    char unread[PG_H5_UNREAD][280];
    int uncovered;     /* it was refused as legal HDF5 that is not covered */
    pg__h5_walk *walk; /* NULL once open */
};

/* ---- h5_file.c */

/* Fills err with "OBJECT: text", OBJECT being the walk's current object, with its current
 * attribute; returns code. */
pg_status pg__h5_bad(const pg__h5 *h, pg_err *err, pg_status code, const char *fmt, ...)
    PG_PRINTF(4, 5);

/* For functions with h, err, st and the label done, see base/try.h. */
#define PG_H5_FAIL(code, ...)                       \
    do {                                            \
        st = pg__h5_bad(h, err, code, __VA_ARGS__); \
        goto done;                                  \
    } while (0)
#define PG_H5_NEED(cond, ...)                     \
    do {                                          \
        if (!(cond))                              \
            PG_H5_FAIL(PG_E_FORMAT, __VA_ARGS__); \
    } while (0)

/* Legal and harmless, but not decoded here: h5repack writes it in an older form. */
#define PG_H5_UNCOVERED(...)                       \
    do {                                           \
        h->uncovered = 1;                          \
        PG_H5_FAIL(PG_E_UNSUPPORTED, __VA_ARGS__); \
    } while (0)

/* A number with commas, for messages. */
typedef struct pg__h5_num {
    char s[28];
} pg__h5_num;
pg__h5_num pg__h5_num_of(uint64_t v);
#define PG_H5_NUM(v) (pg__h5_num_of(v).s)

/* Claims n bytes at an address for one structure; they must be in the file and not claimed yet. */
pg_status pg__h5_own(pg__h5 *h, uint64_t addr, uint64_t n, pg__h5_part part, pg_err *err);

/* Reads n bytes at an address, through a small cache; they must be in the file. */
pg_status pg__h5_fetch(pg__h5 *h, uint64_t addr, void *buf, size_t n, pg__h5_part part,
                       pg_err *err);

/* Both, into walk.buf; c covers the bytes until the next call. */
pg_status pg__h5_load(pg__h5 *h, uint64_t addr, uint64_t n, pg__h5_part part, pg__h5_cur *c,
                      pg_err *err);

/* Whether any two claims overlap; called at the end of the walk. The claimed ranges become
 * h->used. */
pg_status pg__h5_check_extents(pg__h5 *h, pg_err *err);

pg_status pg__h5_map_put(pg__h5_map *m, uint64_t key, uint64_t value, pg_err *err);
int pg__h5_map_get(const pg__h5_map *m, uint64_t key, uint64_t *value); /* 1 if it is present */

pg_status pg__h5_new(pg__h5 **out, pg__io *io, pg_err *err); /* nothing read yet */
pg_status pg__h5_walk_new(pg__h5_walk **out, uint64_t n_file, pg_err *err);
void pg__h5_walk_free(pg__h5_walk *w);
void pg__h5_arena_fini(pg__h5_arena *a);

/* An address field; all ones becomes PG_H5_UNDEF. A length field. */
uint64_t pg__h5_addr(const pg__h5 *h, pg__h5_cur *c);
uint64_t pg__h5_len(const pg__h5 *h, pg__h5_cur *c);

/* ---- one structure each */

pg_status pg__h5_super_read(pg__h5 *h, pg_err *err);

/* Reads the header at addr into walk.text and walk.msgs (without NIL and continuations). */
pg_status pg__h5_header_read(pg__h5 *h, uint64_t addr, pg_err *err);
pg__h5_cur pg__h5_msg_cur(const pg__h5 *h, const pg__h5_msg *m);

/* Makes the object that the messages of walk.obj describe; links of a group go to walk.links. */
pg_status pg__h5_object_read(pg__h5 *h, uint32_t depth, pg_err *err);

/* dims[] takes PG_MAX_RANK; rank PG_H5_NULL for a null space. */
pg_status pg__h5_space_read(const pg__h5 *h, pg__h5_cur *c, uint32_t *rank, uint64_t *dims,
                            uint64_t *n_elems, pg_err *err);
/* PG_E_UNSUPPORTED: legal, but weights never have this type. */
pg_status pg__h5_type_read(const pg__h5 *h, pg__h5_cur *c, pg__h5_dtype *t, pg_err *err);

/* Records that the values of walk.obj, or of its attribute, are not read. */
void pg__h5_pass_over(pg__h5 *h);

/* Handles the result of pg__h5_type_read() (and its message, why) for the type of dataset walk.obj:
 * a type that is not read, or strings, makes it PG_H5_OTHER. */
pg_status pg__h5_data_type(pg__h5 *h, pg_status read, const pg_err *why, pg__h5_dtype *t,
                           pg_err *err);

/* A walk over a version 1 B-tree. Keys are opaque here. */
typedef struct pg__h5_btree {
    uint32_t node_type, k; /* a node holds up to 2 k children */
    size_t n_key;
    void *ctx;
    /* 1 if key a is before b, 0 if they are equal, -1 if it is after or makes no sense. */
    int (*order)(void *ctx, const uint8_t *a, const uint8_t *b);
    pg_status (*leaf)(void *ctx, const uint8_t *key, const uint8_t *next, uint64_t child,
                      pg_err *err);
} pg__h5_btree;
pg_status pg__h5_btree_walk(pg__h5 *h, const pg__h5_btree *t, uint64_t root, pg_err *err);

/* Visits all objects from the root on, depth first: `read` fills in walk.obj, whose header is at
 * addr, and adds its links. The caller has made h->walk. */
typedef pg_status (*pg__h5_read_object)(pg__h5 *h, uint64_t addr, uint32_t depth, pg_err *err);
pg_status pg__h5_walk_all(pg__h5 *h, uint64_t root, pg__h5_read_object read, pg_err *err);

/* Adds a link of walk.obj, whose name is in the arena. After the last link from `first` on: sorts
 * them, makes them children of walk.obj and next in line. */
pg_status pg__h5_link_add(pg__h5 *h, const char *name, uint64_t addr, uint32_t depth, pg_err *err);
pg_status pg__h5_links_end(pg__h5 *h, size_t first, pg_err *err);

/* Refuses a soft or external link of walk.obj: "GROUP/NAME: KIND link to TARGET is not followed".
 */
pg_status pg__h5_link_refuse(const pg__h5 *h, const char *name, const char *kind,
                             const char *target, pg_err *err);

/* Both push the links of walk.obj; the first reads a symbol table message, the second all link
 * messages. */
pg_status pg__h5_group_old(pg__h5 *h, pg__h5_cur *c, uint32_t depth, pg_err *err);
pg_status pg__h5_group_new(pg__h5 *h, uint32_t depth, pg_err *err);

pg_status pg__h5_attr_read(pg__h5 *h, pg__h5_cur *c, pg_err *err);
pg_status pg__h5_attr_add(pg__h5 *h, const pg__h5_attr *a, pg_err *err);
pg_status pg__h5_attrs_check(pg__h5 *h, size_t first,
                             pg_err *err); /* names differ, from first on */

size_t pg__h5_fixed_len(const char *s, size_t n, int pad); /* of a fixed string, without padding */

/* The text of object index in the collection at addr, which must have exactly n bytes. */
pg_status pg__h5_gheap_text(pg__h5 *h, uint64_t addr, uint32_t index, uint64_t n, const char **text,
                            pg_err *err);

/* Refuses a filter by its number, and by name if we know it. */
pg_status pg__h5_filter_refuse(const pg__h5 *h, unsigned id, pg_err *err);
pg_status pg__h5_filters_read(const pg__h5 *h, pg__h5_cur *c, pg__h5_filters *f, pg_err *err);

/* Reads the layout of walk.obj, whose type and dims are known. at: place of the message in the
 * io. */
pg_status pg__h5_layout_read(pg__h5 *h, pg__h5_cur *c, uint64_t at, const pg__h5_filters *f,
                             pg_err *err);

/* Of walk.obj, whose values are not read: libhdf5 (1.10 crashes else, where it copies or reads
 * them) must find all of them if they stand in its header. */
pg_status pg__h5_unread_check(const pg__h5 *h, pg__h5_cur c, uint64_t n_elems, pg_err *err);

/* Checks the stored size of a chunk against its decoded one: exact, or within deflate's maximum. */
pg_status pg__h5_chunk_check(const pg__h5 *h, const pg__h5_chunked *ch, uint32_t stored,
                             uint32_t mask, pg_err *err);

void pg__h5_decoded_fini(pg__h5_decoded *d);

#endif
