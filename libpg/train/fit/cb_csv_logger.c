/* cb_csv_logger.c - Keras' CSVLogger, byte for byte what Python's csv module writes: a row per
 * epoch, counted from 0, columns sorted by name; CRLF at the ends of lines; the shortest digits
 * that read back as the same number. Source: keras/src/callbacks.py (2.15.0).
 *
 * Rows that cannot be written stay pending and are tried again at the end of the next epoch, and of
 * the run. One difference: the learning rate always has a column. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/real.h"
#include "base/try.h"
#include "io/append.h"
#include "io/folder.h"
#include "train/fit/callback.h"

typedef struct csv {
    char *filename;
    char separator[8];
    int append;
    int fails;       /* the last write failed */
    pg__append file; /* from here on: state */
    pg__strs keys;   /* columns after `epoch`; empty before the first row */
    int needs_header;
} csv;

/* Overwrites only a table of epochs: the name may have been meant for another option. Opens only
 * regular files: a pipe would wait for its writer. */
static pg_status check_file(const char *filename, pg_err *err)
{
    static const char start[] = "epoch", quoted[] = "\"epoch";
    char head[sizeof quoted - 1] = {0};
    struct stat sb;
    const int is_there = stat(filename, &sb) == 0;
    if (is_there && S_ISDIR(sb.st_mode))
        return pg_fail_sys(err, PG_E_IO, EISDIR, "%s", PG_SHOW(filename));
    if (is_there && !S_ISREG(sb.st_mode))
        return pg_fail(err, PG_E_IO, "%s: is not a regular file; choose another name",
                       PG_SHOW(filename));
    FILE *file = fopen(filename, "re");
    const size_t n = file ? fread(head, 1, sizeof head, file) : 0;
    if (file)
        fclose(file);
    if (n == 0 || strncmp(head, start, sizeof start - 1) == 0 ||
        strncmp(head, quoted, sizeof head) == 0)
        return PG_OK;
    return pg_fail(err, PG_E_ARG, "%s: exists and is not a table of epochs; choose another name",
                   PG_SHOW(filename));
}

static pg_status open(void *self, pg__fit *f, pg__settings *s, pg_err *err)
{
    csv *c = self;
    const char *filename = NULL, *separator = ",";
    uint32_t code;
    pg_status st = PG_OK;
    (void)f;
    PG_TRY(pg__settings_text(s, "filename", &filename, err));
    PG_TRY(pg__settings_text(s, "separator", &separator, err));
    PG_TRY(pg__settings_flag(s, "append", &c->append, err));
    if (!filename || *filename == '\0')
        PG_FAIL(PG_E_ARG, "CSVLogger: no filename given");
    const size_t n = strlen(separator);
    if (n == 0 || n >= sizeof c->separator ||
        pg__utf8_at((const unsigned char *)separator, n, &code) != n ||
        strchr("\"\r\n", *separator))
        PG_FAIL(PG_E_ARG, "CSVLogger: separator \"%s\" is not one character", PG_SHOW(separator));
    memcpy(c->separator, separator, n + 1);
    PG_TRY(check_file(filename, err));
    c->filename = pg__mem_strdup(filename);
    if (!c->filename)
        PG_TRY(pg__nomem(err));
done:
    return st;
}

/* ---- rows ---- */

/* Quotes a field that contains separators or line ends. */
static pg_status put_field(csv *c, const char *text, pg_err *err)
{
    pg__str *to = &c->file.pending;
    pg_status st = PG_OK;
    if (!strstr(text, c->separator) && !strpbrk(text, "\"\r\n"))
        return pg__str_puts(to, text, err);
    PG_TRY(pg__str_puts(to, "\"", err));
    for (; *text; text++)
        PG_TRY(pg__str_add(to, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1, err));
    PG_TRY(pg__str_puts(to, "\"", err));
done:
    return st;
}

/* Sorted; with names for the validation's logs even if the first epoch has none. */
static pg_status choose_keys(csv *c, const pg_logs *logs, pg_err *err)
{
    size_t n_val = 0;
    pg_status st = PG_OK;
    for (size_t i = 0; i < logs->n; i++) {
        PG_TRY(pg__strs_add(&c->keys, logs->names[i], strlen(logs->names[i]), err));
        n_val += strncmp(logs->names[i], "val_", 4) == 0;
    }
    pg__strs_sort(&c->keys);
    for (size_t i = 0; n_val == 0 && i < logs->n; i++)
        PG_TRY(pg__strs_printf(&c->keys, err, "val_%s", c->keys.v[i]));
done:
    return st;
}

static pg_status put_header(csv *c, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(put_field(c, "epoch", err));
    for (size_t i = 0; i < c->keys.n; i++) {
        PG_TRY(pg__str_puts(&c->file.pending, c->separator, err));
        PG_TRY(put_field(c, c->keys.v[i], err));
    }
    PG_TRY(pg__str_puts(&c->file.pending, "\r\n", err));
    c->needs_header = 0;
done:
    return st;
}

/* Keras to 2.15 writes the learning rate as NumPy's float32, everything else as Python's float. */
static pg__real value_of(const pg__fit *f, const char *name, double v)
{
    if (strcmp(name, f->rate_name) == 0 && !f->t->net.rules->keras3)
        return pg__real_as_numpy((float)v);
    return pg__real_of((double)(float)v);
}

