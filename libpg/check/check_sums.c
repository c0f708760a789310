/* check_sums.c - compares a file with published checksums: the SHA-256 of one file, or of all files
 * of a split model, with a SHA256SUMS; the CRC-32 of all shards with the manifest. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "check/check_impl.h"
#include "format/shards.h"

enum { MAX_LISTED = 20 };

/* ---- lists of sums ---------------------------------------------------------------------------
 */

/* "<hex>  <name>", "<hex> *<name>" */
static int is_sum(const char *line, size_t n)
{
    return strspn(line, "0123456789abcdefABCDEF") == 64 && n > 66 && line[64] == ' ' &&
           (line[65] == ' ' || line[65] == '*');
}

/* The line of a list that names this file, by path or by its last component; NULL if there is
 * none. */
static const char *find_line(const char *text, const char *path)
{
    const char *base = pg__base_name(path), *by_base = NULL;
    for (const char *line = text; *line;) {
        const size_t n = strcspn(line, "\r\n");
        if (is_sum(line, n)) {
            const char *name = line + 66;
            const size_t len = n - 66;
            if (strlen(path) == len && memcmp(name, path, len) == 0)
                return line;
            const char *last = name + len;
            while (last > name && last[-1] != '/')
                last--;
            const size_t k = (size_t)(name + len - last);
            if (strlen(base) == k && memcmp(last, base, k) == 0 && !by_base)
                by_base = line;
        }
        line += n;
        line += strspn(line, "\r\n");
    }
    return by_base;
}

static pg_status load_list(char **out, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg__io *io = NULL;
    char *text = NULL;
    PG_TRY(pg__io_open(&io, path, err));
    const uint64_t size = pg__io_size(io);
    if (size > PG_LIMIT_JSON_BYTES) {
        st = pg_fail(err, PG_E_LIMIT, "%s: too large for a list of checksums", PG_SHOW(path));
        goto done;
    }
    text = pg__mem_array((size_t)size + 1, 1);
    if (!text) {
        st = pg__nomem(err);
        goto done;
    }
    st = pg__io_read(io, 0, text, (size_t)size, err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(path));
        goto done;
    }
    *out = text;
    text = NULL;
done:
    pg__mem_free(text);
    pg__io_close(io);
    return st;
}

static void lower(char out[65], const char *hex)
{
    for (size_t i = 0; i < 64; i++)
        out[i] = (char)tolower((unsigned char)hex[i]);
    out[64] = 0;
}

static pg_status list_lines(pg__checking *c, const pg__strs *lines, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < lines->n && i < MAX_LISTED; i++)
        PG_TRY(pg__check_detail(c, err, "%s", lines->v[i]));
    if (lines->n > MAX_LISTED)
        PG_TRY(pg__check_detail(c, err, "... %zu more files", lines->n - MAX_LISTED));
done:
    return st;
}

/* ---- one file --------------------------------------------------------------------------------
 */

static pg_status check_one(pg__checking *c, const char *list, pg_err *err)
{
    pg_status st = PG_OK;
    pg__io *io = NULL;
    char is[65], want[65];
    const pg__shown name = pg__show(pg__base_name(c->o->sha256));
    const char *line = find_line(list, c->path);
    if (!line)
        return pg__check_add(c, "checksums", 0, err, "%s has no sum of this file", name.s);
    PG_TRY(pg__io_open(&io, c->path, err));
    st = pg__io_sha256(io, is, c->o->cancel, NULL, err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(c->path));
        goto done;
    }
    lower(want, line);
    if (strcmp(is, want) == 0) {
        st = pg__check_add(c, "checksums", 1, err, "SHA-256 as in %s", name.s);
        goto done;
    }
    PG_TRY(pg__check_add(c, "checksums", 0, err, "SHA-256 differs from that in %s", name.s));
    PG_TRY(pg__check_detail(c, err, "file    %s", is));
    PG_TRY(pg__check_detail(c, err, "list    %s", want));
done:
    pg__io_close(io);
    return st;
}

/* ---- all files of a split --------------------------------------------------------------------
 */

/* One line of the list, whose names are relative to the folder of `index`. */
static pg_status check_line(pg__strs *bad, const char *index, const char *line, const char *name,
                            const volatile int *cancel, pg_err *err)
{
    pg_status st = PG_OK;
    pg__io *io = NULL;
    pg_err why = {0};
    char is[65], want[65];
    st = pg__io_open_beneath(&io, index, name, &why);
    if (st == PG_OK)
        st = pg__io_sha256(io, is, cancel, NULL, &why);
    pg__io_close(io);
    lower(want, line);
    if (st == PG_E_NOMEM || st == PG_E_CANCELLED) {
        if (err)
            *err = why;
        return st;
    }
    if (st == PG_E_IO && why.sys == ENOENT)
        return pg__strs_printf(bad, err, "missing  %s", PG_SHOW(name));
    if (st != PG_OK)
        return pg__strs_printf(bad, err, "unread   %s", why.msg);
    return strcmp(is, want) == 0 ? PG_OK : pg__strs_printf(bad, err, "differs  %s", PG_SHOW(name));
}

/* A shard that is not in the list was not published with it. */
static pg_status find_unlisted(pg__strs *bad, const pg__strs *names, const pg__shards *s,
                               pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs files = {0};
    PG_TRY(pg__shards_files(&files, s, err));
    for (size_t i = 0; i < files.n; i++)
        if (pg__strs_search(names, files.v[i]) == PG_NONE)
            PG_TRY(pg__strs_printf(bad, err, "unlisted %s", PG_SHOW(files.v[i])));
done:
    pg__strs_fini(&files);
    return st;
}

