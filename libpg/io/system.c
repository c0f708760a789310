/* system.c - see system.h. */
#include "io/system.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/scratch.h"

int pg__sys_sync(int fd)
{
#ifdef F_FULLFSYNC /* macOS: its fsync() waits for the disk's memory only; not every file system \
                      has this */
    if (fcntl(fd, F_FULLFSYNC) == 0)
        return 0;
#endif
    return fsync(fd);
}

#ifndef PG_PORTABLE

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#ifdef SYS_openat2
#include <linux/openat2.h>
#endif

int pg__sys_allocate(int fd, uint64_t off, uint64_t n)
{
    return fallocate(fd, 0, (off_t)off, (off_t)n);
}

int pg__sys_share(int to, uint64_t to_off, int from, uint64_t from_off, uint64_t n)
{
    struct file_clone_range r = {
        .src_fd = from, .src_offset = from_off, .src_length = n, .dest_offset = to_off};
    return ioctl(to, FICLONERANGE, &r);
}

int pg__sys_rename_new(int folder, const char *from, const char *to)
{
    return renameat2(folder, from, folder, to, RENAME_NOREPLACE);
}

int pg__sys_exchange(const char *a, const char *b)
{
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

/* Linux 5.6 and later. */
int pg__sys_open_beneath(int folder, const char *name)
{
#ifdef SYS_openat2
    const struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
#else
    (void)folder, (void)name;
    errno = ENOSYS;
    return -1;
#endif
}

int pg__sys_unnamed_file(const char *folder)
{
    return open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

int pg__sys_memory_file(void)
{
    return memfd_create("pg", MFD_CLOEXEC);
}

int pg__sys_named_file(char *template)
{
    return mkostemp(template, O_CLOEXEC);
}

int pg__sys_sync_data(int fd)
{
    return fdatasync(fd);
}

int pg__sys_sync_all(int fd)
{
    return syncfs(fd);
}

#else

static int lacks(void)
{
    errno = EOPNOTSUPP;
    return -1;
}

int pg__sys_allocate(int fd, uint64_t off, uint64_t n)
{
    (void)fd, (void)off, (void)n;
    return lacks();
}

int pg__sys_share(int to, uint64_t to_off, int from, uint64_t from_off, uint64_t n)
{
    (void)to, (void)to_off, (void)from, (void)from_off, (void)n;
    return lacks();
}

int pg__sys_rename_new(int folder, const char *from, const char *to)
{
    (void)folder, (void)from, (void)to;
    return lacks();
}

int pg__sys_exchange(const char *a, const char *b)
{
    char old[PATH_MAX];
    if ((size_t)snprintf(old, sizeof old, "%s.pg-old", b) >= sizeof old) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (rename(b, old) != 0)
        return -1;
    if (rename(a, b) == 0)
        return rename(old, a);
    const int why = errno;
    (void)rename(old, b);
    errno = why;
    return -1;
}

int pg__sys_open_beneath(int folder, const char *name)
{
    (void)folder, (void)name;
    return lacks();
}

int pg__sys_unnamed_file(const char *folder)
{
    (void)folder;
    return lacks();
}

int pg__sys_memory_file(void)
{
    const char *where;
    int fd = -1;
    return pg__scratch_open(&fd, &where, NULL) == PG_OK ? fd : -1;
}

/* Another thread that starts a program just now may hand it this file, which then has no name any
 * more. */
int pg__sys_named_file(char *template)
{
    const int fd = mkstemp(template);
    if (fd >= 0)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

int pg__sys_sync_data(int fd)
{
    return pg__sys_sync(fd);
}

int pg__sys_sync_all(int fd)
{
    (void)fd;
    return 0;
}

#endif
