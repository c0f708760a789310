/* ranks_data.c - do all ranks read the same data? Compares checksums before the first batch: of all
 * data if they are small, else of the first and last rows and of rows (of large ones: blocks)
 * spread by the seed. Only if they differ are they compared piece by piece, to name the row.
 *
 *   array    compared as a whole: one of the feed's, or the names of the files with its rows
 *   unit     the smallest piece that is read: a row, or a block of a large one
 *   group    units that share a checksum, about a thousandth of what is compared */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/philox.h"
#include "base/try.h"
#include "base/watch.h"
#include "train/model/ranks_data.h"
#include "train/step/step.h"

#define ALL_BELOW ((uint64_t)256 * 1000 * 1000) /* bytes of all arrays together */
#define SPREAD    1024                          /* units, in addition to those at the ends */
#define AT_ENDS   16                            /* first units, and as many last ones */
#define GROUPS    1024                          /* at most */
#define BLOCK     ((uint64_t)64 << 10)          /* bytes of a large row read at once */
#define PIECE     ((uint64_t)256 << 10)         /* bytes of small ones */

/* ---- what there is ---- */

/* What ranks exchange about an array of a feed. */
typedef struct form {
    uint64_t is_there, dtype, big_endian, is_files, is_flat;
    pg__dims dims;
} form;

typedef struct heading {
    uint64_t n_rows, n_bytes; /* n_bytes: at most ALL_BELOW, which means that or more */
    uint64_t mark;            /* checksum of these rows, if known; 0: not yet */
} heading;

/* An array as it is compared. */
typedef struct column {
    pg__array view; /* its rows are those of the array, or single elements */
    const pg__array *of;
    int are_names;
    uint64_t first, n_units, each; /* each: rows of the view in a unit; the last may have fewer */
    uint64_t end;                  /* of the view's rows */
    uint64_t per_row;              /* rows of the view per row of the array */
    uint64_t *picks;               /* units, ascending; NULL: all */
    uint64_t n_picks;
} column;

static size_t n_slots(const pg__feed *f)
{
    return f->t->net.n_inputs + 2 * f->t->net.n_outputs;
}

static const pg__array *array_at(const pg__feed *f, size_t i)
{
    const size_t n = f->t->net.n_inputs, m = f->t->net.n_outputs;
    if (i < n)
        return f->inputs[i].array;
    return i < n + m ? f->targets[i - n].array : f->weights[i - n - m].array;
}

static size_t n_arrays(const pg__feed *f)
{
    size_t n = 0;
    for (size_t i = 0; i < n_slots(f); i++)
        n += array_at(f, i) != NULL;
    return n;
}

static form form_of(const pg__array *a)
{
    form s;
    memset(&s, 0, sizeof s); /* clears padding, which is compared too */
    if (!a)
        return s;
    s.is_there = 1;
    s.dtype = (uint64_t)a->dtype;
    s.big_endian = (uint64_t)(a->big_endian != 0);
    s.is_files = a->file_of != NULL;
    s.is_flat = (uint64_t)a->is_flat;
    s.dims.rank = a->dims.rank;
    for (uint32_t k = 1; k < a->dims.rank; k++)
        s.dims.d[k] = a->dims.d[k];
    return s;
}

/* Counts up to ALL_BELOW. */
static uint64_t bytes_of(const pg__feed *f)
{
    uint64_t n = 0;
    for (size_t i = 0; i < n_slots(f) && n < ALL_BELOW; i++) {
        const pg__array *a = array_at(f, i);
        const char *name;
        struct stat info;
        for (uint64_t r = 0; a && a->file_of && r < f->n_rows && n < ALL_BELOW; r++)
            n += stat(a->file_of(a, f->first + r, &name), &info) == 0 ? (uint64_t)info.st_size : 0;
        if (a && !a->file_of)
            n += pg__dim_mul(f->n_rows, pg__array_row_bytes(a));
    }
    return n < ALL_BELOW ? n : ALL_BELOW;
}

/* ---- which units ---- */

