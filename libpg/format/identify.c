/* identify.c - people pass the wrong file: a failed download, a pointer, a compressed copy, a model
 * of another program. This names the file and says what to do, where "unknown format" would leave
 * them to guess. It checks the first bytes before the name, because names lie, and goes from
 * certain to likely. */
#include "format/identify.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "io/zip.h"

#define HEAD_BYTES 4096u

typedef struct subject {
    pg__io *io;
    const char *path; /* "FILE" if it has none */
    uint64_t size;
    unsigned char head[HEAD_BYTES + 1]; /* and a NUL */
    size_t n;
} subject;

pg_status pg__fail_pickle(const char *what, pg_err *err)
{
    (void)pg_fail(err, PG_E_UNSUPPORTED, "%s; not read because loading it would run code", what);
    pg_err_hint(err, "convert it to safetensors in Python");
    return PG_E_UNSUPPORTED;
}

static int starts_with(const subject *f, const char *text)
{
    const size_t n = strlen(text);
    return f->n >= n && memcmp(f->head, text, n) == 0;
}

/* --- by the first bytes ---------------------------------------------------------------------- */

static const struct signature {
    size_t at;
    const char *bytes;
    size_t n;
    const char *what, *hint; /* a %s in the hint is the path */
} signatures[] = {
    {0, "\x1f\x8b", 2, "gzip-compressed", "gunzip -c %s > unpacked.h5"},
    {0, "BZh", 3, "bzip2-compressed", "bunzip2 -c %s > unpacked.h5"},
    {0,
     "\xfd"
     "7zXZ\0",
     6, "xz-compressed", "xz -dc %s > unpacked.h5"},
    {0, "\x28\xb5\x2f\xfd", 4, "zstd-compressed", "zstd -dc %s > unpacked.h5"},
    {0, "7z\xbc\xaf\x27\x1c", 6, "a 7z archive", "7z x %s"},
    {0, "Rar!\x1a\x07", 6, "a RAR archive", "unrar x %s"},
    {257, "ustar", 5, "a tar archive", "tar -xf %s"},
    {4, "TFL3", 4, "a TensorFlow Lite model, which Keras does not load", NULL},
    {0, "GGUF", 4, "a GGUF model (llama.cpp), which Keras does not load", NULL},
    {0, "\x0e\x03\x13\x01", 4, "an HDF4 file, not HDF5", "h4toh5 %s converted.h5"},
    {0, "MATLAB 5.0 MAT-file", 19, "a MATLAB 5 file, not HDF5", NULL},
    {0, "%PDF-", 5, "a PDF document", NULL},
    {0, "\x89PNG\r\n", 6, "a PNG image", NULL},
    {0, "\xff\xd8\xff", 3, "a JPEG image", NULL},
    {0,
     "\x7f"
     "ELF",
     4, "a program or library (ELF)", NULL},
    {0, "SQLite format 3", 15, "an SQLite database", NULL},
};

static pg_status by_signature(const subject *f, pg_err *err)
{
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
        const struct signature *s = &signatures[i];
        if (f->n < s->at + s->n || memcmp(f->head + s->at, s->bytes, s->n) != 0)
            continue;
        (void)pg_fail(err, PG_E_UNKNOWN, "%s", s->what);
        if (!s->hint)
            return PG_E_UNKNOWN;
        const char *mark = strstr(s->hint, "%s"); /* separate calls: a format must be a literal */
        pg_err_hint(err, "%.*s%s%s", (int)(mark - s->hint), s->hint, PG_QUOTE(f->path), mark + 2);
        return PG_E_UNKNOWN;
    }
    return PG_OK;
}

/* A pickle begins with its protocol (2 to 5) or, in protocol 0, with a global, a list or a
 * dictionary in letters. */
static int is_pickle(const subject *f)
{
    size_t i = 1, lines = 0;
    if (f->n > 2 && f->head[0] == 0x80 && f->head[1] >= 2 && f->head[1] <= 5)
        return 1;
    if (starts_with(f, "(dp") || starts_with(f, "(lp") || starts_with(f, "(i"))
        return memchr(f->head, '\n', f->n) != NULL;
    if (f->n < 4 || f->head[0] != 'c')
        return 0;
    for (; i < f->n && lines < 2; i++) /* c, module, newline, name, newline */
        if (f->head[i] == '\n')
            lines++;
        else if (!isalnum(f->head[i]) && f->head[i] != '_' && f->head[i] != '.')
            return 0;
    return lines == 2 && i < f->n && strchr("(qptR.0", f->head[i]);
}

