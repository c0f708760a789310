/* flip.h - a file that gets new contents where it is, in one step that a crash cannot halve.
 *
 *     PG_TRY(pg__flip_open(&f, path, &opts, err));    the lock
 *     PG_TRY(pg__flip_write(f, &change, err));        tail, fdatasync, head, fdatasync
 * done:
 *     pg__flip_close(f);
 *
 * For formats whose first bytes say where everything is: new parts go behind the old end, where
 * nobody looks, and count once the head is rewritten. It lies in one sector of the disk. Until then
 * the old contents are whole, after that the new ones. A killed run leaves a tail that nothing
 * leads to; the next pg__flip_write() replaces it, and puts it back if it fails: whoever wrote what
 * lies there, a failure changes no byte.
 *
 * Messages start with the path. */
#ifndef PG_IO_FLIP_H
#define PG_IO_FLIP_H

#include "io/sink.h"

typedef struct pg__flip pg__flip;

/* Opens a regular file for changing it and locks it (flock, as libhdf5 does). A symbolic link is
 * followed. Of opts: no_sync (leaves out the last wait only: the order on the disk is what makes
 * the step safe), cancel, progress. A file system without locks (some network disks) is no error:
 * see pg__flip_is_locked().
 * PG_E_ARG: it has further hard links, which would all change; PG_E_IO: locked, not writable. */
pg_status pg__flip_open(pg__flip **out, const char *path, const pg__sink_opts *opts, pg_err *err);

/* 0 if nothing keeps other programs from writing to the file meanwhile. */
int pg__flip_is_locked(const pg__flip *f);

/* PG_OK if io reads the file that is open here, PG_E_IO if not. */
pg_status pg__flip_check(const pg__flip *f, pg__io *io, pg_err *err);

typedef struct pg__flip_change {
    uint64_t end;     /* of the old contents; what the file holds behind it goes with the step */
    uint64_t tail_at; /* >= end; zeros between */
    const unsigned char *tail;
    size_t n_tail;
    const unsigned char *head; /* replaces the first n_head bytes, a sector (512) at most */
    size_t n_head;
} pg__flip_change;

/* On failure the file is as before, and the message says so, or what else: it is changed already (the
 * disk failed in the last wait), the disk also refused what was to be put back. */
pg_status pg__flip_write(pg__flip *f, const pg__flip_change *change, pg_err *err);

void pg__flip_close(pg__flip *f); /* NULL is allowed */

#endif
