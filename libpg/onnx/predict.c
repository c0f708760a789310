/* predict.c - rows from a file or made up, in the types of the graph's inputs; the trainer predicts
 * what comes of them. See predict.h. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/philox.h"
#include "base/try.h"
#include "io/folder.h"
#include "io/system.h"
#include "onnx/predict.h"

#define MOST_ROWS 16
#define FLOAT32   4 /* pg_train_opts.precision: what the graph computes in, whatever the policies */
#define PIECE     4096

void pg__onnx_rows_fini(pg__onnx_rows *r)
{
    for (size_t k = 0; r->inputs && k < r->n_inputs; k++) {
        pg__mem_free((void *)(uintptr_t)r->inputs[k].key);
        pg__mem_free((void *)(uintptr_t)r->inputs[k].values);
    }
    for (size_t k = 0; r->given && k < r->n_outputs; k++)
        pg__mem_free(r->given[k]);
    pg__mem_free(r->inputs);
    pg__mem_free(r->outputs);
    pg__mem_free(r->given);
    *r = (pg__onnx_rows){.n = 0};
}

/* ---- rows ---- */

static size_t find_tensor(const pg_store *s, const char *name)
{
    for (size_t i = 0; i < pg_store_n_weights(s); i++)
        if (strcmp(pg_store_weight(s, i)->name, name) == 0)
            return i;
    return PG_NONE;
}

/* The array of input k: x0, x1, ..., as numpy's arr_0, ..., by the input's name, or the only one.
 */
static pg_status array_of(size_t *out, const pg_store *s, const char *path, size_t k,
                          const char *input, size_t n_inputs, pg_err *err)
{
    static const char *const stems[] = {"x", "arr_"};
    char name[32];
    *out = find_tensor(s, input);
    for (size_t m = 0; *out == PG_NONE && m < sizeof stems / sizeof *stems; m++) {
        (void)snprintf(name, sizeof name, "%s%zu", stems[m], k);
        *out = find_tensor(s, name);
    }
    if (*out == PG_NONE && n_inputs == 1)
        *out = pg_store_n_weights(s) == 1 ? 0 : find_tensor(s, "x");
    return *out != PG_NONE ? PG_OK
                           : pg_fail(err, PG_E_ARG, "%s: no array for input %zu (x%zu, or %s)",
                                     PG_SHOW(path), k, k, PG_SHOW(input));
}

/* Rows that the graph fixes, or 0. */
static uint64_t fixed_rows(const pg__onnx *x)
{
    const uint64_t n = pg__onnx_dims(x, x->low->inputs[0])->d[0];
    return n == PG_DIM_ANY ? 0 : n;
}

static pg_status shape_of(pg_array *a, const pg__onnx *x, size_t k, const pg_weight *w,
                          const char *path, pg_err *err)
{
    const pg__dims *d = pg__onnx_dims(x, x->low->inputs[k]);
    const pg__dims has = pg__dims_of(w->rank, w->dims);
    int fits = w->rank == d->rank || (w->rank == 1 && d->rank == 2 && d->d[1] == 1);
    a->rank = d->rank;
    for (uint32_t i = 1; i < d->rank && fits; i++) {
        a->dims[i] = i < w->rank ? w->dims[i] : 1;
        fits = d->d[i] == PG_DIM_ANY || d->d[i] == a->dims[i];
    }
    return fits ? PG_OK
                : pg_fail(err, PG_E_ARG, "%s: %s is %s, the model's input %s", PG_SHOW(path),
                          PG_SHOW(w->name), PG_SHAPE(&has), PG_SHAPE(d));
}

static uint64_t n_elems(const pg_array *a)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < a->rank; i++)
        n *= a->dims[i];
    return n;
}

/* Takes numbers in the type of the array; 0 if it cannot hold one of them. */
static int put_numbers(pg_array *a, uint64_t at, const double *v, size_t n)
{
    unsigned char *to = (unsigned char *)(uintptr_t)a->values + at * pg_dtype_bytes(a->dtype);
    if (pg__dtype_is_float(a->dtype)) {
        pg__round(to, a->dtype, v, PG_F64, n, NULL);
        return 1;
    }
    for (size_t k = 0; k < n; k++) {
        const int64_t whole = fabs(v[k]) < 9e18 ? (int64_t)v[k] : 0;
        unsigned char *p = to + k * pg_dtype_bytes(a->dtype);
        if (a->dtype == PG_BOOL)
            *p = v[k] != 0;
        else if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
            memcpy(p, &whole, pg_dtype_bytes(a->dtype));
        else
            memcpy(p, (const unsigned char *)&whole + 8 - pg_dtype_bytes(a->dtype),
                   pg_dtype_bytes(a->dtype));
        if (pg__value_at(p, a->dtype) != v[k])
            return 0;
    }
    return 1;
}

