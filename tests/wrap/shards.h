/* shards.h - genuine files, cut into shards that a test then damages. */
#ifndef WRAP_SHARDS_H
#define WRAP_SHARDS_H

#include "wrap/files.h"

#include <sys/stat.h>

#include "pg/shard.h"

/* Splits a file of testdata/ into the folder tmp(dir); `most` tensors in a shard, where it has
 * several. */
static inline void split_into(const char *dir, const char *file, pg_shard_format format,
                              size_t most)
{
    const pg_split_opts opts = {.format = format, .max_tensors = most};
    pg_err err = {0};
    if (pg_split_file(data(file), tmp(dir), &opts, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
}

/* Removes all folders that tests split into. */
static inline int remove_splits(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", tmp_dir);
    return tmp_dir[0] ? system(command) : 0;
}

/* A whole file, for free(). */
static inline char *read_whole(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    struct stat sb;
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &sb), 0);
    *n = (size_t)sb.st_size;
    char *p = malloc(*n + 1);
    assert_non_null(p);
    assert_int_equal(fread(p, 1, *n, f), *n);
    p[*n] = '\0';
    fclose(f);
    return p;
}

/* Writes `with` over the first `what` in a text file; both have the same length. */
static inline void overwrite(const char *path, const char *what, const char *with)
{
    size_t n = 0;
    char *text = read_whole(path, &n), *at = strstr(text, what);
    assert_non_null(at);
    assert_int_equal(strlen(what), strlen(with));
    memcpy(at, with, strlen(with));
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(text);
}

static inline void assert_store_refused(const char *path, pg_status code, const char *names)
{
    pg_store *s = NULL;
    pg_err err = {0};
    assert_fails(code, pg_store_open(&s, path, NULL, &err), &err);
    assert_null(s);
    if (!strstr(err.msg, names) && !strstr(err.detail, names))
        fail_msg("\"%s\" does not name %s", err.msg, names);
}

#endif
