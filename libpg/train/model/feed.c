/* feed.c - assigns arrays by name, x0, x1, ... y0, y1, ... w0, w1, ... or names of layers, and
 * checks that they fit the model. */
#include "train/model/feed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/real.h"
#include "base/try.h"
#include "train/rules/rules.h"

#define DEFAULT_BATCH 32
#define LOOK_THROUGH  ((uint64_t)1 << 20) /* elements: takes a few milliseconds before training */

/* ---- from keys to arrays ---- */

static pg_status check_readable(const pg__array *a, pg_err *err)
{
    if (!a->why)
        return PG_OK;
    return pg_fail(err, PG_E_UNSUPPORTED, "%s: %s: %s", PG_SHOW(a->path), PG_SHOW(a->key), a->why);
}

static pg_status need_array(pg__slot *out, const pg_data *d, const char *stem, size_t k, size_t n,
                            const char *layer, int is_val, pg_err *err)
{
    out->layer = layer;
    out->array = pg__data_find_role(d, stem, k, n, layer, is_val);
    if (out->array)
        return check_readable(out->array, err);
    (void)pg_fail(err, PG_E_MISMATCH, "%s: holds no \"%s%s%zu\", which the model's %s \"%s\" needs",
                  pg__data_path(d), stem, is_val ? "val" : "", k,
                  stem[0] == 'x' ? "input" : "output", PG_SHOW(layer));
    if (pg__data_list(d, err)) {
        pg_err_do(err, PG_DO_GIVE, NULL);
        pg_err_arg(err, "x", "NAME%s", n == 1 ? "" : ",...");
        pg_err_arg(err, "y", "NAME%s", n == 1 ? "" : ",...");
    }
    return PG_E_MISMATCH;
}

static pg_status check_rows(pg__feed *f, const pg__array *a, pg_err *err)
{
    const pg__array *first = f->inputs[0].array;
    const uint64_t n = a->dims.d[0];
    if (f->n_rows == PG_DIM_ANY)
        f->n_rows = n;
    if (f->n_rows != n)
        return pg_fail(err, PG_E_MISMATCH, "%s: \"%s\" has %s rows, \"%s\" has %s", a->path,
                       PG_SHOW(a->key), PG_NUM(n), PG_SHOW(first->key), PG_NUM(f->n_rows));
    return PG_OK;
}

static pg_status find_arrays(pg__feed *f, pg__feed_use use, pg_err *err)
{
    const pg_trainer *t = f->t;
    const pg_data *d = f->data;
    const int is_val =
        use == PG_FOR_VALIDATION && !pg__data_is_chosen(d) && pg__data_find(d, "xval0");
    pg_status st = PG_OK;
    for (size_t k = 0; k < t->net.n_inputs; k++) {
        PG_TRY(need_array(&f->inputs[k], d, "x", k, t->net.n_inputs, t->net.input_names[k], is_val,
                          err));
        PG_TRY(check_rows(f, f->inputs[k].array, err));
    }
    for (size_t k = 0; use != PG_FOR_PREDICTION && k < t->net.n_outputs; k++) {
        if (!t->compiled.objectives[k].has_loss)
            continue;
        PG_TRY(need_array(&f->targets[k], d, "y", k, t->net.n_outputs, t->net.output_names[k],
                          is_val, err));
        PG_TRY(check_rows(f, f->targets[k].array, err));
        f->weights[k].layer = t->net.output_names[k];
        f->weights[k].array = pg__data_find_role(d, "w", k, t->net.n_outputs, NULL, is_val);
        if (f->weights[k].array) {
            PG_TRY(check_readable(f->weights[k].array, err));
            PG_TRY(check_rows(f, f->weights[k].array, err));
        }
    }
    if (f->n_rows == 0)
        PG_FAIL(PG_E_MISMATCH, "%s: holds no rows", pg__data_path(d));
done:
    return st;
}

