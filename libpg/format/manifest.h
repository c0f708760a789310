/* manifest.h - manifest.json of a split model: the contents of every shard, and the original file.
 *
 *     {"format": "npy", "version": 1, "source": "big.h5", "source_format": "keras-h5-weights",
 *      "writer": "keras 2.15.0, tensorflow", "layers": ["conv1", "dense"],
 *      "tensors": [{"name": "conv1/kernel:0", "layer": "conv1", "dtype": "float32",
 *                   "shape": [3, 3, 1, 8], "bytes": 288, "h5": "/conv1/conv1/kernel:0",
 *                   "files": [{"path": "conv1/kernel.npy", "offset_rows": 0, "rows": 3,
 *                              "crc32": "4f217fb9"}]}, ...],
 *      "datasets": [...],                 of the HDF5 file, but no tensors of the model
 *      "attributes": {"/": {"backend": {"type": "string", "kind": "variable", ...}}, ...},
 *      "members": [{"name": "config.json", "text": "..."}],    of a .keras archive
 *      "metadata": "..."}                                      of a safetensors file
 *
 * "layer" is null for optimizer state, which has "state": true, and for formats without layers.
 * "attributes" lists every group of the HDF5 file, also those without attributes, so that join
 * writes the file as it was. A text that is not UTF-8 is {"hex": "..."}; as a key "hex:...". */
#ifndef PG_FORMAT_MANIFEST_H
#define PG_FORMAT_MANIFEST_H

#include "base/str.h"
#include "format/h5/h5.h"
#include "io/io.h"

#define PG_MANIFEST         "manifest.json"
#define PG_MANIFEST_VERSION 1

typedef struct pg__piece {
    char *path;   /* of the shard, below the folder; owned */
    char *member; /* in a shard of several tensors: entry, tensor or dataset; owned; else NULL */
    uint64_t off_rows, rows;
    uint32_t crc; /* of the file */
} pg__piece;

typedef enum pg__shard_role { PG_ROLE_WEIGHT, PG_ROLE_STATE, PG_ROLE_DATASET } pg__shard_role;

typedef struct pg__shard_tensor {
    char *name;   /* owned */
    char *h5;     /* path of its dataset without the leading slash, owned; or NULL */
    size_t layer; /* or PG_NONE */
    pg__shard_role role;
    pg_dtype dtype;
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK];
    uint64_t n_bytes;
    size_t first, n; /* its pieces, which tile axis 0 in order */
} pg__shard_tensor;

/* A group or dataset of the original HDF5 file. */
typedef struct pg__shard_object {
    char *path; /* without the leading slash, "" = root; owned */
    size_t first, n;
} pg__shard_object;

typedef struct pg__shard_member {
    char *name, *text; /* owned; text has n bytes and a NUL */
    size_t n;
} pg__shard_member;

typedef struct pg__manifest {
    char *format;        /* "npy", "npz", "safetensors", "keras" */
    char *source;        /* file name without folder */
    char *source_format; /* as pg_store_format() */
    char *writer;        /* as pg_store_writer(), or NULL */
    pg__strs layers;
    pg__shard_tensor *tensors; /* weights, then state, then other datasets */
    size_t n_tensors, cap_tensors, n_weights, n_state;
    pg__piece *pieces;
    size_t n_pieces, cap_pieces;
    pg__shard_object *objects;
    size_t n_objects, cap_objects;
    pg__h5_attr *attrs; /* names and values owned if own_attrs */
    size_t n_attrs, cap_attrs;
    int own_attrs;
    pg__shard_member *members;
    size_t n_members, cap_members;
    char *metadata;
    size_t n_metadata;
} pg__manifest;

void pg__manifest_fini(pg__manifest *m);

/* Builds a manifest: copies everything except the values of attributes, which are borrowed. */
pg_status pg__manifest_add_tensor(pg__manifest *m, const pg__shard_tensor *t, pg_err *err);
pg_status pg__manifest_add_piece(pg__manifest *m, const pg__piece *p, pg_err *err);
pg_status pg__manifest_add_object(pg__manifest *m, const char *path, pg_err *err);
pg_status pg__manifest_add_attr(pg__manifest *m, const pg__h5_attr *a, pg_err *err);
pg_status pg__manifest_add_member(pg__manifest *m, const char *name, const char *text, size_t n,
                                  pg_err *err);

/* Drops all other datasets, and tensors whose name, layer, layer/name and file do not match. */
void pg__manifest_select(pg__manifest *m, const char *glob);

/* The manifest as JSON text. */
pg_status pg__manifest_print(pg__str *out, const pg__manifest *m, pg_err *err);

/* Parses and checks: every path stays below the folder, pieces tile their tensors, sizes fit.
 * PG_E_UNKNOWN if the JSON is not a manifest, PG_E_FORMAT and PG_E_LIMIT name the entry. */
pg_status pg__manifest_parse(pg__manifest *out, const char *text, size_t n, pg_err *err);

/* 1 if a manifest that begins with `head` (100 bytes are enough) accompanies the index of its
 * shards, which are safetensors or Keras'. */
int pg__manifest_is_side(const char *head);

/* Whether it is JSON that lacks what each of our manifests has: other programs have files with that
 * name, too. A file that is not JSON may be one of ours that a power loss destroyed. */
pg_status pg__manifest_is_foreign(int *is, pg__io *io, pg_err *err);

/* 1 if a relative path has only harmless components: no empty one, ".", ".." or backslash. */
int pg__manifest_is_safe_path(const char *path);

#endif
