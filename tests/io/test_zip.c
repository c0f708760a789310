#include "pg_test.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <zip.h>
#include <zlib.h>

#include "base/le.h"
#include "base/limits.h"
#include "base/str.h"
#include "io/zip.h"

/* --- a writer whose every field can lie ------------------------------------------------------ */

/* What is 0 (or NULL) is written as it should be. */
typedef struct lie {
    const char *local_name, *extra, *raw;
    uint32_t n_stored, n, crc, local_n, off, attr;
    uint16_t method, flags, local_flags, disk;
    size_t n_extra, n_raw;
    int descriptor;
} lie;

typedef struct builder {
    pg__str body, dir;
    unsigned n;
} builder;

static void num(pg__str *b, uint64_t v, size_t n)
{
    unsigned char p[8];
    pg__put_le(p, v, n);
    assert_ok(pg__str_add(b, (const char *)p, n, NULL));
}

static void bytes(pg__str *b, const void *p, size_t n)
{
    assert_ok(pg__str_add(b, p, n, NULL));
}

static uint32_t pick(uint32_t told, size_t truth)
{
    return told ? told : (uint32_t)truth;
}

static size_t deflated(char *out, size_t cap, const void *p, size_t n)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (z_const Bytef *)(uintptr_t)p;
    z.avail_in = (uInt)n;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return cap - z.avail_out;
}

static void add_n(builder *b, const char *name, size_t n_name, const char *data, size_t n, lie l)
{
    char packed[4096];
    const uint32_t crc = pick(l.crc, crc32(0, (const Bytef *)data, (uInt)n));
    const size_t n_packed = l.method == 8 ? deflated(packed, sizeof packed, data, n) : n;
    const char *raw = l.raw ? l.raw : l.method == 8 ? packed : data;
    const size_t n_raw = l.raw ? l.n_raw : n_packed;
    const size_t header_off = b->body.n;
    const uint32_t stored = pick(l.n_stored, n_raw), size = pick(l.n, n);
    bytes(&b->body, "PK\3\4\x14\0", 6);
    num(&b->body, l.descriptor ? 8 : (uint16_t)(l.flags ^ l.local_flags), 2);
    num(&b->body, l.method, 2);
    num(&b->body, 0x210000, 4);
    num(&b->body, l.descriptor ? 0 : crc, 4);
    num(&b->body, l.descriptor ? 0 : stored, 4);
    num(&b->body, l.descriptor ? 0 : pick(l.local_n, size), 4);
    num(&b->body, n_name, 2);
    num(&b->body, 0, 2);
    bytes(&b->body, l.local_name ? l.local_name : name, n_name);
    bytes(&b->body, raw, n_raw);
    if (l.descriptor) {
        bytes(&b->body, "PK\7\10", 4);
        num(&b->body, crc ^ (l.descriptor > 1), 4);
        num(&b->body, stored, 4);
        num(&b->body, size, 4);
    }
    bytes(&b->dir, "PK\1\2\x1e\3\x14\0", 8);
    num(&b->dir, l.descriptor ? 8 : l.flags, 2);
    num(&b->dir, l.method, 2);
    num(&b->dir, 0x210000, 4);
    num(&b->dir, crc, 4);
    num(&b->dir, stored, 4);
    num(&b->dir, size, 4);
    num(&b->dir, n_name, 2);
    num(&b->dir, l.n_extra, 2);
    num(&b->dir, 0, 2);
    num(&b->dir, l.disk, 2);
    num(&b->dir, 0, 2);
    num(&b->dir, l.attr ? l.attr : UINT32_C(0100644) << 16, 4);
    num(&b->dir, pick(l.off, header_off), 4);
    bytes(&b->dir, name, n_name);
    if (l.n_extra)
        bytes(&b->dir, l.extra, l.n_extra);
    b->n++;
}

static void add(builder *b, const char *name, const char *data, lie l)
{
    add_n(b, name, strlen(name), data, strlen(data), l);
}

typedef struct end_lie {
    uint32_t n, off, n_dir, disk;
    const char *comment, *tail;
} end_lie;