/* Picks one unit from each of SPREAD equal parts between the ends. */
static pg_status pick(column *c, uint64_t seed, pg_err *err)
{
    const uint64_t inner = c->n_units - 2 * (uint64_t)AT_ENDS;
    size_t n = 0;
    c->picks = pg__mem_array(SPREAD + 2 * AT_ENDS, sizeof *c->picks);
    if (!c->picks)
        return pg__nomem(err);
    for (uint64_t k = 0; k < AT_ENDS; k++)
        c->picks[n++] = k;
    for (uint32_t k = 0; k < SPREAD; k++) {
        const uint64_t from = inner / SPREAD * k + inner % SPREAD * k / SPREAD;
        const uint64_t to = inner / SPREAD * (k + 1) + inner % SPREAD * (k + 1) / SPREAD;
        const pg__random r = pg__philox(seed, k, 0, 0, PG_STREAM_SHUFFLE);
        c->picks[n++] = AT_ENDS + from + ((uint64_t)r.v[0] << 32 | r.v[1]) % (to - from);
    }
    for (uint64_t k = AT_ENDS; k > 0; k--)
        c->picks[n++] = c->n_units - k;
    c->n_picks = n;
    return PG_OK;
}

static pg_status open_column(column *c, const pg__feed *f, const pg__array *a, int are_names,
                             int takes_all, pg_err *err)
{
    const uint64_t row_bytes = pg__array_row_bytes(a);
    *c = (column){.view = *a, .of = a, .are_names = are_names, .per_row = 1, .each = 1};
    if (!a->file_of && a->is_flat && row_bytes > BLOCK) {
        c->view.dims = (pg__dims){1, {0}};
        c->per_row = pg__array_row_elems(a);
        c->each = BLOCK / pg_dtype_bytes(a->dtype);
    }
    c->first = f->first * c->per_row;
    c->end = c->first + f->n_rows * c->per_row;
    c->n_units = c->n_picks = (c->end - c->first + c->each - 1) / c->each;
    if (takes_all || are_names || c->n_units <= SPREAD + 2 * AT_ENDS)
        return PG_OK;
    return pick(c, f->t->loop.seed, err);
}

/* ---- checksums ---- */

static uint64_t unit_at(const column *c, uint64_t pick)
{
    return c->picks ? c->picks[pick] : pick;
}

static uint64_t row_of(const column *c, uint64_t pick)
{
    return (c->first + unit_at(c, pick) * c->each) / c->per_row;
}

static pg_status add_file(uint32_t *crc, const char *path, unsigned char *buf, pg_err *err)
{
    pg__io *io = NULL;
    pg_status st = pg__io_open(&io, path, err); /* its message names the file */
    const uint64_t size = st == PG_OK ? pg__io_size(io) : 0;
    for (uint64_t at = 0; at < size && st == PG_OK; at += PIECE) {
        const size_t n = (size_t)(size - at < PIECE ? size - at : PIECE);
        st = pg__io_read(io, at, buf, n, err);
        if (st == PG_OK)
            *crc = pg__crc32(*crc, buf, n);
        else
            pg_err_prefix(err, PG_SHOW(path));
    }
    pg__io_close(io);
    return st;
}

/* Reads consecutive units at once. */
static pg_status add_rows(uint32_t *crc, const column *c, uint64_t *pick, uint64_t to,
                          unsigned char *buf, pg_err *err)
{
    const uint64_t bytes = pg__array_row_bytes(&c->view), from = unit_at(c, *pick);
    uint64_t n = 1;
    while (*pick + n < to && unit_at(c, *pick + n) == from + n && (n + 1) * c->each * bytes < PIECE)
        n++;
    *pick += n;
    const uint64_t first = c->first + from * c->each;
    n = n * c->each < c->end - first ? n * c->each : c->end - first;
    const pg_status st = c->of->read(&c->view, first, n, buf, err);
    if (st == PG_OK)
        *crc = pg__crc32(*crc, buf, (size_t)(n * bytes));
    else if (st != PG_E_NOMEM && !c->of->names_files)
        pg_err_prefix(err, c->of->path);
    return st;
}

