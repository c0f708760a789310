/* shards.c - the files named by a manifest.
 *
 * A model may have more tensors than a process may have open files, so only one file is open at a
 * time; archives (shards_archive.c) stay open, because they are few. Names are opened below the
 * manifest's folder and never through a link. A header must agree with the manifest: if two files
 * are swapped, this shows before anything is written if shapes differ, and by the checksum if
 * not. */
#include "format/shards.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bsd.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/npy.h"
#include "format/shards_archive.h"

typedef struct archive {
    const char *path; /* of some piece */
    pg__archive *a;   /* NULL: missing or damaged */
    uint32_t crc;
    int reported; /* its contents are wrong, and a message says so */
} archive;

struct pg__shards {
    pg__manifest m;
    char *path;                /* of the manifest */
    int folder;                /* the archive that holds it; -1 before it is needed */
    unsigned char *big_endian; /* by tensor */
    uint64_t *data_off;        /* by piece: where the data begins in its file or member */
    archive *archives;
    size_t n_archives;
    size_t *archive_of; /* by piece; PG_NONE: a file of its own */
    uint32_t *want;     /* by piece: CRC-32 of its file or member */
    pg__archive_kind kind;
    int sums_of_files; /* members have none: pg__shards_check_archives() must do */
    size_t open_piece; /* the file that `io` is, or PG_NONE */
    pg__io *io;
    unsigned char *buf; /* PG_COPY_BYTES */
    pg__strs damages;
    size_t n_verified;
};

void pg__shard_faults_fini(pg__shard_faults *f)
{
    pg__strs_fini(&f->missing);
    pg__strs_fini(&f->damaged);
}

void pg__shards_close(pg__shards *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_archives; i++)
        pg__archive_close(s->archives[i].a);
    pg__mem_free(s->archive_of);
    pg__mem_free(s->want);
    pg__io_close(s->io);
    if (s->folder >= 0)
        close(s->folder);
    pg__manifest_fini(&s->m);
    pg__strs_fini(&s->damages);
    pg__mem_free(s->archives);
    pg__mem_free(s->path);
    pg__mem_free(s->big_endian);
    pg__mem_free(s->data_off);
    pg__mem_free(s->buf);
    pg__mem_free(s);
}

const pg__manifest *pg__shards_manifest(const pg__shards *s)
{
    return &s->m;
}

int pg__shards_big_endian(const pg__shards *s, size_t tensor)
{
    return s->big_endian[tensor];
}

size_t pg__shards_n_files(const pg__shards *s)
{
    return s->n_archives ? s->n_archives : s->m.n_pieces;
}

const pg__strs *pg__shards_damages(const pg__shards *s)
{
    return &s->damages;
}

size_t pg__shards_n_verified(const pg__shards *s)
{
    return s->n_verified;
}

/* ---- opening ---------------------------------------------------------------------------------
 */

static uint64_t piece_bytes(const pg__shard_tensor *t, const pg__piece *p)
{
    return t->rank == 0 ? t->n_bytes : t->dims[0] ? t->n_bytes / t->dims[0] * p->rows : 0;
}

static pg_status open_file(pg__io **out, pg__shards *s, const char *name, pg_err *err)
{
    const pg_status st = s->folder >= 0 ? PG_OK : pg__io_folder_of(&s->folder, s->path, name, err);
    return st == PG_OK ? pg__io_open_below(out, s->folder, name, err) : st;
}

/* The file of a piece, or the member of its archive, as an io; the caller closes it. what: of a
 * member; may be NULL. */
static pg_status open_piece(pg__io **out, pg__member *what, pg__shards *s, size_t piece,
                            pg_err *err)
{
    const pg__piece *p = &s->m.pieces[piece];
    return p->member
               ? pg__archive_member(out, what, s->archives[s->archive_of[piece]].a, p->member, err)
               : open_file(out, s, p->path, err);
}

