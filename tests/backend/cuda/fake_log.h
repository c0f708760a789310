/* fake_log.h - what the GPU of plain C (host.h) was given to do, for tests that look at it. */
#ifndef PG_TESTS_CUDA_FAKE_LOG_H
#define PG_TESTS_CUDA_FAKE_LOG_H

#include "pg_test.h"

#include <unistd.h>

typedef struct fake_log {
    char path[32];
} fake_log;

static inline void log_open(fake_log *l)
{
    (void)snprintf(l->path, sizeof l->path, "/tmp/pg-fake-XXXXXX");
    const int fd = mkstemp(l->path);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(setenv("FAKE_CUDA_LOG", l->path, 1), 0);
}

static inline void log_close(fake_log *l)
{
    (void)unlink(l->path);
    (void)unsetenv("FAKE_CUDA_LOG");
}

/* Lines that begin like this; last, if not NULL: what is behind it in the last one of them. */
static inline size_t log_count(const fake_log *l, const char *what, char last[16])
{
    char line[128];
    size_t n = 0;
    FILE *f = fopen(l->path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        const char *rest = line + strlen(what);
        if (strncmp(line, what, strlen(what)) != 0)
            continue;
        if (last)
            (void)snprintf(last, 16, "%.*s", (int)strcspn(rest, " \n"), rest);
        n++;
    }
    (void)fclose(f);
    return n;
}

#endif
