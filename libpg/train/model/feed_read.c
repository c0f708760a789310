/* feed_read.c - rows of the arrays as a batch: checks integers, makes classes one-hot rows, and
 * combines weights of rows and classes into one weight for each loss. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/try.h"
#include "train/model/feed.h"

/* ---- memory ---- */

/* For a device with its own memory: the memory that it copies from fastest. */
static pg_status alloc_slot(const pg_trainer *t, void **out, const pg__slot *s, uint64_t n_rows,
                            pg_err *err)
{
    const uint64_t n = pg__dim_mul(pg__dim_mul(s->row_elems, n_rows), pg__cast_bytes(s->cast));
    if (t->devs.backend->host_alloc && n < SIZE_MAX / 2)
        return t->devs.backend->host_alloc(t->devs.dev, out, (size_t)n, err);
    *out = n < SIZE_MAX / 2 ? pg__mem_aligned((size_t)n) : NULL;
    return *out ? PG_OK : pg__nomem(err);
}

pg_status pg__batch_alloc(pg__batch *b, const pg__feed *f, int weighted, uint64_t n_rows,
                          pg_err *err)
{
    const pg_trainer *t = f->t;
    pg_status st = PG_OK;
    b->inputs = pg__mem_array(t->net.n_inputs, sizeof *b->inputs);
    b->targets = pg__mem_array(t->net.n_outputs, sizeof *b->targets);
    b->weights = pg__mem_array(t->net.n_outputs, sizeof *b->weights);
    b->weight_mem = pg__mem_array(t->net.n_outputs, sizeof *b->weight_mem);
    if (!b->inputs || !b->targets || !b->weights || !b->weight_mem)
        return pg__nomem(err);
    for (size_t k = 0; k < t->net.n_inputs; k++)
        PG_TRY(alloc_slot(t, &b->inputs[k], &f->inputs[k], n_rows, err));
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        if (!f->targets[k].array)
            continue;
        PG_TRY(alloc_slot(t, &b->targets[k], &f->targets[k], n_rows, err));
        if (weighted)
            PG_TRY(alloc_slot(t, &b->weight_mem[k], &f->weights[k], n_rows, err));
    }
done:
    return st;
}

static void free_all(const pg_trainer *t, void **arrays, size_t n)
{
    for (size_t k = 0; arrays && k < n; k++)
        if (t->devs.backend->host_free)
            t->devs.backend->host_free(t->devs.dev, arrays[k]);
        else
            pg__mem_free(arrays[k]);
    pg__mem_free(arrays);
}

void pg__batch_free(pg__batch *b, const pg_trainer *t)
{
    free_all(t, b->inputs, t->net.n_inputs);
    free_all(t, b->targets, t->net.n_outputs);
    free_all(t, b->weight_mem, t->net.n_outputs);
    pg__mem_free(b->weights);
    *b = (pg__batch){0};
}

/* ---- numbers of a batch, which are float or double ---- */

static double get(const pg__slot *s, const void *v, uint64_t i)
{
    return s->cast == PG_AS_F64   ? ((const double *)v)[i]
           : s->cast == PG_AS_F32 ? (double)((const float *)v)[i]
                                  : (double)((const int32_t *)v)[i];
}

static void set(const pg__slot *s, void *v, uint64_t i, double to)
{
    if (s->cast == PG_AS_F64)
        ((double *)v)[i] = to;
    else
        ((float *)v)[i] = (float)to;
}

/* ---- one array ---- */

/* Without a branch for each number, since every batch is checked. */
static int all_numbers(const float *v, uint64_t n)
{
    int bad = 0;
    for (uint64_t i = 0; i < n; i++)
        bad |= v[i] != v[i];
    return !bad;
}

static pg_status find_nan(const pg__slot *s, const void *v, const uint64_t *rows, size_t n,
                          pg_err *err)
{
    if (s->cast == PG_AS_I32 || (s->cast == PG_AS_F32 && all_numbers(v, n * s->row_elems)))
        return PG_OK;
    for (uint64_t i = 0; i < n * s->row_elems; i++)
        if (isnan(get(s, v, i)))
            return pg_fail(err, PG_E_MISMATCH, "%s: row %s of \"%s\" holds NaN", s->array->path,
                           PG_NUM(rows[i / s->row_elems]), PG_SHOW(s->array->key));
    return PG_OK;
}

/* Expands classes to one-hot rows in place, so from the end. */
static pg_status read_one_hot(const pg__slot *s, const uint64_t *rows, size_t n, void *out,
                              const int *stop, pg_err *err)
{
    int32_t *classes = pg__mem_array(n, sizeof *classes);
    pg_status st = PG_OK;
    if (!classes)
        return pg__nomem(err);
    PG_TRY(pg__array_read(s->array, rows, n, PG_AS_I32, classes, stop, err));
    PG_TRY(pg__slot_check(s, classes, rows, n, err));
    memset(out, 0, n * (size_t)s->row_elems * pg__cast_bytes(s->cast));
    for (size_t i = 0; i < n; i++)
        set(s, out, i * s->row_elems + (uint64_t)classes[i], 1);
done:
    pg__mem_free(classes);
    return st;
}

static pg_status read_slot(const pg__slot *s, const uint64_t *rows, size_t n, void *out,
                           const int *stop, pg_err *err)
{
    pg_status st = PG_OK;
    if (s->one_hot)
        return read_one_hot(s, rows, n, out, stop, err);
    PG_TRY(pg__array_read(s->array, rows, n, s->cast, out, stop, err));
    if (s->cast == PG_AS_I32 && s->below > 0)
        PG_TRY(pg__slot_check(s, out, rows, n, err));
    PG_TRY(find_nan(s, out, rows, n, err));
done:
    return st;
}

