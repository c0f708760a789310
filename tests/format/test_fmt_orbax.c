#include "format/modern.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/le.h"
#include "format/orbax/orbax.h"
#include "pg/store.h"

static void reads_every_tree(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"orbax-zarr-per-array/ckpt", "orbax-zarr-per-array/expected.safetensors"},
        {"orbax-zarr3-per-array/ckpt", "orbax-zarr3-per-array/expected.safetensors"},
        {"orbax-ocdbt/ckpt", "orbax-ocdbt/expected.safetensors"},
        {"orbax-ocdbt-zarr3/ckpt", "orbax-ocdbt-zarr3/expected.safetensors"},
        {"orbax-manager-standard/ckpt", "orbax-manager-standard/expected.safetensors"},
        {"orbax-manager-standard/ckpt/5", "orbax-manager-standard/expected.safetensors"},
        {"orbax-manager-standard/ckpt/5/state", "orbax-manager-standard/expected.safetensors"},
        {"orbax-ocdbt/ckpt/manifest.ocdbt", "orbax-ocdbt/expected.safetensors"},
        {"orbax-ocdbt/ckpt/_METADATA", "orbax-ocdbt/expected.safetensors"},
    };
    pg_store *s = NULL;
    pg_err err = {0};
    if (pg_store_open(&s, modern_path(rows[0][0]), NULL, &err) == PG_OK) {
        unsigned char c;
        if (pg_store_read(s, 0, 0, &c, 1, &err) == PG_E_UNSUPPORTED) /* built without libzstd */
            skip();
    }
    pg_store_close(s);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        modern_check(rows[i][0], rows[i][1], "");
}

/* ---- checkpoints by hand, in a folder of its own ---- */

static char at[64];

