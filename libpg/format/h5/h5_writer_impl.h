/* h5_writer_impl.h - shared by h5_writer.c (new files) and h5_relink.c (new links in an old
 * one). */
#ifndef PG_FORMAT_H5_H5_WRITER_IMPL_H
#define PG_FORMAT_H5_H5_WRITER_IMPL_H

#include "format/h5/h5_memory.h"
#include "format/h5/h5_writer.h"

/* The bytes of a dataset. */
typedef struct pg__h5_placed {
    uint64_t off, n;
} pg__h5_placed;

struct pg__h5_out {
    pg__h5_memory mem;
    int64_t driver, file, fapl, lcpl, gcpl, dcpl; /* -1: not open */
    int64_t root;   /* where paths start: the file, or the new root group of a relinked one */
    int64_t object; /* the last group created, or last object that got an attribute; or -1 */
    char *object_path;
    pg__h5_placed *ext; /* by dataset id */
    size_t n_ext, cap_ext;
    uint64_t bytes;   /* of the image; 0 until finish */
    uint64_t tail_at; /* relinked: where new objects begin */
};

/* Makes everything but a file; *out must be freed even after a failure. */
pg_status pg__h5_out_setup(pg__h5_out **out, size_t n_objects, pg_err *err);

/* The object from which *path is looked up, and *path relative to it: using the open one saves the
 * way from the root. */
int64_t pg__h5_out_locate(const pg__h5_out *h, const char **path);

/* PG_E_FORMAT for a path that HDF5 would interpret differently. */
pg_status pg__h5_out_check_path(const char *path, pg_err *err);

/* Writes the message for a failed call of libhdf5 on the object at path. */
pg_status pg__h5_out_fail(const pg__h5_out *h, const char *path, const char *what, pg_err *err);

#endif
