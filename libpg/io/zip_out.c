/* zip_out.c - writing ZIP archives of stored members through a sink (PKWARE APPNOTE 6.3.10).
 *
 * Sizes are known beforehand, so anyone may fill in member data in any order; a local header is
 * written when its CRC is known. All times are 1 January 1980, so that the same contents give the
 * same file. */
#include <inttypes.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "io/zip.h"

#define SIGNATURE     0x04034B50u /* of a local header */
#define LOCAL_BYTES   30u
#define ENTRY_BYTES   46u
#define PAD_ID        0xD935u /* 4.6, "Android ZIP Alignment": a multiple, then zeros */
#define PAD_MIN_BYTES 6u      /* id, length, multiple */
#define EXTRA_MAX     65535u
#define DATE_1980     0x21u
#define FLAG_UTF8     0x800u
#define MADE_ON_UNIX  0x0300u
#define VERSION       20u
#define VERSION_ZIP64 45u
#define REGULAR_FILE  (UINT32_C(0100644) << 16)

typedef struct out_member {
    char *name;
    uint64_t n, header_off, data_off;
    uint32_t crc32;
} out_member;

struct pg__zip_out {
    pg__sink *sink; /* borrowed */
    out_member *members;
    size_t n, cap;
    uint64_t end; /* of what was begun */
    int open;     /* begun, not ended */
};

pg_status pg__zip_out_new(pg__zip_out **out, pg__sink *sink, pg_err *err)
{
    pg__zip_out *z = pg__mem_array(1, sizeof *z);
    if (!z)
        return pg__nomem(err);
    z->sink = sink;
    *out = z;
    return PG_OK;
}

void pg__zip_out_free(pg__zip_out *z)
{
    if (!z)
        return;
    for (size_t i = 0; i < z->n; i++)
        pg__mem_free(z->members[i].name);
    pg__mem_free(z->members);
    pg__mem_free(z);
}

static uint32_t low32(uint64_t v)
{
    return v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
}

static int is_ascii(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s >= 0x80)
            return 0;
    return 1;
}

/* Where data can start, at byte `least` or later: the next of pad_to, 2 pad_to, 4 pad_to ... that
 * an extra field can reach, else `least` itself. */
static uint64_t padded(uint64_t least, uint64_t used, uint64_t pad_to)
{
    uint64_t at = pad_to;
    if (pad_to <= 1)
        return least;
    while (at < least || (at > least && at - least < PAD_MIN_BYTES))
        if (__builtin_mul_overflow(at, UINT64_C(2), &at))
            return least;
    return at - least + used <= EXTRA_MAX ? at : least;
}

pg_status pg__zip_out_begin(pg__zip_out *z, const char *name, uint64_t n, uint64_t pad_to,
                            uint64_t *data_off, pg_err *err)
{
    const size_t n_name = strlen(name);
    const uint64_t wide = n >= UINT32_MAX ? 20 : 0;
    if (z->open || n_name == 0 || n_name > 65535 || n > INT64_MAX - z->end ||
        pad_to > UINT64_C(1) << 40)
        return pg_fail(err, PG_E_ARG, "%s: no such member can be written", PG_SHOW(name));
    out_member m = {.name = pg__mem_strdup(name), .n = n, .header_off = z->end};
    if (!m.name || pg__mem_grow(&z->members, &z->cap, z->n + 1, sizeof *z->members)) {
        pg__mem_free(m.name);
        return pg__nomem(err);
    }
    m.data_off = padded(z->end + LOCAL_BYTES + n_name + wide, wide, pad_to);
    z->members[z->n++] = m;
    z->end = m.data_off + n;
    z->open = 1;
    *data_off = m.data_off;
    return PG_OK;
}

/* 4.3.7 and 4.3.12 begin in the same way, from the version needed to the length of the extra
 * field. */
static void put_common(unsigned char *p, const out_member *m, uint32_t n_stored, size_t n_extra)
{
    const int wide = m->n >= UINT32_MAX || m->header_off >= UINT32_MAX;
    pg__put_le(p, wide ? VERSION_ZIP64 : VERSION, 2);
    pg__put_le(p + 2, is_ascii(m->name) ? 0 : FLAG_UTF8, 2);
    pg__put_le(p + 4, 0, 4); /* method: stored; time */
    pg__put_le(p + 8, DATE_1980, 2);
    pg__put_le(p + 10, m->crc32, 4);
    pg__put_le(p + 14, n_stored, 4);
    pg__put_le(p + 18, n_stored, 4);
    pg__put_le(p + 22, strlen(m->name), 2);
    pg__put_le(p + 24, n_extra, 2);
}

