/* relinked.h - a file that is another one with a new beginning and a new end: the result of
 * relinking (keras_h5_relink.c), from which save.c makes a copy or changes the file itself. */
#ifndef PG_FORMAT_H5_RELINKED_H
#define PG_FORMAT_H5_RELINKED_H

#include "format/h5/h5_types.h"
#include "io/sink.h"

#define PG_RELINKED_HEAD 100u /* bytes of a superblock of version 1; version 0 has 96 */

typedef struct pg__relinked {
    pg__io *base; /* the old file; borrowed */
    uint64_t end; /* its first `end` bytes stay, less ... */
    unsigned char head[PG_RELINKED_HEAD];
    size_t n_head;       /* ... those that head replaces */
    uint64_t tail_at;    /* end, rounded up so that no old sector is written; zeros between */
    unsigned char *tail; /* owned */
    size_t n_tail;
    pg__run *kept; /* of a copy: the bytes that something still points to; the rest becomes zeros.
                      Owned */
    size_t n_kept;
    uint64_t *sums; /* of a copy, once it is written, if pg__relinked_keep_sums() asked for them:
                       XXH64 of every PG_COPY_BYTES of the old file as the copy has them. Owned */
} pg__relinked;

void pg__relinked_fini(pg__relinked *r);

/* The future file, made of pieces in memory and of the old file; r must outlive it. */
pg_status pg__relinked_open(pg__io **out, const pg__relinked *r, pg_err *err);

/* Makes r a copy: of the old file's bytes it will contain only the n runs. */
pg_status pg__relinked_keep(pg__relinked *r, const pg__run *used, size_t n, pg_err *err);

/* Before the copy is written: the old file is to be read once. */
pg_status pg__relinked_keep_sums(pg__relinked *r, pg_err *err);

/* n bytes of the old file as the copy will have them. */
pg_status pg__relinked_read(const pg__relinked *r, uint64_t off, unsigned char *buf, size_t n,
                            pg_err *err);

/* How many of the bytes before end are in no run. */
uint64_t pg__bytes_between(const pg__run *runs, size_t n, uint64_t end);

/* Writes the copy; reports end + n_tail + n_head bytes as progress. */
pg_status pg__relinked_write(pg__sink *sink, const pg__relinked *r, pg_progress *progress,
                             pg_err *err);

/* When to relink a copy rather than write it afresh. */
typedef enum pg__relink_when {
    PG_RELINK_IF_CHEAPER,
    PG_RELINK_IF_POSSIBLE /* for tests; in place there is no other way */
} pg__relink_when;

#endif
