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

/* ---- states ---- */

/* Between trainer and `kept`, one after the other; *kept NULL: there are none yet. */
static pg_status keep_states(const pg_trainer *t, char **kept, pg_err *err)
{
    size_t n = 0;
    pg_status st = PG_OK;
    for (size_t k = 0; t->loop.states && k < t->net.built_params.n_states; k++)
        n += pg__states_bytes(t, k);
    *kept = n > 0 ? pg__mem_array(n, 1) : NULL;
    if (n > 0 && !*kept)
        return pg__nomem(err);
    n = 0;
    for (size_t k = 0; *kept && k < t->net.built_params.n_states && st == PG_OK; k++) {
        st =
            t->devs.backend->get(t->devs.dev, *kept + n, t->loop.states[k], pg__states_bytes(t, k));
        n += pg__states_bytes(t, k);
    }
    return pg__with_message(t, st, err);
}

static pg_status restore_states(pg_trainer *t, const char *kept, pg_err *err)
{
    size_t n = 0;
    pg_status st = PG_OK;
    if (!kept)
        return pg_trainer_reset_states(t, err);
    for (size_t k = 0; k < t->net.built_params.n_states && st == PG_OK; k++) {
        st = t->devs.backend->put(t->devs.dev, t->loop.states[k], kept + n, pg__states_bytes(t, k));
        n += pg__states_bytes(t, k);
    }
    return pg__with_message(t, st, err);
}

/* ---- two passes ---- */

typedef struct array {
    float *values;               /* of the first pass; NULL: not of floats */
    uint64_t row_elems, classes; /* classes: 1 if they are none */
    double changes, numbers;     /* sums of squares */
    double max_change, max_given;
} array;

typedef struct compared {
    array *arrays;
    size_t n;
    int is_second;
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

/* The largest of some magnitudes; NaN stays. */
static double larger(double most, double x)
{
    return fabs(x) <= most || isnan(most) ? most : fabs(x);
}

static void compare(pg_quantized *out, array *a, const float *was, const float *is, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double change = (double)was[i] - (double)is[i];
        a->max_change = larger(a->max_change, change);
        a->max_given = larger(a->max_given, (double)is[i]);
        a->changes += change * change;
        a->numbers += (double)is[i] * (double)is[i];
    }
    for (size_t i = 0; a->classes > 1 && i < n; i += a->classes) {
        const size_t at = largest(is + i, a->classes);
        out->n_choices++;
        out->n_same += at == largest(was + i, a->classes) && !isnan(was[i + at]);
    }
}

static pg_status rows(void *user, size_t output, uint64_t first, size_t n_rows, const void *values,
                      pg_err *err)
{
    compared *c = user;
    array *a = &c->arrays[output];
    const size_t n = n_rows * (size_t)a->row_elems;
    (void)err;
    if (!a->values)
        return PG_OK;
    float *at = a->values + first * a->row_elems;
    if (c->is_second)
        compare(c->out, a, at, values, n);
    else
        memcpy(at, values, n * sizeof *at);
    return PG_OK;
}

/* The output that changes most; NaN is more than any number. */
static void report(const pg_trainer *t, const compared *c)
{
    pg_quantized *out = c->out;
    for (size_t k = 0; k < c->n; k++) {
        const array *a = &c->arrays[k];
        const double change =
            a->changes > 0 || isnan(a->changes) ? sqrt(a->changes / a->numbers) : 0;
        if (!a->values || (out->output && change <= out->rel_change) || isnan(out->rel_change))
            continue;
        out->output = t->net.output_names[k];
        out->max_change = a->max_change;
        out->max_given = a->max_given;
        out->rel_change = change;
    }
    out->n_products = pg_trainer_n_quantized(t);
}

pg_status pg_predict_quantized(pg_trainer *t, pg_data *data, const pg_predict_opts *opts,
                               pg_quantized *out, pg_err *err)
{
    pg_predict_opts each = opts ? *opts : (pg_predict_opts){0};
    compared c = {.out = out};
    const pg_predictions to = {.user = &c, .begin = begin, .rows = rows};
    char *states = NULL;
    pg_status st = PG_OK;
    *out = (pg_quantized){0};
    if (!t->net.quantizes)
        PG_FAIL(PG_E_ARG, "quantize: the trainer was opened without it");
    PG_TRY(keep_states(t, &states, err));
    for (c.is_second = 0; c.is_second < 2; c.is_second++) {
        each.unquantized = c.is_second;
        PG_TRY(pg_predict(t, data, &each, &to, err));
        PG_TRY(restore_states(t, states, err));
    }
    report(t, &c);
done:
    for (size_t k = 0; k < c.n; k++)
        pg__mem_free(c.arrays[k].values);
    pg__mem_free(c.arrays);
    pg__mem_free(states);
    return st;
}

size_t pg_trainer_n_quantized(const pg_trainer *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->programs.n_built; i++)
        if (t->programs.built[i].in_int8)
            n = pg__program_n_in_int8(t->programs.built[i].program);
    return n;
}
