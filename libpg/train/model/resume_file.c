/* resume_file.c - see resume_file.h for the format. */
#include "train/model/resume_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "io/folder.h"
#include "io/sink.h"

#define HEAD  24u
#define ENTRY 40u
#define NAME  16u
#define CHUNK (256u << 10)

static const char magic[] = "PGRESUME";

/* ---- writing ---- */

/* Everything before the parts' bytes. */
static pg_status make_head(pg__str *out, const pg__part *parts, const uint32_t *crcs, size_t n,
                           pg_err *err)
{
    const uint64_t n_head = HEAD + n * ENTRY + 4;
    uint64_t off = n_head;
    unsigned char raw[ENTRY];
    pg_status st = PG_OK;
    for (size_t i = 0; i < n; i++)
        off += parts[i].n_bytes;
    memcpy(raw, magic, 8);
    pg__put_le(raw + 8, 1, 4);
    pg__put_le(raw + 12, n, 4);
    pg__put_le(raw + 16, off, 8);
    PG_TRY(pg__str_add(out, (const char *)raw, HEAD, err));
    off = n_head;
    for (size_t i = 0; i < n; i++) {
        memcpy(raw, parts[i].name, NAME);
        pg__put_le(raw + 16, off, 8);
        pg__put_le(raw + 24, parts[i].n_bytes, 8);
        pg__put_le(raw + 32, crcs[i], 4);
        pg__put_le(raw + 36, 0, 4);
        PG_TRY(pg__str_add(out, (const char *)raw, ENTRY, err));
        off += parts[i].n_bytes;
    }
    pg__put_le(raw, pg__crc32(0, out->s, out->n), 4);
    PG_TRY(pg__str_add(out, (const char *)raw, 4, err));
done:
    return st;
}

/* Gives the existing file a second name, so that at every moment a complete file has one of the
 * two. If a file cannot have two names, it is renamed; the target of a symbolic link is not. */
static pg_status keep_older(const char *path, pg_err *err)
{
    pg__str older = {0};
    struct stat sb;
    const pg_status st = pg__str_printf(&older, err, "%s.1", path);
    if (st != PG_OK)
        return st;
    if (lstat(path, &sb) == 0) {
        (void)unlink(older.s);
        if (linkat(AT_FDCWD, path, AT_FDCWD, older.s, AT_SYMLINK_FOLLOW) != 0 &&
            S_ISREG(sb.st_mode))
            (void)rename(path, older.s);
    }
    pg__str_fini(&older);
    return PG_OK;
}

/* The state of a completed run need not be kept. */
static int is_over(const char *path)
{
    pg__resume_file f = {.io = NULL};
    const int over = pg__resume_file_open(&f, path, NULL) == PG_OK &&
                     pg__resume_file_bytes(&f, PG_RESUME_OVER) > 0;
    pg__resume_file_close(&f);
    return over;
}

/* path.before, path.before.2, ...: the first that is free, or the last. */
static pg_status free_name(pg__str *out, const char *path, pg_err *err)
{
    enum { MOST = 9 };
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(out, err, "%s.before", path));
    for (int k = 2; k <= MOST && access(out->s, F_OK) == 0; k++) {
        out->n = 0;
        PG_TRY(pg__str_printf(out, err, "%s.before.%d", path, k));
    }
done:
    return st;
}

static pg_status move_aside(const char *path, const char *other, pg_err *err)
{
    struct stat sb;
    if (lstat(path, &sb) == 0 && S_ISLNK(sb.st_mode)) { /* the link stays; its target gets a name */
        (void)unlink(other);
        if (linkat(AT_FDCWD, path, AT_FDCWD, other, AT_SYMLINK_FOLLOW) == 0)
            return PG_OK;
    } else if (rename(path, other) == 0) {
        return PG_OK;
    }
    return pg_fail_sys(err, PG_E_IO, errno, "%s: cannot be set aside as %s", PG_SHOW(path),
                       PG_SHOW(other));
}

pg_status pg__resume_file_set_aside(const char *path, char **moved, pg_err *err)
{
    pg__str other = {0};
    pg_status st = PG_OK;
    if (access(path, F_OK) == 0 && !is_over(path)) {
        PG_TRY(free_name(&other, path, err));
        PG_TRY(move_aside(path, other.s, err));
        *moved = other.s;
        other = (pg__str){0};
    }
    PG_TRY(pg__str_printf(&other, err, "%s.1", path));
    (void)unlink(other.s);
done:
    pg__str_fini(&other);
    return st;
}

