/* zip_dir.c - the central directory of a ZIP archive, checked against the local headers.
 *
 * A ZIP archive says everything twice, and readers differ in which copy they believe; any
 * disagreement is refused. The members must tile the file from its first byte to the directory, so
 * that nothing is shared (bombs by overlap), hidden or in front. (APPNOTE 4.3.7, 4.3.9, 4.3.12.) */
#include "io/zip_dir.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"

#define ENTRY_BYTES 46u
#define LOCAL_BYTES 30u

/* 4.4.4: the general purpose flags that we accept. */
#define FLAG_ENCRYPTED  0x2041u /* traditional, strong, masked header */
#define FLAG_DESCRIPTOR 0x0008u /* sizes follow the data */
#define FLAG_PATCH      0x0020u

/* A member while it is being checked. */
typedef struct entry {
    pg__zip_member *m;
    const unsigned char *name; /* in the directory, not terminated */
    size_t n_name;
    uint64_t header_off;
    uint16_t flags, method;
} entry;

/* Names the member: messages are "MEMBER: reason". */
#define FAIL_ENTRY(e, code, ...)                                                                   \
    do {                                                                                           \
        char shown_[200];                                                                          \
        pg_status code_ = pg_fail(err, (code), __VA_ARGS__);                                       \
        pg_err_prefix(err,                                                                         \
                      pg__printable(shown_, sizeof shown_, (const char *)(e)->name, (e)->n_name)); \
        return code_;                                                                              \
    } while (0)

/* --- one directory entry --------------------------------------------------------------------- */

/* 4.5.3: the zip64 extra field replaces those sizes and offset (if it is given) that are all
 * ones. */
static pg_status widen(const entry *e, const unsigned char *extra, size_t n, uint64_t *values[3],
                       pg_err *err)
{
    const unsigned char *wide = NULL;
    size_t n_wide = 0, at = 0;
    while (n - at >= 4) {
        const size_t len = pg__le16(extra + at + 2);
        if (len > n - at - 4)
            FAIL_ENTRY(e, PG_E_FORMAT, "an extra field leaves its header");
        if (pg__le16(extra + at) == 1) {
            if (wide)
                FAIL_ENTRY(e, PG_E_FORMAT, "two zip64 extra fields");
            wide = extra + at + 4;
            n_wide = len;
        }
        at += 4 + len;
    }
    at = 0;
    for (size_t i = 0; i < 3; i++) {
        if (!values[i] || *values[i] != UINT32_MAX)
            continue;
        if (n_wide < at + 8)
            FAIL_ENTRY(e, PG_E_FORMAT, "its zip64 sizes are missing");
        *values[i] = pg__le64(wide + at);
        at += 8;
    }
    return PG_OK;
}

/* Names are only compared, never used as paths. Those that could point somewhere are refused all
 * the same: nobody writes them by accident. */
