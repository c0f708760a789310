/* feed.c - which array is what: x0, x1, ... y0, y1, ... w0, w1, ..., or names of layers. */
#include "train/feed.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"

/* ---- from keys to arrays ---- */

/* Array k of a kind: "x0", "xval0"; the layer's name; "x", "xval" for the only one. */
static const pg__array *find_array(const pg_data *d, const char *stem, size_t k, size_t n,
                                   const char *layer, int is_val)
{
    char key[64];
    const pg__array *a;
    (void)snprintf(key, sizeof key, "%s%s%zu", stem, is_val ? "val" : "", k);
    if ((a = pg__data_find(d, key)))
        return a;
    (void)snprintf(key, sizeof key, "%s%s", stem, is_val ? "val" : "");
    if (n == 1 && (a = pg__data_find(d, key)))
        return a;
    return layer && !is_val ? pg__data_find(d, layer) : NULL;
}

static pg_status need_array(const pg__array **out, const pg_data *d, const char *stem, size_t k,
                            size_t n, const char *layer, int is_val, pg_err *err)
{
    *out = find_array(d, stem, k, n, layer, is_val);
    if (*out)
        return PG_OK;
    return pg_fail(err, PG_E_MISMATCH,
                   "%s: holds no \"%s%s%zu\", which the model's %s \"%s\" needs", pg__data_path(d),
                   stem, is_val ? "val" : "", k, stem[0] == 'x' ? "input" : "output",
                   PG_SHOW(layer));
}

static pg_status check_rows(pg__feed *f, const pg_data *d, const pg__array *a, const char *of,
                            pg_err *err)
{
    const uint64_t n = pg__array_dims(a).d[0];
    if (f->n_rows == PG_DIM_ANY)
        f->n_rows = n;
    if (f->n_rows != n)
        return pg_fail(err, PG_E_MISMATCH, "%s: \"%s\" has %llu rows, the first input %llu",
                       pg__data_path(d), PG_SHOW(of), (unsigned long long)n,
                       (unsigned long long)f->n_rows);
    return PG_OK;
}

static pg_status find_arrays(pg__feed *f, int is_val, pg_err *err)
{
    const pg_trainer *t = f->t;
    const pg_data *d = f->data;
    pg_status st = PG_OK;
    for (size_t k = 0; k < t->n_inputs; k++) {
        PG_TRY(need_array(&f->inputs[k], d, "x", k, t->n_inputs, t->input_names[k], is_val, err));
        PG_TRY(check_rows(f, d, f->inputs[k], t->input_names[k], err));
    }
    for (size_t k = 0; k < t->n_outputs; k++) {
        if (!t->objectives[k].has_loss)
            continue;
        PG_TRY(
            need_array(&f->targets[k], d, "y", k, t->n_outputs, t->output_names[k], is_val, err));
        PG_TRY(check_rows(f, d, f->targets[k], t->output_names[k], err));
        f->weights[k] = find_array(d, "w", k, t->n_outputs, NULL, is_val);
        if (f->weights[k])
            PG_TRY(check_rows(f, d, f->weights[k], "w", err));
    }
    if (f->n_rows == 0)
        PG_FAIL(PG_E_MISMATCH, "%s: holds no rows", pg__data_path(d));
done:
    return st;
}

pg_status pg__feed_open(pg__feed *out, const pg_trainer *t, const pg_data *data, int validation,
                        pg_err *err)
{
    pg_status st = PG_OK;
    *out = (pg__feed){.t = t, .data = data, .n_rows = PG_DIM_ANY};
    out->inputs = pg__mem_array(t->n_inputs, sizeof *out->inputs);
    out->targets = pg__mem_array(t->n_outputs, sizeof *out->targets);
    out->weights = pg__mem_array(t->n_outputs, sizeof *out->weights);
    if (!out->inputs || !out->targets || !out->weights)
        PG_TRY(pg__nomem(err));
    PG_TRY(find_arrays(out, validation && pg__data_find(data, "xval0"), err));
done:
    if (st != PG_OK)
        pg__feed_close(out);
    return st;
}