pg_status pg__resume_file_check(const char *path, pg_err *err)
{
    char head[8];
    struct stat sb;
    FILE *f;
    if (stat(path, &sb) != 0 && lstat(path, &sb) != 0)
        return PG_OK;
    if (S_ISLNK(sb.st_mode))
        return pg_fail(err, PG_E_ARG, "%s: is a symbolic link to a missing file; remove it",
                       PG_SHOW(path));
    f = S_ISREG(sb.st_mode) ? fopen(path, "re") : NULL;
    const size_t n = f ? fread(head, 1, sizeof head, f) : 0;
    if (f)
        fclose(f);
    if (n == 0 && S_ISREG(sb.st_mode)) /* empty or unreadable: written anew */
        return PG_OK;
    if (n == sizeof head && memcmp(head, magic, n) == 0)
        return PG_OK;
    (void)pg_fail(err, PG_E_ARG, "%s: exists and is not a resume file", PG_SHOW(path));
    pg_err_do(err, PG_DO_START_AFRESH, NULL);
    pg_err_arg(err, "elsewhere", "true");
    return PG_E_ARG;
}

static pg_status write_part(pg__sink *sink, uint64_t off, const pg__part *p, uint32_t *crc,
                            pg_err *err)
{
    char *buf = NULL;
    pg_status st = PG_OK;
    *crc = 0;
    if (p->data) {
        *crc = pg__crc32(0, p->data, (size_t)p->n_bytes);
        return pg__sink_write(sink, off, p->data, (size_t)p->n_bytes, err);
    }
    buf = pg__mem_array(CHUNK, 1);
    if (!buf)
        return pg__nomem(err);
    for (uint64_t at = 0; at < p->n_bytes; at += CHUNK) {
        const size_t some = (size_t)(p->n_bytes - at < CHUNK ? p->n_bytes - at : CHUNK);
        PG_TRY(p->read(p->ctx, at, buf, some, err));
        *crc = pg__crc32(*crc, buf, some);
        PG_TRY(pg__sink_write(sink, off + at, buf, some, err));
    }
done:
    pg__mem_free(buf);
    return st;
}

pg_status pg__resume_file_write(const char *path, const pg__part *parts, size_t n, pg_err *err)
{
    const pg__sink_opts opts = {.force = 1};
    uint32_t crcs[PG_RESUME_PARTS];
    pg__sink *sink = NULL;
    pg__str head = {0};
    uint64_t off = HEAD + n * ENTRY + 4;
    pg_status st = PG_OK;
    PG_TRY(pg__folder_make_for(path, err));
    PG_TRY(pg__sink_open(&sink, path, &opts, err));
    for (size_t i = 0; i < n; i++) {
        PG_TRY(write_part(sink, off, &parts[i], &crcs[i], err));
        off += parts[i].n_bytes;
    }
    PG_TRY(make_head(&head, parts, crcs, n, err));
    PG_TRY(pg__sink_write(sink, 0, head.s, head.n, err));
    PG_TRY(keep_older(path, err));
    PG_TRY(pg__sink_commit(sink, err));
done:
    pg__sink_close(sink);
    pg__str_fini(&head);
    return st;
}

/* ---- reading ---- */

static pg_status read_entry(pg__resume_file *f, const unsigned char *raw, uint64_t n_head,
                            pg_err *err)
{
    const uint64_t off = pg__le64(raw + 16), n = pg__le64(raw + 24), size = pg__io_size(f->io);
    if (off < n_head || off > size || n > size - off)
        return pg_fail(err, PG_E_FORMAT, "part %zu lies outside of the file", f->n_parts + 1);
    memcpy(f->parts[f->n_parts].name, raw, NAME);
    f->parts[f->n_parts].off = off;
    f->parts[f->n_parts].n_bytes = n;
    f->parts[f->n_parts].crc = pg__le32(raw + 32);
    f->n_parts++;
    return PG_OK;
}

static pg_status read_head(pg__resume_file *f, pg_err *err)
{
    unsigned char raw[HEAD + PG_RESUME_PARTS * ENTRY + 4];
    const uint64_t size = pg__io_size(f->io);
    size_t n, n_head;
    pg_status st = PG_OK;
    if (size < HEAD)
        PG_FAIL(PG_E_FORMAT, "too short for a resume file");
    PG_TRY(pg__io_read(f->io, 0, raw, HEAD, err));
    if (memcmp(raw, magic, 8) != 0)
        PG_FAIL(PG_E_FORMAT, "not a resume file");
    if (pg__le32(raw + 8) != 1)
        PG_FAIL(PG_E_UNSUPPORTED, "resume file of version %u; this libpg reads version 1",
                (unsigned)pg__le32(raw + 8));
    n = pg__le32(raw + 12);
    if (n > PG_RESUME_PARTS)
        PG_FAIL(PG_E_FORMAT, "%zu parts", n);
    if (pg__le64(raw + 16) != size)
        PG_FAIL(PG_E_FORMAT, "%s bytes long, %s are missing or too many", PG_NUM(size),
                PG_NUM(size > pg__le64(raw + 16) ? size - pg__le64(raw + 16)
                                                 : pg__le64(raw + 16) - size));
    n_head = HEAD + n * ENTRY + 4;
    if (size < n_head)
        PG_FAIL(PG_E_FORMAT, "too short for its %zu parts", n);
    PG_TRY(pg__io_read(f->io, HEAD, raw + HEAD, n_head - HEAD, err));
    if (pg__crc32(0, raw, n_head - 4) != pg__le32(raw + n_head - 4))
        PG_FAIL(PG_E_FORMAT, "its header is damaged");
    for (size_t i = 0; i < n; i++)
        PG_TRY(read_entry(f, raw + HEAD + i * ENTRY, n_head, err));
done:
    return st;
}