static pg_status check_header(pg__shards *s, size_t tensor, size_t piece, const pg__npy *h,
                              pg_err *err)
{
    const pg__shard_tensor *t = &s->m.tensors[tensor];
    const pg__piece *p = &s->m.pieces[piece];
    uint64_t dims[PG_MAX_RANK];
    memcpy(dims, t->dims, sizeof dims);
    if (t->rank)
        dims[0] = p->rows;
    if (h->dtype != t->dtype)
        return pg_fail(err, PG_E_FORMAT, "holds %s, manifest has %s", pg_dtype_name(h->dtype),
                       pg_dtype_name(t->dtype));
    if (h->rank != t->rank || memcmp(h->dims, dims, t->rank * sizeof *dims) != 0)
        return pg_fail(err, PG_E_FORMAT, "its shape is not the manifest's");
    if (h->fortran_order && t->rank > 1)
        return pg_fail(err, PG_E_FORMAT, "in Fortran order, not in C order");
    if (piece > t->first && h->big_endian != s->big_endian[tensor] && pg_dtype_bytes(t->dtype) > 1)
        return pg_fail(err, PG_E_FORMAT, "its byte order is not that of the rows before it");
    s->big_endian[tensor] = (unsigned char)h->big_endian;
    s->data_off[piece] = h->data_off;
    return PG_OK;
}

/* Records a failure that is a file's fault; any other failure goes on to the caller. */
static pg_status note(pg__shard_faults *f, const pg__piece *p, pg_status st, const pg_err *e,
                      pg_err *err)
{
    const char *what = e->msg;
    const size_t n = strlen(p->path);
    const int missing = st == PG_E_IO && e->sys == ENOENT;
    if (st == PG_E_NOMEM || (st == PG_E_IO && !missing)) {
        if (err)
            *err = *e;
        return st;
    }
    if (strncmp(what, p->path, n) == 0 && strncmp(what + n, ": ", 2) == 0)
        what += n + 2;
    if (missing && !p->member)
        return pg__strs_printf(&f->missing, err, "%s", PG_SHOW(p->path));
    return pg__strs_printf(&f->damaged, err, "%s (%s)", PG_SHOW(p->path), what);
}

static pg_status look_at(pg__shards *s, size_t tensor, size_t piece, pg__shard_faults *f,
                         pg_err *err)
{
    pg__io *io = NULL;
    pg__member what = {0};
    pg_err e = {0};
    const pg__piece *p = &s->m.pieces[piece];
    if (p->member && !s->archives[s->archive_of[piece]].a)
        return PG_OK; /* noted */
    pg_status st = open_piece(&io, &what, s, piece, &e);
    if (st == PG_OK && !p->member)
        st = pg__npy_read_header(&what.head, io, &e);
    if (st == PG_OK)
        st = check_header(s, tensor, piece, &what.head, &e);
    s->want[piece] = p->member ? what.crc : p->crc;
    pg__io_close(io);
    if (st == PG_OK || (p->member && s->archives[s->archive_of[piece]].reported++))
        return PG_OK; /* a wrong archive is reported only once */
    return note(f, p, st, &e, err);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const archive *)a)->path, ((const archive *)b)->path);
}

static pg_status open_archive(pg__shards *s, archive *a, pg__shard_faults *f, pg_err *err)
{
    pg_err e = {0};
    pg__io *io = NULL;
    char *path = pg__mem_strdup(a->path); /* note() wants one that may change */
    const pg__piece file = {.path = path};
    if (!path)
        return pg__nomem(err);
    pg_status st = open_file(&io, s, a->path, &e);
    if (st == PG_OK)
        st = pg__archive_open(&a->a, io, s->kind, &e);
    pg__io_close(io);
    if (st != PG_OK)
        st = note(f, &file, st, &e, err);
    pg__mem_free(path);
    return st;
}

