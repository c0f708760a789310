/* data_csv.c - tables of numbers as text (RFC 4180; also separated by ';' or tabs), parsed once
 * into memory. The first row is a header if one of its fields is not a number. The model decides
 * which columns are targets: those named like its outputs, or y, y0, ...; without such names the
 * last one. "w", "w0", ... are weights of rows. Columns with the same name, or with .1, .2 appended
 * as in pandas, become one array. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bsd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "train/data/data_impl.h"

#define MAX_DIGIT 15 /* decimal digits that a double holds exactly */

typedef struct table {
    pg__strs names; /* of the columns; empty: no header */
    double *values; /* row by row */
    size_t n_values, cap_values, n_cols;
    uint64_t n_rows;
} table;

/* ---- text ---- */

typedef struct text {
    pg__io *io;
    uint64_t at; /* file offset of the data not yet in buf */
    char *buf;   /* NUL after each line */
    size_t cap, from, to;
    uint64_t line; /* number of the current line */
    char separator;
    locale_t plain;
} text;

/* The text up to '\n' or the end, without the '\n'; *out NULL: no more. */
static pg_status next_line(text *t, char **out, pg_err *err)
{
    size_t looked = 0;
    pg_status st = PG_OK;
    for (;;) {
        char *end = memchr(t->buf + t->from + looked, '\n', t->to - t->from - looked);
        const uint64_t left = pg__io_size(t->io) - t->at;
        if (end || (left == 0 && t->from < t->to)) {
            *out = t->buf + t->from;
            end = end ? end : t->buf + t->to;
            t->from = (size_t)(end - t->buf) + 1;
            t->to = t->to < t->from ? t->from : t->to;
            if (end > *out && end[-1] == '\r')
                end--;
            *end = '\0';
            t->line++;
            return PG_OK;
        }
        if (left == 0)
            break;
        looked = t->to - t->from;
        memmove(t->buf, t->buf + t->from, looked);
        t->from = 0;
        t->to = looked;
        if (t->to > PG_LIMIT_CSV_LINE)
            PG_FAIL(PG_E_LIMIT, "line %llu is longer than %zu bytes",
                    (unsigned long long)t->line + 1, PG_LIMIT_CSV_LINE);
        const size_t n = left < PG_COPY_BYTES ? (size_t)left : PG_COPY_BYTES;
        if (pg__mem_grow(&t->buf, &t->cap, t->to + n + 2, 1))
            return pg__nomem(err);
        PG_TRY(pg__io_read(t->io, t->at, t->buf + t->to, n, err));
        t->at += n;
        t->to += n;
    }
    *out = NULL;
done:
    return st;
}

/* The next field of a line, NUL-terminated, without blanks and quotes around it; NULL: no more.
 * *rest moves past it. */
static char *next_field(const text *t, char **rest)
{
    char *s = *rest, *end;
    if (!s)
        return NULL;
    while (*s == ' ')
        s++;
    if (*s == '"') {
        end = strchr(++s, '"');
        end = end ? end : s + strlen(s);
        *rest = strchr(end, t->separator);
    } else {
        end = strchr(s, t->separator);
        *rest = end;
        end = end ? end : s + strlen(s);
    }
    *rest = *rest ? *rest + 1 : NULL;
    while (end > s && end[-1] == ' ')
        end--;
    *end = '\0';
    return s;
}

/* A number with few digits is a whole number over a power of ten, both exact, so the quotient is
 * correctly rounded. strtod() parses the rest, independent of the program's locale. */
