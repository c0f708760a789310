/* h5_writer_impl.h - shared by h5_writer.c, h5_lib.c and h5_relink.c. */
#ifndef PG_FORMAT_H5_H5_WRITER_IMPL_H
#define PG_FORMAT_H5_H5_WRITER_IMPL_H

#include "format/h5/h5_memory.h"
#include "format/h5/h5_tree.h"
#include "format/h5/h5_writer.h"

struct pg__h5_out {
    pg__h5_tree *tree; /* a new file; NULL: an old one, through libhdf5, with what follows */
    pg__h5_memory mem;
    int64_t driver, file, fapl, lcpl, gcpl; /* -1: not open */
    int64_t root;                           /* where paths start: the new root group */
    int64_t object; /* the last group created, or last object that got an attribute; or -1 */
    char *object_path;
    uint64_t tail_at; /* where new objects begin */
};

/* For an old file: makes everything but it; *out must be freed even after a failure. */
pg_status pg__h5_out_setup(pg__h5_out **out, size_t n_objects, pg_err *err);

/* PG_E_FORMAT for a path that HDF5 would interpret differently. */
pg_status pg__h5_out_check_path(const char *path, pg_err *err);

#endif