/* Opens every archive once, in the order of their names, and assigns them to the pieces. */
static pg_status open_archives(pg__shards *s, pg__shard_faults *f, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    for (size_t i = 0; i < s->m.n_pieces; i++)
        n += s->m.pieces[i].member != NULL;
    s->archives = pg__mem_array(n, sizeof *s->archives);
    s->archive_of = pg__mem_array(s->m.n_pieces, sizeof *s->archive_of);
    s->want = pg__mem_array(s->m.n_pieces, sizeof *s->want);
    s->kind = strcmp(s->m.format, "safetensors") == 0 ? PG_ARCHIVE_SAFETENSORS
              : strcmp(s->m.format, "keras") == 0     ? PG_ARCHIVE_H5
                                                      : PG_ARCHIVE_NPZ;
    s->sums_of_files = s->kind != PG_ARCHIVE_NPZ;
    if (!s->archives || !s->archive_of || !s->want)
        return pg__nomem(err);
    for (size_t i = 0; i < s->m.n_pieces; i++) {
        const pg__piece *p = &s->m.pieces[i];
        if (p->member && (i == 0 || strcmp(p->path, p[-1].path) != 0))
            s->archives[s->n_archives++] = (archive){.path = p->path, .crc = p->crc};
    }
    if (s->n_archives)
        qsort(s->archives, s->n_archives, sizeof *s->archives, by_path);
    n = s->n_archives;
    s->n_archives = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(s->archives[i].path, s->archives[s->n_archives - 1].path) != 0)
            s->archives[s->n_archives++] = s->archives[i];
    for (size_t i = 0; i < s->n_archives; i++)
        PG_TRY(open_archive(s, &s->archives[i], f, err));
    for (size_t i = 0; i < s->m.n_pieces; i++) {
        const archive key = {.path = s->m.pieces[i].path};
        const archive *a = s->m.pieces[i].member
                               ? bsearch(&key, s->archives, s->n_archives, sizeof key, by_path)
                               : NULL;
        s->archive_of[i] = a ? (size_t)(a - s->archives) : PG_NONE;
        if (a && a->crc != s->m.pieces[i].crc)
            PG_FAIL(PG_E_FORMAT, "%s: has two checksums", PG_SHOW(a->path));
    }
done:
    return st;
}

static pg_status look_at_all(pg__shards *s, pg__shard_faults *f, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(open_archives(s, f, err));
    for (size_t t = 0; t < s->m.n_tensors; t++)
        for (size_t i = 0; i < s->m.tensors[t].n; i++)
            PG_TRY(look_at(s, t, s->m.tensors[t].first + i, f, err));
done:
    return st;
}

/* Something is wrong already, so nothing will be copied: now reads the data of all other files, to
 * name everything that has to be fetched again in one error. */
static pg_status look_at_data(pg__shards *s, pg__shard_faults *f, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__shards_check_files(s, f->cancel, err));
    for (size_t i = 0; i < s->damages.n; i++)
        PG_TRY(pg__strs_add(&f->damaged, s->damages.v[i], strlen(s->damages.v[i]), err));
done:
    return st;
}

pg_status pg__shard_faults_report(const pg__shard_faults *f, size_t n_files, int details,
                                  pg_err *err)
{
    char text[96];
    if (f->missing.n == 0 && f->damaged.n == 0)
        return PG_OK;
    if (f->missing.n && f->damaged.n)
        (void)snprintf(text, sizeof text, "%zu of %zu shards missing, %zu damaged", f->missing.n,
                       n_files, f->damaged.n);
    else
        (void)snprintf(text, sizeof text, "%zu of %zu shards %s", f->missing.n + f->damaged.n,
                       n_files, f->missing.n ? "missing" : "damaged");
    (void)pg_fail(err, PG_E_FORMAT, "%s", text);
    for (size_t i = 0; details && i < f->missing.n; i++)
        pg_err_detail(err, "missing  %s", f->missing.v[i]);
    for (size_t i = 0; details && i < f->damaged.n; i++)
        pg_err_detail(err, "damaged  %s", f->damaged.v[i]);
    pg_err_hint(err, "copy these files again");
    return PG_E_FORMAT;
}

