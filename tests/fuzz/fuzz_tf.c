/* fuzz_tf.c - any bytes as a checkpoint of TensorFlow. A whole index is read as it is; of other
 * bytes, the first two say how many are the entries of a block, to which the checksums that an index
 * needs are added, and the rest is every data file. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/mem.h"
#include "format/tf/tf.h"
#include "keep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MOST 65536u

static void require(int holds)
{
    if (!holds)
        abort();
}

static size_t put_varint(uint8_t *to, size_t v)
{
    size_t n = 0;
    for (; v > 127; v >>= 7)
        to[n++] = (uint8_t)(v | 128);
    to[n++] = (uint8_t)v;
    return n;
}

/* A block of these entries at *at; its handle. */
static size_t put_block(uint8_t *file, size_t *at, const uint8_t *entries, size_t n, uint8_t *handle)
{
    const size_t first = *at;
    if (n)
        memcpy(file + *at, entries, n);
    pg__put_le(file + *at + n, 0, 4);
    pg__put_le(file + *at + n + 4, 1, 4);
    file[*at + n + 8] = 0;
    pg__put_le(file + *at + n + 9, pg__crc32c_masked(pg__crc32c(0, file + first, n + 9)), 4);
    *at += n + 13;
    const size_t k = put_varint(handle, first);
    return k + put_varint(handle + k, n + 8);
}

static size_t make_index(uint8_t *file, const uint8_t *entries, size_t n)
{
    uint8_t handle[20], list[24] = {0}, footer[48] = {0};
    size_t at = 0, k = 0;
    const size_t data = put_block(file, &at, entries, n, handle);
    list[2] = (uint8_t)data;
    memcpy(list + 3, handle, data);
    k = put_block(file, &at, NULL, 0, footer);
    k += put_block(file, &at, list, 3 + data, footer + k);
    memcpy(footer + 40, "\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8);
    memcpy(file + at, footer, 48);
    return at + 48;
}

static void read_names(pg__tf_bundle *b, const char *part)
{
    static uint8_t buf[4096];
    pg__tf_names names = {0};
    pg_err err = {0};
    pg__tile_window w = {0};
    if (pg__tf_names_of(&names, b, part, &err) != PG_OK) {
        require(err.code != PG_OK && err.msg[0] && !strchr(err.msg, '\n'));
        return;
    }
    for (size_t i = 0; i < names.n && i < 64; i++) {
        const pg__tf_entry *e = &b->v[names.v[i].entry];
        uint64_t all = e->tiled.elem;
        require(names.v[i].entry < b->n && names.v[i].name != NULL);
        for (uint32_t k = 0; k < e->rank; k++)
            all *= e->dims[k];
        if (e->known)
            (void)pg__tiles_read(&w, &e->tiled, pg__tf_fetch, b, 0, buf,
                                 all < sizeof buf ? (size_t)all : sizeof buf, &err);
    }
    pg__tile_window_fini(&w);
    pg__tf_names_fini(&names);
}

static void read_index(const uint8_t *index, size_t n, const uint8_t *rest, size_t n_rest)
{
    pg__io *io = NULL;
    pg__tf_bundle b = {0};
    pg_err err = {0};
    if (pg__io_open_mem(&io, index, n, NULL) != PG_OK)
        return;
    if (pg__tf_bundle_read(&b, io, &err) != PG_OK) {
        require(err.code != PG_OK && err.msg[0] && !strchr(err.msg, '\n'));
    } else if (b.n_shards <= 64) {
        b.shards = pg__mem_array(b.n_shards, sizeof(pg__io *));
        require(b.shards != NULL);
        for (uint32_t i = 0; i < b.n_shards; i++)
            require(pg__io_open_mem(&b.shards[i], rest, n_rest, NULL) == PG_OK);
        if (pg__tf_bundle_check(&b, NULL) == PG_OK) {
            read_names(&b, NULL);
            read_names(&b, ".");
            read_names(&b, "optimizer");
        }
    }
    pg__tf_bundle_fini(&b);
    pg__io_close(io);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static uint8_t file[MOST + 256];
    read_index(data, n, data, n);
    if (n < 2 || n > MOST)
        return 0;
    const size_t most = pg__le16(data), k = most < n - 2 ? most : n - 2;
    read_index(file, make_index(file, data + 2, k), data + 2 + k, n - 2 - k);
    keep(data, n);
    return 0;
}
