/* zip.h - ZIP archives, read strictly (PKWARE APPNOTE 6.3.10).
 *
 * We walk the central directory and compare it with every local header (name, method, sizes, flags)
 * before we believe anything. Overlaps, duplicate names, encryption, methods other than stored and
 * deflated, multi-disk archives, symbolic links, bytes before the first entry or after the end
 * record are refused. libzip inflates, and must see the same members. Messages are "MEMBER:
 * reason"; the caller adds the file's name. */
#ifndef PG_IO_ZIP_H
#define PG_IO_ZIP_H

#include "io/io.h"
#include "io/sink.h"

typedef struct pg__zip pg__zip;

typedef struct pg__zip_member {
    const char *name;     /* UTF-8; owned by the archive */
    int deflated;         /* 0: stored; can be read in place at data_off */
    uint64_t data_off;    /* of the (compressed) data in the archive */
    uint64_t n_stored, n; /* bytes stored; bytes after inflating */
    uint32_t crc32;
} pg__zip_member;

pg_status pg__zip_open(pg__zip **out, pg__io *io, pg_err *err); /* references io */
void pg__zip_close(pg__zip *z);
size_t pg__zip_n(const pg__zip *z);
const pg__zip_member *pg__zip_at(const pg__zip *z, size_t i);
size_t pg__zip_find(const pg__zip *z, const char *name); /* index, or (size_t)-1 */

/* Whole member into fresh memory (NUL after it); at most `limit` bytes. CRC checked. */
pg_status pg__zip_load(pg__zip *z, size_t i, uint64_t limit, char **out, size_t *n, pg_err *err);

/* Member as an io: a window if it is stored (CRC checked in one pass), else inflated into an
 * unlinked temporary file. */
pg_status pg__zip_open_member(pg__zip *z, size_t i, pg__io **out, pg_err *err);

/* n bytes from byte off of a member, for data too large for memory. The CRC is checked before the
 * last bytes are returned: on the way if a member is read from its first byte to its last, else by
 * reading all of it once. A deflated member is inflated into an unlinked temporary file, one at a
 * time. */
pg_status pg__zip_read(pg__zip *z, size_t i, uint64_t off, void *buf, size_t n, pg_err *err);

/* The first n bytes of a member, which has at least as many; its CRC is not checked. */
pg_status pg__zip_peek(pg__zip *z, size_t i, void *buf, size_t n, pg_err *err);

/* Writing stored members through a sink. Sizes are known beforehand, so anyone may fill in a
 * member's data between begin and end (pg__zip_out_begin returns where its data starts). pad_to > 1
 * moves the data to pad_to, 2 pad_to, 4 pad_to ... with an extra field, if its 64 KiB suffice: with
 * 512, HDF5 can open the archive itself, as a file with a user block. For the first member they
 * always suffice. */
typedef struct pg__zip_out pg__zip_out;
pg_status pg__zip_out_new(pg__zip_out **out, pg__sink *sink, pg_err *err);
pg_status pg__zip_out_begin(pg__zip_out *z, const char *name, uint64_t n, uint64_t pad_to,
                            uint64_t *data_off, pg_err *err);
pg_status pg__zip_out_end(pg__zip_out *z, uint32_t crc32, pg_err *err);
/* For members filled in parallel, before finish: sets the CRC of a member that has been ended. */
pg_status pg__zip_out_correct(pg__zip_out *z, size_t member, uint32_t crc32, pg_err *err);
pg_status pg__zip_out_finish(pg__zip_out *z, pg_err *err); /* central directory, zip64 if needed */
void pg__zip_out_free(pg__zip_out *z);

#endif