static pg_status load(pg__manifest *out, pg__io *io, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t n = pg__io_size(io);
    const char *slash = strrchr(path, '/');
    const int named = strcmp(slash ? slash + 1 : path, PG_MANIFEST) == 0;
    char *text = NULL;
    if (n > PG_LIMIT_MANIFEST_BYTES)
        return pg_fail(err, named ? PG_E_LIMIT : PG_E_UNKNOWN, "more than %llu MiB of JSON",
                       (unsigned long long)PG_LIMIT_MANIFEST_BYTES >> 20);
    text = pg__mem_array((size_t)n + 1, 1);
    if (!text)
        return pg__nomem(err);
    PG_TRY(pg__io_read(io, 0, text, (size_t)n, err));
    if (!named && !memmem(text, (size_t)n, "\"tensors\"", 9))
        PG_FAIL(PG_E_UNKNOWN, "JSON, but not the " PG_MANIFEST " of a split model");
    PG_TRY(pg__manifest_parse(out, text, (size_t)n, err));
done:
    pg__mem_free(text);
    return st;
}

pg_status pg__shards_open(pg__shards **out, pg__io *io, const char *path, const char *only,
                          pg__shard_faults *faults, pg_err *err)
{
    pg_status st = PG_OK;
    pg__shard_faults own = {0};
    pg__shards *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    s->open_piece = PG_NONE;
    s->folder = -1;
    PG_TRY(load(&s->m, io, path, err));
    if (only)
        pg__manifest_select(&s->m, only);
    if (only && s->m.n_tensors == 0)
        PG_FAIL(PG_E_ARG, "no tensor matches \"%s\"", PG_SHOW(only));
    s->path = pg__mem_strdup(path);
    s->big_endian = pg__mem_array(s->m.n_tensors, 1);
    s->data_off = pg__mem_array(s->m.n_pieces, sizeof *s->data_off);
    s->buf = pg__mem_array(PG_COPY_BYTES, 1);
    if (!s->path || !s->big_endian || !s->data_off || !s->buf) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(look_at_all(s, faults ? faults : &own, err));
    if (faults && faults->missing.n + faults->damaged.n)
        PG_TRY(look_at_data(s, faults, err));
    PG_TRY(pg__shard_faults_report(faults ? faults : &own, pg__shards_n_files(s), faults == NULL,
                                   err));
    *out = s;
    s = NULL;
done:
    pg__shard_faults_fini(&own);
    pg__shards_close(s);
    return st;
}

/* ---- data ------------------------------------------------------------------------------------
 */

/* Makes s->io the file of a piece. */
static pg_status turn_to(pg__shards *s, size_t piece, pg_err *err)
{
    if (s->open_piece == piece)
        return PG_OK;
    pg__io_close(s->io);
    s->io = NULL;
    s->open_piece = PG_NONE;
    const pg_status st = open_piece(&s->io, NULL, s, piece, err);
    if (st == PG_OK)
        s->open_piece = piece;
    return st;
}

static pg_status read_tensor(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n,
                             pg_err *err)
{
    pg__shards *s = ctx;
    unsigned char *to = buf;
    const pg__shard_tensor *t = &s->m.tensors[tensor];
    for (size_t i = t->first; n && i < t->first + t->n; i++) {
        const pg__piece *p = &s->m.pieces[i];
        const uint64_t here = piece_bytes(t, p);
        if (off >= here) {
            off -= here;
            continue;
        }
        const size_t k = n < here - off ? n : (size_t)(here - off);
        pg_status st = turn_to(s, i, err);
        if (st == PG_OK)
            st = pg__io_read(s->io, s->data_off[i] + off, to, k, err);
        if (st != PG_OK)
            return st;
        to += k;
        n -= k;
        off = 0;
    }
    return PG_OK;
}

/* Copies one file's data (sink NULL: only reads it); *crc is that of the whole file, including its
 * header. */