/* The checksum of picks [from, to). */
static pg_status sum_up(uint32_t *out, const column *c, uint64_t from, uint64_t to,
                        unsigned char *buf, pg_err *err)
{
    const char *path, *name;
    pg_status st = PG_OK;
    *out = 0;
    for (uint64_t k = from; k < to && st == PG_OK;) {
        if (!c->of->file_of) {
            st = add_rows(out, c, &k, to, buf, err);
            continue;
        }
        path = c->of->file_of(c->of, row_of(c, k++), &name);
        if (c->are_names)
            *out = pg__crc32(*out, name, strlen(name) + 1);
        else
            st = add_file(out, path, buf, err);
    }
    return st;
}

static uint64_t n_groups(const column *c)
{
    return c->n_picks < GROUPS ? c->n_picks : GROUPS;
}

static uint64_t group_begin(const column *c, uint64_t g)
{
    const uint64_t n = n_groups(c);
    return c->n_picks / n * g + c->n_picks % n * g / n;
}

static pg_status sum_groups(uint32_t *out, const column *c, unsigned char *buf,
                            const volatile int *cancel, pg_err *err)
{
    pg_status st = PG_OK;
    for (uint64_t g = 0; g < n_groups(c) && st == PG_OK; g++)
        st = pg__cancelled(cancel)
                 ? pg_fail(err, PG_E_CANCELLED, "interrupted")
                 : sum_up(&out[g], c, group_begin(c, g), group_begin(c, g + 1), buf, err);
    return st;
}

/* Holds a row, or a piece of many. */
static unsigned char *new_buffer(const column *c)
{
    const uint64_t unit = c->of->file_of ? PIECE : pg__array_row_bytes(&c->view) * c->each;
    return pg__mem_array((size_t)(unit > PIECE ? unit : PIECE), 1);
}

/* ---- what differs ---- */

static const char *host(const pg_trainer *t, size_t rank)
{
    return pg__comm_host(t->ranks->comm, rank);
}

/* The first of n numbers in which rank k differs from rank 0; n: none. */
static pg_status first_other(uint64_t *out, pg_trainer *t, const uint32_t *mine, uint64_t n,
                             size_t k, pg_err *err)
{
    uint32_t *all = pg__mem_array(pg__comm_size(t->ranks->comm) * n, sizeof *all);
    pg_status st = PG_OK;
    if (!all)
        return pg__nomem(err);
    PG_TRY(pg__comm_gather(t->ranks->comm, mine, all, n * sizeof *mine,
                           "where the ranks' data differ", err));
    for (*out = 0; *out < n && all[*out] == all[k * n + *out];)
        ++*out;
done:
    pg__mem_free(all);
    return st;
}

static pg_status say_names(pg_trainer *t, const column *c, uint64_t row, size_t k, pg_err *err)
{
    char mine[256] = "", *all = pg__mem_array(pg__comm_size(t->ranks->comm), sizeof mine);
    const char *name;
    pg_status st = PG_OK;
    if (!all)
        return pg__nomem(err);
    (void)c->of->file_of(c->of, row, &name);
    snprintf(mine, sizeof mine, "%s", PG_SHOW(name));
    PG_TRY(pg__comm_gather(t->ranks->comm, mine, all, sizeof mine, "names of files", err));
    PG_FAIL(PG_E_MISMATCH, "%s: file %s is %s on %s (rank 0), %s on %s (rank %zu)", c->of->path,
            PG_NUM(row), all, host(t, 0), all + k * sizeof mine, host(t, k), k);
done:
    pg__mem_free(all);
    return st;
}

static pg_status say_row(pg_trainer *t, const column *c, uint64_t pick, uint64_t n, size_t k,
                         pg_err *err)
{
    const uint64_t row = row_of(c, pick), last = row_of(c, pick + n - 1);
    const char *name;
    if (c->are_names)
        return say_names(t, c, row, k, err);
    if (c->of->file_of) {
        (void)c->of->file_of(c->of, row, &name);
        return pg_fail(err, PG_E_MISMATCH, "%s/%s: not the same on %s (rank 0) and %s (rank %zu)",
                       c->of->path, PG_SHOW(name), host(t, 0), host(t, k), k);
    }
    return pg_fail(err, PG_E_MISMATCH,
                   "%s: %s%s%s%s of \"%s\" %s not the same on %s (rank 0) and %s (rank %zu)",
                   c->of->path, last > row ? "some of rows " : "row ", PG_NUM(row),
                   last > row ? " to " : "", last > row ? PG_NUM(last) : "", PG_SHOW(c->of->key),
                   last > row ? "are" : "is", host(t, 0), host(t, k), k);
}

