/* data.c - the common part of all sources of training data. */
#include "train/data/data_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "io/scratch.h"
#include "train/data/data_random.h"

#define PIECE_BYTES     ((size_t)128 << 10) /* converted at a time: stays in the cache */

#define PG_SOURCE(name) extern const pg__source pg__source_##name;
#include "train/data/sources.def"
#undef PG_SOURCE

static const pg__source *const sources[] = {
#define PG_SOURCE(name) &pg__source_##name,
#include "train/data/sources.def"
#undef PG_SOURCE
};

/* ---- arrays ---- */

static void close_array(pg__array *a)
{
    pg__mem_free(a->key);
    pg__mem_free(a->why);
    if (a->close)
        a->close(a->self);
}

void pg__data_drop(pg_data *d)
{
    while (d->n_arrays > 0)
        close_array(&d->arrays[--d->n_arrays]);
    d->known.mark = 0;
}

pg_status pg__data_add(pg_data *d, const pg__array *a, pg_err *err)
{
    pg__array own = *a;
    if (pg__mem_grow(&d->arrays, &d->cap_arrays, d->n_arrays + 1, sizeof *d->arrays)) {
        close_array(&own);
        return pg__nomem(err);
    }
    own.path = d->n_parts > 0 ? d->parts[d->n_parts - 1].path : d->path;
    d->arrays[d->n_arrays++] = own;
    return PG_OK;
}

pg_status pg__data_add_unread(pg_data *d, const char *name, size_t len, const char *why,
                              pg_err *err)
{
    pg__array a = {.key = pg__mem_strndup(name, len), .why = pg__mem_strdup(why)};
    if (a.key && a.why)
        return pg__data_add(d, &a, err);
    close_array(&a);
    return pg__nomem(err);
}

static pg_status read_io(const pg__array *a, uint64_t first, uint64_t n, void *raw, pg_err *err)
{
    const uint64_t each = pg__array_row_bytes(a);
    return pg__io_read(a->self, a->at + first * each, raw, (size_t)(n * each), err);
}

static void close_io(void *self)
{
    pg__io_close(self);
}

void pg__array_in_io(pg__array *a, pg__io *io)
{
    a->read = read_io;
    a->is_flat = 1;
    a->self = pg__io_ref(io);
    a->close = close_io;
}

uint64_t pg__array_row_elems(const pg__array *a)
{
    pg__dims row = a->dims;
    row.d[0] = 1;
    return pg__dims_elems(&row);
}

uint64_t pg__array_row_bytes(const pg__array *a)
{
    return pg__array_row_elems(a) * pg_dtype_bytes(a->dtype);
}

const char *pg__data_path(const pg_data *d)
{
    return d->path;
}

const pg__array *pg__data_find(const pg_data *d, const char *key)
{
    for (size_t i = 0; i < d->n_arrays; i++)
        if (strcmp(d->arrays[i].role, key) == 0)
            return &d->arrays[i];
    for (size_t i = 0; i < d->n_arrays; i++)
        if (d->arrays[i].key && strcmp(d->arrays[i].key, key) == 0)
            return &d->arrays[i];
    return NULL;
}

uint32_t pg__data_mark(const pg_data *d, uint64_t first, uint64_t n, size_t n_arrays)
{
    const int fits = d->known.first == first && d->known.n == n && d->known.n_arrays == n_arrays;
    return fits ? d->known.mark : 0;
}

void pg__data_set_mark(pg_data *d, uint64_t first, uint64_t n, size_t n_arrays, uint32_t mark)
{
    d->known.first = first;
    d->known.n = n;
    d->known.n_arrays = n_arrays;
    d->known.mark = d->n_parts > 0 ? mark : 0;
}

/* ---- opening ---- */

/* Identifies a compressed file by its content. */
static pg_status identify(pg__part *p, pg__io **io, pg_err *err)
{
    unsigned char head[PG_SOURCE_HEAD];
    pg__io *inner = NULL;
    pg_status st = PG_OK;
    for (int unpacked = 0;; unpacked = 1) {
        const uint64_t size = pg__io_size(*io);
        const size_t n = size < sizeof head ? (size_t)size : sizeof head;
        PG_TRY(pg__io_read(*io, 0, head, n, err));
        for (size_t i = 0; !p->source && i < sizeof sources / sizeof *sources; i++)
            if (sources[i]->claims(head, n))
                p->source = sources[i];
        if (p->source || unpacked || n < 2 || head[0] != 0x1f || head[1] != 0x8b)
            break;
        PG_TRY(pg__gunzip(&inner, *io, err));
        pg__io_close(*io);
        *io = inner;
    }
    if (!p->source)
        PG_FAIL(
            PG_E_UNKNOWN,
            "is not in a known format for data: .npz, .npy, HDF5, CSV, IDX, a folder of pictures");
done:
    return st;
}

