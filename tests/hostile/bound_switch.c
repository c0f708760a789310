/* bound_switch.c - turns off one check of an instrumented source, the one whose number is in
 * PG_BOUND, and writes to the file in PG_BOUND_SEEN which were reached. See bound_checks.py. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int pg_bound(unsigned check);

#define MAX_CHECKS 4096

static char seen[MAX_CHECKS];
static long off = -1;

static void write_seen(void)
{
    const int fd = open(getenv("PG_BOUND_SEEN"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, seen, sizeof seen) != sizeof seen)
        abort();
    close(fd);
}

__attribute__((constructor)) static void begin(void)
{
    const char *check = getenv("PG_BOUND");
    off = check ? strtol(check, NULL, 10) : -1;
    if (getenv("PG_BOUND_SEEN") && atexit(write_seen) != 0)
        abort();
}

int pg_bound(unsigned check)
{
    seen[check] = 1;
    return (long)check == off;
}
