/* usage: meter OUT.json COMMAND...
 *
 * Runs COMMAND once and appends a line of JSON: wall, user and system seconds, peak RSS, exit status.
 * A small parent on purpose: what a child of a large one (Python) forks from counts in its ru_maxrss. */
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

int main(int argc, char **argv)
{
    struct timespec a, b;
    struct rusage u;
    int status;
    pid_t p;
    FILE *f = argc < 3 ? NULL : fopen(argv[1], "a");
    if (!f)
        return 2;
    clock_gettime(CLOCK_MONOTONIC, &a);
    if (posix_spawnp(&p, argv[2], NULL, NULL, argv + 2, environ) || wait4(p, &status, 0, &u) < 0) {
        perror(argv[2]);
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    fprintf(f, "{\"wall\": %.6f, \"user\": %.6f, \"sys\": %.6f, \"rss_kb\": %ld, \"status\": %d}\n",
            (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9,
            seconds(u.ru_utime), seconds(u.ru_stime), u.ru_maxrss,
            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return fclose(f) != 0;
}
