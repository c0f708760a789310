/* folder.h - folders that are made where they are missing. */
#ifndef PG_IO_FOLDER_H
#define PG_IO_FOLDER_H

#include <dirent.h>
#include <stddef.h>

#include "pg/err.h"

/* Every folder on the way to path, and path itself, as mkdir -p does; the first `fixed` bytes are
 * there already. PG_E_IO names the one that could not be made. */
pg_status pg__folder_make(const char *path, size_t fixed, pg_err *err);

/* The folder that the file `path` is in, and all on the way to it. */
pg_status pg__folder_make_for(const char *path, pg_err *err);

/* A folder as by pg__folder_make(), and what was made outlives a power loss. */
pg_status pg__folder_make_synced(const char *path, pg_err *err);

/* A descriptor of a folder, or -1 with errno; flags: O_PATH, or 0. As all here it goes on after a
 * signal. */
int pg__folder_open(const char *path, int flags);

/* NULL with errno. */
DIR *pg__folder_list(const char *path);

/* fsync() of an open folder: 0, also where the file system knows no such thing, or an errno. */
int pg__folder_fsync(int fd);

/* Waits until what happened to a folder's entries is on disk. "" is the current one. PG_E_IO. */
pg_status pg__folder_sync(const char *path, pg_err *err);

/* The same for the folder that holds path. */
pg_status pg__folder_sync_above(const char *path, pg_err *err);

/* The next entry, "." and ".." among them; NULL at the end, and with *sys (an errno) if it cannot
 * be read: a part of a list must not pass for the whole. */
const struct dirent *pg__folder_next(DIR *d, int *sys);

#endif