pg_status pg__feed_bind(const pg_trainer *t, pg_data *data, pg__feed_use use, pg_err *err)
{
    unsigned char *targeted = pg__mem_array(t->net.n_outputs, 1);
    if (!targeted)
        return pg__nomem(err);
    for (size_t k = 0; k < t->net.n_outputs; k++)
        targeted[k] = (unsigned char)t->compiled.objectives[k].has_loss;
    const pg__ends ends = {.use = use,
                           .n_inputs = t->net.n_inputs,
                           .n_outputs = t->net.n_outputs,
                           .input_names = t->net.input_names,
                           .output_names = t->net.output_names,
                           .input_dims = t->net.input_dims,
                           .targeted = use == PG_FOR_PREDICTION ? NULL : targeted};
    const pg_status st = pg__data_bind(data, &ends, err);
    pg__mem_free(targeted);
    return st;
}

pg_status pg__feed_open(pg__feed *out, const pg_trainer *t, pg_data *data, pg__feed_use use,
                        pg_err *err)
{
    pg_status st = PG_OK;
    *out = (pg__feed){.t = t, .data = data, .n_rows = PG_DIM_ANY};
    out->inputs = pg__mem_array(t->net.n_inputs, sizeof *out->inputs);
    out->targets = pg__mem_array(t->net.n_outputs, sizeof *out->targets);
    out->weights = pg__mem_array(t->net.n_outputs, sizeof *out->weights);
    if (!out->inputs || !out->targets || !out->weights)
        PG_TRY(pg__nomem(err));
    PG_TRY(find_arrays(out, use, err));
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
    pg__mem_free(f->class_weights);
    *f = (pg__feed){0};
}

/* ---- shapes of the inputs ---- */

static uint64_t elems_of_row(const pg__dims *d)
{
    uint64_t n = 1;
    for (uint32_t i = 1; i < d->rank; i++)
        n = pg__dim_mul(n, d->d[i]);
    return n;
}

static int fits(const pg__dims *want, const pg__dims *have)
{
    int same = want->rank == have->rank;
    for (uint32_t i = 1; same && i < have->rank; i++)
        same = want->d[i] == PG_DIM_ANY || want->d[i] == have->d[i];
    return same;
}

/* The dimensions as the model sees them. */
static pg__dims seen_as(const pg__dims *want, const pg__dims *have, const pg__dims *reshape)
{
    pg__dims d = *have;
    if (reshape && elems_of_row(reshape) == elems_of_row(have)) {
        d = *reshape;
        d.d[0] = have->d[0];
    }
    if (d.rank + 1 == want->rank && want->d[want->rank - 1] == 1)
        d.d[d.rank++] = 1;
    else if (d.rank == want->rank + 1 && d.d[d.rank - 1] == 1)
        d.rank--;
    return d;
}

static pg_status wrong_shape(const pg__array *a, const char *layer, const pg__dims *want,
                             pg_err *err)
{
    char as[PG_MAX_RANK * 24] = "";
    size_t n = 0;
    (void)pg_fail(err, PG_E_MISMATCH, "%s: \"%s\" is %s, model input \"%s\" expects %s", a->path,
                  PG_SHOW(a->key), pg__dims_spoken(&a->dims).s, PG_SHOW(layer), PG_SHAPE(want));
    if (elems_of_row(want) == elems_of_row(&a->dims)) {
        for (uint32_t i = 1; i < want->rank && n < sizeof as; i++)
            n += (size_t)snprintf(as + n, sizeof as - n, "%s%llu", i > 1 ? "," : "",
                                  (unsigned long long)want->d[i]);
        pg_err_set(err, "reshape", "%s", as);
    }
    return PG_E_MISMATCH;
}

pg_status pg__shapes_begin(pg_trainer *t, pg__dims **before, pg_err *err)
{
    const pg__lowered *m = &t->net.built_params;
    pg__dims *had = pg__mem_array(t->net.n_inputs, sizeof *had);
    if (!had)
        return pg__nomem(err);
    for (size_t k = 0; k < t->net.n_inputs; k++) {
        had[k] = t->net.input_dims[k];
        t->net.input_dims[k] = m->tape.values[m->inputs[k]].shape;
    }
    *before = had;
    return PG_OK;
}