/* The archive in `body`. */
static void end(builder *b, end_lie l)
{
    const size_t off = b->body.n, n_dir = b->dir.n;
    if (n_dir)
        bytes(&b->body, b->dir.s, n_dir);
    bytes(&b->body, "PK\5\6", 4);
    num(&b->body, l.disk, 2);
    num(&b->body, l.disk, 2);
    num(&b->body, pick(l.n, b->n), 2);
    num(&b->body, pick(l.n, b->n), 2);
    num(&b->body, pick(l.n_dir, n_dir), 4);
    num(&b->body, pick(l.off, off), 4);
    num(&b->body, l.comment ? strlen(l.comment) : 0, 2);
    if (l.comment)
        bytes(&b->body, l.comment, strlen(l.comment));
    if (l.tail)
        bytes(&b->body, l.tail, strlen(l.tail));
}

static void fini(builder *b)
{
    pg__str_fini(&b->body);
    pg__str_fini(&b->dir);
    b->n = 0;
}

static pg_status open_body(pg__zip **z, const builder *b, pg_err *err)
{
    pg__io *io = NULL;
    assert_ok(pg__io_open_mem(&io, b->body.s, b->body.n, NULL));
    const pg_status st = pg__zip_open(z, io, err);
    pg__io_close(io);
    return st;
}

/* Refused at opening, with a message that has both texts. Ends the builder. */
static void assert_refused(builder *b, pg_status code, const char *say, const char *and_say)
{
    pg_err err = {0};
    pg__zip *z = NULL;
    assert_fails(code, open_body(&z, b, &err), &err);
    if (!strstr(err.msg, say) || !strstr(err.msg, and_say))
        fail_msg("\"%s\" and \"%s\" expected: %s", say, and_say, err.msg);
    assert_null(z);
    fini(b);
}

static void assert_entry_refused(const char *name, lie l, pg_status code, const char *say)
{
    builder b = {0};
    add(&b, name, "hello hello hello hello", l);
    add(&b, "ok", "x", (lie){0});
    end(&b, (end_lie){0});
    assert_refused(&b, code, say, "");
}

/* --- reading --------------------------------------------------------------------------------- */

static void reads_stored_and_deflated_members(void **state)
{
    (void)state;
    builder b = {0};
    pg__zip *z = NULL;
    char text[2001] = "", *got = NULL, back[2000];
    size_t n = 0;
    memset(text, 'w', 2000);
    add(&b, "stored", "hello", (lie){0});
    add(&b, "d/", "", (lie){.attr = UINT32_C(0040755) << 16});
    add(&b, "d/packed", text, (lie){.method = 8});
    add(&b, "streamed", text, (lie){.method = 8, .descriptor = 1});
    end(&b, (end_lie){.comment = "a comment"});
    assert_ok(open_body(&z, &b, NULL));
    assert_int_equal(pg__zip_n(z), 4);
    assert_string_equal(pg__zip_at(z, 2)->name, "d/packed");
    assert_null(pg__zip_at(z, 4));
    assert_int_equal(pg__zip_find(z, "stored"), 0);
    assert_int_equal(pg__zip_find(z, "d/packed"), 2);
    assert_int_equal(pg__zip_find(z, "d/packe"), (size_t)-1);
    assert_memory_equal(b.body.s + pg__zip_at(z, 0)->data_off, "hello", 5);
    assert_ok(pg__zip_load(z, 0, 5, &got, &n, NULL));
    assert_string_equal(got, "hello");
    assert_int_equal(n, 5);
    free(got);
    for (size_t i = 2; i < 4; i++) {
        pg__io *io = NULL;
        assert_ok(pg__zip_load(z, i, 2000, &got, NULL, NULL));
        assert_string_equal(got, text);
        free(got);
        assert_ok(pg__zip_open_member(z, i, &io, NULL));
        assert_int_equal(pg__io_size(io), 2000);
        assert_ok(pg__io_read(io, 0, back, 2000, NULL));
        assert_memory_equal(back, text, 2000);
        pg__io_close(io);
    }
    pg__zip_close(z);
    fini(&b);
}

