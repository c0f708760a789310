/* flip.h - gives a file new contents in place, in one step that a crash cannot halve.
 *
 *     PG_TRY(pg__flip_open(&f, path, &opts, err));    the lock
 *     PG_TRY(pg__flip_write(f, &change, err));        tail, fdatasync, head, fdatasync
 * done:
 *     pg__flip_close(f);
 *
 * For formats whose first bytes say where everything is. New parts go after the old end, where no
 * reader looks, and take effect once the head, which fits in one sector of the disk, is rewritten.
 * Before that the old contents are whole, afterwards the new ones. A killed run leaves a tail that
 * nothing points to. The next pg__flip_write() replaces it, and restores it if it fails: no matter
 * who wrote those bytes, a failure changes none of them.
 *
 * Messages start with the path. */
#ifndef PG_IO_FLIP_H
#define PG_IO_FLIP_H

#include "io/sink.h"

typedef struct pg__flip pg__flip;

/* Opens a regular file for changes and locks it (flock, as libhdf5 does). A symbolic link is
 * followed. Of opts: no_sync (skips the last wait only: the step is safe because of the order on
 * the disk), cancel, progress. A file system without locks (some network disks) is not an error:
 * see pg__flip_is_locked(). PG_E_ARG: it has other hard links, which would all change; PG_E_IO:
 * locked, not writable. */
pg_status pg__flip_open(pg__flip **out, const char *path, const pg__sink_opts *opts, pg_err *err);

/* 0 if nothing keeps other programs from writing to the file at the same time. */
int pg__flip_is_locked(const pg__flip *f);

/* PG_OK if io reads the file that is open here, else PG_E_IO. */
pg_status pg__flip_check(const pg__flip *f, pg__io *io, pg_err *err);

typedef struct pg__flip_change {
    uint64_t end;     /* of the old contents; what the file holds after it is dropped with the
                         step */
    uint64_t tail_at; /* >= end; zeros between */
    const unsigned char *tail;
    size_t n_tail;
    const unsigned char *head; /* replaces the first n_head bytes, a sector (512) at most */
    size_t n_head;
} pg__flip_change;

/* On failure the file is as before, and the message says so. If not, it says how the file is now:
 * it is changed already (the disk failed in the last wait), or the disk also refused to restore
 * it. */
pg_status pg__flip_write(pg__flip *f, const pg__flip_change *change, pg_err *err);

void pg__flip_close(pg__flip *f); /* NULL is allowed */

#endif