void pg__shapes_end(pg_trainer *t, pg__dims **before)
{
    for (size_t k = 0; *before && k < t->net.n_inputs; k++)
        t->net.input_dims[k] = (*before)[k];
    pg__mem_free(*before);
    *before = NULL;
}

pg_status pg__feed_fit_inputs(const pg__feed *f, pg_trainer *t, pg_err *err)
{
    for (size_t k = 0; k < t->net.n_inputs; k++) {
        pg__dims *want = &t->net.input_dims[k];
        const pg__array *a = f->inputs[k].array;
        const pg__dims seen = seen_as(want, &a->dims, pg__data_reshape(f->data));
        if (!fits(want, &seen))
            return wrong_shape(a, t->net.input_names[k], want, err);
        for (uint32_t i = 1; i < seen.rank; i++)
            want->d[i] = seen.d[i];
    }
    return PG_OK;
}

/* ---- sizes of batches ---- */

static uint64_t fixed_batch(const pg_trainer *t)
{
    const pg__model *m = t->net.graph->root;
    pg__dims dims;
    pg__elem elem;
    if (t->net.built_params.n_states == 0 ||
        pg__input_shape(&dims, &elem, m, &m->layers[m->inputs[0].layer], NULL) != PG_OK ||
        dims.d[0] == PG_DIM_ANY)
        return 0;
    return dims.d[0];
}

int pg__feed_is_fixed(const pg_trainer *t)
{
    return fixed_batch(t) > 0;
}

pg_status pg__feed_batch_size(const pg_trainer *t, size_t asked, size_t *out, pg_err *err)
{
    const uint64_t fixed = fixed_batch(t);
    *out = asked > 0 ? asked : fixed > 0 ? (size_t)fixed : DEFAULT_BATCH;
    if (fixed == 0 || *out == fixed)
        return PG_OK;
    (void)pg_fail(err, PG_E_MISMATCH, "the stateful model asks for batches of %s rows, not of %s",
                  PG_NUM(fixed), PG_NUM(asked));
    pg_err_set(err, "batch_size", "%llu", (unsigned long long)fixed);
    return PG_E_MISMATCH;
}

pg_status pg__feed_divides(const pg__feed *f, size_t batch_size, const char *option, pg_err *err)
{
    const uint64_t n = f->n_rows / batch_size;
    if (!pg__feed_is_fixed(f->t) || f->n_rows % batch_size == 0)
        return PG_OK;
    (void)pg_fail(err, PG_E_MISMATCH,
                  "%s: %s samples are not a multiple of the fixed batch of %s that the stateful "
                  "model asks for",
                  pg__data_path(f->data), PG_NUM(f->n_rows), PG_NUM(batch_size));
    if (n > 0) {
        pg_err_set(err, option, "%llu", (unsigned long long)n);
        pg_err_arg(err, "note", "(%s samples)", PG_NUM(n * batch_size));
    }
    return PG_E_MISMATCH;
}

pg_status pg__feed_program(pg_trainer *t, size_t batch_size, pg__pass pass, const pg__program **out,
                           pg_err *err)
{
    const uint64_t n =
        t->loop.part_rows && t->loop.part_rows < batch_size ? t->loop.part_rows : batch_size;
    uint64_t rows = 0;
    for (size_t k = 0; rows == 0 && k < pg__lane_count(&t->pool.cut); k++)
        rows = pg__lane_of(&t->pool.cut, n, k).n;
    return pg__trainer_program(t, rows ? rows : 1, pass, out, err); /* a rank may have no rows */
}

/* ---- targets ---- */

