/* tf.h - TensorFlow's checkpoints (TensorBundle: PREFIX.index, PREFIX.data-SSSSS-of-NNNNN), read
 * without TensorFlow. tf_table.c reads the index, tf_bundle.c makes entries of it, tf_graph.c reads
 * the object graph of Keras and tf.train.Checkpoint, tf_model.c finds the model in it, and
 * tf_names.c decides what each variable is called. FORMATS.md: "TensorFlow checkpoints". */
#ifndef PG_FORMAT_TF_TF_H
#define PG_FORMAT_TF_TF_H

#include "base/str.h"
#include "io/io.h"
#include "store/tiles.h"

/* ---- tf_table.c: keys and values of the index, a table of LevelDB ---- */

typedef struct pg__tf_pair {
    const char *key; /* n_key bytes and a NUL that is not counted */
    const char *value;
    size_t n_key, n_value;
} pg__tf_pair;

typedef struct pg__tf_table {
    char *keys;     /* all of them */
    char *blocks;   /* the file; values point into it */
    pg__tf_pair *v; /* sorted by key */
    size_t n, cap;
} pg__tf_table;

/* 1 if a file with these last 8 bytes is such a table. */
int pg__tf_is_table(const unsigned char tail[8]);

/* PG_E_FORMAT for what is damaged, PG_E_UNSUPPORTED for compressed blocks: TensorFlow writes none
 * in an index. */
pg_status pg__tf_table_read(pg__tf_table *out, pg__io *io, pg_err *err);
void pg__tf_table_fini(pg__tf_table *t);
const pg__tf_pair *pg__tf_table_find(const pg__tf_table *t, const char *key, size_t n);

/* ---- tf_paths.c ---- */

/* The index of the checkpoint in a folder: of a SavedModel, or that which the file "checkpoint"
 * names, or the only one. *out stays NULL if there is none; PG_E_AMBIGUOUS if there are several;
 * PG_E_FORMAT. */
pg_status pg__tf_in_folder(char **out, const char *folder, pg_err *err);

/* The index of the checkpoint to which a path belongs that is not an index itself: a prefix, a data
 * file, a file of a SavedModel, or the list of a folder. *out stays NULL if it is none of these. */
pg_status pg__tf_of_path(char **out, const char *path, pg_err *err);

/* ---- tf_bundle.c: tensors and where they lie ---- */

/* tensorflow/core/framework/types.proto */
enum { PG_TF_STRING = 7, PG_TF_RESOURCE = 20, PG_TF_VARIANT = 21 };

typedef struct pg__tf_entry {
    const char *key; /* as in the index, into the table */
    int type;        /* of TensorFlow */
    int known;       /* `dtype` is its type; 0: a type that libpg has no name for */
    int is_complex;  /* its last dimension, of extent 2, is the real and the imaginary part */
    pg_dtype dtype;
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK];
    uint32_t shard;
    uint64_t off, size; /* bytes in the shard */
    uint32_t crc;       /* as stored */
    /* A partitioned variable: its pieces, each of which has an entry of its own (piece.source); the
     * numbers above that are about bytes mean nothing. Else there is one piece, itself. */
    pg__tiled tiled;
    /* Its one piece covers a part: a slot of TensorFlow 1, or a damaged index. */
    int partial;
    uint64_t whole[PG_MAX_RANK]; /* then: the shape that the index has */
    /* How far it has been read in order, and the checksum of that; `checked` once all was right. */
    uint64_t next;
    uint32_t sum;
    int checked;
} pg__tf_entry;

typedef struct pg__tf_bundle {
    pg__tf_table table;
    pg__tf_entry *v; /* the named ones, in the order of their keys; then the pieces */
    size_t n, n_all, cap;
    pg__io **shards;
    uint32_t n_shards;
} pg__tf_bundle;

/* Reads the index; the shards are not open yet. */
pg_status pg__tf_bundle_read(pg__tf_bundle *out, pg__io *io, pg_err *err);
/* PG_OK if the open shards hold what the index promises. */
pg_status pg__tf_bundle_check(const pg__tf_bundle *b, pg_err *err);
/* Both, with the shards beside the index; path: of the index. One error names all
 * missing shards. */
pg_status pg__tf_bundle_open(pg__tf_bundle *out, pg__io *io, const char *path, pg_err *err);
void pg__tf_bundle_fini(pg__tf_bundle *b);
pg__tf_entry *pg__tf_find(const pg__tf_bundle *b, const char *key, size_t n);

/* n bytes from byte off of an entry's own bytes. The checksum of the whole is compared before the
 * last of them is returned. */
pg_status pg__tf_read(pg__tf_bundle *b, size_t entry, uint64_t off, void *buf, size_t n,
                      pg_err *err);
/* PG_OK if an entry's bytes have the checksum that the index has; reads them once. */
pg_status pg__tf_check(pg__tf_bundle *b, size_t entry, pg_err *err);
/* The same as pg__tf_read() for `piece` of an entry, as pg__tiles_read() wants it; ctx is the
 * bundle. */
pg_status pg__tf_fetch(void *ctx, const pg__tile *piece, uint64_t off, void *buf, size_t n,
                       pg_err *err);