static pg_status check_name(const entry *e, pg_err *err)
{
    const char *s = (const char *)e->name, *end = s + e->n_name;
    if (e->n_name == 0)
        return pg_fail(err, PG_E_FORMAT, "ZIP archive: a member without a name");
    if (memchr(s, 0, e->n_name) || memchr(s, '\\', e->n_name))
        FAIL_ENTRY(e, PG_E_FORMAT, "a member name with a zero byte or a backslash");
    if (*s == '/' || (e->n_name > 1 && s[1] == ':'))
        FAIL_ENTRY(e, PG_E_FORMAT, "a member name with an absolute path");
    while (s < end) {
        const char *slash = memchr(s, '/', (size_t)(end - s));
        const size_t n = (size_t)((slash ? slash : end) - s);
        if (n == 0 || (n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
            FAIL_ENTRY(e, PG_E_FORMAT, "a member name with \"..\", \".\" or an empty component");
        s += n + 1;
    }
    return PG_OK;
}

static const char *method_name(unsigned method)
{
    return method == 9    ? "deflate64"
           : method == 12 ? "bzip2"
           : method == 14 ? "LZMA"
           : method == 93 ? "zstd"
           : method == 95 ? "xz"
           : method == 99 ? "AES"
                          : "unknown";
}

/* Checks what an entry may be; header is its fixed part in the directory. */
static pg_status check_kind(const entry *e, const unsigned char *header, pg_err *err)
{
    const uint32_t mode = pg__le32(header + 38) >> 16, type = mode & 0170000;
    if (e->flags & FLAG_ENCRYPTED || e->method == 99)
        FAIL_ENTRY(e, PG_E_UNSUPPORTED, "encrypted (compression method %u)", e->method);
    if (e->method != 0 && e->method != 8)
        FAIL_ENTRY(e, PG_E_UNSUPPORTED, "compression method %u (%s); only deflate is read",
                   e->method, method_name(e->method));
    if (e->flags & FLAG_PATCH)
        FAIL_ENTRY(e, PG_E_UNSUPPORTED, "compressed patched data");
    if (pg__le16(header + 34) != 0)
        FAIL_ENTRY(e, PG_E_UNSUPPORTED, "in another part of the archive");
    if (type == 0120000)
        FAIL_ENTRY(e, PG_E_FORMAT, "a symbolic link");
    if (type != 0 && type != 0100000 && type != 0040000)
        FAIL_ENTRY(e, PG_E_FORMAT, "not a file");
    return PG_OK;
}

static pg_status check_sizes(const entry *e, uint64_t dir_off, pg_err *err)
{
    const pg__zip_member *m = e->m;
    uint64_t most;
    if (m->n_stored > dir_off)
        FAIL_ENTRY(e, PG_E_FORMAT, "%" PRIu64 " stored bytes do not fit an archive of %" PRIu64,
                   m->n_stored, dir_off);
    if (e->method == 0 && m->n_stored != m->n)
        FAIL_ENTRY(e, PG_E_FORMAT,
                   "%" PRIu64 " bytes are stored without compression, but it declares %" PRIu64,
                   m->n_stored, m->n);
    if (__builtin_mul_overflow(m->n_stored, (uint64_t)PG_LIMIT_DEFLATE_RATIO, &most) ||
        __builtin_add_overflow(most, (uint64_t)PG_LIMIT_DEFLATE_SLACK, &most))
        most = UINT64_MAX;
    if (m->n > most)
        FAIL_ENTRY(e, PG_E_LIMIT, "%" PRIu64 " stored bytes cannot hold %" PRIu64, m->n_stored,
                   m->n);
    if (e->name[e->n_name - 1] == '/' && m->n)
        FAIL_ENTRY(e, PG_E_FORMAT, "a folder with data");
    return PG_OK;
}

/* 4.3.12: reads the entry at p, of which n bytes are left; *len is its length. */
static pg_status read_entry(entry *e, const unsigned char *p, size_t n, size_t *len,
                            uint64_t dir_off, pg_err *err)
{
    if (n < ENTRY_BYTES || memcmp(p, "PK\1\2", 4) != 0)
        return pg_fail(err, PG_E_FORMAT, "ZIP archive: its directory is damaged");
    const size_t n_name = pg__le16(p + 28), n_extra = pg__le16(p + 30),
                 n_comment = pg__le16(p + 32);
    *len = ENTRY_BYTES + n_name + n_extra + n_comment;
    if (*len > n)
        return pg_fail(err, PG_E_FORMAT, "ZIP archive: its directory is damaged");
    e->name = p + ENTRY_BYTES;
    e->n_name = n_name;
    e->flags = pg__le16(p + 8);
    e->method = pg__le16(p + 10);
    e->m->deflated = e->method == 8;
    e->m->crc32 = pg__le32(p + 16);
    e->m->n_stored = pg__le32(p + 20);
    e->m->n = pg__le32(p + 24);
    e->header_off = pg__le32(p + 42);
    uint64_t *values[] = {&e->m->n, &e->m->n_stored, &e->header_off};
    pg_status st = PG_OK;
    PG_TRY(check_name(e, err));
    PG_TRY(check_kind(e, p, err));
    PG_TRY(widen(e, e->name + n_name, n_extra, values, err));
    PG_TRY(check_sizes(e, dir_off, err));
done:
    return st;
}

/* --- its local header ------------------------------------------------------------------------ */

/* A few kilobytes of the file, so that a small member costs one read. */
typedef struct cache {
    pg__io *io;
    uint64_t off;
    size_t n;
    unsigned char buf[4096];
} cache;

static pg_status cached(const unsigned char **out, cache *c, uint64_t off, size_t n, pg_err *err)
{
    if (off < c->off || off - c->off > c->n || n > c->n - (size_t)(off - c->off)) {
        const uint64_t left = pg__io_size(c->io) - off;
        c->n = (size_t)(left < sizeof c->buf ? left : sizeof c->buf);
        c->off = off;
        const pg_status st = pg__io_read(c->io, off, c->buf, c->n, err);
        if (st != PG_OK) {
            c->n = 0;
            return st;
        }
    }
    if (n > c->n - (size_t)(off - c->off)) {
        (void)pg_fail(err, PG_E_FORMAT, "truncated ZIP archive");
        return PG_E_FORMAT;
    }
    *out = c->buf + (off - c->off);
    return PG_OK;
}

/* With a data descriptor, the local numbers may be zero, but not different. */
static int agrees(const entry *e, uint64_t local, uint64_t central)
{
    return local == central || (e->flags & FLAG_DESCRIPTOR && local == 0);
}

/* Name and extra fields of the local header, which may be longer than the cache. */
static pg_status check_local_tail(const entry *e, cache *c, uint64_t off, size_t n_extra,
                                  uint64_t sizes[2], pg_err *err)
{
    const unsigned char *p = NULL;
    unsigned char *big = NULL;
    uint64_t *values[] = {&sizes[0], &sizes[1], NULL};
    pg_status st = PG_OK;
    const size_t n = e->n_name + n_extra;
    if (n > sizeof c->buf) {
        if (!(big = pg__mem_array(n, 1)))
            return pg__nomem(err);
        PG_TRY(pg__io_read(c->io, off, big, n, err));
        p = big;
    } else {
        PG_TRY(cached(&p, c, off, n, err));
    }
    if (memcmp(p, e->name, e->n_name) != 0) {
        st = pg_fail(err, PG_E_FORMAT, "%s: has another name in its own header",
                     PG_SHOW(e->m->name));
        goto done;
    }
    PG_TRY(widen(e, p + e->n_name, n_extra, values, err));
done:
    pg__mem_free(big);
    return st;
}

/* 4.3.7: the header before the data must say what the directory says. Sets m->data_off. */
static pg_status check_local(entry *e, cache *c, uint64_t dir_off, pg_err *err)
{
    const unsigned char *p = NULL;
    pg_status st = PG_OK;
    if (e->header_off > dir_off || dir_off - e->header_off < LOCAL_BYTES)
        FAIL_ENTRY(e, PG_E_FORMAT, "its offset %" PRIu64 " lies outside the members",
                   e->header_off);
    PG_TRY(cached(&p, c, e->header_off, LOCAL_BYTES, err));
    if (memcmp(p, "PK\3\4", 4) != 0)
        FAIL_ENTRY(e, PG_E_FORMAT, "there is no member at its offset %" PRIu64, e->header_off);
    const size_t n_name = pg__le16(p + 26), n_extra = pg__le16(p + 28);
    const uint32_t crc = pg__le32(p + 14);
    uint64_t sizes[2] = {pg__le32(p + 22), pg__le32(p + 18)};
    if (pg__le16(p + 6) != e->flags || pg__le16(p + 8) != e->method || n_name != e->n_name)
        FAIL_ENTRY(e, PG_E_FORMAT, "its own header disagrees with the directory (%s)",
                   n_name != e->n_name           ? "name"
                   : pg__le16(p + 6) != e->flags ? "flags"
                                                 : "method");
    const uint64_t room = dir_off - e->header_off - LOCAL_BYTES, skip = n_name + n_extra;
    if (skip > room || e->m->n_stored > room - skip)
        FAIL_ENTRY(e, PG_E_FORMAT, "its data leaves the archive");
    PG_TRY(check_local_tail(e, c, e->header_off + LOCAL_BYTES, n_extra, sizes, err));
    if (!agrees(e, sizes[0], e->m->n) || !agrees(e, sizes[1], e->m->n_stored) ||
        !agrees(e, crc, e->m->crc32))
        FAIL_ENTRY(e, PG_E_FORMAT, "its own header disagrees with the directory (size or CRC)");
    e->m->data_off = e->header_off + LOCAL_BYTES + skip;
done:
    return st;
}

/* 4.3.9: the n bytes at off must be the descriptor. */
static pg_status check_descriptor(const entry *e, cache *c, uint64_t off, uint64_t n, pg_err *err)
{
    const unsigned char *p = NULL;
    pg_status st = PG_OK;
    const size_t sign = n == 16 || n == 24 ? 4 : 0, w = n >= 20 ? 8 : 4;
    if (n < 12 || n > 24 || n != sign + 4 + 2 * w)
        FAIL_ENTRY(e, PG_E_FORMAT, "its data descriptor is damaged");
    PG_TRY(cached(&p, c, off, (size_t)n, err));
    if ((sign && memcmp(p, "PK\7\10", 4) != 0) || pg__le32(p + sign) != e->m->crc32 ||
        pg__le(p + sign + 4, w) != e->m->n_stored || pg__le(p + sign + 4 + w, w) != e->m->n)
        FAIL_ENTRY(e, PG_E_FORMAT, "its data descriptor is damaged");
done:
    return st;
}

/* --- the directory --------------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return (x->header_off > y->header_off) - (x->header_off < y->header_off);
}

/* Members, sorted by offset, must follow each other without a gap. */
static pg_status check_tiling(const entry *list, size_t n, cache *c, uint64_t dir_off, pg_err *err)
{
    pg_status st = PG_OK;
    if ((n ? list[0].header_off : dir_off) != 0)
        return pg_fail(err, PG_E_FORMAT, "ZIP archive with other bytes before its first member");
    for (size_t i = 0; i < n; i++) {
        const entry *e = &list[i];
        const uint64_t end = e->m->data_off + e->m->n_stored;
        const uint64_t next = i + 1 < n ? list[i + 1].header_off : dir_off;
        if (end > next)
            FAIL_ENTRY(e, PG_E_FORMAT, "overlaps the next member");
        if (e->flags & FLAG_DESCRIPTOR)
            PG_TRY(check_descriptor(e, c, end, next - end, err));
        else if (end != next)
            FAIL_ENTRY(e, PG_E_FORMAT, "other bytes follow its data");
    }
done:
    return st;
}

typedef struct named {
    const char *name;
    size_t i;
} named;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static pg_status sort_names(pg__zip_dir *d, pg_err *err)
{
    pg_status st = PG_OK;
    named *list = pg__mem_array(d->n, sizeof *list);
    d->by_name = pg__mem_array(d->n, sizeof *d->by_name);
    if (!list || !d->by_name) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < d->n; i++)
        list[i] = (named){d->members[i].name, i};
    qsort(list, d->n, sizeof *list, by_name);
    for (size_t i = 0; i < d->n; i++) {
        if (i && strcmp(list[i - 1].name, list[i].name) == 0)
            PG_FAIL(PG_E_FORMAT, "%s: two members have this name", PG_SHOW(list[i].name));
        d->by_name[i] = list[i].i;
    }
done:
    pg__mem_free(list);
    return st;
}

/* Reads all entries from the directory's n_raw bytes. */
static pg_status read_entries(pg__zip_dir *d, entry *list, const unsigned char *raw, size_t n_raw,
                              uint64_t dir_off, pg_err *err)
{
    size_t at = 0, n_names = 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < d->n; i++) {
        entry *e = &list[i];
        size_t len = 0;
        e->m = &d->members[i];
        const pg_status st = read_entry(e, raw + at, n_raw - at, &len, dir_off, err);
        if (st != PG_OK)
            return st;
        memcpy(d->names + n_names, e->name, e->n_name); /* zeroed memory: a NUL follows */
        e->m->name = d->names + n_names;
        n_names += e->n_name + 1;
        at += len;
        if (__builtin_add_overflow(sum, e->m->n_stored, &sum) || sum > dir_off)
            FAIL_ENTRY(e, PG_E_LIMIT,
                       "its data overlaps other members (more is stored than there is)");
    }
    if (at != n_raw)
        return pg_fail(err, PG_E_FORMAT,
                       "ZIP archive: its directory holds more than its %zu members", d->n);
    return PG_OK;
}

