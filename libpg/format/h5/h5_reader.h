/* h5_reader.h - our own strict reader of the part of HDF5 that weight files use.
 *
 * pg__h5_open() walks the whole file once: superblock, object headers, groups, attributes, layouts,
 * chunk indexes. It refuses by name whatever it does not understand, allocates only what stored
 * bytes justify, never recurses on input depth, and does not use libhdf5. Files that pass are safe
 * for libhdf5, except for values of types that weights never have, which it skips (PG_H5_OTHER).
 * Section numbers in the sources are those of the HDF5 File Format Specification 3.0.
 *
 * Messages are "OBJECT: reason" (OBJECT = path of the group or dataset, "/" for the root), or only
 * the reason if it concerns the whole file; the caller adds the file's name. PG_E_FORMAT damaged,
 * unsafe or incomplete, PG_E_LIMIT asks for too much, PG_E_UNSUPPORTED legal HDF5 that libpg does
 * not read. */
#ifndef PG_FORMAT_H5_H5_READER_H
#define PG_FORMAT_H5_H5_READER_H

#include "format/h5/h5_types.h"
#include "io/io.h"

typedef struct pg__h5 pg__h5;

typedef enum pg__h5_kind { PG_H5_GROUP, PG_H5_DATASET } pg__h5_kind;

/* Objects are numbered from 0 (the root) in depth-first order; children of a group are sorted by
 * name, as in the file's B-tree. Views are valid until pg__h5_close(). */
typedef struct pg__h5_object {
    const char *name; /* last component; "" for the root */
    pg__h5_kind kind;
    uint32_t parent, first_child, n_children; /* children: pg__h5_child(h, obj, k) */
    uint32_t n_attrs;
    pg__h5_dtype type; /* datasets; for PG_H5_OTHER only the shape is known besides */
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK];
    uint64_t n_bytes;   /* elements x size, uncompressed */
    int contiguous;     /* 1: the raw data is one extent of the file (n_bytes may be 0) */
    uint64_t off_bytes; /* of that extent, from the start of the io */
    uint64_t addr;      /* of the object header: same address = same object (hard links) */
    int remnants; /* it may hold bytes of a deleted object, or a comment, which no copy gets */
} pg__h5_object;

/* References io until closed. Legal HDF5 that this reader does not cover is PG_E_UNSUPPORTED, with
 * PG_DO_REPACK. */
pg_status pg__h5_open(pg__h5 **out, pg__io *io, pg_err *err);

/* Only the root, with its attributes and the names of its children; nothing below is read. */
pg_status pg__h5_open_root(pg__h5 **out, pg__io *io, pg_err *err);

void pg__h5_close(pg__h5 *h);

uint32_t pg__h5_n(const pg__h5 *h);
const pg__h5_object *pg__h5_at(const pg__h5 *h, uint32_t obj);
uint32_t pg__h5_child(const pg__h5 *h, uint32_t group, uint32_t k);

#define PG_H5_NONE UINT32_MAX
/* Object at a path relative to `from` ("a/b/c"; as in HDF5, "a//b/c/" is the same; "", "/a", "."
 * and
 * ".." never match), or PG_H5_NONE. O(depth x log children). */
uint32_t pg__h5_find(const pg__h5 *h, uint32_t from, const char *path);

/* Order of two paths as strcmp() gives it, but 0 for two that HDF5 takes for one ("a/b", "a//b/").
 */
int pg__h5_path_compare(const char *a, const char *b);

/* Writes the path of an object ("dense/kernel:0"; "/" for the root), printable, into buf; returns
 * buf. A path that does not fit is cut in front (".../kernel:0"). cap: at least 16. */
const char *pg__h5_path(const pg__h5 *h, uint32_t obj, char *buf, size_t cap);

/* Attribute k of an object in file order, without those whose values are not read; by name, NULL if
 * absent. Strings are decoded, variable-length ones included; see h5_types.h. */
const pg__h5_attr *pg__h5_attr_at(const pg__h5 *h, uint32_t obj, uint32_t k);
const pg__h5_attr *pg__h5_attr_find(const pg__h5 *h, uint32_t obj, const char *name);

/* Raw bytes of a dataset, in the file's byte order, row-major; any layout and allowed filter. Keeps
 * some decoded chunks. PG_E_FORMAT: checksum or inflate; PG_E_LIMIT: inflates to too much. */
pg_status pg__h5_read(pg__h5 *h, uint32_t obj, uint64_t off, void *buf, size_t n, pg_err *err);

/* How many datasets and attributes have values of types that are not read. names: the first
 * PG_H5_UNREAD of them, "history/table", "history/axis0@transposed". */
#define PG_H5_UNREAD 3
size_t pg__h5_unread(const pg__h5 *h, const char *names[PG_H5_UNREAD]);

/* The bytes that belong to the superblock and the objects, ascending, with gaps between the runs:
 * no reader of the file ever reads anything else. */
const pg__run *pg__h5_used(const pg__h5 *h, size_t *n);

/* Bytes before the superblock and after the end of the HDF5 data: reported, not refused. */
uint64_t pg__h5_user_block(const pg__h5 *h);
uint64_t pg__h5_trailing(const pg__h5 *h);

#endif
