/* h5_relink.h - new groups over old objects: an .h5 whose datasets stay where they are while a new
 * root, written after the old end, says what they are called. Used like h5_writer.h:
 *
 *     over -> group/attr/names/link... -> relinked -> free
 */
#ifndef PG_FORMAT_H5_H5_RELINK_H
#define PG_FORMAT_H5_H5_RELINK_H

#include "format/h5/h5_writer.h"
#include "format/h5/relinked.h"

/* *yes: base begins with a superblock that can be relinked: version 0 or 1, addresses of 8 bytes
 * that count from byte 0, end of file at byte end. */
pg_status pg__h5_relinkable(int *yes, pg__io *base, uint64_t end, pg_err *err);

/* Begins a new tree over the first `end` bytes of base, which our reader has accepted. */
pg_status pg__h5_out_over(pg__h5_out **out, pg__io *base, uint64_t end, size_t n_objects,
                          pg_err *err);

/* Gives the object at path `from` of the old file the name `path` in the new tree. */
pg_status pg__h5_out_link(pg__h5_out *h, const char *path, const char *from, pg_err *err);

/* Finishes libhdf5's work; *out describes the resulting file. base is borrowed. */
pg_status pg__h5_out_relinked(pg__relinked *out, pg__h5_out *h, pg_err *err);

#endif
