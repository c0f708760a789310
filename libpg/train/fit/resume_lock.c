/* resume_lock.c - flock() on a separate file, since the state itself is replaced by renaming. */
#include "train/fit/resume_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/try.h"
#include "io/folder.h"

/* Names the holder, "process 17 on host a". */
static pg_status is_taken(int fd, const char *resume_file, pg_err *err)
{
    char who[160] = "";
    const ssize_t n = pread(fd, who, sizeof who - 1, 0);
    who[n > 0 ? strcspn(who, "\n") : 0] = '\0';
    (void)pg_fail(err, PG_E_IO, "%s: another run keeps its state here%s%s", PG_SHOW(resume_file),
                  *who ? ": " : "", PG_SHOW(who));
    pg_err_hint(err, "wait for it or stop it; or give this one a folder of its own");
    return PG_E_IO;
}

static void sign(int fd)
{
    char host[65] = "", who[160];
    (void)gethostname(host, sizeof host - 1);
    const int n = snprintf(who, sizeof who, "process %ld on %s\n", (long)getpid(), host);
    if (ftruncate(fd, 0) == 0) /* a failed write only makes a message shorter */
        (void)!pwrite(fd, who, (size_t)n, 0);
}

/* Is fd still the file at path? A run that has just ended removes it. */
static int is_there(int fd, const char *path)
{
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && ours.st_nlink > 0 && stat(path, &there) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

pg_status pg__resume_lock_take(pg__resume_lock *l, const char *resume_file, int makes_folder,
                               pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&l->path, err, "%s.lock", resume_file));
    if (makes_folder)
        (void)pg__folder_make_for(l->path.s, NULL);
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        int fd = open(l->path.s, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd < 0 && errno == EACCES) /* another user's file */
            fd = open(l->path.s, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
            return PG_OK;
        if (flock(fd, LOCK_EX | LOCK_NB)) {
            if (errno == EINTR || errno == ESTALE) { /* it was removed on another host */
                close(fd);
                continue;
            }
            st = errno == EWOULDBLOCK ? is_taken(fd, resume_file, err) : PG_OK;
            close(fd);
            return st;
        }
        if (is_there(fd, l->path.s)) {
            *l = (pg__resume_lock){.is_held = 1, .fd = fd, .path = l->path};
            sign(fd);
            return PG_OK;
        }
        close(fd);
    }
done:
    return st;
}

void pg__resume_lock_release(pg__resume_lock *l)
{
    if (l->is_held) {
        (void)unlink(l->path.s);
        close(l->fd);
    }
    l->is_held = 0;
    pg__str_fini(&l->path);
}