static void members_outlive_the_archive(void **state)
{
    (void)state;
    builder b = {0};
    pg__zip *z = NULL;
    pg__io *io = NULL;
    char got[5];
    add(&b, "a", "hello", (lie){0});
    end(&b, (end_lie){0});
    assert_ok(open_body(&z, &b, NULL));
    assert_ok(pg__zip_open_member(z, 0, &io, NULL));
    pg__zip_close(z);
    pg__zip_close(NULL);
    assert_ok(pg__io_read(io, 0, got, 5, NULL));
    assert_memory_equal(got, "hello", 5);
    pg__io_close(io);
    fini(&b);
}

static void loads_no_more_than_the_limit(void **state)
{
    (void)state;
    builder b = {0};
    pg__zip *z = NULL;
    pg_err err = {0};
    char *got = NULL;
    add(&b, "config.json", "hello", (lie){.method = 8});
    end(&b, (end_lie){0});
    assert_ok(open_body(&z, &b, NULL));
    assert_fails(PG_E_LIMIT, pg__zip_load(z, 0, 4, &got, NULL, &err), &err);
    assert_string_equal(err.msg, "config.json: 5 bytes, at most 4 are read");
    pg__zip_close(z);
    fini(&b);
}

static void assert_data_refused(lie l, pg_status code, const char *say)
{
    for (int whole = 0; whole < 2; whole++) {
        builder b = {0};
        pg__zip *z = NULL;
        pg__io *io = NULL;
        char *got = NULL;
        pg_err err = {0};
        add(&b, "a.npy", "hello hello hello hello", l);
        end(&b, (end_lie){0});
        assert_ok(open_body(&z, &b, &err));
        if (whole)
            assert_fails(code, pg__zip_load(z, 0, 1 << 20, &got, NULL, &err), &err);
        else
            assert_fails(code, pg__zip_open_member(z, 0, &io, &err), &err);
        if (!strstr(err.msg, "a.npy: ") || !strstr(err.msg, say))
            fail_msg("\"%s\" expected: %s", say, err.msg);
        pg__zip_close(z);
        fini(&b);
    }
}

static void notices_damaged_data(void **state)
{
    (void)state;
    assert_data_refused((lie){.crc = 7}, PG_E_FORMAT, "CRC");
    assert_data_refused((lie){.crc = 7, .method = 8}, PG_E_FORMAT, "CRC");
    assert_data_refused((lie){.n = 10, .method = 8}, PG_E_LIMIT, "more than its 10 bytes");
    assert_data_refused((lie){.n = 30, .method = 8}, PG_E_FORMAT, "less than its 30 bytes");
    assert_data_refused((lie){.method = 8, .raw = "\xff\xff\xff\xff", .n_raw = 4}, PG_E_FORMAT,
                        "damaged");
}

