/* h5_writer.h - new HDF5 files as Keras writes them: superblock 0, old groups, contiguous datasets,
 * no filters, no times.
 *
 * Everything but the datasets' bytes is collected in memory, so failures never reach a disk; after
 * pg__h5_out_finish() the caller copies the bytes into the extents.
 *
 *     new -> group/attr/dataset... -> finish -> n_bytes, extents -> flush(sink, base) -> free
 */
#ifndef PG_FORMAT_H5_H5_WRITER_H
#define PG_FORMAT_H5_H5_WRITER_H

#include "format/h5/h5_types.h"
#include "io/sink.h"

typedef struct pg__h5_out pg__h5_out;

pg_status pg__h5_out_new(pg__h5_out **out, pg_err *err);
void pg__h5_out_free(pg__h5_out *h); /* NULL is allowed; may be called at any time */

/* Creates a group and its missing parents; an existing group is fine. "" is the root. */
pg_status pg__h5_out_group(pg__h5_out *h, const char *path, pg_err *err);

/* Writes an attribute on the group or dataset at path. Strings: type.cls says fixed (size 0 =
 * longest) or variable; n_elems 0 writes an empty array of the type. */
pg_status pg__h5_out_attr(pg__h5_out *h, const char *path, const pg__h5_attr *attr, pg_err *err);

/* A list of names as Keras stores it (`name`, or `name`0, `name`1 ... if it exceeds what an object
 * header holds; an empty list is float64[0]). like: PG_H5_STR_FIXED or PG_H5_STR_VLEN. */
pg_status pg__h5_out_names(pg__h5_out *h, const char *path, const char *attr,
                           const char *const *names, size_t n, pg__h5_class like, pg_err *err);

/* Creates a contiguous dataset (missing parents too); *id counts from 0. */
pg_status pg__h5_out_dataset(pg__h5_out *h, const char *path, const pg__h5_dtype *type,
                             uint32_t rank, const uint64_t *dims, size_t *id, pg_err *err);

/* Gives everything its place. Afterwards the image's size and each dataset's offset are known. */
pg_status pg__h5_out_finish(pg__h5_out *h, pg_err *err);
uint64_t pg__h5_out_bytes(const pg__h5_out *h);
uint64_t pg__h5_out_offset(const pg__h5_out *h, size_t id); /* from the start of the image */

/* Writes all metadata to sink; the image starts at byte base. Bytes of datasets are not touched, so
 * they may be copied before or after. */
pg_status pg__h5_out_flush(pg__h5_out *h, pg__sink *sink, uint64_t base, pg_err *err);

#endif