/* ---- weights ---- */

/* One for each row, or one for each of its losses. */
static pg_status read_weights(const pg__slot *s, const uint64_t *rows, size_t n, void *out,
                              const int *stop, pg_err *err)
{
    const size_t bytes = pg__cast_bytes(s->cast);
    const uint64_t each = s->row_elems, given = s->array ? pg__array_row_elems(s->array) : 0;
    if (!s->array) {
        for (uint64_t i = 0; i < n * each; i++)
            set(s, out, i, 1);
        return PG_OK;
    }
    const pg_status st = pg__array_read(s->array, rows, n, s->cast, out, stop, err);
    for (uint64_t i = n * each;
         st == PG_OK && given < each && i-- > 0;) /* in place, so from the end */
        memmove((char *)out + i * bytes, (const char *)out + i / each * bytes, bytes);
    return st == PG_OK ? find_nan(s, out, rows, n, err) : st;
}

/* The class of row i of a target with n numbers each: the rounded number, or the index of the
 * largest. */
static double class_of(const pg__slot *target, const void *v, uint64_t i, uint64_t n)
{
    uint64_t best = 0;
    if (n == 1)
        return rint(get(target, v, i));
    for (uint64_t k = 1; k < n; k++)
        if (get(target, v, i * n + k) > get(target, v, i * n + best))
            best = k;
    return (double)best;
}

/* As Keras: the weight of a class multiplies the row's own. */
static pg_status weigh_classes(const pg__feed *f, const uint64_t *rows, size_t n, pg__batch *b,
                               pg_err *err)
{
    const pg__slot *s = &f->weights[0], *target = &f->targets[0];
    const uint64_t losses = s->row_elems, each = target->row_elems / losses;
    for (uint64_t i = 0; i < n * losses; i++) {
        const double c = class_of(target, b->targets[0], i, each);
        const double w =
            c >= 0 && c < (double)f->n_class_weights ? f->class_weights[(size_t)c] : (double)NAN;
        if (isnan(w))
            return pg_fail(err, PG_E_MISMATCH,
                           "%s: row %s is of class %g, which has no class weight",
                           target->array->path, PG_NUM(rows[i / losses]), c);
        set(s, b->weights[0], i, w * get(s, b->weights[0], i));
    }
    return PG_OK;
}

int pg__feed_is_weighted(const pg__feed *f)
{
    int some = f->class_weights != NULL;
    for (size_t k = 0; f->weights && k < f->t->net.n_outputs; k++)
        some |= f->weights[k].array != NULL;
    return some;
}

pg_status pg__feed_read(const pg__feed *f, const uint64_t *rows, size_t n, pg__batch *out,
                        const int *stop, pg_err *err)
{
    const pg_trainer *t = f->t;
    pg_status st = PG_OK;
    out->n_rows = out->n_here = n;
    for (size_t k = 0; k < t->net.n_inputs; k++)
        PG_TRY(read_slot(&f->inputs[k], rows, n, out->inputs[k], stop, err));
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        if (!f->targets[k].array)
            continue;
        PG_TRY(read_slot(&f->targets[k], rows, n, out->targets[k], stop, err));
        const int weighted = f->weights[k].array || f->class_weights;
        out->weights[k] = weighted ? out->weight_mem[k] : NULL;
        if (weighted)
            PG_TRY(read_weights(&f->weights[k], rows, n, out->weights[k], stop, err));
    }
    if (f->class_weights)
        PG_TRY(weigh_classes(f, rows, n, out, err));
done:
    return st;
}

pg_status pg__feed_read_first(const pg__feed *f, size_t n, pg__batch *out, pg_err *err)
{
    uint64_t *rows = pg__mem_array(n, sizeof *rows);
    const int stop = 0;
    pg_status st = PG_OK;
    if (!rows)
        return pg__nomem(err);
    for (size_t i = 0; i < n; i++)
        rows[i] = f->first + i % f->n_rows;
    PG_TRY(pg__batch_alloc(out, f, pg__feed_is_weighted(f), n, err));
    PG_TRY(pg__feed_read(f, rows, n, out, &stop, err));
done:
    pg__mem_free(rows);
    return st;
}

/* ---- the same data? ---- */

static uint32_t crc_of(uint32_t crc, const pg__slot *s, const void *values, size_t n_rows)
{
    return pg__crc32(crc, values, (size_t)s->row_elems * n_rows * pg__cast_bytes(s->cast));
}

uint32_t pg__feed_mark(const pg__feed *f)
{
    enum { ROWS = 16 };
    const pg_trainer *t = f->t;
    const size_t n = f->n_rows < ROWS ? (size_t)f->n_rows : ROWS;
    uint64_t rows[ROWS];
    pg__batch b = {.n_rows = 0};
    const int stop = 0;
    uint32_t crc = 0, found = 0;
    if (pg__batch_alloc(&b, f, pg__feed_is_weighted(f), n, NULL) != PG_OK)
        goto done;
    for (int last = 0; last < 2; last++) {
        for (size_t i = 0; i < n; i++)
            rows[i] = f->first + (last ? f->n_rows - n : 0) + i;
        if (pg__feed_read(f, rows, n, &b, &stop, NULL) != PG_OK)
            goto done;
        for (size_t k = 0; k < t->net.n_inputs; k++)
            crc = crc_of(crc, &f->inputs[k], b.inputs[k], n);
        for (size_t k = 0; k < t->net.n_outputs; k++) {
            if (f->targets[k].array)
                crc = crc_of(crc, &f->targets[k], b.targets[k], n);
            if (f->weights[k].array)
                crc = crc_of(crc, &f->weights[k], b.weights[k], n);
        }
    }
    found = crc;
done:
    pg__batch_free(&b, t);
    return found;
}
