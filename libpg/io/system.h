/* system.h - calls that only Linux has, with what other systems do instead: those that are built
 * with PG_PORTABLE, where system.c uses POSIX alone. They return -1 with errno, as system calls do;
 * EOPNOTSUPP where there is no substitute, and the caller has another way or goes without. */
#ifndef PG_IO_SYSTEM_H
#define PG_IO_SYSTEM_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>

/* For folders that are only a place to start from. */
#ifdef PG_PORTABLE
#define PG_O_PATH 0
#else
#define PG_O_PATH O_PATH
#endif

/* When the contents of a file changed last, with nanoseconds. */
#ifdef __APPLE__
#define PG_MTIME(sb) ((sb).st_mtimespec)
#else
#define PG_MTIME(sb) ((sb).st_mtim)
#endif

/* Gives the file blocks for n bytes from off on, and its size; a substitute would write them. */
int pg__sys_allocate(int fd, uint64_t off, uint64_t n);

/* Makes n bytes of one file those of another, without a copy; whole blocks. */
int pg__sys_share(int to, uint64_t to_off, int from, uint64_t from_off, uint64_t n);

/* Renames within a folder; fails with EEXIST if the new name is taken. */
int pg__sys_rename_new(int folder, const char *from, const char *to);

/* Exchanges two names; elsewhere in three steps, between which only b.pg-old may have the old b. */
int pg__sys_exchange(const char *a, const char *b);

/* Opens a file below the folder to read it; neither a link nor ".." on the way. */
int pg__sys_open_beneath(int folder, const char *name);

/* New files for this process alone: without a name in a folder; without a disk (elsewhere in
 * TMPDIR, unlinked); with a name made of a template that ends with XXXXXX. */
int pg__sys_unnamed_file(const char *folder);
int pg__sys_memory_file(void);
int pg__sys_named_file(char *template);

/* Waits until a file, or what is needed to read its bytes, is on the disk. */
int pg__sys_sync(int fd);
int pg__sys_sync_data(int fd);

/* The same for all files of the file system; without it, each has to be synced. */
int pg__sys_sync_all(int fd);
#ifdef PG_PORTABLE
#define PG_SYNCS_ALL 0
#else
#define PG_SYNCS_ALL 1
#endif

#endif