static pg_status check_parts(const pg__resume_file *f, pg_err *err)
{
    const uint64_t size = pg__io_size(f->io);
    unsigned char *buf = pg__mem_array(size < CHUNK ? (size_t)size : CHUNK, 1);
    pg_status st = PG_OK;
    if (!buf)
        return pg__nomem(err);
    for (size_t i = 0; i < f->n_parts; i++) {
        uint32_t crc = 0;
        for (uint64_t at = 0; at < f->parts[i].n_bytes;) {
            const uint64_t left = f->parts[i].n_bytes - at;
            const size_t n = left < CHUNK ? (size_t)left : CHUNK;
            PG_TRY(pg__io_read(f->io, f->parts[i].off + at, buf, n, err));
            crc = pg__crc32(crc, buf, n);
            at += n;
        }
        if (crc != f->parts[i].crc && strcmp(f->parts[i].name, PG_RESUME_OUTPUT) != 0)
            PG_FAIL(PG_E_FORMAT, "its part %s is damaged", PG_SHOW(f->parts[i].name));
    }
done:
    pg__mem_free(buf);
    return st;
}

pg_status pg__resume_file_open_io(pg__resume_file *out, pg__io *io, pg_err *err)
{
    pg__resume_file f = {.io = pg__io_ref(io)};
    pg_status st = read_head(&f, err);
    if (st == PG_OK)
        st = check_parts(&f, err);
    if (st == PG_OK)
        *out = f;
    else
        pg__resume_file_close(&f);
    return st;
}

pg_status pg__resume_file_open(pg__resume_file *out, const char *path, pg_err *err)
{
    pg__io *io = NULL;
    pg_status st = pg__io_open(&io, path, err);
    if (st != PG_OK)
        return st;
    st = pg__resume_file_open_io(out, io, err);
    pg__io_close(io);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(path));
    return st;
}

void pg__resume_file_close(pg__resume_file *f)
{
    pg__io_close(f->io);
    *f = (pg__resume_file){.io = NULL};
}

static size_t find(const pg__resume_file *f, const char *name)
{
    size_t i = 0;
    while (i < f->n_parts && strcmp(f->parts[i].name, name) != 0)
        i++;
    return i;
}

pg_status pg__resume_file_find(const char *path, const char *name, uint64_t *off, uint64_t *n)
{
    pg__resume_file f = {.io = NULL};
    pg_status st = pg__io_open(&f.io, path, NULL);
    if (st == PG_OK)
        st = read_head(&f, NULL);
    const size_t i = find(&f, name);
    if (st == PG_OK && i == f.n_parts)
        st = PG_E_FORMAT;
    if (st == PG_OK) {
        *off = f.parts[i].off;
        *n = f.parts[i].n_bytes;
    }
    pg__resume_file_close(&f);
    return st;
}

uint64_t pg__resume_file_bytes(const pg__resume_file *f, const char *name)
{
    const size_t i = find(f, name);
    return i < f->n_parts ? f->parts[i].n_bytes : 0;
}

pg_status pg__resume_file_read(const pg__resume_file *f, const char *name, uint64_t off, void *buf,
                               size_t n, pg_err *err)
{
    const size_t i = find(f, name);
    if (i == f->n_parts || off > f->parts[i].n_bytes || n > f->parts[i].n_bytes - off)
        return pg_fail(err, PG_E_FORMAT, "its part %s is too short", name);
    return pg__io_read(f->io, f->parts[i].off + off, buf, n, err);
}

pg_status pg__resume_file_text(const pg__resume_file *f, const char *name, char **out, size_t *n,
                               pg_err *err)
{
    const uint64_t n_bytes = pg__resume_file_bytes(f, name);
    char *text = n_bytes < SIZE_MAX ? pg__mem_array((size_t)n_bytes + 1, 1) : NULL;
    if (!text)
        return pg__nomem(err);
    const pg_status st = pg__resume_file_read(f, name, 0, text, (size_t)n_bytes, err);
    if (st != PG_OK) {
        pg__mem_free(text);
        return st;
    }
    *out = text;
    *n = (size_t)n_bytes;
    return PG_OK;
}
