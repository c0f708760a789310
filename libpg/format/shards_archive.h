/* shards_archive.h - a shard that holds several tensors: an .npz archive, a .safetensors file, or a
 * .weights.h5 file. */
#ifndef PG_FORMAT_SHARDS_ARCHIVE_H
#define PG_FORMAT_SHARDS_ARCHIVE_H

#include "format/npy.h"

typedef struct pg__archive pg__archive;

typedef enum pg__archive_kind {
    PG_ARCHIVE_NPZ,
    PG_ARCHIVE_SAFETENSORS,
    PG_ARCHIVE_H5
} pg__archive_kind;

/* A member. The io of pg__archive_member() starts with an .npy header in an .npz archive, and with
 * the data in the other files, which also have no checksums of members. */
typedef struct pg__member {
    pg__npy head;
    uint32_t crc; /* of an archive's member */
} pg__member;

/* Opens io (referenced); checks its directory, header or objects. */
pg_status pg__archive_open(pg__archive **out, pg__io *io, pg__archive_kind kind, pg_err *err);
void pg__archive_close(pg__archive *a); /* NULL is allowed */

/* Member `name` (of a .weights.h5 file: the path of a dataset) as an io, which the caller closes;
 * what may be NULL. PG_E_IO with ENOENT: it does not exist; the message says so without the file's
 * name. */
pg_status pg__archive_member(pg__io **out, pg__member *what, pg__archive *a, const char *name,
                             pg_err *err);

/* CRC-32 of the whole file. */
pg_status pg__archive_sum(uint32_t *crc, const pg__archive *a, unsigned char *buf, pg_err *err);

#endif