static pg_status read_rows(pg_array *a, pg_store *s, size_t tensor, const char *path, pg_err *err)
{
    const pg_weight *w = pg_store_weight(s, tensor);
    const size_t each = pg_dtype_bytes(w->dtype);
    const uint64_t all = n_elems(a);
    unsigned char raw[PIECE * 8];
    double v[PIECE];
    pg_status st = PG_OK;
    for (uint64_t at = 0, n; at < all; at += n) {
        n = all - at < PIECE ? all - at : PIECE;
        PG_TRY(pg_store_read(s, tensor, at * each, raw, (size_t)n * each, err));
        pg__values(v, raw, (size_t)n, w->dtype);
        if (!put_numbers(a, at, v, (size_t)n))
            PG_FAIL(PG_E_ARG, "%s: %s holds numbers that are none of %s, the input's type",
                    PG_SHOW(path), PG_SHOW(w->name), pg_dtype_name(a->dtype));
    }
done:
    return st;
}

static void make_up(pg_array *a, size_t k)
{
    const uint64_t all = n_elems(a);
    for (uint64_t at = 0; at < all; at++) {
        const float u = pg__uniform(0, at, 0, (uint32_t)k);
        const double v = pg__dtype_is_float(a->dtype) ? (double)u : u < 0.5f ? 0 : 1;
        (void)put_numbers(a, at, &v, 1);
    }
}

static pg_status begin_array(pg__onnx_rows *r, const pg__onnx *x, size_t k, const pg_weight *w,
                             const char *path, pg_err *err)
{
    const pg__dims *d = pg__onnx_dims(x, x->low->inputs[k]);
    pg_array *a = &r->inputs[k];
    pg__str key = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&key, err, "x%zu", k));
    *a = (pg_array){.key = key.s, .dtype = x->input_types[k], .rank = d->rank};
    if (w)
        PG_TRY(shape_of(a, x, k, w, path, err));
    for (uint32_t i = 1; i < d->rank && !w; i++) {
        r->has_open |= d->d[i] == PG_DIM_ANY;
        a->dims[i] = d->d[i] == PG_DIM_ANY ? r->open : d->d[i];
    }
    a->dims[0] = r->n;
    a->values = pg__mem_array((size_t)n_elems(a), pg_dtype_bytes(a->dtype));
    if (!a->values)
        PG_TRY(pg__nomem(err));
done:
    return st;
}

static pg_status count_rows(pg__onnx_rows *r, const pg__onnx *x, const pg_weight *w,
                            const char *path, pg_err *err)
{
    const uint64_t fixed = fixed_rows(x), has = w && w->rank ? w->dims[0] : 0;
    r->n = fixed ? fixed : w && has < MOST_ROWS ? has : MOST_ROWS;
    if (w && (has == 0 || has < r->n))
        return pg_fail(err, PG_E_ARG, "%s: %" PRIu64 " rows, the model takes %" PRIu64,
                       PG_SHOW(path), has, r->n ? r->n : 1);
    return PG_OK;
}

pg_status pg__onnx_rows_of(pg__onnx_rows *r, const pg__onnx *x, const char *path, pg_err *err)
{
    pg_store *s = NULL;
    pg_status st = PG_OK;
    r->n_inputs = x->low->n_inputs;
    r->inputs = pg__mem_array(r->n_inputs, sizeof *r->inputs);
    if (!r->inputs)
        return pg__nomem(err);
    if (path)
        PG_TRY(pg_store_open(&s, path, NULL, err));
    for (size_t k = 0; k < r->n_inputs; k++) {
        size_t tensor = PG_NONE;
        if (s)
            PG_TRY(array_of(&tensor, s, path, k, x->g.names.v[x->inputs[k]], r->n_inputs, err));
        const pg_weight *w = s ? pg_store_weight(s, tensor) : NULL;
        if (k == 0)
            PG_TRY(count_rows(r, x, w, path, err));
        if (w && (!w->rank || w->dims[0] < r->n))
            PG_FAIL(PG_E_ARG, "%s: %s has fewer rows than the first input", PG_SHOW(path),
                    PG_SHOW(w->name));
        PG_TRY(begin_array(r, x, k, w, path, err));
        if (s)
            PG_TRY(read_rows(&r->inputs[k], s, tensor, path, err));
        else
            make_up(&r->inputs[k], k);
    }
done:
    pg_store_close(s);
    return st;
}