void pg__feed_close(pg__feed *f)
{
    pg__mem_free(f->inputs);
    pg__mem_free(f->targets);
    pg__mem_free(f->weights);
    *f = (pg__feed){0};
}

pg_status pg__feed_fit_inputs(const pg__feed *f, pg_trainer *t, pg_err *err)
{
    for (size_t k = 0; k < t->n_inputs; k++) {
        pg__dims *want = &t->input_dims[k];
        const pg__dims have = pg__array_dims(f->inputs[k]);
        int same = want->rank == have.rank;
        for (uint32_t i = 1; same && i < have.rank; i++)
            same = want->d[i] == PG_DIM_ANY || want->d[i] == have.d[i];
        if (!same)
            return pg_fail(err, PG_E_MISMATCH, "%s: \"x%zu\" is %s, model input \"%s\" wants %s",
                           pg__data_path(f->data), k, PG_SHAPE(&have), PG_SHOW(t->input_names[k]),
                           PG_SHAPE(want));
        for (uint32_t i = 1; i < have.rank; i++)
            want->d[i] = have.d[i];
    }
    return PG_OK;
}

/* ---- batches ---- */

pg_status pg__batch_alloc(pg__batch *b, const pg__feed *f, const pg__program *p, pg_err *err)
{
    const pg_trainer *t = f->t;
    const pg__lowered *m = pg__program_model(p);
    b->inputs = pg__mem_array(t->n_inputs, sizeof *b->inputs);
    b->targets = pg__mem_array(t->n_outputs, sizeof *b->targets);
    b->weights = pg__mem_array(t->n_outputs, sizeof *b->weights);
    if (!b->inputs || !b->targets || !b->weights)
        return pg__nomem(err);
    for (size_t k = 0; k < t->n_inputs; k++) {
        const uint64_t n = pg__dims_elems(&m->tape.values[m->inputs[k]].shape);
        if (!(b->inputs[k] = pg__mem_aligned((size_t)n * t->backend->real_bytes)))
            return pg__nomem(err);
    }
    for (size_t k = 0; k < t->n_outputs; k++) {
        const pg__value *target = pg__program_target(p, k);
        if (!target)
            continue;
        const uint64_t n = pg__dims_elems(&target->shape);
        if (!(b->targets[k] = pg__mem_aligned((size_t)n * t->backend->real_bytes)))
            return pg__nomem(err);
        if (f->weights[k] && !(b->weights[k] = pg__mem_aligned((size_t)n * t->backend->real_bytes)))
            return pg__nomem(err);
    }
    return PG_OK;
}

static void free_all(void **arrays, size_t n)
{
    for (size_t k = 0; arrays && k < n; k++)
        pg__mem_free(arrays[k]);
    pg__mem_free(arrays);
}

void pg__batch_free(pg__batch *b, const pg_trainer *t)
{
    free_all(b->inputs, t->n_inputs);
    free_all(b->targets, t->n_outputs);
    free_all(b->weights, t->n_outputs);
    *b = (pg__batch){0};
}

static pg__cast cast_of(const pg_trainer *t, pg__elem elem)
{
    if (elem == PG__INT)
        return PG__AS_I32;
    return t->backend->real_bytes == sizeof(double) ? PG__AS_F64 : PG__AS_F32;
}