static int set_up(void **state)
{
    (void)state;
    strcpy(at, "/tmp/pg-test-orbax-XXXXXX");
    return mkdtemp(at) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *sb, int type, struct FTW *ftw)
{
    (void)sb, (void)type, (void)ftw;
    return remove(path);
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(at, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void put_bytes(const char *name, const void *data, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", at, name);
    for (char *p = path + strlen(at) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void put(const char *name, const char *text)
{
    put_bytes(name, text, strlen(text));
}

/* _METADATA of leaves "a b c"; a leaf "a:string" has this type. */
static void put_tree(const char *leaves, const char *more)
{
    char json[16384] = "{\"tree_metadata\": {", word[64], type[16];
    int n = 0;
    for (const char *p = leaves; sscanf(p, " %63[^ :]%n", word, &n) == 1; p += n) {
        p += n;
        n = 0;
        strcpy(type, "jax.Array");
        sscanf(p, ":%15[^ ]%n", type, &n);
        const size_t end = strlen(json);
        snprintf(json + end, sizeof json - end,
                 "%s\"%s\": {\"key_metadata\": [{\"key\": \"%s\"}], \"value_metadata\": "
                 "{\"value_type\": \"%s\", \"skip_deserialize\": false}}",
                 p == leaves + strlen(word) ? "" : ", ", word, word, type);
    }
    strcat(json, "}");
    strcat(json, more);
    strcat(json, "}");
    put("_METADATA", json);
}

#define V2(shape, chunks, compressor, fill)                                                        \
    "{\"zarr_format\": 2, \"dtype\": \"<f4\", \"order\": \"C\", \"filters\": null, \"shape\": "    \
    "[" shape "], \"chunks\": [" chunks "], \"compressor\": " compressor ", \"fill_value\": " fill \
    "}"
#define ZSTD "{\"id\": \"zstd\", \"level\": 1}"
#define V3(shape, shard, chunk)                                                       \
    "{\"zarr_format\": 3, \"data_type\": \"float32\", \"shape\": [" shape             \
    "], \"chunk_grid\": {\"name\": "                                                  \
    "\"regular\", \"configuration\": {\"chunk_shape\": [" shard                       \
    "]}}, \"chunk_key_encoding\": {\"name\": "                                        \
    "\"default\"}, \"fill_value\": 0, \"codecs\": [{\"name\": \"sharding_indexed\", " \
    "\"configuration\": "                                                             \
    "{\"chunk_shape\": [" chunk                                                       \
    "], \"codecs\": [{\"name\": \"bytes\"}], \"index_codecs\": [{\"name\": "          \
    "\"bytes\"}, {\"name\": \"crc32c\"}], \"index_location\": \"end\"}}]}"

static pg_store *opened_by(size_t n_threads)
{
    pg_store *s = NULL;
    pg_err err = {0};
    if (pg_store_open(&s, at, &(pg_open_opts){.n_threads = n_threads}, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return s;
}

static pg_store *opened(void)
{
    return opened_by(0);
}

static void open_fails(pg_status code, const char *words)
{
    pg_store *s = NULL;
    pg_err err = {0};
    assert_fails(code, pg_store_open(&s, at, NULL, &err), &err);
    if (!strstr(err.msg, words))
        fail_msg("%s", err.msg);
}

static void read_fails(pg_status code, const char *words)
{
    static unsigned char buf[64];
    pg_err err = {0};
    pg_store *s = opened();
    assert_fails(code, pg_store_read(s, 0, 0, buf, (size_t)pg_store_weight(s, 0)->n_bytes, &err),
                 &err);
    if (!strstr(err.msg, words))
        fail_msg("%s", err.msg);
    pg_store_close(s);
}

/* The most memory so far, in KiB. */
static long peak(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* ---- shapes ---- */

static void shards_without_elements_are_refused(void **state)
{
    (void)state;
    put_tree("w", "");
    put("w/zarr.json", V3("1", "0", "1"));
    open_fails(PG_E_FORMAT, "w: chunks that do not divide a shard");
    put("w/zarr.json", V3("1", "1", "0"));
    open_fails(PG_E_FORMAT, "w: chunks without elements");
    put("w/zarr.json", V3("1", "0", "0"));
    open_fails(PG_E_FORMAT, "w: chunks without elements");
}

/* 2^64 chunks in a value: their number must not become 0, nor the index empty. */
static void chunks_of_a_shard_are_counted(void **state)
{
    (void)state;
    put_tree("w", "");
    put("w/zarr.json", V3("2, 2", "4294967296, 4294967296", "1, 1"));
    put_bytes("w/c/0/0", "\0\0\0", 4); /* the CRC-32C of no index */
    open_fails(PG_E_LIMIT, "w: its chunks are too large");
    put_tree("v", "");
    put("v/zarr.json", V3("2", "1000000", "1"));
    put_bytes("v/c/0", "\0\0\0", 4);
    read_fails(PG_E_LIMIT, "v: 1,000,000 chunks in one value");
}

/* A million chunks each: a grid is no list. */
static void a_grid_takes_no_memory(void **state)
{
    (void)state;
    unsigned char last[4] = {1, 1, 1, 1};
    put_tree("a b c d e f g h i j k l m n o p q r s t u v w x y z", "");
    for (char name[] = "a/.zarray"; *name <= 'z'; ++*name)
        put(name, V2("1000000", "1", "null", "null"));
    const long before = peak();
    pg_store *s = opened();
    assert_int_equal(pg_store_n_weights(s), 26);
    assert_ok(pg_store_read(s, 25, 3999996, last, 4, NULL));
    assert_memory_equal(last, "\0\0\0", 4);
    assert_true(peak() - before < 100 << 10);
    pg_store_close(s);
}

/* ---- chunks ---- */

static void a_missing_chunk_is_what_fills_it(void **state)
{
    (void)state;
    unsigned char got[16];
    put_tree("w", "");
    for (int i = 0; i < 3; i++) {
        put("w/.zarray", i == 0   ? V2("4", "2", "null", "null")
                         : i == 1 ? V2("4", "2", "null", "0.0")
                                  : V2("4", "2", ZSTD, "0"));
        pg_store *s = opened();
        memset(got, 1, 16);
        assert_ok(pg_store_read(s, 0, 0, got, 16, NULL));
        assert_memory_equal(got, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
        pg_store_close(s);
    }
    put("w/.zarray", V2("4", "2", "null", "1.5"));
    read_fails(PG_E_FORMAT, "w: chunk w/0 is missing, and what fills it is not zero");
    put("w/.zarray", V2("4", "2", "null", "\"NaN\""));
    read_fails(PG_E_FORMAT, "w: chunk w/0 is missing, and what fills it is not zero");
    put("w/.zarray", V2("4", "2", "null", "null"));
    put_tree("w", ", \"store_array_data_equal_to_fill_value\": true");
    read_fails(PG_E_FORMAT, "w: chunk w/0 is missing");
}

/* A chunk that is there and has no bytes is damage, not zeros. */
static void an_empty_chunk_is_damage(void **state)
{
    (void)state;
    put_tree("w", "");
    put("w/0", "");
    put("w/.zarray", V2("2", "2", "null", "null"));
    read_fails(PG_E_FORMAT, "w: chunk w/0 has 0 bytes, its shape needs 8");
    put("w/.zarray", V2("2", "2", ZSTD, "null"));
    read_fails(PG_E_FORMAT, "it ends too early");
}

/* Frames of Zstandard by hand: blocks of one repeated byte, 128 KiB each but for the last. */
static size_t frame_of(unsigned char *out, size_t n, unsigned first)
{
    static const unsigned char magic[] = {0x28, 0xB5, 0x2F, 0xFD, 0, 0x50};
    size_t k = sizeof magic;
    memcpy(out, magic, k);
    while (n) {
        const size_t len = n < 131072 ? n : 131072;
        pg__put_le(out + k, (uint64_t)len << 3 | 2 | (len == n), 3);
        out[k + 3] = (unsigned char)first++;
        k += 4;
        n -= len;
    }
    return k;
}

#define SIDE 1024u

/* Two chunks of 2048 x 512 float32 beside each other; element i of chunk k. */
static unsigned char byte_at(uint64_t off)
{
    const uint64_t row = off / (4 * SIDE), column = off % (4 * SIDE), k = column / (2 * SIDE);
    return (unsigned char)(100 * k + (row * 2 * SIDE + column % (2 * SIDE)) / 131072);
}

/* What is cut along a later axis, too: each row of the tensor is half of one chunk, half of
 * another. */
static void a_chunk_is_decoded_once(void **state)
{
    (void)state;
    static unsigned char frame[1024], row[2 * SIDE];
    pg__zarr a = {0};
    pg__chunk c = {0};
    pg_err err = {0};
    int there = 0;
    put("w/.zarray", V2("2048, 1024", "2048, 512", ZSTD, "null"));
    put_bytes("w/0.0", frame, frame_of(frame, 2048 * 2 * SIDE, 0));
    pg__kv kv = {.folder = open(at, O_RDONLY | O_DIRECTORY)};
    const pg__tile tile = {.size = {2048, 512}};
    assert_ok(pg__zarr_open(&a, &there, &kv, "w", NULL));
    assert_ok(pg__chunk_open(&c, &a, &kv, &tile, NULL));
    for (size_t i = 0; i < 2048; i++) {
        if (pg__chunk_read(&c, &a, &tile, i * sizeof row, row, sizeof row, &err) ==
            PG_E_UNSUPPORTED)
            skip(); /* built without libzstd */
        assert_int_equal(row[0], byte_at(i * 2 * sizeof row));
    }
    assert_int_equal(c.n_restarts, 0);
    assert_null(c.whole);
    assert_int_equal(pg__chunk_memory(&c), 0); /* read to its end */
    for (int i = 0; i < 4; i++) {              /* back and forth: it is kept */
        assert_ok(pg__chunk_read(&c, &a, &tile, 4096, row, sizeof row, NULL));
        assert_ok(pg__chunk_read(&c, &a, &tile, 2048, row, sizeof row, NULL));
    }
    assert_int_equal(c.n_restarts, 2);
    assert_non_null(c.whole);
    pg__chunk_fini(&c);
    pg__zarr_fini(&a);
    close(kv.folder);
}

/* 0: skipped, built without libzstd. */
static int rows_are_right(pg_store *s)
{
    static unsigned char buf[64 * SIDE];
    const uint64_t all = pg_store_weight(s, 0)->n_bytes;
    for (uint64_t off = 0; off < all; off += sizeof buf) {
        pg_err err = {0};
        const pg_status st = pg_store_read(s, 0, off, buf, sizeof buf, &err);
        if (st == PG_E_UNSUPPORTED)
            return 0;
        assert_int_equal(st, PG_OK);
        for (size_t i = 0; i < sizeof buf; i++)
            if (buf[i] != byte_at(off + i))
                fail_msg("byte %llu", (unsigned long long)(off + i));
    }
    return 1;
}

static void chunks_side_by_side_become_rows(void **state)
{
    (void)state;
    static unsigned char frame[1024], buf[8];
    put_tree("w", "");
    put("w/.zarray", V2("2048, 1024", "2048, 512", ZSTD, "null"));
    put_bytes("w/0.0", frame, frame_of(frame, 2048 * 2 * SIDE, 0));
    put_bytes("w/0.1", frame, frame_of(frame, 2048 * 2 * SIDE, 100));
    for (size_t n_threads = 1; n_threads <= 4; n_threads++) {
        pg_store *s = opened_by(n_threads);
        const int is = rows_are_right(s);
        pg_store_close(s);
        if (!is)
            skip();
    }
    put_bytes("w/0.1", frame, frame_of(frame, 2048 * 2 * SIDE - 1, 100));
    for (size_t n_threads = 1; n_threads <= 4; n_threads++) {
        pg_store *s = opened_by(n_threads);
        const uint64_t all = pg_store_weight(s, 0)->n_bytes;
        pg_err err = {0};
        assert_fails(PG_E_FORMAT, pg_store_read(s, 0, all - 8, buf, 8, &err), &err);
        pg_store_close(s);
    }
}

/* A host's only chunk may hold a whole embedding: 3 GB, of which little is read. */
static void a_large_chunk_is_read_in_part(void **state)
{
    (void)state;
    char path[128];
    unsigned char got[4] = {0};
    put_tree("w", "");
    put("w/.zarray", V2("768, 1048576", "768, 1048576", "null", "null"));
    snprintf(path, sizeof path, "%s/w/0.0", at);
    const int fd = open(path, O_CREAT | O_WRONLY, 0600);
    const off_t all = (off_t)768 << 22;
    if (ftruncate(fd, all) || pwrite(fd, "\1\2\3\4", 4, all - 4) != 4) {
        close(fd);
        skip(); /* no sparse files here */
    }
    close(fd);
    pg_store *s = opened();
    const long before = peak();
    assert_ok(pg_store_read(s, 0, (uint64_t)all - 4, got, 4, NULL));
    assert_memory_equal(got, "\1\2\3\4", 4);
    assert_true(peak() - before < 64 << 10);
    pg_store_close(s);
}

/* ---- leaves ---- */

static void leaves_that_are_no_weights_are_listed(void **state)
{
    (void)state;
    static const char *const int4 = "{\"zarr_format\": 2, \"dtype\": \"int4\", \"shape\": [2], "
                                    "\"chunks\": [2], \"compressor\": null}";
    put_tree("note:string opt_state w", "");
    put("opt_state/.zarray", int4);
    put("w/.zarray", V2("2", "2", "null", "null"));
    pg_store *s = opened();
    assert_int_equal(pg_store_n_weights(s), 1);
    assert_string_equal(pg_store_others(s), "note (text), opt_state (not read)");
    pg_store_close(s);
    put("w/.zarray", int4);
    open_fails(PG_E_UNSUPPORTED, "w: type int4 is not supported");
}

static void what_is_not_finished_does_not_count(void **state)
{
    (void)state;
    put_tree("w", "");
    char from[128], to[128];
    pg_store *s = NULL;
    pg_err err = {0};
    put("7/_CHECKPOINT_METADATA", "{}");
    for (int i = 0; i < 2; i++) {
        put(i ? "7/state/w/.zarray" : "7/state.orbax-checkpoint-tmp-9/w/.zarray",
            V2("2", "2", "null", "null"));
        snprintf(from, sizeof from, "%s/_METADATA", at);
        snprintf(to, sizeof to,
                 i ? "%s/7/state/_METADATA" : "%s/7/state.orbax-checkpoint-tmp-9/_METADATA", at);
        assert_int_equal(rename(from, to), 0);
        put_tree("w", "");
    }
    assert_int_equal(unlink(from), 0);
    if (pg_store_open(&s, at, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    pg_store_close(s);
}

/* ---- OCDBT ---- */

typedef struct bytes {
    unsigned char v[1 << 20];
    size_t n;
} bytes;

static void add(bytes *b, const void *p, size_t n)
{
    memcpy(b->v + b->n, p, n);
    b->n += n;
}

static void num(bytes *b, uint64_t x)
{
    for (; x > 127; x >>= 7)
        b->v[b->n++] = (unsigned char)(x | 128);
    b->v[b->n++] = (unsigned char)x;
}

/* Around a body: magic, length, version 0, no compression; CRC-32C. */
static size_t frame(bytes *out, const char *magic, const bytes *body)
{
    const size_t first = out->n, n = body->n + 18;
    add(out, magic, 4);
    pg__put_le(out->v + out->n, n, 8);
    out->n += 8;
    num(out, 0);
    num(out, 0);
    add(out, body->v, body->n);
    pg__put_le(out->v + out->n, pg__crc32c(0, out->v + first, n - 4), 4);
    out->n += 4;
    return n;
}

/* A list of the one file "d". */
static void file_d(bytes *b)
{
    num(b, 1);
    num(b, 1);
    num(b, 0);
    add(b, "d", 1);
}

static void put_manifest(size_t off, size_t n, unsigned height)
{
    static bytes body, out;
    body.n = out.n = 0;
    memset(body.v, 0, 21); /* identifier, kind, sizes, compression */
    body.n = 21;
    file_d(&body);
    const uint64_t version[] = {1, 1, height, 0, off, n};
    for (size_t i = 0; i < sizeof version / sizeof *version; i++)
        num(&body, version[i]);
    frame(&out, "\x0c\xdb\x3a\x2a", &body);
    put_bytes("manifest.ocdbt", out.v, out.n);
}

/* A leaf whose only key is `key`, with the value "v". */
static void leaf_of(bytes *body, const char *key)
{
    body->n = 0;
    num(body, 0); /* height, files */
    num(body, 0);
    num(body, 1);
    num(body, strlen(key));
    add(body, key, strlen(key));
    num(body, 1);
    num(body, 0);
    add(body, "v", 1);
}

/* A node above one child, n times; the key of each is a letter of `keys`. */
static void inner_of(bytes *body, unsigned height, size_t n, const char *keys, size_t shared,
                     size_t off, size_t size)
{
    body->n = 0;
    num(body, height);
    file_d(body);
    num(body, n);
    for (size_t i = 1; i < n; i++)
        num(body, 0);
    for (size_t i = 0; i < n; i++)
        num(body, 1);
    for (size_t i = 0; i < n; i++)
        num(body, shared);
    add(body, keys, n);
    for (size_t i = 0; i < n; i++)
        num(body, 0);
    for (size_t i = 0; i < n; i++)
        num(body, off);
    for (size_t i = 0; i < n; i++)
        num(body, size);
}

static pg_status read_database(pg__kv *kv, pg_err *err)
{
    const int folder = open(at, O_RDONLY | O_DIRECTORY);
    const pg_status st = pg__ocdbt_read(kv, folder, err);
    close(folder);
    return st;
}

static void a_node_may_share_its_key(void **state)
{
    (void)state;
    static bytes body, out;
    pg__kv kv = {0};
    out.n = 0;
    leaf_of(&body, "x");
    const size_t n = frame(&out, "\x0c\xdb\x20\xde", &body);
    inner_of(&body, 1, 3, "abc", 1, 0, n);
    const size_t m = frame(&out, "\x0c\xdb\x20\xde", &body);
    put_bytes("d", out.v, out.n);
    put_manifest(n, m, 1);
    assert_ok(read_database(&kv, NULL));
    assert_int_equal(kv.n, 3);
    assert_string_equal(kv.v[0].key, "ax");
    assert_string_equal(kv.v[2].key, "cx");
    pg__kv_fini(&kv);
}

/* One leaf, again and again. */
static void keys_of_a_database_rise(void **state)
{
    (void)state;
    static bytes body, out;
    pg__kv kv = {0};
    pg_err err = {0};
    out.n = 0;
    leaf_of(&body, "x");
    const size_t n = frame(&out, "\x0c\xdb\x20\xde", &body);
    inner_of(&body, 1, 2, "ab", 0, 0, n); /* no key is shared: both are "x" */
    const size_t m = frame(&out, "\x0c\xdb\x20\xde", &body);
    put_bytes("d", out.v, out.n);
    put_manifest(n, m, 1);
    assert_fails(PG_E_FORMAT, read_database(&kv, &err), &err);
    assert_string_equal(err.msg, "damaged OCDBT database: x is out of order");
}

/* Each of five nodes refers to the one below it sixteen times: a million leaves with long keys. */
static void nodes_that_refer_to_each_other_are_bounded(void **state)
{
    (void)state;
    static bytes body, out;
    static char key[4000];
    pg__kv kv = {0};
    pg_err err = {0};
    out.n = 0;
    memset(key, 'k', sizeof key - 1);
    leaf_of(&body, key);
    size_t n = frame(&out, "\x0c\xdb\x20\xde", &body), off = 0;
    for (unsigned height = 1; height <= 5; height++) {
        const size_t before = out.n;
        inner_of(&body, height, 16, "abcdefghijklmnop", 1, off, n);
        n = frame(&out, "\x0c\xdb\x20\xde", &body);
        off = before;
    }
    put_bytes("d", out.v, out.n);
    put_manifest(off, n, 5);
    assert_fails(PG_E_LIMIT, read_database(&kv, &err), &err);
    assert_non_null(strstr(err.msg, "nodes and names take more than"));
}

/* A key that keeps nearly 2^64 bytes of the one before it. */
static void a_shortened_key_cannot_wrap(void **state)
{
    (void)state;
    static bytes body, out;
    pg__kv kv = {0};
    pg_err err = {0};
    for (int i = 0; i < 2; i++) {
        out.n = body.n = 0;
        num(&body, 0);
        num(&body, 0);
        num(&body, 2);
        num(&body, i ? UINT64_MAX : 2); /* behind a key of 1 */
        num(&body, 1);
        num(&body, 1);
        add(&body, "ab", 2);
        for (int k = 0; k < 4; k++)
            num(&body, 0);
        const size_t n = frame(&out, "\x0c\xdb\x20\xde", &body);
        put_bytes("d", out.v, out.n);
        put_manifest(0, n, 0);
        assert_fails(PG_E_FORMAT, read_database(&kv, &err), &err);
        assert_string_equal(err.msg, "damaged OCDBT database: a key makes no sense");
    }
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

PG_TEST_MAIN(cmocka_unit_test(reads_every_tree), IN_FOLDER(shards_without_elements_are_refused),
             IN_FOLDER(chunks_of_a_shard_are_counted), IN_FOLDER(a_grid_takes_no_memory),
             IN_FOLDER(a_missing_chunk_is_what_fills_it), IN_FOLDER(an_empty_chunk_is_damage),
             IN_FOLDER(a_chunk_is_decoded_once), IN_FOLDER(chunks_side_by_side_become_rows),
             IN_FOLDER(a_large_chunk_is_read_in_part),
             IN_FOLDER(leaves_that_are_no_weights_are_listed),
             IN_FOLDER(what_is_not_finished_does_not_count), IN_FOLDER(a_node_may_share_its_key),
             IN_FOLDER(keys_of_a_database_rise),
             IN_FOLDER(nodes_that_refer_to_each_other_are_bounded),
             IN_FOLDER(a_shortened_key_cannot_wrap))