static int is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* The file of the newest part. */
static pg_status open_file(pg_data *d, pg__io **io, pg_err *err)
{
    pg__part *p = &d->parts[d->n_parts - 1];
    pg_status st = identify(p, io, err);
    if (st == PG_OK)
        st = p->source->open(d, *io, p->path, &p->state, err);
    if (st == PG_OK && d->n_arrays == 0 && !p->source->bind)
        st = pg_fail(err, PG_E_FORMAT, "holds no arrays (x0, y0, ...)");
    if (st != PG_OK && st != PG_E_NOMEM)
        pg_err_prefix(err, p->path);
    return st;
}

static pg_status open_part(pg_data *d, const char *path, size_t len, pg_err *err)
{
    pg__part *p = &d->parts[d->n_parts];
    pg__io *io = NULL;
    pg_status st = PG_OK;
    if (!(p->path = pg__mem_strndup(path, len)))
        return pg__nomem(err);
    d->n_parts++;
    if (is_folder(p->path)) { /* its own messages name the files in it */
        p->source = &pg__source_folder;
        return p->source->open(d, NULL, p->path, &p->state, err);
    }
    PG_TRY(pg__io_open(&io, p->path, err));
    st = open_file(d, &io, err);
done:
    pg__io_close(io);
    return st;
}

/* "A,B": each file gives one array. A comma in the name of an existing file does not separate. */
static pg_status open_list(pg_data *d, const char *list, pg_err *err)
{
    struct stat info;
    const int is_one = !strchr(list, ',') || stat(list, &info) == 0;
    size_t n = 1;
    pg_status st = PG_OK;
    for (const char *c = list; !is_one && *c; c++)
        n += *c == ',';
    d->parts = pg__mem_array(n, sizeof *d->parts);
    if (!d->parts)
        return pg__nomem(err);
    if (is_one)
        return open_part(d, list, strlen(list), err);
    for (size_t i = 0; i < n; i++) {
        const size_t len = strcspn(list, ","), had = d->n_arrays;
        PG_TRY(open_part(d, list, len, err));
        if (d->n_arrays != had + 1)
            PG_FAIL(PG_E_MISMATCH, "%s: holds %zu arrays, in a list of files each holds one",
                    PG_SHOW(d->parts[i].path), d->n_arrays - had);
        pg__mem_free(d->arrays[had].key); /* known by its place instead */
        d->arrays[had].key = NULL;
        list += len + 1;
    }
done:
    return st;
}

pg_status pg_data_open(pg_data **out, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg_data *d = pg__mem_array(1, sizeof *d);
    if (!d || !(d->path = pg__mem_strdup(path)))
        PG_TRY(pg__nomem(err));
    PG_TRY(open_list(d, path, err));
    *out = d;
    d = NULL;
done:
    pg_data_close(d);
    return st;
}

pg_status pg__data_open_io(pg_data **out, pg__io *io, pg_err *err)
{
    pg_status st = PG_OK;
    pg__io *own = pg__io_ref(io);
    pg_data *d = pg__mem_array(1, sizeof *d);
    if (!d || !(d->path = pg__mem_strdup(pg__io_name(io))) ||
        !(d->parts = pg__mem_array(1, sizeof *d->parts)) ||
        !(d->parts[0].path = pg__mem_strdup(d->path)))
        PG_TRY(pg__nomem(err));
    d->n_parts = 1;
    PG_TRY(open_file(d, &own, err));
    *out = d;
    d = NULL;
done:
    pg__io_close(own);
    pg_data_close(d);
    return st;
}

pg_status pg_data_arrays(pg_data **out, const pg_array *arrays, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg_data *d = pg__mem_array(1, sizeof *d);
    if (!d || !(d->path = pg__mem_strdup("arrays in memory")))
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < n; i++)
        PG_TRY(pg__data_add_memory(d, &arrays[i], err));
    *out = d;
    d = NULL;
done:
    pg_data_close(d);
    return st;
}