/* Smallest and largest integer of the first rows; returns 0 if there are other values too. */
static int integer_range(const pg__array *a, int32_t range[2])
{
    const uint64_t n = a->dims.d[0] < 4096 ? a->dims.d[0] : 4096;
    const uint64_t n_elems = n * pg__array_row_elems(a);
    uint64_t rows[4096];
    int32_t *v = pg__mem_array((size_t)n_elems, sizeof *v);
    for (uint64_t i = 0; i < n; i++)
        rows[i] = i;
    const int ok =
        v && n_elems > 0 && pg__array_read(a, rows, (size_t)n, PG_AS_I32, v, NULL, NULL) == PG_OK;
    range[0] = INT32_MAX, range[1] = INT32_MIN;
    for (uint64_t i = 0; ok && i < n_elems; i++) {
        range[0] = v[i] < range[0] ? v[i] : range[0];
        range[1] = v[i] > range[1] ? v[i] : range[1];
    }
    pg__mem_free(v);
    return ok;
}

/* The two common confusions have messages of their own. */
static pg_status wrong_target(const pg__feed *f, size_t k, const pg__value *want,
                              const pg__dims *prediction, pg_err *err)
{
    const pg__array *a = f->targets[k].array;
    const pg__loss_kind loss = f->t->compiled.objectives[k].loss.kind;
    const pg__dims *have = &a->dims;
    const uint64_t classes = prediction->d[prediction->rank - 1];
    const int bare = have->rank > 1 && have->d[have->rank - 1] == 1;
    int32_t range[2];
    if (loss == PG_LOSS_categorical_crossentropy && have->rank + !bare == prediction->rank &&
        integer_range(a, range)) {
        (void)pg_fail(err, PG_E_MISMATCH,
                      "targets are integer classes (%d\xE2\x80\x93%d) but categorical_crossentropy "
                      "expects one-hot rows",
                      range[0], range[1]);
        pg_err_set(err, "loss", "sparse_categorical_crossentropy");
    } else if (loss == PG_LOSS_sparse_categorical_crossentropy && have->rank == prediction->rank &&
               have->d[have->rank - 1] == classes) {
        (void)pg_fail(err, PG_E_MISMATCH,
                      "targets are rows of %s numbers (one-hot) but "
                      "sparse_categorical_crossentropy expects integer classes",
                      PG_NUM(classes));
        pg_err_set(err, "loss", "categorical_crossentropy");
    } else {
        pg__dims any = want->shape;
        any.d[0] = PG_DIM_ANY;
        (void)pg_fail(err, PG_E_MISMATCH, "%s: \"%s\" is %s, output \"%s\" is compared with %s%s",
                      a->path, PG_SHOW(a->key), pg__dims_spoken(have).s,
                      PG_SHOW(f->targets[k].layer), PG_SHAPE(&any),
                      want->elem == PG_ELEM_INT ? " classes" : "");
    }
    return PG_E_MISMATCH;
}

/* Targets have the prediction's shape, or one class for each of its rows. */
static int target_fits(const pg__array *a, const pg__value *want)
{
    pg__dims have = a->dims;
    if (want->elem == PG_ELEM_INT && have.rank == want->shape.rank + 1 &&
        have.d[have.rank - 1] == 1)
        have.rank--;
    have.d[0] = want->shape.d[0];
    if (want->elem == PG_ELEM_REAL && have.rank + 1 == want->shape.rank &&
        want->shape.d[want->shape.rank - 1] == 1)
        have.d[have.rank++] = 1;
    return pg__dims_equal(&have, &want->shape);
}

static pg__cast cast_of(const pg_trainer *t, pg__elem elem)
{
    if (elem == PG_ELEM_INT)
        return PG_AS_I32;
    return t->devs.backend->real_bytes == sizeof(double) ? PG_AS_F64 : PG_AS_F32;
}