/* Rank k's checksums differ from those of rank 0: narrows that down, all ranks together. If a file
 * is changed meanwhile, no difference may be found. */
static pg_status find_row(pg_trainer *t, const column *c, const uint32_t *groups, size_t k,
                          unsigned char *buf, pg_err *err)
{
    uint64_t g = 0, at = 0;
    uint32_t *units = NULL;
    pg_status st = PG_OK;
    PG_TRY(first_other(&g, t, groups, n_groups(c), k, err));
    const uint64_t from = group_begin(c, g), n = group_begin(c, g + 1) - from;
    units = pg__mem_array(n, sizeof *units);
    if (!units)
        PG_TRY(pg__nomem(err));
    for (uint64_t i = 0; i < n && st == PG_OK; i++)
        st = sum_up(&units[i], c, from + i, from + i + 1, buf, err);
    PG_TRY(pg__ranks_agree(t->ranks, st, err));
    PG_TRY(first_other(&at, t, units, n, k, err));
    PG_TRY(say_row(t, c, at < n ? from + at : from, at < n ? 1 : n, k, err));
done:
    pg__mem_free(units);
    if (st == PG_E_MISMATCH)
        pg_err_hint(err, "the same files on all machines, or a folder that they share");
    return st;
}

/* Extends the checksum *mark by what was compared. */
static pg_status compare_column(pg_trainer *t, const column *c, uint32_t *mark, pg_err *err)
{
    const pg__comm *comm = t->ranks->comm;
    uint32_t *groups = pg__mem_array(GROUPS, sizeof *groups);
    uint32_t *all = pg__mem_array(pg__comm_size(comm), sizeof *all);
    unsigned char *buf = new_buffer(c);
    pg_status st = groups && all && buf ? PG_OK : pg__nomem(err);
    if (st == PG_OK)
        st = sum_groups(groups, c, buf, t->ranks->cancel, err);
    PG_TRY(pg__ranks_agree(t->ranks, st, err));
    const uint32_t mine = pg__crc32(0, groups, n_groups(c) * sizeof *groups);
    PG_TRY(
        pg__comm_gather(t->ranks->comm, &mine, all, sizeof mine, "what the ranks' data are", err));
    for (size_t k = 1; k < pg__comm_size(comm); k++)
        if (all[k] != all[0])
            PG_TRY(find_row(t, c, groups, k, buf, err));
    *mark = pg__crc32(*mark, &mine, sizeof mine);
done:
    pg__mem_free(groups);
    pg__mem_free(all);
    pg__mem_free(buf);
    return st;
}

/* ---- all of it ---- */

static pg_status compare_headings(pg_trainer *t, const pg__feed *f, heading *of_0, int *is_known,
                                  pg_err *err)
{
    const pg__comm *c = t->ranks->comm;
    const heading mine = {f->n_rows, bytes_of(f),
                          pg__data_mark(f->data, f->first, f->n_rows, n_arrays(f))};
    heading *all = pg__mem_array(pg__comm_size(c), sizeof *all);
    pg_status st = PG_OK;
    if (!all)
        return pg__nomem(err);
    PG_TRY(pg__comm_gather(t->ranks->comm, &mine, all, sizeof mine, "how large the ranks' data are",
                           err));
    *is_known = all[0].mark != 0;
    for (size_t k = 1; k < pg__comm_size(c); k++) {
        if (all[k].n_rows != all[0].n_rows)
            PG_FAIL(PG_E_MISMATCH, "%s: %s rows on %s (rank 0), %s on %s (rank %zu)",
                    pg__data_path(f->data), PG_NUM(all[0].n_rows), host(t, 0),
                    PG_NUM(all[k].n_rows), host(t, k), k);
        *is_known = *is_known && all[k].mark == all[0].mark;
    }
    *of_0 = all[0];
done:
    pg__mem_free(all);
    return st;
}

