/* io.h - positioned reads from a file, a part of a file, memory, or several of these. There are no
 * short reads. */
#ifndef PG_IO_IO_H
#define PG_IO_IO_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"
#include "pg/progress.h"

typedef struct pg__io pg__io;

/* Regular files only (O_NONBLOCK, fstat): a FIFO or device is PG_E_UNSUPPORTED, a folder PG_E_IO.
 * Messages start with the path. */
pg_status pg__io_open(pg__io **out, const char *path, pg_err *err);

/* The same of a file that may be missing: *out stays NULL if the path leads to nothing, or to no
 * file. */
pg_status pg__io_open_if(pg__io **out, const char *path, pg_err *err);

/* A descriptor of the folder that holds `path`, which comes from the user and may go through links;
 * closed by the caller. Messages start with `name`. */
pg_status pg__io_folder_of(int *out, const char *path, const char *name, pg_err *err);

/* Opens the file `name` in that folder, for names that come from a file: one component, not a
 * symbolic link. PG_E_FORMAT for a name that points elsewhere; PG_E_IO with the system's number in
 * err->sys. Messages start with the name. */
pg_status pg__io_open_beside(pg__io **out, int folder, const char *name, pg_err *err);

/* Closes the descriptor of a file that pg__io_open_below() opened in `folder`, which must stay
 * open: each read opens the file for its duration, and fails if it was changed. For checkpoints of
 * more files than a process may have open. */
void pg__io_rest(pg__io *io, int folder);

/* pg__io_open_beside() for a path of several components ("conv1/kernel.npy") below the folder; none
 * of them may be a symbolic link, "." or "..". Messages start with the path. */
pg_status pg__io_open_below(pg__io **out, int folder, const char *name, pg_err *err);

/* The same for one file, below the folder that holds `path`. */
pg_status pg__io_open_beneath(pg__io **out, const char *path, const char *name, pg_err *err);

/* Borrows p; it must outlive the io. */
pg_status pg__io_open_mem(pg__io **out, const void *p, size_t n, pg_err *err);

/* Window of n bytes at off of parent; keeps parent open until it is closed (reference counted). */
pg_status pg__io_open_window(pg__io **out, pg__io *parent, uint64_t off, uint64_t n, pg_err *err);

/* Joins several in a row, which stay open until this is closed; each holds at least one byte. */
pg_status pg__io_open_joined(pg__io **out, pg__io *const *parts, size_t n, pg_err *err);

/* Takes over fd (e.g. an unlinked temporary): closed with the io, also on failure. */
pg_status pg__io_open_fd(pg__io **out, int fd, const char *name, pg_err *err);

pg__io *pg__io_ref(pg__io *io);
void pg__io_close(pg__io *io); /* NULL is allowed; drops one reference */

uint64_t pg__io_size(const pg__io *io);
const char *pg__io_name(const pg__io *io); /* path as given; "memory" */

/* Fills buf from off. PG_E_FORMAT if the range leaves the file ("truncated"), also if the file
 * shrank since it was opened; PG_E_IO. */
pg_status pg__io_read(pg__io *io, uint64_t off, void *buf, size_t n, pg_err *err);

/* SHA-256 of everything, as hex digits. Progress is reported every 256 KiB, without bytes; cancel
 * and progress may be NULL. */
pg_status pg__io_sha256(pg__io *io, char out[65], const volatile int *cancel, pg_progress *progress,
                        pg_err *err);

/* PG_E_IO if the file was changed since it was opened: reads before and after that are not of one
 * file. Memory never changes. The message starts with the path. */
pg_status pg__io_check_same(const pg__io *io, pg_err *err);

/* Descriptor and offset that hold byte off, for FICLONERANGE; -1 for memory, joined ones, and
 * after pg__io_rest(). */
int pg__io_fd(const pg__io *io, uint64_t off, uint64_t *fd_off);

#endif