static pg_status copy_piece(pg__shards *s, size_t piece, pg__sink *sink, uint64_t off,
                            uint32_t *crc, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(turn_to(s, piece, err));
    const uint64_t size = pg__io_size(s->io), head = s->data_off[piece];
    *crc = 0;
    for (uint64_t at = 0; at < size;) {
        const size_t n = size - at < PG_COPY_BYTES ? (size_t)(size - at) : PG_COPY_BYTES;
        const size_t skip = at < head ? (head - at < n ? (size_t)(head - at) : n) : 0;
        PG_TRY(pg__io_read(s->io, at, s->buf, n, err));
        *crc = pg__crc32(*crc, s->buf, n);
        if (sink && n > skip)
            PG_TRY(pg__sink_write(sink, off + (at + skip - head), s->buf + skip, n - skip, err));
        at += n;
    }
done:
    return st;
}

pg_status pg__shards_copy(pg__shards *s, size_t tensor, pg__sink *sink, uint64_t off, pg_err *err)
{
    const pg__shard_tensor *t = &s->m.tensors[tensor];
    int good = 1;
    for (size_t i = t->first; i < t->first + t->n; i++) {
        const pg__piece *p = &s->m.pieces[i];
        const uint32_t want = s->want[i];
        uint32_t crc = 0;
        const pg_status st = copy_piece(s, i, sink, off, &crc, err);
        if (st != PG_OK)
            return st;
        off += piece_bytes(t, p);
        if (crc == want || s->sums_of_files)
            continue;
        good = 0;
        const pg_status reported =
            pg__strs_printf(&s->damages, err, "%s (crc32 %08" PRIx32 ", %s has %08" PRIx32 ")",
                            PG_SHOW(p->member ? p->member : p->path), crc,
                            p->member ? "archive" : "manifest", want);
        if (reported != PG_OK)
            return reported;
    }
    s->n_verified += (size_t)good;
    return PG_OK;
}

pg_status pg__shards_check_archives(pg__shards *s, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < s->n_archives; i++) {
        const archive *a = &s->archives[i];
        uint32_t crc = 0;
        if (!a->a || a->reported)
            continue;
        PG_TRY(pg__archive_sum(&crc, a->a, s->buf, err));
        if (crc != a->crc)
            PG_TRY(pg__strs_printf(&s->damages, err,
                                   "%s (crc32 %08" PRIx32 ", manifest has %08" PRIx32 ")",
                                   PG_SHOW(a->path), crc, a->crc));
    }
done:
    return st;
}

pg_status pg__shards_check_files(pg__shards *s, const volatile int *cancel, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < s->m.n_pieces; i++) {
        uint32_t crc = 0;
        const pg__piece *p = &s->m.pieces[i];
        if (cancel && *cancel)
            PG_FAIL(PG_E_CANCELLED, "interrupted");
        if (p->member || !s->data_off[i]) /* no header, or the wrong one: recorded */
            continue;
        PG_TRY(copy_piece(s, i, NULL, 0, &crc, err));
        if (crc != p->crc)
            PG_TRY(pg__strs_printf(&s->damages, err,
                                   "%s (crc32 %08" PRIx32 ", manifest has %08" PRIx32 ")",
                                   PG_SHOW(p->path), crc, p->crc));
    }
    PG_TRY(pg__shards_check_archives(s, err));
done:
    return st;
}

pg_status pg__shards_prove(pg__shards *s, const volatile int *cancel, pg_err *err)
{
    pg_status st = pg__shards_check_files(s, cancel, err);
    const pg__shard_faults faults = {.damaged = s->damages};
    if (st == PG_OK)
        st = pg__shard_faults_report(&faults, pg__shards_n_files(s), 1, err);
    if (st != PG_OK && st != PG_E_CANCELLED)
        pg_err_prefix(err, PG_SHOW(s->path));
    return st;
}

