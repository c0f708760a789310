/* shards_archive.h - a shard that holds several tensors: an .npz archive or a .safetensors file. */
#ifndef PG_FORMAT_SHARDS_ARCHIVE_H
#define PG_FORMAT_SHARDS_ARCHIVE_H

#include "format/npy.h"

typedef struct pg__archive pg__archive;

/* What a member is. The io that pg__archive_member() gives starts with an .npy header in an
 * archive, with the data in a safetensors file, which has no checksum of its own. */
typedef struct pg__member {
    pg__npy head;
    uint32_t crc; /* of an archive's member */
} pg__member;

/* Opens io (referenced) as what its path says it is; checks its directory or header. */
pg_status pg__archive_open(pg__archive **out, pg__io *io, int is_safetensors, pg_err *err);
void pg__archive_close(pg__archive *a); /* NULL is allowed */

/* Member `name` as an io, closed by the caller; what may be NULL. PG_E_IO with ENOENT: it is not
 * there. */
pg_status pg__archive_member(pg__io **out, pg__member *what, pg__archive *a, const char *name,
                             pg_err *err);

/* CRC-32 of the whole file. */
pg_status pg__archive_sum(uint32_t *crc, const pg__archive *a, unsigned char *buf, pg_err *err);

#endif
