/* fuzz_zip.h - for targets that write files of torch.save(): a pickle and each storage that it
 * names, in a ZIP of stored members, and a folder to write them to. */
#ifndef PG_FUZZ_ZIP_H
#define PG_FUZZ_ZIP_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "format/pytorch.h"
#include "keep.h"
#include "pg/store.h"

#define MOST_BYTES 4096u /* of a storage */
#define MOST_FILES 64u
#define ZIP_BYTES  (1u << 19)

static inline void require(int holds)
{
    if (!holds)
        abort();
}

/* ---- a ZIP of stored members ---- */

typedef struct archive {
    unsigned char bytes[ZIP_BYTES], list[MOST_FILES * 128];
    size_t n, n_list, n_files;
} archive;

static inline unsigned char *put(unsigned char *p, uint32_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *p++ = (unsigned char)(v >> 8 * i);
    return p;
}

/* Tied parameters name a storage twice. */
static inline int has(const archive *a, const char *name)
{
    const size_t len = strlen(name);
    for (size_t at = 0; at < a->n_list;) {
        const unsigned char *c = a->list + at;
        const size_t n = (size_t)(c[28] | c[29] << 8);
        if (n == len && memcmp(c + 46, name, n) == 0)
            return 1;
        at += 46 + n;
    }
    return 0;
}

static inline void add(archive *a, const char *name, const void *data, size_t n)
{
    const size_t len = strlen(name), at = a->n;
    if (a->n_files == MOST_FILES || len > 60 || a->n + n + 200 > sizeof a->bytes || has(a, name))
        return;
    const uint32_t crc = pg__crc32(0, data, n);
    unsigned char head[26], *p = put(head, 20, 2);
    p = put(p, 0, 2), p = put(p, 0, 2), p = put(p, 0, 4), p = put(p, crc, 4);
    p = put(p, (uint32_t)n, 4), p = put(p, (uint32_t)n, 4), p = put(p, (uint32_t)len, 2);
    put(p, 0, 2);
    memcpy(a->bytes + a->n, "PK\3\4", 4);
    memcpy(a->bytes + a->n + 4, head, 26);
    memcpy(a->bytes + a->n + 30, name, len);
    memcpy(a->bytes + a->n + 30 + len, data, n);
    a->n += 30 + len + n;
    unsigned char *c = a->list + a->n_list;
    memcpy(c, "PK\1\2\24\0", 6);
    memcpy(c + 6, head, 26);
    memset(c + 32, 0, 10);
    put(c + 42, (uint32_t)at, 4);
    memcpy(c + 46, name, len);
    a->n_list += 46 + len;
    a->n_files++;
}

static inline void end(archive *a)
{
    unsigned char *p = a->bytes + a->n;
    memcpy(p, a->list, a->n_list);
    p += a->n_list;
    memcpy(p, "PK\5\6\0\0\0", 8);
    p = put(p + 8, (uint32_t)a->n_files, 2);
    p = put(p, (uint32_t)a->n_files, 2);
    p = put(p, (uint32_t)a->n_list, 4);
    p = put(p, (uint32_t)a->n, 4);
    p = put(p, 0, 2);
    a->n = (size_t)(p - a->bytes);
}

/* The pickle, and each storage that it names. */
static inline int make(archive *a, const char *text, size_t n)
{
    static unsigned char filling[MOST_BYTES];
    pg__pickle p = {0};
    *a = (archive){.n = 0};
    for (size_t i = 0; i < sizeof filling; i++)
        filling[i] = (unsigned char)(i * 7 % 61);
    add(a, "a/data.pkl", text, n);
    if (pg__pickle_read(&p, text, n, pg__pt_globals, NULL, NULL, NULL) != PG_OK)
        return 0;
    for (size_t i = 0; i < p.n; i++) {
        pg__pt_storage s = {0};
        pg_dtype dtype = PG_F32;
        char name[64];
        if (p.v[i].kind != PG_PK_PERSID ||
            pg__pt_storage_of(&s, &dtype, &p, &p.v[i], NULL) != PG_OK)
            continue;
        if (s.inside || s.n_key > 40 || memchr(s.key, 0, s.n_key) || s.n > MOST_BYTES / s.size)
            continue;
        snprintf(name, sizeof name, "a/data/%.*s", (int)s.n_key, s.key);
        add(a, name, filling, (size_t)(s.n * s.size));
    }
    pg__pickle_fini(&p);
    end(a);
    return 1;
}

/* ---- the folder ---- */

static inline const char *folder(void)
{
    static char path[64];
    if (!*path)
        snprintf(path, sizeof path, "%s/pgfuzz.%ld", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm",
                 (long)getpid());
    return path;
}

static inline void write_file(const char *name, const archive *a)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder(), name);
    if (!a) {
        unlink(path);
        return;
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    require(fd >= 0 && write(fd, a->bytes, a->n) == (ssize_t)a->n);
    close(fd);
}

static inline void read_all(pg_store *s)
{
    unsigned char buf[256];
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const uint64_t n = pg_store_weight(s, i)->n_bytes, k = n < sizeof buf ? n : sizeof buf;
        pg_err err = {0};
        if (pg_store_read(s, i, n - k, buf, (size_t)k, &err) != PG_OK)
            require(err.code != PG_OK && err.msg[0]);
    }
}

/* Opens a path; what is accepted must be readable, a refusal is one line. */
static inline void open_path(const char *path, const pg_open_opts *opts, const uint8_t *data,
                             size_t n)
{
    pg_store *s = NULL;
    pg_err err = {0};
    if (pg_store_open(&s, path, opts, &err) == PG_OK) {
        keep(data, n);
        read_all(s);
        pg_store_close(s);
    } else {
        require(err.code != PG_OK && err.msg[0] && !strchr(err.msg, '\n'));
    }
}

#endif
