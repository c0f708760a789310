/* owner.h - finds the owner of a weight by its name, in the four readings of FORMATS.md: "Owners by
 * name". */
#ifndef PG_MODEL_FIT_OWNER_H
#define PG_MODEL_FIT_OWNER_H

#include "model/fit/match.h"

/* A piece of a name. */
typedef struct pg__name_piece {
    const char *s;
    size_t n;
} pg__name_piece;

/* The result of reading one stored name. */
typedef struct pg__owner {
    size_t leaf;         /* PG_NONE: no owner */
    const char *sub;     /* the inner layer that the name shows, or NULL */
    pg__name_piece path; /* the name without variable and ":0" */
    pg__name_piece var;  /* "kernel" */
} pg__owner;

/* All names under which leaves may appear, sorted. */
typedef struct pg__owner_key {
    const char *name, *parent;
    size_t len, parent_len, leaf;
    const char *sub; /* NULL: the leaf's own name */
} pg__owner_key;

typedef struct pg__owner_table {
    pg__owner_key *v;
    size_t n, cap;
} pg__owner_table;

/* Leaves that hold nothing get no key. */
pg_status pg__owner_table_of(pg__owner_table *out, const pg__leaves *leaves, pg_err *err);
void pg__owner_table_fini(pg__owner_table *t);

/* One name in one reading. */
pg__owner pg__owner_of(const pg__owner_table *t, const char *name, pg__placed_by how);

/* "kernel" of "a/kernel:0", and the part before it. */
pg__owner pg__owner_split(const char *name);

/* n less the "_<digits>" at the end of s, or n if there are none. */
size_t pg__without_number(const char *s, size_t n);

/* n less the slashes at the end of s: TensorFlow calls the variables of a layer "a/" "a/kernel". */
size_t pg__without_slashes(const char *s, size_t n);

/* Is this an automatic name of a layer of the class: dense, dense_3, conv2d_1? */
int pg__name_is_automatic(const pg__layer *l);

/* Is the stored variable name this variable's? A "_<digits>" may follow (a second build). */
int pg__var_is_named(const pg__var *v, pg__name_piece name);

/* Could v belong to the inner layer that the owner's path shows? */
int pg__sub_agrees(const pg__var *v, const pg__owner *o);

#endif