static pg_status put_row(csv *c, const pg__fit *f, const pg_logs *logs, pg_err *err)
{
    char number[32];
    pg_status st = PG_OK;
    (void)snprintf(number, sizeof number, "%zu", f->epoch);
    PG_TRY(put_field(c, number, err));
    for (size_t i = 0; i < c->keys.n; i++) {
        double v;
        const int has = pg__logs_get(logs, c->keys.v[i], &v);
        PG_TRY(pg__str_puts(&c->file.pending, c->separator, err));
        PG_TRY(put_field(c, has ? value_of(f, c->keys.v[i], v).s : "NA", err));
    }
    PG_TRY(pg__str_puts(&c->file.pending, "\r\n", err));
done:
    return st;
}

/* ---- the file ---- */

static pg_status begin(csv *c, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__folder_make_for(c->filename, err));
    PG_TRY(pg__append_open(&c->file, c->filename, c->append ? PG_APPEND_ON : PG_APPEND_OVER, err));
    c->needs_header = c->file.n_bytes == 0;
done:
    return st;
}

/* Continues the file of an interrupted run: drops rows after its state, which will come again. */
static pg_status resume(csv *c, pg__fit *f, pg_err *err)
{
    pg_err why = {0};
    pg_status st = pg__append_resume(&c->file, &why);
    if (st == PG_OK)
        return st;
    if (why.sys != ENOENT) {
        if (err)
            *err = why;
        return st;
    }
    PG_TRY(pg__fit_event(f, PG_EVENT_WARNING, c->filename, err,
                         "CSVLogger: %s; continuing in a new file", why.msg));
    PG_TRY(begin(c, err));
done:
    return st;
}

static pg_status train_begin(void *self, pg__fit *f, pg_err *err)
{
    csv *c = self;
    if (f->resumed && c->file.path && strcmp(c->file.path, c->filename) == 0)
        return resume(c, f, err);
    pg__strs_fini(&c->keys);
    c->file.pending.n = 0;
    return begin(c, err);
}

/* Writes pending rows; a file that was removed is begun anew, with its header. */
static pg_status flush(csv *c, pg_err *err)
{
    pg_err why = {0};
    pg__str rows = {0};
    pg_status st = pg__append_flush(&c->file, &why);
    if (st == PG_OK || why.sys != ENOENT) {
        if (st != PG_OK && err)
            *err = why;
        return st;
    }
    PG_TRY(pg__append_open(&c->file, c->filename, PG_APPEND_OVER, err));
    rows = c->file.pending;
    c->file.pending = (pg__str){0};
    if (strncmp(rows.s, "epoch", 5) != 0 && strncmp(rows.s, "\"epoch", 6) != 0)
        PG_TRY(put_header(c, err));
    PG_TRY(pg__str_add(&c->file.pending, rows.s, rows.n, err));
    PG_TRY(pg__append_flush(&c->file, err));
done:
    pg__str_fini(&rows);
    return st;
}

static pg_status epoch_end(void *self, pg__fit *f, const pg_logs *logs, pg_err *err)
{
    csv *c = self;
    pg_err why = {0};
    pg_status st = PG_OK;
    const int failed = c->fails;
    if (c->keys.n == 0)
        PG_TRY(choose_keys(c, logs, err));
    if (c->needs_header)
        PG_TRY(put_header(c, err));
    PG_TRY(put_row(c, f, logs, err));
    c->fails = flush(c, &why) != PG_OK;
    if (c->fails && !failed)
        st = pg__fit_event(f, PG_EVENT_WARNING, c->filename, err,
                           "CSVLogger: %s; will retry at the end of the next epoch", why.msg);
done:
    return st;
}

static pg_status train_end(void *self, pg__fit *f, pg_err *err)
{
    csv *c = self;
    pg_err why = {0};
    (void)err;
    const pg_status st = flush(c, &why);
    if (st != PG_OK && f->missing == PG_OK) {
        f->missing = st;
        f->why = why;
    }
    return PG_OK;
}

/* ---- state ---- */

static void keep_keys(pg__strs *keys, pg__archive *a)
{
    size_t n = keys->n;
    pg__archive_size(a, &n);
    for (size_t i = 0; i < n && a->st == PG_OK; i++) {
        char *name = a->writes ? keys->v[i] : NULL;
        pg__archive_text(a, &name);
        if (a->writes || a->st != PG_OK)
            continue;
        a->st = name ? pg__strs_add(keys, name, strlen(name), NULL) : PG_E_FORMAT;
        pg__mem_free(name);
    }
}

static void keep(void *self, pg__fit *f, pg__archive *a)
{
    csv *c = self;
    (void)f;
    pg__archive_append(a, &c->file);
    pg__archive_int(a, &c->needs_header);
    keep_keys(&c->keys, a);
}

static void close(void *self, pg__fit *f)
{
    csv *c = self;
    (void)f;
    pg__append_fini(&c->file);
    pg__strs_fini(&c->keys);
    pg__mem_free(c->filename);
}

const pg__cb_type pg__cb_csv_logger = {.name = "CSVLogger",
                                       .n_bytes = sizeof(csv),
                                       .writes = 1,
                                       .open = open,
                                       .train_begin = train_begin,
                                       .epoch_end = epoch_end,
                                       .train_end = train_end,
                                       .keep = keep,
                                       .close = close};