pg_status pg__zip_dir_read(pg__zip_dir *out, pg__io *io, pg_err *err)
{
    pg_status st = PG_OK;
    pg__zip_end end = {0};
    pg__zip_dir d = {0};
    cache c = {.io = io};
    unsigned char *raw = NULL;
    entry *list = NULL;
    PG_TRY(pg__zip_end_read(&end, io, err));
    d.n = (size_t)end.n;
    raw = pg__mem_array((size_t)end.n_bytes, 1);
    list = pg__mem_array(d.n, sizeof *list);
    d.members = pg__mem_array(d.n, sizeof *d.members);
    d.names = pg__mem_array((size_t)end.n_bytes + 1, 1); /* names are shorter than their entries */
    if (!raw || !list || !d.members || !d.names) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(pg__io_read(io, end.off, raw, (size_t)end.n_bytes, err));
    PG_TRY(read_entries(&d, list, raw, (size_t)end.n_bytes, end.off, err));
    PG_TRY(sort_names(&d, err));
    qsort(list, d.n, sizeof *list, by_offset);
    for (size_t i = 0; i < d.n; i++)
        PG_TRY(check_local(&list[i], &c, end.off, err));
    PG_TRY(check_tiling(list, d.n, &c, end.off, err));
    *out = d;
    d = (pg__zip_dir){0};
done:
    pg__zip_dir_fini(&d);
    pg__mem_free(raw);
    pg__mem_free(list);
    return st;
}

void pg__zip_dir_fini(pg__zip_dir *d)
{
    pg__mem_free(d->members);
    pg__mem_free(d->by_name);
    pg__mem_free(d->names);
    *d = (pg__zip_dir){0};
}
