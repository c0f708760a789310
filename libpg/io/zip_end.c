/* zip_end.c - finding a ZIP archive's directory (APPNOTE 4.3.14 to 4.3.16).
 *
 * Readers search for the end record in different ways, so two of them can see two archives in one
 * file. Here exactly one record may end with the file, its comment must not hold a second one, and
 * the directory must end where the records begin. */
#include <inttypes.h>
#include <string.h>

#include "base/bsd.h"
#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "io/zip_dir.h"

#define END_BYTES       22u
#define LOCATOR_BYTES   20u
#define END64_BYTES     56u
#define MAX_COMMENT     65535u
#define ENTRY_MIN_BYTES 46u

static pg_status fail_parts(pg_err *err)
{
    return pg_fail(err, PG_E_UNSUPPORTED, "ZIP archive in several parts");
}

static pg_status truncated(pg_err *err)
{
    (void)pg_fail(err, PG_E_FORMAT, "truncated ZIP archive: the directory at its end is missing");
    pg_err_hint(err, "download or copy it again; the rest cannot be reconstructed");
    return PG_E_FORMAT;
}

/* 4.3.16: finds the end record in the last bytes of the file, which are in `tail`. */
static pg_status find_end(size_t *at, const unsigned char *tail, size_t n, pg_err *err)
{
    size_t found = SIZE_MAX, last = SIZE_MAX, n_found = 0;
    const unsigned char *p = tail;
    while ((p = memmem(p, n - (size_t)(p - tail), "PK\5\6", 4))) {
        const size_t i = (size_t)(p++ - tail);
        if (n - i < END_BYTES)
            break;
        last = i;
        if (i + END_BYTES + pg__le16(tail + i + 20) == n)
            found = i, n_found++;
    }
    if (last == SIZE_MAX)
        return truncated(err);
    if (n_found == 0)
        return pg_fail(err, PG_E_FORMAT, "ZIP archive with other bytes after its end record");
    if (n_found > 1 || last != found)
        return pg_fail(err, PG_E_FORMAT, "ZIP archive with two end records");
    *at = found;
    return PG_OK;
}

/* 4.3.14, 4.3.15: the larger numbers of an archive that needs them. loc is the locator, which lies
 * at byte loc_off of the file. */
static pg_status read_end64(pg__zip_end *e, uint64_t *end_off, pg__io *io, uint64_t loc_off,
                            const unsigned char *loc, pg_err *err)
{
    unsigned char r[END64_BYTES];
    pg_status st = PG_OK;
    const uint64_t off = pg__le64(loc + 8);
    if (pg__le32(loc + 4) != 0 || pg__le32(loc + 16) > 1)
        return fail_parts(err);
    if (off > loc_off || loc_off - off < END64_BYTES)
        PG_FAIL(PG_E_FORMAT, "ZIP archive: the zip64 locator points outside");
    PG_TRY(pg__io_read(io, off, r, sizeof r, err));
    if (memcmp(r, "PK\6\6", 4) != 0 || pg__le64(r + 4) != loc_off - off - 12)
        PG_FAIL(PG_E_FORMAT, "ZIP archive: the zip64 end record is damaged");
    if (pg__le32(r + 16) != 0 || pg__le32(r + 20) != 0 || pg__le64(r + 24) != pg__le64(r + 32))
        return fail_parts(err);
    const uint64_t n = pg__le64(r + 32), n_bytes = pg__le64(r + 40), dir = pg__le64(r + 48);
    if ((e->n != 0xFFFF && e->n != n) || (e->n_bytes != UINT32_MAX && e->n_bytes != n_bytes) ||
        (e->off != UINT32_MAX && e->off != dir))
        PG_FAIL(PG_E_FORMAT, "ZIP archive: its two end records disagree");
    *e = (pg__zip_end){.n = n, .n_bytes = n_bytes, .off = dir};
    *end_off = off;
done:
    return st;
}

static pg_status check_end(const pg__zip_end *e, uint64_t end_off, pg_err *err)
{
    uint64_t dir_end;
    if (e->n > PG_LIMIT_ZIP_MEMBERS)
        return pg_fail(err, PG_E_LIMIT, "ZIP archive with %" PRIu64 " members, at most %u are read",
                       e->n, PG_LIMIT_ZIP_MEMBERS);
    if (e->n_bytes > PG_LIMIT_ZIP_DIR_BYTES)
        return pg_fail(err, PG_E_LIMIT, "ZIP archive with a directory of %" PRIu64 " bytes",
                       e->n_bytes);
    if (__builtin_add_overflow(e->off, e->n_bytes, &dir_end) || dir_end != end_off)
        return pg_fail(err, PG_E_FORMAT,
                       "ZIP archive: its directory of %" PRIu64 " bytes at byte %" PRIu64
                       " does not end where its end record begins (byte %" PRIu64 ")",
                       e->n_bytes, e->off, end_off);
    if (e->n > e->n_bytes / ENTRY_MIN_BYTES)
        return pg_fail(err, PG_E_FORMAT,
                       "ZIP archive: %" PRIu64 " members do not fit its directory of %" PRIu64
                       " bytes",
                       e->n, e->n_bytes);
    return PG_OK;
}

pg_status pg__zip_end_read(pg__zip_end *out, pg__io *io, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t size = pg__io_size(io), want = LOCATOR_BYTES + END_BYTES + MAX_COMMENT;
    const size_t n = (size_t)(size < want ? size : want);
    size_t at = 0;
    unsigned char *tail = pg__mem_array(n, 1);
    if (!tail)
        return pg__nomem(err);
    PG_TRY(pg__io_read(io, size - n, tail, n, err));
    PG_TRY(find_end(&at, tail, n, err));
    const unsigned char *r = tail + at;
    uint64_t end_off = size - n + at;
    pg__zip_end e = {.n = pg__le16(r + 10), .n_bytes = pg__le32(r + 12), .off = pg__le32(r + 16)};
    if (at >= LOCATOR_BYTES && memcmp(r - LOCATOR_BYTES, "PK\6\7", 4) == 0) {
        PG_TRY(read_end64(&e, &end_off, io, end_off - LOCATOR_BYTES, r - LOCATOR_BYTES, err));
    } else if (pg__le16(r + 4) != 0 || pg__le16(r + 6) != 0 ||
               pg__le16(r + 8) != pg__le16(r + 10)) {
        st = fail_parts(err);
        goto done;
    }
    PG_TRY(check_end(&e, end_off, err));
    *out = e;
done:
    pg__mem_free(tail);
    return st;
}
