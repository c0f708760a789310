/* zip.c - members of a ZIP archive. zip_dir.c has found and vetted them. Stored ones are read in
 * place; deflated ones through libzip, which must see the same archive as we do: its number of
 * members, and name, sizes, method and CRC of the member that is read, are compared with ours. */
#include "io/zip.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "io/scratch.h"
#include "io/zip_dir.h"

/* How far a member's bytes are known to match its CRC. */
typedef struct progress {
    uint64_t at; /* read in order so far */
    uint32_t crc;
    int checked;
} progress;

#define MAX_GAP 4096u

struct pg__zip {
    pg__io *io;
    pg__zip_dir dir;
    progress *progress; /* by member, made with the first pg__zip_read() */
    pg__io *unpacked;   /* the deflated member read last */
    size_t unpacked_i;
    zip_t *lib;        /* opened with the first deflated member */
    zip_error_t error; /* of the source below */
    uint64_t pos;
    pg_err read_err; /* why the source failed, because libzip keeps only a number */
};

pg_status pg__zip_open(pg__zip **out, pg__io *io, pg_err *err)
{
    pg__zip *z = pg__mem_array(1, sizeof *z);
    if (!z)
        return pg__nomem(err);
    const pg_status st = pg__zip_dir_read(&z->dir, io, err);
    if (st != PG_OK) {
        pg__mem_free(z);
        return st;
    }
    z->io = pg__io_ref(io);
    zip_error_init(&z->error);
    *out = z;
    return PG_OK;
}

void pg__zip_close(pg__zip *z)
{
    if (!z)
        return;
    if (z->lib)
        zip_discard(z->lib);
    zip_error_fini(&z->error);
    pg__io_close(z->unpacked);
    pg__mem_free(z->progress);
    pg__zip_dir_fini(&z->dir);
    pg__io_close(z->io);
    pg__mem_free(z);
}

size_t pg__zip_n(const pg__zip *z)
{
    return z->dir.n;
}

const pg__zip_member *pg__zip_at(const pg__zip *z, size_t i)
{
    return i < z->dir.n ? &z->dir.members[i] : NULL;
}

size_t pg__zip_find(const pg__zip *z, const char *name)
{
    size_t lo = 0, hi = z->dir.n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2, i = z->dir.by_name[mid];
        const int c = strcmp(name, z->dir.members[i].name);
        if (c == 0)
            return i;
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return SIZE_MAX;
}

/* --- libzip over a pg__io -------------------------------------------------------------------- */

static zip_int64_t source_read(pg__zip *z, void *data, zip_uint64_t len)
{
    const uint64_t left = pg__io_size(z->io) - z->pos;
    const size_t n = (size_t)(len < left ? len : left);
    if (pg__io_read(z->io, z->pos, data, n, &z->read_err) != PG_OK) {
        zip_error_set(&z->error, ZIP_ER_READ, z->read_err.sys);
        return -1;
    }
    z->pos += n;
    return (zip_int64_t)n;
}

static zip_int64_t source_stat(pg__zip *z, void *data)
{
    zip_stat_t *sb = data;
    zip_stat_init(sb);
    sb->valid = ZIP_STAT_SIZE;
    sb->size = pg__io_size(z->io);
    return (zip_int64_t)sizeof *sb;
}

static zip_int64_t source(void *ctx, void *data, zip_uint64_t len, zip_source_cmd_t cmd)
{
    pg__zip *z = ctx;
    zip_int64_t to;
    switch (cmd) {
    case ZIP_SOURCE_OPEN: z->pos = 0; return 0;
    case ZIP_SOURCE_READ: return source_read(z, data, len);
    case ZIP_SOURCE_STAT: return source_stat(z, data);
    case ZIP_SOURCE_TELL: return (zip_int64_t)z->pos;
    case ZIP_SOURCE_SEEK:
        to = zip_source_seek_compute_offset(z->pos, pg__io_size(z->io), data, len, &z->error);
        if (to < 0)
            return -1;
        z->pos = (uint64_t)to;
        return 0;
    case ZIP_SOURCE_ERROR: return zip_error_to_data(&z->error, data, len);
    case ZIP_SOURCE_SUPPORTS: return ZIP_SOURCE_SUPPORTS_SEEKABLE;
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE: return 0;
    default: zip_error_set(&z->error, ZIP_ER_OPNOTSUPP, 0); return -1;
    }
}