/* A TensorFlow graph is a message whose first field is a number or a node. */
static pg_status by_graph(const subject *f, pg_err *err)
{
    if (!pg__ends_with(f->path, ".pb") || f->n <= 2 || (f->head[0] != 0x08 && f->head[0] != 0x0a))
        return PG_OK;
    return pg_fail(err, PG_E_UNKNOWN, "a TensorFlow graph (protobuf), not a Keras file");
}

/* ONNX has no signature: field 1 is a small number, field 2 the producer's name. */
static int is_onnx(const subject *f)
{
    if (f->n < 8 || f->head[0] != 0x08 || f->head[1] == 0 || f->head[1] > 32)
        return 0;
    if (pg__ends_with(f->path, ".onnx"))
        return 1;
    const size_t n = f->head[3];
    if (f->head[2] != 0x12 || n < 2 || n > 64 || 4 + n > f->n)
        return 0;
    for (size_t i = 4; i < 4 + n; i++)
        if (!isgraph(f->head[i]) && f->head[i] != ' ')
            return 0;
    return 1;
}

/* --- text ------------------------------------------------------------------------------------ */

static pg_status fail_lfs(const subject *f, pg_err *err)
{
    const char *line = strstr((const char *)f->head, "\nsize ");
    uint64_t size = 0;
    int good = line != NULL;
    for (const char *p = line ? line + 6 : ""; good && isdigit((unsigned char)*p); p++)
        good = !__builtin_mul_overflow(size, UINT64_C(10), &size) &&
               !__builtin_add_overflow(size, (uint64_t)(*p - '0'), &size);
    if (good)
        (void)pg_fail(err, PG_E_UNKNOWN,
                      "this is a Git LFS pointer, not the file (the real one has %s bytes)",
                      PG_NUM(size));
    else
        (void)pg_fail(err, PG_E_UNKNOWN, "this is a Git LFS pointer, not the file");
    pg_err_hint(err, "git lfs pull");
    return PG_E_UNKNOWN;
}

static int has_prefix_nocase(const char *s, const char *prefix)
{
    for (; *prefix; s++, prefix++)
        if (tolower((unsigned char)*s) != *prefix)
            return 0;
    return 1;
}

/* Markup comes from servers that answer with a page instead of the file. */
static pg_status by_markup(const char *text, pg_err *err)
{
    static const char *const html[] = {"<!doctype html", "<html",   "<head",
                                       "<body",          "<script", "<!--"};
    for (size_t i = 0; i < sizeof html / sizeof *html; i++)
        if (has_prefix_nocase(text, html[i]))
            return pg_fail(err, PG_E_UNKNOWN, "this is an HTML page (a failed download?)");
    if (has_prefix_nocase(text, "<?xml") || has_prefix_nocase(text, "<error>"))
        return pg_fail(err, PG_E_UNKNOWN, "this is an XML document (a failed download?)");
    return PG_OK;
}

static pg_status by_json_contents(const subject *f, const pg__json *json, pg_err *err)
{
    pg__json_iter map = {.obj = pg__json_get(json, "weight_map")};
    if (pg__json_type_of(map.obj) == PG_J_OBJECT && pg__json_next(&map)) {
        const char *shard = pg__json_str(map.value);
        (void)pg_fail(err, PG_E_UNSUPPORTED,
                      "the index of a model in several files, of a kind that libpg does not read");
        if (shard)
            pg_err_hint(err, "give one of the files, such as %s", PG_QUOTE(shard));
        return PG_E_UNSUPPORTED;
    }
    if (pg__json_get_str(json, "class_name") && pg__json_get(json, "config")) {
        (void)pg_fail(err, PG_E_UNKNOWN, "a model description without weights (JSON)");
        pg_err_do(err, PG_DO_UNWRAP, NULL);
        pg_err_arg(err, "like", "%s", f->path);
        return PG_E_UNKNOWN;
    }
    return pg_fail(err, PG_E_UNKNOWN, "a JSON file without weights");
}

static pg_status by_json(const subject *f, pg_err *err)
{
    pg_status st = PG_OK;
    pg__json *json = NULL;
    char *text = NULL;
    if (f->size > PG_LIMIT_JSON_BYTES)
        return PG_OK;
    text = pg__mem_array((size_t)f->size + 1, 1);
    if (!text)
        return pg__nomem(err);
    PG_TRY(pg__io_read(f->io, 0, text, (size_t)f->size, err));
    if (pg__json_parse(&json, text, (size_t)f->size, NULL) == PG_OK &&
        pg__json_type_of(json) == PG_J_OBJECT)
        st = by_json_contents(f, json, err);
done:
    pg__json_free(json);
    pg__mem_free(text);
    return st;
}

