/* resume_file.h - the container of resume.pg: named parts, each with a checksum.
 *
 *   0   8  "PGRESUME"
 *   8   4  version 1
 *  12   4  number of parts
 *  16   8  length of the file
 *  24  40  per part: name (16 bytes, zero-padded), offset (8), bytes (8), CRC-32 (4), 0 (4)
 *       4  CRC-32 of all bytes before
 *
 * followed by the parts' bytes. Numbers are little-endian. The previous file is kept as FILE.1. */
#ifndef PG_TRAIN_MODEL_RESUME_FILE_H
#define PG_TRAIN_MODEL_RESUME_FILE_H

#include "io/io.h"

#define PG_RESUME_PARTS  16       /* at most */
#define PG_RESUME_OVER   "over"   /* present if the run was completed */
#define PG_RESUME_OUTPUT "output" /* changed in place; its reader checks it */

typedef struct pg__part {
    char name[16];
    const void *data; /* NULL: produced by read(), piece by piece, in order */
    uint64_t n_bytes;
    pg_status (*read)(void *ctx, uint64_t off, void *buf, size_t n, pg_err *err);
    void *ctx;
} pg__part;

/* Replaces the file atomically; the old one becomes path.1. Makes folders. PG_E_IO. */
pg_status pg__resume_file_write(const char *path, const pg__part *parts, size_t n, pg_err *err);

/* Moves the state of an unfinished run out of the way: to *moved, path.before or with a number
 * appended (for pg__mem_free()); removes path.1, which is older. */
pg_status pg__resume_file_set_aside(const char *path, char **moved, pg_err *err);

/* PG_E_ARG: the name belongs to something else. */
pg_status pg__resume_file_check(const char *path, pg_err *err);

typedef struct pg__resume_file {
    pg__io *io;
    struct {
        char name[17];
        uint64_t off, n_bytes;
        uint32_t crc;
    } parts[PG_RESUME_PARTS];
    size_t n_parts;
} pg__resume_file;

/* Checks every byte. PG_E_FORMAT: damaged, or not a resume file; PG_E_IO. Messages start with the
 * path. */
pg_status pg__resume_file_open(pg__resume_file *out, const char *path, pg_err *err);
/* The same for an open file; messages do not name it. Keeps a reference to io. */
pg_status pg__resume_file_open_io(pg__resume_file *out, pg__io *io, pg_err *err);
void pg__resume_file_close(pg__resume_file *f);

/* The place of a part in the file; reads only the header. */
pg_status pg__resume_file_find(const char *path, const char *name, uint64_t *off, uint64_t *n);

/* Bytes of a part, 0 if there is none. */
uint64_t pg__resume_file_bytes(const pg__resume_file *f, const char *name);

/* n bytes of a part from byte `off` on; messages do not name the file. PG_E_FORMAT: it is shorter.
 */
pg_status pg__resume_file_read(const pg__resume_file *f, const char *name, uint64_t off, void *buf,
                               size_t n, pg_err *err);

/* A whole part in fresh memory, with a NUL appended. */
pg_status pg__resume_file_text(const pg__resume_file *f, const char *name, char **out, size_t *n,
                               pg_err *err);

#endif