static int parse_number(const text *t, const char *s, double *out)
{
    static const double tens[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const char *c = s + (*s == '-');
    uint64_t whole = 0;
    int digits = 0, decimals = 0, point = 0;
    for (; (*c >= '0' && *c <= '9') || (*c == '.' && !point); c++) {
        if (*c == '.') {
            point = 1;
            continue;
        }
        whole = digits < MAX_DIGIT ? whole * 10 + (uint64_t)(*c - '0') : whole;
        digits++;
        decimals += point;
    }
    if (*c == '\0' && digits > 0 && digits <= MAX_DIGIT) {
        *out = (double)whole / tens[decimals];
        *out = *s == '-' ? -*out : *out;
        return 1;
    }
    char *end = NULL;
    *out = strtod_l(s, &end, t->plain);
    return end != s && *end == '\0';
}

/* ---- rows ---- */

/* The first line determines the number of columns and the separator. */
static pg_status read_header(table *b, text *t, char *line, int *is_header, pg_err *err)
{
    char *rest, *copy = NULL;
    const char *field;
    double v;
    pg_status st = PG_OK;
    if (strncmp(line, "\xEF\xBB\xBF", 3) == 0)
        line += 3;
    t->separator = strchr(line, ',') ? ',' : strchr(line, ';') ? ';' : '\t';
    if (!(copy = pg__mem_strdup(line)))
        return pg__nomem(err);
    for (rest = copy; (field = next_field(t, &rest)); b->n_cols++) {
        *is_header |= !parse_number(t, field, &v);
        PG_TRY(pg__strs_add(&b->names, field, strlen(field), err));
    }
    if (!*is_header)
        pg__strs_fini(&b->names);
done:
    pg__mem_free(copy);
    return st;
}

static pg_status read_row(table *b, const text *t, char *line, pg_err *err)
{
    char *rest = line;
    const char *field;
    size_t n = 0;
    if (pg__mem_grow(&b->values, &b->cap_values, b->n_values + b->n_cols, sizeof *b->values))
        return pg__nomem(err);
    for (; (field = next_field(t, &rest)); n++) {
        if (n < b->n_cols && !parse_number(t, field, &b->values[b->n_values + n]))
            return pg_fail(err, PG_E_FORMAT, "line %llu, column %zu: \"%s\" is not a number",
                           (unsigned long long)t->line, n + 1, PG_SHOW(field));
    }
    if (n != b->n_cols)
        return pg_fail(err, PG_E_FORMAT, "line %llu has %zu columns, the first line has %zu",
                       (unsigned long long)t->line, n, b->n_cols);
    b->n_values += n;
    b->n_rows++;
    return PG_OK;
}

static pg_status read_table(table *b, text *t, pg_err *err)
{
    char *line = NULL;
    int is_header = 0;
    pg_status st = PG_OK;
    for (;;) {
        PG_TRY(next_line(t, &line, err));
        if (!line)
            break;
        if (*line == '\0')
            continue;
        if (b->n_cols == 0) {
            PG_TRY(read_header(b, t, line, &is_header, err));
            if (is_header)
                continue;
            line += strncmp(line, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
        }
        PG_TRY(read_row(b, t, line, err));
    }
    if (b->n_rows == 0)
        PG_FAIL(PG_E_MISMATCH, "holds no rows");
done:
    return st;
}

/* ---- the source ---- */

/* Claims anything without bytes that do not occur in text. */
static int claims(const unsigned char *head, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (head[i] < ' ' && head[i] != '\t' && head[i] != '\r' && head[i] != '\n')
            return 0;
    return n > 0;
}

static void close_csv(void *state)
{
    table *b = state;
    pg__strs_fini(&b->names);
    pg__mem_free(b->values);
    pg__mem_free(b);
}

static pg_status open_csv(pg_data *d, pg__io *io, const char *path, void **state, pg_err *err)
{
    text t = {.io = io};
    pg_status st = PG_OK;
    table *b = pg__mem_array(1, sizeof *b);
    (void)d, (void)path;
    if (!b)
        return pg__nomem(err);
    *state = b;
    t.plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!t.plain)
        return pg__nomem(err);
    if (pg__mem_grow(&t.buf, &t.cap, 2, 1))
        PG_TRY(pg__nomem(err));
    PG_TRY(read_table(b, &t, err));
done:
    freelocale(t.plain);
    pg__mem_free(t.buf);
    return st;
}

/* ---- columns as arrays ---- */

typedef struct columns {
    const table *table;
    size_t n;
    size_t at[]; /* columns of the table */
} columns;

static pg_status read_columns(const pg__array *a, uint64_t first, uint64_t n, void *raw,
                              pg_err *err)
{
    const columns *c = a->self;
    double *to = raw;
    (void)err;
    for (uint64_t r = first; r < first + n; r++)
        for (size_t k = 0; k < c->n; k++)
            *to++ = c->table->values[r * c->table->n_cols + c->at[k]];
    return PG_OK;
}

/* "y" and "y.1" are both columns of y. */
static int is_named(const char *column, const char *name)
{
    const size_t n = strlen(name);
    if (strncmp(column, name, n) != 0)
        return 0;
    if (column[n] == '\0')
        return 1;
    const size_t digits = strspn(column + n + 1, "0123456789");
    return column[n] == '.' && digits > 0 && column[n + 1 + digits] == '\0';
}

/* Makes columns one array, in the order of at[]. */
static pg_status add_columns(pg_data *d, const table *b, const size_t *at, size_t n,
                             const char *key, pg_err *err)
{
    if (n == 0)
        return PG_OK;
    columns *c = pg__mem_array(1, sizeof *c + n * sizeof *c->at);
    pg__array a = {.key = pg__mem_strdup(key),
                   .dims = {2, {b->n_rows, n}},
                   .dtype = PG_F64,
                   .read = read_columns,
                   .self = c,
                   .close = pg__mem_free};
    if (!c || !a.key) {
        pg__mem_free(c);
        pg__mem_free(a.key);
        return pg__nomem(err);
    }
    c->table = b;
    c->n = n;
    memcpy(c->at, at, n * sizeof *at);
    return pg__data_add(d, &a, err);
}

/* Makes the marked columns one array, in the order of the table. */
static pg_status add_marked(pg_data *d, const table *b, unsigned char *taken, unsigned char mark,
                            const char *key, pg_err *err)
{
    size_t n = 0, *at = pg__mem_array(b->n_cols, sizeof *at);
    if (!at)
        return pg__nomem(err);
    for (size_t k = 0; k < b->n_cols; k++)
        if (taken[k] == mark) {
            at[n++] = k;
            taken[k] = 2; /* used */
        }
    const pg_status st = add_columns(d, b, at, n, key, err);
    pg__mem_free(at);
    return st;
}

/* Makes the columns named "x0", or "x" if there is only one array, or like the layer, array "x0".
 */
static pg_status take(pg_data *d, const table *b, unsigned char *taken, char stem, size_t k,
                      size_t n, const char *layer, pg_err *err)
{
    char numbered[32], bare[2] = {stem, '\0'};
    (void)snprintf(numbered, sizeof numbered, "%c%zu", stem, k);
    for (size_t col = 0; col < b->names.n; col++)
        if (!taken[col] &&
            (is_named(b->names.v[col], numbered) || (n == 1 && is_named(b->names.v[col], bare)) ||
             (layer && is_named(b->names.v[col], layer))))
            taken[col] = 1;
    return add_marked(d, b, taken, 1, numbered, err);
}

/* Takes the columns that pg_data_select() named, in that order: all for the only input (target), or
 * one each. */
static pg_status take_named(pg_data *d, const table *b, unsigned char *taken, const pg__strs *names,
                            char stem, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    size_t *at = pg__mem_array(names->n, sizeof *at);
    if (!at)
        return pg__nomem(err);
    if (n > 1 && names->n != n)
        PG_FAIL(PG_E_MISMATCH, "%zu columns are named, the model has %zu %s", names->n, n,
                stem == 'x' ? "inputs" : "outputs");
    for (size_t i = 0; i < names->n; i++) {
        char key[32];
        const size_t col = pg__strs_find(&b->names, names->v[i]);
        if (col == (size_t)-1)
            PG_FAIL(PG_E_MISMATCH,
                    b->names.n ? "holds no column \"%s\"" : "has no header with \"%s\"",
                    PG_SHOW(names->v[i]));
        if (taken[col])
            PG_FAIL(PG_E_MISMATCH, "column \"%s\" is named twice", PG_SHOW(names->v[i]));
        taken[col] = 2;
        at[i] = col;
        (void)snprintf(key, sizeof key, "%c%zu", stem, n > 1 ? i : 0);
        if (n > 1)
            PG_TRY(add_columns(d, b, &at[i], 1, key, err));
        else if (i + 1 == names->n)
            PG_TRY(add_columns(d, b, at, names->n, key, err));
    }
done:
    pg__mem_free(at);
    return st;
}

/* Notes how the last column was interpreted. */
static pg_status note_last(pg_data *d, const table *b, int is_target, pg_err *err)
{
    const char *what = is_target ? "is the target" : "would be the target, and is left out";
    if (b->names.n > 0)
        return pg__data_note(d, err, "%s: the last column, \"%s\", %s", PG_SHOW(d->path),
                             PG_SHOW(b->names.v[b->n_cols - 1]), what);
    return pg__data_note(d, err, "%s: the last of %zu columns %s", PG_SHOW(d->path), b->n_cols,
                         what);
}

/* The remaining columns are for the only input; without named targets the last column is the only
 * target. For predictions, one column more than the input takes is the target, which is not needed.
 */
static pg_status take_rest(pg_data *d, const table *b, unsigned char *taken, const pg__ends *e,
                           int has_target, pg_err *err)
{
    const pg__dims *in = &e->input_dims[0];
    const size_t last = b->n_cols - 1;
    pg_status st = PG_OK;
    if (b->n_cols > 1 && !taken[last] && !has_target &&
        (e->targeted ? e->n_outputs == 1 && e->targeted[0]
                     : in->rank == 2 && in->d[1] == b->n_cols - 1)) {
        taken[last] = 1;
        PG_TRY(add_marked(d, b, taken, 1, "y0", err));
        PG_TRY(note_last(d, b, e->targeted != NULL, err));
    }
    if (e->n_inputs == 1 && !pg__data_find(d, "x0"))
        PG_TRY(add_marked(d, b, taken, 0, "x0", err));
done:
    return st;
}

static int has_all(const table *b, const pg__strs *names)
{
    for (size_t i = 0; i < names->n; i++)
        if (pg__strs_find(&b->names, names->v[i]) == (size_t)-1)
            return 0;
    return 1;
}

static pg_status bind_csv(pg_data *d, void *state, const pg__ends *e, pg_err *err)
{
    const table *b = state;
    int has_target = 0;
    pg_status st = PG_OK;
    unsigned char *taken = pg__mem_array(b->n_cols, 1);
    if (!taken)
        return pg__nomem(err);
    pg__data_drop(d);
    if (d->y.n > 0 && (e->targeted || has_all(b, &d->y)))
        PG_TRY(take_named(d, b, taken, &d->y, 'y', e->n_outputs, err));
    if (d->x.n > 0)
        PG_TRY(take_named(d, b, taken, &d->x, 'x', e->n_inputs, err));
    for (size_t k = 0; k < e->n_outputs; k++) {
        char key[32];
        (void)snprintf(key, sizeof key, "y%zu", k);
        if (d->y.n == 0)
            PG_TRY(take(d, b, taken, 'y', k, e->n_outputs, e->output_names[k], err));
        PG_TRY(take(d, b, taken, 'w', k, e->n_outputs, NULL, err));
        has_target |= pg__data_find(d, key) != NULL;
    }
    for (size_t k = 0; k < e->n_inputs && d->x.n == 0; k++)
        PG_TRY(take(d, b, taken, 'x', k, e->n_inputs, e->input_names[k], err));
    PG_TRY(take_rest(d, b, taken, e, has_target || d->y.n > 0, err));
done:
    pg__mem_free(taken);
    return st;
}

const pg__source pg__source_csv = {.name = "CSV",
                                   .claims = claims,
                                   .open = open_csv,
                                   .bind = bind_csv,
                                   .close = close_csv,
                                   .has_columns = 1};