pg_status pg__shards_files(pg__strs *out, const pg__shards *s, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < s->m.n_pieces && st == PG_OK; i++)
        if (i == 0 || strcmp(s->m.pieces[i].path, s->m.pieces[i - 1].path) != 0)
            st = pg__strs_add(out, s->m.pieces[i].path, strlen(s->m.pieces[i].path), err);
    return st;
}

/* ---- the store -------------------------------------------------------------------------------
 */

static pg_status copy_tensor(void *ctx, size_t tensor, pg__sink *sink, uint64_t off, pg_err *err)
{
    return pg__shards_copy(ctx, tensor, sink, off, err);
}

static void close_shards(void *ctx)
{
    pg__shards_close(ctx);
}

/* A scalar text attribute of the HDF5 root, or a member of the archive, becomes a text of the
 * store. */
static pg_status set_texts(pg_store *out, const pg__manifest *m, pg_err *err)
{
    static const char *const names[][2] = {
        {"model_config", "config.json"}, {"training_config", NULL}, {NULL, "metadata.json"}};
    pg_status st = PG_OK;
    for (int t = PG_TEXT_MODEL_CONFIG; t <= PG_TEXT_METADATA; t++) {
        for (size_t i = 0; names[t][0] && m->n_objects && i < m->objects[0].n; i++) {
            const pg__h5_attr *a = &m->attrs[m->objects[0].first + i];
            if (!*m->objects[0].path && a->strs && a->n_elems == 1 &&
                strcmp(a->name, names[t][0]) == 0)
                PG_TRY(pg__store_set_text(out, (pg_text)t, a->strs[0], a->lens[0], err));
        }
        for (size_t i = 0; names[t][1] && i < m->n_members; i++)
            if (strcmp(m->members[i].name, names[t][1]) == 0)
                PG_TRY(
                    pg__store_set_text(out, (pg_text)t, m->members[i].text, m->members[i].n, err));
    }
    if (m->metadata)
        PG_TRY(pg__store_set_text(out, PG_TEXT_METADATA, m->metadata, m->n_metadata, err));
    if (m->writer)
        PG_TRY(pg__store_set_writer(out, m->writer, err));
done:
    return st;
}

static pg_status add_tensors(pg_store *out, const pg__shards *s, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__manifest *m = &s->m;
    size_t layer = 0;
    for (size_t i = 0; i < m->n_weights + m->n_state; i++) {
        const pg__shard_tensor *t = &m->tensors[i];
        const pg__tensor_desc d = {.name = t->name,
                                   .dtype = t->dtype,
                                   .big_endian = s->big_endian[i],
                                   .rank = t->rank,
                                   .dims = t->dims};
        for (; t->layer != PG_NONE && layer <= t->layer; layer++)
            PG_TRY(pg__store_add_layer(out, m->layers.v[layer], err));
        if (t->role == PG_ROLE_STATE)
            PG_TRY(pg__store_add_state(out, &d, err));
        else
            PG_TRY(pg__store_add_weight(out, &d, err));
    }
    for (; layer < m->layers.n; layer++)
        PG_TRY(pg__store_add_layer(out, m->layers.v[layer], err));
done:
    return st;
}

pg_status pg__shards_store(pg_store **out, pg__shards *s, pg_err *err)
{
    static const pg__store_io io = {
        .read = read_tensor, .close = close_shards, .copy = copy_tensor};
    pg_status st = PG_OK;
    pg_store *store = NULL;
    PG_TRY(pg__store_new(&store, pg__fmt_npy_shards.name, NULL, NULL, err));
    PG_TRY(add_tensors(store, s, err));
    PG_TRY(set_texts(store, &s->m, err));
    pg__store_own(store, &io, s);
    *out = store;
    store = NULL;
done:
    pg_store_close(store);
    return st;
}

pg__shards *pg__shards_of(const pg_store *s)
{
    return strcmp(pg_store_format(s), pg__fmt_npy_shards.name) == 0 ? pg__store_ctx(s) : NULL;
}