/* libzip's reason, or ours if reading failed. */
static pg_status fail_libzip(pg__zip *z, zip_error_t *e, const pg__zip_member *m, pg_err *err)
{
    const int code = zip_error_code_zip(e);
    if (z->read_err.code != PG_OK)
        return pg_fail(err, z->read_err.code, "%s: %s", PG_SHOW(m->name), z->read_err.msg);
    if (code == ZIP_ER_MEMORY)
        return pg__nomem(err);
    if (code == ZIP_ER_CRC)
        return pg_fail(err, PG_E_FORMAT, "%s: CRC mismatch, the data is damaged", PG_SHOW(m->name));
    return pg_fail(err, PG_E_FORMAT, "%s: compressed data is damaged (%s)", PG_SHOW(m->name),
                   zip_error_strerror(e));
}

static pg_status open_libzip(pg__zip *z, const pg__zip_member *m, pg_err *err)
{
    zip_error_t e;
    pg_status st = PG_OK;
    if (z->lib)
        return PG_OK;
    zip_error_init(&e);
    zip_source_t *src = zip_source_function_create(source, z, &e);
    z->lib = src ? zip_open_from_source(src, ZIP_RDONLY, &e) : NULL;
    if (!z->lib) {
        st = fail_libzip(z, &e, m, err);
        if (src)
            zip_source_free(src);
    }
    zip_error_fini(&e);
    return st;
}

/* Opens member i in libzip, if libzip agrees with us about that member. */
static pg_status open_deflated(zip_file_t **out, pg__zip *z, size_t i, pg_err *err)
{
    const pg__zip_member *m = &z->dir.members[i];
    zip_stat_t sb;
    zip_stat_init(&sb);
    z->read_err = (pg_err){0};
    const pg_status st = open_libzip(z, m, err);
    if (st != PG_OK)
        return st;
    if (zip_get_num_entries(z->lib, 0) != (zip_int64_t)z->dir.n ||
        zip_stat_index(z->lib, i, ZIP_FL_ENC_RAW, &sb) != 0 || !sb.name ||
        strcmp(sb.name, m->name) != 0 || sb.size != m->n || sb.comp_size != m->n_stored ||
        sb.comp_method != ZIP_CM_DEFLATE || sb.crc != m->crc32)
        return pg_fail(err, PG_E_FORMAT, "%s: libzip sees another member here", PG_SHOW(m->name));
    *out = zip_fopen_index(z->lib, i, 0);
    return *out ? PG_OK : fail_libzip(z, zip_get_error(z->lib), m, err);
}

/* Reads exactly n bytes. */
static pg_status inflate_some(pg__zip *z, zip_file_t *f, const pg__zip_member *m, char *buf,
                              size_t n, pg_err *err)
{
    while (n) {
        const zip_int64_t k = zip_fread(f, buf, n);
        if (k < 0)
            return fail_libzip(z, zip_file_get_error(f), m, err);
        if (k == 0)
            return pg_fail(err, PG_E_FORMAT, "%s: expands to less than its %" PRIu64 " bytes",
                           PG_SHOW(m->name), m->n);
        buf += k;
        n -= (size_t)k;
    }
    return PG_OK;
}

/* After the last byte: checks that no other follows, which also makes libzip check size and CRC. */
static pg_status inflate_end(pg__zip *z, zip_file_t *f, const pg__zip_member *m, pg_err *err)
{
    char more;
    const zip_int64_t k = zip_fread(f, &more, 1);
    if (k < 0)
        return fail_libzip(z, zip_file_get_error(f), m, err);
    if (k > 0)
        return pg_fail(err, PG_E_LIMIT, "%s: expands to more than its %" PRIu64 " bytes",
                       PG_SHOW(m->name), m->n);
    return PG_OK;
}

