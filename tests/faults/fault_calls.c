/* fault_calls.c - the system calls that faultrun knows, by class, and names of errors and signals.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "faultrun.h"

static const char *cls_name[NCLS] = {"open",   "write", "fsync", "trunc", "rename", "unlink",
                                     "mkdir",  "close", "read",  "mmap",  "stat",   "link",
                                     "falloc", "chmod", "lock",  "seek",  "clone"};

static const struct sc tab[] = {
    {SYS_open, OPEN, 'P', "open"},
    {SYS_creat, OPEN, 'P', "creat"},
    {SYS_openat, OPEN, 'A', "openat"},
#ifdef SYS_openat2
    {SYS_openat2, OPEN, 'A', "openat2"},
#endif
    {SYS_write, WRITE, 'F', "write"},
    {SYS_pwrite64, WRITE, 'F', "pwrite64"},
    {SYS_writev, WRITE, 'F', "writev"},
    {SYS_pwritev, WRITE, 'F', "pwritev"},
    {SYS_pwritev2, WRITE, 'F', "pwritev2"},
    {SYS_sendfile, WRITE, 'F', "sendfile"},
    {SYS_copy_file_range, WRITE, 'C', "copy_file_range"},
    {SYS_fsync, FSYNC, 'F', "fsync"},
    {SYS_fdatasync, FSYNC, 'F', "fdatasync"},
    {SYS_msync, FSYNC, '-', "msync"},
    {SYS_sync_file_range, FSYNC, 'F', "sync_file_range"},
    {SYS_syncfs, FSYNC, 'F', "syncfs"},
    {SYS_sync, FSYNC, '-', "sync"},
    {SYS_ftruncate, TRUNC, 'F', "ftruncate"},
    {SYS_truncate, TRUNC, 'P', "truncate"},
    {SYS_rename, RENAME, 'P', "rename"},
    {SYS_renameat, RENAME, 'A', "renameat"},
    {SYS_renameat2, RENAME, 'A', "renameat2"},
    {SYS_unlink, UNLINK, 'P', "unlink"},
    {SYS_unlinkat, UNLINK, 'A', "unlinkat"},
    {SYS_rmdir, UNLINK, 'P', "rmdir"},
    {SYS_mkdir, MKDIR, 'P', "mkdir"},
    {SYS_mkdirat, MKDIR, 'A', "mkdirat"},
    {SYS_close, CLOSE, 'F', "close"},
    {SYS_read, READ, 'F', "read"},
    {SYS_pread64, READ, 'F', "pread64"},
    {SYS_readv, READ, 'F', "readv"},
    {SYS_preadv, READ, 'F', "preadv"},
    {SYS_mmap, MMAP, 'M', "mmap"},
    {SYS_stat, STAT, 'P', "stat"},
    {SYS_lstat, STAT, 'P', "lstat"},
    {SYS_fstat, STAT, 'F', "fstat"},
    {SYS_newfstatat, STAT, 'A', "newfstatat"},
    {SYS_statx, STAT, 'A', "statx"},
    {SYS_link, LINK, 'P', "link"},
    {SYS_linkat, LINK, 'A', "linkat"},
    {SYS_symlink, LINK, 'P', "symlink"},
    {SYS_symlinkat, LINK, 'P', "symlinkat"},
    {SYS_fallocate, FALLOC, 'F', "fallocate"},
    {SYS_chmod, CHMOD, 'P', "chmod"},
    {SYS_fchmod, CHMOD, 'F', "fchmod"},
    {SYS_fchmodat, CHMOD, 'A', "fchmodat"},
    {SYS_fchown, CHMOD, 'F', "fchown"},
    {SYS_flock, LOCK, 'F', "flock"},
    {SYS_fcntl, LOCK, 'F', "fcntl"},
    {SYS_lseek, SEEK, 'F', "lseek"},
    {SYS_getdents64, READ, 'F', "getdents64"},
    {SYS_access, STAT, 'P', "access"},
    {SYS_faccessat, STAT, 'A', "faccessat"},
#ifdef SYS_faccessat2
    {SYS_faccessat2, STAT, 'A', "faccessat2"},
#endif
    {SYS_readlink, STAT, 'P', "readlink"},
    {SYS_readlinkat, STAT, 'A', "readlinkat"},
    {SYS_statfs, STAT, 'P', "statfs"},
    {SYS_fstatfs, STAT, 'F', "fstatfs"},
    {SYS_ioctl, CLONE, 'F', "ioctl"}, /* FICLONE and FICLONERANGE, no others */
};
#define NTAB (sizeof tab / sizeof *tab)
_Static_assert(NTAB <= MAX_CALLS, "a filter has room for all");

static const struct {
    const char *n;
    int v;
} errs[] = {
#define E(x)  \
    {         \
#x, x \
    }
    E(ENOSPC), E(EIO),     E(EINTR),  E(EDQUOT), E(EACCES), E(EPERM),        E(EROFS),
    E(EMFILE), E(ENFILE),  E(ENOMEM), E(EFBIG),  E(EAGAIN), E(EEXIST),       E(ENOENT),
    E(ESTALE), E(ENOLCK),  E(EXDEV),  E(EBUSY),  E(ELOOP),  E(ENAMETOOLONG), E(EBADF),
    E(EINVAL), E(ENOTSUP), E(EISDIR), E(ENODEV)
#undef E
};
static const struct {
    const char *n;
    int v;
} sigs[] = {{"SIGINT", SIGINT},   {"SIGTERM", SIGTERM}, {"SIGHUP", SIGHUP},   {"SIGXFSZ", SIGXFSZ},
            {"SIGPIPE", SIGPIPE}, {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGBUS", SIGBUS}};

const char *class_name(enum cls c)
{
    return cls_name[c];
}

int class_of(const char *name)
{
    int i = 0;
    while (i < NCLS && strcmp(name, cls_name[i]) != 0)
        i++;
    return i;
}

const struct sc *call_of(long nr)
{
    for (unsigned i = 0; i < NTAB; i++)
        if (tab[i].nr == nr)
            return &tab[i];
    return NULL;
}

unsigned calls_of(long *nrs, unsigned in)
{
    unsigned n = 0;
    for (unsigned i = 0; i < NTAB; i++)
        if (in >> tab[i].c & 1)
            nrs[n++] = tab[i].nr;
    return n;
}

int error_of(const char *name)
{
    for (unsigned i = 0; i < sizeof errs / sizeof *errs; i++)
        if (!strcmp(name, errs[i].n))
            return errs[i].v;
    return 0;
}

int signal_of(const char *name)
{
    for (unsigned i = 0; i < sizeof sigs / sizeof *sigs; i++)
        if (!strcmp(name, sigs[i].n))
            return sigs[i].v;
    return 0;
}