/* Targets have the prediction's shape, or one class for each of its rows. */
static pg_status check_target(const pg__feed *f, size_t k, const pg__value *want, pg_err *err)
{
    const pg__dims have = pg__array_dims(f->targets[k]);
    pg__dims bare = have;
    if (want->elem == PG__INT && bare.rank == want->shape.rank + 1 && bare.d[bare.rank - 1] == 1)
        bare.rank--;
    bare.d[0] = want->shape.d[0];
    if (want->elem == PG__REAL && bare.rank + 1 == want->shape.rank &&
        want->shape.d[want->shape.rank - 1] == 1)
        bare.d[bare.rank++] = 1;
    if (pg__dims_equal(&bare, &want->shape))
        return PG_OK;
    return pg_fail(err, PG_E_MISMATCH, "%s: target of \"%s\" is %s, the model gives %s%s",
                   pg__data_path(f->data), PG_SHOW(f->t->output_names[k]), PG_SHAPE(&have),
                   PG_SHAPE(&want->shape), want->elem == PG__INT ? " classes" : "");
}

/* A class beyond the prediction's last axis would be read from memory that is not the row's. */
static pg_status check_classes(const pg__feed *f, size_t k, const pg__value *target,
                               const pg__dims *prediction, const void *classes, pg_err *err)
{
    const uint64_t n = pg__dims_elems(&target->shape);
    const uint64_t n_classes = prediction->d[prediction->rank - 1];
    for (uint64_t i = 0; i < n; i++) {
        const int32_t c = ((const int32_t *)classes)[i];
        if (c < 0 || (uint64_t)c >= n_classes)
            return pg_fail(
                err, PG_E_MISMATCH,
                "%s: target of \"%s\" holds the class %d, the model tells %llu (0 to %llu)",
                pg__data_path(f->data), PG_SHOW(f->t->output_names[k]), c,
                (unsigned long long)n_classes, (unsigned long long)n_classes - 1);
    }
    return PG_OK;
}

/* Weights: one for each row, or one for each loss of it. */
static pg_status read_weights(const pg__feed *f, size_t k, const pg__value *loss,
                              const uint64_t *rows, size_t n, void *out, pg_err *err)
{
    const size_t bytes = f->t->backend->real_bytes;
    const pg__dims have = pg__array_dims(f->weights[k]);
    const uint64_t each = pg__dims_elems(&loss->shape) / n,
                   given = pg__dims_elems(&have) / have.d[0];
    if (given != 1 && given != each)
        return pg_fail(err, PG_E_MISMATCH, "%s: weights of \"%s\" are %s, its losses %s",
                       pg__data_path(f->data), PG_SHOW(f->t->output_names[k]), PG_SHAPE(&have),
                       PG_SHAPE(&loss->shape));
    const pg_status st = pg__array_read(f->weights[k], rows, n, cast_of(f->t, PG__REAL), out, err);
    for (uint64_t i = n * each;
         st == PG_OK && given < each && i-- > 0;) /* from the end: in place */
        memmove((char *)out + i * bytes, (const char *)out + i / each * bytes, bytes);
    return st;
}

pg_status pg__feed_read(const pg__feed *f, const pg__program *p, const uint64_t *rows, size_t n,
                        pg__batch *out, pg_err *err)
{
    const pg_trainer *t = f->t;
    const pg__lowered *m = pg__program_model(p);
    pg_status st = PG_OK;
    out->n_rows = n;
    for (size_t k = 0; k < t->n_inputs; k++)
        PG_TRY(pg__array_read(f->inputs[k], rows, n, cast_of(t, m->tape.values[m->inputs[k]].elem),
                              out->inputs[k], err));
    for (size_t k = 0; k < t->n_outputs; k++) {
        const pg__value *target = pg__program_target(p, k);
        if (!target)
            continue;
        PG_TRY(check_target(f, k, target, err));
        PG_TRY(
            pg__array_read(f->targets[k], rows, n, cast_of(t, target->elem), out->targets[k], err));
        if (target->elem == PG__INT)
            PG_TRY(check_classes(f, k, target, &m->tape.values[m->outputs[k]].shape,
                                 out->targets[k], err));
        if (f->weights[k])
            PG_TRY(read_weights(f, k, pg__program_loss_value(p, k), rows, n, out->weights[k], err));
    }
done:
    return st;
}
