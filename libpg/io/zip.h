/* zip.h - ZIP archives, read strictly (PKWARE APPNOTE 6.3.10).
 *
 * The central directory is walked by us and compared with every local header (name, method, sizes,
 * flags) before anything is believed: overlaps, duplicate names, encryption, methods other than
 * stored and deflated, multi-disk archives, symbolic links, bytes before the first entry or after
 * the end record are refused. libzip inflates, and must see the same members. Messages are
 * "MEMBER: reason"; the caller puts the file's name before. */
#ifndef PG_IO_ZIP_H
#define PG_IO_ZIP_H

#include "io/io.h"
#include "io/sink.h"

typedef struct pg__zip pg__zip;

typedef struct pg__zip_member {
    const char *name;     /* UTF-8; owned by the archive */
    int deflated;         /* 0: stored, data_off can be read in place */
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

/* Member as an io: a window if stored (CRC checked in one pass), else inflated into an unlinked
 * temporary file. */
pg_status pg__zip_open_member(pg__zip *z, size_t i, pg__io **out, pg_err *err);

/* n bytes from byte off of a member, for data too large to hold. The CRC is checked before the last
 * of them are handed out: in passing where a member is read from its first byte to its last, else
 * by reading all of it once. A deflated member is inflated into an unlinked temporary file, one at
 * a time. */
pg_status pg__zip_read(pg__zip *z, size_t i, uint64_t off, void *buf, size_t n, pg_err *err);

/* The first n bytes of a member, which has as many, without a check of its CRC. */
pg_status pg__zip_peek(pg__zip *z, size_t i, void *buf, size_t n, pg_err *err);

/* Writing stored members through a sink. Sizes are known beforehand, so that a member's data may be
 * filled by anyone between begin and end (pg__zip_out_begin returns where its data starts).
 * pad_to > 1 moves the data to pad_to, 2 pad_to, 4 pad_to ... by an extra field, if one of 64 KiB
 * reaches there: with 512, HDF5 opens the archive itself as a file with a user block. The first
 * member is always reached. */
typedef struct pg__zip_out pg__zip_out;
pg_status pg__zip_out_new(pg__zip_out **out, pg__sink *sink, pg_err *err);
pg_status pg__zip_out_begin(pg__zip_out *z, const char *name, uint64_t n, uint64_t pad_to,
                            uint64_t *data_off, pg_err *err);
pg_status pg__zip_out_end(pg__zip_out *z, uint32_t crc32, pg_err *err);
/* For members that are filled side by side, before finish: the CRC of one that was ended. */
pg_status pg__zip_out_correct(pg__zip_out *z, size_t member, uint32_t crc32, pg_err *err);
pg_status pg__zip_out_finish(pg__zip_out *z, pg_err *err); /* central directory, zip64 if needed */
void pg__zip_out_free(pg__zip_out *z);

#endif
