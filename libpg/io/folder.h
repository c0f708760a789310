/* folder.h - paths of folders and what is in them; creates missing ones. */
#ifndef PG_IO_FOLDER_H
#define PG_IO_FOLDER_H

#include <dirent.h>
#include <stddef.h>

#include "base/str.h"

/* Sets out to the path of `name` in a folder; "" gives the folder's own, with a slash at its end.
 */
pg_status pg__folder_path(pg__str *out, const char *folder, const char *name, pg_err *err);

/* 1 if that errno says that a path leads to nothing. Any other one says nothing about it: what
 * could not be looked at must not pass for what is not there. */
int pg__is_absence(int sys);

/* Whether a path leads to anything, to a regular file, to a folder. PG_E_IO with the path if that
 * cannot be found out. */
pg_status pg__is_there(int *is, const char *path, pg_err *err);
pg_status pg__is_file(int *is, const char *path, pg_err *err);
pg_status pg__is_folder(int *is, const char *path, pg_err *err);

/* Creates every folder on the way to path, and path itself, as mkdir -p does; the first `fixed`
 * bytes exist already. PG_E_IO names the folder that could not be created. */
pg_status pg__folder_make(const char *path, size_t fixed, pg_err *err);

/* The same for the folder that contains the file `path`. */
pg_status pg__folder_make_for(const char *path, pg_err *err);

/* As pg__folder_make(); what was created survives a power loss. */
pg_status pg__folder_make_synced(const char *path, pg_err *err);

/* A descriptor of a folder, or -1 with errno; flags: PG_O_PATH, or 0. Like all functions here, it
 * continues after a signal. */
int pg__folder_open(const char *path, int flags);

/* NULL with errno. */
DIR *pg__folder_list(const char *path);

/* The same of a folder that may be missing: *out is NULL then. "" is the current one. PG_E_IO with
 * the path if it cannot be listed. */
pg_status pg__folder_list_if(DIR **out, const char *path, pg_err *err);

/* fsync() of an open folder: 0, also if the file system does not support it, or an errno. */
int pg__folder_fsync(int fd);

/* Waits until changes to a folder's entries are on disk. "" is the current folder. PG_E_IO. */
pg_status pg__folder_sync(const char *path, pg_err *err);

/* The same for the folder that contains path. */
pg_status pg__folder_sync_above(const char *path, pg_err *err);

/* The next entry, "." and ".." included; NULL at the end, and with *sys (an errno) if it cannot be
 * read: part of a list must not pass for the whole. */
const struct dirent *pg__folder_next(DIR *d, int *sys);

#endif