static int is_text(const subject *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->head[i] < 0x20 && !strchr("\t\n\r\f", f->head[i]))
            return 0;
    return memchr(f->head, 0, f->n) == NULL && memchr(f->head, 0x7F, f->n) == NULL;
}

static pg_status by_text(const subject *f, pg_err *err)
{
    const char *text = (const char *)f->head;
    if (starts_with(f, "version https://git-lfs.github.com/spec/"))
        return fail_lfs(f, err);
    if (starts_with(f, "\xef\xbb\xbf"))
        text += 3;
    while (*text && isspace((unsigned char)*text))
        text++;
    pg_status st = by_markup(text, err);
    if (st == PG_OK && *text == '{')
        st = by_json(f, err);
    if (st == PG_OK && is_text(f))
        st = pg_fail(err, PG_E_UNKNOWN, "a text file, not a checkpoint");
    return st;
}

/* --- the rest -------------------------------------------------------------------------------- */

static pg_status by_zip(const subject *f, pg_err *err)
{
    pg__zip *z = NULL;
    pg_status st = pg__zip_open(&z, f->io, err);
    if (st != PG_OK)
        return st;
    const char *first = pg__zip_n(z) ? pg__zip_at(z, 0)->name : "";
    if (pg__zip_n(z) == 0)
        st = pg_fail(err, PG_E_UNKNOWN, "an empty ZIP archive");
    else if (strstr(first, "serialized_exported_program.json") || strstr(first, "archive_format"))
        st = pg_fail(err, PG_E_UNSUPPORTED,
                     "a program of torch.export (.pt2): a graph, which only PyTorch runs; save its "
                     "state_dict");
    else
        st = pg_fail(err, PG_E_UNKNOWN,
                     "a ZIP archive of something else (%s ...), not a .keras file",
                     PG_SHOW(pg__zip_at(z, 0)->name));
    pg__zip_close(z);
    return st;
}

static int is_zero(const subject *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->head[i])
            return 0;
    return 1;
}

/* Nothing in the bytes is familiar, so the name says what the user takes the file for. */
static pg_status by_name(const subject *f, pg_err *err)
{
    if (pg__ends_with(f->path, ".safetensors"))
        return pg_fail(err, PG_E_UNKNOWN,
                       "not a safetensors file (its header is not a JSON object)");
    if (pg__ends_with(f->path, ".h5") || pg__ends_with(f->path, ".hdf5"))
        return pg_fail(err, PG_E_UNKNOWN, "not an HDF5 file (its first bytes are not HDF5's)");
    if (pg__ends_with(f->path, ".keras"))
        return pg_fail(err, PG_E_UNKNOWN, "not a .keras file (neither a ZIP archive nor HDF5)");
    return pg_fail(err, PG_E_UNKNOWN, "not a checkpoint of a known format");
}

pg_status pg__identify(pg__io *io, const char *path, pg_err *err)
{
    subject f = {.io = io, .path = path ? path : "FILE", .size = pg__io_size(io)};
    pg_status st = PG_OK;
    f.n = (size_t)(f.size < HEAD_BYTES ? f.size : HEAD_BYTES);
    if (f.size == 0) {
        (void)pg_fail(err, PG_E_UNKNOWN, "an empty file (0 bytes)");
        pg_err_hint(err, "download or copy it again");
        return PG_E_UNKNOWN;
    }
    PG_TRY(pg__io_read(io, 0, f.head, f.n, err));
    if (is_zero(&f))
        PG_FAIL(PG_E_UNKNOWN, "begins with %s zero bytes (an unfinished download?)", PG_NUM(f.n));
    if (starts_with(&f, "PK\3\4") || starts_with(&f, "PK\5\6")) {
        st = by_zip(&f, err);
        goto done;
    }
    PG_TRY(by_signature(&f, err));
    if (is_pickle(&f)) {
        st = pg__fail_pickle("a Python pickle", err);
        goto done;
    }
    PG_TRY(by_graph(&f, err));
    if (is_onnx(&f))
        PG_FAIL(PG_E_UNKNOWN, "an ONNX model, which Keras does not load");
    PG_TRY(by_text(&f, err));
    st = by_name(&f, err);
done:
    return st;
}
