/* h5_tree_impl.h - shared by h5_tree.c, which collects, and h5_tree_write.c, which lays out and
 * writes. */
#ifndef PG_FORMAT_H5_H5_TREE_IMPL_H
#define PG_FORMAT_H5_H5_TREE_IMPL_H

#include "format/h5/h5_tree.h"

/* A message of an object header: type, size, flags; then its body, a multiple of 8 bytes. */
#define PG_H5_MSG_HEAD 8u
#define PG_H5_MSG_MOST 65528u /* the largest body that two bytes can count */
#define PG_H5_VLEN     16u    /* what stands for a string of variable length */

typedef enum pg__h5_node_kind { PG_H5_N_GROUP, PG_H5_N_DATASET, PG_H5_N_ATTR } pg__h5_node_kind;

/* Numbers of nodes are 32 bits wide; node 0 is the root. */
typedef struct pg__h5_node {
    pg__h5_node_kind kind;
    uint32_t parent;
    size_t name;         /* in tree.names */
    size_t text, n_text; /* in tree.text: an attribute's message, or those of a dataset */
    uint32_t n_refs;     /* an attribute's strings of variable length, at the end of its message */
    uint32_t first_attr, last_attr, next_attr; /* 0: none */
    uint32_t n_attrs;
    uint64_t attr_bytes;        /* of their messages */
    uint32_t first_kid, n_kids; /* of a group: in tree.kids, sorted by name */
    uint64_t at;                /* of its header */
    uint64_t heap_at;           /* of its name, in the names of its group */
} pg__h5_node;

/* A branch of the index over all names: where two of them first differ (h5_tree.c). */
typedef struct pg__h5_branch {
    uint32_t to[2];
    uint32_t byte;
    unsigned char mask;
} pg__h5_branch;

typedef struct pg__h5_kid {
    const char *name;
    uint32_t node;
} pg__h5_kid;

/* The bytes of a dataset. */
typedef struct pg__h5_place {
    uint64_t off, n;
    uint32_t node, align;
} pg__h5_place;

typedef struct pg__h5_bytes {
    unsigned char *p;
    size_t n, cap;
} pg__h5_bytes;

struct pg__h5_tree {
    pg__h5_node *nodes;
    size_t n_nodes, cap_nodes;
    pg__h5_branch *branches; /* by node; few bytes each, since every name leads through many */
    size_t cap_branches;
    uint32_t top;       /* of the index */
    pg__h5_bytes names; /* each ends with a NUL */
    pg__h5_bytes text;  /* messages; where they name an address, it is filled in when written */
    pg__h5_bytes heaps; /* the global heap collections, one after the other */
    size_t heap;        /* the last one of them */
    size_t heap_used;   /* bytes of it */
    uint32_t n_in_heap; /* strings in it */
    pg__h5_kid *kids;
    pg__h5_place *places; /* by dataset id */
    size_t n_places, cap_places;
    uint64_t heaps_at, end_metadata, bytes;
};

static inline size_t pg__h5_pad8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

#endif