/* 4.3.7: writes the header into the bytes before the data; what its parts leave is padding. */
static pg_status write_header(pg__zip_out *z, out_member *m, uint32_t crc32, pg_err *err)
{
    const size_t n_name = strlen(m->name), len = (size_t)(m->data_off - m->header_off);
    const size_t n_extra = len - LOCAL_BYTES - n_name, wide = m->n >= UINT32_MAX ? 20 : 0;
    unsigned char *p = pg__mem_array(len + 1, 1), *extra = p ? p + LOCAL_BYTES + n_name : NULL;
    if (!p)
        return pg__nomem(err);
    m->crc32 = crc32;
    pg__put_le(p, SIGNATURE, 4);
    put_common(p + 4, m, low32(m->n), n_extra);
    memcpy(p + LOCAL_BYTES, m->name, n_name + 1);
    if (wide) {
        pg__put_le(extra, 1, 2);
        pg__put_le(extra + 2, 16, 2);
        pg__put_le(extra + 4, m->n, 8);
        pg__put_le(extra + 12, m->n, 8);
    }
    if (n_extra > wide) {
        pg__put_le(extra + wide, PAD_ID, 2);
        pg__put_le(extra + wide + 2, n_extra - wide - 4, 2);
        pg__put_le(extra + wide + 4, m->data_off & -m->data_off & 0xFFFF, 2);
    }
    const pg_status st = pg__sink_write(z->sink, m->header_off, p, len, err);
    pg__mem_free(p);
    return st;
}

pg_status pg__zip_out_end(pg__zip_out *z, uint32_t crc32, pg_err *err)
{
    if (!z->open)
        return pg_fail(err, PG_E_ARG, "no member was begun");
    z->open = 0;
    return write_header(z, &z->members[z->n - 1], crc32, err);
}

pg_status pg__zip_out_correct(pg__zip_out *z, size_t member, uint32_t crc32, pg_err *err)
{
    if (member >= z->n)
        return pg_fail(err, PG_E_ARG, "no such member was begun");
    return write_header(z, &z->members[member], crc32, err);
}

/* 4.3.12: one directory entry. */
static pg_status add_entry(pg__str *dir, const out_member *m, pg_err *err)
{
    unsigned char p[ENTRY_BYTES] = "PK\1\2", extra[4 + 3 * 8] = {1};
    size_t n = 4;
    pg_status st = PG_OK;
    if (m->n >= UINT32_MAX) {
        pg__put_le(extra + 4, m->n, 8);
        pg__put_le(extra + 12, m->n, 8);
        n = 20;
    }
    if (m->header_off >= UINT32_MAX) {
        pg__put_le(extra + n, m->header_off, 8);
        n += 8;
    }
    pg__put_le(extra + 2, n - 4, 2);
    if (n == 4)
        n = 0;
    put_common(p + 6, m, low32(m->n), n);
    pg__put_le(p + 4, MADE_ON_UNIX | pg__le16(p + 6), 2);
    pg__put_le(p + 38, REGULAR_FILE, 4);
    pg__put_le(p + 42, low32(m->header_off), 4);
    PG_TRY(pg__str_add(dir, (const char *)p, sizeof p, err));
    PG_TRY(pg__str_puts(dir, m->name, err));
    PG_TRY(pg__str_add(dir, (const char *)extra, n, err));
done:
    return st;
}

/* 4.3.14 to 4.3.16: the end records, for a directory of n_dir bytes at dir_off. */
static pg_status add_end(pg__str *dir, size_t n, uint64_t dir_off, uint64_t n_dir, pg_err *err)
{
    unsigned char end64[56] = "PK\6\6", locator[20] = "PK\6\7", end[22] = "PK\5\6";
    pg_status st = PG_OK;
    if (n >= 0xFFFF || dir_off >= UINT32_MAX || n_dir >= UINT32_MAX) {
        pg__put_le(end64 + 4, sizeof end64 - 12, 8);
        pg__put_le(end64 + 12, MADE_ON_UNIX | VERSION_ZIP64, 2);
        pg__put_le(end64 + 14, VERSION_ZIP64, 2);
        pg__put_le(end64 + 24, n, 8);
        pg__put_le(end64 + 32, n, 8);
        pg__put_le(end64 + 40, n_dir, 8);
        pg__put_le(end64 + 48, dir_off, 8);
        pg__put_le(locator + 8, dir_off + n_dir, 8);
        pg__put_le(locator + 16, 1, 4);
        PG_TRY(pg__str_add(dir, (const char *)end64, sizeof end64, err));
        PG_TRY(pg__str_add(dir, (const char *)locator, sizeof locator, err));
    }
    pg__put_le(end + 8, n < 0xFFFF ? n : 0xFFFF, 2);
    pg__put_le(end + 10, n < 0xFFFF ? n : 0xFFFF, 2);
    pg__put_le(end + 12, low32(n_dir), 4);
    pg__put_le(end + 16, low32(dir_off), 4);
    PG_TRY(pg__str_add(dir, (const char *)end, sizeof end, err));
done:
    return st;
}

pg_status pg__zip_out_finish(pg__zip_out *z, pg_err *err)
{
    pg__str dir = {0};
    pg_status st = PG_OK;
    if (z->open)
        PG_FAIL(PG_E_ARG, "a member was begun and not ended");
    for (size_t i = 0; i < z->n; i++)
        PG_TRY(add_entry(&dir, &z->members[i], err));
    PG_TRY(add_end(&dir, z->n, z->end, dir.n, err));
    PG_TRY(pg__sink_write(z->sink, z->end, dir.s, dir.n, err));
    z->end += dir.n;
done:
    pg__str_fini(&dir);
    return st;
}
