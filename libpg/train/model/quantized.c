/* quantized.c - predictions in int8: whether they are supported, and how they differ from those in
 * float32. */
#include "train/model/quantized.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"

pg_status pg__quantized_open(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    const pg__backend *b = t->devs.backend;
    const int has_int8 = b->has_int8 ? b->has_int8(t->devs.dev) : -1;
    if (!o->quantize)
        return PG_OK;
    if (strcmp(o->quantize, "int8") != 0)
        return pg_fail(err, PG_E_ARG, "quantize: %s is not int8", PG_SHOW(o->quantize));
    if (has_int8 < 0) {
        (void)pg_fail(err, PG_E_UNSUPPORTED, "quantize: %s has no products of int8, CPUs have",
                      b->name);
        pg_err_set(err, "devices", "%s", "cpu:0");
        return PG_E_UNSUPPORTED;
    }
    if (t->net.steps_first)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "quantize: a scale is that of a row, and layers with time_major keep the "
                       "rows of a step together");
    t->net.quantizes = 1;
    return has_int8 ? PG_OK
                    : pg__strs_printf(&t->report.notes, err,
                                      "int8 is slower than float32 here: this processor has no "
                                      "VNNI instructions");
}

/* ---- two passes ---- */

typedef struct array {
    float *values;               /* of the first pass; NULL: not of floats */
    uint64_t row_elems, classes; /* classes: 1 if they are none */
} array;

typedef struct compared {
    array *arrays;
    size_t n;
    int is_second;
    double changes, numbers; /* sums of squares */
    pg_quantized *out;
} compared;

static pg_status begin(void *user, const pg_weight *outputs, size_t n, pg_err *err)
{
    compared *c = user;
    if (c->is_second)
        return PG_OK;
    c->arrays = pg__mem_array(n, sizeof *c->arrays);
    c->n = c->arrays ? n : 0;
    c->out->n_rows = n > 0 ? outputs[0].dims[0] : 0;
    for (size_t k = 0; k < c->n; k++) {
        const pg_weight *w = &outputs[k];
        if (w->dtype != PG_F32 || w->n_bytes == 0)
            continue;
        c->arrays[k].row_elems = w->n_bytes / sizeof(float) / w->dims[0];
        c->arrays[k].classes = w->rank == 2 ? w->dims[1] : 1;
        c->arrays[k].values = pg__mem_array(1, (size_t)w->n_bytes);
        if (!c->arrays[k].values)
            return pg__nomem(err);
    }
    return c->arrays ? PG_OK : pg__nomem(err);
}

static size_t largest(const float *v, size_t n)
{
    size_t at = 0;
    for (size_t i = 1; i < n; i++)
        at = v[i] > v[at] ? i : at;
    return at;
}

/* The largest of some numbers; NaN stays. */
static double larger(double most, double x)
{
    return fabs(x) <= most || isnan(most) ? most : fabs(x);
}

static void compare(compared *c, const array *a, const float *was, const float *is, size_t n)
{
    pg_quantized *out = c->out;
    for (size_t i = 0; i < n; i++) {
        const double change = (double)was[i] - (double)is[i];
        out->max_change = larger(out->max_change, change);
        out->max_given = larger(out->max_given, (double)is[i]);
        c->changes += change * change;
        c->numbers += (double)is[i] * (double)is[i];
    }
    for (size_t i = 0; a->classes > 1 && i < n; i += a->classes) {
        out->n_choices++;
        out->n_same += largest(was + i, a->classes) == largest(is + i, a->classes);
    }
}

static pg_status rows(void *user, size_t output, uint64_t first, size_t n_rows, const void *values,
                      pg_err *err)
{
    compared *c = user;
    const array *a = &c->arrays[output];
    const size_t n = n_rows * (size_t)a->row_elems;
    (void)err;
    if (!a->values)
        return PG_OK;
    float *at = a->values + first * a->row_elems;
    if (c->is_second)
        compare(c, a, at, values, n);
    else
        memcpy(at, values, n * sizeof *at);
    return PG_OK;
}

static void count_products(const pg_trainer *t, pg_quantized *out)
{
    for (size_t i = 0; i < t->programs.n_built; i++) {
        const pg__built *b = &t->programs.built[i];
        if (b->in_int8 && b->pass == PG_PREDICTS)
            out->n_products = pg__program_n_in_int8(b->program);
    }
}

pg_status pg_predict_quantized(pg_trainer *t, pg_data *data, const pg_predict_opts *opts,
                               pg_quantized *out, pg_err *err)
{
    pg_predict_opts each = opts ? *opts : (pg_predict_opts){0};
    compared c = {.out = out};
    const pg_predictions to = {.user = &c, .begin = begin, .rows = rows};
    pg_status st = PG_OK;
    *out = (pg_quantized){0};
    if (!t->net.quantizes)
        PG_FAIL(PG_E_ARG, "quantize: the trainer was opened without it");
    for (c.is_second = 0; c.is_second < 2; c.is_second++) {
        each.unquantized = c.is_second;
        PG_TRY(pg_trainer_reset_states(t, err));
        PG_TRY(pg_predict(t, data, &each, &to, err));
    }
    PG_TRY(pg_trainer_reset_states(t, err));
    count_products(t, out);
    out->rel_change = c.numbers > 0 ? sqrt(c.changes / c.numbers) : 0;
done:
    for (size_t k = 0; k < c.n; k++)
        pg__mem_free(c.arrays[k].values);
    pg__mem_free(c.arrays);
    return st;
}
