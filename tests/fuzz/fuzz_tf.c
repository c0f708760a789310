/* fuzz_tf.c - any bytes as a checkpoint of TensorFlow. A whole index is read as it is; of other
 * bytes, the first two say how many are the entries of a block, to which the checksums that an
 * index needs are added, and the rest is every data file; then, with a checksum, the graph of
 * objects, whose entry follows the others: their names must sort before '_'. */
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
static size_t put_block(uint8_t *file, size_t *at, const uint8_t *entries, size_t n,
                        uint8_t *handle)
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

/* The entry of the object graph, a string of n bytes whose own form is in *data. */
static size_t put_graph(uint8_t *entry, uint8_t *data, size_t *n_data, const uint8_t *text,
                        size_t n)
{
    static const char key[] = "_CHECKPOINTABLE_OBJECT_GRAPH";
    const size_t k = sizeof key - 1;
    uint8_t four[4], value[32] = {0x08, PG_TF_STRING, 0x12, 0, 0x28};
    size_t at = put_varint(data, n), v = 5;
    pg__put_le(four, n, 4);
    uint32_t sum = pg__crc32c(0, four, 4);
    pg__put_le(data + at, pg__crc32c_masked(sum), 4);
    sum = pg__crc32c(sum, data + at, 4);
    if (n)
        memcpy(data + at + 4, text, n);
    *n_data = at + 4 + n;
    v += put_varint(value + v, *n_data);
    value[v++] = 0x35;
    pg__put_le(value + v, pg__crc32c_masked(pg__crc32c(sum, text, n)), 4);
    v += 4;
    entry[0] = 0;
    entry[1] = (uint8_t)k;
    entry[2] = (uint8_t)v;
    memcpy(entry + 3, key, k);
    memcpy(entry + 3 + k, value, v);
    return 3 + k + v;
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
    if (names.graph.n) {
        pg__tf_parts parts = {0};
        if (pg__tf_parts_of(&parts, &names.graph, b, &err) == PG_OK)
            require(parts.n_models <= parts.n && parts.n <= names.graph.nodes[0].n);
        pg__mem_free(parts.v);
        (void)pg__tf_names_find(&names, b, "layer-0/kernel");
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
            read_names(&b, "");
            read_names(&b, "optimizer");
            read_names(&b, "model.layer-0");
        }
    }
    pg__tf_bundle_fini(&b);
    pg__io_close(io);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static uint8_t file[MOST + 512], entries[MOST + 128], graph[MOST + 16];
    size_t n_graph = 0;
    read_index(data, n, data, n);
    if (n < 2 || n > MOST)
        return 0;
    const size_t most = pg__le16(data), k = most < n - 2 ? most : n - 2;
    read_index(file, make_index(file, data + 2, k), data + 2 + k, n - 2 - k);
    memcpy(entries, data + 2, k);
    const size_t all = k + put_graph(entries + k, graph, &n_graph, data + 2 + k, n - 2 - k);
    read_index(file, make_index(file, entries, all), graph, n_graph);
    keep(data, n);
    return 0;
}