/* A different number of picture classes would otherwise train silently. */
static pg_status check_classes(const pg__feed *f, const pg__slot *target,
                               const pg__dims *prediction, pg_err *err)
{
    const uint64_t units = prediction->d[prediction->rank - 1], n = target->array->n_classes;
    const int any = pg__data_any_classes(f->data) && (n < units || units == 1);
    if (prediction->rank != 2 || n == units || (units == 1 && n == 2) || any)
        return PG_OK;
    (void)pg_fail(err, PG_E_MISMATCH, "%s: %s class%s of pictures, output \"%s\" has %s",
                  target->array->path, PG_NUM(n), n == 1 ? "" : "es", PG_SHOW(target->layer),
                  PG_NUM(units));
    pg_err_detail(err, "%s", pg_data_note(f->data, 0));
    if (n < units || units == 1)
        pg_err_set(err, "any_classes", "%s", "");
    else
        pg_err_set(err, "replace_head", "%llu", (unsigned long long)n);
    return PG_E_MISMATCH;
}

static pg_status fit_target(pg__feed *f, size_t k, const pg__program *p, pg_err *err)
{
    const pg__lowered *m = pg__program_model(p);
    const pg__dims *prediction = &m->tape.values[m->outputs[k]].shape;
    const pg__value *want = pg__program_target(p, k), *loss = pg__program_loss_value(p, k);
    const uint64_t n = want->shape.d[0], losses = pg__dims_elems(&loss->shape) / n;
    pg__slot *target = &f->targets[k], *weights = &f->weights[k];
    target->cast = cast_of(f->t, want->elem);
    target->row_elems = pg__dims_elems(&want->shape) / n;
    target->below = want->elem == PG_ELEM_INT ? prediction->d[prediction->rank - 1] : 0;
    if (f->t->compiled.objectives[k].loss.ignores)
        target->ignored = &f->t->compiled.objectives[k].loss.ignored;
    if (target->array->is_class && check_classes(f, target, prediction, err) != PG_OK)
        return PG_E_MISMATCH;
    if (target->array->is_class && want->elem == PG_ELEM_REAL && want->shape.rank == 2 &&
        want->shape.d[1] > 1) {
        target->one_hot = 1;
        target->below = want->shape.d[1];
    } else if (!target_fits(target->array, want)) {
        return wrong_target(f, k, want, prediction, err);
    }
    weights->cast = cast_of(f->t, PG_ELEM_REAL);
    weights->row_elems = losses;
    if (weights->array) {
        const uint64_t given = pg__array_row_elems(weights->array);
        if (given != 1 && given != losses)
            return pg_fail(err, PG_E_MISMATCH, "%s: weights of \"%s\" are %s, its losses %s",
                           weights->array->path, PG_SHOW(weights->layer),
                           pg__dims_spoken(&weights->array->dims).s, PG_SHAPE(&loss->shape));
    }
    return PG_OK;
}

/* ---- integers ---- */

pg_status pg__slot_check(const pg__slot *s, const int32_t *v, const uint64_t *rows, size_t n,
                         pg_err *err)
{
    const uint64_t each = s->one_hot ? 1 : s->row_elems;
    for (uint64_t i = 0; i < n * each; i++) {
        if ((v[i] >= 0 && (uint64_t)v[i] < s->below) || (s->ignored && v[i] == *s->ignored))
            continue;
        return pg_fail(
            err, PG_E_MISMATCH, "%s: row %s of \"%s\" holds %s %d, %s \"%s\" knows 0 to %s",
            s->array->path, PG_NUM(rows[i / each]), PG_SHOW(s->array->key),
            s->limited_by ? "the id" : "the class", v[i], s->limited_by ? "Embedding" : "output",
            PG_SHOW(s->limited_by ? s->limited_by : s->layer), PG_NUM(s->below - 1));
    }
    return PG_OK;
}

/* Ids that an Embedding reads directly from the input are rows of its table. */
static void limit_ids(pg__feed *f, const pg__lowered *m)
{
    const pg__tape *t = &m->tape;
    for (uint32_t i = 0; i < t->n_insts; i++) {
        const pg__inst *in = &t->insts[i];
        if (in->op != pg__op_of(PG_OP_embedding))
            continue;
        pg__val v = pg__in(t, in, 0);
        while (t->values[v].alias != PG_NO_VAL)
            v = t->values[v].alias;
        if (t->values[v].role != PG_INPUT || t->values[v].elem != PG_ELEM_INT)
            continue;
        pg__slot *s = &f->inputs[t->values[v].slot];
        const uint64_t n = t->values[pg__in(t, in, 1)].shape.d[0];
        if (s->below == 0 || n < s->below) {
            s->below = n;
            s->limited_by = f->t->net.leaves.v[in->origin].layer->name;
        }
    }
}