static pg_status check_lines(pg__checking *c, const char *list, const char *index, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs names = {0}, bad = {0};
    const pg__shards *s = pg__shards_of(c->view.r.s);
    const pg__shown shown = pg__show(pg__base_name(c->o->sha256));
    for (const char *line = list; *line;) {
        const size_t n = strcspn(line, "\r\n");
        if (c->o->cancel && *c->o->cancel)
            PG_FAIL(PG_E_CANCELLED, "interrupted");
        if (is_sum(line, n)) {
            PG_TRY(pg__strs_add(&names, line + 66, n - 66, err));
            PG_TRY(check_line(&bad, index, line, names.v[names.n - 1], c->o->cancel, err));
        }
        line += n;
        line += strspn(line, "\r\n");
    }
    pg__strs_sort(&names);
    if (s)
        PG_TRY(find_unlisted(&bad, &names, s, err));
    if (bad.n == 0) {
        st = pg__check_add(c, "checksums", names.n > 0, err, "SHA-256 of %zu file%s as in %s",
                           names.n, names.n == 1 ? "" : "s", shown.s);
        goto done;
    }
    PG_TRY(pg__check_add(c, "checksums", 0, err, "%zu of %zu files are not as in %s", bad.n,
                         names.n, shown.s));
    PG_TRY(list_lines(c, &bad, err));
done:
    pg__strs_fini(&names);
    pg__strs_fini(&bad);
    return st;
}

pg_status pg__check_sum(pg__checking *c, pg_err *err)
{
    pg_status st = PG_OK;
    char *list = NULL;
    const char *index = pg__store_path(c->view.r.s);
    const int split = pg__shards_of(c->view.r.s) || strcmp(index, c->path) != 0;
    PG_TRY(load_list(&list, c->o->sha256, err));
    PG_TRY(split ? check_lines(c, list, index, err) : check_one(c, list, err));
done:
    pg__mem_free(list);
    return st;
}

/* ---- the manifest's CRC-32 -------------------------------------------------------------------
 */

pg_status pg__check_shards(pg__checking *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__shards *s = pg__shards_of(c->view.r.s);
    if (!s)
        return PG_OK;
    PG_TRY(pg__shards_check_files(s, c->o->cancel, err));
    const pg__strs *bad = pg__shards_damages(s);
    const size_t n = pg__shards_n_files(s);
    if (bad->n == 0) {
        st = pg__check_add(c, "checksums", 1, err, "CRC-32 of %zu shard%s as in the manifest", n,
                           n == 1 ? "" : "s");
        goto done;
    }
    PG_TRY(pg__check_add(c, "checksums", 0, err, "%zu of %zu shards damaged", bad->n, n));
    c->report.damaged = 1;
    PG_TRY(list_lines(c, bad, err));
done:
    return st;
}

/* ---- shards that cannot be opened ------------------------------------------------------------
 */

static pg_status open_index(pg__io **out, char **path, const char *given, pg_err *err)
{
    const pg_status st = pg__io_open(out, given, err);
    if (st == PG_OK || (err && err->sys != EISDIR)) {
        *path = st == PG_OK ? pg__mem_strdup(given) : NULL;
        return st == PG_OK && !*path ? pg__nomem(err) : st;
    }
    return pg__folder_index(path, given, err) == PG_OK ? pg__io_open(out, *path, err) : PG_E_IO;
}

static pg_status report_faults(pg__checking *c, const char *index, const pg__shard_faults *f,
                               const char *how_many, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs lines = {0};
    for (size_t i = 0; i < f->missing.n; i++)
        PG_TRY(pg__strs_printf(&lines, err, "missing  %s", f->missing.v[i]));
    for (size_t i = 0; i < f->damaged.n; i++)
        PG_TRY(pg__strs_printf(&lines, err, "damaged  %s", f->damaged.v[i]));
    PG_TRY(pg__check_add(c, "container", 0, err, "%s: %s", PG_SHOW(index), how_many));
    PG_TRY(list_lines(c, &lines, err));
done:
    pg__strs_fini(&lines);
    return st;
}

pg_status pg__check_faults(pg__checking *c, int *is_split, pg_err *err)
{
    pg_status st = PG_OK;
    pg_err why = {0};
    char *index = NULL;
    pg__io *io = NULL;
    pg__shards *s = NULL;
    pg__shard_faults faults = {.cancel = c->o->cancel};
    *is_split = 0;
    if (open_index(&io, &index, c->path, &why) == PG_OK)
        st = pg__shards_open(&s, io, index, NULL, &faults, &why);
    if (st == PG_E_CANCELLED || st == PG_E_NOMEM) {
        if (err)
            *err = why;
        goto done;
    }
    st = PG_OK;
    if (why.code != PG_E_FORMAT || faults.missing.n + faults.damaged.n == 0)
        goto done;
    *is_split = 1;
    c->report.damaged = 1;
    PG_TRY(report_faults(c, index, &faults, why.msg, err));
    c->report.action = why.action;
    c->report.hint = why.hint[0] ? pg__mem_strdup(why.hint) : NULL;
    if (why.hint[0] && !c->report.hint)
        st = pg__nomem(err);
done:
    pg__shards_close(s);
    pg__shard_faults_fini(&faults);
    pg__io_close(io);
    pg__mem_free(index);
    return st;
}