/* --- members --------------------------------------------------------------------------------- */

static pg_status check_crc(const pg__zip_member *m, uint32_t crc, pg_err *err)
{
    if (crc == m->crc32)
        return PG_OK;
    return pg_fail(err, PG_E_FORMAT,
                   "%s: CRC mismatch (%08" PRIx32 ", the archive says %08" PRIx32
                   "), the data is damaged",
                   PG_SHOW(m->name), crc, m->crc32);
}

/* Reads a whole member into buf, which holds m->n bytes. */
static pg_status load(pg__zip *z, size_t i, char *buf, pg_err *err)
{
    const pg__zip_member *m = &z->dir.members[i];
    zip_file_t *f = NULL;
    pg_status st = PG_OK;
    if (!m->deflated) {
        PG_TRY(pg__io_read(z->io, m->data_off, buf, (size_t)m->n, err));
    } else {
        PG_TRY(open_deflated(&f, z, i, err));
        PG_TRY(inflate_some(z, f, m, buf, (size_t)m->n, err));
        PG_TRY(inflate_end(z, f, m, err));
    }
    PG_TRY(check_crc(m, pg__crc32(0, buf, (size_t)m->n), err));
done:
    if (f)
        zip_fclose(f);
    return st;
}

pg_status pg__zip_load(pg__zip *z, size_t i, uint64_t limit, char **out, size_t *n, pg_err *err)
{
    const pg__zip_member *m = &z->dir.members[i];
    if (m->n > limit || m->n >= SIZE_MAX)
        return pg_fail(err, PG_E_LIMIT, "%s: %" PRIu64 " bytes, at most %" PRIu64 " are read",
                       PG_SHOW(m->name), m->n, limit);
    char *buf = pg__mem_array((size_t)m->n + 1, 1);
    if (!buf)
        return pg__nomem(err);
    const pg_status st = load(z, i, buf, err);
    if (st != PG_OK) {
        pg__mem_free(buf);
        return st;
    }
    *out = buf;
    if (n)
        *n = (size_t)m->n;
    return PG_OK;
}

/* Size of a buffer for reading a member in order: most members are small. */
static size_t piece_of(const pg__zip_member *m)
{
    return m->n < PG_COPY_BYTES ? (size_t)m->n : PG_COPY_BYTES;
}

static pg_status unpack(pg__zip *z, size_t i, pg__io **out, pg_err *err)
{
    const pg__zip_member *m = &z->dir.members[i];
    const char *where = NULL;
    zip_file_t *f = NULL;
    int fd = -1;
    uint32_t crc = 0;
    pg_status st = PG_OK;
    const size_t piece = piece_of(m);
    char *buf = pg__mem_array(piece, 1);
    if (!buf)
        return pg__nomem(err);
    PG_TRY(open_deflated(&f, z, i, err));
    PG_TRY(pg__scratch_open(&fd, &where, err));
    for (uint64_t left = m->n; left;) {
        const size_t n = left < piece ? (size_t)left : piece;
        PG_TRY(inflate_some(z, f, m, buf, n, err));
        crc = pg__crc32(crc, buf, n);
        if (pg__scratch_write(fd, buf, n) != PG_OK) {
            st = pg_fail_sys(err, PG_E_IO, errno, "%s: cannot unpack to %s", PG_SHOW(m->name),
                             PG_SHOW(where));
            goto done;
        }
        left -= n;
    }
    PG_TRY(inflate_end(z, f, m, err));
    PG_TRY(check_crc(m, crc, err));
    st = pg__io_open_fd(out, fd, pg__io_name(z->io), err);
    fd = -1;
done:
    if (f)
        zip_fclose(f);
    if (fd >= 0)
        close(fd);
    pg__mem_free(buf);
    return st;
}