/* Checks before training if that is cheap; else each batch is checked when it is read. */
static pg_status look_through(const pg__feed *f, const pg__slot *s, pg_err *err)
{
    enum { AT_ONCE = 1024 };
    const uint64_t each = s->array ? pg__array_row_elems(s->array) : 0;
    uint64_t rows[AT_ONCE];
    pg_status st = PG_OK;
    if (s->below == 0 || pg__dim_mul(each, f->n_rows) > LOOK_THROUGH)
        return PG_OK;
    int32_t *v = pg__mem_array((size_t)each * AT_ONCE, sizeof *v);
    if (!v)
        return pg__nomem(err);
    for (uint64_t at = 0; at < f->n_rows; at += AT_ONCE) {
        const uint64_t n = f->n_rows - at < AT_ONCE ? f->n_rows - at : AT_ONCE;
        for (uint64_t i = 0; i < n; i++)
            rows[i] = f->first + at + i;
        PG_TRY(pg__array_read(s->array, rows, (size_t)n, PG_AS_I32, v, NULL, err));
        PG_TRY(pg__slot_check(s, v, rows, (size_t)n, err));
    }
done:
    pg__mem_free(v);
    return st;
}

pg_status pg__feed_fit(pg__feed *f, const pg__program *p, pg_err *err)
{
    const pg__lowered *m = pg__program_model(p);
    pg_status st = PG_OK;
    for (size_t k = 0; k < f->t->net.n_inputs; k++) {
        pg__slot *s = &f->inputs[k];
        s->cast = cast_of(f->t, m->tape.values[m->inputs[k]].elem);
        s->row_elems = pg__array_row_elems(s->array);
    }
    limit_ids(f, m);
    for (size_t k = 0; k < f->t->net.n_inputs; k++)
        PG_TRY(look_through(f, &f->inputs[k], err));
    for (size_t k = 0; k < f->t->net.n_outputs; k++) {
        if (!f->targets[k].array)
            continue;
        PG_TRY(fit_target(f, k, p, err));
        PG_TRY(look_through(f, &f->targets[k], err));
    }
done:
    return st;
}

/* ---- weights of classes ---- */

pg_status pg__feed_weigh_classes(pg__feed *f, const char *text, pg_err *err)
{
    if (f->t->net.n_outputs > 1)
        return pg_fail(err, PG_E_ARG,
                       "class weights are for models with one output; give weights of rows (w0)");
    for (const char *s = text; *s != '\0'; s += *s == ',') {
        char *end = NULL;
        const unsigned long c = strtoul(s, &end, 10);
        const char *stop = end + strcspn(end, ",");
        double w = 0;
        if (*s < '0' || *s > '9' || *end != '=' ||
            !pg__real_read(&w, end + 1, (size_t)(stop - end - 1)) || !(w >= 0) ||
            c >= PG_LIMIT_CLASSES)
            return pg_fail(err, PG_E_ARG, "class weights: \"%s\" is not CLASS=WEIGHT,...",
                           PG_SHOW(s));
        if (c >= f->n_class_weights) {
            double *more = pg__mem_array(c + 1, sizeof *more);
            if (!more)
                return pg__nomem(err);
            for (size_t i = 0; i <= c; i++)
                more[i] = i < f->n_class_weights ? f->class_weights[i] : (double)NAN;
            pg__mem_free(f->class_weights);
            f->class_weights = more;
            f->n_class_weights = c + 1;
        }
        f->class_weights[c] = w;
        s = stop;
    }
    return PG_OK;
}
