/* cli_leave.c - ends the program at once after a second interruption, and removes its temporary
 * files, which may be as large as a disk.
 *
 * Makes only calls that a signal handler may make. Finds the files to remove among the open ones:
 * those with the names of libpg's temporaries (.NAME.pg-XXXXXX) whose lock is ours or free; another
 * run holds the lock of its own. */
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cli.h"

enum { N_DESCRIPTORS = 1024, N_RANDOM = 6 };

static int is_temporary(const char *path, size_t n)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] == '.' && n > N_RANDOM + 4 &&
           memcmp(path + n - N_RANDOM - 4, ".pg-", 4) == 0;
}

static void link_of(int fd, char *out)
{
    static const char folder[] = "/proc/self/fd/";
    char digits[12];
    size_t n = 0, at = sizeof folder - 1;
    memcpy(out, folder, at);
    do
        digits[n++] = (char)('0' + fd % 10);
    while ((fd /= 10) > 0);
    while (n > 0)
        out[at++] = digits[--n];
    out[at] = 0;
}

CLI_AT_A_SIGNAL void cli_leave(int status)
{
    char link[32], path[4096];
    for (int fd = 3; fd < N_DESCRIPTORS; fd++) {
        link_of(fd, link);
        const ssize_t n = readlink(link, path, sizeof path - 1);
        if (n <= 0)
            continue;
        path[n] = 0;
        if (is_temporary(path, (size_t)n) && flock(fd, LOCK_EX | LOCK_NB) == 0)
            (void)unlink(path);
    }
    _exit(status);
}
