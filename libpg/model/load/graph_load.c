/* graph_load.c - reads a model description from a file: model JSON is read here, any other file is
 * opened as a checkpoint that may hold a model_config. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/irregular.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "model/graph/graph.h"
#include "pg/inspect.h"

/* Reads up to cap bytes from the start of fd. */
static pg_status read_some(int fd, char *buf, size_t cap, size_t *n, pg_err *err)
{
    for (*n = 0; *n < cap;) {
        const ssize_t got = pread(fd, buf + *n, cap - *n, (off_t)*n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return pg_fail_sys(err, PG_E_IO, errno, "cannot read");
        if (got == 0)
            break;
        *n += (size_t)got;
    }
    return PG_OK;
}

static int looks_like_json(const char *head, size_t n)
{
    const size_t bom = n >= 3 && memcmp(head, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    const size_t blank = bom + strspn(head + bom, " \t\r\n");
    return blank < n && strchr("{[\"", head[blank]);
}

static int is_utf16(const char *head, size_t n)
{
    return n >= 2 && (memcmp(head, "\xFF\xFE", 2) == 0 || memcmp(head, "\xFE\xFF", 2) == 0);
}

/* Reads the whole text of a JSON file; *text is NULL if the file is something else. */
static pg_status read_json(char **text, size_t *n, const char *path, pg_err *err)
{
    char head[65];
    size_t n_head = 0;
    pg_status st = PG_OK;
    struct stat info;
    char *whole = NULL;
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return pg_fail_sys(err, PG_E_IO, errno, "cannot open");
    if (fstat(fd, &info) != 0) {
        st = pg_fail_sys(err, PG_E_IO, errno, "cannot read");
        goto done;
    }
    if (S_ISDIR(info.st_mode))
        PG_FAIL(PG_E_IO, "not a regular file (a folder)");
    if (!S_ISREG(info.st_mode))
        PG_FAIL(PG_E_IO, "not a regular file (a %s); copy its contents to a file",
                pg__irregular(&info));
    PG_TRY(read_some(fd, head, sizeof head - 1, &n_head, err));
    head[n_head] = 0;
    if (is_utf16(head, n_head))
        PG_FAIL(PG_E_FORMAT, "text in UTF-16; save it as UTF-8");
    if (!looks_like_json(head, n_head))
        goto done;
    if (info.st_size < 0 || (uint64_t)info.st_size > PG_LIMIT_JSON_BYTES)
        PG_FAIL(PG_E_LIMIT, "JSON: %lld bytes, more than the limit of %llu",
                (long long)info.st_size, (unsigned long long)PG_LIMIT_JSON_BYTES);
    whole = pg__mem_array((size_t)info.st_size + 1, 1);
    if (!whole) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(read_some(fd, whole, (size_t)info.st_size, n, err));
    *text = whole;
    whole = NULL;
done:
    pg__mem_free(whole);
    (void)close(fd);
    return st;
}

static pg_status load_from_store(pg__graph **out, const char *path, pg_err *err)
{
    pg_store *s = NULL;
    pg_status st = PG_OK;
    size_t n = 0;
    st = pg_store_open(&s, path, NULL, err); /* puts the path before its message */
    if (st != PG_OK && st != PG_E_AMBIGUOUS) /* of several parts: PyTorch's, without any */
        goto done;
    const char *text = st == PG_OK ? pg_store_text(s, PG_TEXT_MODEL_CONFIG, &n) : NULL;
    if (!text) {
        (void)pg_fail(err, PG_E_UNKNOWN, "%s: holds no model description", PG_SHOW(path));
        pg_err_hint(err, "a model's JSON (model.to_json()), a full model .h5 or a .keras file");
        st = PG_E_UNKNOWN;
        goto done;
    }
    st = pg__graph_parse(out, text, n, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(path));
done:
    pg_store_close(s);
    return st;
}

/* A file without a description is PG_E_UNKNOWN here, not PG_E_MISMATCH. */
static pg_status not_a_model(pg_status st, pg_err *err)
{
    if (st == PG_E_MISMATCH && err)
        err->code = PG_E_UNKNOWN;
    return st == PG_E_MISMATCH ? PG_E_UNKNOWN : st;
}

const char *pg__model_name(const char *path, const char *text)
{
    if (!text)
        return path;
    return !path ? "the model's description" : strcmp(path, "-") == 0 ? "standard input" : path;
}

pg_status pg__graph_given(pg__graph **out, const char *path, const char *text, pg_err *err)
{
    if (!text)
        return pg__graph_load(out, path, err);
    const pg_status st = pg__graph_parse(out, text, strlen(text), err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(pg__model_name(path, text)));
    return not_a_model(st, err);
}

static pg_status check_head(const pg__str *text, pg_err *err)
{
    if (text->n == 0)
        return pg_fail(err, PG_E_UNKNOWN, "empty; a model's JSON is expected (model.to_json())");
    if (is_utf16(text->s, text->n))
        return pg_fail(err, PG_E_FORMAT, "text in UTF-16; save it as UTF-8");
    if (!looks_like_json(text->s, text->n))
        return pg_fail(err, PG_E_UNKNOWN,
                       "not a model's JSON; weights and full models are read at many positions: "
                       "give a file name");
    return PG_OK;
}

/* Reads a pipe to its end, or only the beginning if it is not JSON. */
static pg_status read_all(pg__str *out, int fd, pg_err *err)
{
    char piece[1 << 14];
    pg_status st = PG_OK;
    int is_known = 0;
    while (out->n <= PG_LIMIT_JSON_BYTES) {
        const ssize_t got = read(fd, piece, sizeof piece);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return pg_fail_sys(err, PG_E_IO, errno, "cannot read");
        PG_TRY(pg__str_add(out, piece, (size_t)got, err));
        if (!is_known && (got == 0 || out->n > 64)) /* as many as read_json() looks at */
            PG_TRY(check_head(out, err));
        is_known |= out->n > 64;
        if (got == 0)
            break;
    }
done:
    return st;
}

pg_status pg_model_text_read(char **out, int fd, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    if (!out || fd < 0)
        return pg_fail(err, PG_E_ARG, "a descriptor is needed, and a place for the text");
    PG_TRY(read_all(&text, fd, err));
    if (text.n > PG_LIMIT_JSON_BYTES)
        PG_FAIL(PG_E_LIMIT, "JSON: more than the limit of %llu bytes",
                (unsigned long long)PG_LIMIT_JSON_BYTES);
    if (strlen(text.s) != text.n)
        PG_FAIL(PG_E_FORMAT, "JSON: byte %zu is a zero", strlen(text.s));
    *out = text.s;
    text.s = NULL;
done:
    pg__str_fini(&text);
    return st;
}

pg_status pg__graph_load(pg__graph **out, const char *path, pg_err *err)
{
    char *text = NULL;
    size_t n = 0;
    pg_status st = read_json(&text, &n, path, err);
    if (st == PG_OK && !text)
        return not_a_model(load_from_store(out, path, err), err);
    if (st == PG_OK)
        st = pg__graph_parse(out, text, n, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(path));
    pg__mem_free(text);
    return not_a_model(st, err);
}
