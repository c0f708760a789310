/* h5_lib.h - libhdf5's share of the writer: new groups, attributes and links in an old file (see
 * h5_relink.h). It works on our memory (h5_memory.h), so its failures never reach a disk. */
#ifndef PG_FORMAT_H5_H5_LIB_H
#define PG_FORMAT_H5_H5_LIB_H

#include "format/h5/h5_writer_impl.h"

/* Makes everything but a file; pg__h5_lib_fini() must follow even after a failure. */
pg_status pg__h5_lib_begin(pg__h5_out *h, size_t n_objects, pg_err *err);
pg_status pg__h5_lib_end(pg__h5_out *h, pg_err *err); /* the memory stays */
void pg__h5_lib_fini(pg__h5_out *h);

pg_status pg__h5_lib_group(pg__h5_out *h, const char *path, pg_err *err);

/* As pg__h5_tree_attr(). */
pg_status pg__h5_lib_attr(pg__h5_out *h, const char *path, const pg__h5_attr *a,
                          const pg__h5_dtype *type, const void *data, pg_err *err);

/* The object from which *path is looked up, and *path relative to it: using the open one saves the
 * way from the root. */
int64_t pg__h5_lib_locate(const pg__h5_out *h, const char **path);

/* Writes the message for a failed call of libhdf5 on the object at path. */
pg_status pg__h5_lib_fail(const pg__h5_out *h, const char *path, const char *what, pg_err *err);

#endif
