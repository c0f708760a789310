/* resume_file.h - the container of resume.pg: named parts, each with a checksum.
 *
 *   0   8  "PGRESUME"
 *   8   4  version 1
 *  12   4  number of parts
 *  16   8  length of the file
 *  24  40  per part: name (16 bytes, zeros behind it), offset (8), bytes (8), CRC-32 (4), 0 (4)
 *       4  CRC-32 of all bytes before
 *
 * and the parts' bytes, one behind the other. Numbers are little-endian. The file before the last
 * is kept beside it, as FILE.1. */
#ifndef PG_TRAIN_MODEL_RESUME_FILE_H
#define PG_TRAIN_MODEL_RESUME_FILE_H

#include "io/io.h"

#define PG__RESUME_PARTS  16       /* at most */
#define PG__RESUME_OVER   "over"   /* part of a run that came to its end */
#define PG__RESUME_OUTPUT "output" /* changed in place, and checked by who reads it */

typedef struct pg__part {
    char name[16];
    const void *data; /* NULL: it is read piece by piece, from its beginning to its end */
    uint64_t n_bytes;
    pg_status (*read)(void *ctx, uint64_t off, void *buf, size_t n, pg_err *err);
    void *ctx;
} pg__part;

/* Appears whole or not at all; what was there becomes path.1. Folders are made. PG_E_IO. */
pg_status pg__resume_file_write(const char *path, const pg__part *parts, size_t n, pg_err *err);

/* Moves the state of a run that is not over out of the way of another: it becomes *moved,
 * path.before or with a number behind it (for pg__mem_free()); path.1 goes, which is older. */
pg_status pg__resume_file_set_aside(const char *path, char **moved, pg_err *err);

/* PG_E_ARG: something else has that name. */
pg_status pg__resume_file_check(const char *path, pg_err *err);

typedef struct pg__resume_file {
    pg__io *io;
    struct {
        char name[17];
        uint64_t off, n_bytes;
        uint32_t crc;
    } parts[PG__RESUME_PARTS];
    size_t n_parts;
} pg__resume_file;

/* Every byte is checked. PG_E_FORMAT: damaged, or no such file; PG_E_IO. Messages start with the
 * path. */
pg_status pg__resume_file_open(pg__resume_file *out, const char *path, pg_err *err);
/* The same of what is open already; messages name no file. References io. */
pg_status pg__resume_file_open_io(pg__resume_file *out, pg__io *io, pg_err *err);
void pg__resume_file_close(pg__resume_file *f);

/* Where a part stands in the file; only its head is looked at. */
pg_status pg__resume_file_find(const char *path, const char *name, uint64_t *off, uint64_t *n);

/* Bytes of a part, 0 where there is none. */
uint64_t pg__resume_file_bytes(const pg__resume_file *f, const char *name);

/* n bytes of a part from byte `off` on; messages are without the path. PG_E_FORMAT: it is shorter.
 */
pg_status pg__resume_file_read(const pg__resume_file *f, const char *name, uint64_t off, void *buf,
                               size_t n, pg_err *err);

/* A whole part as fresh memory with a NUL behind it. */
pg_status pg__resume_file_text(const pg__resume_file *f, const char *name, char **out, size_t *n,
                               pg_err *err);

#endif