/* The only element of an entry of strings, into fresh memory with a NUL after it. */
pg_status pg__tf_string(char **out, size_t *n, pg__tf_bundle *b, const pg__tf_entry *e,
                        pg_err *err);

/* ---- tf_graph.c: TrackableObjectGraph (tensorflow/core/protobuf) ---- */

typedef struct pg__tf_child {
    uint32_t node;
    const char *name; /* not terminated */
    size_t n_name;
} pg__tf_child;

typedef struct pg__tf_node {
    size_t first, n;  /* children */
    const char *full; /* the variable's name ("dense/kernel"), or NULL: it has no value */
    const char *key;
    size_t n_full, n_key;
    int is_slot;   /* of an optimizer */
    int has_slots; /* an optimizer of Keras before 2.11 */
    /* Set by pg__tf_judge(): an optimizer, a metric or a generator of random numbers; a model of
     * layers. */
    int is_training, has_layers;
} pg__tf_node;

typedef struct pg__tf_graph {
    pg__tf_node *nodes;
    size_t n, cap;
    pg__tf_child *children;
    size_t n_children, cap_children;
} pg__tf_graph;

/* text must outlive *out. */
pg_status pg__tf_graph_read(pg__tf_graph *out, const char *text, size_t n, pg_err *err);
void pg__tf_graph_fini(pg__tf_graph *g);

/* ---- tf_model.c ---- */

/* The entry of a node's variable, or PG_NONE. */
size_t pg__tf_entry_of(const pg__tf_bundle *b, const pg__tf_node *n);
int pg__tf_is_edge(const pg__tf_child *c, const char *name);
/* Finds out what the objects of a graph are, by what they hold. */
void pg__tf_judge(pg__tf_graph *g, const pg__tf_bundle *b);
/* 1 if an edge leads to what belongs to training. */
int pg__tf_is_training(const pg__tf_graph *g, const pg__tf_child *c);
/* 1 if an edge leads to a list that a SavedModel keeps beside the attributes of the same objects.
 */
int pg__tf_is_list(const pg__tf_child *c);
/* What a root holds that is no model itself: those that could be the model come first. */
typedef struct pg__tf_part {
    const pg__tf_child *edge; /* into the graph */
    int is_model;             /* 0: it belongs to training, and was not counted */
    uint64_t n_tensors, n_params;
} pg__tf_part;
typedef struct pg__tf_parts {
    pg__tf_part *v; /* the caller frees it, after a failure, too */
    size_t n, n_models;
} pg__tf_parts;
pg_status pg__tf_parts_of(pg__tf_parts *out, const pg__tf_graph *g, const pg__tf_bundle *b,
                          pg_err *err);
/* The node that is the model: the root, or its only child that holds variables. PG_E_AMBIGUOUS:
 * there are several. */
pg_status pg__tf_find_model(uint32_t *node, const pg__tf_graph *g, const pg__tf_bundle *b,
                            pg_err *err);
/* The edge to the variables of a model, in its order, that Keras' model.export() wrote: without its
 * layers. NULL: the graph is none of these. */
const pg__tf_child *pg__tf_exported(const pg__tf_graph *g);
/* Of a model's layers, the edge to the only one that holds variables, if it is a model of layers
 * itself: a wrapper's template. *out: NULL if there is none. */
pg_status pg__tf_inner(const pg__tf_child **out, const pg__tf_graph *g, const pg__tf_bundle *b,
                       uint32_t model, pg_err *err);
/* The node that a part names, by edges joined with dots; *in_training: the way passes an
 * optimizer. */
pg_status pg__tf_find_part(uint32_t *node, int *in_training, const pg__tf_graph *g,
                           const char *part, pg_err *err);
/* The child of a node that an edge leads to, or NULL. */
const pg__tf_child *pg__tf_child_of(const pg__tf_graph *g, uint32_t node, const char *name,
                                    size_t n);

/* ---- tf_names.c ---- */

typedef struct pg__tf_name {
    size_t entry; /* in the bundle */
    char *name;   /* owned: what to call it, unique */
    char *path;   /* owned: where the object graph has it, "layer_with_weights-0/kernel"; NULL:
                     there is no graph */
    int is_state; /* an optimizer's, a metric's or a counter */
    size_t order;
} pg__tf_name;

typedef struct pg__tf_names {
    pg__tf_name *v; /* the model's in the order of its layers, then the others */
    size_t n, cap;
    size_t bytes;       /* of all names and paths */
    pg__tf_graph graph; /* n == 0: there is none */
    char *text;         /* of the graph; owned */
    uint32_t root;      /* the node that is the model */
    char *inner;        /* pg__tf_inner() of it, or NULL */
    int by_name;        /* the graph has no layers, but the variables have the names of theirs */
} pg__tf_names;

/* part: NULL: the model, and all else as state; "." is everything, "generator" what the root calls
 * so, "optimizer" its state, "" nothing. PG_E_ARG: no such part. PG_E_AMBIGUOUS: of several parts,
 * none is the model's. */
pg_status pg__tf_names_of(pg__tf_names *out, pg__tf_bundle *b, const char *part, pg_err *err);
void pg__tf_names_fini(pg__tf_names *l);

/* The entry that a path from the model leads to, or PG_NONE. */
size_t pg__tf_names_find(const pg__tf_names *l, const pg__tf_bundle *b, const char *path);

#endif