pg_status pg_data_random(pg_data **out, uint64_t n_rows, uint64_t seed, pg_err *err)
{
    pg_status st = PG_OK;
    pg_data *d = pg__mem_array(1, sizeof *d);
    if (!d || !(d->path = pg__mem_strdup("made-up rows")) ||
        !(d->parts = pg__mem_array(1, sizeof *d->parts)))
        PG_TRY(pg__nomem(err));
    d->n_parts = 1;
    d->parts[0].source = &pg__source_random;
    if (!(d->parts[0].path = pg__mem_strdup(d->path)))
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__random_rows(&d->parts[0].state, n_rows, seed, err));
    *out = d;
    d = NULL;
done:
    pg_data_close(d);
    return st;
}

void pg_data_close(pg_data *d)
{
    if (!d)
        return;
    pg__data_drop(d);
    for (size_t i = 0; i < d->n_parts; i++) {
        if (d->parts[i].state)
            d->parts[i].source->close(d->parts[i].state);
        pg__mem_free(d->parts[i].path);
    }
    pg__strs_fini(&d->x);
    pg__strs_fini(&d->y);
    pg__strs_fini(&d->notes);
    pg__mem_free(d->set);
    pg__mem_free(d->parts);
    pg__mem_free(d->arrays);
    pg__mem_free(d->path);
    pg__mem_free(d);
}

/* ---- for a model ---- */

/* Inputs, then the needed targets, then row weights for each of those. */
static pg_status name_by_place(pg_data *d, const pg__ends *e, pg_err *err)
{
    size_t at = 0;
    for (size_t i = 0; i < d->n_arrays; i++) {
        pg__array *a = &d->arrays[i];
        pg__str key = {0};
        pg_status st = PG_OK;
        if (a->key && d->n_parts <= 1)
            continue; /* it is named already */
        const size_t n_y = e->targeted ? e->n_outputs : 0;
        while (at >= e->n_inputs && at < e->n_inputs + 2 * n_y &&
               !e->targeted[(at - e->n_inputs) % n_y])
            at++;
        if (at >= e->n_inputs + 2 * n_y) {
            if (!e->targeted) /* predictions need no targets */
                break;
            return pg_fail(err, PG_E_MISMATCH, "%s: has more files than the model needs",
                           PG_SHOW(d->path));
        }
        if (at < e->n_inputs)
            st = pg__str_printf(&key, err, "x%zu", at);
        else
            st = pg__str_printf(&key, err, "%c%zu", at - e->n_inputs < n_y ? 'y' : 'w',
                                (at - e->n_inputs) % n_y);
        if (st != PG_OK)
            return st;
        pg__mem_free(a->key);
        a->key = key.s;
        at++;
    }
    return PG_OK;
}

void pg__data_hold(pg_data *d, int holds)
{
    d->n_holders += holds ? 1 : -1;
}

pg_status pg__data_bind(pg_data *d, const pg__ends *ends, pg_err *err)
{
    const pg__part *p = d->parts; /* NULL: arrays of the caller */
    if (d->n_holders > 0) {
        (void)pg_fail(err, PG_E_ARG, "%s: a training run reads these data; open them a second time",
                      PG_SHOW(d->path));
        return PG_E_ARG;
    }
    pg__strs_fini(&d->notes);
    for (size_t i = 0; i < d->n_arrays; i++)
        d->arrays[i].role[0] = '\0';
    if (d->n_parts == 1 && p->source->bind) {
        const pg_status st = p->source->bind(d, p->state, ends, err);
        if (st != PG_OK)
            pg_err_prefix(err, d->path);
        return st;
    }
    if (pg__data_has_names(d))
        return pg__data_assign(d, ends, err);
    return name_by_place(d, ends, err);
}

pg_status pg_data_reshape(pg_data *d, const char *dims, pg_err *err)
{
    pg__dims to = {.rank = 1, .d = {PG_DIM_ANY}};
    for (const char *s = dims;; s++) {
        char *end = NULL;
        const unsigned long long n = *s >= '0' && *s <= '9' ? strtoull(s, &end, 10) : 0;
        if (n == 0 || n > UINT32_MAX || (*end != ',' && *end != '\0') || to.rank == PG_MAX_RANK)
            return pg_fail(err, PG_E_ARG,
                           "reshape: \"%s\" is not a list of dimensions such as 28,28,1",
                           PG_SHOW(dims));
        to.d[to.rank++] = n;
        s = end;
        if (*s == '\0')
            break;
    }
    d->reshape = to;
    return PG_OK;
}