static void refuses_entries_it_cannot_trust(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        lie l;
        pg_status code;
        const char *say;
    } cases[] = {
        {"a", {.flags = 1}, PG_E_UNSUPPORTED, "a: encrypted"},
        {"a", {.method = 99}, PG_E_UNSUPPORTED, "a: encrypted"},
        {"a", {.method = 12}, PG_E_UNSUPPORTED, "a: compression method 12 (bzip2)"},
        {"a", {.method = 77}, PG_E_UNSUPPORTED, "a: compression method 77 (unknown)"},
        {"a", {.disk = 1}, PG_E_UNSUPPORTED, "a: in another part"},
        {"a", {.attr = UINT32_C(0120777) << 16}, PG_E_FORMAT, "a: a symbolic link"},
        {"a", {.attr = UINT32_C(0020666) << 16}, PG_E_FORMAT, "a: not a file"},
        {"a", {.n = 28}, PG_E_FORMAT, "a: 23 bytes are stored without"},
        {"a",
         {.n = 23 * PG_LIMIT_DEFLATE_RATIO + PG_LIMIT_DEFLATE_SLACK + 1, .method = 8},
         PG_E_LIMIT,
         "cannot hold 89273"},
        {"a", {.n_stored = 1u << 30, .method = 8}, PG_E_FORMAT, "do not fit an archive"},
        {"a", {.off = 0x7FFFFFFF}, PG_E_FORMAT, "a: its offset 2147483647 lies outside"},
        {"a", {.off = 5}, PG_E_FORMAT, "a: there is no member at its offset 5"},
        {"a", {.off = 54}, PG_E_FORMAT, "a: its own header disagrees"},
        {"a", {.local_n = 5}, PG_E_FORMAT, "a: its own header disagrees"},
        {"a", {.local_name = "b"}, PG_E_FORMAT, "a: has another name in its own header"},
        {"a", {.local_flags = 2}, PG_E_FORMAT, "disagrees with the directory (flags)"},
        {"a", {.descriptor = 2}, PG_E_FORMAT, "a: its data descriptor is damaged"},
        {"a", {.extra = "\1\0\x60\xEA", .n_extra = 4}, PG_E_FORMAT, "a: an extra field"},
        {"a", {.extra = "\1\0\0\0\1\0\0\0", .n_extra = 8}, PG_E_FORMAT, "a: two zip64"},
        {"ok", {0}, PG_E_FORMAT, "ok: two members have this name"},
        {"", {0}, PG_E_FORMAT, "without a name"},
        {"../a", {0}, PG_E_FORMAT, "../a: a member name with"},
        {"a/../b", {0}, PG_E_FORMAT, "a/../b: a member name with"},
        {"./a", {0}, PG_E_FORMAT, "./a: a member name with"},
        {"a//b", {0}, PG_E_FORMAT, "a//b: a member name with"},
        {"/a", {0}, PG_E_FORMAT, "/a: a member name with an absolute path"},
        {"C:/a", {0}, PG_E_FORMAT, "C:/a: a member name with an absolute path"},
        {"..\\a", {0}, PG_E_FORMAT, "a member name with a zero byte or a backslash"},
        {"a/", {0}, PG_E_FORMAT, "a/: a folder with data"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_entry_refused(cases[i].name, cases[i].l, cases[i].code, cases[i].say);
}

static void shows_hostile_names_escaped(void **state)
{
    (void)state;
    builder b = {0};
    add_n(&b, "a\0b", 3, "x", 1, (lie){0});
    end(&b, (end_lie){0});
    assert_refused(&b, PG_E_FORMAT, "a\\x00b: ", "zero byte");
    add(&b, "a\x1b[2J\n", "x", (lie){.flags = 1});
    end(&b, (end_lie){0});
    assert_refused(&b, PG_E_UNSUPPORTED, "a\\x1b[2J\\x0a: encrypted", "");
}

static void refuses_archives_that_two_readers_see_differently(void **state)
{
    (void)state;
    static const struct {
        end_lie l;
        pg_status code;
        const char *say;
    } cases[] = {
        {{.n = 1}, PG_E_FORMAT, "holds more than its 1 members"},
        {{.n = 3}, PG_E_FORMAT, "members do not fit"},
        {{.n = 65535}, PG_E_FORMAT, "65535 members do not fit"},
        {{.off = 3}, PG_E_FORMAT, "does not end where its end record begins"},
        {{.n_dir = 3}, PG_E_FORMAT, "does not end where its end record begins"},
        {{.disk = 3}, PG_E_UNSUPPORTED, "several parts"},
        {{.tail = "x"}, PG_E_FORMAT, "other bytes after its end record"},
        {{.comment = "PK\5\6 as a comment that is long enough"}, PG_E_FORMAT, "two end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        builder b = {0};
        add(&b, "a", "x", (lie){0});
        add(&b, "b", "y", (lie){0});
        end(&b, cases[i].l);
        assert_refused(&b, cases[i].code, cases[i].say, "ZIP archive");
    }
}

static void refuses_an_archive_within_the_comment(void **state)
{
    (void)state;
    builder inner = {0}, b = {0};
    add(&inner, "evil", "x", (lie){0});
    end(&inner, (end_lie){0});
    add(&b, "good", "x", (lie){0});
    bytes(&b.body, b.dir.s, b.dir.n);
    bytes(&b.body, "PK\5\6\0\0\0\0\1\0\1\0", 12);
    num(&b.body, b.dir.n, 4);
    num(&b.body, b.body.n - b.dir.n - 16, 4);
    num(&b.body, inner.body.n, 2);
    bytes(&b.body, inner.body.s, inner.body.n);
    assert_refused(&b, PG_E_FORMAT, "two end records", "");
    fini(&inner);
}

static void refuses_bytes_that_no_member_owns(void **state)
{
    (void)state;
    builder b = {0};
    bytes(&b.body, "#!/bin/sh\n", 10);
    add(&b, "a", "x", (lie){0});
    end(&b, (end_lie){0});
    assert_refused(&b, PG_E_FORMAT, "before its first member", "");
    add(&b, "a", "x", (lie){0});
    bytes(&b.body, "hidden", 6);
    add(&b, "b", "x", (lie){0});
    end(&b, (end_lie){0});
    assert_refused(&b, PG_E_FORMAT, "a: other bytes follow its data", "");
    add(&b, "a", "x", (lie){0});
    bytes(&b.body, "hidden", 6);
    end(&b, (end_lie){0});
    assert_refused(&b, PG_E_FORMAT, "a: other bytes follow its data", "");
}

static void refuses_members_that_overlap(void **state)
{
    (void)state;
    builder b = {0};
    char inner[200];
    builder hidden = {0};
    add(&hidden, "b", "0123456789", (lie){0});
    memcpy(inner, hidden.body.s, hidden.body.n);
    add_n(&b, "a", 1, inner, hidden.body.n, (lie){0}); /* its data is the member b */
    bytes(&b.dir, hidden.dir.s, hidden.dir.n);
    pg__put_le((unsigned char *)b.dir.s + b.dir.n - 1 - 4, 31, 4);
    b.n++;
    end(&b, (end_lie){0});
    assert_refused(&b, PG_E_FORMAT, "a: overlaps the next member", "");
    fini(&hidden);
}

/* Every truncation and every changed byte: refused or read, never worse. */
static void survives_damage_everywhere(void **state)
{
    (void)state;
    builder b = {0};
    add(&b, "a", "some text some text", (lie){.method = 8, .descriptor = 1});
    add(&b, "b", "y", (lie){0});
    end(&b, (end_lie){0});
    for (size_t i = 0; i < b.body.n; i++) {
        for (int kind = 0; kind < 4; kind++) {
            char *copy = malloc(b.body.n), *got = NULL;
            pg__io *io = NULL;
            pg__zip *z = NULL;
            assert_non_null(copy);
            memcpy(copy, b.body.s, b.body.n);
            copy[i] = (char)(kind == 1 ? copy[i] ^ 1 : kind == 2 ? 0xFF : 0);
            assert_ok(pg__io_open_mem(&io, copy, kind ? b.body.n : i, NULL));
            const pg_status st = pg__zip_open(&z, io, NULL);
            pg__io_close(io);
            if (!kind)
                assert_int_not_equal(st, PG_OK);
            for (size_t k = 0; st == PG_OK && k < pg__zip_n(z); k++) {
                if (pg__zip_load(z, k, 4096, &got, NULL, NULL) == PG_OK)
                    free(got);
            }
            pg__zip_close(z);
            free(copy);
        }
    }
    fini(&b);
}

static void reads_an_empty_archive(void **state)
{
    (void)state;
    builder b = {0};
    pg__zip *z = NULL;
    end(&b, (end_lie){0});
    assert_ok(open_body(&z, &b, NULL));
    assert_int_equal(pg__zip_n(z), 0);
    assert_int_equal(pg__zip_find(z, ""), (size_t)-1);
    pg__zip_close(z);
    fini(&b);
}

/* --- writing --------------------------------------------------------------------------------- */

static char dir[64];

static int enter(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/pg-test-zip-XXXXXX");
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    unlink("out.zip");
    return chdir("/") || rmdir(dir) ? -1 : 0;
}

static void put_member(pg__zip_out *z, pg__sink *s, const char *name, const char *data,
                       uint64_t pad_to, uint64_t *off)
{
    const size_t n = strlen(data);
    assert_ok(pg__zip_out_begin(z, name, n, pad_to, off, NULL));
    assert_ok(pg__sink_write(s, *off, data, n, NULL));
    assert_ok(pg__zip_out_end(z, (uint32_t)crc32(0, (const Bytef *)data, (uInt)n), NULL));
}

/* What libzip makes of out.zip. */
static void assert_libzip_reads(size_t n, const char *const *names, const char *const *data)
{
    int code = 0;
    zip_t *z = zip_open("out.zip", ZIP_RDONLY | ZIP_CHECKCONS, &code);
    assert_int_equal(code, 0);
    assert_int_equal(zip_get_num_entries(z, 0), n);
    for (size_t i = 0; i < n; i++) {
        char got[64] = "";
        assert_string_equal(zip_get_name(z, i, 0), names[i]);
        zip_file_t *f = zip_fopen_index(z, i, 0);
        assert_non_null(f);
        assert_int_equal(zip_fread(f, got, sizeof got - 1), strlen(data[i]));
        assert_int_equal(zip_fread(f, got + 60, 1), 0); /* CRC checked at the end */
        assert_string_equal(got, data[i]);
        zip_fclose(f);
    }
    zip_discard(z);
}

static void writes_what_all_readers_agree_on(void **state)
{
    (void)state;
    static const char *const names[] = {"model.weights.h5", "config.json", "caf\xc3\xa9", "empty",
                                        "late"};
    static const char *const data[] = {"\x89HDF", "{}", "x", "", "tail"};
    static const uint64_t pad[] = {512, 0, 4096, 1, 512};
    uint64_t off[5];
    pg__sink *s = NULL;
    pg__zip_out *z = NULL;
    pg__io *io = NULL;
    pg__zip *back = NULL;
    assert_ok(pg__sink_open(&s, "out.zip", NULL, NULL));
    assert_ok(pg__zip_out_new(&z, s, NULL));
    for (size_t i = 0; i < 5; i++)
        put_member(z, s, names[i], data[i], pad[i], &off[i]);
    assert_ok(pg__zip_out_finish(z, NULL));
    pg__zip_out_free(z);
    assert_ok(pg__sink_commit(s, NULL));
    pg__sink_close(s);
    assert_int_equal(off[0], 512);
    assert_int_equal(off[1], 512 + 4 + 30 + 11);
    assert_int_equal(off[2], 4096);
    assert_int_equal(off[4], 8192);
    assert_libzip_reads(5, names, data);
    assert_ok(pg__io_open(&io, "out.zip", NULL));
    assert_ok(pg__zip_open(&back, io, NULL));
    for (size_t i = 0; i < 5; i++) {
        char *got = NULL;
        assert_int_equal(pg__zip_at(back, i)->data_off, off[i]);
        assert_ok(pg__zip_load(back, i, 64, &got, NULL, NULL));
        assert_string_equal(got, data[i]);
        free(got);
    }
    pg__zip_close(back);
    pg__io_close(io);
}

static void writes_zip64_beyond_four_gigabytes(void **state)
{
    (void)state;
    static const char *const names[] = {"big", "after"};
    const uint64_t n = (UINT64_C(1) << 32) + 5;
    uint64_t off = 0, after = 0;
    pg__sink *s = NULL;
    pg__zip_out *z = NULL;
    pg__io *io = NULL;
    pg__zip *back = NULL;
    char *got = NULL;
    int code = 0;
    assert_ok(pg__sink_open(&s, "out.zip", &(pg__sink_opts){.no_sync = 1}, NULL));
    assert_ok(pg__zip_out_new(&z, s, NULL));
    assert_ok(pg__zip_out_begin(z, "big", n, 512, &off, NULL));
    assert_int_equal(off, 512);
    assert_ok(pg__zip_out_end(z, 0, NULL)); /* a hole on the disk; nobody checks its CRC here */
    put_member(z, s, "after", "x", 0, &after);
    assert_true(after > n);
    assert_ok(pg__zip_out_finish(z, NULL));
    pg__zip_out_free(z);
    assert_ok(pg__sink_commit(s, NULL));
    pg__sink_close(s);
    zip_t *lib = zip_open("out.zip", ZIP_RDONLY | ZIP_CHECKCONS, &code);
    assert_int_equal(code, 0);
    for (size_t i = 0; i < 2; i++) {
        zip_stat_t sb;
        assert_int_equal(zip_stat_index(lib, i, 0, &sb), 0);
        assert_string_equal(sb.name, names[i]);
        assert_int_equal(sb.size, i ? 1 : n);
    }
    zip_discard(lib);
    assert_ok(pg__io_open(&io, "out.zip", NULL));
    assert_ok(pg__zip_open(&back, io, NULL));
    assert_int_equal(pg__zip_at(back, 0)->n, n);
    assert_ok(pg__zip_load(back, 1, 64, &got, NULL, NULL));
    assert_string_equal(got, "x");
    free(got);
    pg__zip_close(back);
    pg__io_close(io);
}

static void writes_zip64_for_many_members(void **state)
{
    (void)state;
    char name[16];
    uint64_t off = 0;
    pg__sink *s = NULL;
    pg__zip_out *z = NULL;
    pg__io *io = NULL;
    pg__zip *back = NULL;
    assert_ok(pg__sink_open(&s, "out.zip", &(pg__sink_opts){.no_sync = 1}, NULL));
    assert_ok(pg__zip_out_new(&z, s, NULL));
    for (unsigned i = 0; i < 66000; i++) {
        snprintf(name, sizeof name, "m%u", i);
        assert_ok(pg__zip_out_begin(z, name, 0, 0, &off, NULL));
        assert_ok(pg__zip_out_end(z, 0, NULL));
    }
    assert_ok(pg__zip_out_finish(z, NULL));
    pg__zip_out_free(z);
    assert_ok(pg__sink_reopen(s, &io, NULL));
    assert_ok(pg__zip_open(&back, io, NULL));
    assert_int_equal(pg__zip_n(back), 66000);
    assert_int_equal(pg__zip_find(back, "m65999"), 65999);
    pg__zip_close(back);
    pg__io_close(io);
    pg__sink_close(s);
}

static void refuses_to_mix_up_members(void **state)
{
    (void)state;
    uint64_t off = 0;
    pg_err err = {0};
    pg__sink *s = NULL;
    pg__zip_out *z = NULL;
    assert_ok(pg__sink_open(&s, "out.zip", NULL, NULL));
    assert_ok(pg__zip_out_new(&z, s, NULL));
    assert_fails(PG_E_ARG, pg__zip_out_end(z, 0, &err), &err);
    assert_fails(PG_E_ARG, pg__zip_out_begin(z, "", 0, 0, &off, &err), &err);
    assert_ok(pg__zip_out_begin(z, "a", 0, 0, &off, NULL));
    assert_fails(PG_E_ARG, pg__zip_out_begin(z, "b", 0, 0, &off, &err), &err);
    assert_fails(PG_E_ARG, pg__zip_out_finish(z, &err), &err);
    pg__zip_out_free(z);
    pg__zip_out_free(NULL);
    pg__sink_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

PG_TEST_MAIN(cmocka_unit_test(reads_stored_and_deflated_members),
             cmocka_unit_test(members_outlive_the_archive),
             cmocka_unit_test(loads_no_more_than_the_limit), cmocka_unit_test(notices_damaged_data),
             cmocka_unit_test(refuses_entries_it_cannot_trust),
             cmocka_unit_test(shows_hostile_names_escaped),
             cmocka_unit_test(refuses_archives_that_two_readers_see_differently),
             cmocka_unit_test(refuses_an_archive_within_the_comment),
             cmocka_unit_test(refuses_bytes_that_no_member_owns),
             cmocka_unit_test(refuses_members_that_overlap),
             cmocka_unit_test(survives_damage_everywhere), cmocka_unit_test(reads_an_empty_archive),
             TEST(writes_what_all_readers_agree_on), TEST(writes_zip64_beyond_four_gigabytes),
             TEST(writes_zip64_for_many_members), TEST(refuses_to_mix_up_members))