static pg_status check_stored(pg__zip *z, const pg__zip_member *m, pg_err *err)
{
    uint32_t crc = 0;
    pg_status st = PG_OK;
    const size_t piece = piece_of(m);
    char *buf = pg__mem_array(piece, 1);
    if (!buf)
        return pg__nomem(err);
    for (uint64_t off = 0; off < m->n;) {
        const size_t n = m->n - off < piece ? (size_t)(m->n - off) : piece;
        PG_TRY(pg__io_read(z->io, m->data_off + off, buf, n, err));
        crc = pg__crc32(crc, buf, n);
        off += n;
    }
    PG_TRY(check_crc(m, crc, err));
done:
    pg__mem_free(buf);
    return st;
}

pg_status pg__zip_open_member(pg__zip *z, size_t i, pg__io **out, pg_err *err)
{
    const pg__zip_member *m = &z->dir.members[i];
    if (m->deflated)
        return unpack(z, i, out, err);
    const pg_status st = check_stored(z, m, err);
    return st == PG_OK ? pg__io_open_window(out, z->io, m->data_off, m->n, err) : st;
}

/* --- parts of members ------------------------------------------------------------------------ */

pg_status pg__zip_peek(pg__zip *z, size_t i, void *buf, size_t n, pg_err *err)
{
    const pg__zip_member *m = &z->dir.members[i];
    zip_file_t *f = NULL;
    pg_status st = PG_OK;
    if (n > m->n)
        return pg_fail(err, PG_E_FORMAT, "%s: has %" PRIu64 " bytes only", PG_SHOW(m->name), m->n);
    if (!m->deflated)
        return pg__io_read(z->io, m->data_off, buf, n, err);
    PG_TRY(open_deflated(&f, z, i, err));
    PG_TRY(inflate_some(z, f, m, buf, n, err));
done:
    if (f)
        zip_fclose(f);
    return st;
}

static pg_status read_unpacked(pg__zip *z, size_t i, uint64_t off, void *buf, size_t n, pg_err *err)
{
    if (!z->unpacked || z->unpacked_i != i) {
        pg__io_close(z->unpacked);
        z->unpacked = NULL;
        const pg_status st = unpack(z, i, &z->unpacked, err);
        if (st != PG_OK)
            return st;
        z->unpacked_i = i;
    }
    return pg__io_read(z->unpacked, off, buf, n, err);
}

/* Skips bytes that a reader in order leaves out, such as the header of an .npy. */
static pg_status read_gap(pg__zip *z, size_t i, uint64_t off, pg_err *err)
{
    progress *p = &z->progress[i];
    unsigned char gap[MAX_GAP];
    if (off <= p->at || off - p->at > sizeof gap)
        return PG_OK;
    const size_t n = (size_t)(off - p->at);
    const pg_status st = pg__io_read(z->io, z->dir.members[i].data_off + p->at, gap, n, err);
    if (st == PG_OK) {
        p->crc = pg__crc32(p->crc, gap, n);
        p->at = off;
    }
    return st;
}

pg_status pg__zip_read(pg__zip *z, size_t i, uint64_t off, void *buf, size_t n, pg_err *err)
{
    const pg__zip_member *m = &z->dir.members[i];
    pg_status st = PG_OK;
    if (off > m->n || n > m->n - off)
        return pg_fail(err, PG_E_FORMAT, "%s: has %" PRIu64 " bytes only", PG_SHOW(m->name), m->n);
    if (m->deflated)
        return read_unpacked(z, i, off, buf, n, err);
    if (!z->progress && !(z->progress = pg__mem_array(z->dir.n, sizeof *z->progress)))
        return pg__nomem(err);
    progress *p = &z->progress[i];
    if (!p->checked)
        PG_TRY(read_gap(z, i, off, err));
    if (!p->checked && off != p->at) {
        PG_TRY(check_stored(z, m, err));
        p->checked = 1;
    }
    PG_TRY(pg__io_read(z->io, m->data_off + off, buf, n, err));
    if (p->checked)
        goto done;
    p->crc = pg__crc32(p->crc, buf, n);
    p->at += n;
    if (p->at == m->n) {
        PG_TRY(check_crc(m, p->crc, err));
        p->checked = 1;
    }
done:
    return st;
}
