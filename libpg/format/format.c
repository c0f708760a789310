/* format.c - finds the format of a file: asks the entries of formats.def in order. */
#include "format/format.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/below.h"
#include "format/identify.h"
#include "format/manifest.h"
#include "io/folder.h"

#define PG_FORMAT(name) &pg__fmt_##name,
static const pg__format *const formats[] = {
#include "format/formats.def"
    NULL,
};
#undef PG_FORMAT

static const uint8_t hdf5_signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

/* A user block of 512, 1024, 2048 ... bytes before the signature is legal HDF5 (format
 * specification II.A). Keras never writes one, but MATLAB 7.3 does, and its users deserve an
 * answer. */
static pg_status has_user_block(int *has, pg__io *io, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t size = pg__io_size(io);
    uint8_t head[sizeof hdf5_signature];
    for (uint64_t off = 512; off < size && size - off >= sizeof head && !*has; off *= 2) {
        PG_TRY(pg__io_read(io, off, head, sizeof head, err));
        *has = memcmp(head, hdf5_signature, sizeof head) == 0;
    }
done:
    return st;
}

/* What all formats are asked about a file. */
typedef struct question {
    pg__io *io;
    const char *path;
    const pg_open_opts *opts;
    uint8_t head[PG_PROBE_BYTES], tail[8];
    size_t n;
} question;

static int may_be(const pg__format *f, const question *q)
{
    return (f->probe && f->probe(q->head, q->n)) || (f->tail && f->tail(q->tail));
}

/* PG_E_UNKNOWN: no format accepts it; *claimed says whether one tried, and *err why it gave up. */
static pg_status ask(pg_store **out, const question *q, int *claimed, pg_err *err)
{
    pg_status st = PG_E_UNKNOWN;
    for (size_t i = 0; formats[i] && st == PG_E_UNKNOWN; i++) {
        if (!may_be(formats[i], q))
            continue;
        *claimed = 1;
        st = formats[i]->open(out, q->io, q->path, q->opts, err);
    }
    return st;
}

static pg_status find_format(pg_store **out, question *q, pg_err *err)
{
    int claimed = 0, behind = 0;
    pg_status st = PG_OK;
    const uint64_t size = pg__io_size(q->io);
    q->n = size < sizeof q->head ? (size_t)size : sizeof q->head;
    PG_TRY(pg__io_read(q->io, 0, q->head, q->n, err));
    if (size >= sizeof q->tail)
        PG_TRY(pg__io_read(q->io, size - sizeof q->tail, q->tail, sizeof q->tail, err));
    st = ask(out, q, &claimed, err);
    if (!claimed) {
        const pg_status looked = has_user_block(&behind, q->io, err);
        if (looked != PG_OK)
            return looked;
    }
    if (behind) {
        memcpy(q->head, hdf5_signature, sizeof hdf5_signature);
        st = ask(out, q, &claimed, err);
    }
    if (st == PG_E_UNKNOWN && memcmp(q->head, hdf5_signature, sizeof hdf5_signature) != 0)
        st = pg__identify(q->io, q->path, err);
done:
    return st;
}

pg_status pg__format_open(pg_store **out, const pg__format **fmt, pg__io *io, const char *path,
                          const pg_open_opts *opts, pg_err *err)
{
    static const pg_open_opts defaults = {0};
    pg_status st = PG_OK;
    pg_store *s = NULL;
    const char *name = path ? path : pg__io_name(io);
    question q = {.io = io, .path = path, .opts = opts ? opts : &defaults};
    st = find_format(&s, &q, err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(name));
        goto done;
    }
    if (q.opts->part && !pg__format_of(s)->has_parts)
        PG_FAIL(PG_E_UNSUPPORTED,
                "%s: only checkpoints have parts, or weights as trained; this file holds one model",
                PG_SHOW(name));
    if (q.opts->rules && !pg__format_of(s)->has_rules)
        PG_FAIL(
            PG_E_UNSUPPORTED,
            "%s: rules apply only to checkpoints of Megatron-LM, torch.distributed.checkpoint and "
            "HuggingFaceStorageWriter, and to files of torch.save() on each rank",
            PG_SHOW(name));
    PG_TRY(pg__store_set_path(s, name, err));
    pg__store_set_source(s, io);
    pg__store_set_threads(s, q.opts->n_threads);
    *out = s;
    if (fmt)
        *fmt = pg__format_of(s);
    s = NULL;