const pg__dims *pg__data_reshape(const pg_data *d)
{
    return d->reshape.rank > 0 ? &d->reshape : NULL;
}

pg_status pg_data_interpolate(pg_data *d, const char *how, pg_err *err)
{
    if (strcmp(how, "nearest") != 0 && strcmp(how, "bilinear") != 0)
        return pg_fail(err, PG_E_ARG, "interpolation: \"%s\" is neither bilinear nor nearest",
                       PG_SHOW(how));
    d->nearest = strcmp(how, "nearest") == 0;
    return PG_OK;
}

int pg__data_is_nearest(const pg_data *d)
{
    return d->nearest;
}

int pg__data_any_classes(const pg_data *d)
{
    return d->any_classes;
}

int pg__data_is_chosen(const pg_data *d)
{
    return d->x.n > 0 || d->y.n > 0 || d->set;
}

pg_status pg__data_note(pg_data *d, pg_err *err, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return pg__strs_add(&d->notes, text, strlen(text), err);
}

/* ---- reading ---- */

static void swap_bytes(unsigned char *p, size_t n, size_t each)
{
    for (size_t i = 0; i < n; i++, p += each)
        for (size_t k = 0; k < each / 2; k++) {
            const unsigned char held = p[k];
            p[k] = p[each - 1 - k];
            p[each - 1 - k] = held;
        }
}

static pg_status no_integer(const pg__array *a, const unsigned char *raw, size_t at, uint64_t row,
                            pg_err *err)
{
    double v;
    (void)pg__cast_values(&v, PG_AS_F64, raw + at * pg_dtype_bytes(a->dtype), a->dtype, 1);
    return pg_fail(err, PG_E_MISMATCH, "%s: row %llu holds %g where a class or an id is needed",
                   PG_SHOW(a->key ? a->key : "data"), (unsigned long long)row, v);
}

static pg_status read_piece(const pg__array *a, uint64_t first, uint64_t n, pg__cast cast,
                            unsigned char *raw, void *dst, pg_err *err)
{
    const size_t row_elems = (size_t)pg__array_row_elems(a), n_elems = (size_t)n * row_elems;
    pg_status st = a->read(a, first, n, raw ? raw : dst, err);
    if (st != PG_OK)
        return st;
    if (a->big_endian)
        swap_bytes(raw ? raw : dst, n_elems, pg_dtype_bytes(a->dtype));
    if (!raw)
        return PG_OK;
    const size_t done = pg__cast_values(dst, cast, raw, a->dtype, n_elems);
    return done == n_elems ? PG_OK : no_integer(a, raw, done, first + done / row_elems, err);
}

/* Reads consecutive rows at once, and without a copy if no conversion is needed. */
pg_status pg__array_read(const pg__array *a, const uint64_t *rows, size_t n, pg__cast cast,
                         void *dst, const int *stop, pg_err *err)
{
    const size_t row_bytes = (size_t)pg__array_row_bytes(a);
    const size_t to_bytes = (size_t)pg__array_row_elems(a) * pg__cast_bytes(cast);
    const size_t most = row_bytes < PIECE_BYTES && row_bytes > 0 ? PIECE_BYTES / row_bytes : 1;
    const int same = (cast == PG_AS_F32 && a->dtype == PG_F32) ||
                     (cast == PG_AS_F64 && a->dtype == PG_F64) ||
                     (cast == PG_AS_I32 && a->dtype == PG_I32);
    pg_status st = PG_OK;
    unsigned char *raw = same ? NULL : pg__mem_array(most < n ? most : n, row_bytes);
    if (!same && !raw)
        return pg__nomem(err);
    for (size_t i = 0, run; i < n; i += run) {
        run = 1;
        while (run < most && i + run < n && rows[i + run] == rows[i] + run)
            run++;
        if (stop && __atomic_load_n(stop, __ATOMIC_RELAXED))
            PG_FAIL(PG_E_CANCELLED, "interrupted");
        PG_TRY(read_piece(a, rows[i], run, cast, raw, (char *)dst + i * to_bytes, err));
    }
done:
    if (st != PG_OK && st != PG_E_CANCELLED && st != PG_E_NOMEM && !a->names_files)
        pg_err_prefix(err, a->path);
    pg__mem_free(raw);
    return st;
}
