/* fuzz_orbax.c - any bytes as a checkpoint of Orbax. If the first byte is even, the next two say
 * how many bytes are an array's metadata; the rest is the value of every chunk, to which the
 * checksum of its index is added. If it is odd, each length of two bytes is followed by the body of
 * a node, the last by that of the manifest: they get frames, and become a database in a folder in
 * memory. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/le.h"
#include "format/orbax/orbax.h"
#include "keep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MOST 65536u

static void require(int holds)
{
    if (!holds)
        abort();
}

static void is_one_line(const pg_err *err)
{
    require(err->code != PG_OK && err->msg[0] && !strchr(err->msg, '\n'));
}

/* ---- an array ---- */

typedef struct reading {
    const pg__kv *kv;
    const pg__zarr *a;
} reading;

static pg_status fetch(void *ctx, const pg__tile *tile, uint64_t off, void *buf, size_t n,
                       pg_err *err)
{
    const reading *r = ctx;
    pg__chunk c = {0};
    pg_status st = pg__chunk_open(&c, r->a, r->kv, tile, err);
    if (st == PG_OK)
        st = pg__chunk_read(&c, r->a, tile, off, buf, n, err);
    pg__chunk_fini(&c);
    return st;
}

/* The first and the last elements. */
static void read_array(const pg__kv *kv, pg__zarr *a)
{
    static uint8_t buf[4096];
    pg__tile_window w = {0};
    reading r = {kv, a};
    uint64_t all = a->tiled.elem;
    for (uint32_t k = 0; k < a->tiled.rank; k++)
        all *= a->tiled.dims[k];
    const size_t n = all < sizeof buf ? (size_t)all : sizeof buf;
    a->missing_is_fill = 1;
    for (int i = 0; i < 2 && n; i++) {
        pg_err err = {0};
        if (pg__tiles_read(&w, &a->tiled, fetch, &r, i ? all - n : 0, buf, n, &err) != PG_OK)
            is_one_line(&err);
    }
    pg__tile_window_fini(&w);
}

static void correct_index(const pg__zarr *a, char *value, size_t n)
{
    const uint64_t most = a->in_shard < MOST ? 16 * a->in_shard : 0;
    if (!a->is_sharded || most + 4 > n)
        return;
    unsigned char *index = (unsigned char *)value + (a->index_first ? 0 : n - most - 4);
    pg__put_le(index + most, pg__crc32c(0, index, (size_t)most), 4);
}

static void array(const uint8_t *data, size_t n)
{
    static char json[MOST], value[MOST];
    static char keys[][16] = {"a/.zarray", "a/0",   "a/0.0",   "a/0.1",      "a/1",
                              "a/c",       "a/c/0", "a/c/0/0", "a/zarr.json"};
    enum { N = sizeof keys / sizeof *keys };
    if (n < 3)
        return;
    const size_t most = pg__le16(data + 1), k = most < n - 3 ? most : n - 3;
    memcpy(json, data + 3, k);
    memcpy(value, data + 3 + k, n - 3 - k);
    pg__kv_entry v[N];
    for (size_t i = 0; i < N; i++)
        v[i] = (pg__kv_entry){keys[i], PG_NONE, i == 0 || i == N - 1 ? json : value, 0,
                              i == 0 || i == N - 1 ? k : n - 3 - k};
    /* without .zarray, it is version 3 */
    const size_t skip = data[0] >> 1 & 1;
    const pg__kv kv = {.folder = -1, .v = v + skip, .n = N - skip, .is_database = 1};
    pg__zarr a = {0};
    pg_err err = {0};
    int there = 0;
    if (pg__zarr_open(&a, &there, &kv, "a", &err) != PG_OK) {
        is_one_line(&err);
        return;
    }
    require(there);
    correct_index(&a, value, n - 3 - k);
    read_array(&kv, &a);
    pg__zarr_fini(&a);
}

/* ---- a database ---- */

static char folder[64];

static void remove_folder(void)
{
    char path[80];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i ? "manifest.ocdbt" : "d");
        unlink(path);
    }
    rmdir(folder);
}

static int open_folder(void)
{
    static int fd = -1;
    if (fd >= 0)
        return fd;
    strcpy(folder,
           access("/dev/shm", W_OK) == 0 ? "/dev/shm/pg-fuzz-XXXXXX" : "/tmp/pg-fuzz-XXXXXX");
    require(mkdtemp(folder) != NULL);
    atexit(remove_folder);
    fd = open(folder, O_RDONLY | O_DIRECTORY);
    require(fd >= 0);
    return fd;
}

static size_t put_frame(uint8_t *to, const char *magic, const uint8_t *body, size_t n)
{
    memcpy(to, magic, 4);
    pg__put_le(to + 4, n + 18, 8);
    to[12] = to[13] = 0;
    memcpy(to + 14, body, n);
    pg__put_le(to + 14 + n, pg__crc32c(0, to, n + 14), 4);
    return n + 18;
}

static void put_file(int at, const char *name, const uint8_t *data, size_t n)
{
    const int fd = openat(at, name, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    require(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    close(fd);
}

static void database(const uint8_t *data, size_t n)
{
    static uint8_t nodes[20 * MOST];
    size_t all = 0, at = 1;
    pg__kv kv = {0};
    pg_err err = {0};
    const int fd = open_folder();
    for (size_t len; n - at >= 2; at += 2 + len) {
        const size_t most = pg__le16(data + at), left = n - at - 2;
        len = most < left ? most : left;
        const int last = left - len < 2;
        if (last)
            put_file(fd, "d", nodes, all);
        const size_t first = last ? 0 : all;
        all = first + put_frame(nodes + first, last ? "\x0c\xdb\x3a\x2a" : "\x0c\xdb\x20\xde",
                                data + at + 2, len);
        if (last)
            put_file(fd, "manifest.ocdbt", nodes, all);
    }
    if (at == 1)
        return;
    if (pg__ocdbt_read(&kv, fd, &err) != PG_OK) {
        is_one_line(&err);
        return;
    }
    for (size_t i = 0; i < kv.n; i++) {
        unsigned char *value = NULL;
        size_t k = 0;
        require(i == 0 || strcmp(kv.v[i - 1].key, kv.v[i].key) < 0);
        require(kv.v[i].file == PG_NONE || kv.v[i].file < kv.files.n);
        (void)pg__kv_get(&kv, kv.v[i].key, MOST, &value, &k, &err);
        free(value);
    }
    pg__kv_fini(&kv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0 || n > MOST)
        return 0;
    if (data[0] & 1)
        database(data, n);
    else
        array(data, n);
    keep(data, n);
    return 0;
}
