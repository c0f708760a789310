/* h5_tree.h - a new HDF5 file, without libhdf5: groups, datasets and attributes are collected as a
 * tree in memory, get their addresses all at once, and are written from the first byte to the last.
 *
 *     new -> group/attr/dataset... -> finish -> bytes, offset -> flush(sink, base) -> free
 *
 * The file is what libhdf5 1.10 makes by default and every later version reads and changes:
 * superblock 0, symbol-table groups, object headers of version 1, contiguous datasets. In the file
 * follow each other: the superblock; objects in the order in which they were added, each group
 * with its B-tree, names and symbol nodes; the texts of variable length; the datasets' bytes. */
#ifndef PG_FORMAT_H5_H5_TREE_H
#define PG_FORMAT_H5_H5_TREE_H

#include "format/h5/h5_types.h"
#include "io/sink.h"

typedef struct pg__h5_tree pg__h5_tree;

pg_status pg__h5_tree_new(pg__h5_tree **out, pg_err *err);
void pg__h5_tree_free(pg__h5_tree *t); /* NULL is allowed; may be called at any time */

/* Paths are checked (pg__h5_out_check_path()); missing parents are made. An existing group is
 * fine. */
pg_status pg__h5_tree_group(pg__h5_tree *t, const char *path, pg_err *err);

/* Of the group or dataset at path. type: of a fixed string with its size; data: the elements in a
 * row, or for strings of variable length NULL: then they are a->strs. */
pg_status pg__h5_tree_attr(pg__h5_tree *t, const char *path, const pg__h5_attr *a,
                           const pg__h5_dtype *type, const void *data, pg_err *err);

/* n_bytes: of the whole dataset; *id counts from 0. */
pg_status pg__h5_tree_dataset(pg__h5_tree *t, const char *path, const pg__h5_dtype *type,
                              uint32_t rank, const uint64_t *dims, uint64_t n_bytes, size_t *id,
                              pg_err *err);

/* Gives everything its address. */
pg_status pg__h5_tree_finish(pg__h5_tree *t, pg_err *err);
uint64_t pg__h5_tree_bytes(const pg__h5_tree *t);
uint64_t pg__h5_tree_offset(const pg__h5_tree *t, size_t id); /* 0: it has no bytes */

/* Writes all but the datasets' bytes; byte 0 of the file is at base of the sink. */
pg_status pg__h5_tree_flush(const pg__h5_tree *t, pg__sink *sink, uint64_t base, pg_err *err);

#endif