static pg_status say_form(const pg_trainer *t, const pg__feed *f, size_t i, const form *a,
                          const form *b, size_t k, pg_err *err)
{
    const pg__array *own = array_at(f, i);
    const char *path = pg__data_path(f->data), *key = own && own->key ? own->key : "an array";
    if (a->is_there && b->is_there)
        return pg_fail(err, PG_E_MISMATCH,
                       "%s: \"%s\" has other shapes or types on %s (rank 0) than on %s (rank %zu)",
                       path, PG_SHOW(key), host(t, 0), host(t, k), k);
    return pg_fail(err, PG_E_MISMATCH, "%s: only %s (rank %zu) has weights of rows", path,
                   host(t, a->is_there ? 0 : k), a->is_there ? (size_t)0 : k);
}

static pg_status compare_forms(pg_trainer *t, const pg__feed *f, pg_err *err)
{
    const pg__comm *c = t->ranks->comm;
    const size_t n = n_slots(f), size = pg__comm_size(c);
    form *mine = pg__mem_array(n, sizeof *mine), *all = pg__mem_array(n * size, sizeof *all);
    pg_status st = mine && all ? PG_OK : pg__nomem(err);
    if (st != PG_OK)
        goto done;
    for (size_t i = 0; i < n; i++)
        mine[i] = form_of(array_at(f, i));
    PG_TRY(pg__comm_gather(t->ranks->comm, mine, all, n * sizeof *mine, "the ranks' arrays", err));
    for (size_t k = 1; k < size; k++)
        for (size_t i = 0; i < n; i++)
            if (memcmp(&all[i], &all[k * n + i], sizeof *all) != 0)
                PG_TRY(say_form(t, f, i, &all[i], &all[k * n + i], k, err));
done:
    pg__mem_free(mine);
    pg__mem_free(all);
    return st;
}

/* "data.npz: all of 1,797 rows on 2 ranks, 3 ms"; n_picked 0: everything was compared. */
static pg_status note(pg_trainer *t, const pg__feed *f, uint64_t n_picked, double began,
                      pg_err *err)
{
    return pg__strs_printf(&t->ranks->compared, err, "%s: %s%s of %s rows on %zu ranks, %.0f ms",
                           PG_SHOW(pg__data_path(f->data)), n_picked ? PG_NUM(n_picked) : "all",
                           n_picked ? " pieces, spread by the seed," : "", PG_NUM(f->n_rows),
                           pg__comm_size(t->ranks->comm), (pg__now() - began) * 1e3);
}

static pg_status compare_array(pg_trainer *t, const pg__feed *f, const pg__array *a, int takes_all,
                               uint32_t *mark, uint64_t *n_picked, pg_err *err)
{
    pg_status st = PG_OK;
    for (int are_names = a->file_of != NULL; are_names >= 0; are_names--) {
        column c;
        st = open_column(&c, f, a, are_names, takes_all, err);
        if (st == PG_OK)
            st = compare_column(t, &c, mark, err);
        *n_picked = c.picks ? c.n_picks : *n_picked;
        pg__mem_free(c.picks);
        if (st != PG_OK)
            break;
    }
    return st;
}

pg_status pg__ranks_same_data(pg_trainer *t, const pg__feed *f, pg_err *err)
{
    const double began = pg__now();
    uint64_t n_picked = 0;
    uint32_t mark = 0;
    heading of_0 = {0};
    int is_known = 0;
    pg_status st = PG_OK;
    if (!t->ranks)
        return PG_OK;
    PG_TRY(compare_headings(t, f, &of_0, &is_known, err));
    PG_TRY(compare_forms(t, f, err));
    if (is_known)
        goto done;
    for (size_t i = 0; i < n_slots(f); i++)
        if (array_at(f, i))
            PG_TRY(compare_array(t, f, array_at(f, i), of_0.n_bytes < ALL_BELOW, &mark, &n_picked,
                                 err));
    pg__data_set_mark(f->data, f->first, f->n_rows, n_arrays(f), mark);
    PG_TRY(note(t, f, n_picked, began, err));
done:
    return pg__ranks_known(t->ranks, st, err);
}

const char *pg_trainer_compared(const pg_trainer *t, size_t i)
{
    return t->ranks && i < t->ranks->compared.n ? t->ranks->compared.v[i] : NULL;
}