/* ---- predictions ---- */

/* What is not there is told by who opens it. */
pg_status pg__onnx_see_sources(pg__onnx_seen *s, const char *in, const pg_onnx_opts *o, pg_err *err)
{
    const char *paths[] = {in, o->model_text ? NULL : o->model}; /* a text has no file */
    for (size_t k = 0; k < 2; k++)
        if (paths[k] && stat(paths[k], &s->of[k]) && !pg__is_absence(errno))
            return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(paths[k]));
    return PG_OK;
}

pg_status pg__onnx_check_sources(const pg__onnx_seen *s, const char *in, const pg_onnx_opts *o,
                                 pg_err *err)
{
    const char *paths[] = {in, o->model_text ? NULL : o->model};
    struct stat now;
    for (size_t k = 0; k < 2; k++) {
        const struct stat *was = &s->of[k];
        if (!paths[k])
            continue;
        if (stat(paths[k], &now))
            return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(paths[k]));
        if (now.st_dev != was->st_dev || now.st_ino != was->st_ino || now.st_size != was->st_size ||
            PG_MTIME(now).tv_sec != PG_MTIME(*was).tv_sec ||
            PG_MTIME(now).tv_nsec != PG_MTIME(*was).tv_nsec)
            return pg_fail(err, PG_E_IO,
                           "%s: was replaced while it was read; run this again when it is whole",
                           PG_SHOW(paths[k]));
    }
    return PG_OK;
}

pg_status pg__onnx_trainer(pg_trainer **out, const char *in, const pg_onnx_opts *o, pg_err *err)
{
    const int given = o->model || o->model_text;
    const pg_train_opts opts = {.model = given ? o->model : in,
                                .model_text = o->model_text,
                                .weights = given ? in : NULL,
                                .part = o->write.part,
                                .for_prediction = 1,
                                .precision = FLOAT32,
                                .cancel = o->write.cancel};
    return pg_trainer_open(out, &opts, err);
}

static pg_status begin(void *user, const pg_weight *outputs, size_t n, pg_err *err)
{
    pg__onnx_rows *r = user;
    if (r->given) /* again, with other weights */
        return PG_OK;
    r->outputs = pg__mem_array(n, sizeof *r->outputs);
    r->given = pg__mem_array(n, sizeof *r->given);
    if (!r->outputs || !r->given)
        return pg__nomem(err);
    for (r->n_outputs = 0; r->n_outputs < n; r->n_outputs++) {
        r->outputs[r->n_outputs] = outputs[r->n_outputs];
        r->outputs[r->n_outputs].name = NULL; /* the trainer's */
        r->given[r->n_outputs] = pg__mem_array((size_t)outputs[r->n_outputs].n_bytes, 1);
        if (!r->given[r->n_outputs])
            return pg__nomem(err);
    }
    return PG_OK;
}

static pg_status add_rows(void *user, size_t output, uint64_t first, size_t n_rows,
                          const void *values, pg_err *err)
{
    pg__onnx_rows *r = user;
    const uint64_t row = r->outputs[output].n_bytes / r->outputs[output].dims[0];
    (void)err;
    memcpy(r->given[output] + first * row, values, n_rows * (size_t)row);
    return PG_OK;
}

pg_status pg__onnx_predict(pg__onnx_rows *r, pg_trainer *t, pg_err *err)
{
    const pg_predictions to = {.user = r, .begin = begin, .rows = add_rows};
    const pg_predict_opts opts = {.batch_size = (size_t)r->n};
    pg_data *data = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg_data_arrays(&data, r->inputs, r->n_inputs, err));
    PG_TRY(pg_predict(t, data, &opts, &to, err));
done:
    pg_data_close(data);
    return st;
}