done:
    pg_store_close(s);
    return st;
}

/* Asks each format in turn; `which` of its functions. */
#define PG_ASK(which, out, path, err)                  \
    for (size_t i = 0; formats[i] && !*(out); i++) {   \
        if (formats[i]->which)                         \
            PG_TRY(formats[i]->which(out, path, err)); \
    }

/* An index that says of all shards where they are. */
static pg_status index_in_folder(char **out, const char *folder, pg_err *err)
{
    static const char *const names[] = {PG_MANIFEST, "model.safetensors.index.json",
                                        "model.weights.json", "model.safetensors"};
    pg_status st = PG_OK;
    pg__str path = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names && !*out; i++) {
        pg__io *io = NULL;
        int foreign = 0;
        PG_TRY(pg__folder_path(&path, folder, names[i], err));
        PG_TRY(pg__io_open_if(&io, path.s, err));
        if (io && i == 0 && (st = pg__manifest_is_foreign(&foreign, io, err)) != PG_OK)
            pg_err_prefix(err, PG_SHOW(path.s));
        if (st == PG_OK && io && !foreign) {
            *out = path.s;
            path.s = NULL;
        }
        pg__io_close(io);
        PG_TRY(st);
    }
done:
    pg__str_fini(&path);
    return st;
}

pg_status pg__folder_index(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(index_in_folder(out, folder, err));
    PG_ASK(in_folder, out, folder, err)
    if (!*out) {
        st = pg_fail_sys(err, PG_E_IO, EISDIR, "%s", PG_SHOW(folder));
        pg_err_detail(err, "no checkpoint is in it: no index of shards, and nothing that the ranks "
                           "of a job leave");
    }
done:
    return st;
}

/* A folder, or the only checkpoint in its folders. */
static pg_status index_of_folder(char **out, const char *folder, pg_err *err)
{
    pg_err e = {0}, why = {0};
    pg_status st = pg__folder_index(out, folder, &e);
    if (st != PG_E_IO || e.sys != EISDIR)
        goto done;
    st = pg__folder_below(out, folder, pg__folder_index, &why);
    if (st == PG_OK && !*out)
        st = e.code;
done:
    if (st != PG_OK && err)
        *err = why.code != PG_OK ? why : e;
    return st;
}

pg_status pg__index_of(char **out, const char *path, pg_err *err)
{
    int is_folder = 0;
    pg_status st = PG_OK;
    *out = NULL;
    PG_ASK(of_path, out, path, err)
    if (!*out)
        PG_TRY(pg__is_folder(&is_folder, path, err));
    if (is_folder)
        st = index_of_folder(out, path, err);
done:
    return st;
}

pg_status pg_store_open(pg_store **out, const char *path, const pg_open_opts *opts, pg_err *err)
{
    pg_err e = {0};
    pg__io *io = NULL;
    char *index = NULL;
    pg_status st = pg__index_of(&index, path, &e);
    if (st == PG_OK)
        st = pg__io_open(&io, index ? index : path, &e);
    if (st == PG_OK)
        st = pg__format_open(out, NULL, io, index ? index : path, opts, &e);
    if (st == PG_OK && (st = pg__store_set_asked(*out, path, &e)) != PG_OK) {
        pg_store_close(*out);
        *out = NULL;
    }
    if (st != PG_OK && err)
        *err = e;
    pg__io_close(io);
    pg__mem_free(index);
    return st;
}

static int has_word(const pg__format *f, const char *word)
{
    if (!f->words)
        return strcmp(f->name, word) == 0;
    for (const char *w = f->words; *w; w += strlen(w) + 1)
        if (strcmp(w, word) == 0)
            return 1;
    return 0;
}

const pg__format *pg__format_of(const pg_store *s)
{
    for (size_t i = 0; formats[i]; i++)
        if (has_word(formats[i], pg_store_format(s)))
            return formats[i];
    return NULL;
}
